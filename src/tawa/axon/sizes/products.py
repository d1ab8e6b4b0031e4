"""Products of dimensions, and sums that are products of sums, as `h*w - h*q - w*p + p*q` is."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from tawa.axon.sizes.dims import Dim, divide_monomial, exact_quotient
from tawa.axon.sizes.monomials import MAX_KEPT, Factor, factor_key
from tawa.axon.sizes.polynomials import common_monomial, content

MAX_WEIGHT = 64
"""Symbols and numbers of a sum above which no factors of it are sought."""


@lru_cache(MAX_KEPT)
def factored(dim: Dim) -> tuple[Dim, ...]:
    """Two dimensions of which this is the product, neither a number, if they are found."""
    if len(dim.terms) < 2 or dim.weight > MAX_WEIGHT:
        return ()
    common = common_monomial(dim)
    if common:
        return Dim(((common, 1),)), divide_monomial(dim, common)
    for factor in dim.factors:
        linear = dim.linear_in(factor)
        slope, rest = linear or (dim, dim)
        if len(slope.terms) < 2 or not rest.terms:
            continue
        other = exact_quotient(rest, slope)
        if linear is not None and other is not None:
            return slope, other + Dim.of(factor)
    return ()


def times(factors: Iterable[int | Dim | tuple[Dim, int]]) -> Dim:
    """The product of numbers, dimensions, and powers of dimensions."""
    number, powers, sums = 1, dict[Factor, int](), list[Dim]()
    for factor in factors:
        base, power = factor if isinstance(factor, tuple) else (Dim.of(factor), 1)
        if len(base.terms) > 1:
            sums += [base] * power
        elif base.terms:
            monomial, c = base.terms[0]
            number *= c**power
            for inner, count in monomial if power else ():
                powers[inner] = powers.get(inner, 0) + count * power
        elif power:
            return base
    items = list(powers.items())
    if len(items) > 1:
        items.sort(key=lambda item: factor_key(item[0]))
    result = Dim(((tuple(items), number),))
    for base in sums:
        result = result * base
    return result


def primitive(dim: Dim) -> tuple[Dim, int]:
    """The dimension without its constant term and without the common factor of the others."""
    symbols = dim.symbols
    shared = content(symbols)
    if shared <= 1:
        return symbols, 1
    return Dim(tuple([(monomial, c // shared) for monomial, c in symbols.terms])), shared
