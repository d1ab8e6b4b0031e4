"""Every example kernel on a device: numerics, and the same result at every launch.

A worker process runs them, so that a kernel that hangs costs one test and not the rest.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "workloads"))

from catalogue import ON_DEVICE
from worker import Worker

pytestmark = pytest.mark.gpu

SECONDS = 45
"""Limit of one workload: compile, three launches, NumPy's reference."""


@pytest.mark.parametrize("name", ON_DEVICE)
def test_workload(worker: Worker, name: str) -> None:
    assert worker.run(name, SECONDS) == ""
