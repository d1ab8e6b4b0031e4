"""Tiles through descriptors: every rank, element type, block shape and number of warps."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import Arrays, block, check, values

import tawa
import tawa.language as tl


@tawa.jit
def copy(x, y, M: tl.constexpr, N: tl.constexpr):
    at = [tl.program_id(0) * M, tl.program_id(1) * N]
    y.store(at, x.load(at))


@pytest.mark.parametrize(
    ("element", "shape", "tile", "options"),
    [
        ("f16", (100, 72), (32, 64), {}),
        ("f32", (100, 72), (32, 64), {}),
        ("i8", (100, 80), (32, 64), {}),
        ("e4m3", (100, 80), (32, 64), {}),
        ("f64", (100, 18), (32, 16), {}),
        ("i64", (100, 18), (32, 16), {}),
        ("bf16", (100, 200), (64, 128), {}),
        ("f16", (100, 8), (32, 8), {}),
        ("f16", (100, 72), (1, 8), {}),
        ("f16", (100, 72), (24, 40), {}),
        ("f16", (100, 200), (16, 200), {}),
        ("f32", (20, 264), (16, 256), {}),
        ("f16", (600, 16), (512, 16), {}),
        ("f16", (100, 72), (32, 64), {"num_warps": 1, "specialize": False}),
        ("f32", (100, 72), (32, 64), {"num_warps": 2, "specialize": False}),
        ("f16", (100, 72), (32, 64), {"specialize": False}),
        ("f16", (100, 72), (32, 64), {"persistent": True}),
        ("f16", (100, 72), (32, 64), {"consumers": 2}),
        ("f16", (100, 72), (32, 64), {"num_warps": 8}),
    ],
)
def test_copy(arrays: Arrays, element: str, shape, tile, options) -> None:
    x, y = arrays.random(element, *shape), arrays.output(element, *shape)
    grid = tuple(tawa.cdiv(s, t) for s, t in zip(shape, tile, strict=True))
    check(
        copy,
        grid,
        [block(x, *tile), block(y, *tile)],
        {1: values(x)},
        M=tile[0],
        N=tile[1],
        **options,
    )


@tawa.jit
def copy_vector(x, y, N: tl.constexpr):
    i = tl.program_id(0) * N
    y.store([i], x.load([i]) * 2)


def test_rank_1(arrays: Arrays) -> None:
    x, y = arrays.random("f32", 1000), arrays.output("f32", 1000)
    check(copy_vector, (4,), [block(x, 256), block(y, 256)], {1: 2 * values(x)}, N=256)


@tawa.jit
def copy_blocks(x, y, A: tl.constexpr, B: tl.constexpr):
    at = [tl.program_id(0) * A, tl.program_id(1) * B, 0]
    y.store(at, x.load(at) + 1)


def test_rank_3(arrays: Arrays) -> None:
    x, y = arrays.random("f16", 5, 20, 64), arrays.output("f16", 5, 20, 64)
    described = [block(x, 2, 16, 64), block(y, 2, 16, 64)]
    check(copy_blocks, (3, 2), described, {1: values(x) + 1}, A=2, B=16)


@tawa.jit
def copy_rank_5(x, y):
    i = tl.program_id(0)
    y.store([i, 0, 0, 0, 0], x.load([i, 0, 0, 0, 0]))


def test_rank_5(arrays: Arrays) -> None:
    x, y = arrays.random("f16", 3, 2, 2, 8, 64), arrays.output("f16", 3, 2, 2, 8, 64)
    tile = (1, 2, 2, 8, 64)
    check(copy_rank_5, (3,), [block(x, *tile), block(y, *tile)], {1: values(x)})


@tawa.jit
def transpose(x, y):
    y.store([0, 0], x.load([0, 0]).T)


@pytest.mark.parametrize(
    ("element", "m", "n"), [("f16", 64, 64), ("f32", 32, 64), ("i8", 64, 128), ("f16", 128, 32)]
)
def test_transposed_tile(arrays: Arrays, element: str, m: int, n: int) -> None:
    x, y = arrays.random(element, m, n), arrays.output(element, n, m)
    check(transpose, (1,), [block(x, m, n), block(y, n, m)], {1: values(x).T})


@tawa.jit
def made_in_the_kernel(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x + 2 * N, [M - 2, N // 2], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(y, [M - 2, N // 2], [N // 2, 1], [BM, BN])
    for i in range(0, M, BM):
        target.store([i, 0], source.load([i, 0]) + 1)


@pytest.mark.parametrize("specialize", [None, False])
def test_descriptors_of_parts_of_arguments(arrays: Arrays, specialize: bool | None) -> None:
    x, y = arrays.random("f16", 50, 64), arrays.output("f16", 48, 32)
    expected = {1: values(x)[2:, :32] + 1}
    check(made_in_the_kernel, (1,), [x, y, 50, 64], expected, BM=16, BN=32, specialize=specialize)


@tawa.jit
def softmax_rows(x, y, M: tl.constexpr):
    i = tl.program_id(0) * M
    v = x.load([i, 0]).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=1)[:, None])
    y.store([i, 0], (e / tl.sum(e, axis=1)[:, None]).to(y.dtype))


@pytest.mark.parametrize(
    "options",
    [{}, {"num_warps": 8}, {"num_warps": 1, "specialize": False}, {"persistent": True}],
    ids=str,
)
def test_softmax_through_descriptors(arrays: Arrays, options) -> None:
    x, y = arrays.random("f16", 100, 128), arrays.output("f16", 100, 128)
    e = np.exp(values(x) - values(x).max(axis=1, keepdims=True))
    expected = {1: e / e.sum(axis=1, keepdims=True)}
    check(softmax_rows, (4,), [block(x, 32, 128), block(y, 32, 128)], expected, M=32, **options)
