"""Elaboration of the prelude's functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tawa.base.source import Span
from tawa.cuppl.core.ir import Const, Draw, Factor, Reg, Set, Type
from tawa.cuppl.distributions import DISTRIBUTIONS, Distribution
from tawa.cuppl.elaboration.control import CONTROL_BUILTINS
from tawa.cuppl.elaboration.dispatch import dispatch
from tawa.cuppl.elaboration.elaborator import Elaborator, parameters
from tawa.cuppl.elaboration.equality import emit_equal
from tawa.cuppl.elaboration.matrices import MATRIX_BUILTINS
from tawa.cuppl.elaboration.values import DistValue, Dyn, Memo, Never, TupleValue, Value
from tawa.cuppl.elaboration.vectors import VECTOR_BUILTINS
from tawa.cuppl.typing.failures import (
    DIVISION,
    INFINITE_SUPPORT,
    INVALID_PARAMETER,
    OVERFLOW,
    USER,
)
from tawa.cuppl.typing.prelude import MEMO_TABLE, MEMO_WITH, SCALAR_FUNCTIONS
from tawa.functional.terms import Con, Term

__all__ = ["BUILTIN_ARITY", "FAMILIES", "call_builtin"]

FLOAT = Con("float")
BOOL = Con("bool")
UNIT = TupleValue(())
FAMILIES = {family.stem: family for family in DISTRIBUTIONS.values()}
"""The distributions by their names in the language."""

Rule = Callable[[Elaborator, Con, Sequence[Value], Span], Value]


def _words(e: Elaborator, type_: Con, args: Sequence[Value]) -> tuple[list[Reg], Con]:
    kinds, result = parameters(type_, len(args))
    return [e.single(a, k) for a, k in zip(args, kinds, strict=True)], result


def _arithmetic(float_op: str, int_op: str) -> Rule:
    def rule(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
        del span
        regs, result = _words(e, type_, args)
        return Dyn(result, (e.b.op(float_op if regs[0].type is Type.F64 else int_op, *regs),))

    return rule


def _checked(float_op: str, int_op: str) -> Rule:
    """Arithmetic whose result may be too large for an integer."""
    plain = _arithmetic(float_op, f"{int_op}i")

    def rule(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
        regs, _ = _words(e, type_, args)
        if regs[0].type is Type.I64:
            _refuse_overflow(e, e.b.op(f"{int_op}_overflows", *regs), span)
        return plain(e, type_, args, span)

    return rule


def _refuse_overflow(e: Elaborator, condition: Reg, span: Span, what: str = "") -> None:
    e.b.fail_if(condition, OVERFLOW, e.shared.site(span, what))


def _is_least(e: Elaborator, a: Reg) -> Reg:
    return e.b.op("eqi", a, e.b.const(-1 << 63))


def _extremum(float_op: str, int_op: str) -> Rule:
    """The smaller or larger of two numbers; NaN if one of them is."""

    def rule(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
        del span
        (a, b), result = _words(e, type_, args)
        real = a.type is Type.F64
        test = e.b.op(float_op if real else int_op, a, b)
        if real:
            test = e.b.op("or", test, e.b.op("nef", a, a))
        return Dyn(result, (e.b.op("selectf" if real else "selecti", test, a, b),))

    return rule


def _absolute(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    (a,), result = _words(e, type_, args)
    if a.type is Type.F64:
        return Dyn(result, (e.b.op("absf", a),))
    _refuse_overflow(e, _is_least(e, a), span)
    negative = e.b.op("lti", a, e.b.const(0))
    return Dyn(result, (e.b.op("selecti", negative, e.b.op("negi", a), a),))


def _division(op: str) -> Rule:
    def rule(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
        (a, b), result = _words(e, type_, args)
        zero = e.b.op("eqi", b, e.b.const(0))
        e.b.fail_if(zero, DIVISION, e.shared.site(span))
        minus = e.b.op("eqi", b, e.b.const(-1))
        if op == "divi":
            _refuse_overflow(e, e.b.op("and", minus, _is_least(e, a)), span)
        else:  # the processor stops where the quotient is too large
            b = e.b.op("selecti", minus, e.b.const(1), b)
        return Dyn(result, (e.b.op(op, a, b),))

    return rule


def _operation(op: str) -> Rule:
    def rule(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
        del span
        regs, result = _words(e, type_, args)
        return Dyn(result, (e.b.op(op, *regs),))

    return rule


def _native(name: str) -> Rule:
    def rule(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
        del span
        regs, result = _words(e, type_, args)
        return Dyn(result, e.b.call(name, regs, e.words(result)))

    return rule


def _negate(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    (a,), result = _words(e, type_, args)
    if a.type is Type.F64:
        known = e.b.constants.get(a)
        return Dyn(result, (e.b.op("negf", a) if known is None else e.b.const(-known, Type.F64),))
    _refuse_overflow(e, _is_least(e, a), span)
    return Dyn(result, (e.b.op("negi", a),))


def _integer(rounding: str) -> Rule:
    """A float to an integer, which has to hold it."""

    def rule(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
        (a,), result = _words(e, type_, args)
        low, high = (e.b.const(v, Type.F64) for v in (-(2.0**63), 2.0**63))
        fits = e.b.op("and", e.b.op("gef", a, low), e.b.op("ltf", a, high))
        _refuse_overflow(e, e.b.op("not", fits), span, "this float is no integer of 64 bits")
        return Dyn(result, (e.b.op("int", e.b.op(rounding, a) if rounding else a),))

    return rule


def _equal(negated: bool) -> Rule:
    def rule(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
        del span
        kind = parameters(type_, 1)[0][0]
        same = emit_equal(e, kind, e.regs(args[0], kind), e.regs(args[1], kind))
        return Dyn(BOOL, (e.b.op("not", same) if negated else same,))

    return rule


def _sample(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    e.effect("draw at random", span)
    return _with_family(e, "draw", type_, args[0], (), span, _draw)


def _draw(
    e: Elaborator, dist: DistValue, regs: tuple[Reg, ...], given: tuple[Reg, ...], site: int
) -> tuple[Reg, ...]:
    del given
    dsts = e.b.regs(e.words(_support_type(dist)))
    e.b.put(Draw(dsts, dist.family, regs, site))
    return dsts


def _support_type(dist: DistValue) -> Con:
    assert isinstance(dist.type, Con) and isinstance(dist.type.arguments[0], Con)
    return dist.type.arguments[0]


def _log_density(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    kind = parameters(type_, 2)[0][1]
    given = e.regs(args[1], kind)
    return _with_family(e, "density", type_, args[0], given, span, _density)


def _density(
    e: Elaborator, dist: DistValue, regs: tuple[Reg, ...], given: tuple[Reg, ...], site: int
) -> tuple[Reg, ...]:
    del site
    return e.b.call(FAMILIES[dist.family].log_density, [*given, *regs], [Type.F64])


def _support_size(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    return _with_family(e, "support", type_, args[0], (), span, _size)


def _size(
    e: Elaborator, dist: DistValue, regs: tuple[Reg, ...], given: tuple[Reg, ...], site: int
) -> tuple[Reg, ...]:
    del given
    family = FAMILIES[dist.family]
    if family.support != "finite":
        e.b.fail(INFINITE_SUPPORT, site)
        return (e.b.const(0),)
    size = e.b.call(family.count, regs, [Type.I64])
    e.b.fail_if(e.b.op("lti", size[0], e.b.const(0)), OVERFLOW, site)
    return size


def _with_family(
    e: Elaborator,
    what: str,
    type_: Con,
    dist: Value,
    given: tuple[Reg, ...],
    span: Span,
    run: Callable[[Elaborator, DistValue, tuple[Reg, ...], tuple[Reg, ...], int], tuple[Reg, ...]],
) -> Value:
    """Run code for the family of a distribution, after a check of its parameters."""
    result = parameters(type_, 2 if given or what == "density" else 1)[1]
    site = e.shared.site(span)

    def arm(inner: Elaborator, value: Value, words: tuple[Reg, ...]) -> tuple[Reg, ...]:
        assert isinstance(value, DistValue)
        family = FAMILIES[value.family]
        regs = parameter_regs(inner, family, value)
        _check(inner, family, regs, span)
        return run(inner, value, regs, words, site)

    if isinstance(dist, DistValue):
        return e.value(result, arm(e, dist, given))
    if isinstance(dist, Never):
        return dist
    assert isinstance(dist, Dyn)
    return e.value(result, dispatch(e, what, dist, given, e.words(result), arm))


def parameter_regs(e: Elaborator, family: Distribution, value: DistValue) -> tuple[Reg, ...]:
    """The words of a distribution's parameters."""
    out: list[Reg] = []
    for (_, kind), argument in zip(family.parameters, value.arguments, strict=True):
        type_ = Con("vector", (Con(kind.split()[1]),)) if " " in kind else Con(kind)
        out.append(e.single(argument, type_))
    return tuple(out)


def _check(e: Elaborator, family: Distribution, regs: tuple[Reg, ...], span: Span) -> None:
    if Type.REF not in {reg.type for reg in regs} and e.b.constants.keys() >= set(regs):
        if family.accepts(*(e.b.constants[reg] for reg in regs)):
            return
    valid = e.b.call(family.valid, regs, [Type.BOOL])[0]
    site = e.shared.site(span, f"{family.stem} needs {family.requirement}")
    e.b.fail_if(e.b.op("not", valid), INVALID_PARAMETER, site)


def _observe(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    e.effect("condition", span)
    kinds, _ = parameters(type_, 2)
    density = Con("->", (kinds[0], Con("->", (kinds[1], FLOAT))))
    if e.shared.observed is None:
        weight = _log_density(e, density, args, span)
    else:
        given, site = e.regs(args[1], kinds[1]), e.shared.site(span)
        weight = _with_family(e, f"noted {site}", density, args[0], given, span, _noted)
    e.b.put(Factor(e.single(weight, FLOAT), e.shared.site(span)))
    return UNIT


def _noted(
    e: Elaborator, dist: DistValue, regs: tuple[Reg, ...], given: tuple[Reg, ...], site: int
) -> tuple[Reg, ...]:
    """The log density of a value, which is noted beside another draw."""
    assert e.shared.observed is not None
    family = FAMILIES[dist.family]
    e.shared.observed[site] = family.value
    density = _density(e, dist, regs, given, site)
    other = e.b.call(family.sample, regs, e.words(_support_type(dist)))
    words = [e.b.word(reg) for reg in (*given, *other)]
    note = "note_vectors" if " " in family.value else "note_words"
    e.b.call(note, [e.b.const(site), density[0], *words], [])
    return density


def _factor(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    del type_
    e.effect("condition", span)
    e.b.put(Factor(e.single(args[0], FLOAT), e.shared.site(span)))
    return UNIT


def fresh_key(e: Elaborator) -> Reg:
    """A number that is new in this run."""
    key = e.b.op("addi", e.b.get("memo_count", Type.I64), e.b.const(1))
    e.b.put(Set("memo_count", key))
    return key


def _mem(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    e.effect("remember calls", span)
    return Memo(args[0], parameters(type_, 1)[0][0], fresh_key(e))


def _memo_table(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    del type_, args
    e.effect("remember calls", span)
    return Dyn(Con("int"), (fresh_key(e),))


def _memo_with(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    del span
    return Memo(args[1], parameters(type_, 2)[0][1], e.single(args[0], Con("int")))


def _fail(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    del type_
    text = "the program failed"
    reg = e.single(args[0], Con("string"))
    for item in e.b.here.instructions:
        if isinstance(item, Const) and item.dst == reg:
            text = e.shared.strings[int(item.value)]
    e.b.fail(USER, e.shared.site(span, text))
    return Never()


def _prompt(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    del args
    e.effect("make a prompt", span)
    return Dyn(parameters(type_, 1)[1], (fresh_key(e),))


def _family(stem: str) -> Rule:
    def rule(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
        del e, span
        return DistValue(stem, parameters(type_, len(args))[1], tuple(args))

    return rule


def _constructor(e: Elaborator, name: str, type_: Con, argument: Value) -> Value:
    parameter, result = type_.arguments
    assert isinstance(parameter, Con) and isinstance(result, Con)
    _, kinds = e.shared.layouts.data(result).constructors[name]
    fields = (argument,) if len(kinds) == 1 else e.items(argument, parameter)
    return e.construct(name, result, fields)


def call_builtin(
    e: Elaborator, name: str, type_: Term, arguments: Sequence[Value], span: Span
) -> Value:
    """Call a prelude function or a constructor with all its arguments."""
    assert isinstance(type_, Con)
    if any(isinstance(a, Never) for a in arguments):
        return Never()
    rule = _RULES.get(name)
    if rule is None:
        return _constructor(e, name, type_, arguments[0])
    return rule(e, type_, arguments, span)


def _rules() -> dict[str, tuple[int, Rule]]:
    two: dict[str, Rule] = {
        "+": _checked("addf", "add"),
        "-": _checked("subf", "sub"),
        "*": _checked("mulf", "mul"),
        "/": _operation("divf"),
        "//": _division("divi"),
        "%": _division("modi"),
        "**": _native("power"),
        "<": _arithmetic("ltf", "lti"),
        "<=": _arithmetic("lef", "lei"),
        ">": _arithmetic("gtf", "gti"),
        ">=": _arithmetic("gef", "gei"),
        "==": _equal(False),
        "!=": _equal(True),
        "min": _extremum("ltf", "lti"),
        "max": _extremum("gtf", "gti"),
        "observe": _observe,
        "log_density": _log_density,
        MEMO_WITH: _memo_with,
    }
    one: dict[str, Rule] = {
        "negate": _negate,
        "not": _operation("not"),
        "abs": _absolute,
        "float": _operation("float"),
        "truncate": _integer(""),
        "floor": _integer("floor"),
        "sqrt": _operation("sqrt"),
        "sample": _sample,
        "factor": _factor,
        "support_size": _support_size,
        "mem": _mem,
        MEMO_TABLE: _memo_table,
        "fail": _fail,
        "prompt": _prompt,
    }
    one.update((n, _native(f)) for n, f in SCALAR_FUNCTIONS.items() if n not in one)
    table = {n: (1, r) for n, r in one.items()} | {n: (2, r) for n, r in two.items()}
    table |= {f.stem: (len(f.parameters), _family(f.stem)) for f in DISTRIBUTIONS.values()}
    return table | VECTOR_BUILTINS | MATRIX_BUILTINS | CONTROL_BUILTINS


_TABLE = _rules()
_RULES: dict[str, Rule] = {name: rule for name, (_, rule) in _TABLE.items()}
BUILTIN_ARITY = {name: arity for name, (arity, _) in _TABLE.items()}
"""How many arguments each function of the prelude takes; a constructor takes one."""
