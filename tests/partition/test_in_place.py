"""Loads through a descriptor that the kernel also stores through: who may load ahead."""

from __future__ import annotations

import pytest

import tawa
import tawa.language as tl
from tawa.driver.compilation import Compilation
from tawa.frontend import lower_to_tile, parse_argument
from tawa.ir.decisions.decision import of_kind
from tawa.ir.decisions.roles import NotSpecialised, Specialised


@tawa.jit
def same_blocks(x, n, B: tl.constexpr):
    for i in range(n):
        x.store([i * B], x.load([i * B]) * 2)


@tawa.jit
def strided_loop(x, n, B: tl.constexpr):
    for at in range(tl.program_id(0) * B, n, B):
        x.store([at], x.load([at]) * 2)


@tawa.jit
def two_loops(x, n, B: tl.constexpr):
    for i in range(n):
        for j in range(n):
            x.store([i * B, j * B], x.load([i * B, j * B]) * 2)


@tawa.jit
def loads_first(x, n, B: tl.constexpr):
    first, second = x.load([0]), x.load([n])
    x.store([0], second)
    x.store([n], first)


@tawa.jit
def next_block(x, n, B: tl.constexpr):
    for i in range(n):
        x.store([(i + 1) * B], x.load([i * B]))


@tawa.jit
def same_block_again(x, n, B: tl.constexpr):
    for i in range(n):
        x.store([0], x.load([0]) + i)


@tawa.jit
def overlapping_blocks(x, n, B: tl.constexpr):
    for i in range(n):
        x.store([i], x.load([i]) * 2)


@tawa.jit
def one_loop_of_two(x, n, B: tl.constexpr):
    for i in range(n):
        for j in range(n):
            x.store([j * B, n], x.load([j * B, n]) * 2 + i)


@tawa.jit
def stored_before(x, n, B: tl.constexpr):
    x.store([0], tl.zeros([B], tl.float32))
    x.store([B], x.load([n]))


@tawa.jit
def in_a_while(x, n, B: tl.constexpr):
    i = 0
    while i < n:
        x.store([i * B], x.load([i * B]))
        i += 1


def partition(kernel: tawa.Kernel) -> Compilation:
    rank = 2 if kernel in (two_loops, one_loop_of_two) else 1
    block = "x".join(["32"] * rank)
    request = kernel.request(f"desc<f32,{block}>", "i32", B=32)
    types = [parse_argument(text) for text in request.types.values()]
    work = Compilation(request.options)
    work.level("aref", work.level("tile", lower_to_tile(kernel, types, request.constants)))
    return work


@pytest.mark.parametrize("kernel", [same_blocks, strided_loop, two_loops, loads_first], ids=str)
def test_a_role_loads_ahead(kernel: tawa.Kernel) -> None:
    assert of_kind(partition(kernel).decided.made, Specialised)


@pytest.mark.parametrize(
    "kernel",
    [next_block, same_block_again, overlapping_blocks, one_loop_of_two, stored_before, in_a_while],
    ids=str,
)
def test_one_role_keeps_the_order(kernel: tawa.Kernel) -> None:
    (found,) = of_kind(partition(kernel).decided.made, NotSpecialised)
    assert "may read what the program has stored" in found.why
    assert found.span is not None
