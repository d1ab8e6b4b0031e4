"""Elaboration of the prelude's vector functions: loops over elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tawa.base.source import Span
from tawa.cuppl.core.builder import FunctionBuilder
from tawa.cuppl.core.ir import Call, Copy, Reg, Return, Set, Store, Type
from tawa.cuppl.elaboration.elaborator import Elaborator, parameters
from tawa.cuppl.elaboration.values import Dyn, Value, leaves, rebuild, shape
from tawa.cuppl.typing.failures import FUEL, HEAP_FULL, INDEX, NEGATIVE_SIZE, USER
from tawa.functional.terms import Con

__all__ = ["VECTOR_BUILTINS"]

INT = Con("int")
MOST_ELEMENTS = 1 << 40
"""No memory holds as many."""


def count_loop(e: Elaborator, limit: Reg, body: Callable[[Reg], None]) -> None:
    """Run `body(i)` for i = 0 .. limit - 1."""
    b = e.b
    index = b.fresh_copy([b.const(0)], "i")[0]
    loop, inside, done = b.name("loop"), b.name("body"), b.name("done")
    b.jump(loop)
    b.open(loop)
    b.branch(b.op("lti", index, limit), inside, done)
    b.open(inside)
    body(index)
    b.put(Copy(index, b.op("addi", index, b.const(1))))
    b.jump(loop)
    b.open(done)


def new_vector(e: Elaborator, element: Con, length: Reg) -> Reg:
    """An allocated vector whose elements are not set."""
    b, words = e.b, e.words(element)
    b.fail_if(b.op("gti", length, b.const(MOST_ELEMENTS)), HEAP_FULL, b.function.site)
    size = length if len(words) == 1 else b.op("muli", length, b.const(len(words)))
    address = b.alloc(
        b.op("addi", size, b.const(2)), e.shared.layouts.number(True, words) << 20 | 2
    )
    b.store(address, 1, length)
    return address


def store_element(e: Elaborator, vector: Reg, index: Reg, regs: tuple[Reg, ...]) -> None:
    """Set an element of a vector that is being made."""
    b = e.b
    if len(regs) > 1:
        index = b.op("muli", index, b.const(len(regs)))
    for offset, reg in enumerate(regs):
        b.put(Store(vector, reg, index, 2 + offset))


def _length(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    del span
    kinds, _ = parameters(type_, 1)
    return Dyn(INT, (e.b.load(e.single(args[0], kinds[0]), 1, Type.I64),))


def _tabulate(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    kinds, result = parameters(type_, 2)
    length = e.single(args[0], kinds[0])
    negative = e.b.op("lti", length, e.b.const(0))
    e.b.fail_if(negative, NEGATIVE_SIZE, e.shared.site(span))
    function = args[1]
    if isinstance(function, Dyn):
        function = Dyn(kinds[1], function.regs)
    key = ("tabulate", result, shape(function))
    known = e.shared.specialised.get(key)
    if known is None:
        name = f"tabulate_{len(e.shared.specialised)}"
        known = e.shared.specialised[key] = (name, result)
        e.shared.pending.append(lambda: _write_tabulate(e, function, result, name, span))
    dst = e.b.reg(Type.REF, "v")
    words = e.words(result.arguments[0])
    other = known[0] + "_list" if words else None
    e.b.put(Call((dst,), known[0], (length, *leaves(function)), None, other))
    return Dyn(result, (dst,))


def _write_tabulate(e: Elaborator, function: Value, result: Con, name: str, span: Span) -> None:
    """Two core functions: one fills a vector, one makes a list first (see `ir.Call`)."""
    element = result.arguments[0]
    assert isinstance(element, Con)
    types = [Type.I64, *(r.type for r in leaves(function))]
    variants = {name: _fill} | ({name + "_list": _collect} if e.words(element) else {})
    for variant, write in variants.items():
        b = FunctionBuilder(variant, types, (Type.REF,))
        inner = type(e)(e.shared, b, e.module, {})
        static = rebuild(function, iter(b.params[1:]))

        def item(index: Reg, i: Elaborator = inner, f: Value = static) -> tuple[Reg, ...]:
            return i.regs(i.apply(f, [Dyn(INT, (index,))], span), element)

        b.end(Return((write(inner, element, b.params[0], item),)))
        core = b.finish()
        core.site = e.shared.site(span)
        e.shared.program.add(core)


Item = Callable[[Reg], tuple[Reg, ...]]


def _fill(e: Elaborator, element: Con, length: Reg, item: Item) -> Reg:
    vector = new_vector(e, element, length)
    count_loop(e, length, lambda i: store_element(e, vector, i, item(i)))
    return vector


def _collect(e: Elaborator, element: Con, length: Reg, item: Item) -> Reg:
    b, words = e.b, e.words(element)
    layout = e.shared.layouts.number(False, (Type.REF, *words))
    chain = b.fresh_copy([b.const(0, Type.REF)], "chain")[0]

    def add(index: Reg) -> None:
        node = e.store_object(layout << 20, (chain, *item(index)))
        b.put(Copy(chain, node))

    count_loop(e, length, add)
    vector = new_vector(e, element, length)
    last = b.op("subi", length, b.const(1))

    def move(index: Reg) -> None:
        regs = b.load_words(chain, 2, words)
        store_element(e, vector, b.op("subi", last, index), regs)
        b.put(Copy(chain, b.load(chain, 1, Type.REF)))

    count_loop(e, length, move)
    return vector


def _folding(
    e: Elaborator, type_: Con, args: Sequence[Value], span: Span, length: Reg,
    item: Callable[[Reg], Value],
) -> Value:  # fmt: skip
    kinds, result = parameters(type_, 3)
    del kinds
    start = e.merged(args[1], result)
    state = rebuild(start, iter(e.b.fresh_copy(list(leaves(start)), "acc")))

    def step(index: Reg) -> None:
        value = e.apply(args[0], [state, item(index)], span)
        e.b.copy(list(leaves(state)), e.regs(value, result))

    count_loop(e, length, step)
    # Fresh registers: a later loop must not see them change.
    return rebuild(state, iter(e.b.fresh_copy(list(leaves(state)))))


def _fold(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    kinds, _ = parameters(type_, 3)
    vector = e.single(args[2], kinds[2])
    element = kinds[2].arguments[0]
    length = e.b.load(vector, 1, Type.I64)
    return _folding(e, type_, args, span, length, lambda i: e.element(vector, i, element))


def _range_fold(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    length = e.single(args[2], INT)
    _burn_turns(e, length, span)

    def item(index: Reg) -> Value:
        return Dyn(INT, e.b.fresh_copy([index]))

    return _folding(e, type_, args, span, length, item)


def _burn_turns(e: Elaborator, turns: Reg, span: Span) -> None:
    """Use the fuel of a loop's turns, all at once; fail where there is not so much.

    Loops over vectors need none: they are as short as what memory holds.
    """
    b = e.b
    fuel = b.get("fuel", Type.I64)
    b.fail_if(b.op("gti", turns, fuel), FUEL, e.shared.site(span))
    none = b.const(0)
    used = b.op("selecti", b.op("gti", turns, none), turns, none)
    b.put(Set("fuel", b.op("subi", fuel, used)))


def _copy_elements(
    e: Elaborator, element: Con, source: Reg, first: Reg, target: Reg, at: Reg, count: Reg
) -> None:  # fmt: skip
    """Copy elements of one vector to another that is being made."""

    def move(index: Reg) -> None:
        value = e.element(source, e.b.op("addi", index, first), element)
        store_element(e, target, e.b.op("addi", index, at), e.regs(value, element))

    count_loop(e, count, move)


def _slice(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    b = e.b
    kinds, result = parameters(type_, 3)
    first, count, vector = (e.single(a, k) for a, k in zip(args, kinds, strict=True))
    length = b.load(vector, 1, Type.I64)
    zero = b.const(0)
    negative = b.op("or", b.op("lti", first, zero), b.op("lti", count, zero))
    beyond = b.op("gti", count, b.op("subi", length, first))
    b.fail_if(b.op("or", negative, beyond), INDEX, e.shared.site(span))
    element = result.arguments[0]
    assert isinstance(element, Con)
    out = new_vector(e, element, count)
    _copy_elements(e, element, vector, first, out, zero, count)
    return Dyn(result, (out,))


def _append(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    del span
    b = e.b
    kinds, result = parameters(type_, 2)
    left, right = (e.single(a, k) for a, k in zip(args, kinds, strict=True))
    n, m = b.load(left, 1, Type.I64), b.load(right, 1, Type.I64)
    element = result.arguments[0]
    assert isinstance(element, Con)
    out = new_vector(e, element, b.op("addi", n, m))
    zero = b.const(0)
    _copy_elements(e, element, left, zero, out, zero, n)
    _copy_elements(e, element, right, zero, out, n, m)
    return Dyn(result, (out,))


def _cholesky(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    kinds, result = parameters(type_, 2)
    size, matrix = (e.single(a, k) for a, k in zip(args, kinds, strict=True))
    b = e.b
    wrong = b.op("nei", b.op("muli", size, size), b.load(matrix, 1, Type.I64))
    site = e.shared.site(span)
    b.fail_if(b.op("lti", size, b.const(0)), NEGATIVE_SIZE, site)
    b.fail_if(wrong, INDEX, site)
    return Dyn(result, b.call("cholesky", [matrix, size], [Type.REF]))


def _dot(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    kinds, result = parameters(type_, 2)
    v, w = (e.single(a, k) for a, k in zip(args, kinds, strict=True))
    lengths = (e.b.load(vector, 1, Type.I64) for vector in (v, w))
    site = e.shared.site(span, "vectors of different lengths are multiplied")
    e.b.fail_if(e.b.op("nei", *lengths), USER, site)
    return Dyn(result, e.b.call("dot_product", [v, w], [Type.F64]))


VECTOR_BUILTINS = {
    "length": (1, _length),
    "tabulate": (2, _tabulate),
    "fold": (3, _fold),
    "range_fold": (3, _range_fold),
    "slice": (3, _slice),
    "++": (2, _append),
    "dot": (2, _dot),
    "cholesky": (2, _cholesky),
}
"""Name -> (number of arguments, rule)."""
