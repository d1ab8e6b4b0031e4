"""Kernels as public collections have them, on a device: a test a case."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "workloads"))

from suite import cases
from worker import SUITE, Worker

pytestmark = pytest.mark.gpu

SECONDS = 60
"""Limit of one case: compile, launch, NumPy's reference."""


@pytest.mark.parametrize("name", cases())
def test_case(worker: Worker, name: str) -> None:
    assert worker.run(SUITE + name, SECONDS) == ""
