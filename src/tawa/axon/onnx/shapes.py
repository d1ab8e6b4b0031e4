"""All that inference found out about a model."""

from __future__ import annotations

from dataclasses import dataclass, field

from tawa.axon.onnx.context import Room
from tawa.axon.onnx.values import UNKNOWN, Dims, Value
from tawa.axon.sizes.conditional import unless
from tawa.axon.sizes.dims import Atom, Dim
from tawa.axon.sizes.requirements import Requirement, requirements
from tawa.axon.sizes.shapes import Shape
from tawa.axon.sizes.show import AxonPrinter
from tawa.axon.sizes.solver import AxonSolver
from tawa.functional.terms import Term, Variable


@dataclass
class ModelShapes:
    """What one walk through a model found out: the solver, the symbols' sizes, and the values.

    It holds even where symbols are 0. `positive` is what another walk found out, for sizes of at
    least 1; where that says more, it says so for such sizes only.
    """

    solver: AxonSolver
    symbols: dict[str, Dim]
    values: dict[str, Value]
    unsupported: set[str] = field(default_factory=set[str])
    rooms: list[Room] = field(default_factory=list[Room])
    positive: ModelShapes | None = None

    def dims(self, name: str) -> tuple[Dim, ...] | None:
        """The sizes of a value; None if their number isn't known."""
        sure = self._renamed(name, self)
        if self.positive is None or sure is None:
            return sure
        more = self.positive._renamed(name, self)
        if more is None or len(sure) != len(more):
            return sure
        return tuple(self._either(a, b) for a, b in zip(sure, more, strict=True))

    def _renamed(self, name: str, into: ModelShapes) -> Dims | None:
        """The sizes of a value in terms of a walk's symbols."""
        dims = self.values.get(name, UNKNOWN).dims
        if dims is None:
            return None
        names: dict[Variable, Dim] = {
            variable: into.symbols[symbol]
            for symbol, dim in self.symbols.items()
            for variable in dim.variables()
        }
        for symbol, dim in self.symbols.items():
            variable = self.solver.dim(dim).sole_variable
            if variable is not None:
                names.setdefault(variable, into.symbols[symbol])

        def other(variable: Variable) -> Term | None:
            return names.get(variable)

        found = tuple(self.solver.dim(dim).substitute(other) for dim in dims)
        rooms = [Room(self.solver.dim(r.size).substitute(other), r.stride) for r in self.rooms]
        return tuple(self._where_windows_fit(dim, rooms, into.solver) for dim in found)

    def _where_windows_fit(self, dim: Dim, rooms: list[Room], solver: AxonSolver) -> Dim:
        """The size, if windows have room; it is unknown elsewhere."""
        atoms = set(dim.atoms()) if rooms else set[Atom]()
        unsure = [room for room in rooms if not atoms.isdisjoint(room.quotients())]
        needed = tuple(dict.fromkeys(room.size + 1 for room in unsure))
        return unless(dim, solver.fresh_count(), needed)

    def _either(self, sure: Dim, more: Dim) -> Dim:
        """What is known of a size for certain, and what if no symbol is 0."""
        known = {v for dim in self.symbols.values() for v in dim.variables()}
        if sure == more or known.issuperset(sure.variables()):
            return sure
        if not known.issuperset(more.variables()):
            return sure
        return unless(more, sure, tuple(self.symbols.values()))

    def requirements(self) -> list[Requirement]:
        """What the model requires of its symbolic input sizes, and why."""
        if self.positive is not None:
            return self.positive.requirements()
        sizes = {name: next(dim.variables()) for name, dim in self.symbols.items()}
        return requirements(self.solver, sizes)

    def text(self, name: str, printer: AxonPrinter | None = None) -> str:
        """The shape of a value as text."""
        dims = self.dims(name)
        if dims is None:
            return "[..?]"
        return (printer or AxonPrinter()).shape(Shape(dims))
