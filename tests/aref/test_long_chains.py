"""Programs of many ops in a row: what a pass may need grows, its stack does not."""

import inspect
import sys

import tawa
import tawa.language as tl


@tawa.jit
def chain(x, N: tl.constexpr, M: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    for t in tl.static_range(M):
        v = v * 1.5 + tl.load(x + i + N * t)
    tl.store(x + i, v)


def test_a_long_unrolled_chain_gets_its_layouts_on_a_short_stack():
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 200)
    try:
        kernel = chain.compile("*fp32", N=128, M=100)
        assert str(kernel.module("hopper")).count("mulf") >= 100
    finally:
        sys.setrecursionlimit(before)
