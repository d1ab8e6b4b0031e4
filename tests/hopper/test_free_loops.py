"""Which loops the assembler may unroll: those that load and add up, and do nothing else."""

from __future__ import annotations

import pytest
from simulation import Arrays, check, values

import tawa
import tawa.language as tl


@tawa.jit
def totals(x, y, z, n, BLOCK: tl.constexpr, STORES: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < n, other=0).to(tl.float32)
        total += v
        if STORES:
            tl.store(z + at, v * 2, mask=at < n)
    tl.store(y, tl.sum(total, 0))


@pytest.mark.parametrize("stores", [False, True])
def test_loops_that_only_load_are_left_to_the_assembler(stores: bool) -> None:
    arrays, n = Arrays(), 1000
    x, y, z = arrays.random("f16", n), arrays.output("f32", 1), arrays.output("f32", n)
    expected = {1: values(x).sum(keepdims=True)} | ({2: values(x) * 2} if stores else {})
    compiled = check(
        totals, (1,), [x, y, z, n], expected, 1e-3, ("tile", "hopper", "ptx"),
        BLOCK=256, STORES=stores, num_warps=1,
    )  # fmt: skip
    assert ("#pragma unroll 1\n" in str(compiled.stages["cu"])) == stores
