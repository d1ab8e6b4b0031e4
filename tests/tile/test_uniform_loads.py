"""Loads from one address are done once; those from several are left alone."""

from __future__ import annotations

import numpy as np
import pytest

import tawa
import tawa.language as tl


@tawa.jit
def scaled(x, scales, y, N, LIMIT, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    scale = tl.load(scales + i // GROUP, mask=i // GROUP < LIMIT, other=1.0)
    tl.store(y + i, tl.load(x + i) * scale)


def loads(group: int, block: int = 128) -> list[str]:
    """Types that a kernel loads."""
    types = ["*f32:16"] * 3 + ["i32"] * 2
    module = scaled.compile(*types, group, block).module("aref")
    return [str(op.results[0].type) for op in module.walk() if op.name == "tile.load"]


def test_scales_of_whole_tiles_are_one_number() -> None:
    assert loads(128) == ["f32", "tensor<128xf32>"]
    assert loads(256) == ["f32", "tensor<128xf32>"]


@pytest.mark.parametrize("group", [1, 64, 96])
def test_several_scales_a_tile_stay(group: int) -> None:
    assert loads(group) == ["tensor<128xf32>"] * 2


@pytest.mark.parametrize("group", [128, 64])
def test_what_is_loaded_is_right(group: int) -> None:
    """Masked scales are ones, whether a number is loaded or a tile."""
    x, scales = np.arange(512, dtype=np.float32), np.arange(2, 10, dtype=np.float32)
    y = np.zeros(512, np.float32)
    scaled[(4,)](x, scales, y, 512, 3, GROUP=group, BLOCK=128)
    factors = np.where(np.arange(512) // group < 3, scales[np.arange(512) // group], 1)
    assert np.array_equal(y, x * factors)


@tawa.jit
def block_scaled(x, w, s, y, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        a = tl.load(x + m[:, None] * K + (i * BK + k)[None, :])
        b = tl.load(w + n[None, :] * K + (i * BK + k)[:, None])
        acc += tl.dot(a, b) * tl.load(s + (n // BN) * tl.cdiv(K, BK) + i)[None, :]
    tl.store(y + m[:, None] * BN + n[None, :], acc)


def test_a_scale_beside_products_is_loaded_once_and_ahead() -> None:
    """Without it, each thread loads the number for each of its columns."""
    types = ["*f16:16", "*f16:16", "*f32:16", "*f32:16", "i32:16"]
    compiled = block_scaled.compile(*types, 64, 64, 64)
    names = [op.name for op in compiled.module("hopper").walk()]
    assert names.count("hopper.global_load") == 0
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-2, 3, (64, 128)).astype(np.float16) for _ in range(2))
    s, y = np.array([2, 3], np.float32), np.zeros((64, 64), np.float32)
    block_scaled[(1,)](x, w, s, y, 128, 64, 64, 64)
    a, b = x.astype(np.float64), w.astype(np.float64)
    assert np.array_equal(y, 2 * a[:, :64] @ b[:, :64].T + 3 * a[:, 64:] @ b[:, 64:].T)


@tawa.jit
def hinted(x, scales, y, HOW: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if HOW == "cache":
        scale = tl.load(scales + i // BLOCK, cache_modifier=".cg")
    elif HOW == "eviction":
        scale = tl.load(scales + i // BLOCK, eviction_policy="evict_last")
    else:
        scale = tl.load(scales + i // BLOCK, volatile=True)
    tl.store(y + i, tl.load(x + i) * scale)


@pytest.mark.parametrize("how", ["cache", "eviction", "volatile"])
def test_how_a_number_is_loaded_is_kept(how: str) -> None:
    """A volatile load of a tile stays one of a tile."""
    module = hinted.compile(*["*f32:16"] * 3, how, 128).module("aref")
    (load,) = [op for op in module.walk() if op.name == "tile.load" and op.properties.get(how)]
    assert str(load.results[0].type) == ("tensor<128xf32>" if how == "volatile" else "f32")
    assert [name for name in ("cache", "eviction", "volatile") if name in load.properties] == [how]
