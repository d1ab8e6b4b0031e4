"""Elaboration of delimited control: `reset` and `shift`.

The body of a `reset` and the handler of a `shift` become core functions of their own, because
the frames between them are what a continuation is.
"""

from __future__ import annotations

from collections.abc import Sequence

from tawa.base.source import Span
from tawa.cuppl.core.builder import FunctionBuilder
from tawa.cuppl.core.ir import Reset, Return, Shift, Type
from tawa.cuppl.elaboration.elaborator import Elaborator, parameters
from tawa.cuppl.elaboration.values import Continuation, TupleValue, Value, leaves, rebuild, shape
from tawa.functional.terms import Con

__all__ = ["CONTROL_BUILTINS"]


def _reset(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    kinds, result = parameters(type_, 2)
    prompt = e.single(args[0], kinds[0])
    name = _thunk(e, args[1], result, span)
    dsts = e.b.regs(e.words(result))
    e.b.put(Reset(dsts, prompt, name, tuple(leaves(args[1]))))
    return e.value(result, dsts)


def _thunk(e: Elaborator, function: Value, result: Con, span: Span) -> str:
    key = ("reset", shape(function))
    known = e.shared.specialised.get(key)
    if known is None:
        name = f"reset_{len(e.shared.specialised)}"
        known = e.shared.specialised[key] = (name, result)

        def write() -> None:
            b = FunctionBuilder(name, [r.type for r in leaves(function)], e.words(result))
            inner = type(e)(e.shared, b, e.module, {})
            value = inner.apply(rebuild(function, iter(b.params)), [TupleValue(())], span)
            b.end(Return(inner.regs(value, result)))
            e.shared.program.add(b.finish())

        e.shared.pending.append(write)
    return known[0]


def _shift(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    kinds, result = parameters(type_, 2)
    prompt = e.single(args[0], kinds[0])
    handler, answer = kinds[1].arguments
    assert isinstance(handler, Con) and isinstance(answer, Con)
    name = _handler(e, args[1], handler, answer, span)
    dsts = e.b.regs(e.words(result))
    e.b.put(Shift(dsts, prompt, name, tuple(leaves(args[1])), e.shared.site(span)))
    return e.value(result, dsts)


def _handler(e: Elaborator, function: Value, type_: Con, answer: Con, span: Span) -> str:
    key = ("shift", type_, shape(function))
    known = e.shared.specialised.get(key)
    if known is None:
        name = f"shift_{len(e.shared.specialised)}"
        known = e.shared.specialised[key] = (name, answer)

        def write() -> None:
            params = [Type.REF, *(r.type for r in leaves(function))]
            b = FunctionBuilder(name, params, e.words(answer))
            inner = type(e)(e.shared, b, e.module, {})
            static = rebuild(function, iter(b.params[1:]))
            value = inner.apply(static, [Continuation(type_, b.params[0])], span)
            b.end(Return(inner.regs(value, answer)))
            e.shared.program.add(b.finish())

        e.shared.pending.append(write)
    return known[0]


CONTROL_BUILTINS = {"reset": (2, _reset), "shift": (2, _shift)}
"""Name -> (number of arguments, rule)."""
