"""Calls of functions and draws from distributions that are only known at run time.

A function value that became dynamic is a heap object whose tag says which of the program's
functions it is; calling it is a switch over those that have its type. The switches are written
last, when it is known which functions there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tawa.base.source import Span
from tawa.cuppl.core.builder import FunctionBuilder
from tawa.cuppl.core.ir import Copy, Reg, Resume, Return, Set, Type
from tawa.cuppl.elaboration.equality import emit_equal, emit_hash
from tawa.cuppl.elaboration.patterns import tag_of
from tawa.cuppl.elaboration.values import Continuation, Dyn, Memo, Value, leaves, rebuild, shape
from tawa.functional.terms import Con, Term

if TYPE_CHECKING:
    from tawa.cuppl.elaboration.elaborator import Elaborator
    from tawa.cuppl.elaboration.shared import Shared

__all__ = ["call_dynamic", "call_memo", "dispatch", "register", "resume"]


def register(shared: Shared, type_: Term, value: Value) -> int:
    """The tag of a value's shape among the dynamic values of its type."""
    known = shared.functions.setdefault(type_, [])
    for tag, other in enumerate(known):
        if shape(other) == shape(value):
            return tag
    known.append(value)
    return len(known) - 1


def call_dynamic(e: Elaborator, function: Dyn, argument: Value) -> Value:
    """Call a function object."""
    type_ = function.type
    assert isinstance(type_, Con)
    parameter, result = type_.arguments

    def run(inner: Elaborator, value: Value, regs: tuple[Reg, ...]) -> tuple[Reg, ...]:
        out = inner.apply(value, [inner.value(parameter, regs)], Span("<call>", 1))
        return inner.regs(out, result)

    given = e.regs(argument, parameter)
    regs = dispatch(e, "apply", function, given, e.words(result), run)
    return e.value(result, regs)


def dispatch(
    e: Elaborator,
    what: str,
    subject: Dyn,
    given: tuple[Reg, ...],
    results: Iterable[Type],
    run: Callable[[Elaborator, Value, tuple[Reg, ...]], tuple[Reg, ...]],
) -> tuple[Reg, ...]:
    """Call the function that does `what` for each value that `subject` may be."""
    shared, type_ = e.shared, subject.type
    known = shared.functions.setdefault(type_, [])
    name = f"{what}_{list(shared.functions).index(type_)}"
    types = tuple(results)
    kinds = [r.type for r in given]

    def write() -> None:
        builder = FunctionBuilder(name, [Type.REF, *kinds], types)
        inner = _inner(e, builder)
        _switch(inner, list(known), builder.params, run)
        shared.program.add(builder.finish())

    if name not in shared.late:
        shared.late[name] = write
    return e.b.call(name, [subject.regs[0], *given], types)


def _inner(e: Elaborator, builder: FunctionBuilder) -> Elaborator:
    return type(e)(e.shared, builder, e.module, {})


def _switch(
    e: Elaborator,
    values: list[Value],
    params: tuple[Reg, ...],
    run: Callable[[Elaborator, Value, tuple[Reg, ...]], tuple[Reg, ...]],
) -> None:
    subject, given = params[0], params[1:]
    immediates = any(not list(leaves(v)) for v in values)
    tag = tag_of(e, subject, immediates) if values else e.b.const(0)
    names = {index: e.b.name("arm") for index in range(len(values))}
    never = e.b.name("never")
    e.b.switch(tag, names, never)
    for index, value in enumerate(values):
        e.b.open(names[index])
        types = [r.type for r in leaves(value)]
        static = rebuild(value, iter(e.b.load_words(subject, 1, types)))
        e.b.end(Return(run(e, static, given)))
    e.b.open(never)
    e.b.end(Return(tuple(e.zero(t) for t in e.b.function.results)))


def resume(e: Elaborator, continuation: Continuation, argument: Value) -> Value:
    """Call a captured continuation."""
    type_ = continuation.type
    assert isinstance(type_, Con)
    parameter, result = type_.arguments
    dsts = e.b.regs(e.words(result))
    e.b.put(Resume(dsts, continuation.reg, e.regs(argument, parameter)))
    return e.value(result, dsts)


def call_memo(e: Elaborator, function: Value, argument: Value, span: Span) -> Value:
    """Call a memoised function or a continuation."""
    if isinstance(function, Continuation):
        return resume(e, function, argument)
    assert isinstance(function, Memo)
    type_ = function.type
    assert isinstance(type_, Con)
    parameter, result = type_.arguments
    e.effect("remember a call", span)
    given = e.regs(argument, parameter)
    key = ("memoised", shape(function))
    known = e.shared.specialised.get(key)
    if known is None:
        name = f"memo_{len(e.shared.specialised)}"
        known = e.shared.specialised[key] = (name, result)
        shared = e.shared
        shared.pending.append(lambda: _write_memo(e, function, name, span))
    regs = e.b.call(known[0], [*leaves(function), *given], e.words(result))
    return e.value(result, regs)


def _write_memo(e: Elaborator, memo: Memo, name: str, span: Span) -> None:
    """A memoised call: look the argument up; if it isn't there, call and insert."""
    assert isinstance(memo.type, Con)
    parameter, result = memo.type.arguments
    outer = list(leaves(memo))
    words, results = e.words(parameter), e.words(result)
    b = FunctionBuilder(name, [*(r.type for r in outer), *words], results)
    inner = _inner(e, b)
    inside = rebuild(memo, iter(b.params[: len(outer)]))
    assert isinstance(inside, Memo)
    given = b.params[len(outer) :]
    hashed = emit_hash(inner, parameter, given, inside.key)
    found = _find(inner, hashed, inside.key, parameter, given)
    hit, miss = b.name("hit"), b.name("miss")
    b.branch(b.op("nei", b.convert(found, Type.I64), b.const(0)), hit, miss)
    b.open(hit)
    b.end(Return(b.load_words(found, 3 + len(words), results)))
    b.open(miss)
    value = inner.apply(inside.function, [inner.value(parameter, given)], span)
    regs = inner.regs(value, result)
    _insert(inner, hashed, (inside.key, *given, *regs))
    b.end(Return(regs))
    function = b.finish()
    function.site = e.shared.site(span)
    e.shared.program.add(function)


def _find(e: Elaborator, hashed: Reg, key: Reg, parameter: Term, given: tuple[Reg, ...]) -> Reg:
    """Address of the payload for this table and argument, or 0.

    A reference in all registers: the collector may run before a comparison goes on.
    """
    b = e.b
    root = b.get("memo", Type.REF)
    found = b.fresh_copy(b.call("memo_find", [root, hashed], [Type.REF]))[0]
    loop, look, more, done = b.name("loop"), b.name("look"), b.name("more"), b.name("done")
    b.jump(loop)
    b.open(loop)
    b.branch(b.op("nei", b.convert(found, Type.I64), b.const(0)), look, done)
    b.open(look)
    same_key = b.op("eqi", b.load(found, 2, Type.I64), key)
    compare, same = b.name("compare"), b.name("same")
    b.branch(same_key, compare, more)
    b.open(compare)
    stored = b.load_words(found, 3, (g.type for g in given))
    b.branch(emit_equal(e, parameter, stored, given), same, more)
    b.open(same)
    b.jump(done)
    b.open(more)
    b.put(Copy(found, b.load(found, 1, Type.REF)))
    b.jump(loop)
    b.open(done)
    return found


def _insert(e: Elaborator, hashed: Reg, words: tuple[Reg, ...]) -> None:
    """Remember a call; what is alive when the heap is full are references, which may move."""
    b = e.b
    root = b.get("memo", Type.REF)
    chain = b.call("memo_find", [root, hashed], [Type.REF])[0]
    content = (chain, *words)
    layout = e.shared.layouts.number(False, tuple(w.type for w in content))
    payload = e.store_object(layout << 20, content)
    new = b.call("memo_insert", [root, hashed, payload], [Type.REF])[0]
    b.put(Set("memo", new))
