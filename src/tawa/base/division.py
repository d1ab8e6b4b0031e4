"""Divisions by numbers that the launch knows, as products with their reciprocals."""

from __future__ import annotations


def reciprocal(divisor: int) -> int:
    """What `quotient` divides by `divisor` with: its reciprocal times 2^62, rounded up.

    For divisors and numbers below 2^31 the rounding adds less than 1 / divisor to a quotient
    (Granlund and Montgomery, Division by Invariant Integers using Multiplication, PLDI 1994).
    """
    return -(-(1 << 62) // max(divisor, 1))
