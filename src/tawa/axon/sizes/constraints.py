"""What can be demanded of dimensions and shapes, besides being equal at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache

from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.shapes import Shape
from tawa.functional.terms import Constraint, Origin, Term, Variable


@cache
def _names(kind: type[ShapeConstraint]) -> tuple[str, ...]:
    """The fields of a kind of constraint, but for the origin."""
    return tuple(field.name for field in fields(kind) if field.name != "origin")


@dataclass(frozen=True, slots=True)
class ShapeConstraint(Constraint):
    """Base of the constraints whose fields, but for the origin, are dimensions and shapes."""

    def variables(self) -> Iterator[Variable]:
        """Those of all the fields."""
        for name in _names(type(self)):
            value = getattr(self, name)
            if isinstance(value, Dim):
                yield from value.free
            elif isinstance(value, Term):
                yield from value.variables()

    def unknowns(self) -> dict[Variable, None]:
        """Those of all the fields."""
        found: dict[Variable, None] = {}
        for name in _names(type(self)):
            value = getattr(self, name)
            if isinstance(value, Dim):
                found.update(value.free)
            elif isinstance(value, Term):
                found.update(dict.fromkeys(value.variables()))
        return found

    def substitute(self, replace: Callable[[Variable], Term | None], origin: Origin) -> Constraint:
        """The same demand on other terms, made at another place."""
        values: dict[str, object] = {"origin": origin}
        for name in _names(type(self)):
            value = getattr(self, name)
            values[name] = value.substitute(replace) if isinstance(value, Term) else value
        return type(self)(**values)


@dataclass(frozen=True, slots=True)
class Equal(ShapeConstraint):
    """`left = right`, two dimensions."""

    left: Dim
    right: Dim
    origin: Origin


@dataclass(frozen=True, slots=True)
class SameShape(ShapeConstraint):
    """`left = right`, two shapes."""

    left: Shape
    right: Shape
    origin: Origin


@dataclass(frozen=True, slots=True)
class Broadcast(ShapeConstraint):
    """`result` is the shape of a pointwise operation on `left` and `right`, by NumPy's rules."""

    left: Shape
    right: Shape
    result: Shape
    origin: Origin


@dataclass(frozen=True, slots=True)
class Compatible(ShapeConstraint):
    """Two dimensions are equal, or one of them is 1."""

    left: Dim
    right: Dim
    origin: Origin


@dataclass(frozen=True, slots=True)
class Divides(ShapeConstraint):
    """`divisor` divides `dividend` without a rest."""

    divisor: Dim
    dividend: Dim
    origin: Origin


@dataclass(frozen=True, slots=True)
class AtLeast(ShapeConstraint):
    """`dim >= bound`."""

    dim: Dim
    bound: int
    origin: Origin


@dataclass(frozen=True, slots=True)
class Position(ShapeConstraint):
    """`axis` of a tensor of shape `before + [n] + after`: counted from the end if negative."""

    axis: Dim
    before: Shape
    after: Shape
    origin: Origin


@dataclass(frozen=True, slots=True)
class MatrixProduct(ShapeConstraint):
    """`result + [n]` is the shape of a product of shapes `left + [k]` and `right + [k, n]`.

    If `right` is empty, `result` is `left`; else `left` ends with the rows of its matrices, and
    what is before them broadcasts with `right`.
    """

    left: Shape
    right: Shape
    result: Shape
    origin: Origin


@dataclass(frozen=True, slots=True)
class Stacked(ShapeConstraint):
    """`whole` is a tree of tensors as `part` is, each with a leading axis of size `count`."""

    whole: Term
    count: Dim
    part: Term
    origin: Origin
