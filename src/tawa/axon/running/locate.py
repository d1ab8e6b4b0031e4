"""Where in a definition's body the arguments of a call don't fit.

A call is checked against the definition's type, which says that it is wrong, but not where: the
body is inferred again for the actual shapes, in which all sizes are numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tawa.axon.running.contract import Statics, type_of
from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.shapes import shape
from tawa.axon.sizes.solver import AxonSolver
from tawa.axon.typing import syntax as x
from tawa.axon.typing.infer import AxonInference, default_number
from tawa.base.errors import TawaError
from tawa.functional import syntax as s
from tawa.functional.language import CheckedModule
from tawa.functional.recursion import deep
from tawa.functional.terms import Con, Origin, Term

__all__ = ["IN_THIS_CALL", "misfit"]

IN_THIS_CALL = "in this call"
"""The note at each call through which a place was followed."""

MOST_NESTED = 20
"""Calls into which a place is followed."""


def misfit(
    module: CheckedModule, definition: s.Definition, arguments: Sequence[Any], statics: Statics
) -> TawaError | None:
    """The error in the body of a definition for these arguments, if there is one.

    Arguments are arrays, tuples of them, or types. An error in the body of another definition of
    the module is found there.
    """
    with deep():
        return _misfit(module, definition, arguments, statics, MOST_NESTED)


def _misfit(
    module: CheckedModule,
    definition: s.Definition,
    arguments: Sequence[Any],
    statics: Mapping[str, Any],
    depth: int,
) -> TawaError | None:
    inference = _CallInference(module, definition, arguments, statics, depth)
    try:
        inference.definition(definition)
    except TawaError as error:
        return error
    return None


class _CallInference(AxonInference):
    """The inference of one definition, whose parameters are given."""

    def __init__(
        self, module: CheckedModule, definition: s.Definition, arguments: Sequence[Any],
        statics: Mapping[str, Any], depth: int,
    ) -> None:  # fmt: skip
        known = module.inference
        super().__init__(AxonSolver(), known.environment())
        for datatype in known.datatypes.values():
            self.include_datatype(datatype)
        self.checked, self.depth, self.given = module, depth, statics
        self.arguments = dict(zip(definition.parameters, arguments, strict=False))
        self.own = definition.statics if isinstance(definition, x.StaticDefinition) else None
        self.followed = False

    def pattern(self, pattern: s.Pattern) -> Term:
        """The type of a parameter is that of its argument."""
        found = super().pattern(pattern)
        if pattern in self.arguments:
            value = self.arguments[pattern]
            given = value if isinstance(value, Con) else type_of(value, found, self.solver)
            if given is not None:
                self.agree(found, given, pattern.span, "argument")
        return found

    def _static_variables(self, parameters: tuple[x.StaticParameter, ...]) -> list[Term]:
        found = super()._static_variables(parameters)
        for parameter, term in zip(parameters, found, strict=True):
            if parameters is not self.own:
                continue
            given = self.given.get(parameter.name)
            if given is None and parameter.default is not None:
                given = default_number(parameter.default)
            if given is not None:
                origin = Origin(parameter.span, f"static argument `{parameter.name}`")
                numbers = Dim.of(given) if isinstance(given, int) else shape(*given)
                self.solver.unify(term, numbers, origin)
        return found

    def _apply(self, expression: s.Apply) -> Term:
        try:
            return super()._apply(expression)
        except TawaError:
            inside = None if self.followed else self._inside(expression)
            self.followed = True
            if inside is None:
                raise
            raise inside.with_note(IN_THIS_CALL, expression.span) from None

    def _inside(self, call: s.Apply) -> TawaError | None:
        """The error in the body of the definition that is called, if it is known there."""
        function, arguments = s.spine(call)
        name = function.function if isinstance(function, x.StaticApply) else function
        definitions = {d.name: d for d in self.checked.syntax.definitions()}
        if not isinstance(name, s.Name) or name.name not in definitions or self.depth == 0:
            return None
        definition = definitions[name.name]
        try:
            types = [self.solver.resolve(self.types.get(a) or self.infer(a)) for a in arguments]
        except TawaError:
            return None
        numbers: dict[str, int] = {}
        for key, term in self.statics.get(name, {}).items():
            value = self.solver.resolve(term)
            if isinstance(value, Dim) and value.constant is not None:
                numbers[key] = value.constant
        known = len(types) == len(definition.parameters)
        if not known or any(next(iter(t.variables()), None) is not None for t in types):
            return None
        return _misfit(self.checked, definition, types, numbers, self.depth - 1)
