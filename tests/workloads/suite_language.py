"""What the language's tests ask: control flow, scalars of all types, atomics, tuples, shapes."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, block, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def collatz(start, steps, n, LIMIT: tl.constexpr):
    i = tl.program_id(0)
    if i >= n:
        return
    value = tl.load(start + i)
    count = 0
    while value != 1 and count < LIMIT:
        if value % 2 == 0:
            value = value // 2
        else:
            value = 3 * value + 1
        count += 1
    tl.store(steps + i, count)


@case
def while_loop_with_early_return(a: Arrays) -> Launch:
    first = [1, 2, 7, 27, 97, 6]
    expected = []
    for v in first[:5]:
        count = 0
        while v != 1 and count < 50:
            v, count = (v // 2 if v % 2 == 0 else 3 * v + 1), count + 1
        expected.append(count)
    args = [stored(np.array(first), "i32"), a.output("i32", 6), 5]
    return Launch(collatz, (6,), args, {1: [*expected, -77]}, {"LIMIT": 50})


@tawa.jit
def newton(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=1.0)
    guess = v * 0.5 + 0.5
    error = tl.max(tl.abs(guess * guess - v), axis=0)
    while error > 1e-5:
        guess = 0.5 * (guess + v / guess)
        error = tl.max(tl.abs(guess * guess - v), axis=0)
    tl.store(y + at, guess, mask=at < n)


@case
def while_loop_over_a_tile(a: Arrays) -> Launch:
    x = a.random("f32", 200)
    x[...] = np.abs(x) + 0.1
    args = [x, a.output("f32", 200), 200]
    return Launch(newton, (2,), args, {1: np.sqrt(values(x))}, {"BLOCK": 128})


@tawa.jit
def minmax(x, low, high):
    return tl.minimum(x, low), tl.maximum(x, high)


@tawa.jit
def nested(x, y, rows, cols, inner, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    low = tl.full((BLOCK,), float("inf"), tl.float32)
    high = -low
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(rows):
        for j in range(0, cols, 2):
            for k in tl.static_range(2):
                v = tl.load(x + (i * cols + j + k) * BLOCK + at)
                low, _ = minmax(v, low, high)
                _, high = minmax(v, low, high)
                if (i + j) % 3 == k:
                    total += v
                elif i == 1:
                    total -= 2 * v
        for _ in range(5, inner):
            total += 1000.0
    tl.store(y + at, low)
    tl.store(y + BLOCK + at, high)
    tl.store(y + 2 * BLOCK + at, total)


@case
def nested_loops_with_tuples_and_zero_trips(a: Arrays) -> Launch:
    x = a.random("f32", 3, 4, 32)
    v, total = values(x), np.zeros(32)
    for i in range(3):
        for j in range(4):
            first, k = j - j % 2, j % 2
            total += v[i, j] if (i + first) % 3 == k else -2 * v[i, j] if i == 1 else 0
    expected = np.stack([v.min((0, 1)), v.max((0, 1)), total])
    args = [x, a.output("f32", 3, 32), 3, 4, 5]
    return Launch(nested, (1,), args, {1: expected}, {"BLOCK": 32})


@tawa.jit
def scalars(out, flag, a, b, c, d):
    result = a * 2.5 + b
    if flag:
        result += c // 3 - c % 5
    result = tl.where(d > 1, result, -result)
    tl.store(out, result)
    tl.store(out + 1, tl.cdiv(c, 4).to(tl.float32) + min(b, 2) + max(c, 100))
    tl.store(out + 2, (c << 2) ^ (b | 9) & ~3)


@case
def scalars_of_all_types(a: Arrays) -> Launch:
    args = [a.output("f32", 3), True, 1.5, 7, 2**33 + 5, 2.0]
    c = 2**33 + 5
    expected = [1.5 * 2.5 + 7 + c // 3 - c % 5, -(-c // 4) + 2 + c, (c << 2) ^ (7 | 9) & ~3]
    return Launch(scalars, (1,), args, {0: np.array(expected, float)}, {}, 1e-6)


@tawa.jit
def casts(i8, u8, h, w, out, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(i8 + at)
    y = tl.load(u8 + at).to(tl.uint8, bitcast=True)
    z = tl.load(h + at)
    big = tl.load(w + at)
    value = x.to(tl.int32) + y.to(tl.int32) * 3 + (big >> 33).to(tl.int32)
    value += z.to(tl.float32).to(tl.int32) + (z > 0).to(tl.int32)
    value ^= (y >> 3).to(tl.int32)
    tl.store(out + at, value)


@case
def casts_of_integers(a: Arrays) -> Launch:
    rng = np.random.default_rng(2)
    x, y = rng.integers(-128, 128, 64), rng.integers(-128, 128, 64)
    z, w = a.random("f16", 64), rng.integers(-(2**40), 2**40, 64)
    u = y % 256
    zv = values(z)
    expected = (x + u * 3 + (w >> 33) + np.trunc(zv).astype(int) + (zv > 0)) ^ (u >> 3)
    args = [stored(x, "i8"), stored(y, "i8"), z, stored(w, "i64"), a.output("i32", 64)]
    return Launch(casts, (1,), args, {4: expected}, {"N": 64})


@tawa.jit
def all_atomics(out, old, values_, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(values_ + at, mask=at < n, other=0)
    tl.atomic_add(out + at % 4, v, mask=at < n)
    tl.atomic_max(out + 4 + at % 4, v, mask=at < n)
    tl.atomic_min(out + 8 + at % 4, v, mask=at < n)
    tl.atomic_or(out + 12 + at % 4, 1 << (v & 15), mask=at < n)
    tl.atomic_xor(out + 16, tl.sum(v, axis=0))
    ticket = tl.atomic_add(out + 17, 1)
    tl.store(old + ticket, ticket * 10)
    tl.atomic_and(out + 18, 0xFF0)
    before = tl.atomic_xchg(out + 19 + at, v + 1, mask=at < n)
    tl.store(old + 16 + at, before, mask=at < n)


@case
def atomics(a: Arrays) -> Launch:
    v = np.random.default_rng(3).integers(-50, 50, 100)
    start = np.zeros(130, int)
    start[18] = 0xABCD
    start[19:119] = np.arange(100) * 7
    out = start.copy()
    for i in range(4):
        out[i], out[4 + i], out[8 + i] = v[i::4].sum(), max(v[i::4].max(), 0), min(v[i::4].min(), 0)
        out[12 + i] = np.bitwise_or.reduce(1 << (v[i::4] & 15))
    out[16] = v[:64].sum() ^ v[64:].sum()
    out[17], out[18] = 2, 0xABCD & 0xFF0
    out[19:119] = v + 1
    old = np.full(116, -77)
    old[:2], old[16:] = [0, 10], start[19:119]
    args = [stored(start, "i32"), a.output("i32", 116), stored(v, "i32"), 100]
    return Launch(all_atomics, (2,), args, {0: out, 1: old}, {"BLOCK": 64})


@tawa.jit
def float_atomics(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0)
    tl.atomic_add(out, tl.sum(v, axis=0))
    tl.atomic_max(out + 1, tl.max(v, axis=0))
    tl.atomic_min(out + 2, tl.min(v, axis=0))
    own = out + 3 + 2 * tl.program_id(0)
    tl.atomic_add(own + at % 2, v, mask=at < n, sem="relaxed", scope="cta")


@case
def atomics_of_floats(a: Arrays) -> Launch:
    x = a.random("f32", 250)
    v = values(x)
    parts = np.pad(v, (0, 6)).reshape(4, 32, 2).sum(axis=1)
    expected = [v.sum(), v.max(), v.min(), *parts.ravel()]
    args = [stored(np.zeros(11), "f32"), x, 250]
    return Launch(float_atomics, (4,), args, {0: np.array(expected)}, {"BLOCK": 64})


@tawa.jit
def half_atomics(out, x, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.atomic_add(out + at, tl.load(x + tl.program_id(0) * N + at))


@case
def atomics_of_halves(a: Arrays) -> Launch:
    x = a.random("f16", 3, 64)
    args = [stored(np.zeros(64), "f16"), x]
    return Launch(half_atomics, (3,), args, {0: values(x).sum(0)}, {"N": 64}, 2e-3)


@case
def atomics_of_bfloats(a: Arrays) -> Launch:
    x = a.random("bf16", 2, 64)
    args = [stored(np.zeros(64), "bf16"), x]
    return Launch(half_atomics, (2,), args, {0: values(x).sum(0)}, {"N": 64}, 1e-2)


@tawa.jit
def odd_blocks(x, y, z, rows, cols, BM: tl.constexpr, BN: tl.constexpr):
    at = [tl.program_id(0) * BM, tl.program_id(1) * BN]
    tile = x.load(at)
    wide = tile.to(tl.float32)
    centred = wide - (tl.sum(wide, axis=1) / BN)[:, None]
    z.store(at, (centred * centred).to(z.dtype))
    y.store([at[1], at[0]], tile.T)


def _odd(a: Arrays, bm: int, bn: int) -> Launch:
    x, y, z = a.random("f16", bm, 2 * bn), a.output("f16", 2 * bn, bm), a.output("f16", bm, 2 * bn)

    v = values(x)
    parts = [p - p.mean(1, keepdims=True) for p in (v[:, :bn], v[:, bn:])]
    args = [block(x, bm, bn), block(y, bn, bm), block(z, bm, bn), bm, 2 * bn]
    expected = {1: v.T, 2: np.concatenate(parts, 1) ** 2}
    return Launch(odd_blocks, (1, 2), args, expected, {"BM": bm, "BN": bn}, 2e-3)


@case
def blocks_of_16_by_48(a: Arrays) -> Launch:
    return _odd(a, 16, 48)


@case
def blocks_of_80_by_96(a: Arrays) -> Launch:
    return _odd(a, 80, 96)


@case
def blocks_of_192_by_32(a: Arrays) -> Launch:
    return _odd(a, 192, 32)


@tawa.jit
def dynamic_tiles(x, y, ticket, tiles, BLOCK: tl.constexpr):
    tile = tl.atomic_add(ticket, 1)
    while tile < tiles:
        y.store([tile * BLOCK], x.load([tile * BLOCK]) * 3)
        tile = tl.atomic_add(ticket, 1)


@case
def tiles_by_ticket(a: Arrays) -> Launch:

    x, y = a.random("f32", 640), a.output("f32", 640)
    args = [block(x, 64), block(y, 64), stored(np.zeros(1), "i32"), 10]
    expected = {1: values(x) * 3, 2: [12]}
    return Launch(dynamic_tiles, (2,), args, expected, {"BLOCK": 64})


@tawa.jit
def concatenated(x, y, z, N: tl.constexpr):
    at = tl.arange(0, N)
    both = tl.cat(tl.load(x + at), tl.load(y + at), can_reorder=True)
    tl.store(z + tl.arange(0, 2 * N), tl.sort(both))


@case
def concatenation(a: Arrays) -> Launch:
    x, y = a.random("i32", 32), a.random("i32", 32)
    expected = np.sort(np.concatenate([values(x), values(y)]))
    return Launch(concatenated, (1,), [x, y, a.output("i32", 64)], {2: expected}, {"N": 32})


@tawa.jit
def checked(x, y, n, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at, mask=at < n, other=1.0)
    tl.device_assert(v > 0, "x is not positive", mask=at < n)
    tl.device_print("largest", tl.max(v, axis=0))
    tl.store(y + at, tl.log(v), mask=at < n)


@case
def assertion_that_holds(a: Arrays) -> Launch:
    x = a.random("f32", 50)
    x[...] = np.abs(x) + 0.5
    args = [x, a.output("f32", 50), 50]
    return Launch(checked, (1,), args, {1: np.log(values(x))}, {"N": 64})


@tawa.jit
def whole_tile(x, y, M: tl.constexpr, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(y, tl.sum(v))
    tl.store(y + 1, tl.max(v))
    tl.store(y + 2, tl.argmax(tl.ravel(v), axis=0))
    low = tl.min(v, axis=1, keep_dims=True)
    tl.store(y + 3, tl.sum(tl.sum(v - low, axis=1), axis=0))
    tl.store(y + 4, tl.reduce(v, None, product))


@tawa.jit
def product(a, b):
    return a * b


@case
def reductions_of_a_whole_tile(a: Arrays) -> Launch:
    x = a.random("f32", 16, 24)
    x[...] = 1 + x / 20
    v = values(x)
    expected = [v.sum(), v.max(), v.argmax(), (v - v.min(1, keepdims=True)).sum(), v.prod()]
    args = [x, a.output("f32", 5)]
    return Launch(whole_tile, (1,), args, {1: np.array(expected)}, {"M": 16, "N": 24})


@tawa.jit
def reduced_3d(x, y, z, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    i, j, k = tl.arange(0, A)[:, None, None], tl.arange(0, B)[None, :, None], tl.arange(0, C)
    v = tl.load(x + (i * B + j) * C + k[None, None, :])
    tl.store(y + tl.arange(0, A)[:, None] * C + k[None, :], tl.max(v, axis=1))
    s = tl.cumsum(v, axis=2)
    tl.store(z + (i * B + j) * C + k[None, None, :], s)


@case
def reductions_of_three_dimensions(a: Arrays) -> Launch:
    x = a.random("f32", 4, 8, 16)
    v = values(x)
    args = [x, a.output("f32", 4, 16), a.output("f32", 4, 8, 16)]
    expected = {1: v.max(1), 2: v.cumsum(2)}
    return Launch(reduced_3d, (1,), args, expected, {"A": 4, "B": 8, "C": 16})


@tawa.jit
def ranges(y, n, step, N: tl.constexpr):
    total = 0
    for i in range(n, 0, -2):
        total += i
    for i in tl.range(0, n, step, num_stages=3, flatten=True):
        total += i * 100
    for _ in range(n, n):
        total += 1000000
    for i in tl.static_range(3, 0, -1):
        total = total * 3 + i
    tl.store(y, total)
    big = n.to(tl.int64) * 2147483647
    tl.store(y + 1, (big % 1000).to(tl.int32))
    tl.store(y + 2, tl.where(n > 5 and step == 3, 7, 8) + (1 if n == 9 else 2))


@case
def ranges_of_all_kinds(a: Arrays) -> Launch:
    total = 9 + 7 + 5 + 3 + 1 + 100 * (0 + 3 + 6)
    for i in (3, 2, 1):
        total = total * 3 + i
    expected = [total, 9 * 2147483647 % 1000, 8]
    return Launch(ranges, (1,), [a.output("i32", 3), 9, 3], {0: expected}, {"N": 1})


@tawa.jit
def pick(x, index, out, N: tl.constexpr, M: tl.constexpr):
    ptrs = x + tl.load(index + tl.arange(0, M))
    both = tl.where(tl.arange(0, M) % 2 == 0, ptrs, x + N - 1)
    tl.store(out + tl.arange(0, M), tl.load(both))
    row = tl.load(x + tl.arange(0, N))
    tl.store(out + M + tl.arange(0, N), tl.flip(row))
    tl.store(out + M + N + tl.arange(0, 4), tl.topk(row, 4))


@case
def pointers_and_order(a: Arrays) -> Launch:
    x = a.random("f32", 32)
    index = np.random.default_rng(1).integers(0, 32, 16)
    v = values(x)
    picked = np.where(np.arange(16) % 2 == 0, v[index], v[31])
    expected = np.concatenate([picked, v[::-1], np.sort(v)[::-1][:4]])
    args = [x, stored(index, "i32"), a.output("f32", 52)]
    return Launch(pick, (1,), args, {2: expected}, {"N": 32, "M": 16})


@tawa.jit
def chase(x, y, place, n, BLOCK: tl.constexpr):
    for i in range(n):
        at = tl.load(place)
        y.store([i * BLOCK], x.load([at * BLOCK]) + 1)
        tl.store(place, (at * 5 + 3) % 8)


@case
def coordinates_from_memory_that_is_written(a: Arrays) -> Launch:
    x, y = a.random("f32", 8 * 32), a.output("f32", 8 * 32)
    rows, at, order = values(x).reshape(8, 32), 0, []
    for _ in range(8):
        order.append(at)
        at = (at * 5 + 3) % 8
    args = [block(x, 32), block(y, 32), stored(np.zeros(1), "i32"), 8]
    return Launch(chase, (1,), args, {1: (rows[order] + 1).reshape(-1)}, {"BLOCK": 32})


@tawa.jit
def scaled_in_place(x, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK
    for k in range(0, n, BLOCK):
        x.store([row, k], x.load([row, k]) * 2 + k)


@case
def blocks_changed_in_place(a: Arrays) -> Launch:
    x = a.random("f32", 64, 96)
    expected = values(x) * 2 + np.arange(96) // 32 * 32
    return Launch(scaled_in_place, (2,), [block(x, 32, 32), 96], {0: expected}, {"BLOCK": 32})
