"""Functions of a module as Python callables that check what they are given.

The check is the function's own scheme: its variables are solved for the sizes of the actual
arrays, by the solver that inferred it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tawa.axon.dims import Dim
from tawa.axon.errors import ContractViolation, StaticArgumentError
from tawa.axon.evaluate import ELEMENT_NAMES, Constructed, Evaluator, Frame
from tawa.axon.language import axon
from tawa.axon.shapes import as_shape, evaluate, shape, tensor
from tawa.axon.show import AxonPrinter
from tawa.axon.solver import AxonSolver
from tawa.base.spans import Span
from tawa.functional.language import CheckedModule
from tawa.functional.solver import Clash
from tawa.functional.terms import Con, Instance, Origin, Scheme, Term, Variable, product

NOWHERE = Span("<call>", 1)


@dataclass(frozen=True)
class Function:
    """A function of a module: callable with arrays, and with its static arguments by name.

    Arrays are NumPy's, or anything that `numpy.asarray` takes (PyTorch's on the CPU, too). Raises
    ContractViolation before anything is computed when they don't fit.
    """

    name: str
    scheme: Scheme
    evaluator: Evaluator

    @property
    def type(self) -> str:
        """The scheme as text."""
        return AxonPrinter().scheme(self.scheme)

    def __call__(self, *arguments: Any, **statics: int | tuple[int, ...]) -> Any:
        """Check the arguments against the scheme, then evaluate."""
        values = [to_value(argument) for argument in arguments]
        frame, instance, solver = self._entered(values, statics)
        result = self.evaluator.definition(self.name, frame)
        del instance, solver
        for value in values:
            result = result(value)
        return result

    def check(self, *arguments: Any, **statics: int | tuple[int, ...]) -> Term:
        """Only check the arguments: the type of the result. Raises ContractViolation."""
        values = [to_value(argument) for argument in arguments]
        _, instance, solver = self._entered(values, statics)
        type_: Term = instance.type
        if isinstance(type_, Con) and type_.name.startswith("{"):
            type_ = type_.arguments[-1]
        for _ in values:
            type_ = solver.resolve(type_)
            if isinstance(type_, Con):
                type_ = type_.arguments[1]
        return solver.resolve(type_)

    def _entered(
        self, values: list[Any], statics: Mapping[str, int | tuple[int, ...]]
    ) -> tuple[Frame, Instance, AxonSolver]:
        solver = AxonSolver()
        names = self._parameter_names()
        place = self._place()
        try:
            instance = solver.instantiate(self.scheme, Origin(place, f"`{self.name}`"))
            type_ = self._give_statics(solver, instance.type, statics)
            for number, value in enumerate(values):
                type_ = solver.resolve(type_)
                if not (isinstance(type_, Con) and type_.name == "->"):
                    raise ContractViolation(
                        f"`{self.name}` takes {number} arguments, not {len(values)}", span=place
                    )
                label = names[number] if number < len(names) else str(number + 1)
                parameter, rest = type_.arguments
                self._unify(solver, parameter, value, label)
                type_ = rest
        except Clash as clash:
            raise self._violation(clash, solver, place) from None
        for constraint in solver.waiting():
            solver.default(constraint)
        known = _known(solver, instance.mapping)
        inference = self.evaluator.inference
        return Frame(inference, known=known), instance, solver

    def _give_statics(
        self, solver: AxonSolver, type_: Term, statics: Mapping[str, int | tuple[int, ...]]
    ) -> Term:
        if not (isinstance(type_, Con) and type_.name.startswith("{")):
            if statics:
                raise StaticArgumentError(f"`{self.name}` has no static parameters")
            return type_
        parameters = type_.name[1:-1].split(",")
        *terms, result = type_.arguments
        plain = [p.partition("=")[0].lstrip(".") for p in parameters]
        unknown = statics.keys() - set(plain)
        if unknown:
            raise StaticArgumentError(
                f"`{self.name}` has no static parameter `{min(unknown)}`", span=self._place(),
                expected=", ".join(plain),
            )  # fmt: skip
        for parameter, key, term in zip(parameters, plain, terms, strict=True):
            default = parameter.partition("=")[2]
            given = statics.get(key, int(default) if default else None)
            if given is not None:
                value = Dim.of(given) if isinstance(given, int) else shape(*given)
                solver.unify(term, value, Origin(self._place(), f"static argument `{key}`"))
        return result

    def _unify(self, solver: AxonSolver, parameter: Term, value: Any, label: str) -> None:
        origin = Origin(self._place(), f"argument `{label}`")
        found = type_of(value, parameter, solver)
        if found is None:
            return
        printer = AxonPrinter()
        expected = printer.type(solver.resolve(parameter))
        try:
            solver.unify(parameter, found, origin)
        except Clash as clash:
            error = self._violation(clash, solver, origin.span)
            error.message = (
                f"`{self.name}`: argument `{label}` of type {printer.type(found)} does not fit"
            )
            error.expected, error.found = expected, printer.type(found)
            raise error from None

    def _violation(self, clash: Clash, solver: AxonSolver, place: Span) -> ContractViolation:
        printer = AxonPrinter()
        sides = [printer.type(solver.resolve(side)) for side in (clash.left, clash.right)]
        reason = f": {clash.reason}" if clash.reason else ""
        error = ContractViolation(
            f"`{self.name}`: {sides[0]} does not fit {sides[1]}{reason}", span=place
        )
        for origin in list(clash.origin.chain())[1:]:
            error.with_note(f"demanded by {origin.what}", origin.span)
        return error

    def _parameter_names(self) -> list[str]:
        definition = self.evaluator.definitions[self.name]
        return [getattr(p, "name", f"{i + 1}") for i, p in enumerate(definition.parameters)]

    def _place(self) -> Span:
        return self.evaluator.definitions[self.name].name_span


def _known(
    solver: AxonSolver, mapping: dict[Variable, Variable]
) -> Callable[[Variable], int | tuple[int, ...] | str | None]:
    def known(variable: Variable) -> int | tuple[int, ...] | str | None:
        target = mapping.get(variable)
        if target is None:
            return None
        term = solver.resolve(target)
        if isinstance(term, Dim):
            return evaluate(term, lambda _: None)
        if isinstance(term, Con):
            return term.name
        return as_shape(term).numbers if term is not target else None

    return known


def to_value(argument: Any) -> Any:
    """An argument as arrays and tuples of arrays."""
    if isinstance(argument, tuple):
        return tuple(to_value(item) for item in argument)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if callable(argument) or isinstance(argument, Constructed):
        return argument
    if hasattr(argument, "detach"):
        argument = argument.detach().cpu()
    return np.asarray(argument)


def type_of(value: Any, parameter: Term, solver: AxonSolver) -> Term | None:
    """The type of an actual argument; None for functions and datatypes, which aren't checked."""
    if isinstance(value, tuple):
        parameter = solver.prune(parameter)
        parts = parameter.arguments if isinstance(parameter, Con) else ()
        padded = [*parts, *(solver.fresh() for _ in range(len(value) - len(parts)))]  # pyright: ignore[reportUnknownArgumentType]
        items = [type_of(v, p, solver) or p for v, p in zip(value, padded, strict=False)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return product(*items)
    if not isinstance(value, np.ndarray):
        return None
    name = ELEMENT_NAMES.get(value.dtype)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    if name is None:
        raise ContractViolation(f"arrays of {value.dtype} are not supported")  # pyright: ignore[reportUnknownMemberType]
    return tensor(Con(name), shape(*np.shape(value)))  # pyright: ignore[reportUnknownArgumentType]


class LoadedModule(Mapping[str, Function]):
    """The functions of a module, by name."""

    def __init__(self, module: CheckedModule) -> None:
        self.module = module
        self._evaluator = Evaluator(module)

    def __getitem__(self, name: str) -> Function:
        if name not in self._evaluator.definitions:
            raise KeyError(name)
        return Function(name, self.module.schemes[name], self._evaluator)

    def __iter__(self) -> Iterator[str]:
        return iter(self._evaluator.definitions)

    def __len__(self) -> int:
        return len(self._evaluator.definitions)


def load(source: str | Path) -> LoadedModule:
    """The functions of Axon source text, or of a file if given a `Path`. Raises TawaError."""
    if isinstance(source, Path):
        return LoadedModule(axon().check_file(source))
    return LoadedModule(axon().check(source))
