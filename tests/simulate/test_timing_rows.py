"""Predicted times of measured kernels: within 15 percent, on some rows of each suite.

`benchmarks/prediction.py` does the same for all rows.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TOLERANCE = 0.15


@pytest.fixture
def prediction(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("prediction")


def chosen(module: ModuleType, suite: str, part: dict[str, object]) -> Iterator[dict]:
    """The suite's rows whose case contains `part`, one for each configuration."""
    seen = set()
    for row in module.rows((suite,)):
        case = row["case"]
        if all(case.get(key) == value for key, value in part.items()) and row["config"] not in seen:
            seen.add(row["config"])
            yield row


@pytest.mark.parametrize("k", [256, 1024, 8192])
def test_products_take_the_time_that_was_measured(prediction: ModuleType, k: int):
    rows = list(chosen(prediction, "gemm", {"k": k, "dtype": "fp16"}))
    assert rows
    for row in rows:
        found = prediction.compare(row)
        assert abs(found.error) <= TOLERANCE, prediction.line(found)
