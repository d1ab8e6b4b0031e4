"""All that inference found out about a model."""

from __future__ import annotations

from dataclasses import dataclass, field

from tawa.axon.onnx.values import UNKNOWN, Dims, Value
from tawa.axon.sizes.conditional import unless
from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.requirements import Requirement, requirements
from tawa.axon.sizes.shapes import Shape
from tawa.axon.sizes.show import AxonPrinter
from tawa.axon.sizes.solver import AxonSolver
from tawa.functional.terms import Term, Variable


@dataclass
class ModelShapes:
    """What one walk through a model found out: the solver, the symbols' sizes, and the values.

    `empty` is what holds even where symbols are 0. Elsewhere, sizes are taken to be at least 1:
    what follows from that alone says so (it is unknown where a symbol is 0).
    """

    solver: AxonSolver
    symbols: dict[str, Dim]
    values: dict[str, Value]
    unsupported: set[str] = field(default_factory=set[str])
    empty: ModelShapes | None = None

    def dims(self, name: str) -> tuple[Dim, ...] | None:
        """The sizes of a value; None if their number isn't known."""
        mine = self._resolved(name)
        if self.empty is None or mine is None:
            return mine
        sure = self.empty._renamed(name, self)
        if sure is None or len(sure) != len(mine):
            return None
        return tuple(self._either(a, b) for a, b in zip(mine, sure, strict=True))

    def _resolved(self, name: str) -> Dims | None:
        dims = self.values.get(name, UNKNOWN).dims
        return None if dims is None else tuple(self.solver.dim(dim) for dim in dims)

    def _renamed(self, name: str, into: ModelShapes) -> Dims | None:
        """The sizes of a value in terms of another walk's symbols."""
        dims = self._resolved(name)
        if dims is None:
            return None
        names: dict[Variable, Dim] = {}
        for symbol, dim in self.symbols.items():
            variable = self.solver.dim(dim).sole_variable
            if variable is not None:
                names.setdefault(variable, into.symbols[symbol])

        def other(variable: Variable) -> Term | None:
            return names.get(variable)

        return tuple(dim.substitute(other) for dim in dims)

    def _either(self, mine: Dim, sure: Dim) -> Dim:
        """What is known of a size for certain, and what if no symbol is 0."""
        known = {v for dim in self.symbols.values() for v in dim.variables()}
        if mine == sure or known.issuperset(sure.variables()):
            return sure
        known.update(v for s in self.symbols.values() for v in self.solver.dim(s).variables())
        if not known.issuperset(mine.variables()):
            return sure
        return unless(mine, sure, tuple(self.symbols.values()))

    def requirements(self) -> list[Requirement]:
        """What the model requires of its symbolic input sizes, and why."""
        sizes = {name: next(dim.variables()) for name, dim in self.symbols.items()}
        return requirements(self.solver, sizes)

    def text(self, name: str, printer: AxonPrinter | None = None) -> str:
        """The shape of a value as text."""
        dims = self.dims(name)
        if dims is None:
            return "[..?]"
        return (printer or AxonPrinter()).shape(Shape(dims))
