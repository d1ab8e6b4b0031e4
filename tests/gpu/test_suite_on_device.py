"""Kernels as public collections have them, on a device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

SCRIPT = Path(__file__).parents[1] / "workloads" / "suite_device.py"
SECONDS = 150
"""Limit of all cases: a few processes compile and run them."""


def test_every_case_is_right() -> None:
    pytest.importorskip("torch")
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    wrong = [line for line in done.stdout.splitlines() if "WRONG" in line]
    assert done.returncode == 0, "\n".join(wrong) or done.stderr[-2000:]
