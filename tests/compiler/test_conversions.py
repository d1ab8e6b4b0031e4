"""Operands that a role of its own computes from what is loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulation import Arrays, Stored, block, check, stored, values

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import StoreInto, WarpGroup
from tawa.driver.compiled import Compiled
from tawa.simulate.check.protocol import check as check_schedules
from tawa.simulate.interpret.aref import run as run_aref

LEVELS = ("tile", "hopper", "ptx")


def roles(compiled: Compiled) -> list[str]:
    """The roles of a kernel at the aref level."""
    groups = (op for op in compiled.module("aref").walk() if isinstance(op, WarpGroup))
    return [op.role.data for op in groups]


@tawa.jit
def bytes_times(x, w, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for at in range(0, K, BK):
        left = k < K - at
        a = tl.load(x + m[:, None] * K + at + k[None, :],
                    mask=(m < M)[:, None] & left[None, :], other=0.0)  # fmt: skip
        b = tl.load(w + n[None, :] * K + at + k[:, None],
                    mask=(n < N)[None, :] & left[:, None], other=0)  # fmt: skip
        acc = tl.dot(a, b.to(a.dtype), acc)
    tl.store(out + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


def bytes_case(arrays: Arrays, element: str, sizes: tuple[int, int, int]) -> tuple[list[Any], Any]:
    m, n, k = sizes
    x, w, out = arrays.random(element, m, k), arrays.random("i8", n, k), arrays.output("f32", m, n)
    return [x, w, out, m, n, k], values(x) @ values(w).T


@pytest.mark.parametrize("element", ["bf16", "f16"])
@pytest.mark.parametrize("sizes", [(128, 128, 192), (200, 144, 176)])
def test_bytes_become_halves(arrays: Arrays, element: str, sizes: tuple[int, int, int]) -> None:
    args, expected = bytes_case(arrays, element, sizes)
    grid = -(-sizes[0] // 128), -(-sizes[1] // 64)
    compiled = check(bytes_times, grid, args, {2: expected}, 1e-3, LEVELS, BM=128, BN=64, BK=64)
    assert roles(compiled) == ["load", "math", "convert"]


def test_tiles_one_after_the_other(arrays: Arrays) -> None:
    """Slots and phases go on from tile to tile."""
    args, expected = bytes_case(arrays, "bf16", (256, 192, 192))
    compiled = check(
        bytes_times, (2, 3), args, {2: expected}, 1e-3, LEVELS, BM=128, BN=64, BK=32,
        persistent=True, num_stages=2,
    )  # fmt: skip
    assert roles(compiled) == ["load", "math", "convert"]
    (out,) = [args[2]]
    out[...] = 0
    plain = [a.view(np.ndarray) if isinstance(a, Stored) else a for a in args]
    run_aref(compiled.module("aref"), (2, 3), plain, multiprocessors=2)
    np.testing.assert_allclose(out.view(np.ndarray), expected, rtol=1e-3, atol=0.5)


@tawa.jit
def described(x, w, out, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        b = w.load([n, k])
        acc = tl.dot(x.load([m, k]), b.to(tl.float16).T, acc)
    out.store([m, n], acc)


def described_case(arrays: Arrays) -> tuple[list[Any], Any]:
    x, w = arrays.random("f16", 128, 96), arrays.random("i8", 64, 96)
    out = arrays.output("f32", 128, 64)
    args = [block(x, 128, 32), block(w, 64, 32), block(out, 128, 64), 96]
    return args, values(x) @ values(w).T


def test_tiles_of_descriptors(arrays: Arrays) -> None:
    args, expected = described_case(arrays)
    compiled = check(described, (1, 1), args, {2: expected}, 1e-3, LEVELS, BM=128, BN=64, BK=32)
    assert roles(compiled) == ["load", "math", "convert"]


def test_every_schedule_is_safe(arrays: Arrays) -> None:
    args, expected = described_case(arrays)
    types = [f"desc<{d.base.element},{'x'.join(map(str, d.block_shape))}>" for d in args[:3]]
    compiled = described.compile(*types, "i32", BM=128, BN=64, BK=32, num_stages=2)
    report = check_schedules(compiled.module("hopper"), (1, 1), args, schedules=1)
    assert report.proved
    np.testing.assert_allclose(args[2].base.view(np.ndarray), expected, rtol=1e-3, atol=0.1)


@tawa.jit
def packed(x, words, scales, out, M, N, K, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
           BK: tl.constexpr):  # fmt: skip
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for step in range(0, K // BK):
        at = step * BK + k
        a = tl.load(x + m[:, None] * K + at[None, :])
        word = tl.load(words + (at // 8)[:, None] * N + n[None, :])
        scale = tl.load(scales + (step * BK // G) * N + n)
        b = ((word >> ((k % 8) * 4)[:, None]) & 15).to(tl.float32) * scale[None, :]
        acc = tl.dot(a, b.to(a.dtype), acc)
    tl.store(out + m[:, None] * N + n[None, :], acc)


def test_words_whose_scales_are_loaded_meanwhile_stay(arrays: Arrays) -> None:
    m, n, k, group = 128, 64, 256, 128
    rng = np.random.default_rng(1)
    q = rng.integers(0, 16, (k, n))
    words = sum(q[i::8].astype(np.int64) << (4 * i) for i in range(8)).astype(np.uint32)
    x, scales = arrays.random("f16", m, k), arrays.random("f32", k // group, n)
    args = [x, stored(words.view(np.int32), "i32"), scales, arrays.output("f32", m, n), m, n, k]
    expected = values(x) @ (q * np.repeat(values(scales), group, 0))
    compiled = check(packed, (1, 1), args, {3: expected}, 3e-3, LEVELS, G=group, BM=128, BN=64,
                     BK=64)  # fmt: skip
    assert roles(compiled) == ["load", "math"], "the role would wait for memory each time"


@tawa.jit
def scaled_rows(x, w, out, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                TYPE: tl.constexpr):  # fmt: skip
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        a = x.load([0, k]).to(tl.float32) * 0.5
        acc = tl.dot(a.to(TYPE), w.load([0, k]).T, acc)
    out.store([0, 0], acc)


@pytest.mark.parametrize(("element", "type_"), [("f16", tl.float16), ("e4m3", tl.float8e4nv)])
def test_first_operands(arrays: Arrays, element: str, type_: Any) -> None:
    x, w = arrays.random(element, 128, 128), arrays.random(element, 64, 128)
    args = [block(x, 128, 64), block(w, 64, 64), block(arrays.output("f32", 128, 64), 128, 64), 128]
    halved = values(x) / 2
    compiled = check(scaled_rows, (1,), args, {2: halved @ values(w).T}, 3e-2, LEVELS, BM=128,
                     BN=64, BK=64, TYPE=type_)  # fmt: skip
    assert roles(compiled) == ["load", "math", "convert"]


@tawa.jit
def narrow_columns(x, w, out, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        b = w.load([0, k]).to(tl.float32) * 2.0
        acc = tl.dot(x.load([0, k]), b.to(tl.float8e5).T, acc)
    out.store([0, 0], acc)


def test_bytes_lie_along_k(arrays: Arrays) -> None:
    x, w = arrays.random("e5m2", 128, 128), arrays.random("e5m2", 64, 128)
    args = [block(x, 128, 64), block(w, 64, 64), block(arrays.output("f32", 128, 64), 128, 64), 128]
    expected = values(x) @ (2 * values(w)).T
    compiled = check(narrow_columns, (1,), args, {2: expected}, 1e-3, LEVELS, BM=128, BN=64, BK=64)
    assert roles(compiled) == ["load", "math", "convert"]


@tawa.jit
def used_twice(x, w, out, sums, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    acc = tl.zeros((BM, BN), tl.float32)
    total = tl.zeros((BN,), tl.float32)
    for k in range(0, K, BK):
        b = w.load([0, k]).to(tl.float16)
        total += tl.sum(b.to(tl.float32), 1)
        acc = tl.dot(x.load([0, k]), b.T, acc)
    out.store([0, 0], acc)
    tl.store(sums + tl.arange(0, BN), total)


def test_tiles_that_something_else_needs_stay(arrays: Arrays) -> None:
    x, w = arrays.random("f16", 128, 64), arrays.random("i8", 64, 64)
    out, sums = arrays.output("f32", 128, 64), arrays.output("f32", 64)
    args = [block(x, 128, 32), block(w, 64, 32), block(out, 128, 64), sums, 64]
    expected = {2: values(x) @ values(w).T, 3: values(w).sum(1)}
    compiled = check(used_twice, (1,), args, expected, 1e-3, BM=128, BN=64, BK=32)
    assert roles(compiled) == ["load", "math"]


@tawa.jit
def changed(x, w, scales, out, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The scale of an iteration is written by the one before."""
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        b = w.load([0, k]).to(tl.float32) * tl.load(scales)
        acc = tl.dot(x.load([0, k]), b.to(tl.float16).T, acc)
        tl.debug_barrier()
        tl.store(scales, k // BK + 2.0)
        tl.debug_barrier()
    out.store([0, 0], acc)


def test_what_the_kernel_writes_is_not_read_ahead() -> None:
    types = ["desc<f16,128x32>", "desc<i8,64x32>", "*f32", "desc<f32,128x64>", "i32"]
    assert roles(changed.compile(*types, BM=128, BN=64, BK=32)) == ["load", "math"]


@pytest.mark.parametrize(
    "options",
    [{"consumers": 1}, {"ctas_per_sm": 2}, {"persistent": True, "ping_pong": True},
     {"specialize": False}],
    ids=str,
)  # fmt: skip
def test_where_others_multiply_meanwhile(arrays: Arrays, options: dict[str, Any]) -> None:
    args, expected = described_case(arrays)
    compiled = check(described, (1, 1), args, {2: expected}, 1e-3, BM=128, BN=64, BK=32, **options)
    assert not any(isinstance(op, StoreInto) for op in compiled.module("aref").walk())
