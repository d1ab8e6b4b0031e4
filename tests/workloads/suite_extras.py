"""What few kernels use: gathers in registers, inline assembly, scaled products, odd roundings."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
E2M1 = np.concatenate([E2M1, -E2M1])


@tawa.jit
def gather_rows(x, at, y, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    place = tl.arange(0, K if AXIS == 0 else M)[:, None] * (N if AXIS == 0 else K)
    place += tl.arange(0, N if AXIS == 0 else K)[None, :]
    tl.store(y + place, tl.gather(v, tl.load(at + place), AXIS))


@case
def gather_along_columns(a: Arrays) -> Launch:
    x, at = a.random("f32", 32, 64), np.random.default_rng(0).integers(0, 64, (32, 16))
    args = [x, stored(at, "i32"), a.output("f32", 32, 16)]
    constants = {"AXIS": 1, "M": 32, "N": 64, "K": 16}
    expected = {2: np.take_along_axis(values(x), at, 1)}
    return Launch(gather_rows, (1,), args, expected, constants)


@case
def gather_along_rows(a: Arrays) -> Launch:
    x, at = a.random("bf16", 32, 64), np.random.default_rng(0).integers(0, 32, (8, 64))
    args = [x, stored(at, "i64"), a.output("bf16", 8, 64)]
    constants = {"AXIS": 0, "M": 32, "N": 64, "K": 8, "num_warps": 2}
    expected = {2: np.take_along_axis(values(x), at, 0)}
    return Launch(gather_rows, (1,), args, expected, constants)


@tawa.jit
def table_weights(codes, table, x, y, K: tl.constexpr, BK: tl.constexpr):
    """Weights are codes of a table of 16 numbers, looked up in the loop."""
    i = tl.arange(0, 64)
    entries = tl.load(table + tl.arange(0, 16))
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, BK):
        kk = k + tl.arange(0, BK)
        code = tl.load(codes + i[:, None] * K + kk[None, :])
        w = entries.gather(tl.ravel(code), 0).reshape(64, BK)
        acc = tl.dot(w, tl.load(x + kk[:, None] * 64 + i[None, :]), acc)
    tl.store(y + i[:, None] * 64 + i[None, :], acc)


@case
def weights_from_a_table(a: Arrays) -> Launch:
    codes = np.random.default_rng(0).integers(0, 16, (64, 96))
    table, x = a.random("f16", 16), a.random("f16", 96, 64)
    args = [stored(codes, "i32"), table, x, a.output("f32", 64, 64)]
    expected = {3: values(table)[codes] @ values(x)}
    return Launch(table_weights, (1,), args, expected, {"K": 96, "BK": 32})


@tawa.jit
def assembled(x, q, y, low, high):
    at = tl.arange(0, 1024)
    v = tl.load(x + at)
    relu = tl.inline_asm_elementwise(
        "{ .reg .pred p; setp.gt.f32 p, $1, 0f00000000; selp.f32 $0, $1, 0f00000000, p; }",
        "=f,f", [v], dtype=tl.float32, is_pure=True, pack=1,
    )  # fmt: skip
    two = tl.inline_asm_elementwise("mov.u32 $0, 2;", "=r", [], tl.int32, is_pure=False, pack=1)
    half = tl.inline_asm_elementwise(
        "cvt.rn.bf16x2.f32 $0, $2, $1;", "=r,r,r", [relu * two], tl.bfloat16, True, 2
    )
    tl.store(y + at, half)
    parts = tl.inline_asm_elementwise(
        """
        {   // the nibbles of four bytes
            .reg .b32 t;
            and.b32 $0, $2, 0x0F0F0F0F;
            shr.u32 t, $2, 4;
            and.b32 $1, t, 0x0F0F0F0F;
        }
        """,
        "=r,=r,r", [tl.load(q + at)], dtype=(tl.int8, tl.int8), is_pure=True, pack=4,
    )  # fmt: skip
    tl.store(low + at, parts[0])
    tl.store(high + at, parts[1])


@case
def inline_assembly(a: Arrays) -> Launch:
    x, q = a.random("f32", 1024), stored(np.random.default_rng(0).integers(-128, 128, 1024), "i8")
    bits = values(q).astype(int)
    args = [x, q, a.output("bf16", 1024), a.output("i8", 1024), a.output("i8", 1024)]
    expected = {2: 2 * np.maximum(values(x), 0), 3: bits & 15, 4: (bits >> 4) & 15}
    return Launch(assembled, (1,), args, expected, {}, 3e-3)


@tawa.jit
def microscaled(a, sa, b, sb, c, K: tl.constexpr, BK: tl.constexpr, KIND: tl.constexpr):
    """A product of 4-bit or 8-bit floats with a scale for each 32 along K."""
    tl.static_assert(KIND in ("e2m1", "e4m3"))
    PER: tl.constexpr = 2 if KIND == "e2m1" else 1
    i = tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, BK):
        kk = k // PER + tl.arange(0, BK // PER)
        ks = k // 32 + tl.arange(0, BK // 32)
        x = tl.load(a + i[:, None] * (K // PER) + kk[None, :])
        y = tl.load(b + i[None, :] * (K // PER) + kk[:, None])
        xs = tl.load(sa + i[:, None] * (K // 32) + ks[None, :]).to(tl.uint8, bitcast=True)
        ys = tl.load(sb + i[:, None] * (K // 32) + ks[None, :]).to(tl.uint8, bitcast=True)
        acc = tl.dot_scaled(x, xs, KIND, y, ys, KIND, acc)
    tl.store(c + i[:, None] * 64 + i[None, :], acc)


def _bytes(x: np.ndarray) -> np.ndarray:
    return x.astype(np.uint8).view(np.int8)


@case
def product_of_mxfp4(a: Arrays) -> Launch:
    rng = np.random.default_rng(0)
    codes, scales = rng.integers(0, 16, (2, 64, 128)), rng.integers(120, 134, (2, 64, 4))
    real = E2M1[codes] * np.repeat(2.0 ** (scales - 127), 32, 2)
    packed = _bytes(codes[..., ::2] | codes[..., 1::2] << 4)
    scale = _bytes(scales)
    args = [stored(v, "i8") for v in (packed[0], scale[0], packed[1], scale[1])]
    constants = {"K": 128, "BK": 64, "KIND": "e2m1"}
    out = a.output("f32", 64, 64)
    return Launch(microscaled, (1,), [*args, out], {4: real[0] @ real[1].T}, constants)


@case
def product_of_mxfp8(a: Arrays) -> Launch:
    x, y = a.random("e4m3", 64, 64), a.random("e4m3", 64, 64)
    scales = np.random.default_rng(0).integers(120, 134, (2, 64, 2))
    left, right = (
        values(v) * np.repeat(2.0 ** (s - 127), 32, 1) for v, s in zip((x, y), scales, strict=True)
    )
    sa, sb = (stored(_bytes(s), "i8") for s in scales)
    constants = {"K": 64, "BK": 64, "KIND": "e4m3"}
    args = [x, sa, y, sb, a.output("f32", 64, 64)]
    return Launch(microscaled, (1,), args, {4: left @ right.T}, constants)


@tawa.jit
def cut_and_choose(a, b):
    total = a + b
    return tl.where(total > 0, total, a - b)


@tawa.jit
def roundings(x, y, z, order, best):
    row, column = tl.arange(0, 8)[:, None], tl.arange(0, 32)[None, :]
    v = tl.load(x + row * 32 + column)
    tl.store(y + row * 32 + column, v.to(tl.bfloat16, fp_downcast_rounding="rtz"))
    tl.store(z + row * 32 + column, tl.cast(v, tl.float16, "rtz"))
    tl.store(order + row * 32 + column, tl.flip(tl.sort(v, dim=0), 0))
    four = tl.squeeze(
        tl.unsqueeze(tl.topk(tl.map_elementwise(cut_and_choose, v, v), 4, dim=0), 1), 1
    )
    tl.store(best + tl.arange(0, 4)[:, None] * 32 + column, four)


@case
def rounding_towards_zero(a: Arrays) -> Launch:
    x = a.random("f32", 8, 32)
    v = values(x).astype(np.float32)
    cut = (v.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    near = v.astype(np.float16)
    beyond = np.abs(near.astype(np.float32)) > np.abs(v)
    half = np.where(beyond, (near.view(np.int16) - 1).view(np.float16), near)
    falling = -np.sort(-v, 0)
    best = -np.sort(-np.where(v > 0, 2 * v, 0), 0)[:4]
    outputs = [a.output("bf16", 8, 32), a.output("f16", 8, 32), a.output("f32", 8, 32)]
    args = [x, *outputs, a.output("f32", 4, 32)]
    expected = {1: cut, 2: half, 3: falling, 4: best}
    return Launch(roundings, (1,), args, expected, {}, 1e-6)


@tawa.jit
def sums_of_32_warps(x, y, z, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    tl.store(y, tl.sum(v))
    tl.store(z + at, tl.cumsum(v))


@case
def thirty_two_warps(a: Arrays) -> Launch:
    x = a.random("f32", 4096)
    args = [x, a.output("f32", 1), a.output("f32", 4096)]
    expected = {1: values(x).sum()[None], 2: values(x).cumsum()}
    return Launch(sums_of_32_warps, (1,), args, expected, {"N": 4096, "num_warps": 32})
