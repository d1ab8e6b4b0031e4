"""Tiles that no thread has registers for are spread over more warps than were asked for."""

from __future__ import annotations

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.ir.decisions.roles import MoreWarps
from tawa.partition.warps import ENOUGH, TOO_MANY


@tawa.jit
def centred(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(y + i, v - tl.sum(v) / n, mask=i < n)


@pytest.mark.parametrize(
    ("block", "warps", "found"),
    [(8192, 4, 4), (16384, 4, 4), (32768, 4, 16), (32768, 8, 8), (65536, 4, 32), (131072, 8, 32)],
)
def test_warps(block: int, warps: int, found: int) -> None:
    compiled = centred.compile("*f32:16", "*f32:16", "i32:16", BLOCK=block, num_warps=warps)
    assert compiled.spec.threads == 32 * found
    held = block // (32 * found)
    assert (found > warps) == (block >= TOO_MANY * 32 * warps)
    assert found == warps or found == 32 or held <= ENOUGH
    assert [d.warps for d in compiled.decided(MoreWarps)] == [found] * (found > warps)


def test_the_result_is_the_same() -> None:
    x = np.random.default_rng(0).standard_normal(33000).astype(np.float32)
    y = np.zeros_like(x)
    compiled = centred[(1,)](x, y, len(x), BLOCK=65536)
    np.testing.assert_allclose(y, x - x.mean(), atol=1e-5)
    assert compiled.spec.threads == 1024
