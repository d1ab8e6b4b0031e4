"""Runs Axon programs on NumPy arrays.

Types are passed at run time: a polymorphic function knows what its size and shape variables stand
for in this call, so that static arguments such as `reshape{[..b, t, h, _]}` have numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tawa.axon.running import contraction, image, operators
from tawa.axon.running.batching import batched
from tawa.axon.running.compositions import COMPOSITIONS
from tawa.axon.running.control import CONTROL
from tawa.axon.running.derivatives import CONSTANT, DERIVATIVES
from tawa.axon.running.numbers import Number
from tawa.axon.running.registry import (
    DTYPES,
    OPERATORS,
    is_bf16,
    is_floating,
    narrowed,
    widened,
)
from tawa.axon.running.tape import Tape, Traced, decided, innermost, primal, record
from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.patterns import parse_pattern
from tawa.axon.sizes.shapes import as_shape, evaluate, evaluate_shape, tensor_parts
from tawa.axon.typing import syntax as x
from tawa.axon.typing.errors import NoDerivative, RunTimeError
from tawa.axon.typing.infer import AxonInference
from tawa.base.errors import TawaError
from tawa.base.source import Span
from tawa.functional import syntax as s
from tawa.functional.language import CheckedModule
from tawa.functional.terms import Con, Instance, Term, Variable

OPERATOR_MODULES = (contraction, image, operators)
"""Importing them registers the operators."""

CONVERSIONS = frozenset(("cast", "like"))
"""Operators that say themselves of which type their result is: others round bf16 at their end."""

Value = Any
"""An array, a tuple of values, a Python function of one argument, or a `Constructed`."""
Known = "int | tuple[int, ...] | str | None"


@dataclass(frozen=True, slots=True)
class Constructed:
    """A value of a datatype."""

    constructor: str
    argument: Value


@dataclass(frozen=True)
class Frame:
    """What the variables of a type scheme stand for in one call.

    `mapping` sends the scheme's variables to terms of the caller, which `caller` knows. Variables
    of the surrounding function are those of `parent`. `known` are given numbers (of an entry).
    """

    inference: AxonInference
    parent: Frame | None = None
    mapping: dict[Variable, Variable] = field(default_factory=dict[Variable, Variable])
    caller: Frame | None = None
    known: Callable[[Variable], int | tuple[int, ...] | str | None] | None = None

    def lookup(self, variable: Variable) -> int | tuple[int, ...] | str | None:
        """The number, sizes or element type that a variable stands for; None if unknown."""
        if self.known is not None and (found := self.known(variable)) is not None:
            return found
        target = self.mapping.get(variable)
        if target is not None and self.caller is not None:
            return self.caller.value(target)
        return None if self.parent is None else self.parent.lookup(variable)

    def sizes(self, variable: Variable) -> int | tuple[int, ...] | None:
        """`lookup` for sizes and shapes."""
        found = self.lookup(variable)
        return None if isinstance(found, str) else found

    def value(self, variable: Variable) -> int | tuple[int, ...] | str | None:
        """What a variable of this frame's module stands for."""
        term = self.inference.solver.resolve(variable)
        if isinstance(term, Dim):
            return evaluate(term, self.sizes)
        if isinstance(term, Con):
            return term.name if not term.arguments else None
        if isinstance(term, Variable) and term.kind != "shape":
            return self.lookup(term)
        if isinstance(term, Variable) and (found := self.lookup(term)) is not None:
            return found
        sizes = evaluate_shape(as_shape(term), self.sizes)
        if sizes is None or any(size is None for size in sizes):
            return None
        return tuple(size for size in sizes if size is not None)


Environment = dict[str, Callable[["Frame"], Value]]


class Evaluator:
    """Evaluates the definitions of one module."""

    def __init__(self, module: CheckedModule) -> None:
        if not isinstance(module.inference, AxonInference):
            raise TypeError("the module is not Axon")
        self.module = module
        self.inference = module.inference
        self.definitions = {d.name: d for d in module.syntax.definitions()}
        self.imports = {name: Evaluator(m) for name, m in module.imports.items()}
        self.imported = self._imported()

    def _imported(self) -> dict[str, tuple[Evaluator, str]]:
        found: dict[str, tuple[Evaluator, str]] = {}
        for declaration in self.module.syntax.declarations:
            if not isinstance(declaration, s.Import):
                continue
            other = self.imports[declaration.module]
            if declaration.names is None:
                names = {f"{declaration.module}.{n}": n for n in other.definitions}
            else:
                names = {name: name for name in declaration.names}
            found.update({mine: (other, theirs) for mine, theirs in names.items()})
        return found

    def definition(self, name: str, frame: Frame) -> Value:
        """The value of a definition, for a frame that knows its scheme's variables."""
        definition = self.definitions[name]
        return self._function(definition.parameters, definition.body, {}, frame)

    # Expressions.

    def evaluate(self, expression: s.Expression, names: dict[str, Value], frame: Frame) -> Value:
        """The value of an expression."""
        while True:
            match expression:
                case s.Let():
                    names = self._bound(expression, names, frame)
                    expression = expression.body
                case s.If(condition, yes, no):
                    expression = yes if bool(self.evaluate(condition, names, frame)) else no
                case s.Match(subject, cases):
                    value = self.evaluate(subject, names, frame)
                    expression, names = _chosen(value, cases, names)
                case _:
                    return self._simple(expression, names, frame)

    def _simple(self, expression: s.Expression, names: dict[str, Value], frame: Frame) -> Value:
        match expression:
            case s.Literal(value):
                return np.asarray(value, self._dtype(expression, frame))
            case s.Name():
                return self._name(expression, names, frame)
            case x.StaticApply(function):
                return self._name(function, names, frame)
            case s.Lambda(parameters, body):
                return self._function(parameters, body, names, frame)
            case s.Annotated(subject, _):
                return self.evaluate(subject, names, frame)
            case s.Tuple(items):
                return tuple(self.evaluate(item, names, frame) for item in items)
            case s.Project(subject, index):
                return self.evaluate(subject, names, frame)[index]
            case s.Vector(items):
                return self.call("stack", *(self.evaluate(i, names, frame) for i in items))
            case _:
                return self._call(expression, names, frame)

    def _call(self, expression: s.Expression, names: dict[str, Value], frame: Frame) -> Value:
        match expression:
            case s.Binary(operator, left, right) if operator.name in ("&&", "||"):
                first = bool(self.evaluate(left, names, frame))
                if first == (operator.name == "||"):
                    return np.asarray(first)
                return self.evaluate(right, names, frame)
            case s.Binary(operator, left, right):
                function, arguments = operator, [left, right]
            case s.Unary(operator, operand):
                function, arguments = operator, [operand]
            case s.Pipe(argument, callee):
                function, arguments = callee, [argument]
            case s.Index(subject, indices):
                function, arguments = s.Name("take", span=expression.span), [subject, *indices]
            case _:
                function, arguments = s.spine(expression)
        value = self.evaluate(function, names, frame)
        given = [self.evaluate(argument, names, frame) for argument in arguments]
        return applied(value, given, expression.span)

    def _dtype(self, literal: s.Literal, frame: Frame) -> Any:
        parts = tensor_parts(self.inference.solver.resolve(self.inference.types[literal]))
        return element_dtype(None if parts is None else parts[0], frame, literal.span)

    def _function(
        self,
        parameters: tuple[s.Pattern, ...],
        body: s.Expression,
        names: dict[str, Value],
        frame: Frame,
    ) -> Value:
        if not parameters:
            return self.evaluate(body, names, frame)
        first, rest = parameters[0], parameters[1:]

        def function(argument: Value) -> Value:
            inner = dict(names)
            if not fits(first, argument, inner):
                raise RunTimeError("the argument doesn't fit the pattern", span=first.span)
            return self._function(rest, body, inner, frame)

        return function

    def _bound(self, let: s.Let, names: dict[str, Value], frame: Frame) -> dict[str, Value]:
        inner = dict(names)
        for binding in let.bindings:
            value = self._binding(binding, inner if let.recursive else names, frame)
            if not fits(binding.pattern, value, inner):
                raise RunTimeError("the value doesn't fit the pattern", span=binding.span)
        return inner

    def _binding(self, binding: s.Binding, names: dict[str, Value], frame: Frame) -> Value:
        scheme = self.inference.schemes.get(binding.pattern)
        if scheme is None or not scheme.variables:
            return self._function(binding.parameters, binding.value, names, frame)

        def at(instance: Instance, caller: Frame) -> Value:
            inner = Frame(self.inference, frame, instance.mapping, caller)
            return self._function(binding.parameters, binding.value, names, inner)

        return Polymorphic(at)

    # Names.

    def _name(self, name: s.Name, names: dict[str, Value], frame: Frame) -> Value:
        if name.name in names:
            found = names[name.name]
            if isinstance(found, Polymorphic):
                return found.at(self.inference.instances[name], frame)
            return found
        instance = self.inference.instances.get(name)
        mapping = {} if instance is None else instance.mapping
        if name.name in self.definitions:
            inner = Frame(self.inference, None, mapping, frame)
            return self.definition(name.name, inner)
        if name.name in self.imported:
            other, theirs = self.imported[name.name]
            return other.definition(theirs, Frame(other.inference, None, mapping, frame))
        if name.name[0].isupper() or (
            "." in name.name[1:] and name.name.split(".")[-1][0].isupper()
        ):
            return self._constructor(name)
        return self._built_in(name, frame)

    def _constructor(self, name: s.Name) -> Value:
        plain = name.name.split(".")[-1]
        type_ = self.inference.solver.resolve(self.inference.types[name])
        if isinstance(type_, Con) and type_.name == "->":

            def construct(argument: Value) -> Value:
                return Constructed(plain, argument)

            return construct
        return Constructed(plain, None)

    def _built_in(self, name: s.Name, frame: Frame) -> Value:
        statics = {
            key: self._static(key, term, name, frame)
            for key, term in self.inference.statics.get(name, {}).items()
        }
        if name.name == "dim":
            parts = tensor_parts(self.inference.solver.resolve(self.inference.instances[name].type))
            element = None if parts is None else parts[0]
            return np.asarray(statics["value"], element_dtype(element, frame, name.span))
        if name in self.inference.patterns:
            pattern = parse_pattern(self.inference.patterns[name])
            given = {"pattern": pattern, "sizes": statics}
            return curried(name, self.operator("pattern", name.span), given, len(pattern.inputs))
        implicit = name.name == "take" and name not in self.inference.instances
        arity = 2 if implicit else _arity(self.inference.instances[name].type)
        return curried(name, self.operator(name.name, name.span), statics, arity)

    # Operators.

    def operator(self, name: str, span: Span) -> Callable[..., Value]:
        """An operator of the prelude, used at some place, as a function of all its arguments."""
        control = CONTROL.get(name)
        return partial(self.call, name) if control is None else partial(control, self)

    def call(self, name: str, *given: Value, **statics: Any) -> Value:
        """An operator on values, which may be on the tapes of differentiations, or slices."""
        layer = innermost(given)
        if layer is None:
            return self.primitive(name, given, statics)
        if not isinstance(layer, Tape):
            found = batched(self, layer, name, given, statics)
            return self._composed(name, given, statics) if found is None else found
        if name in CONSTANT:
            below = (v.value if isinstance(v, Traced) and v.tape is layer else v for v in given)
            return self.call(name, *below, **statics)
        if name in DERIVATIVES:
            return record(self, layer, name, given, statics)
        if name not in COMPOSITIONS:
            raise NoDerivative(f"`{name}` has no derivative")
        return self._composed(name, given, statics)

    def _composed(self, name: str, given: tuple[Value, ...], statics: dict[str, Any]) -> Value:
        """An operator by what it is composed of."""
        found = COMPOSITIONS[name](*(Number(self, value) for value in given), **statics)
        return tuple(n.value for n in found) if isinstance(found, tuple) else found.value

    def primitive(self, name: str, given: tuple[Value, ...], statics: dict[str, Any]) -> Value:
        """An operator on arrays; some are only ever composed."""
        if name not in OPERATORS and name in COMPOSITIONS:
            return self._composed(name, given, statics)
        with np.errstate(all="ignore"):
            if name not in CONVERSIONS and any(is_bf16(value) for value in given):
                return narrowed(OPERATORS[name](*map(widened, given), **statics))
            return OPERATORS[name](*given, **statics)

    def number(self, value: float, like: Value) -> Value:
        """A number of the element type of another value."""
        return np.asarray(value, primal(like).dtype)

    def is_float(self, value: Value) -> bool:
        """Whether a value has derivatives."""
        return is_floating(primal(value).dtype)

    def decided(self, condition: Value) -> bool:
        """Whether a condition holds."""
        return bool(condition)

    def _static(self, key: str, term: Term, name: s.Name, frame: Frame) -> Any:
        found = self.inference.solver.resolve(term)
        if isinstance(found, Dim):
            value = evaluate(found, frame.sizes)
        elif isinstance(found, Con):
            return found.name
        elif isinstance(found, Variable) and found.kind == "element":
            named = frame.value(found)
            return named if isinstance(named, str) else "f32"
        elif isinstance(found, Variable) and found.kind in ("dim", "integer"):
            value = frame.sizes(found)
        else:
            value = evaluate_shape(as_shape(found), frame.sizes)
            if value is not None and name.name == "broadcast":  # what fits any size is 1
                value = tuple(1 if size is None else size for size in value)
            if value is not None and value.count(None) > (name.name == "reshape"):
                value = None
        if value is None and name not in self.inference.patterns:
            raise RunTimeError(
                f"`{key}` of `{name.name}` is not determined by the arguments", span=name.span,
                hint="give it, or annotate a parameter whose sizes fix it",
            )  # fmt: skip
        return value


@dataclass(frozen=True, slots=True)
class Polymorphic:
    """A local function whose type has variables: each use gives it their meaning."""

    at: Callable[[Instance, Frame], Value]


def _arity(type_: Term | None) -> int:
    if isinstance(type_, Con) and type_.name.startswith("{"):
        return _arity(type_.arguments[-1])
    count = 0
    while isinstance(type_, Con) and type_.name == "->":
        type_ = type_.arguments[1]
        count += 1
    return count


def element_dtype(element: Term | None, frame: Frame, span: Span) -> Any:
    """The NumPy element type that a type's element stands for; f32 if nothing determines it."""
    if isinstance(element, Variable):
        found = frame.value(element)
    else:
        found = element.name if isinstance(element, Con) else None
    name = found if isinstance(found, str) else "f32"
    if name not in DTYPES:
        raise RunTimeError(f"NumPy has no element type `{name}`", span=span)
    return DTYPES[name]


def applied(function: Value, arguments: list[Value], span: Span) -> Value:
    """The function applied to arguments in turn, errors pointing at `span`."""
    try:
        for argument in arguments:
            function = function(argument)
    except TawaError:
        raise
    except (ValueError, IndexError, TypeError) as error:
        raise RunTimeError(f"{error}", span=span) from error
    return function


def curried(name: s.Name, operator: Callable[..., Any], statics: dict[str, Any],
            arity: int, given: tuple[Value, ...] = ()) -> Value:  # fmt: skip
    """An operator as a function that takes its arguments one by one."""
    if len(given) == arity:
        try:
            return operator(*given, **statics)
        except TawaError as error:
            error.span = error.span or name.span
            raise
        except (ValueError, IndexError, TypeError) as error:
            raise RunTimeError(f"`{name.name}`: {error}", span=name.span) from error

    def more(argument: Value) -> Value:
        return curried(name, operator, statics, arity, (*given, argument))

    return more


def fits(pattern: s.Pattern, value: Value, names: dict[str, Value]) -> bool:
    """Whether a value fits a pattern; the names that it binds are put into `names`."""
    match pattern:
        case s.NamePattern(name):
            names[name] = value
            return True
        case s.WildcardPattern():
            return True
        case s.AnnotatedPattern(inner, _):
            return fits(inner, value, names)
        case s.TuplePattern(items):
            return all(fits(item, part, names) for item, part in zip(items, value, strict=True))
        case s.LiteralPattern(literal):
            return bool(decided(value) == literal)
        case s.ConstructorPattern(name, argument):
            if value.constructor != name:
                return False
            return argument is None or fits(argument, value.argument, names)
        case _:
            raise TypeError(f"no rule for {type(pattern).__name__}")


def _chosen(
    value: Value, cases: tuple[s.Case, ...], names: dict[str, Value]
) -> tuple[s.Expression, dict[str, Value]]:
    for case in cases:
        inner = dict(names)
        if fits(case.pattern, value, inner):
            return case.body, inner
    raise RunTimeError("no case fits", span=cases[0].span)
