"""A single warp's lanes meet without a barrier."""

from __future__ import annotations

import pytest
from simulation import Arrays, check, values

import tawa
import tawa.language as tl
from tawa.runtime import sass


@tawa.jit
def turned(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at[:, None] * N + at[None, :])
    for _ in range(3):
        v = v * 0.5 + tl.trans(v)
    tl.store(y + at[:, None] * N + at[None, :], v)


@pytest.mark.parametrize(("warps", "barriers"), [(1, False), (4, True)])
def test_lanes_of_a_warp_exchange_without_a_barrier(warps: int, barriers: bool) -> None:
    arrays = Arrays()
    x, y = arrays.random("f32", 32, 32), arrays.output("f32", 32, 32)
    expected = values(x)
    for _ in range(3):
        expected = expected * 0.5 + expected.T
    compiled = check(
        turned, (1,), [x, y], {1: expected}, 1e-5, ("tile", "hopper", "ptx"), N=32, num_warps=warps
    )  # fmt: skip
    assert "named_barrier_sync" in compiled.stages["hopper"] or warps > 1
    code = sass.disassemble(compiled.cubin)[compiled.spec.entry]
    assert (code.count("BAR") > 0) == barriers
