"""How often a loop runs and what its counter is, beside Python's `range`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tawa.base.errors import TawaError
from tawa.frontend.source.errors import BadArgument, UnsupportedSyntax

TEXT = """
def kernel(bounds, out, M: tl.constexpr):
    first = tl.load(bounds)
    last = tl.load(bounds + 1)
    step = tl.load(bounds + 2)
    n = 0
    for i in RANGE:
        if n < M:
            tl.store(out + n, i)
        n += 1
    tl.store(out + M, n.to(out.dtype.element_ty))
"""
TYPES = ["int32", "uint32", "uint64", "int16"]


def turns(launch: Any, define: Any, how: str, kind: str, *bounds: int) -> list[int]:
    """The counters, in order; their number is found twice."""
    most = 16
    given, out = np.array(bounds, kind), np.zeros(most + 1, kind)
    launch(define(TEXT.replace("RANGE", how)), (1,), given, out, M=most)
    return [int(v) for v in out[: int(out[most])]]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("first", "last", "step"), [(3, 12, 4), (3, 11, 4), (5, 5, 1), (7, 2, 3)])
def test_numbers_of_memory(
    launch: Any, define: Any, kind: str, first: int, last: int, step: int
) -> None:
    if kind == "uint64" or kind[0] == "i" or first < last:
        found = turns(launch, define, "range(first, last, step)", kind, first, last, step)
        assert found == list(range(first, last, step))


@pytest.mark.parametrize("kind", ["int32", "uint32"])
@pytest.mark.parametrize("step", [-3, 2])
@pytest.mark.parametrize(("first", "last"), [(9, 2), (2, 9), (8, 2)])
def test_steps_that_are_known(
    launch: Any, define: Any, kind: str, first: int, last: int, step: int
) -> None:
    found = turns(launch, define, f"range(first, last, {step})", kind, first, last, 0)
    assert found == list(range(first, last, step))


@pytest.mark.parametrize(
    ("how", "expected"),
    [("range(last)", [0, 1, 2, 3]), ("range(1, last)", [1, 2, 3]), ("tl.range(last)", [0, 1, 2, 3]),
     ("tl.range(0, last, 2, num_stages=3)", [0, 2]), ("tl.static_range(3)", [0, 1, 2]),
     ("tl.static_range(1, 8, 3)", [1, 4, 7]), ("tl.static_range(5, 0, -2)", [5, 3, 1]),
     ("(4, 2, 9)", [4, 2, 9])],
)  # fmt: skip
def test_ways_to_write_a_range(launch: Any, define: Any, how: str, expected: list[int]) -> None:
    assert turns(launch, define, how, "int32", 0, 4, 1) == expected


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [("range(0, last, 0)", BadArgument, "must not be 0"),
     ("abs(last)", UnsupportedSyntax, "iterates over a range"), ("last", UnsupportedSyntax, "iterates over a range"),
     ("tl.static_range(last)", TawaError, "static_range"),
     ("tl.cdiv(last, 2)", UnsupportedSyntax, "iterates over a range"),
     ("range(0.5)", TawaError, "range")],
)  # fmt: skip
def test_what_is_no_range(launch: Any, define: Any, how: str, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        turns(launch, define, how, "int32", 0, 4, 1)


@pytest.mark.parametrize(
    ("wish", "attribute"),
    [("num_stages=3", "num_stages = 3"), ("flatten=True", "flatten = true"),
     ("flatten=False", None), ("num_stages=None", None), ("disable_licm=True", "disable_licm = true"),
     ("loop_unroll_factor=1", "loop_unroll_factor = 1")],
)  # fmt: skip
def test_wishes_that_are_made_are_kept(
    launch: Any, define: Any, wish: str, attribute: str | None
) -> None:
    text = TEXT.replace("RANGE", f"tl.range(0, last, {wish})")
    arrays = np.zeros(3, np.int32), np.zeros(17, np.int32)
    module, _ = launch.module(define(text), arrays, {"M": 16})
    found = re.findall(r"tawa\.(\w+) = (\w+)", str(module))
    names = [f"{name} = {value}" for name, value in found if name in wish]
    assert names == ([attribute] if attribute else [])


@pytest.mark.parametrize(
    ("how", "message"),
    [("tl.range(0, last, 1, row_ends=tl.arange(0, 4))", None),
     ("tl.range(4, last, -1, row_ends=tl.arange(0, 4))", "row_ends"),
     ("tl.range(0, last, 1, row_ends=last)", "row_ends"),
     ("tl.range(0, last, 1, row_ends=tl.zeros((4,), tl.float32))", "row_ends"),
     ("tl.range(0, last, 1, row_ends=tl.zeros((4, 4), tl.int32))", "row_ends"),
     ("tl.range(first.to(tl.uint32), last.to(tl.uint32), row_ends=tl.arange(0, 4))", "row_ends")],
)  # fmt: skip
def test_rows_end_at_signed_counters_that_grow(
    launch: Any, define: Any, how: str, message: str | None
) -> None:
    arrays = np.zeros(3, np.int32), np.zeros(17, np.int32)

    def made() -> str:
        module, _ = launch.module(define(TEXT.replace("RANGE", how)), arrays, {"M": 16})
        return str(module)

    if message is None:
        assert "row_ends" in made()
    else:
        with pytest.raises(BadArgument, match=message):
            made()
