"""From typed syntax to the core: monomorphic, first order, with closures only where needed.

The elaborator walks the program as an interpreter would, with values that are partly static
(see `values.py`), and writes down the code for the rest. A function becomes one core function for
each combination of types and static parts of its arguments that it is called with, so that
`map f v` is a loop with `f` in it. A function value that the program itself has to choose at run
time becomes a heap object, and its calls a switch (`dispatch.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tawa.base.source import Span
from tawa.cuppl.core.builder import FunctionBuilder
from tawa.cuppl.core.ir import Load, Reg, Return, Type
from tawa.cuppl.elaboration.shared import LIBRARY, Env, InputSlot, Shared
from tawa.cuppl.elaboration.values import (
    Builtin,
    Closure,
    Code,
    Dyn,
    Never,
    Substitution,
    TupleValue,
    Value,
    leaves,
    nesting,
    rebuild,
    shape,
)
from tawa.cuppl.typing.errors import EffectInConstant, UnsupportedValue
from tawa.cuppl.typing.language import Input
from tawa.functional import syntax as s
from tawa.functional.language import CheckedModule
from tawa.functional.terms import Con, Term

__all__ = ["Elaborator", "parameters"]

INT = Con("int")
FLOAT = Con("float")
BOOL = Con("bool")
UNIT = Con("tuple", ())
MAX_STATIC_NESTING = 2
"""A function value inside another of the same function, deeper than this, becomes dynamic."""


class Elaborator:
    """Elaborates the body of one core function (and what is inlined into it)."""

    def __init__(
        self, shared: Shared, builder: FunctionBuilder, module: CheckedModule, types: Substitution
    ) -> None:
        self.shared = shared
        self.b = builder
        self.module = module
        self.types = types

    # Types.

    def type_of(self, node: s.Node) -> Con:
        """The monomorphic type of an expression or pattern."""
        while isinstance(node, s.Let):
            node = node.body
        return self.concrete(self.module.inference.types[node])

    def concrete(self, term: Term) -> Con:
        """A type without variables; what nothing determines is `int`."""
        resolved = self.module.inference.solver.resolve(term)
        types = self.types
        found = resolved.substitute(lambda v: types.get(v, INT))
        assert isinstance(found, Con)
        return found

    def result_type(self, definition: s.Definition) -> Con:
        """The type of a definition's body."""
        return self.type_of(definition.body)

    def words(self, type_: Term) -> tuple[Type, ...]:
        """Registers of a type."""
        return self.shared.layouts.words(type_)

    # Values.

    def regs(self, value: Value, type_: Term) -> tuple[Reg, ...]:
        """The value in registers, its static parts made dynamic."""
        if isinstance(value, Never):
            return tuple(self.zero(t) for t in self.words(type_))
        if isinstance(value, Dyn):
            return value.regs
        if isinstance(value, TupleValue):
            assert isinstance(type_, Con)
            pairs = zip(value.items, type_.arguments, strict=True)
            return tuple(r for item, t in pairs for r in self.regs(item, t))
        return (self.box(value, type_),)

    def zero(self, type_: Type) -> Reg:
        """A register that is never read."""
        return self.b.const(0.0 if type_ is Type.F64 else 0, type_)

    def dynamic(self, value: Value, type_: Term) -> Dyn:
        """The value without static parts."""
        return Dyn(type_, self.regs(value, type_))

    def box(self, value: Value, type_: Term) -> Reg:
        """A function or distribution as a heap object: its tag says which, then its leaves."""
        value = self.settled(value)
        regs = tuple(leaves(value))
        tag = self.shared.rules.register(self.shared, type_, value)
        if not regs:
            return self.b.const(tag, Type.REF)
        layout = self.shared.layouts.number(False, tuple(r.type for r in regs))
        return self.store_object(layout << 20 | tag << 1, regs)

    def settled(self, value: Value) -> Value:
        """A value whose own parts don't nest functions any deeper than the limit."""
        if isinstance(value, Closure) and nesting(value, value.code.node) > 1:
            env = {n: self.unnested(v, value.code) for n, v in value.env.items()}
            arguments = tuple(self.unnested(a, value.code) for a in value.arguments)
            return Closure(value.code, env, value.types, arguments)
        return value

    def unnested(self, value: Value, code: Code) -> Value:
        """Make a function dynamic if it holds, or is, a closure of `code`."""
        if isinstance(value, Closure) and nesting(value, code.node):
            return self.dynamic(value, self.function_type(value))
        return value

    def function_type(self, closure: Closure) -> Term:
        """The type of a closure with the arguments it has."""
        walker = Elaborator(self.shared, self.b, closure.code.module, closure.types)
        kinds = [walker.type_of(p) for p in closure.code.parameters[len(closure.arguments) :]]
        result: Term = walker.type_of(closure.code.body)
        for kind in reversed(kinds):
            result = Con("->", (kind, result))
        return result

    def store_object(self, header: int, regs: Sequence[Reg]) -> Reg:
        """Allocate an object with these words."""
        address = self.b.alloc(1 + len(regs), header)
        for offset, reg in enumerate(regs):
            self.b.store(address, 1 + offset, reg)
        return address

    def items(self, value: Value, type_: Con) -> tuple[Value, ...]:
        """The items of a tuple."""
        if isinstance(value, TupleValue):
            return value.items
        if isinstance(value, Never):
            return tuple(Never() for _ in type_.arguments)
        assert isinstance(value, Dyn)
        out: list[Value] = []
        rest = list(value.regs)
        for item in type_.arguments:
            size = len(self.words(item))
            out.append(self.value(item, tuple(rest[:size])))
            rest = rest[size:]
        return tuple(out)

    def value(self, type_: Term, regs: tuple[Reg, ...]) -> Value:
        """Registers as a value; tuples are split at once, so that their items stay apart."""
        if isinstance(type_, Con) and type_.name == "tuple":
            return TupleValue(self.items(Dyn(type_, regs), type_))
        return Dyn(type_, regs)

    def single(self, value: Value, type_: Term) -> Reg:
        """The register of a one-word value."""
        return self.regs(value, type_)[0]

    def bool(self, reg: Reg) -> Dyn:
        """A truth value."""
        return Dyn(BOOL, (reg,))

    # Joins.

    def join(self, arms: Sequence[tuple[str, Callable[[], Value]]], type_: Term) -> Value:
        """The value of whichever of some blocks was reached; code continues after them."""
        after = self.b.name("after")
        done: list[tuple[object, Value]] = []
        for name, arm in arms:
            self.b.open(name)
            value = arm()
            done.append((self.b.here, value))
        live = [(h, v) for h, v in done if not (isinstance(v, Never) or h.terminator)]  # type: ignore[attr-defined]
        if not live:
            self.b.open(after)
            return Never()
        same = len({shape(v) for _, v in live}) == 1
        target: Value | None = None
        for here, value in live:
            self.b.here = here  # type: ignore[assignment]
            kept = value if same else self.merged(value, type_)
            if target is None:
                fresh = self.b.regs((r.type for r in leaves(kept)), "j")
                target = rebuild(kept, iter(fresh))
            self.b.copy(list(leaves(target)), list(leaves(kept)))
            self.b.jump(after)
        self.b.open(after)
        assert target is not None
        return target

    def merged(self, value: Value, type_: Term) -> Value:
        """A value as it is where different shapes meet: tuples of dynamic values."""
        return self.value(type_, self.regs(value, type_))

    def choose(
        self, condition: Reg, yes: Callable[[], Value], no: Callable[[], Value], type_: Term
    ) -> Value:
        """`if condition then yes else no`."""
        then, other = self.b.name("then"), self.b.name("else")
        self.b.branch(condition, then, other)
        return self.join([(then, yes), (other, no)], type_)

    # Names.

    def global_value(self, module: CheckedModule, name: str, span: Span) -> Value:
        """A definition, constructor, input or built-in that a module can see."""
        env = self.shared.globals.get(id(module))
        if env is None:
            env = self.shared.globals[id(module)] = {}
        if name not in env:
            found = self.find_global(module, name, span)
            if not isinstance(found, Closure):
                return found
            env[name] = found
        return env[name]

    def find_global(self, module: CheckedModule, name: str, span: Span) -> Value:
        """Look a top-level name up in a module, its imports and the library."""
        declared = self.shared.declared(module)
        declaration = declared.get(name)
        if isinstance(declaration, s.Definition):
            return self.definition(module, declaration, span)
        if isinstance(declaration, Input):
            return self.input(declaration)
        if "." in name:
            prefix, _, rest = name.rpartition(".")
            return self.global_value(module.imports[prefix], rest, span)
        if isinstance(declaration, s.Import):
            return self.global_value(module.imports[declaration.module], name, span)
        library = self.shared.library_of(module)
        if library is not None and isinstance(
            self.shared.declared(library).get(name), s.Definition
        ):
            return self.global_value(library, name, span)
        return Builtin(name, UNIT)

    def definition(self, module: CheckedModule, node: s.Definition, span: Span) -> Value:
        """A top-level function, or the value of a top-level constant."""
        body = node.body
        if node.parameters or isinstance(body, s.Lambda):
            parameters = node.parameters
            if not parameters and isinstance(body, s.Lambda):
                parameters, body = body.parameters, body.body
            code = Code(node, node.name, parameters, body, module, node.name_span)
            return Closure(code, {}, {})
        if node in self.shared.inlining:
            raise EffectInConstant(f"`{node.name}` is defined by itself", span=span)
        outer, self.shared.constant = self.shared.constant, node.name
        self.shared.inlining.append(node)
        if node.name == "main":
            self.shared.constant = outer
        try:
            return Elaborator(self.shared, self.b, module, self.types).expression(body, {})
        finally:
            self.shared.constant = outer
            self.shared.inlining.pop()

    def input(self, declaration: Input) -> Value:
        """An input's words, loaded from the table of inputs."""
        scheme = self.module.schemes.get(declaration.name)
        type_ = self.concrete(scheme.type) if scheme is not None else UNIT
        return self.load_slot(self.shared.slot(declaration.name, type_))

    def load_slot(self, slot: InputSlot) -> Value:
        """Load an input or constant."""
        base = self.b.get("inputs", Type.I64)
        return self.value(slot.type, self.b.load_words(base, slot.offset, self.words(slot.type)))

    def name(self, node: s.Name, env: Env) -> Value:
        """A use of a name, at its types here."""
        value = env.get(node.name)
        if value is None:
            value = self.global_value(self.module, node.name, node.span)
        instance = self.module.inference.instances[node]
        if isinstance(value, Closure):
            base = (
                value.types
                if (instance.mapping or value.code.module is not self.module)
                else {**self.types, **value.types}
            )
            scheme = instance.scheme
            if node.name not in env and value.code.module is not self.module:
                # What is kept for other processes has copies of another module's variables.
                scheme = value.code.module.schemes[value.code.name]
            variables = zip(scheme.variables, instance.scheme.variables, strict=True)
            chosen = {v: self.concrete(instance.mapping[w]) for v, w in variables}
            return Closure(value.code, value.env, {**base, **chosen}, value.arguments)
        if isinstance(value, Builtin) and value.type is UNIT:
            return self.builtin(node.name, self.concrete(instance.type), node.span)
        return value

    def builtin(self, name: str, type_: Con, span: Span) -> Value:
        """A prelude function or constructor as a value; a constant one is evaluated."""
        if type_.name == "->" or name in self.module.inference.constructors:
            if type_.name != "->":
                return self.construct(name, type_, [])
            return Builtin(name, type_)
        raise UnsupportedValue(f"`{name}` can't be used here", span=span)

    # Functions.

    def code(self, node: s.Node, make: Callable[[], Code]) -> Code:
        """The code object of a syntax node, made once."""
        found = self.shared.codes.get(id(node))
        if found is None:
            found = self.shared.codes[id(node)] = make()
        return found

    def apply(self, function: Value, arguments: Sequence[Value], span: Span) -> Value:
        """Apply a function value to arguments."""
        rest = list(arguments)
        while rest and not isinstance(function, Never):
            function, rest = self.apply_some(function, rest, span)
        return function

    def apply_some(
        self, function: Value, arguments: list[Value], span: Span
    ) -> tuple[Value, list[Value]]:
        """Give a function as many arguments as it takes at once."""
        rules = self.shared.rules
        match function:
            case Closure(code, env, types, given):
                missing = len(code.parameters) - len(given)
                taken = (*given, *arguments[:missing])
                closure = Closure(code, env, types, taken)
                if len(arguments) < missing:
                    return closure, []
                outer = self.shared.caller
                if span.file != LIBRARY:
                    self.shared.caller = span if code.span.file == LIBRARY else None
                value = self.call(closure)
                self.shared.caller = outer
                return value, arguments[missing:]
            case Builtin(name, type_, given):
                missing = rules.arity(name) - len(given)
                taken = (*given, *arguments[:missing])
                if len(arguments) < missing:
                    return Builtin(name, type_, taken), []
                return rules.call_builtin(self, name, type_, taken, span), arguments[missing:]
            case Dyn():
                return rules.call_dynamic(self, function, arguments[0]), arguments[1:]
            case _:
                assert not isinstance(function, TupleValue | Never)
                return rules.call_memo(self, function, arguments[0], span), arguments[1:]

    def call(self, closure: Closure) -> Value:
        """Call a function with all its arguments: inlined, or as a core function."""
        code = closure.code
        walker = Elaborator(self.shared, self.b, code.module, closure.types)
        result = walker.type_of(code.body)
        static = _mentions_function(result)
        if (code.anonymous or static) and code.node not in self.shared.inlining:
            self.shared.inlining.append(code.node)
            value = walker.body(closure)
            self.shared.inlining.pop()
            return value
        return self.call_specialised(closure, result)

    def body(self, closure: Closure) -> Value:
        """Elaborate a function's body here, with its arguments bound."""
        env = dict(closure.env)
        for name, member in closure.code.group.items():
            env[name] = Closure(member, closure.env, closure.types)
        for pattern, argument in zip(closure.code.parameters, closure.arguments, strict=True):
            self.bind(pattern, argument, env)
        return self.expression(closure.code.body, env)

    def call_specialised(self, closure: Closure, result: Term) -> Value:
        """Call the core function for this shape of closure and arguments."""
        code = closure.code
        limited = tuple(self.limited(a, p, closure) for a, p in self.pairs(closure))
        closure = Closure(code, closure.env, closure.types, limited)
        env = {n: closure.env[n] for n in code.captured if n in closure.env}
        closure = Closure(code, env, closure.types, closure.arguments)
        caller = self.shared.caller if code.span.file == LIBRARY else None
        key = (shape(closure), caller)  # its failures are those of its caller
        known = self.shared.specialised.get(key)
        if known is None:
            name = f"{code.name.rstrip(chr(39))}_{len(self.shared.specialised)}"
            known = self.shared.specialised[key] = (name, result)
            shared = self.shared
            shared.pending.append(lambda: specialise(shared, closure, name, result, caller))
        if self.shared.constant:
            self.shared.constant_calls.append((known[0], self.shared.constant, code.span))
        regs = self.b.call(known[0], list(leaves(closure)), self.words(result))
        return self.value(result, regs)

    def pairs(self, closure: Closure) -> list[tuple[Value, s.Pattern]]:
        """Arguments with their patterns."""
        return list(zip(closure.arguments, closure.code.parameters, strict=True))

    def limited(self, value: Value, pattern: s.Pattern, closure: Closure) -> Value:
        """Make a function argument dynamic where keeping it static would never end."""
        if isinstance(value, Closure) and nesting(value, value.code.node) > MAX_STATIC_NESTING:
            walker = Elaborator(self.shared, self.b, closure.code.module, closure.types)
            return self.dynamic(value, walker.type_of(pattern))
        return value

    # Expressions: each kind has its rule.

    def expression(self, node: s.Expression, env: Env) -> Value:
        """Elaborate an expression."""
        if self.b.ended:
            return Never()
        return self.shared.rules.expression(self, node, env)

    def bind(self, pattern: s.Pattern, value: Value, env: Env) -> None:
        """Bind the names of a pattern that always fits."""
        self.shared.rules.bind(self, pattern, value, env)

    def literal(self, value: object, type_: Con) -> Dyn:
        """A constant of a scalar type."""
        if isinstance(value, str):
            return Dyn(type_, (self.b.const(self.shared.string(value)),))
        assert isinstance(value, bool | int | float)
        word = self.words(type_)[0]
        number = float(value) if word is Type.F64 else value
        return Dyn(type_, (self.b.const(number, word),))

    def construct(self, name: str, type_: Con, fields: Sequence[Value]) -> Dyn:
        """A constructor applied to its fields."""
        data = self.shared.layouts.data(type_)
        tag, kinds = data.constructors[name]
        if not kinds:
            return Dyn(type_, (self.b.const(tag, self.words(type_)[0]),))
        regs = [r for f, k in zip(fields, kinds, strict=True) for r in self.regs(f, k)]
        layout = self.shared.layouts.number(False, tuple(r.type for r in regs))
        return Dyn(type_, (self.store_object(layout << 20 | tag << 1, regs),))

    def element(self, vector: Reg, index: Reg, type_: Term) -> Value:
        """An element of a vector; the index is known to be in range."""
        words = self.words(type_)
        if not words:
            return self.value(type_, ())
        if len(words) > 1:
            index = self.b.op("muli", index, self.b.const(len(words)))
        regs = self.b.regs(words)
        for offset, reg in enumerate(regs):
            self.b.put(Load(reg, vector, index, 2 + offset))
        return self.value(type_, regs)

    def effect(self, what: str, span: Span) -> None:
        """Refuse an effect in a top-level constant."""
        if self.shared.constant:
            raise EffectInConstant(
                f"`{self.shared.constant}` is a constant, but it would {what}", span=span,
                hint="make it a function, or move it into `main`",
            )  # fmt: skip


def specialise(
    shared: Shared, closure: Closure, name: str, result: Term, caller: Span | None
) -> None:
    """Elaborate one core function."""
    shared.caller = caller
    params = list(leaves(closure))
    builder = FunctionBuilder(name, [p.type for p in params], shared.layouts.words(result))
    inner = rebuild(closure, iter(builder.params))
    assert isinstance(inner, Closure)
    walker = Elaborator(shared, builder, closure.code.module, closure.types)
    outer, shared.inlining = shared.inlining, [closure.code.node]
    value = walker.body(inner)
    builder.end(Return(walker.regs(value, result)))
    shared.inlining = outer
    function = builder.finish()
    function.site = shared.site(closure.code.span)
    shared.program.add(function)


def _mentions_function(type_: Term) -> bool:
    """Whether values of a type may have static parts worth keeping."""
    if not isinstance(type_, Con):
        return False
    if type_.name in ("->", "dist"):
        return True
    return type_.name == "tuple" and any(_mentions_function(a) for a in type_.arguments)


def parameters(type_: Con, count: int) -> tuple[list[Con], Con]:
    """Types of the first parameters of a function type, and of its result."""
    found: list[Con] = []
    for _ in range(count):
        first, rest = type_.arguments
        assert isinstance(first, Con) and isinstance(rest, Con)
        found.append(first)
        type_ = rest
    return found, type_
