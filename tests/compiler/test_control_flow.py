"""Loads, products and stores under `if`, `while` and nested loops; scalars from memory."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import Arrays, block, check, stored, values

import tawa
import tawa.language as tl
from tawa.ir.decisions.roles import NotSpecialised

ROLES = pytest.mark.parametrize("specialize", [None, False])


@tawa.jit
def product_in_if(a, b, out, flag, K):
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        x = a.load([0, k])
        y = b.load([k, 0])
        if k > 0:
            acc = tl.dot(x, y, acc)
        else:
            acc += 1.0
    if flag > 0:
        out.store([0, 0], acc)


@tawa.jit
def loads_in_if(a, b, out, skipped, K):
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        if k != skipped:
            acc = tl.dot(a.load([0, k]), b.load([k, 0]), acc)
    out.store([0, 0], acc)


@tawa.jit
def loads_in_while(a, b, out, start, K):
    acc = tl.zeros((64, 64), tl.float32)
    k = start
    while k < K:
        acc = tl.dot(a.load([0, k]), b.load([k, 0]), acc)
        k += 64
    out.store([0, 0], acc)


@pytest.fixture
def operands(arrays: Arrays):
    a, b = arrays.random("f16", 64, 192), arrays.random("f16", 192, 64)
    out = arrays.output("f32", 64, 64)
    return a, b, out, [block(x, 64, 64) for x in (a, b, out)]


@ROLES
def test_product_in_if(operands, specialize: bool | None) -> None:
    a, b, _, described = operands
    expected = {2: values(a)[:, 64:] @ values(b)[64:] + 1}
    check(product_in_if, (1,), [*described, 3, 192], expected, specialize=specialize)


@ROLES
def test_loads_in_if(operands, specialize: bool | None) -> None:
    a, b, _, described = operands
    kept = np.r_[0:64, 128:192]
    expected = {2: values(a)[:, kept] @ values(b)[kept]}
    check(loads_in_if, (1,), [*described, 64, 192], expected, specialize=specialize)


@ROLES
def test_loads_in_while(operands, specialize: bool | None) -> None:
    a, b, _, described = operands
    expected = {2: values(a)[:, 64:] @ values(b)[64:]}
    check(loads_in_while, (1,), [*described, 64, 192], expected, specialize=specialize)


@tawa.jit
def gather_rows(indices, x, out):
    row = tl.load(indices + tl.program_id(0))
    out.store([tl.program_id(0) * 16, 0], x.load([row, 0]))


@pytest.mark.parametrize("specialize", [None, False, True])
def test_coordinates_from_memory(arrays: Arrays, specialize: bool | None) -> None:
    indices = stored(np.array([32.0, 0, 16]), "i32")
    x, out = arrays.random("f16", 48, 64), arrays.output("f16", 48, 64)
    expected = {2: values(x)[np.r_[32:48, 0:16, 16:32]]}
    arguments = [indices, block(x, 16, 64), block(out, 16, 64)]
    check(gather_rows, (3,), arguments, expected, specialize=specialize)


@tawa.jit
def gather_sum(indices, x, out, n):
    acc = tl.zeros((16, 64), tl.float32)
    for i in range(n):
        acc += x.load([tl.load(indices + i), 0])
    out.store([0, 0], acc)


@ROLES
@pytest.mark.parametrize("count", [4, 0])
def test_coordinates_from_memory_in_a_loop(
    arrays: Arrays, count: int, specialize: bool | None
) -> None:
    rows = [32, 0, 16, 0]
    x, out = arrays.random("f32", 48, 64), arrays.output("f32", 16, 64)
    total = sum((values(x)[r : r + 16] for r in rows[:count]), np.zeros((16, 64)))
    arguments = [stored(np.array(rows, float), "i32"), block(x, 16, 64), block(out, 16, 64), count]
    check(gather_sum, (1,), arguments, {2: total}, specialize=specialize)


@tawa.jit
def linked_list(x, out, n):
    acc = tl.zeros((16, 64), tl.float32)
    row = 0
    for _ in range(n):
        node = x.load([row * 16, 0])
        acc += node
        row = tl.max(node).to(tl.int32) % 3
    out.store([0, 0], acc)


def test_coordinates_from_tiles(arrays: Arrays) -> None:
    """The loading role cannot know them, so one role does everything."""
    x = stored(np.repeat([1.0, 2.0, 0.0], 16)[:, None] * np.ones((48, 64)), "f32")
    out = arrays.output("f32", 16, 64)
    arguments = [block(x, 16, 64), block(out, 16, 64), 4]
    compiled = check(linked_list, (1,), arguments, {1: np.full((16, 64), 1 + 2 + 0 + 1.0)})
    (found,) = compiled.decided(NotSpecialised)
    assert found.why == "the coordinates of a load depend on a tile that is loaded"


@tawa.jit
def scalars(x, y, n):
    total = 0.0
    for i in range(n):
        total += tl.load(x + i)
    tl.store(y, total)
    tl.store(y + 1, tl.load(x) * 2, mask=n > 3)


def test_scalars_through_pointers(arrays: Arrays) -> None:
    x, y = arrays.random("f32", 10), arrays.output("f32", 2)
    check(scalars, (1,), [x, y, 10], {1: [values(x).sum(), 2 * values(x)[0]]})


@tawa.jit
def branches(x, y, n):
    i = tl.program_id(0) * 128 + tl.arange(0, 128)
    v = tl.load(x + i)
    if tl.program_id(0) == 0:
        v = v * 2
        z = tl.sum(v)
    elif n > 3:
        v = v + tl.max(v)
        z = 1.0
    else:
        z = 0.0
    tl.store(y + i, v + z)


def test_branches_that_give_tiles(arrays: Arrays) -> None:
    x, y = arrays.random("f32", 256), arrays.output("f32", 256)
    first, second = 2 * values(x)[:128], values(x)[128:]
    expected = {1: np.concatenate([first + first.sum(), second + second.max() + 1])}
    check(branches, (2,), [x, y, 5], expected)


@tawa.jit
def grid_number(y):
    x = tl.program_id(0)
    rest = tl.program_id(1) + tl.num_programs(1) * tl.program_id(2)
    tl.store(y + x + tl.num_programs(0) * rest, x + 100 * rest)


@pytest.mark.parametrize("persistent", [None, True])
def test_grid_of_three_dimensions(arrays: Arrays, persistent: bool | None) -> None:
    y = arrays.output("i32", 24)
    expected = {0: np.arange(24) % 2 + 100 * (np.arange(24) // 2)}
    check(grid_number, (2, 3, 4), [y], expected, persistent=persistent)


@tawa.jit
def weighted(x, out, n, m):
    acc = tl.zeros((32, 64), tl.float32)
    for i in range(n):
        part = tl.zeros((32, 64), tl.float32)
        for j in range(m):
            part += x.load([i * 32, j * 64])
        acc += part * (i + 1)
    out.store([0, 0], acc)


@pytest.mark.parametrize(
    "options", [{}, {"specialize": False}, {"num_stages": 1}, {"num_stages": 2}], ids=str
)
def test_nested_loops(arrays: Arrays, options) -> None:
    x, out = arrays.random("f32", 96, 128), arrays.output("f32", 32, 64)
    parts = values(x).reshape(3, 32, 2, 64).sum(axis=2)
    expected = {1: sum((i + 1) * part for i, part in enumerate(parts))}
    check(weighted, (1,), [block(x, 32, 64), block(out, 32, 64), 3, 2], expected, **options)


@tawa.jit
def nothing(x):
    pass


def test_empty_kernel(arrays: Arrays) -> None:
    x = arrays.random("f32", 4)
    check(nothing, (1,), [x], {0: values(x).copy()})
