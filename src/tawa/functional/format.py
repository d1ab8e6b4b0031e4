"""The source in one canonical layout.

What fits on a line of `WIDTH` stays on one; `let` chains, `if`, `match` and long applications are
broken in the usual places. Comments are kept, on a line of their own above what they stand in.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from tawa.functional import syntax as s

WIDTH = 100
STEP = "  "

LEVELS: dict[str, tuple[int, str]] = {
    "||": (2, "left"), "&&": (3, "left"), "==": (4, "none"), "!=": (4, "none"),
    "<": (4, "none"), "<=": (4, "none"), ">": (4, "none"), ">=": (4, "none"), "++": (5, "right"),
    "+": (6, "left"), "-": (6, "left"), ".+": (6, "left"), ".-": (6, "left"),
    "*": (7, "left"), "/": (7, "left"), "//": (7, "left"), "%": (7, "left"), "@": (7, "left"),
    ".*": (7, "left"), "./": (7, "left"), "**": (9, "right"),
}  # fmt: skip
"""How strongly operators bind, and to which side they group."""

OPEN, PIPE, UNARY, APPLY, ATOM = 0, 1, 8, 10, 11
UNARY_SIGNS = {"negate": "-", "not": "!"}


class Formatter:
    """Prints one module. A language overrides the `*_extension` methods for its own nodes."""

    def __init__(self, module: s.Module) -> None:
        self._module = module
        self._comments = list(module.comments)

    def module(self) -> str:
        """The whole module."""
        lines: list[str] = []
        end = 0
        for declaration in self._module.declarations:
            first = declaration.span.line
            comments = [c for c in self._comments if c.line <= first]
            start = min([c.line for c in comments if c.line > end] or [first])
            small = isinstance(declaration, (s.Import, s.Signature))
            if lines and (start > end + 1 or not small):
                lines.append("")
            lines.extend(self._taken(first))
            if comments and comments[-1].line < first - 1:
                lines.append("")
            lines.append(self.declaration(declaration))
            end = declaration.span.end_line
        rest = self._taken(None)
        if rest:
            lines.extend(["", *rest] if lines else rest)
        return "\n".join(lines) + ("\n" if lines else "")

    def _taken(self, line: int | None, indent: str = "") -> list[str]:
        """The comments up to a line that haven't been printed."""
        found: list[str] = []
        while self._comments and (line is None or self._comments[0].line <= line):
            comment = self._comments.pop(0)
            if found and self._gap(comment):
                found.append("")
            found.append(indent + comment.text.rstrip())
        return found

    def _gap(self, comment: s.Comment) -> bool:
        """Whether a comment begins a new paragraph: a doc comment after an ordinary one."""
        before = [c for c in self._module.comments if c.line == comment.line - 1]
        return comment.own_line and not before

    # Declarations.

    def declaration(self, declaration: s.Declaration) -> str:
        """One declaration."""
        match declaration:
            case s.Definition():
                return self.definition(declaration)
            case s.Import(module, None):
                return f"import {module}"
            case s.Import(module, names):
                return f"import {module} ({', '.join(self.name(n) for n in names or ())})"
            case s.Datatype(name, parameters, constructors):
                head = name + (f"[{', '.join(parameters)}]" if parameters else "")
                shown = (self._constructor(c) for c in constructors)
                return f"data {head} = {' | '.join(shown)}"
            case s.Signature():
                return self.signature(declaration)
            case _:
                raise TypeError(f"no layout for {type(declaration).__name__}")

    def signature(self, signature: s.Signature) -> str:
        """`val name : type where conditions`."""
        text = f"val {self.name(signature.name)} : {self.type(signature.type)}"
        if signature.conditions:
            text += f" where {', '.join(self.condition(c) for c in signature.conditions)}"
        return text

    def definition(self, definition: s.Definition) -> str:
        """`def name p q = body`."""
        head = f"def {self.name(definition.name)}{self.static_parameters(definition)}"
        return self._bound(head, definition.parameters, definition.result, definition.body, "")

    def static_parameters(self, definition: s.Definition) -> str:
        """What stands between a definition's name and its parameters: here, nothing."""
        return ""

    def condition(self, condition: s.Condition) -> str:
        """A condition of a signature."""
        if isinstance(condition, s.ClassCondition):
            return f"{condition.name} {self.type(condition.type)}"
        raise TypeError(f"no layout for {type(condition).__name__}")

    def _constructor(self, constructor: s.Constructor) -> str:
        if not constructor.fields:
            return constructor.name
        return f"{constructor.name}({', '.join(self.type(f) for f in constructor.fields)})"

    def _bound(
        self, head: str, parameters: Sequence[s.Pattern], result: s.TypeSyntax | None,
        body: s.Expression, indent: str,
    ) -> str:  # fmt: skip
        parts = [head, *(self.pattern(p, ATOM) for p in parameters)]
        left = " ".join(parts) + (f" : {self.type(result)}" if result is not None else "") + " ="
        inside = self._comments and self._comments[0].line <= body.span.end_line
        flat = self.flat(body, OPEN)
        if not inside and not _breaks(body) and len(indent) + len(left) + len(flat) < WIDTH:
            return f"{left} {flat}"
        return f"{left}\n{self.block(body, indent + STEP)}"

    # Expressions over several lines.

    def block(self, expression: s.Expression, indent: str) -> str:
        """An expression that starts a line."""
        lines: list[str] = []
        while isinstance(expression, s.Let):
            lines.extend(self._let(expression, indent))
            expression = expression.body
        lines.extend(self._taken(expression.span.end_line, indent))
        lines.append(indent + self._broken(expression, indent))
        return "\n".join(lines)

    def _let(self, let: s.Let, indent: str) -> list[str]:
        lines: list[str] = []
        word = "letrec" if let.recursive else "let"
        for index, binding in enumerate(let.bindings):
            first = binding.value
            limit = binding.span.line if isinstance(first, s.Let) else binding.span.end_line
            lines.extend(self._taken(limit, indent))
            head = f"{word} " if index == 0 else "and "
            head += self.pattern(binding.pattern, OPEN)
            text = self._bound(head, binding.parameters, binding.result, binding.value, indent)
            lines.append(indent + text)
        last = lines[-1]
        lines[-1] = f"{last} in" if "\n" not in last else f"{last}\n{indent}in"
        return lines

    def _broken(self, expression: s.Expression, indent: str) -> str:
        flat = self.flat(expression, OPEN)
        if len(indent) + len(flat) <= WIDTH and not _breaks(expression):
            return flat
        inner = indent + STEP
        match expression:
            case s.If(condition, yes, no):
                return (
                    f"if {self.flat(condition, OPEN)} then\n{self.block(yes, inner)}\n"
                    f"{indent}else\n{self.block(no, inner)}"
                )
            case s.Match(subject, cases):
                shown = [self._case(case, indent) for case in cases]
                return "\n".join([f"match {self.flat(subject, OPEN)} with", *shown, f"{indent}end"])
            case s.Lambda(parameters, body):
                head = " ".join(self.pattern(p, ATOM) for p in parameters)
                return f"fn {head} ->\n{self.block(body, inner)}"
            case s.Pipe(argument, function):
                chained = isinstance(argument, (s.Pipe, s.Binary, s.Apply))
                first = self._broken(argument, indent) if chained else self.flat(argument, PIPE)
                return f"{first}\n{indent}|> {self.flat(function, 2)}"
            case s.Binary(operator, left, right):
                level, _ = LEVELS[operator.name]
                return (
                    f"{self._operand(left, level, indent)} {operator.name}\n{inner}"
                    f"{self.flat(right, level + 1)}"
                )
            case s.Apply():
                function, arguments = s.spine(expression)
                shown = [self.flat(function, APPLY), *(self.flat(a, ATOM) for a in arguments)]
                return f"\n{inner}".join(shown)
            case _:
                return flat

    def _operand(self, expression: s.Expression, level: int, indent: str) -> str:
        if isinstance(expression, s.Binary) and LEVELS[expression.operator.name][0] == level:
            return self._broken(expression, indent)
        return self.flat(expression, level)

    def _case(self, case: s.Case, indent: str) -> str:
        head = f"{indent}| {self.pattern(case.pattern, OPEN)} ->"
        flat = self.flat(case.body, OPEN)
        if len(head) + len(flat) < WIDTH and not _breaks(case.body):
            return f"{head} {flat}"
        return f"{head}\n{self.block(case.body, indent + 2 * STEP)}"

    # Expressions on one line.

    def flat(self, expression: s.Expression, level: int) -> str:
        """An expression on one line, in parentheses if it binds weaker than `level`."""
        text, own = self._flat(expression)
        return f"({text})" if own < level else text

    def _flat(self, expression: s.Expression) -> tuple[str, int]:
        match expression:
            case s.Literal(value):
                return literal(value), ATOM
            case s.Name(name):
                return self.name({"not": "!", "negate": "negate"}.get(name, name)), ATOM
            case s.Tuple(items):
                return f"({', '.join(self.flat(item, OPEN) for item in items)})", ATOM
            case s.Vector(items):
                return f"[{', '.join(self.flat(item, OPEN) for item in items)}]", ATOM
            case s.Annotated(subject, type_):
                return f"({self.flat(subject, OPEN)} : {self.type(type_)})", ATOM
            case s.Let() | s.If() | s.Match() | s.Lambda():
                return self._flat_open(expression), OPEN
            case _:
                return self._flat_operation(expression)

    def _flat_operation(self, expression: s.Expression) -> tuple[str, int]:
        match expression:
            case s.Apply(function, argument):
                return f"{self.flat(function, APPLY)} {self.flat(argument, ATOM)}", APPLY
            case s.Binary(operator, left, right):
                level, side = LEVELS[operator.name]
                one = self.flat(left, level + (side != "left"))
                other = self.flat(right, level + (side != "right"))
                return f"{one} {operator.name} {other}", level
            case s.Unary(operator, operand):
                return f"{UNARY_SIGNS[operator.name]}{self.flat(operand, UNARY)}", UNARY
            case s.Pipe(argument, function):
                return f"{self.flat(argument, PIPE)} |> {self.flat(function, 2)}", PIPE
            case s.Project(subject, index):
                return f"{self.flat(subject, ATOM)}.{index}", ATOM
            case s.Index(subject, indices):
                inner = ", ".join(self.flat(index, OPEN) for index in indices)
                return f"{self.flat(subject, ATOM)}.[{inner}]", ATOM
            case _:
                return self.expression_extension(expression)

    def expression_extension(self, expression: s.Expression) -> tuple[str, int]:
        """The text of a language's own expression, and how strongly it binds."""
        raise TypeError(f"no layout for {type(expression).__name__}")

    def _flat_open(self, expression: s.Expression) -> str:
        match expression:
            case s.If(condition, yes, no):
                parts = (self.flat(part, OPEN) for part in (condition, yes, no))
                return "if {} then {} else {}".format(*parts)
            case s.Lambda(parameters, body):
                head = " ".join(self.pattern(p, ATOM) for p in parameters)
                return f"fn {head} -> {self.flat(body, OPEN)}"
            case s.Match(subject, cases):
                shown = " | ".join(
                    f"{self.pattern(c.pattern, OPEN)} -> {self.flat(c.body, OPEN)}" for c in cases
                )
                return f"match {self.flat(subject, OPEN)} with {shown} end"
            case s.Let(bindings, body, recursive):
                shown = " and ".join(self._flat_binding(binding) for binding in bindings)
                return f"let{'rec' * recursive} {shown} in {self.flat(body, OPEN)}"
            case _:
                raise TypeError(f"no layout for {type(expression).__name__}")

    def _flat_binding(self, binding: s.Binding) -> str:
        parts = [self.pattern(binding.pattern, OPEN)]
        parts.extend(self.pattern(p, ATOM) for p in binding.parameters)
        result = f" : {self.type(binding.result)}" if binding.result is not None else ""
        return f"{' '.join(parts)}{result} = {self.flat(binding.value, OPEN)}"

    # Patterns, names and types.

    @staticmethod
    def name(name: str) -> str:
        """A name; operators in parentheses."""
        return name if name[0].isalpha() or name[0] == "_" else f"({name})"

    def pattern(self, pattern: s.Pattern, level: int) -> str:
        """A pattern; at level ATOM, a constructor with an argument is parenthesised."""
        match pattern:
            case s.NamePattern(name):
                return name
            case s.WildcardPattern():
                return "_"
            case s.LiteralPattern(value):
                return literal(value)
            case s.TuplePattern(items):
                inner = ", ".join(self.pattern(item, ATOM) for item in items)
                return f"({inner})" if level == ATOM or len(items) < 2 else inner
            case s.AnnotatedPattern(inner, type_):
                return f"({self.pattern(inner, OPEN)}: {self.type(type_)})"
            case s.ConstructorPattern(name, None):
                return name
            case s.ConstructorPattern(name, argument) if argument is not None:
                text = f"{name} {self.pattern(argument, ATOM)}"
                return f"({text})" if level == ATOM else text
            case _:
                raise TypeError(f"no layout for {type(pattern).__name__}")

    def type(self, type_: s.TypeSyntax) -> str:
        """A type."""
        if isinstance(type_, s.ArrowType):
            left = self.type(type_.parameter)
            if isinstance(type_.parameter, s.ArrowType):
                left = f"({left})"
            return f"{left} -> {self.type(type_.result)}"
        if isinstance(type_, s.TupleType):
            return f"({', '.join(self.type(item) for item in type_.items)})"
        if isinstance(type_, s.NamedType):
            if type_.arguments is None:
                return type_.name
            inner = ", ".join(self.type_argument(a) for a in type_.arguments)
            return f"{type_.name}[{inner}]"
        if isinstance(type_, s.TypeVariable):
            return type_.name
        raise TypeError(f"no layout for {type(type_).__name__}")

    def type_argument(self, argument: s.Node) -> str:
        """What stands in the brackets of a type."""
        if isinstance(argument, s.TypeSyntax):
            return self.type(argument)
        raise TypeError(f"no layout for {type(argument).__name__}")


def _breaks(expression: s.Expression) -> bool:
    """Whether an expression is always laid out over several lines."""
    return isinstance(expression, (s.Let, s.Match))


def literal(value: int | float | bool | str) -> str:
    """A literal as it is written."""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, str) else repr(value)
