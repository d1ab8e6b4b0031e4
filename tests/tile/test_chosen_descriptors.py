"""Descriptors that a loop carries or a branch chooses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate.interpret import aref, hopper, tile

RUNS = {"tile": tile.run, "aref": aref.run, "hopper": hopper.run}


@tawa.jit
def in_turns(a, b, o, n):
    total = tl.zeros((16, 32), tl.float32)
    for i in range(n):
        total += a.load([i * 16, 0]) * (i + 1)
        a, b = b, a
    o.store([0, 0], total)


@tawa.jit
def by_a_branch(a, b, o, n):
    total = tl.zeros((16, 32), tl.float32)
    for i in range(n):
        tiles = b
        if i % 2 == 0:
            tiles = a
        total += tiles.load([i * 16, 0]) * (i + 1)
    o.store([0, 0], total)


@tawa.jit
def of_three(a, b, o, n):
    total = tl.zeros((16, 32), tl.float32)
    tiles = a
    i = 0
    while i < n:
        total += tiles.load([i * 16, 0]) * (i + 1)
        if i % 2 == 0:
            tiles = b
        else:
            tiles = a
        i += 1
        if i > 8:
            tiles = o
    tiles = o
    tiles.store([0, 0], total)


@pytest.mark.parametrize("specialize", [None, False], ids=["roles", "one role"])
@pytest.mark.parametrize("kernel", [in_turns, by_a_branch, of_three])
def test_what_is_chosen_is_accessed(kernel: tawa.Kernel, specialize: bool | None) -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, (64, 32)).astype(np.float32) for _ in range(2))
    expected = sum((a, b)[i % 2][16 * i : 16 * i + 16] * (i + 1) for i in range(4))
    describe = tawa.TensorDescriptor.from_tensor
    for level, run in RUNS.items():
        o = np.zeros((16, 32), np.float32)
        named: dict[str, Any] = {
            x: describe(y, [16, 32]) for x, y in zip("abo", (a, b, o), strict=True)
        }
        named["n"] = 4
        compiled = kernel.compile(**named, specialize=specialize)
        run(compiled.module(level), (1,), [named[name] for name in compiled.spec.arguments])
        np.testing.assert_array_equal(o, expected, err_msg=level)


@tawa.jit
def made_inside(x, y, o, n):
    if n > 3:
        tiles = tl.make_tensor_descriptor(x, [64, 64], [64, 1], [64, 64], "nan")
    else:
        tiles = tl.make_tensor_descriptor(y, [64, 64], [64, 1], [64, 64])
    tl.make_tensor_descriptor(o, [64, 64], [64, 1], [64, 64]).store([0, 0], tiles.load([0, 0]))


def test_what_is_made_where_it_is_chosen_with_another_padding_is_an_error() -> None:
    with pytest.raises(tawa.TawaError, match="made in the loop or branch") as found:
        made_inside.compile("*f16:16", "*f16:16", "*f16:16", "i32")
    assert found.value.span is not None
