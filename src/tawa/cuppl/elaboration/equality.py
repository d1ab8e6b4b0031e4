"""Structural equality and hashes of values of any type."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tawa.base.source import Span
from tawa.cuppl.core.builder import FunctionBuilder
from tawa.cuppl.core.ir import Copy, Reg, Return, Type
from tawa.cuppl.core.layout import FIRST_ADDRESS, parts_of
from tawa.cuppl.elaboration.patterns import tag_of
from tawa.cuppl.typing.errors import UnsupportedValue
from tawa.functional.terms import Con, Term

if TYPE_CHECKING:
    from tawa.cuppl.elaboration.elaborator import Elaborator

__all__ = ["emit_equal", "emit_hash"]


def emit_equal(e: Elaborator, type_: Term, left: tuple[Reg, ...], right: tuple[Reg, ...]) -> Reg:
    """A truth value: whether two values of a type are equal."""
    b = e.b
    assert isinstance(type_, Con)
    parts = parts_of(type_)
    if parts is not None:
        return _equal_items(e, parts, left, right)
    if not left:
        return b.const(True, Type.BOOL)
    kind = left[0].type
    if kind is not Type.REF:
        return b.op({Type.F64: "eqf", Type.BOOL: "eqb"}.get(kind, "eqi"), left[0], right[0])
    if type_.name in ("->", "dist"):
        raise UnsupportedValue("functions and distributions can't be compared", span=_no_span(e))
    write = _write_vector if type_.name == "vector" else _write_data
    name = _function(e, "equal", type_, (Type.REF, Type.REF), Type.BOOL, write)
    return b.call(name, [left[0], right[0]], [Type.BOOL])[0]


def _equal_items(
    e: Elaborator, items: tuple[Term, ...], left: tuple[Reg, ...], right: tuple[Reg, ...]
) -> Reg:
    total = e.b.const(True, Type.BOOL)
    for item in items:
        size = len(e.words(item))
        same = emit_equal(e, item, left[:size], right[:size])
        total = e.b.op("and", total, same)
        left, right = left[size:], right[size:]
    return total


def _no_span(e: Elaborator) -> Span:
    return Span(e.module.syntax.file, 1)


def _function(
    e: Elaborator,
    what: str,
    type_: Con,
    params: tuple[Type, ...],
    result: Type,
    write: Callable[[Elaborator, Con, tuple[Reg, ...]], None],
) -> str:
    """Name of the function that does `what` for a type; it is written once."""
    key = (what, type_)
    known = e.shared.specialised.get(key)
    if known is None:
        name = f"{what}_{len(e.shared.specialised)}"
        e.shared.specialised[key] = known = (name, type_)

        def pending() -> None:
            builder = FunctionBuilder(name, params, (result,))
            write(type(e)(e.shared, builder, e.module, {}), type_, builder.params)
            e.shared.program.add(builder.finish())

        e.shared.pending.append(pending)
    return known[0]


def _write_vector(e: Elaborator, type_: Con, params: tuple[Reg, ...]) -> None:
    b = e.b
    left, right = params
    length = b.load(left, 1, Type.I64)
    differ, loop = b.name("differ"), b.name("loop")
    test, done = b.name("test"), b.name("done")
    index = b.fresh_copy([b.const(0)], "i")[0]
    b.branch(b.op("eqi", length, b.load(right, 1, Type.I64)), loop, differ)
    b.open(loop)
    b.branch(b.op("lti", index, length), test, done)
    b.open(test)
    element = type_.arguments[0]
    one = e.regs(e.element(left, index, element), element)
    other = e.regs(e.element(right, index, element), element)
    same = emit_equal(e, element, one, other)
    step = b.name("step")
    b.branch(same, step, differ)
    b.open(step)
    b.put(Copy(index, b.op("addi", index, b.const(1))))
    b.jump(loop)
    b.open(differ)
    b.end(Return((b.const(False, Type.BOOL),)))
    b.open(done)
    b.end(Return((b.const(True, Type.BOOL),)))


def _write_data(e: Elaborator, type_: Con, params: tuple[Reg, ...]) -> None:
    b = e.b
    left, right = (b.convert(p, Type.I64) for p in params)
    equal, differ, both = b.name("equal"), b.name("differ"), b.name("both")
    more = b.name("more")
    b.branch(b.op("eqi", left, right), equal, more)
    b.open(more)
    low = b.const(FIRST_ADDRESS)
    objects = b.op("and", b.op("gei", left, low), b.op("gei", right, low))
    b.branch(objects, both, differ)
    b.open(both)
    header = b.load(params[0], 0, Type.I64)
    tagged = b.name("tagged")
    b.branch(b.op("eqi", header, b.load(params[1], 0, Type.I64)), tagged, differ)
    b.open(tagged)
    tag = b.op("andi", b.op("shr", header, b.const(1)), b.const((1 << 19) - 1))
    constructors = [c for c in e.shared.layouts.data(type_).constructors.values() if c[1]]
    arms = {tag_: b.name("arm") for tag_, _ in constructors}
    b.switch(tag, arms, differ)
    for tag_, kinds in constructors:
        b.open(arms[tag_])
        whole = Con("tuple", kinds)
        one, other = (b.load_words(p, 1, e.words(whole)) for p in params)
        b.end(Return((emit_equal(e, whole, one, other),)))
    b.open(equal)
    b.end(Return((b.const(True, Type.BOOL),)))
    b.open(differ)
    b.end(Return((b.const(False, Type.BOOL),)))


def emit_hash(e: Elaborator, type_: Term, regs: tuple[Reg, ...], seed: Reg) -> Reg:
    """A 62-bit hash of a value, mixed into `seed`."""
    b = e.b
    assert isinstance(type_, Con)
    parts = parts_of(type_)
    if parts is not None:
        for item in parts:
            size = len(e.words(item))
            seed = emit_hash(e, item, regs[:size], seed)
            regs = regs[size:]
        return seed
    reg = regs[0]
    if reg.type is Type.REF:
        if type_.name in ("->", "dist"):
            raise UnsupportedValue("a memoised function can't be given these", span=_no_span(e))
        write = _write_vector_hash if type_.name == "vector" else _write_data_hash
        name = _function(e, "hash", type_, (Type.REF, Type.I64), Type.I64, write)
        return b.call(name, [reg, seed], [Type.I64])[0]
    if reg.type is Type.F64:
        reg = b.op("bits_of", b.op("addf", reg, b.const(0.0, Type.F64)))  # -0.0 becomes 0.0
    elif reg.type is Type.BOOL:
        reg = b.op("int_of_bool", reg)
    return b.call("hash_mix", [seed, reg], [Type.I64])[0]


def _write_vector_hash(e: Elaborator, type_: Con, params: tuple[Reg, ...]) -> None:
    b = e.b
    vector, seed = params
    length = b.load(vector, 1, Type.I64)
    total = b.fresh_copy(b.call("hash_mix", [seed, length], [Type.I64]))[0]
    index = b.fresh_copy([b.const(0)], "i")[0]
    loop, body, done = b.name("loop"), b.name("body"), b.name("done")
    b.jump(loop)
    b.open(loop)
    b.branch(b.op("lti", index, length), body, done)
    b.open(body)
    element = type_.arguments[0]
    regs = e.regs(e.element(vector, index, element), element)
    b.put(Copy(total, emit_hash(e, element, regs, total)))
    b.put(Copy(index, b.op("addi", index, b.const(1))))
    b.jump(loop)
    b.open(done)
    b.end(Return((total,)))


def _write_data_hash(e: Elaborator, type_: Con, params: tuple[Reg, ...]) -> None:
    b = e.b
    subject, seed = params
    data = e.shared.layouts.data(type_)
    tag = tag_of(e, subject, True)
    mixed = b.call("hash_mix", [seed, tag], [Type.I64])[0]
    arms = {t: b.name("arm") for t, kinds in data.constructors.values() if kinds}
    plain = b.name("plain")
    b.switch(tag, arms, plain)
    for tag_, kinds in data.constructors.values():
        if kinds:
            b.open(arms[tag_])
            whole = Con("tuple", kinds)
            regs = b.load_words(subject, 1, e.words(whole))
            b.end(Return((emit_hash(e, whole, regs, mixed),)))
    b.open(plain)
    b.end(Return((mixed,)))
