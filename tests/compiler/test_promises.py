"""What `tl.multiple_of` and its like promise makes accesses wide where nothing else does."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.frontend.source.errors import BadArgument


@tawa.jit
def copied_rows(x, y, stride, M, N: tl.constexpr, HOW: tl.constexpr):
    row = tl.program_id(0) * 16 + tl.arange(0, 16)
    column = tl.arange(0, N)
    if HOW == "stride":
        stride = tl.multiple_of(stride, 8)
    if HOW == "assume":
        tl.assume((stride % 8 == 0) & (M > 0))
    offsets = row[:, None] * stride + column[None, :]
    if HOW == "pointers":
        at = tl.max_contiguous(tl.multiple_of(x + offsets, (1, 16)), (1, 8))
    else:
        at = x + offsets
    mask = row[:, None] < M
    tl.store(y + row[:, None] * N + column[None, :], tl.load(at, mask=mask, other=0.0))


@tawa.jit
def wrapped(x, y, M, N: tl.constexpr, HOW: tl.constexpr):
    at = (tl.program_id(0) * N + tl.arange(0, N)) % M
    if HOW == "runs":
        at = tl.max_contiguous(tl.multiple_of(at, 8), 8)
    mask = tl.arange(0, N) < M
    if HOW == "runs":
        mask = tl.max_constancy(mask, 8)
    tl.store(y + tl.arange(0, N), tl.load(x + at, mask=mask, other=0.0), mask=mask)


def widths(compiled: Any) -> list[int]:
    """Elements of each load through pointers, and of stores of less than 16 bytes."""
    found = re.findall(r"Vector<(\w+), (\d+)>\*>", compiled.stages["cu"])
    return [int(count) * (2 if type_ == "u32" else 1) for type_, count in found]


@pytest.mark.parametrize(
    ("how", "load"), [("nothing", 1), ("stride", 8), ("assume", 8), ("pointers", 8)]
)
def test_rows_whose_stride_is_promised(how: str, load: int) -> None:
    types = "*f16:16", "*f16:16", "i32", "i32"
    assert widths(copied_rows.compile(*types, N=64, HOW=how))[0] == load


@pytest.mark.parametrize(("how", "width"), [("nothing", 1), ("runs", 4)])
def test_runs_that_are_promised(how: str, width: int) -> None:
    compiled = wrapped.compile("*f32:16", "*f32:16", "i32", N=512, HOW=how)
    assert widths(compiled)[0] == width


def test_promises_change_no_result() -> None:
    x = np.random.default_rng(0).standard_normal((20, 72)).astype(np.float16)
    for how in ("nothing", "stride", "assume", "pointers"):
        y = np.zeros((32, 64), np.float16)
        copied_rows[(2,)](x, y, 72, 20, N=64, HOW=how)
        np.testing.assert_array_equal(y[:20], x[:, :64])
        assert not y[20:].any()


@tawa.jit
def wrong(x, N: tl.constexpr):
    i = tl.multiple_of(tl.arange(0, N)[None, :], (1, 2, 3))
    tl.store(x + i, i)


def test_a_promise_has_a_number_a_dimension() -> None:
    with pytest.raises(BadArgument, match=r"`tl\.multiple_of` of 2 dim"):
        wrong.compile("*i32", N=16)
