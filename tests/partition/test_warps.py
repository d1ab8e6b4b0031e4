"""How many warps roles get: more for tiles that no thread has registers for, and what a CTA has at most."""

from __future__ import annotations

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import WarpGroup
from tawa.ir.decisions.roles import MoreWarps
from tawa.partition.partition import NotSpecialisable
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


@tawa.jit
def described(a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, 32):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    c.store([0, 0], acc)


@pytest.mark.parametrize(("warps", "roles"), [(16, {"load", "math"}), (32, {"main"})])
def test_roles_have_no_more_warps_than_a_cta(warps: int, roles: set[str]) -> None:
    types = "desc<f16,16x32>", "desc<f16,64x32>", "desc<f32,16x64>", "i32"
    compiled = described.compile(*types, M=16, N=64, num_warps=warps)
    found = [op for op in compiled.module("aref").walk() if isinstance(op, WarpGroup)]
    assert {op.role.data for op in found} == roles
    assert sum(op.warps.value.data for op in found) <= 32
    assert compiled.spec.threads <= 1024


def test_asking_for_roles_beside_all_warps_of_a_cta_is_an_error() -> None:
    types = "desc<f16,16x32>", "desc<f16,64x32>", "desc<f32,16x64>", "i32"
    with pytest.raises(NotSpecialisable, match="no room for those of a loading role"):
        described.compile(*types, M=16, N=64, num_warps=32, specialize=True)
