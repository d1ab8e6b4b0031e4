"""Predicted times of measured kernels: within 15 percent, on some rows of each suite.

`benchmarks/prediction.py` does the same for all rows.
"""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TOLERANCE = 0.15


@pytest.fixture
def prediction(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("prediction")


@pytest.mark.parametrize("k", [256, 1024, 4096])
def test_products_take_the_time_that_was_measured(prediction: ModuleType, k: int):
    rows = prediction.rows(("gemm",))
    row = next(r for r in rows if r["case"]["k"] == k and r["case"]["dtype"] == "fp16")
    found = prediction.compare(row)
    assert abs(found.error) <= TOLERANCE, prediction.line(found)
