"""Functions of a module as Python callables that check what they are given.

The check is the function's own scheme: its variables are solved for the sizes of the actual
arrays, by the solver that inferred it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from tawa.axon.running.autograd import array_of, is_torch, through_torch
from tawa.axon.running.contract import Call, Contract, Statics
from tawa.axon.running.evaluate import Constructed, Evaluator, Frame
from tawa.axon.running.locate import IN_THIS_CALL, misfit
from tawa.axon.running.tape import Traced
from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.shapes import as_shape, evaluate
from tawa.axon.sizes.solver import AxonSolver
from tawa.axon.typing.errors import ContractViolation, NoFunction, ShapeMismatch
from tawa.axon.typing.language import axon
from tawa.base.errors import Note
from tawa.base.user_frames import entries, entry
from tawa.functional.language import CheckedModule, require_text
from tawa.functional.recursion import deep
from tawa.functional.terms import Con, Scheme, Term, Variable


@entries
@dataclass(frozen=True, repr=False)
class Function:
    """A function of a module: callable with arrays, and with its static arguments by name.

    Arrays are NumPy's, or anything that `numpy.asarray` takes. For PyTorch's tensors, the result
    consists of PyTorch's tensors, and its `backward` goes through the function. Raises
    ContractViolation before anything is computed when they don't fit.
    """

    name: str
    scheme: Scheme
    evaluator: Evaluator

    def __repr__(self) -> str:
        return f"<axon function {self.name} : {self.type}>"

    @property
    def type(self) -> str:
        """The scheme as text."""
        return self.contract.type

    @property
    def contract(self) -> Contract:
        """The scheme as a contract, which other implementations can be held to."""
        definition = self.evaluator.definitions[self.name]
        names = [getattr(p, "name", f"{i + 1}") for i, p in enumerate(definition.parameters)]
        return Contract(self.name, self.scheme, tuple(names), definition.name_span)

    def __call__(self, *arguments: Any, **statics: int | tuple[int, ...]) -> Any:
        """Check the arguments against the scheme, then evaluate."""
        if is_torch(arguments):

            def run(*given: Any) -> Any:
                return self._run(given, statics)

            return through_torch(self.evaluator, run, arguments)
        return self._run(arguments, statics)

    def _run(self, arguments: tuple[Any, ...], statics: Statics) -> Any:
        values = tuple(to_value(argument) for argument in arguments)
        call = self.enter(values, statics)
        known = known_sizes(call.solver, call.instance.mapping)
        frame = Frame(self.evaluator.inference, known=known)
        with deep():
            result = self.evaluator.definition(self.name, frame)
            for value in values:
                result = result(value)
        return result

    def check(self, *arguments: Any, **statics: int | tuple[int, ...]) -> Term:
        """Only check the arguments: the type of the result. Raises ContractViolation."""
        values = tuple(to_value(argument) for argument in arguments)
        return self.enter(values, statics).result_type()

    def enter(self, values: tuple[Any, ...], statics: Statics) -> Call:
        """Check the arguments of a call. Raises ContractViolation, which says where they clash."""
        try:
            return self.contract.enter(values, statics)
        except ContractViolation as error:
            definition = self.evaluator.definitions[self.name]
            found = misfit(self.evaluator.module, definition, values, statics)
            if found is not None:
                text = f"with these arguments, {found.message}"
                if found.message == error.message:
                    raise
                if not isinstance(found, ShapeMismatch) and found.expected and found.found:
                    text += f" (expected {found.expected}, found {found.found})"
                calls = [note for note in found.notes if note.text == IN_THIS_CALL]
                error.hint = found.hint
                error.notes[:] = [Note(text, found.span), *calls]
            raise


def known_sizes(
    solver: AxonSolver, mapping: dict[Variable, Variable]
) -> Callable[[Variable], int | tuple[int, ...] | str | None]:
    """What the variables of a scheme stand for in a call."""

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
    if callable(argument) or isinstance(argument, Constructed | Traced):
        return argument
    if hasattr(argument, "detach"):
        argument = array_of(argument)
    return np.asarray(argument)


@entries
class LoadedModule(Mapping[str, Function]):
    """The functions of a module, by name."""

    def __init__(self, module: CheckedModule) -> None:
        self.module = module
        self._evaluator = Evaluator(module)

    def __repr__(self) -> str:
        names = list(self)
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        return f"<axon module: {', '.join(names[:8])}{more}>"

    def __getitem__(self, name: str) -> Function:
        if name not in self._evaluator.definitions:
            known = list(self._evaluator.definitions)
            near = get_close_matches(name, known, n=1)
            raise NoFunction(
                f"the module has no function `{name}`",
                expected=f"one of {', '.join(known)}",
                found=f"`{name}`",
                hint=f"did you mean `{near[0]}`?" if near else f"add `def {name} ... = ...`",
            )
        return Function(name, self.module.schemes[name], self._evaluator)

    def __iter__(self) -> Iterator[str]:
        return iter(self._evaluator.definitions)

    def __len__(self) -> int:
        return len(self._evaluator.definitions)


@entry
def load(source: str | Path) -> LoadedModule:
    """The functions of Axon source text, or of a file if given a `Path`. Raises TawaError."""
    if isinstance(source, Path):
        return LoadedModule(axon().check_file(source))
    return LoadedModule(axon().check(require_text(source)))
