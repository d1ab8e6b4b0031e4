"""A size that is known provided that other sizes are at least 1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.interned import once
from tawa.axon.sizes.monomials import Atom, Replace
from tawa.functional.terms import Variable


@dataclass(frozen=True, eq=False, init=False)
class Unless(Atom):
    """`dim` where all of `sizes` are at least 1, and else `otherwise`."""

    dim: Dim
    otherwise: Dim
    sizes: tuple[Dim, ...]

    @once
    def key(self) -> tuple[object, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Orders factors."""
        return (5, self.dim.key, self.otherwise.key, *(size.key for size in self.sizes))

    def parts(self) -> tuple[Dim, ...]:
        """All of them."""
        return (self.dim, self.otherwise, *self.sizes)

    def substitute(self, replace: Replace) -> Dim:
        """The dimension, once the sizes are numbers; else the same condition on other sizes."""
        otherwise = self.otherwise.substitute(replace)
        sizes = [size.substitute(replace) for size in self.sizes]
        if any(size.constant is not None and size.constant < 1 for size in sizes):
            return otherwise  # `dim` may divide by what is 0
        return unless(self.dim.substitute(replace), otherwise, tuple(sizes))

    def least(self) -> int | None:
        """The weaker bound."""
        bounds = (self.dim.least(), self.otherwise.least())
        return None if None in bounds else min(bound for bound in bounds if bound is not None)


def unless(dim: Dim, otherwise: Dim, sizes: tuple[Dim, ...]) -> Dim:
    """`dim`, unless one of `sizes` is below 1."""
    if any(size.constant is not None and size.constant < 1 for size in sizes):
        return otherwise
    sizes = tuple([size for size in sizes if size.constant is None])
    return Dim.of(Unless(dim, otherwise, sizes)) if sizes and dim != otherwise else dim


def determining(dim: Dim) -> Iterator[Variable]:
    """The variables that a dimension depends on where all its conditions hold."""
    for factor in dim.factors:
        if isinstance(factor, Variable):
            yield factor
            continue
        is_conditional = isinstance(factor, Unless)
        for part in (factor.dim, *factor.sizes) if is_conditional else factor.parts():
            yield from determining(part)
