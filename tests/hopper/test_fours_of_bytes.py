"""Numbers of 8 bits, four at a time: all of them widened, and what rounds to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulation import Recorded, stored
from workload import as_float

import tawa
import tawa.language as tl
from tawa.base.numerics import encode, round_to
from tawa.base.types import NAMES

KINDS = {"e4m3": tl.float8e4nv, "e5m2": tl.float8e5, "f16": tl.float16, "f32": tl.float32}


@tawa.jit
def converted(x, y, n, T: tl.constexpr):
    at = tl.arange(0, 256)
    v = tl.load(x + at, mask=at < n, other=0)
    tl.store(y + at, v.to(T), mask=at < n)


def by_level(source: str, values: np.ndarray, target: str, n: int) -> list[np.ndarray]:
    """The bits of all results, at the last two levels."""
    x = values.view(type(stored(np.zeros(1), source))) if source in KINDS else values
    x.element = source
    results = list[np.ndarray]()
    for level in ("hopper", "ptx"):
        y: Any = stored(np.zeros(256, np.float32), target)
        launch = Recorded(converted, (1,), (x, y, n), {"T": KINDS[target], "num_warps": 1})
        compiled = launch.compile()
        assert "_four(" in str(compiled.stages["cu"])
        launch.run(compiled, level)
        with np.errstate(invalid="ignore"):  # NaN that signals
            results.append(as_float(np.asarray(y), target))
    return results


@pytest.mark.parametrize("n", [256, 251])
@pytest.mark.parametrize("target", ["f16", "f32"])
@pytest.mark.parametrize("source", ["e4m3", "e5m2"])
def test_every_byte_is_widened(source: str, target: str, n: int) -> None:
    codes = np.arange(256, dtype=np.uint8)
    first, second = by_level(source, codes, target, n)
    exact = np.where(np.arange(256) < n, as_float(codes, source), 0)
    np.testing.assert_array_equal(first, exact)
    np.testing.assert_array_equal(second, exact)


@pytest.mark.parametrize("target", ["e4m3", "e5m2"])
def test_what_is_rounded_is_rounded_as_one_by_one(target: str) -> None:
    spread = np.random.default_rng(0).normal(size=256) * np.exp2(np.linspace(-20, 18, 256))
    values = spread.astype(np.float32)
    values[:6] = 0, -0.0, np.inf, -np.inf, np.nan, 448.5
    first, second = by_level("f32", values, target, 256)
    exact = as_float(encode(round_to(values, NAMES[target]), NAMES[target]), target)
    np.testing.assert_array_equal(first, exact)
    np.testing.assert_array_equal(second, exact)
