"""The typing rules of expressions, patterns and type syntax."""

from __future__ import annotations

import difflib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

from tawa.base.source import Span
from tawa.functional import syntax as s
from tawa.functional.coverage import check_coverage
from tawa.functional.errors import (
    DuplicateName,
    NotATuple,
    TypesDisagree,
    UnboundName,
    UnknownConstructor,
    UnknownType,
)
from tawa.functional.mismatch import explain_clash
from tawa.functional.show import TypePrinter
from tawa.functional.solver import Clash, Solver
from tawa.functional.terms import (
    Con,
    Instance,
    Origin,
    Scheme,
    Term,
    Variable,
    arrow,
    arrows,
    product,
)

BOOL = Con("bool")
LITERALS: dict[type, Con] = {bool: BOOL, int: Con("int"), float: Con("float"), str: Con("string")}


class ExpressionInference:
    """The inference of expressions, patterns and types; `environment` is what they may use."""

    printer = TypePrinter
    """How types look in messages."""

    boolean: Term = BOOL
    """The type of conditions."""

    attributes: dict[str, str] = {}
    """What to write instead of an attribute, `{}` being the value, for messages."""

    foreign: dict[str, str] = {}
    """What to write instead of names that other languages have, for messages."""

    type_arity: dict[str, int] = {"int": 0, "float": 0, "bool": 0, "string": 0, "vector": 1}
    """The language's type constructors, with their numbers of arguments."""

    def __init__(self, solver: Solver, environment: dict[str, Scheme]) -> None:
        self.solver = solver
        self.types: dict[s.Node, Term] = {}
        self.schemes: dict[s.Node, Scheme] = {}
        self.instances: dict[s.Name, Instance] = {}
        self.defined: dict[str, Scheme] = {}
        self.datatypes: dict[str, s.Datatype] = {}
        self.constructors: dict[str, s.Datatype] = {}
        self._scope: dict[str, list[Scheme]] = {n: [t] for n, t in environment.items()}
        self._named: dict[str, Variable] = {}
        self._named_level = 1
        self._arity = dict(self.type_arity)
        self._being_bound: list[str] = []

    def environment(self) -> dict[str, Scheme]:
        """The names that are known here, with what the module defines so far."""
        return {name: schemes[-1] for name, schemes in self._scope.items() if schemes}

    # Expressions.

    def infer(self, expression: s.Expression) -> Term:
        """The type of an expression; recorded in `types`."""
        found = self._infer(expression)
        self.types[expression] = found
        return found

    def _infer(self, expression: s.Expression) -> Term:
        match expression:
            case s.Literal():
                return self.literal(expression)
            case s.Name():
                return self.name(expression)
            case s.Apply():
                return self._apply(expression)
            case s.Let():
                return self._let(expression)
            case s.Lambda(parameters, body):
                return self._function(parameters, None, body)
            case s.Binary() | s.Unary() | s.Pipe():
                return self._operation(expression)
            case s.If() | s.Match():
                return self._choice(expression)
            case _:
                return self._data(expression)

    def _data(self, expression: s.Expression) -> Term:
        match expression:
            case s.Tuple(items):
                return product(*(self.infer(item) for item in items))
            case s.Project():
                return self._project(expression)
            case s.Annotated(subject, type_):
                found = self.infer(subject)
                return self.agree(self.read_type(type_), found, subject.span, "annotation")
            case _:
                return self.extension(expression)

    def extension(self, expression: s.Expression) -> Term:
        """The type of an expression of the language's own; here of `[a, b]` and `v.[i]`."""
        match expression:
            case s.Vector(items):
                element = self.solver.fresh()
                for item in items:
                    self.agree(element, self.infer(item), item.span, "item of the vector")
                return Con("vector", (element,))
            case s.Index(subject, (index,)):
                element = self.solver.fresh()
                vector = Con("vector", (element,))
                self.agree(vector, self.infer(subject), subject.span, "indexed value")
                self.agree(Con("int"), self.infer(index), index.span, "index")
                return element
            case _:
                raise UnknownType("this language has no such expression", span=expression.span)

    def literal(self, literal: s.Literal) -> Term:
        """The type of a literal."""
        return LITERALS[type(literal.value)]

    def name(self, name: s.Name) -> Term:
        """The type of a use of a name: its scheme, instantiated."""
        scheme = self.lookup(name.name, name.span)
        origin = Origin(name.span, f"`{name.name}`")
        with self.explained():
            instance = self.solver.instantiate(scheme, origin)
        self.instances[name] = instance
        return instance.type

    def lookup(self, name: str, span: Span) -> Scheme:
        """The scheme of a name. Raises UnboundName."""
        found = self._scope.get(name)
        if not found:
            near = self._similar(name)
            hint = f"did you mean `{near}`?" if near else None
            if name in self._being_bound:
                hint = f"`let` is not recursive: write `letrec {name} ...`"
            hint = self.foreign.get(name, hint)
            value, _, attribute = name.partition(".")
            if attribute and self._scope.get(value):
                other = self.attributes.get(attribute, "functions are applied to values: `f x`")
                hint = f"`{value}` is a value, and has no attributes: {other.format(value)}"
            raise UnboundName(
                f"nothing is called `{name}`",
                span=span,
                expected="a parameter, a name of `let` or `def`, or one of the library",
                found=f"`{name}`",
                hint=hint or "bind it before, or make it a parameter",
            )
        return found[-1]

    def _similar(self, name: str) -> str | None:
        known = [key for key, schemes in self._scope.items() if schemes]
        return next(iter(difflib.get_close_matches(name, known, 1)), None)

    def _apply(self, expression: s.Apply) -> Term:
        function, arguments = s.spine(expression)
        return self.call(self.infer(function), self.called(function), arguments)

    def called(self, function: s.Expression) -> str:
        """What a function is called in messages."""
        return f"`{function.name}`" if isinstance(function, s.Name) else "the function"

    def call(self, function: Term, called: str, arguments: Sequence[s.Expression]) -> Term:
        """The type of a function's result for `arguments`."""
        for number, argument in enumerate(arguments, 1):
            given = self.infer(argument)
            what = f"argument {number} of {called}"
            # Even a variable that is known to be a function gets an arrow of its own here, so that
            # the solver's log says why the argument's type matters.
            if not (isinstance(function, Con) and function.name == "->"):
                self._refuse_applied(function, called, number, argument)
                shape = arrow(self.solver.fresh(), self.solver.fresh())
                self.agree(shape, function, argument.span, f"{called}, which is applied")
                function = shape
            parameter, result = function.arguments
            self.agree(parameter, given, argument.span, what)
            function = result
        return function

    def _refuse_applied(
        self, function: Term, called: str, number: int, argument: s.Expression
    ) -> None:
        """Raise TypesDisagree for an argument of what is known to be no function."""
        known = self.solver.resolve(function)
        if not isinstance(known, Con) or known.name == "->":
            return
        taken = f"{number - 1} argument{'s' * (number != 2)}"
        raise TypesDisagree(
            f"{called} is not a function" if number == 1 else f"{called} takes {taken}",
            span=argument.span, expected="a function" if number == 1 else taken,
            found=f"a value of type {self.printer().type(known)}" if number == 1
            else f"argument {number}",
            hint="an element is `v.[i]`" if isinstance(argument, s.Vector) else None,
        )  # fmt: skip

    def _operation(self, expression: s.Binary | s.Unary | s.Pipe) -> Term:
        match expression:
            case s.Binary(operator, left, right) if operator.name in ("&&", "||"):
                for side in (left, right):
                    self.agree(
                        self.boolean, self.infer(side), side.span, f"operand of `{operator.name}`"
                    )
                return self.boolean
            case s.Binary(operator, left, right):
                return self.call(self.infer(operator), f"`{operator.name}`", (left, right))
            case s.Unary(operator, operand):
                return self.call(self.infer(operator), f"`{operator.name}`", (operand,))
            case s.Pipe(argument, function):
                return self.call(self.infer(function), self.called(function), (argument,))

    def _choice(self, expression: s.If | s.Match) -> Term:
        result = self.solver.fresh()
        if isinstance(expression, s.If):
            condition = expression.condition
            self.agree(self.boolean, self.infer(condition), condition.span, "condition")
            for branch in (expression.yes, expression.no):
                self.agree(result, self.infer(branch), branch.span, "branch of this `if`")
            return result
        subject = self.infer(expression.subject)
        for case in expression.cases:
            with self.binding(case.pattern) as found:
                self.agree(subject, found, case.pattern.span, "pattern")
                self.agree(result, self.infer(case.body), case.body.span, "case")
        check_coverage(expression, self.constructors)
        return result

    def _project(self, expression: s.Project) -> Term:
        written = self.infer(expression.subject)
        subject = self.solver.prune(written)
        if isinstance(subject, Variable):
            return self.item_of_unknown(expression, subject)
        if not (isinstance(subject, Con) and subject.name == "tuple"):
            raise NotATuple(
                "this is no tuple", span=expression.subject.span,
                found=self.printer().type(self.solver.resolve(subject)),
                hint=f"an element is `v.[{expression.index}]`",
            )  # fmt: skip
        if expression.index >= len(subject.arguments):
            raise NotATuple(
                f"the tuple has no item {expression.index}", span=expression.span,
                found=self.printer().type(self.solver.resolve(subject)),
                hint="items are counted from 0",
            )  # fmt: skip
        items = [self.solver.fresh() for _ in subject.arguments]
        self.agree(product(*items), written, expression.subject.span, "tuple")
        return items[expression.index]

    def item_of_unknown(self, expression: s.Project, subject: Variable) -> Term:
        """The type of an item of what may be anything so far. Raises NotATuple."""
        raise NotATuple(
            "the tuple's type isn't known here", span=expression.subject.span,
            found=self.printer().type(subject),
            hint="take it apart with `let (a, b) = ...`, or annotate it",
        )  # fmt: skip

    def _function(
        self, parameters: Sequence[s.Pattern], result: s.TypeSyntax | None, body: s.Expression
    ) -> Term:
        found: list[Term] = []
        names: list[s.NamePattern] = []
        self._refuse_repeated(parameters)
        for parameter in parameters:
            found.append(self.pattern(parameter))
            names.extend(s.bound_names(parameter))
        self._push(names)
        value = self.infer(body)
        if result is not None:
            value = self.agree(self.read_type(result), value, body.span, "result")
        self._pop(names)
        return arrows(found, value)

    # Bindings and patterns.

    def generalises(self, value: s.Expression) -> bool:
        """Whether the type of a binding without parameters may be generalised."""
        return isinstance(value, (s.Lambda, s.Name))

    def _let(self, expression: s.Let) -> Term:
        bound: list[s.NamePattern] = []
        body: s.Expression = expression
        while isinstance(body, s.Let):
            bound.extend(self._recursive(body) if body.recursive else self._bindings(body))
            body = body.body
        result = self.infer(body)
        self._pop(bound)
        return result

    def _bindings(self, let: s.Let) -> list[s.NamePattern]:
        patterns = [binding.pattern for binding in let.bindings]
        self._refuse_repeated(patterns)
        found: list[tuple[s.NamePattern, Scheme]] = []
        names = [p.name for p in patterns if isinstance(p, s.NamePattern)]
        self._being_bound += names
        for binding in let.bindings:
            found.extend(self._binding(binding))
        del self._being_bound[len(self._being_bound) - len(names) :]
        for pattern, scheme in found:
            self.schemes[pattern] = scheme
            self._scope.setdefault(pattern.name, []).append(scheme)
        return [pattern for pattern, _ in found]

    def _binding(self, binding: s.Binding) -> Iterator[tuple[s.NamePattern, Scheme]]:
        mark = self.solver.mark
        general = bool(binding.parameters) or self.generalises(binding.value)
        if not general:
            type_ = self._bound_value(binding)
            yield from self._monomorphic(binding, type_)
            return
        with self.deeper(), self._own_names() as own:
            type_ = self._bound_value(binding)
        if isinstance(binding.pattern, s.NamePattern):
            self.types[binding.pattern] = type_
            self.check_names(own)
            scheme = self.solver.generalise(type_, mark)
            self.check_names(own)
            yield binding.pattern, scheme
        else:
            yield from self._monomorphic(binding, type_)

    @contextmanager
    def _own_names(self) -> Generator[dict[str, Variable]]:
        """The names that annotations use first inside a local function, which belong to it."""
        outer, level = dict(self._named), self._named_level
        self._named_level = self.solver.level
        own: dict[str, Variable] = {}
        yield own
        own.update((n, v) for n, v in self._named.items() if n not in outer)
        self._named, self._named_level = outer, level

    def check_names(self, names: dict[str, Variable]) -> None:
        """Refuse what the names of a function's annotations turned out to be. The base doesn't."""

    def _bound_value(self, binding: s.Binding) -> Term:
        if binding.parameters:
            return self._function(binding.parameters, binding.result, binding.value)
        found = self.infer(binding.value)
        if binding.result is None:
            return found
        return self.agree(self.read_type(binding.result), found, binding.value.span, "annotation")

    def _monomorphic(
        self, binding: s.Binding, type_: Term
    ) -> Iterator[tuple[s.NamePattern, Scheme]]:
        pattern_type = self.pattern(binding.pattern)
        self.agree(pattern_type, type_, binding.value.span, "bound value")
        for name in s.bound_names(binding.pattern):
            yield name, Scheme((), (), self.types[name])

    def _recursive(self, let: s.Let) -> list[s.NamePattern]:
        names = [b.pattern for b in let.bindings if isinstance(b.pattern, s.NamePattern)]
        self._refuse_repeated(names)
        mark = self.solver.mark
        with self.deeper():
            for name in names:
                self.types[name] = self.solver.fresh()
            self._push(names)
            for name, binding in zip(names, let.bindings, strict=True):
                found = self._bound_value(binding)
                self.agree(self.types[name], found, name.span, "definition")
            self._pop(names)
        for name in names:
            self.schemes[name] = self.solver.generalise(self.types[name], mark)
        for name in names:
            self._scope.setdefault(name.name, []).append(self.schemes[name])
        return names

    def pattern(self, pattern: s.Pattern) -> Term:
        """The type of the values that a pattern fits; records those of the names in it."""
        found = self._pattern(pattern)
        self.types[pattern] = found
        return found

    def _pattern(self, pattern: s.Pattern) -> Term:
        match pattern:
            case s.NamePattern() | s.WildcardPattern():
                return self.solver.fresh()
            case s.LiteralPattern(value):
                return self.literal(s.Literal(value, span=pattern.span))
            case s.TuplePattern(items):
                return product(*(self.pattern(item) for item in items))
            case s.AnnotatedPattern(inner, type_):
                found = self.pattern(inner)
                return self.agree(self.read_type(type_), found, pattern.span, "annotation")
            case s.ConstructorPattern():
                return self._constructor_pattern(pattern)
            case _:
                raise UnknownType("this language has no such pattern", span=pattern.span)

    def _constructor_pattern(self, pattern: s.ConstructorPattern) -> Term:
        if pattern.name not in self.constructors:
            raise UnknownConstructor(f"no datatype has `{pattern.name}`", span=pattern.span)
        scheme = self.lookup(pattern.name, pattern.span)
        origin = Origin(pattern.span, f"`{pattern.name}`")
        type_ = self.solver.instantiate(scheme, origin).type
        takes = isinstance(type_, Con) and type_.name == "->"
        if takes != (pattern.argument is not None):
            expected = "an argument" if takes else "no argument"
            raise UnknownConstructor(
                f"`{pattern.name}` takes {expected}", span=pattern.span, expected=expected
            )
        if pattern.argument is None or not isinstance(type_, Con):
            return type_
        parameter, result = type_.arguments
        self.agree(parameter, self.pattern(pattern.argument), pattern.argument.span, "pattern")
        return result

    @contextmanager
    def binding(self, pattern: s.Pattern) -> Generator[Term]:
        """The type of a pattern, with its names in scope inside."""
        self._refuse_repeated([pattern])
        found = self.pattern(pattern)
        names = list(s.bound_names(pattern))
        self._push(names)
        yield found
        self._pop(names)

    def _push(self, names: Sequence[s.NamePattern]) -> None:
        for name in names:
            scheme = Scheme((), (), self.types[name])
            self._scope.setdefault(name.name, []).append(scheme)

    def _pop(self, names: Sequence[s.NamePattern]) -> None:
        for name in names:
            self._scope[name.name].pop()

    def _refuse_repeated(self, patterns: Sequence[s.Pattern]) -> None:
        seen: dict[str, Span] = {}
        for pattern in patterns:
            for name in s.bound_names(pattern):
                if name.name in seen:
                    raise DuplicateName(
                        f"`{name.name}` is bound twice here", span=name.span
                    ).with_note("first here", seen[name.name])
                seen[name.name] = name.span

    # Types.

    def read_type(self, syntax: s.TypeSyntax) -> Term:
        """The type that a piece of type syntax means; its variables belong to the definition."""
        match syntax:
            case s.TypeVariable(name):
                return self.named(name)
            case s.ArrowType(parameter, result):
                return arrow(self.read_type(parameter), self.read_type(result))
            case s.TupleType(items):
                return product(*(self.read_type(item) for item in items))
            case s.NamedType():
                return self.named_type(syntax)
            case _:
                raise UnknownType("this language has no such type", span=syntax.span)

    def named(self, name: str, kind: str = "type") -> Variable:
        """The variable that a name means in this definition's annotations."""
        if name not in self._named:
            variable = self.solver.fresh(kind, name)
            self.solver.levels[variable] = min(self._named_level, self.solver.level)
            self._named[name] = variable
        return self._named[name]

    def named_type(self, syntax: s.NamedType) -> Term:
        """The type that a name with arguments means."""
        arity = self._arity.get(syntax.name)
        if arity is None:
            raise UnknownType(f"there is no type `{syntax.name}`", span=syntax.span)
        arguments = [a for a in syntax.arguments or () if isinstance(a, s.TypeSyntax)]
        if len(arguments) != arity:
            raise UnknownType(
                f"`{syntax.name}` is given {len(arguments)} arguments", span=syntax.span,
                expected=f"{arity} arguments", found=f"{len(arguments)}",
            )  # fmt: skip
        return Con(syntax.name, tuple(self.read_type(argument) for argument in arguments))

    # The solver.

    def agree(self, expected: Term, found: Term, span: Span, what: str) -> Term:
        """Make two types equal and return the first. Raises TypesDisagree."""
        with self.explained():
            self.solver.unify(expected, found, Origin(span, what))
        return expected

    @contextmanager
    def explained(self) -> Generator[None]:
        """Turn a clash in the solver into an error for the user."""
        try:
            yield
        except Clash as clash:
            raise self.clash_error(clash) from None

    def clash_error(self, clash: Clash) -> Exception:
        """The error that tells the user of a clash."""
        return explain_clash(clash, self.solver, self.printer())

    @contextmanager
    def deeper(self) -> Generator[None]:
        """Variables made inside can be generalised outside."""
        self.solver.level += 1
        try:
            yield
        finally:
            self.solver.level -= 1
