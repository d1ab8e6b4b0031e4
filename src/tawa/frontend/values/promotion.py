"""Which type an operation on two types computes in: Triton's rules.

Numbers known at compile time are weak: they take the other operand's type unless they are of a
higher kind (bool < integer < float). Everything else is strong, scalar arguments included.
"""

from __future__ import annotations

import math

from tawa.language.dtypes import (
    dtype,
    float16,
    float32,
    float64,
    int1,
    int32,
    int64,
    uint32,
    uint64,
)

_LEAST_NORMAL_F32 = 2.0**-126
_LARGEST_F32 = (2.0 - 2.0**-23) * 2.0**127


def natural_type(number: float) -> dtype | None:
    """The type of a number by itself; None for an integer beyond 64 bits."""
    if isinstance(number, bool):
        return int1
    if isinstance(number, int):
        for candidate in (int32, uint32, int64, uint64):
            low, high = candidate.integer_range()
            if low <= number <= high:
                return candidate
        return None
    magnitude = abs(number)
    exact = magnitude == 0 or math.isnan(number) or math.isinf(number)
    return float32 if exact or _LEAST_NORMAL_F32 <= magnitude <= _LARGEST_F32 else float64


def integer_type(a: dtype, b: dtype) -> dtype:
    """The type two integer types (or `int1`) compute in: the wider; unsigned wins among equals."""
    rank_a, rank_b = a.primitive_bitwidth, b.primitive_bitwidth
    if a.signed == b.signed:
        return a if rank_a > rank_b else b
    if not a.signed:
        return a if rank_a >= rank_b else b
    return b if rank_b >= rank_a else a


def _float_type(a: dtype, b: dtype) -> dtype | None:
    names = {a.name, b.name}
    for strongest in (float64, float32, float16):
        if strongest.name in names:
            return strongest
    if "bf16" in names:
        return a if a == b else float32
    if a.is_fp8() and b.is_fp8():
        return a if a == b else float16
    return None


def computation_type(
    a: dtype, a_weak: bool, b: dtype, b_weak: bool, *, division: bool = False
) -> dtype | None:
    """The type that both operands are converted to; `division` covers `/ // %`.

    Division of floats is done in at least f32. None if there is no such type: fp8 with an integer,
    and division of integers of different signedness.
    """
    if a_weak != b_weak:
        weak, strong = (a, b) if a_weak else (b, a)
        if weak.kind() <= strong.kind():
            a = b = strong
    if a.is_floating() or b.is_floating():
        if division and float64 not in (a, b):
            return float32
        return _float_type(a, b)
    if division and a.signed != b.signed:
        return None
    return integer_type(a, b)
