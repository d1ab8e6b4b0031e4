"""Products of numbers that share scales, written in the tile language (OCP microscaling formats).

Hopper has no instruction for them: operands become 16-bit floats, times their scales, which is
exact for all formats of 8 bits and fewer whose scaled values are in bf16's range.
"""

# Kernel code: what types mean here is the front end's matter.
# pyright: basic, reportArgumentType=false, reportAssignmentType=false, reportOperatorIssue=false

from __future__ import annotations

from typing import Any

from tawa.language import core
from tawa.language.builtin import composite
from tawa.language.dtypes import (
    bfloat16,
    constexpr,
    float8e4nv,
    float8e5,
    float16,
    float32,
    int16,
    uint8,
    uint16,
)

FORMATS = constexpr(("e2m1", "e4m3", "e5m2", "bf16", "fp16"))
BLOCK = constexpr(32)
"""Elements along K that share a scale."""


@composite
def nibbles(x: Any) -> Any:
    """The two 4-bit numbers of each byte, the lower one first, along the last dimension."""
    byte = core.to(x, uint8, bitcast=True)
    pairs = core.join(byte & 15, byte >> 4)
    return core.reshape(pairs, x.shape[:-1] + [2 * x.shape[-1]])


@composite
def from_e2m1(code: Any) -> Any:
    """4-bit floats as float32: they are float16 numbers with fewer bits and a smaller bias."""
    wide = core.to(code, int16)
    half = core.to(((wide & 7) << 9) | ((wide & 8) << 12), float16, bitcast=True)
    return core.to(half, float32) * 16384.0


@composite
def scaled(x: Any, scale: Any, format: constexpr, target: constexpr) -> Any:
    """Rows of an operand, K last, in the type of the product."""
    core.static_assert(
        format in FORMATS, "`tl.dot_scaled` has the formats e2m1 e4m3 e5m2 bf16 fp16"
    )
    if format == "e2m1":
        wide = from_e2m1(nibbles(x))
    elif format == "e4m3":
        wide = core.to(core.to(x, float8e4nv, bitcast=True), float32)
    elif format == "e5m2":
        wide = core.to(core.to(x, float8e5, bitcast=True), float32)
    else:
        wide = core.to(x, float32)
    if scale is not None:
        rows: constexpr = wide.shape[0]
        columns: constexpr = wide.shape[1]
        exponent = core.to(core.to(scale, uint8, bitcast=True), uint16) << 7
        factor = core.to(core.to(exponent, bfloat16, bitcast=True), float32)
        blocks = core.reshape(wide, (rows, columns // BLOCK, BLOCK))
        wide = core.reshape(blocks * factor[:, :, None], (rows, columns))
    return core.to(wide, target)


@composite
def dot_scaled(
    lhs: Any,
    lhs_scale: Any,
    lhs_format: constexpr,
    rhs: Any,
    rhs_scale: Any,
    rhs_format: constexpr,
    acc: Any = None,
    fast_math: constexpr = False,
    lhs_k_pack: constexpr = True,
    rhs_k_pack: constexpr = True,
    out_dtype: constexpr = float32,
) -> Any:
    """Product of (M, K) and (K, N) with e8m0 scales, (M, K / 32) and (N, K / 32), or None.

    Formats are e2m1 (two a byte along K), e4m3, e5m2, bf16 and fp16.
    """
    core.static_assert(lhs_k_pack and rhs_k_pack, "4-bit operands are packed along K")
    halves: constexpr = lhs_format == "fp16" or rhs_format == "fp16"
    target: constexpr = float16 if halves else bfloat16
    plain: constexpr = "fp16" if halves else "bf16"
    if lhs_scale is None and lhs_format == plain:
        left = lhs  # as it is: it is multiplied where it lies
    else:
        left = scaled(lhs, lhs_scale, lhs_format, target)
    if rhs_scale is None and rhs_format == plain:
        right = rhs
    else:
        right = core.trans(scaled(core.trans(rhs), rhs_scale, rhs_format, target))
    return core.dot(left, right, acc, out_dtype=out_dtype)
