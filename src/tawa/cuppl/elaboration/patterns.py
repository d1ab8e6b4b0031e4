"""Patterns: tests, and the names that they bind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tawa.cuppl.core.ir import Reg, Type
from tawa.cuppl.core.layout import FIRST_ADDRESS
from tawa.cuppl.elaboration.values import Dyn, Value
from tawa.functional import syntax as s
from tawa.functional.terms import Con

if TYPE_CHECKING:
    from tawa.cuppl.elaboration.elaborator import Elaborator
    from tawa.cuppl.elaboration.shared import Env

__all__ = ["bind", "tag_of", "test"]


def bind(e: Elaborator, pattern: s.Pattern, value: Value, env: Env) -> None:
    """Bind the names of a pattern that fits whatever comes here."""
    match pattern:
        case s.NamePattern(name):
            env[name] = value
        case s.TuplePattern(items):
            type_ = e.type_of(pattern)
            for item, part in zip(items, e.items(value, type_), strict=True):
                bind(e, item, part, env)
        case s.AnnotatedPattern(inner, _):
            bind(e, inner, value, env)
        case s.ConstructorPattern(name, argument):
            if argument is not None:
                bind(e, argument, _fields(e, pattern, name, value), env)
        case _:
            pass


def test(e: Elaborator, pattern: s.Pattern, value: Value, env: Env, missed: str) -> None:
    """Go to block `missed` unless the pattern fits; bind its names where it does."""
    match pattern:
        case s.LiteralPattern(literal):
            _test_literal(e, pattern, literal, value, missed)
        case s.TuplePattern(items):
            type_ = e.type_of(pattern)
            for item, part in zip(items, e.items(value, type_), strict=True):
                test(e, item, part, env, missed)
        case s.AnnotatedPattern(inner, _):
            test(e, inner, value, env, missed)
        case s.ConstructorPattern(name, argument):
            _test_constructor(e, pattern, name, value, missed)
            if argument is not None:
                test(e, argument, _fields(e, pattern, name, value), env, missed)
        case _:
            bind(e, pattern, value, env)


def _test_literal(
    e: Elaborator, pattern: s.Pattern, literal: object, value: Value, missed: str
) -> None:
    type_ = e.type_of(pattern)
    have = e.single(value, type_)
    want = e.single(e.literal(literal, type_), type_)
    name = {Type.F64: "eqf", Type.BOOL: "eqb"}.get(have.type, "eqi")
    hit = e.b.name("hit")
    e.b.branch(e.b.op(name, have, want), hit, missed)
    e.b.open(hit)


def _test_constructor(
    e: Elaborator, pattern: s.Pattern, name: str, value: Value, missed: str
) -> None:
    type_ = e.type_of(pattern)
    data = e.shared.layouts.data(type_)
    if len(data.constructors) == 1:
        return
    reg = e.single(value, type_)
    tag, fields = data.constructors[name]
    boxed = sum(1 for _, f in data.constructors.values() if f)
    if data.enumeration or not fields:
        fits = e.b.op("eqi", e.b.convert(reg, Type.I64), e.b.const(tag))
    elif boxed == 1:
        fits = e.b.op("gei", e.b.convert(reg, Type.I64), e.b.const(FIRST_ADDRESS))
    else:
        fits = e.b.op("eqi", tag_of(e, reg, boxed < len(data.constructors)), e.b.const(tag))
    hit = e.b.name("hit")
    e.b.branch(fits, hit, missed)
    e.b.open(hit)


def tag_of(e: Elaborator, reg: Reg, immediates: bool) -> Reg:
    """The tag of a reference to a datatype's or function's value."""
    word = e.b.convert(reg, Type.I64)
    if not immediates:
        return _tag_of_object(e, reg)
    out = e.b.reg(Type.I64, "tag")
    boxed, after = e.b.name("boxed"), e.b.name("tagged")
    e.b.copy([out], [word])
    e.b.branch(e.b.op("gei", word, e.b.const(FIRST_ADDRESS)), boxed, after)
    e.b.open(boxed)
    e.b.copy([out], [_tag_of_object(e, reg)])
    e.b.jump(after)
    e.b.open(after)
    return out


def _tag_of_object(e: Elaborator, reg: Reg) -> Reg:
    header = e.b.load(reg, 0, Type.I64)
    return e.b.op("andi", e.b.op("shr", header, e.b.const(1)), e.b.const((1 << 19) - 1))


def _fields(e: Elaborator, pattern: s.Pattern, name: str, value: Value) -> Value:
    """The argument of a constructor: its field, or the tuple of them."""
    type_ = e.type_of(pattern)
    reg = e.single(value, type_)
    _, kinds = e.shared.layouts.data(type_).constructors[name]
    whole = kinds[0] if len(kinds) == 1 else Con("tuple", kinds)
    regs = e.b.load_words(reg, 1, e.words(whole))
    return e.value(whole, regs) if regs or len(kinds) > 1 else Dyn(whole, ())
