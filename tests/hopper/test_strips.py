"""Elementwise ops that are written strip by strip: right, and never where stores may meet."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import Arrays, check, stored, values
from xdsl.dialects.builtin import f32
from xdsl.dialects.test import TestOp as Made

import tawa
import tawa.language as tl
from tawa.hopper.dialect.global_memory import GlobalLoad, GlobalStore
from tawa.hopper.dialect.text import STRIPS
from tawa.hopper.passes.strips import LEAST_OPS, LEAST_WIDTH, Run
from tawa.ir.elementwise import Map


@tawa.jit
def two(x, y, z, n, N: tl.constexpr):
    """Two results of a chain of functions, of elements that a mask lets through."""
    at = tl.arange(0, N)
    inside = at < n
    v = tl.load(x + at, mask=inside, other=0).to(tl.float32)
    e = tl.exp(-tl.abs(v)) + v * 0.5
    f = tl.where(v > 0, e * v, e - v)
    tl.store(y + at, e.to(tl.float16), mask=inside)
    tl.store(z + at, f / (e + 2), mask=inside)


@pytest.mark.parametrize(("kind", "n"), [("f16", 1024), ("f16", 1021), ("f32", 1024)])
def test_results_of_a_chain_are_stored_strip_by_strip(kind: str, n: int) -> None:
    arrays = Arrays()
    x, y, z = arrays.random(kind, n), arrays.output("f16", n), arrays.output("f32", n)
    v = values(x)
    e = np.exp(-np.abs(v)) + v * 0.5
    f = np.where(v > 0, e * v, e - v) / (e + 2)
    compiled = check(
        two, (1,), [x, y, z, n], {1: e, 2: f}, 1e-2, ("tile", "hopper", "ptx"), N=1024, num_warps=1
    )
    stores = [op for op in compiled.module("hopper").walk() if isinstance(op, GlobalStore)]
    first, second = (op.attributes[STRIPS] for op in stores)
    assert first == second
    width = 8 if kind == "f16" else LEAST_WIDTH
    assert f"for (int i = {width}; i <" in str(compiled.stages["cu"])


@tawa.jit
def shifted(x, y, N: tl.constexpr):
    """The second store writes over what the first has written, one element further on."""
    at = tl.arange(0, N)
    v = tl.load(x + at)
    w = tl.exp(v) * 2 + v
    tl.store(y + at + 1, w)
    tl.store(y + at, w * v + tl.abs(w))


def test_stores_to_one_array_keep_their_order() -> None:
    arrays, n = Arrays(), 512
    x, y = arrays.random("f32", n), arrays.output("f32", n + 1)
    v = values(x)
    w = np.exp(v) * 2 + v
    expected = np.append(w * v + np.abs(w), w[-1])
    compiled = check(
        shifted, (1,), [x, y], {1: expected}, 1e-4, ("tile", "hopper", "ptx"), N=n, num_warps=1
    )
    stores = [op for op in compiled.module("hopper").walk() if isinstance(op, GlobalStore)]
    first, second = (op.attributes.get(STRIPS) for op in stores)
    assert first is None or first != second


@tawa.jit
def picked(x, index, table, y, z, n, IN_PLACE: tl.constexpr, FAR: tl.constexpr, N: tl.constexpr):
    """Two results of elements and of what their numbers pick from a table."""
    at = tl.arange(0, N)
    inside = at < n
    v = tl.load(x + at, mask=inside, other=0)
    chosen = tl.load(index + at, mask=inside, other=0)
    w = tl.load(table + chosen, mask=inside, other=0)
    e = tl.exp(-tl.abs(v)) * w + v * 0.5
    if IN_PLACE:
        tl.store(x + at + FAR, e, mask=inside)
    else:
        tl.store(y + at, e, mask=inside)
    tl.store(z + at, tl.where(v > 0, e * v, e - w), mask=inside)


@pytest.mark.parametrize(("in_place", "far"), [(False, 0), (True, 0), (True, 1)])
def test_loads_are_strips_ahead_of_stores_that_are_elsewhere(*, in_place: bool, far: int) -> None:
    """What a load's address is loaded by is further ahead; wide loads in place come first."""
    arrays, n, size = Arrays(), 1021, 64
    x, table = arrays.random("f32", n + far), arrays.random("f32", size)
    index = stored(np.arange(n) * 37 % size, "i32")
    y, z = arrays.output("f32", n), arrays.output("f32", n)
    v, w = values(x)[:n], values(table)[index.view(np.ndarray)]
    e = np.exp(-np.abs(v)) * w + v * 0.5
    expected = {3: e, 4: np.where(v > 0, e * v, e - w)}
    if in_place:
        expected[0] = np.append(values(x)[:far], expected.pop(3))
    compiled = check(
        picked, (1,), [x, index, table, y, z, n], expected, 1e-4, ("tile", "hopper", "ptx"),
        IN_PLACE=in_place, FAR=far, N=1024, num_warps=1,
    )  # fmt: skip
    ops = list(compiled.module("hopper").walk())
    loads = [op.attributes.get(STRIPS) for op in ops if isinstance(op, GlobalLoad)]
    if in_place:
        assert loads == [None] * 3
        return
    store = next(op for op in ops if isinstance(op, GlobalStore)).attributes[STRIPS]
    number, width, none = store.get_values()
    assert none == 0
    ahead = [strips.get_values() for strips in loads]
    assert [tuple(a[:2]) for a in ahead] == [(number, width)] * 3
    assert ahead[1][2] == 2 * ahead[0][2] == 2 * ahead[2][2] > 0


@pytest.mark.parametrize(("registers", "functions", "expected"), [
    (8, LEAST_OPS, True), (8, LEAST_OPS - 1, False), (4, LEAST_OPS, False), (10, LEAST_OPS, False),
    (12, LEAST_OPS + 1, True),
])  # fmt: skip
def test_strips_pay_if_there_are_several_with_enough_in_each(
    registers: int, functions: int, expected: bool
) -> None:
    value = Made(result_types=[f32]).results[0]
    run = Run(registers, [Map("negf", [value]) for _ in range(functions)])
    run.ops.append(value.owner)  # pyright: ignore
    assert run.pays is expected
