"""A kernel that breaks the device's context costs its own test only."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tawa.runtime import driver

sys.path.insert(0, str(Path(__file__).parents[1] / "workloads"))

from worker import Worker


@pytest.fixture(scope="session")
def worker() -> Generator[Worker]:
    """A process that runs workloads: one that hangs costs its own test only."""
    pytest.importorskip("torch")
    process = Worker()
    yield process
    process.stop()


@pytest.fixture(autouse=True)
def working_context() -> Iterator[None]:
    """After each test, leave the process if its context is broken.

    Under pytest-xdist a new worker takes over and the test counts as crashed; alone, all that
    follows would fail with the same error.
    """
    yield
    status = int(driver.bindings().cuCtxSynchronize()[0])
    if status not in (0, *driver.INVALID_CONTEXT):
        text = driver.describe_status(status)
        print(f"the device's context is broken: {text}", file=sys.stderr, flush=True)
        if "PYTEST_XDIST_WORKER" in os.environ:
            os._exit(70)
        pytest.exit(f"the device's context is broken: {text}", returncode=70)
