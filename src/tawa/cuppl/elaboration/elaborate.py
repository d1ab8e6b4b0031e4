"""The way from a checked program to the core."""

from __future__ import annotations

from collections.abc import Sequence

from tawa.base.source import Span
from tawa.cuppl.core.builder import FunctionBuilder
from tawa.cuppl.core.ir import Draw, Factor, Return
from tawa.cuppl.elaboration.builtins import BUILTIN_ARITY, call_builtin
from tawa.cuppl.elaboration.dispatch import call_dynamic, call_memo, register
from tawa.cuppl.elaboration.elaborator import Elaborator
from tawa.cuppl.elaboration.expressions import elaborate_expression
from tawa.cuppl.elaboration.patterns import bind
from tawa.cuppl.elaboration.shared import Elaborated, Env, Shared
from tawa.cuppl.elaboration.values import Closure, Dyn, Substitution, TupleValue, Value
from tawa.cuppl.natives import memo
from tawa.cuppl.typing.errors import EffectInConstant, NoMain
from tawa.cuppl.typing.language import Input
from tawa.functional import syntax as s
from tawa.functional.language import CheckedModule
from tawa.functional.recursion import deep
from tawa.functional.terms import Con, Term, Variable

__all__ = ["Elaborated", "elaborate", "memo"]


class _Rules:
    """The rules of the language."""

    def expression(self, e: Elaborator, node: s.Expression, env: Env) -> Value:
        return elaborate_expression(e, node, env)

    def bind(self, e: Elaborator, pattern: s.Pattern, value: Value, env: Env) -> None:
        bind(e, pattern, value, env)

    def register(self, shared: Shared, type_: Term, value: Value) -> int:
        return register(shared, type_, value)

    def call_dynamic(self, e: Elaborator, function: Dyn, argument: Value) -> Value:
        return call_dynamic(e, function, argument)

    def call_memo(self, e: Elaborator, function: Value, argument: Value, span: Span) -> Value:
        return call_memo(e, function, argument, span)

    def call_builtin(
        self, e: Elaborator, name: str, type_: Term, arguments: Sequence[Value], span: Span
    ) -> Value:
        return call_builtin(e, name, type_, arguments, span)

    def arity(self, name: str) -> int:
        return BUILTIN_ARITY.get(name, 1)


def elaborate(module: CheckedModule, main: str = "main", noting: bool = False) -> Elaborated:
    """Elaborate a checked program from its `main`. Raises FunctionalError.

    If it is `noting`, each observation is noted, with its log density and another draw from its
    distribution (`natives/notes.py`).
    """
    with deep():
        return _elaborate(module, main, noting)


def _elaborate(module: CheckedModule, main: str, noting: bool) -> Elaborated:
    shared = Shared(module, _Rules(), observed={} if noting else None)
    collect_datatypes(module, shared)
    definition = next((d for d in module.syntax.definitions() if d.name == main), None)
    if definition is None:
        raise NoMain(
            f"the program has no `{main}`", expected=f"`def {main} () = ...`",
            found=", ".join(f"`{d.name}`" for d in module.syntax.definitions()) or "no definitions",
            span=Span(module.syntax.file, 1), hint="add one, or name another with `main=`",
        )  # fmt: skip
    _refuse_parameters(module, definition)
    builder = FunctionBuilder("main", (), ())
    walker = Elaborator(shared, builder, module, _unit_for(module, definition))
    value = walker.global_value(module, main, definition.name_span)
    if isinstance(value, Closure):
        value = Closure(value.code, value.env, walker.types)
    if definition.parameters:
        value = walker.apply(value, [TupleValue(())], definition.name_span)
    result = walker.result_type(definition)
    shared.layouts.number(False, shared.layouts.words(result))  # of what a run returns
    regs = walker.regs(value, result)
    builder.function.results = tuple(r.type for r in regs)
    builder.end(Return(regs))
    shared.program.add(builder.finish())
    finish_pending(shared)
    refuse_effects(shared)
    read = {slot.name for slot in shared.inputs}
    declared = (d.name for d in module.syntax.declarations if isinstance(d, Input))
    return Elaborated(
        shared.program, "main", result, shared.layouts, shared.inputs, shared.sites,
        shared.messages, shared.strings, tuple(name for name in declared if name not in read),
        shared.observed or {},
    )  # fmt: skip


def _unit_for(module: CheckedModule, definition: s.Definition) -> Substitution:
    """What the type of a parameter that may be anything stands for: `main` is given `()`."""
    type_ = module.schemes[definition.name].type
    parameter = type_.arguments[0] if isinstance(type_, Con) and type_.name == "->" else None
    return {parameter: Con("tuple", ())} if isinstance(parameter, Variable) else {}


def _refuse_parameters(module: CheckedModule, definition: s.Definition) -> None:
    """Raise NoMain unless a definition can be called with `()`."""
    type_ = module.schemes[definition.name].type
    parameter = type_.arguments[0] if isinstance(type_, Con) and type_.name == "->" else None
    takes_unit = not isinstance(parameter, Con) or parameter == Con("tuple", ())
    if len(definition.parameters) > 1 or (definition.parameters and not takes_unit):
        name = definition.name
        raise NoMain(
            f"`{name}` takes an argument", span=definition.name_span,
            expected=f"`def {name} () = ...`", found=module.inference.printer().type(type_),
            hint="what is given when the program runs is declared: `input x : float`",
        )  # fmt: skip


def refuse_effects(shared: Shared) -> None:
    """Raise EffectInConstant if a constant calls a function that draws or conditions."""
    for function, constant, span in shared.constant_calls:
        for name in shared.program.reachable([function]).functions.values():
            items = (i for b in name.blocks.values() for i in b.instructions)
            if any(isinstance(i, Draw | Factor) for i in items):
                raise EffectInConstant(
                    f"`{constant}` is a constant, but this would draw at random or condition",
                    span=span, hint="make it a function, or move it into `main`",
                )  # fmt: skip


def finish_pending(shared: Shared) -> None:
    """Elaborate the bodies of called functions, then the dispatchers, until none is left."""
    while shared.pending or shared.late:
        while shared.pending:
            shared.pending.pop()()
        # A dispatcher may call for more functions and register more values, so all dispatchers
        # are written again when anything new has appeared.
        size = -1
        while size != sum(len(v) for v in shared.functions.values()) + len(shared.late):
            size = sum(len(v) for v in shared.functions.values()) + len(shared.late)
            for name, write in list(shared.late.items()):
                shared.program.functions.pop(name, None)
                write()
            while shared.pending:
                shared.pending.pop()()
        shared.late.clear()


def collect_datatypes(module: CheckedModule, shared: Shared) -> None:
    """Make the datatypes of a module and its imports known."""
    shared.layouts.datatypes.update(module.inference.datatypes)
    for imported in module.imports.values():
        collect_datatypes(imported, shared)
