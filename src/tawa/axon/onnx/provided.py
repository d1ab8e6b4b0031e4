"""Numbers that are what they seem only where sizes are small enough, as floats hold few digits.

A float tensor may contain a size: `Cast` makes it of `Shape`. It is the size exactly up to a limit,
and rounded beyond. Such a number is a variable of the solver, of which nothing else is known there;
what it is defined as, and where, is put in when shapes are shown.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from onnx import TensorProto

from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.monomials import kind_least
from tawa.axon.sizes.solver import AxonSolver
from tawa.functional.terms import Variable

EXACT_UP_TO: dict[int, int] = {
    TensorProto.FLOAT: 2**24, TensorProto.DOUBLE: 2**53, TensorProto.FLOAT16: 2**11,
    TensorProto.BFLOAT16: 2**8,
}  # fmt: skip
"""Up to which number floats of a type hold each integer."""

MAX_CONDITIONS = 12
"""Conditions of a number: if there are more, it is unknown."""


class Number(NamedTuple):
    """A number that is `dim` where all of `sizes` are at least 1."""

    dim: Dim
    sizes: tuple[Dim, ...] = ()


QUOTIENT = "quotient"
"""The kind of the variables that stand for floats with a fraction: they are no sizes."""


class Quotient(NamedTuple):
    """A float that is `numerator / divisor` but for rounding, where all of `sizes` are at least 1.

    `rounded` are the numerators of what was rounded on the way, over the same divisor, in floats
    that hold all integers up to `limit`. It is below 0 nowhere if it `is_natural`.
    """

    numerator: Dim
    divisor: int
    limit: int
    is_natural: bool
    rounded: tuple[Dim, ...] = ()
    sizes: tuple[Dim, ...] = ()

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer without an error."""
        return self.divisor == 1 and not self.rounded

    def conditions(self) -> Iterator[Dim]:
        """What has to be at least 1 so that it lies between the integers around the quotient.

        Each of `count` errors is below `(abs(x) + 1) / limit`, where `x` is what was rounded, and
        their sum has to be below `1 / divisor`.
        """
        count = len(self.rounded)
        room = self.limit - count * self.divisor
        for size in self.rounded:
            yield -size * count + room
            yield size * count + room


def out_of(element: int, numbers: Iterable[Dim]) -> Iterator[Dim]:
    """What has to be at least 1 so that floats of a type hold the numbers; nothing for integers."""
    limit = EXACT_UP_TO.get(element)
    if limit is not None:
        for number in numbers:
            yield -number + (limit + 1)
            yield number + (limit + 1)


@dataclass
class Provided:
    """The variables that stand for such numbers in one walk through a model."""

    definitions: dict[Variable, Number] = field(default_factory=dict[Variable, Number])
    named: dict[object, Dim] = field(default_factory=dict[object, Dim])
    """The dimensions of such variables by what they were made of."""
    quotients: dict[Variable, Quotient] = field(default_factory=dict[Variable, Quotient])
    """What variables stand for that are no integers."""

    def number(self, dim: Dim) -> Number:
        """What a dimension is, and where: without variables that stand for other numbers."""
        if self.definitions.keys().isdisjoint(dim.free):
            return Number(dim)
        sizes: dict[Dim, None] = {}

        def put(variable: Variable) -> Dim | None:
            found = self.definitions.get(variable)
            if found is None:
                return None
            sizes.update(dict.fromkeys(found.sizes))
            return found.dim

        return Number(dim.substitute(put), tuple(sizes))

    def dim(self, number: Number, solver: AxonSolver, kind: str, made_of: object = None) -> Dim:
        """The dimension that stands for a number, which is of this kind everywhere.

        That is the number itself if its conditions provably hold. Two that are made of the same are
        one, even where the conditions don't hold; of others only the numbers are the same.
        """
        open_ = self.open(number.sizes, solver)
        if not open_:
            return number.dim
        number = Number(number.dim, tuple(open_))
        if len(open_) > MAX_CONDITIONS or any(s.constant is not None for s in open_):
            return Dim.of(solver.fresh(kind))
        if (found := self.named.get(made_of)) is not None:
            return found
        variable = solver.fresh(kind)
        self.definitions[variable] = number
        found = Dim.of(variable)
        if made_of is not None:
            self.named[made_of] = found
        return found

    def float_with(self, quotient: Quotient, solver: AxonSolver, made_of: object) -> Dim:
        """What stands for a float with a fraction in the contents of a tensor."""
        found = self.named.get(made_of)
        if found is None:
            variable = solver.fresh(QUOTIENT)
            self.quotients[variable] = quotient
            found = self.named[made_of] = Dim.of(variable)
        return found

    def open(self, sizes: Iterable[Dim], solver: AxonSolver) -> list[Dim]:
        """The conditions that don't provably hold."""
        lows = ((size, solver.least(solver.dim(size))) for size in dict.fromkeys(sizes))
        return [size for size, low in lows if low is None or low < 1]

    @contextmanager
    def supposed(self) -> Generator[None]:
        """Forget afterwards what is defined: it may hold in a branch only."""
        before = dict(self.definitions), dict(self.named), dict(self.quotients)
        try:
            yield
        finally:
            self.definitions, self.named, self.quotients = before


def shared_kind(solver: AxonSolver, dims: Iterable[Dim]) -> str:
    """The kind of a sum or product of numbers, which is so however the numbers are rounded."""
    lows = [solver.least(dim) for dim in dims]
    for kind in ("dim", "count"):
        least = kind_least(kind)
        if all(low is not None and low >= (least or 0) for low in lows):
            return kind
    return "integer"
