"""What the elaborator knows of a value while it generates code for it.

A value is dynamic (registers of a known type) or has a static part: a function whose text is
known, a tuple whose items are values, a distribution whose family is known. Static parts cost
nothing at run time; the dynamic rest of a value are its `leaves`, and `shape` is all that is
static, so two values of one shape can be treated by the same code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tawa.cuppl.core.ir import Reg
from tawa.functional import syntax as s
from tawa.functional.language import CheckedModule
from tawa.functional.terms import Term, Variable

__all__ = [
    "Builtin",
    "Closure",
    "Code",
    "Continuation",
    "DistValue",
    "Dyn",
    "Memo",
    "Never",
    "TupleValue",
    "Value",
    "leaves",
    "rebuild",
    "shape",
]

Substitution = dict[Variable, Term]


@dataclass(frozen=True, slots=True, eq=False)
class Dyn:
    """Registers that hold a value of a monomorphic type."""

    type: Term
    regs: tuple[Reg, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TupleValue:
    """A tuple of values."""

    items: tuple[Value, ...]


@dataclass(slots=True, eq=False)
class Code:
    """The text of a function.

    `group` are the functions that it may call by name because of `letrec`, itself included;
    `captured` are the local names that it (or its group) uses from outside.
    """

    node: s.Node
    name: str
    parameters: tuple[s.Pattern, ...]
    body: s.Expression
    module: CheckedModule
    span: s.Span
    group: dict[str, Code] = field(default_factory=dict[str, "Code"])
    captured: tuple[str, ...] = ()
    anonymous: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function with what it captured, the types chosen for it, and arguments given so far."""

    code: Code
    env: dict[str, Value]
    types: Substitution
    arguments: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Builtin:
    """A function of the prelude or a constructor, at a monomorphic type, with arguments so far."""

    name: str
    type: Term
    arguments: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class DistValue:
    """A distribution of a known family."""

    family: str
    type: Term
    arguments: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Memo:
    """A memoised function; `key` is the number of this memo table in the run."""

    function: Value
    type: Term
    key: Reg


@dataclass(frozen=True, slots=True, eq=False)
class Continuation:
    """A captured continuation of function type `type`."""

    type: Term
    reg: Reg


@dataclass(frozen=True, slots=True, eq=False)
class Never:
    """The value of an expression that does not return."""


Value = Dyn | TupleValue | Closure | Builtin | DistValue | Memo | Continuation | Never


def _types_key(types: Substitution) -> tuple[object, ...]:
    return tuple(sorted((v.id, repr(t)) for v, t in types.items()))


def parts(value: Value) -> tuple[Value, ...]:
    """The values that a value is made of."""
    match value:
        case TupleValue(items):
            return items
        case Closure(code, env, _, arguments):
            return (*(env[n] for n in code.captured if n in env), *arguments)
        case Builtin(_, _, arguments) | DistValue(_, _, arguments):
            return arguments
        case Memo(function, _, _):
            return (function,)
        case _:
            return ()


def shape(value: Value) -> tuple[object, ...]:
    """What is static about a value, as a hashable key."""
    inner = tuple(shape(p) for p in parts(value))
    match value:
        case Dyn(type_, _):
            return ("dyn", type_)
        case TupleValue():
            return ("tuple", *inner)
        case Closure(code, env, types, arguments):
            names = tuple(n for n in code.captured if n in env)
            return ("fn", id(code.node), _types_key(types), names, len(arguments), *inner)
        case Builtin(name, type_, arguments):
            return ("builtin", name, type_, len(arguments), *inner)
        case DistValue(family, _, _):
            return ("dist", family, *inner)
        case Memo():
            return ("memo", *inner)
        case Continuation(type_, _):
            return ("continuation", type_)
        case Never():
            return ("never",)


def leaves(value: Value) -> Iterator[Reg]:
    """The registers in a value, in a fixed order."""
    if isinstance(value, Dyn):
        yield from value.regs
    if isinstance(value, Memo):
        yield value.key
    if isinstance(value, Continuation):
        yield value.reg
    for part in parts(value):
        yield from leaves(part)


def rebuild(value: Value, regs: Iterator[Reg]) -> Value:
    """The same static shape around other registers."""
    match value:
        case Dyn(type_, old):
            return Dyn(type_, tuple(next(regs) for _ in old))
        case TupleValue(items):
            return TupleValue(tuple(rebuild(i, regs) for i in items))
        case Closure(code, env, types, arguments):
            names = [n for n in code.captured if n in env]
            new = {**env, **{n: rebuild(env[n], regs) for n in names}}
            return Closure(code, new, types, tuple(rebuild(a, regs) for a in arguments))
        case Builtin(name, type_, arguments):
            return Builtin(name, type_, tuple(rebuild(a, regs) for a in arguments))
        case DistValue(family, type_, arguments):
            return DistValue(family, type_, tuple(rebuild(a, regs) for a in arguments))
        case Memo(function, type_, _):
            key = next(regs)
            return Memo(rebuild(function, regs), type_, key)
        case Continuation(type_, _):
            return Continuation(type_, next(regs))
        case Never():
            return value


def nesting(value: Value, node: s.Node) -> int:
    """How many closures of one function lie inside each other in a value."""
    inside = max((nesting(p, node) for p in parts(value)), default=0)
    return inside + (isinstance(value, Closure) and value.code.node is node)
