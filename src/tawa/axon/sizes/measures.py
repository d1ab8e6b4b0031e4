"""The size and the number of dimensions of a shape variable, as parts of dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tawa.axon.sizes.dims import Dim, as_variable
from tawa.axon.sizes.interned import once
from tawa.axon.sizes.monomials import Atom, Replace
from tawa.functional.terms import Term, Variable


class Measured(Term):
    """What a shape variable may be replaced by."""

    __slots__ = ()

    def size(self) -> Dim:
        """The product of all dimensions."""
        raise NotImplementedError

    def rank(self) -> Dim:
        """The number of dimensions."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, init=False)
class Size(Atom):
    """The product of a shape variable's dimensions."""

    shape: Variable

    @once
    def key(self) -> tuple[object, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Orders factors."""
        return (1, 0, self.shape.id)

    def variables(self) -> Iterator[Variable]:
        """The shape variable."""
        yield self.shape

    def substitute(self, replace: Replace) -> Dim:
        """The product of what replaces the shape variable."""
        found = replace(self.shape)
        if isinstance(found, Measured):
            return found.size()
        return Dim.of(self if found is None else Size(as_variable(found)))

    def least(self) -> int | None:
        """Sizes are at least 1."""
        return 1


@dataclass(frozen=True, eq=False, init=False)
class Rank(Atom):
    """The number of a shape variable's dimensions."""

    shape: Variable

    @once
    def key(self) -> tuple[object, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Orders factors."""
        return (1, 1, self.shape.id)

    def variables(self) -> Iterator[Variable]:
        """The shape variable."""
        yield self.shape

    def substitute(self, replace: Replace) -> Dim:
        """The rank of what replaces the shape variable."""
        found = replace(self.shape)
        if isinstance(found, Measured):
            return found.rank()
        return Dim.of(self if found is None else Rank(as_variable(found)))

    def least(self) -> int | None:
        """Ranks are at least 0."""
        return 0
