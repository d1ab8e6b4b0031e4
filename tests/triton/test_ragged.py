"""Parts of a tensor's rows, read and written by themselves through one descriptor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate.interpret import hopper, tile
from tawa.triton.ragged import (
    NotRagged,
    atomic_add_ragged,
    create_ragged_descriptor,
    load_ragged,
    store_ragged,
)
from tawa.triton.target_info import cuda_capability_geq, is_cuda, is_hip


@tawa.jit
def double_parts(x, o, starts, B: tl.constexpr, ADD: tl.constexpr):
    part = tl.program_id(0)
    first = tl.load(starts + part)
    size = tl.load(starts + part + 1) - first
    for row in range(0, size, B):
        block = load_ragged(x, first, size, [row, 0])
        if ADD:
            atomic_add_ragged(o, first, size, [row, 0], block)
        else:
            store_ragged(o, first, size, [row, 0], block * 2)


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("level", ["tile", "hopper"])
def test_parts_end_where_they_end(level: str, add: bool) -> None:
    x = np.arange(22 * 16, dtype=np.float32).reshape(22, 16)
    o = np.full_like(x, 7)
    starts = np.array([0, 5, 5, 21], np.int32)  # the last row is in no part
    given = [create_ragged_descriptor(a, [8, 16]) for a in (x, o)]
    compiled = double_parts.compile(*given, starts, 8, add)
    run: Any = {"tile": tile.run, "hopper": hopper.run}[level]
    run(compiled.module(level), (3,), [*given, starts])
    np.testing.assert_array_equal(o[:21], x[:21] + 7 if add else x[:21] * 2)
    assert (o[21] == 7).all()


@tawa.jit
def what_it_is(o):
    if is_cuda() and cuda_capability_geq(9) and not cuda_capability_geq(10) and not is_hip():
        tl.store(o, 1)


def test_kernels_ask_what_they_are_compiled_for() -> None:
    o = np.zeros(1, np.int32)
    what_it_is[(1,)](o)
    assert o[0] == 1


def test_the_last_dimension_is_not_ragged() -> None:
    with pytest.raises(NotRagged, match="ragged"):
        create_ragged_descriptor(np.zeros((64, 64), np.float16), [16, 16], ragged_dim=-1)
