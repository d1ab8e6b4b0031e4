"""Shapes: sequences of dimensions and shape variables, in any number and order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tawa.axon.sizes.dims import Dim, total
from tawa.axon.sizes.measures import Measured, Rank, Size
from tawa.axon.sizes.products import times
from tawa.functional.terms import Con, Term, Variable

Item = Dim | Variable


@dataclass(frozen=True)
class Shape(Measured):
    """`[..s, m, 2*k]`: dimensions and variables of kind `"shape"`."""

    items: tuple[Item, ...]

    def variables(self) -> Iterator[Variable]:
        """The shape variables and those of the dimensions."""
        for item in self.items:
            yield from item.variables()

    def substitute(self, replace: Callable[[Variable], Term | None]) -> Shape:
        """The shape with variables replaced, shape variables by shapes."""
        items: list[Item] = []
        changed = False
        for item in self.items:
            if isinstance(item, Dim):
                new = item.substitute(replace)
                changed |= new is not item
                items.append(new)
                continue
            found = replace(item)
            changed |= found is not None
            items.extend((item,) if found is None else as_shape(found).items)
        return Shape(tuple(items)) if changed else self

    def size(self) -> Dim:
        """The product of all dimensions."""
        return times(i if isinstance(i, Dim) else Dim.of(Size(i)) for i in self.items)

    def rank(self) -> Dim:
        """The number of dimensions."""
        return total(Dim.of(1 if isinstance(i, Dim) else Rank(i)) for i in self.items)

    @property
    def dims(self) -> tuple[Dim, ...] | None:
        """The dimensions, if there is no shape variable."""
        dims = tuple(item for item in self.items if isinstance(item, Dim))
        return dims if len(dims) == len(self.items) else None

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """The sizes, if all are constants."""
        numbers = [i.constant if isinstance(i, Dim) else None for i in self.items]
        known = tuple(number for number in numbers if number is not None)
        return known if len(known) == len(numbers) else None


def shape(*items: int | Item) -> Shape:
    """A shape of numbers, dimensions, dimension variables and shape variables."""
    return Shape(tuple(_item(item) for item in items))


def _item(item: int | Item) -> Item:
    if isinstance(item, Variable) and item.kind == "shape":
        return item
    return Dim.of(item)


def append(*shapes: Term) -> Shape:
    """The shapes one after the other."""
    return Shape(tuple(item for part in shapes for item in as_shape(part).items))


def as_shape(term: Term) -> Shape:
    """A shape, or a shape variable as a shape."""
    if isinstance(term, Shape):
        return term
    if isinstance(term, Variable) and term.kind == "shape":
        return Shape((term,))
    raise TypeError(f"{term} is no shape")


def tensor(element: Term, of: Shape | Iterable[int | Item]) -> Con:
    """The type of tensors."""
    return Con("tensor", (element, of if isinstance(of, Shape) else shape(*of)))


def tensor_parts(type_: Term) -> tuple[Term, Shape] | None:
    """The element type and shape of a tensor type, None for other types."""
    if not isinstance(type_, Con) or type_.name != "tensor":
        return None
    element, of = type_.arguments
    return element, as_shape(of)


Sizes = Callable[[Variable], "int | tuple[int, ...] | None"]
"""The numbers that variables stand for: one for a dimension, several for a shape."""


def evaluate(dim: Dim, sizes: Sizes) -> int | None:
    """The number that a dimension is for given sizes; None if one is missing, or divides as 0."""
    try:
        return dim.substitute(_terms(sizes)).constant
    except ZeroDivisionError:
        return None


def evaluate_shape(of: Shape, sizes: Sizes) -> tuple[int | None, ...] | None:
    """The sizes of a shape, None for those unknown; None if the rank is unknown."""
    dims = of.substitute(_terms(sizes)).dims
    return None if dims is None else tuple(dim.constant for dim in dims)


def _terms(sizes: Sizes) -> Callable[[Variable], Term | None]:
    def term(variable: Variable) -> Term | None:
        value = sizes(variable)
        if value is None:
            return None
        return Dim.of(value) if isinstance(value, int) else shape(*value)

    return term
