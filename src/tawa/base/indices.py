"""How places are counted, by compiler and host alike: strides, and divisions by known numbers."""

from __future__ import annotations

from collections.abc import Sequence


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a row-major array of this shape."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def reciprocal(divisor: int) -> int:
    """What `quotient` divides by `divisor` with: its reciprocal times 2^62, rounded up.

    For divisors and numbers below 2^31 the rounding adds less than 1 / divisor to a quotient
    (Granlund and Montgomery, Division by Invariant Integers using Multiplication, PLDI 1994).
    """
    return -(-(1 << 62) // max(divisor, 1))


def leading(number: int) -> int:
    """Rounded up to two leading bits."""
    unit = 1 << max(0, abs(number).bit_length() - 2)
    return -(-number // unit) * unit
