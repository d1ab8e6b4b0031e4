"""Corners of the language that public kernels come upon: each was wrong once."""

from __future__ import annotations

import math

import numpy as np
from simulation import Arrays, values
from suite import Launch, case

import tawa
import tawa.language as tl
from tawa.language.extra import libdevice
from tawa.language.extra.cuda.libdevice import signbit

SCALE: tl.constexpr = 3


@tawa.jit
def is_floating(x):
    return (x + tl.zeros((1,), tl.int1)).dtype.is_floating()


@tawa.jit
def nan_maximum(a, b):
    larger = a > b
    if is_floating(a):
        larger |= a != a
    return tl.where(larger, a, b)


@tawa.jit
def maxima_with_nan(x_0, x_1, N_0: tl.constexpr, N_1: tl.constexpr):
    i, j = tl.arange(0, N_0)[:, None], tl.arange(0, N_1)[None, :]
    v = tl.load(x_0 + i * N_1 + j)
    tl.store(x_1 + i, tl.reduce(v, 1, nan_maximum)[:, None])
    tl.store(x_1 + N_0 + i * N_1 + j, tl.associative_scan(v, 1, nan_maximum))


@case
def maxima_that_keep_a_nan(a: Arrays) -> Launch:
    x = a.random("f32", 4, 32)
    x[1, 5] = np.inf
    v = values(x)
    expected = np.concatenate([v.max(1), np.maximum.accumulate(v, 1).ravel()])
    expected[np.isinf(expected)] = 1e6
    x[1, 5] = 1e6
    args = [x, a.output("f32", len(expected))]
    return Launch(maxima_with_nan, (1,), args, {1: expected}, {"N_0": 4, "N_1": 32})


@tawa.jit
def wide_random(uniform, words, seed, N: tl.constexpr):
    at = tl.arange(0, N)
    counter = at.to(tl.int64) << 33
    tl.store(uniform + at, tl.rand(seed, counter))
    zero = counter * 0
    _a, _b, _c, last = tl.philox(seed, counter, zero, zero, zero)
    tl.store(words + at, (last >> 40).to(tl.int64))


def philox(
    bits: int, factors: list[int], steps: list[int], c: list[int], k: list[int]
) -> list[int]:
    """Ten rounds of Philox with four words of so many bits."""
    top = 2**bits - 1
    for _ in range(10):
        first, second = c[0] * factors[0], c[2] * factors[1]
        c = [second >> bits ^ c[1] ^ k[0], second & top, first >> bits ^ c[3] ^ k[1], first & top]
        k = [key + step & top for key, step in zip(k, steps, strict=True)]
    return c


def philox_64(seed: int, counter: int) -> list[int]:
    """Philox 4x64."""
    factors, steps = (
        [0xD2E7470EE14C6C93, 0xCA5A826395121157],
        [0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B],
    )
    return philox(64, factors, steps, [counter, 0, 0, 0], [seed, 0])


def philox_32(seed: int, counter: int) -> list[int]:
    """Philox 4x32 of a counter of 64 bits."""
    factors, steps = [0xD2511F53, 0xCD9E8D57], [0x9E3779B9, 0xBB67AE85]
    return philox(32, factors, steps, [counter & 0xFFFFFFFF, counter >> 32, 0, 0], [seed, 0])


@case
def random_numbers_of_64_bits(a: Arrays) -> Launch:
    drawn = [philox_32(77, i << 33)[0] for i in range(32)]
    signed = [word - (word >> 31 << 32) for word in drawn]
    uniform = [(-s - 1 if s < 0 else s) * 2.0**-31 for s in signed]
    words = [philox_64(77, i << 33)[3] >> 40 for i in range(32)]
    args = [a.output("f32", 32), a.output("i64", 32), 77]
    return Launch(wide_random, (1,), args, {0: np.array(uniform), 1: np.array(words)}, {"N": 32})


@tawa.jit
def mixed_products(a, b, c, n, ROWS: tl.constexpr):
    i, j, k = tl.arange(0, ROWS)[:, None], tl.arange(0, 64)[None, :], tl.arange(0, 32)
    total = tl.load(c + i * 64 + j)
    for t in range(n):
        x = tl.load(a + t * ROWS * 32 + i * 32 + k[None, :])
        y = tl.load(b + t * 2048 + k[:, None] * 64 + j)
        total = tl.dot(x, y, total)
        total = tl.dot(x.to(tl.float32), y.to(tl.float32), total, input_precision="ieee")
        if t % 2 == 0:
            total = tl.dot(x, y, total)
    tl.store(c + i * 64 + j, total)


def _mixed(a: Arrays, rows: int) -> Launch:
    x, y, c = a.random("f16", 2, rows, 32), a.random("f16", 2, 32, 64), a.random("f32", rows, 64)
    products = values(x) @ values(y)
    expected = values(c) + 3 * products[0] + 2 * products[1]
    return Launch(mixed_products, (1,), [x, y, c, 2], {2: expected}, {"ROWS": rows})


@case
def sum_of_products_of_two_kinds(a: Arrays) -> Launch:
    return _mixed(a, 64)


@case
def sum_of_products_of_two_kinds_rows_16(a: Arrays) -> Launch:
    return _mixed(a, 16)


@tawa.jit
def bit_reversed(x, y, N: tl.constexpr, LOG: tl.constexpr):
    at = tl.arange(0, N)
    place, rest = tl.zeros_like(at), at
    for _ in tl.static_range(LOG):
        place = (place << 1) | (rest & 1)
        rest = rest >> 1
    tl.store(y + at, tl.gather(tl.load(x + at), place, 0) * SCALE + math.pi)


@case
def gather_in_the_order_of_reversed_bits(a: Arrays) -> Launch:
    x = a.random("f32", 64)
    order = [int(f"{i:06b}"[::-1], 2) for i in range(64)]
    expected = values(x)[order] * 3 + math.pi
    constants = {"N": 64, "LOG": 6}
    return Launch(bit_reversed, (1,), [x, a.output("f32", 64)], {1: expected}, constants)


@tawa.jit
def specials(x, y, z, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    found = libdevice.erfc(v) + libdevice.ldexp(v, 2) + libdevice.fma(v, v, 1.0)
    tl.store(y + at, found + libdevice.erfinv(libdevice.erf(v)))
    bits = libdevice.float_as_int(v)
    count = libdevice.clz(bits) + libdevice.ffs(bits) + libdevice.brev(bits)
    tl.store(z + at, (count + signbit(v)) ^ libdevice.llrint(v * 10).to(tl.int32))


@case
def special_functions(a: Arrays) -> Launch:
    x = a.random("f32", 32)
    v = values(x)
    words = np.asarray(x, np.float32).view(np.uint32).astype(int).tolist()
    count = [
        32 - w.bit_length() + (w & -w).bit_length() + int(f"{w:032b}"[::-1], 2) + (w >> 31)
        for w in words
    ]
    integers = np.array(count, np.int64).astype(np.int32) ^ np.rint(v * 10).astype(np.int32)
    floats = np.vectorize(math.erfc)(v) + 4 * v + v * v + 1 + v
    args = [x, a.output("f32", 32), a.output("i32", 32)]
    return Launch(specials, (1,), args, {1: floats, 2: integers}, {"N": 32})


@tawa.jit
def scattered_sums(λ, stride_x_0, stride_x_1, out, num_warps: tl.constexpr):
    i, j = tl.arange(0, 8)[:, None], tl.arange(0, 16)[None, :]
    α = tl.load(λ + i * stride_x_0 + j * stride_x_1)
    for β in range(2):
        α += β
    tl.store(out + i, tl.sum(α, 1, keep_dims=True) * num_warps)


@case
def names_that_end_in_numbers_or_are_greek(a: Arrays) -> Launch:
    x = a.random("f32", 16, 8)
    args = [x, 1, 8, a.output("f32", 8)]
    expected = (values(x).sum(0) + 16) * 2
    return Launch(scattered_sums, (1,), args, {3: expected}, {"num_warps": 2})
