"""Reductions, elementwise functions and changes of shape, through pointers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulation import Arrays, check, stored, values

import tawa
import tawa.language as tl


@tawa.jit
def sums(x, y, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, LENGTH: tl.constexpr):
    tile = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(y + tl.arange(0, LENGTH), tl.sum(tile, axis=AXIS))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("element", "m", "n", "warps"),
    [
        ("f32", 64, 32, 4), ("f32", 4, 256, 8), ("f16", 4, 256, 4), ("i32", 128, 2, 1),
        ("i32", 2, 128, 2), ("f32", 1, 128, 4), ("f32", 128, 1, 4), ("f64", 16, 16, 4), ("i8", 32, 32, 4),
    ],
)  # fmt: skip
def test_sums(arrays: Arrays, element: str, m: int, n: int, warps: int, axis: int) -> None:
    length = n if axis == 0 else m
    x, y = arrays.random(element, m, n), arrays.output({"i8": "i32"}.get(element, element), length)
    expected = {1: values(x).sum(axis=axis)}
    sizes = {"M": m, "N": n, "AXIS": axis, "LENGTH": length}
    check(sums, (1,), [x, y], expected, tolerance=3e-3, num_warps=warps, **sizes)


@tawa.jit
def middle(x, y):
    i, j, k = tl.arange(0, 4), tl.arange(0, 8), tl.arange(0, 16)
    tile = tl.load(x + i[:, None, None] * 128 + j[None, :, None] * 16 + k[None, None, :])
    tl.store(y + i[:, None] * 16 + k[None, :], tl.max(tile, axis=1))


def test_middle_axis(arrays: Arrays) -> None:
    x, y = arrays.random("f32", 4, 8, 16), arrays.output("f32", 4, 16)
    check(middle, (1,), [x, y], {1: values(x).max(axis=1)})


@tawa.jit
def to_scalars(x, y):
    v = tl.load(x + tl.arange(0, 64))
    tl.store(y, tl.min(v))
    tl.store(y + 1, tl.max(v))
    tl.store(y + 2, tl.xor_sum(v))
    tl.store(y + 3, tl.sum(v))


def test_to_scalars(arrays: Arrays) -> None:
    x, y = arrays.random("i32", 64), arrays.output("i32", 4)
    v = values(x).astype(int)
    check(to_scalars, (1,), [x, y], {1: [v.min(), v.max(), np.bitwise_xor.reduce(v), v.sum()]})


@tawa.jit
def functions(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    size = tl.abs(v)
    a = tl.exp(v) + tl.exp2(v) + tl.log(size + 1) + tl.log2(size + 1) + tl.sqrt(size)
    a += tl.sin(v) + tl.cos(v) + tl.floor(v) + tl.ceil(v) + tl.sigmoid(v) + tl.erf(v)
    a += tl.where(v > 0, tl.minimum(v, 1.0), tl.maximum(v, -1.0)) + tl.rsqrt(v * v + 1)
    tl.store(y + i, a + tl.fma(v, v, v) + tl.clamp(v, -0.5, 0.5))


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_functions(arrays: Arrays, element: str) -> None:
    x, y = arrays.random(element, 512), arrays.output(element, 512)
    v = values(x)
    size = abs(v)
    expected = np.exp(v) + np.exp2(v) + np.log(size + 1) + np.log2(size + 1) + np.sqrt(size)
    expected += np.sin(v) + np.cos(v) + np.floor(v) + np.ceil(v) + 1 / (1 + np.exp(-v))
    expected += np.vectorize(math.erf)(v) + np.where(v > 0, np.minimum(v, 1), np.maximum(v, -1))
    expected += 1 / np.sqrt(v * v + 1) + v * v + v + np.clip(v, -0.5, 0.5)
    check(functions, (1,), [x, y], {1: expected}, N=512)


@tawa.jit
def integers(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(y + i, (v // 3) + (v % 5) * 2 - (v << 1) + (v >> 1) ^ (v & 7) | 1)


def test_integers(arrays: Arrays) -> None:
    x, y = arrays.random("i32", 512), arrays.output("i32", 512)
    v = values(x).astype(int)
    quotient, rest = np.trunc(v / 3).astype(int), np.fmod(v, 5)
    check(
        integers, (1,), [x, y], {1: quotient + rest * 2 - (v << 1) + (v >> 1) ^ (v & 7) | 1}, N=512
    )


@tawa.jit
def signs(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i) > 0)


def test_comparison_is_stored_as_0_and_1(arrays: Arrays) -> None:
    x, y = arrays.random("f32", 512), arrays.output("i8", 512)
    check(signs, (1,), [x, y], {1: values(x) > 0}, N=512)


@tawa.jit
def increment(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@pytest.mark.parametrize(
    ("n", "size", "warps"), [(30000, 32768, 8), (3, 4, 4), (1, 1, 4), (7, 8, 1)]
)
def test_block_sizes(arrays: Arrays, n: int, size: int, warps: int) -> None:
    x, y = arrays.random("f32", n), arrays.output("f32", n)
    check(increment, (1,), [x, y, n], {1: values(x) + 1}, N=size, num_warps=warps)


@tawa.jit
def outer_product(x, y):
    v = tl.load(x + tl.arange(0, 64))
    w = tl.load(x + tl.arange(0, 32))
    z = v[:, None] * w[None, :]
    z += tl.broadcast_to(tl.sum(z, axis=1)[:, None], (64, 32))
    tl.store(y + tl.arange(0, 64)[:, None] * 32 + tl.arange(0, 32)[None, :], z)


def test_broadcasts(arrays: Arrays) -> None:
    x, y = arrays.random("f32", 64), arrays.output("f32", 64, 32)
    z = values(x)[:, None] * values(x)[None, :32]
    check(outer_product, (1,), [x, y], {1: z + z.sum(axis=1, keepdims=True)})


@tawa.jit
def symmetric(x, y):
    square = tl.reshape(tl.load(x + tl.arange(0, 256)), (16, 16))
    tl.store(
        y + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :], tl.trans(square) + square
    )


def test_reshape_and_transpose(arrays: Arrays) -> None:
    x, y = arrays.random("f32", 256), arrays.output("f32", 16, 16)
    square = values(x).reshape(16, 16)
    check(symmetric, (1,), [x, y], {1: square + square.T})


@tawa.jit
def permute(indices, x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + tl.load(indices + i)))


def test_gather(arrays: Arrays) -> None:
    order = np.random.default_rng(1).permutation(256)
    x, y = arrays.random("f16", 256), arrays.output("f16", 256)
    indices = stored(order.astype(float), "i32")
    check(permute, (1,), [indices, x, y], {2: values(x)[order]}, N=256)


@tawa.jit
def strided_copy(x, y, rows, columns, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(y + r * rows + c * columns, tl.load(x + r * N + c))


def test_transpose_by_strides(arrays: Arrays) -> None:
    x, y = arrays.random("f16", 64, 32), arrays.output("f16", 32, 64)
    check(strided_copy, (1,), [x, y, 1, 64], {1: values(x).T}, M=64, N=32)
