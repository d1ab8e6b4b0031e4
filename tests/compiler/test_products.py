"""Matrix products in every place a kernel can have them."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import Arrays, block, check, values

import tawa
import tawa.language as tl

ROLES = pytest.mark.parametrize("specialize", [None, False])


@tawa.jit
def from_memory(a, b, c, out, K, BK: tl.constexpr):
    acc = c.load([0, 0])
    for k in range(0, K, BK):
        acc = tl.dot(a.load([0, k]), b.load([k, 0]), acc)
    out.store([0, 0], acc)


def test_accumulator_starts_from_memory(arrays: Arrays) -> None:
    a, b = arrays.random("f16", 64, 128), arrays.random("f16", 128, 64)
    c, out = arrays.random("f32", 64, 64), arrays.output("f32", 64, 64)
    described = [block(x, 64, 64) for x in (a, b, c, out)]
    expected = {3: values(a) @ values(b) + values(c)}
    check(from_memory, (1,), [*described, 128], expected, BK=64)


@tawa.jit
def scaled_a(a, b, out, K):
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        acc += tl.dot(a.load([0, k]) * 2, b.load([k, 0]))
    out.store([0, 0], acc)


@tawa.jit
def scaled_b(a, b, out, K):
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([k, 0]) * 2, acc)
    out.store([0, 0], acc)


@ROLES
@pytest.mark.parametrize("kernel", [scaled_a, scaled_b])
def test_computed_operand(arrays: Arrays, kernel, specialize: bool | None) -> None:
    a, b, out = (
        arrays.random("f16", 64, 128),
        arrays.random("f16", 128, 64),
        arrays.output("f32", 64, 64),
    )
    expected = {2: 2 * values(a) @ values(b)}
    check(
        kernel,
        (1,),
        [block(x, 64, 64) for x in (a, b, out)] + [128],
        expected,
        specialize=specialize,
    )


@tawa.jit
def dequantised(a, b, scales, out, K):
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        scale = tl.load(scales + k + tl.arange(0, 64))
        weights = (b.load([k, 0]).to(tl.float32) * scale[:, None]).to(tl.float16)
        acc = tl.dot(a.load([0, k]), weights, acc)
    out.store([0, 0], acc)


@ROLES
def test_dequantised_weights(arrays: Arrays, specialize: bool | None) -> None:
    a, b, out = (
        arrays.random("f16", 64, 128),
        arrays.random("i8", 128, 64),
        arrays.output("f32", 64, 64),
    )
    scales = arrays.random("f32", 128)
    arguments = [block(a, 64, 64), block(b, 64, 64), scales, block(out, 64, 64), 128]
    expected = {3: values(a) @ (values(b) * values(scales)[:, None])}
    check(dequantised, (1,), arguments, expected, specialize=specialize)


@tawa.jit
def two_in_a_row(a, b, c, out):
    x = tl.dot(a.load([0, 0]), b.load([0, 0])).to(tl.float16)
    y = tl.dot(c.load([0, 0]), x)
    out.store([0, 0], tl.dot(x.T, c.load([0, 0]), y))


@ROLES
def test_product_as_operand(arrays: Arrays, specialize: bool | None) -> None:
    a, b, c = (arrays.random("f16", 64, 64) for _ in range(3))
    out = arrays.output("f32", 64, 64)
    x = values(a) @ values(b)
    expected = {3: values(c) @ x + x.T @ values(c)}
    described = [block(t, 64, 64) for t in (a, b, c, out)]
    check(two_in_a_row, (1,), described, expected, tolerance=2e-3, specialize=specialize)


@tawa.jit
def linear_attention(q, k, v, out, N):
    queries = q.load([0, 0])
    acc = tl.zeros((64, 64), tl.float32)
    for n in range(0, N, 64):
        scores = tl.dot(queries, k.load([n, 0]).T)
        acc = tl.dot(scores.to(tl.float16), v.load([n, 0]), acc)
    out.store([0, 0], acc)


@pytest.mark.parametrize(
    "options",
    [{}, {"specialize": False}, {"num_stages": 1}, {"num_stages": 2, "overlap": False}],
    ids=str,
)
def test_two_products_in_a_loop(arrays: Arrays, options) -> None:
    q, k, v = (arrays.random("f16", rows, 64) for rows in (64, 128, 128))
    out = arrays.output("f32", 64, 64)
    expected = {3: values(q) @ values(k).T @ values(v)}
    described = [block(t, 64, 64) for t in (q, k, v, out)]
    check(linear_attention, (1,), [*described, 128], expected, tolerance=2e-3, **options)


@tawa.jit
def transposed_b(
    a, b, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, ACC: tl.constexpr
):
    acc = tl.zeros((M, N), ACC)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    out.store([0, 0], acc)


@pytest.mark.parametrize(
    ("element", "n"),
    [
        ("i8", 200), ("i8", 24), ("i8", 40), ("i8", 232), ("i8", 8), ("f16", 256), ("f16", 248),
        ("f16", 72), ("f16", 320), ("f32", 200), ("e5m2", 136), ("bf16", 104),
    ],
)  # fmt: skip
def test_columns(arrays: Arrays, element: str, n: int) -> None:
    depth = {"i8": 128, "e5m2": 128, "f32": 32}.get(element, 64)
    kind, accumulator = ("i32", tl.int32) if element == "i8" else ("f32", tl.float32)
    a, b = arrays.random(element, 128, 2 * depth), arrays.random(element, n, 2 * depth)
    out = arrays.output(kind, 128, n)
    described = [block(a, 128, depth), block(b, n, depth), block(out, 128, n)]
    sizes = {"M": 128, "N": n, "BK": depth, "ACC": accumulator}
    expected = {2: values(a) @ values(b).T}
    check(transposed_b, (1,), [*described, 2 * depth], expected, tolerance=2e-3, **sizes)


@pytest.mark.parametrize(
    "options",
    [{}, {"num_stages": 1}, {"specialize": False}, {"specialize": False, "num_stages": 1}],
    ids=str,
)
def test_one_slot_fills_shared_memory(arrays: Arrays, options) -> None:
    a, b = arrays.random("f16", 128, 512), arrays.random("f16", 128, 512)
    out = arrays.output("f32", 128, 128)
    described = [block(a, 128, 256), block(b, 128, 256), block(out, 128, 128)]
    sizes = {"M": 128, "N": 128, "BK": 256, "ACC": tl.float32}
    check(transposed_b, (1,), [*described, 512], {2: values(a) @ values(b).T}, **sizes, **options)


@tawa.jit
def sum_in_half(a, b, out, K):
    acc = tl.zeros((64, 64), tl.float16)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc, out_dtype=tl.float16)
    out.store([0, 0], acc)


def test_accumulator_of_16_bits(arrays: Arrays) -> None:
    a, b, out = (
        arrays.random("f16", 64, 128),
        arrays.random("f16", 64, 128),
        arrays.output("f16", 64, 64),
    )
    expected = {2: values(a) @ values(b).T}
    check(
        sum_in_half, (1,), [block(x, 64, 64) for x in (a, b, out)] + [128], expected, tolerance=2e-3
    )


@tawa.jit
def through_pointers(a, b, out, N: tl.constexpr, K: tl.constexpr, ACC: tl.constexpr):
    m, n, k = tl.arange(0, 128), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(out + m[:, None] * N + n[None, :], tl.dot(x, y, out_dtype=ACC))


@pytest.mark.parametrize(
    ("element", "warps"), [("f16", 4), ("f16", 8), ("bf16", 4), ("f32", 4), ("i8", 4), ("e4m3", 4)]
)
def test_operands_through_pointers(arrays: Arrays, element: str, warps: int) -> None:
    kind, accumulator = ("i32", tl.int32) if element == "i8" else ("f32", tl.float32)
    a, b, out = (
        arrays.random(element, 128, 64),
        arrays.random(element, 64, 128),
        arrays.output(kind, 128, 128),
    )
    expected = {2: values(a) @ values(b)}
    sizes = {"N": 128, "K": 64, "ACC": accumulator}
    check(through_pointers, (1,), [a, b, out], expected, tolerance=2e-3, num_warps=warps, **sizes)


@tawa.jit
def three_stores(a, b, c, d, K):
    acc = tl.zeros((128, 128), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    c.store([0, 0], acc.to(tl.float16))
    d.store([0, 0], tl.sum(acc, axis=1)[:, None] + acc)
    c.store([128, 0], (acc * 2).to(tl.float16))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"specialize": False},
        {"specialize": False, "num_warps": 8},
        {"persistent": True},
        {"persistent": True, "ping_pong": True},
        {"staging": 1},
        {"staging": 4, "stream_stores": True},
        {"consumers": 1},
    ],
    ids=str,
)
def test_several_stores(arrays: Arrays, options) -> None:
    a, b = arrays.random("f16", 128, 136), arrays.random("f16", 128, 136)
    c, d = arrays.output("f16", 256, 128), arrays.output("f32", 128, 128)
    x = values(a) @ values(b).T
    described = [block(a, 128, 64), block(b, 128, 64), block(c, 128, 128), block(d, 128, 128)]
    expected = {2: np.concatenate([x, 2 * x]), 3: x + x.sum(axis=1, keepdims=True)}
    check(three_stores, (1,), [*described, 136], expected, **options)


@tawa.jit
def with_column_sums(a, b, out, total, K):
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    tl.store(total + tl.arange(0, 64), tl.sum(acc, axis=0))
    tl.store(out + tl.arange(0, 128)[:, None] * 64 + tl.arange(0, 64)[None, :], acc)


@ROLES
def test_column_sums_across_warps(arrays: Arrays, specialize: bool | None) -> None:
    a, b = arrays.random("f16", 128, 128), arrays.random("f16", 64, 128)
    out, total = arrays.output("f32", 128, 64), arrays.output("f32", 64)
    x = values(a) @ values(b).T
    arguments = [block(a, 128, 64), block(b, 64, 64), out, total, 128]
    check(with_column_sums, (1,), arguments, {2: x, 3: x.sum(axis=0)}, specialize=specialize)
