"""All that inference found out about a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from tawa.axon.onnx.context import Room
from tawa.axon.onnx.progressions import Progression
from tawa.axon.onnx.provided import Number, Provided
from tawa.axon.onnx.values import UNKNOWN, Array, Dims, Value
from tawa.axon.sizes.conditional import determining, unless
from tawa.axon.sizes.dims import Dim, Floor, within
from tawa.axon.sizes.monomials import Atom
from tawa.axon.sizes.requirements import Requirement, requirements
from tawa.axon.sizes.shapes import Shape
from tawa.axon.sizes.show import AxonPrinter
from tawa.axon.sizes.solver import AxonSolver
from tawa.functional.terms import Variable

MAX_CONDITIONS = 16
"""Windows that have to fit for a size to be known: if there are more, it is unknown."""

MAX_DEFINED = 1 << 14
"""Symbols and numbers of a size and of its conditions: if there are more, it is unknown."""


@dataclass
class ModelShapes:
    """What one walk through a model found out: the solver, the symbols' sizes, and the values.

    It holds even where symbols are 0. `positive` is what another walk found out, for sizes of at
    least 1; where that says more, it says so for such sizes only.
    """

    solver: AxonSolver
    symbols: dict[str, Dim]
    values: dict[str, Value]
    unsupported: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    """The operators without a rule, and the nodes whose results are therefore unknown."""
    rooms: list[Room] = field(default_factory=list[Room])
    provided: Provided = field(default_factory=Provided)
    positive: ModelShapes | None = None

    def dims(self, name: str) -> tuple[Dim, ...] | None:
        """The sizes of a value; None if their number isn't known."""
        sure = self._own.dims(name)
        if self._positive is None or sure is None:
            return sure
        more = self._positive.dims(name)
        if more is None or len(sure) != len(more):
            return sure
        return tuple(self._either(a, b) for a, b in zip(sure, more, strict=True))

    def contents(self, name: str) -> Contents | None:
        """What a value contains, as far as that depends on sizes alone; None if it isn't known."""
        return self._own.contents(name)

    @cached_property
    def _own(self) -> View:
        return View(self, self)

    @cached_property
    def _positive(self) -> View | None:
        return None if self.positive is None else View(self.positive, self)

    def _either(self, sure: Dim, more: Dim) -> Dim:
        """What is known of a size for certain, and what if no symbol is 0."""
        known = self._own.known
        if sure == more or known.issuperset(sure.variables()):
            return sure
        if not known.issuperset(determining(more)):
            return sure
        return unless(more, sure, tuple(self.symbols.values()))

    def requirements(self) -> list[Requirement]:
        """What the model requires of its symbolic input sizes, and why."""
        if self.positive is not None:
            return self.positive.requirements()
        sizes = {name: next(dim.variables()) for name, dim in self.symbols.items()}
        return requirements(self.solver, sizes)

    def remarks(self) -> list[str]:
        """What else there is to say: which operators have no rule."""
        return [
            f"there is no rule for the operator `{operator}`: what {_few(list(nodes))} "
            f"{'gives' if len(nodes) == 1 else 'give'} is unknown"
            for operator, nodes in self.unsupported.items()
        ]

    def text(self, name: str, printer: AxonPrinter | None = None) -> str:
        """The shape of a value as text."""
        dims = self.dims(name)
        if dims is None:
            return "[..?]"
        return (printer or AxonPrinter()).shape(Shape(dims))


def _few(nodes: list[str]) -> str:
    """Some nodes in a sentence."""
    if len(nodes) <= 2:
        return " and ".join(nodes)
    return f"{nodes[0]} and {len(nodes) - 1} other nodes"


class Contents(NamedTuple):
    """What a value contains: numbers one by one, how they progress, or one that all are."""

    numbers: Array | None
    progression: Progression | None
    fill: Any


class View:
    """What a walk found out, in terms of a walk's symbols."""

    def __init__(self, walk: ModelShapes, into: ModelShapes) -> None:
        self.values, self.solver, self.shown_by = walk.values, walk.solver, into.solver
        self.known = {v for dim in into.symbols.values() for v in dim.variables()}
        self.names: dict[Variable, Dim] = {
            variable: into.symbols[symbol]
            for symbol, dim in walk.symbols.items()
            for variable in dim.variables()
        }
        for symbol, dim in walk.symbols.items():
            variable = walk.solver.dim(dim).sole_variable
            if variable is not None:
                self.names.setdefault(variable, into.symbols[symbol])
        self.names = {v: dim for v, dim in self.names.items() if dim.sole_variable is not v}
        self.rooms: dict[Atom, dict[Dim, None]] = {}
        for room in dict.fromkeys(walk.rooms):
            room = Room(walk.solver.dim(room.size), room.stride)
            for atom in room.quotients():
                self.rooms.setdefault(atom, {})[room.size + 1] = None
        self._shown: dict[Dim, Dim] = {}
        self._numbers: dict[Variable, Number | None] = {}
        self._definitions = _standing(walk.provided.definitions, walk.solver)

    def _needed(self, dim: Dim) -> tuple[Dim, ...] | None:
        """What has to be at least 1 so that the windows fit that a size depends on; None if much.

        Quotients of quotients are one quotient, which may be made of a window's.
        """
        found: dict[Dim, None] = {}
        for atom in dict.fromkeys(dim.atoms()) if self.rooms else ():
            found.update(self.rooms.get(atom, {}))
            if not isinstance(atom, Floor):
                continue
            for other, sizes in self.rooms.items():
                if isinstance(other, Floor) and within(atom, [other])[0] is not atom.numerator:
                    found.update(sizes)
                if len(found) > MAX_CONDITIONS:
                    return None
        return tuple(found)

    def _number(self, variable: Variable) -> Number | None:
        """What a variable stands for, and where, without other such variables; None if nothing."""
        if variable in self._numbers:
            return self._numbers[variable]
        self._numbers[variable] = None  # so while it is sought: nothing is defined by itself
        given = self._definitions.get(variable)
        if given is not None:
            sizes: dict[Dim, None] = {}
            known, *more = (self._put_in(part, sizes) for part in (given.dim, *given.sizes))
            self._numbers[variable] = Number(known, tuple(dict.fromkeys((*sizes, *more))))
        return self._numbers[variable]

    def _put_in(self, dim: Dim, sizes: dict[Dim, None]) -> Dim:
        """A size with the numbers put in that variables stand for; what has to hold, too."""
        dim = self.solver.dim(dim)
        if self._definitions.keys().isdisjoint(dim.free):
            return dim

        def put(variable: Variable) -> Dim | None:
            number = self._number(variable)
            if number is None:
                return None
            sizes.update(dict.fromkeys(number.sizes))
            return number.dim

        return dim.substitute(put)

    def _defined(self, dim: Dim) -> Dim:
        """A size in symbols, where all conditions hold; it is unknown elsewhere, or if it is long.

        The conditions are all put in front: inside of each other they would be written for each
        number that is computed from another one, and again for each that is computed from that.
        """
        sizes: dict[Dim, None] = {}
        known = self._put_in(dim, sizes)
        if not sizes:
            return known
        is_long = sum(size.weight for size in (known, *sizes)) > MAX_DEFINED
        unknown = self.shown_by.fresh_count()
        return unknown if is_long else unless(known, unknown, tuple(sizes))

    def _renamed(self, dim: Dim) -> Dim:
        """A size in the other walk's symbols."""
        return dim if self.names.keys().isdisjoint(dim.free) else dim.substitute(self.names.get)

    def dims(self, name: str) -> Dims | None:
        """The sizes of a value."""
        dims = self.values.get(name, UNKNOWN).dims
        return None if dims is None else tuple(self._dim(dim) for dim in dims)

    def contents(self, name: str) -> Contents | None:
        """What a value contains, with the numbers put in that variables stand for."""
        value = self.values.get(name, UNKNOWN).mapped(self._dim)
        found = Contents(value.contents, value.progression, value.fill)
        return None if all(part is None for part in found) else found

    def _dim(self, dim: Dim) -> Dim:
        """The size, if windows have room; it is unknown elsewhere."""
        found = self._shown.get(dim)
        if found is None:
            known = self._defined(dim)
            needed, unknown = self._needed(known), self.shown_by.fresh_count()
            sizes = tuple(self._renamed(size) for size in needed or ())
            found = unknown if needed is None else unless(self._renamed(known), unknown, sizes)
            self._shown[dim] = found
        return found


def _standing(definitions: dict[Variable, Number], solver: AxonSolver) -> dict[Variable, Number]:
    """The definitions of variables, and of those that the solver has put in their place."""
    found = dict(definitions)
    for variable, number in definitions.items():
        place = solver.dim(Dim.of(variable))
        other = place.counted_factor
        if isinstance(other, Variable) and other not in solver.declared:
            found.setdefault(other, number._replace(dim=number.dim - place.offset))
    return found
