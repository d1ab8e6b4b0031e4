"""Loops carry one pointer where their loads are narrow, and tiles of pointers where they are not."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.frontend import lower_to_tile, parse_argument
from tawa.simulate.interpret.tile import run
from tawa.tile.passes.carried_pointers import CarriedPointers
from tawa.tile.passes.simplify import simplify


@tawa.jit
def sums(x, out, stride, K, M: tl.constexpr, BK: tl.constexpr, APART: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, BK)
    at = x + (m[:, None] * stride + k[None, :])
    total = tl.zeros((M,), tl.float32)
    for i in range(0, K, BK):
        v = tl.load(at, mask=k[None, :] < K - i, other=0.0)
        total += tl.sum(v.to(tl.float32), 1)
        at += BK
        if APART:
            at += tl.where(m[:, None] * stride < 0, i, 0)
    tl.store(out + m, total)


def carried(module) -> list[str]:
    """Types of what the loop carries."""
    (loop,) = (line for line in str(module).splitlines() if "scf.for" in line)
    return re.findall(r"(?:tensor<[^>]*)?!tawa\.ptr<\w+>>?", loop.split("->")[-1])


@pytest.mark.parametrize("stride", ["i32", "i32:16"])
@pytest.mark.parametrize("apart", [False, True])
def test_what_a_loop_carries(stride: str, apart: bool) -> None:
    types = [parse_argument(t) for t in ("*f16:16", "*f32:16", stride, "i32")]
    module = lower_to_tile(sums, types, {"M": 16, "BK": 32, "APART": apart})
    simplify(module)
    before = carried(module)
    CarriedPointers().apply(module)
    module.verify()
    simplify(module)
    after = carried(module)
    narrow = stride == "i32" and not apart
    assert before == ["tensor<16x32x!tawa.ptr<f16>>"]
    assert after == (["!tawa.ptr<f16>"] if narrow else before)
    step = 1 if stride == "i32" else 16
    x = np.random.default_rng(0).standard_normal((16, 80 if step > 1 else 83)).astype(np.float16)
    out = np.zeros(16, np.float32)
    run(module, (1,), [x, out, x.shape[1], 70])
    np.testing.assert_allclose(out, x[:, :70].astype(np.float32).sum(1), rtol=1e-3, atol=1e-3)


@tawa.jit
def odd_product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    at, bt = a + m[:, None] * K + k[None, :], b + k[:, None] * N + n[None, :]
    acc = tl.zeros((M, N), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(at, mask=k[None, :] < K - i, other=0.0)
        y = tl.load(bt, mask=k[:, None] < K - i, other=0.0)
        acc = tl.dot(x, y, acc)
        at += BK
        bt += BK * N
    tl.store(c + m[:, None] * N + n[None, :], acc)


def test_operands_of_odd_rows_are_stored_by_words() -> None:
    compiled = odd_product.compile("*f16", "*f16:16", "*f32:16", "i32", M=128, N=128, BK=64)
    text = compiled.stages["cu"]
    assert isinstance(text, str)
    stores = re.findall(r"shared_store\(.*Vector<f16, (\d+)>", text)
    assert stores
    assert set(stores) == {"2"}
    assert compiled.findings == ()


@tawa.jit
def chosen_sums(x, y, out, first, stride, K, M: tl.constexpr, BK: tl.constexpr, WAY: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, BK)
    places = m[:, None] * stride + k[None, :]
    if WAY == "where":
        at = tl.where(first > 0, x + places, y + places)
    elif WAY == "from a number":
        at = (x.to(tl.int64) + 2 * places).to(tl.pointer_type(tl.float16))
    elif WAY == "turned":
        at = tl.trans(x + tl.trans(places))
    else:
        at = tl.where(first > 0, x, y) + places
    total = tl.zeros((M,), tl.float32)
    for i in range(0, K, BK):
        v = tl.load(at, mask=k[None, :] < K - i, other=0.0)
        total += tl.sum(v.to(tl.float32), 1)
        at += BK
    tl.store(out + m, total)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("way", ["where", "from a number", "turned", "chosen before"])
def test_tiles_of_pointers_however_they_are_made(way: str, first: int) -> None:
    types = [parse_argument(t) for t in ("*f16", "*f16", "*f32", "i32", "i32", "i32")]
    module = lower_to_tile(chosen_sums, types, {"M": 16, "BK": 32, "WAY": way})
    simplify(module)
    CarriedPointers().apply(module)
    module.verify()
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((16, 83)).astype(np.float16) for _ in range(2))
    out = np.zeros(16, np.float32)
    run(module, (1,), [x, y, out, first, 83, 70])
    given = x if first or way in ("from a number", "turned") else y
    np.testing.assert_allclose(out, given[:, :70].astype(np.float32).sum(1), rtol=1e-3, atol=1e-3)


@tawa.jit
def copied(x, y, stride, K, M: tl.constexpr, BK: tl.constexpr):
    """Nothing but a tile of pointers is carried."""
    m, k = tl.arange(0, M), tl.arange(0, BK)
    at = x + (m[:, None] * stride + k[None, :])
    for i in range(0, K, BK):
        v = tl.load(at, mask=k[None, :] < K - i, other=0.0)
        tl.store(y + (m[:, None] * stride + i + k[None, :]), v, mask=k[None, :] < K - i)
        at += BK


def test_pointers_are_carried_alone() -> None:
    types = [parse_argument(t) for t in ("*f16:16", "*f16:16", "i32", "i32")]
    module = lower_to_tile(copied, types, {"M": 16, "BK": 32})
    simplify(module)
    CarriedPointers().apply(module)
    module.verify()
    simplify(module)
    assert carried(module) == ["!tawa.ptr<f16>"]
    x = np.random.default_rng(0).standard_normal((16, 83)).astype(np.float16)
    y = np.zeros_like(x)
    run(module, (1,), [x, y, 83, 70])
    np.testing.assert_array_equal(y[:, :70], x[:, :70])


@tawa.jit
def in_parts(x, out, stride, K, M: tl.constexpr, BK: tl.constexpr):
    """Whole tiles, then some under a mask, then one more behind both loops."""
    m, k = tl.arange(0, M), tl.arange(0, BK)
    at = x + (m[:, None] * stride + k[None, :])
    total = tl.zeros((M,), tl.float32)
    for _ in range(0, K // BK):
        total += tl.sum(tl.load(at).to(tl.float32), 1)
        at += BK
    for i in range(K // BK * BK, K, BK):
        v = tl.load(at, mask=k[None, :] < K - i, other=0.0)
        total += tl.sum(v.to(tl.float32), 1)
        at += BK
    total += tl.sum(tl.load(at).to(tl.float32), 1)
    tl.store(out + m, total)


@pytest.mark.parametrize("k", [0, 20, 64, 70])
def test_parts_of_a_loop_go_on_from_each_other(k: int) -> None:
    types = [parse_argument(t) for t in ("*f16:16", "*f32:16", "i32", "i32")]
    module = lower_to_tile(in_parts, types, {"M": 16, "BK": 32})
    simplify(module)
    CarriedPointers().apply(module)
    module.verify()
    simplify(module)
    loops = [line for line in str(module).splitlines() if "scf.for" in line]
    assert len(loops) == 2
    assert not any(re.search(r"tensor<[^>]*!tawa\.ptr", line.split("->")[-1]) for line in loops)
    x = np.random.default_rng(0).standard_normal((16, 129)).astype(np.float16)
    out = np.zeros(16, np.float32)
    run(module, (1,), [x, out, x.shape[1], k])
    # The last tile begins where the loops ended.
    end = -(-k // 32) * 32
    expected = x[:, :k].astype(np.float32).sum(1) + x[:, end : end + 32].astype(np.float32).sum(1)
    np.testing.assert_allclose(out, expected, rtol=1e-3, atol=1e-3)
