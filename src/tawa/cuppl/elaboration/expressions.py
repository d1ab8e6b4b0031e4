"""Elaboration of each kind of expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tawa.cuppl.core.ir import Type
from tawa.cuppl.elaboration.patterns import bind, test
from tawa.cuppl.elaboration.values import Closure, Code, Dyn, TupleValue, Value
from tawa.cuppl.typing.failures import INDEX
from tawa.functional import syntax as s
from tawa.functional.errors import NotATuple
from tawa.functional.terms import Con, Term

if TYPE_CHECKING:
    from tawa.cuppl.elaboration.elaborator import Elaborator
    from tawa.cuppl.elaboration.shared import Env

__all__ = ["elaborate_expression"]


def elaborate_expression(e: Elaborator, node: s.Expression, env: Env) -> Value:
    """The value of an expression; code for it goes to the current block."""
    return _RULES[type(node)](e, node, env)


def _literal(e: Elaborator, node: s.Literal, env: Env) -> Value:
    del env
    type_ = e.type_of(node)
    return e.literal(node.value, type_)


def _apply(e: Elaborator, node: s.Apply, env: Env) -> Value:
    function, arguments = s.spine(node)
    called = e.expression(function, env)
    values = [e.expression(a, env) for a in arguments]
    return e.apply(called, values, node.span)


def _operation(e: Elaborator, node: s.Binary, env: Env) -> Value:
    if node.operator.name in ("&&", "||"):
        return _short_circuit(e, node, env)
    values = [e.expression(node.left, env), e.expression(node.right, env)]
    return e.apply(e.name(node.operator, env), values, node.span)


def _short_circuit(e: Elaborator, node: s.Binary, env: Env) -> Value:
    bool_ = Con("bool")
    left = e.single(e.expression(node.left, env), bool_)
    known = node.operator.name == "||"

    def right() -> Value:
        return e.expression(node.right, env)

    def settled() -> Value:
        return Dyn(bool_, (e.b.const(known, Type.BOOL),))

    return e.choose(left, settled, right, bool_) if known else e.choose(left, right, settled, bool_)


def _unary(e: Elaborator, node: s.Unary, env: Env) -> Value:
    return e.apply(e.name(node.operator, env), [e.expression(node.operand, env)], node.span)


def _pipe(e: Elaborator, node: s.Pipe, env: Env) -> Value:
    argument = e.expression(node.argument, env)
    return e.apply(e.expression(node.function, env), [argument], node.span)


def _lambda(e: Elaborator, node: s.Lambda, env: Env) -> Value:
    def make() -> Code:
        return Code(
            node, "lambda", node.parameters, node.body, e.module, node.span,
            captured=_captured([node], ()), anonymous=True,
        )  # fmt: skip

    return Closure(e.code(node, make), _visible(env, e.code(node, make)), dict(e.types))


def _let(e: Elaborator, node: s.Let, env: Env) -> Value:
    env = dict(env)
    body: s.Expression = node
    while isinstance(body, s.Let):
        (_recursive if body.recursive else _bindings)(e, body, env)
        body = body.body
    return e.expression(body, env)


def _bindings(e: Elaborator, node: s.Let, env: Env) -> None:
    values: list[Value] = []
    for binding in node.bindings:
        if binding.parameters:
            code = e.code(binding, lambda b=binding: _function(e, b, ()))
            values.append(Closure(code, _visible(env, code), dict(e.types)))
        else:
            values.append(e.expression(binding.value, env))
    for binding, value in zip(node.bindings, values, strict=True):
        bind(e, binding.pattern, value, env)


def _function(e: Elaborator, binding: s.Binding, group: tuple[str, ...]) -> Code:
    assert isinstance(binding.pattern, s.NamePattern)
    return Code(
        binding, binding.pattern.name, binding.parameters, binding.value, e.module, binding.span,
        captured=_captured([binding], group),
    )  # fmt: skip


def _recursive(e: Elaborator, node: s.Let, env: Env) -> None:
    names = [b.pattern.name for b in node.bindings if isinstance(b.pattern, s.NamePattern)]
    codes: dict[str, Code] = {}
    captured = _captured(list(node.bindings), tuple(names))
    for name, binding in zip(names, node.bindings, strict=True):
        code = e.code(binding, lambda b=binding: _function(e, b, tuple(names)))
        code.captured = captured
        codes[name] = code
    for code in codes.values():
        code.group = codes
    outer = {n: env[n] for n in captured if n in env}
    for name in names:
        env[name] = Closure(codes[name], outer, dict(e.types))


def _visible(env: Env, code: Code) -> Env:
    return {n: env[n] for n in code.captured if n in env}


def _captured(nodes: list[Any], without: tuple[str, ...]) -> tuple[str, ...]:
    """Names used in some nodes, in order; bound ones among them do no harm."""
    found: dict[str, None] = {}
    stack: list[s.Node] = list(reversed(nodes))
    while stack:
        item = stack.pop()
        if isinstance(item, s.Name) and item.name not in without:
            found[item.name] = None
        stack.extend(reversed(list(s.children(item))))
    return tuple(found)


def _if(e: Elaborator, node: s.If, env: Env) -> Value:
    condition = e.single(e.expression(node.condition, env), Con("bool"))
    return e.choose(
        condition,
        lambda: e.expression(node.yes, env),
        lambda: e.expression(node.no, env),
        e.type_of(node),
    )


def _match(e: Elaborator, node: s.Match, env: Env) -> Value:
    subject = e.expression(node.subject, env)
    type_ = e.type_of(node)
    arms: list[tuple[str, Callable[[], Value]]] = []
    for index, case in enumerate(node.cases):
        inner = dict(env)
        missed = e.b.name("next")
        if index == len(node.cases) - 1:
            bind(e, case.pattern, subject, inner)  # coverage is checked: this one fits
        else:
            test(e, case.pattern, subject, inner, missed)
        taken = e.b.name("case")
        e.b.jump(taken)
        arms.append((taken, lambda c=case, i=inner: e.expression(c.body, i)))
        if index < len(node.cases) - 1:
            e.b.open(missed)
    return e.join(arms, type_)


def _tuple(e: Elaborator, node: s.Tuple, env: Env) -> Value:
    return TupleValue(tuple(e.expression(i, env) for i in node.items))


def _vector(e: Elaborator, node: s.Vector, env: Env) -> Value:
    type_ = e.type_of(node)
    element = type_.arguments[0]
    constant = _constant_items(node)
    if constant is not None and constant and isinstance(element, Con):
        name = f"vector {element.name} {constant!r}"
        return e.load_slot(e.shared.slot(name, type_, constant))
    regs = [r for i in node.items for r in e.regs(e.expression(i, env), element)]
    layout = e.shared.layouts.number(True, e.words(element))
    address = e.b.alloc(2 + len(regs), layout << 20 | 2)
    e.b.store(address, 1, e.b.const(len(node.items)))
    for offset, reg in enumerate(regs):
        e.b.store(address, 2 + offset, reg)
    return Dyn(type_, (address,))


def _constant_items(node: s.Vector) -> list[object] | None:
    """The numbers in a vector of literals (minus signs and inner vectors included), or None."""
    out: list[object] = []
    for item in node.items:
        match item:
            case s.Literal(value) if not isinstance(value, str):
                out.append(value)
            case s.Unary(s.Name("negate"), s.Literal(value)) if not isinstance(value, str):
                out.append(-value)
            case s.Vector():
                inner = _constant_items(item)
                if inner is None:
                    return None
                out.append(inner)
            case _:
                return None
    return out


def _project(e: Elaborator, node: s.Project, env: Env) -> Value:
    type_ = e.type_of(node.subject)
    if type_.name != "tuple" or node.index >= len(type_.arguments):
        raise NotATuple(
            "nothing says what tuple this is", span=node.subject.span,
            hint="take it apart with `let (a, b) = ...`, or annotate it",
        )  # fmt: skip
    return e.items(e.expression(node.subject, env), type_)[node.index]


def _index(e: Elaborator, node: s.Index, env: Env) -> Value:
    vector = e.single(e.expression(node.subject, env), e.type_of(node.subject))
    index = e.single(e.expression(node.indices[0], env), Con("int"))
    return checked_element(e, vector, index, e.type_of(node), node)


def checked_element(e: Elaborator, vector: Any, index: Any, type_: Term, node: s.Node) -> Value:
    """An element of a vector, after a check of the index."""
    length = e.b.load(vector, 1, Type.I64)
    low = e.b.op("lti", index, e.b.const(0))
    high = e.b.op("gei", index, length)
    e.b.fail_if(e.b.op("or", low, high), INDEX, e.shared.site(node.span))
    return e.element(vector, index, type_)


def _annotated(e: Elaborator, node: s.Annotated, env: Env) -> Value:
    return e.expression(node.subject, env)


def _name(e: Elaborator, node: s.Name, env: Env) -> Value:
    return e.name(node, env)


_RULES: dict[type[s.Expression], Callable[[Elaborator, Any, Env], Value]] = {
    s.Literal: _literal,
    s.Name: _name,
    s.Apply: _apply,
    s.Binary: _operation,
    s.Unary: _unary,
    s.Pipe: _pipe,
    s.Lambda: _lambda,
    s.Let: _let,
    s.If: _if,
    s.Match: _match,
    s.Tuple: _tuple,
    s.Vector: _vector,
    s.Project: _project,
    s.Index: _index,
    s.Annotated: _annotated,
}
