"""Addresses of memory as numbers, and back."""

from __future__ import annotations

from tawa.cuppl.numeric.primitives import Floats, Ints
from tawa.cuppl.translation.native import native

__all__ = ["address_of", "floats_at", "int_of", "words_of"]


@native
def int_of(address: Ints) -> int:
    """An address as a number."""
    return address  # type: ignore[return-value]  # an address is a number to the translator


@native
def address_of(word: int) -> Ints:
    """A number as an address."""
    return word  # type: ignore[return-value]


@native
def floats_at(word: int) -> Floats:
    """A number as the address of floats."""
    return word  # type: ignore[return-value]


@native
def words_of(array: Floats) -> Ints:
    """The bits of floats."""
    return array  # type: ignore[return-value]
