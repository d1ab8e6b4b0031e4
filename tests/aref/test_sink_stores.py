"""Stores of a recurrence that come while its products run, and those that keep their places."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import Arrays, check, stored, values
from xdsl.ir import Operation

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import DotIssue, DotWait

N, D = 64, 64
MODES = ("plain", "the same array", "counted", "read back", "last")


@tawa.jit
def states(w, k, v, h, new, T, MODE: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """`h += k.T (v - w h)` over blocks of rows; the state before and the difference are stored."""
    rows, columns = tl.arange(0, N)[:, None], tl.arange(0, D)[None, :]
    block = rows * D + columns
    state = tl.zeros((D, D), tl.float32)
    inner = tl.arange(0, D)[:, None] * D + columns
    for i in range(T):
        if MODE == "last":
            difference = tl.load(v + i * N * D + block)
        else:
            tl.store(h + i * D * D + inner, state.to(tl.float16))
            if MODE == "read back":
                more = tl.load(h + i * D * D + inner).to(tl.float32)
                state += more - more
            if MODE == "counted":
                tl.atomic_add(new + T * N * D, 0.0)
            found = tl.dot(tl.load(w + i * N * D + block), state.to(tl.float16))
            difference = (tl.load(v + i * N * D + block) - found).to(tl.float16)
        state = tl.dot(tl.load(k + i * N * D + block).T, difference, state)
        if MODE == "the same array":
            tl.store(v + i * N * D + block, difference)
        elif MODE == "last":
            tl.store(h + i * D * D + inner, state.to(tl.float16))
    tl.store(new + inner, state)


TYPES = ("*f16:16", "*f16:16", "*f16:16", "*f16:16", "*f32:16", "i32")


@tawa.jit
def sums(a, b, out, T, N: tl.constexpr, D: tl.constexpr):
    """Each sum of products, before the next is added to it."""
    rows, columns = tl.arange(0, N)[:, None], tl.arange(0, D)[None, :]
    block = rows * D + columns
    inner = tl.arange(0, D)[:, None] * D + columns
    state = tl.zeros((D, D), tl.float32)
    for i in range(T):
        tl.store(out + i * D * D + inner, state.to(out.dtype.element_ty))
        state = tl.dot(tl.load(a + i * N * D + block).T, tl.load(b + i * N * D + block), state)


@pytest.mark.parametrize(("element", "later"), [("f16", 1), ("f32", 0)])
def test_what_a_product_adds_to_is_not_read_behind_it(element: str, later: int):
    """The rounded copy is stored behind the product; what it is rounded from would be copied."""
    compiled = sums.compile("*f16:16", "*f16:16", f"*{element}:16", "i32", N=N, D=D, num_warps=4)
    assert under_way(compiled) == later
    issued = [op for op in compiled.module("aref").walk() if isinstance(op, DotIssue)]
    for op in issued:
        others = [use.operation for use in op.accumulator.uses if use.operation is not op]
        assert all(other.is_before_in_block(op) for other in others)


def under_way(compiled: tawa.Compiled) -> int:
    """Stores between what asks for products and the wait for them."""
    found, running = 0, False
    for op in compiled.module("aref").walk():
        if isinstance(op, DotIssue | DotWait):
            running = isinstance(op, DotIssue)
        found += running and _stores(op)
    return found


def _stores(op: Operation) -> bool:
    return op.name == "tile.store"


@pytest.mark.parametrize("mode", MODES)
def test_which_stores_come_later(mode: str):
    compiled = states.compile(*TYPES, MODE=mode, N=N, D=D, num_warps=4)
    assert under_way(compiled) == (mode in ("plain", "the same array"))


@pytest.mark.parametrize("mode", MODES)
def test_what_is_stored_is_the_same(mode: str):
    blocks = 3
    arrays = Arrays()
    drawn = [arrays.random("f16", blocks * N, D) for _ in range(3)]
    w, k, v = (stored(values(array) / 10, "f16") for array in drawn)
    numbers = [values(array) for array in (w, k, v)]
    h, new = arrays.output("f16", blocks, D, D), arrays.output("f32", blocks * N * D + 1)
    state, before = np.zeros((D, D)), []
    for i in range(blocks):
        part = slice(i * N, i * N + N)
        if mode != "last":
            before.append(state)
        first, second, third = (array[part] for array in numbers)
        state = state + second.T @ (third - (0 if mode == "last" else first @ state))
        if mode == "last":
            before.append(state)
    check(
        states, (1,), [w, k, v, h, new, blocks], {3: np.stack(before)}, 2e-2,
        ("tile", "hopper"), MODE=mode, N=N, D=D, num_warps=4,
    )  # fmt: skip
