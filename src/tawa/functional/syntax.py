"""The syntax tree: what a program says, with the place of every node in the source.

Nodes are compared and hashed by identity, so that inference can record facts about them. A
language adds its own nodes by deriving from `Expression`, `Pattern`, `TypeSyntax` or
`Declaration`. `structure` compares trees by content.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import cast

from tawa.base.source import Span


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Node:
    """A node of the tree; `span` is its place in the source."""

    span: Span


class Expression(Node):
    """A node that has a value."""

    __slots__ = ()


class Pattern(Node):
    """A node that takes a value apart and binds names."""

    __slots__ = ()


class TypeSyntax(Node):
    """A type as it is written."""

    __slots__ = ()


class Declaration(Node):
    """A part of a module."""

    __slots__ = ()


class Condition(Node):
    """What a signature demands beyond its type."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expression):
    """A number, truth value or string."""

    value: int | float | bool | str


@dataclass(frozen=True, slots=True, eq=False)
class Name(Expression):
    """A use of a name; operators are names too (`+`), and so are constructors (`Some`)."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Apply(Expression):
    """`function argument`."""

    function: Expression
    argument: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expression):
    """`left operator right`; means `operator` applied to both, except for `&&` and `||`."""

    operator: Name
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Expression):
    """`operator operand`; the names are `negate` for `-` and `not` for `!`."""

    operator: Name
    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Pipe(Expression):
    """`argument |> function`."""

    argument: Expression
    function: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Lambda(Expression):
    """`fn p q -> body`."""

    parameters: tuple[Pattern, ...]
    body: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Binding(Node):
    """`pattern = value`, or `name p q : result = value` where `parameters` isn't empty."""

    pattern: Pattern
    parameters: tuple[Pattern, ...]
    result: TypeSyntax | None
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Let(Expression):
    """`let b and c in body`; with `recursive`, each binding sees all of them."""

    bindings: tuple[Binding, ...]
    body: Expression
    recursive: bool


@dataclass(frozen=True, slots=True, eq=False)
class If(Expression):
    """`if condition then yes else no`."""

    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Case(Node):
    """`pattern -> body` in a match."""

    pattern: Pattern
    body: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Match(Expression):
    """`match subject with cases end`; the first case that fits is taken."""

    subject: Expression
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Tuple(Expression):
    """`(a, b)`; `()` is the empty one."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Vector(Expression):
    """`[a, b]`."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Project(Expression):
    """`subject.0`: an item of a tuple, counted from 0."""

    subject: Expression
    index: int


@dataclass(frozen=True, slots=True, eq=False)
class Index(Expression):
    """`subject.[i, j]`."""

    subject: Expression
    indices: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Annotated(Expression):
    """`(subject : type)`."""

    subject: Expression
    type: TypeSyntax


@dataclass(frozen=True, slots=True, eq=False)
class NamePattern(Pattern):
    """Binds a name to the whole value."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class WildcardPattern(Pattern):
    """`_`: fits everything."""


@dataclass(frozen=True, slots=True, eq=False)
class LiteralPattern(Pattern):
    """Fits one value."""

    value: int | float | bool | str


@dataclass(frozen=True, slots=True, eq=False)
class TuplePattern(Pattern):
    """`(p, q)`."""

    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ConstructorPattern(Pattern):
    """`Some p`, or `None` without an argument."""

    name: str
    argument: Pattern | None


@dataclass(frozen=True, slots=True, eq=False)
class AnnotatedPattern(Pattern):
    """`(pattern : type)`."""

    pattern: Pattern
    type: TypeSyntax


@dataclass(frozen=True, slots=True, eq=False)
class TypeVariable(TypeSyntax):
    """`'a`."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class NamedType(TypeSyntax):
    """`int` or `dist[float]`; `arguments` is None where no brackets were written."""

    name: str
    arguments: tuple[Node, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class ArrowType(TypeSyntax):
    """`parameter -> result`."""

    parameter: TypeSyntax
    result: TypeSyntax


@dataclass(frozen=True, slots=True, eq=False)
class TupleType(TypeSyntax):
    """`(a, b)`; `()` is the empty one."""

    items: tuple[TypeSyntax, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Definition(Declaration):
    """`def name p q : result = body`; may refer to itself and to every other definition."""

    name: str
    name_span: Span
    parameters: tuple[Pattern, ...]
    result: TypeSyntax | None
    body: Expression
    doc: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Import(Declaration):
    """`import m` (then `m.x`), or `import m (x, y)`, where `names` isn't None."""

    module: str
    names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class Constructor(Node):
    """`Node(l, r)` in a datatype."""

    name: str
    fields: tuple[TypeSyntax, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Datatype(Declaration):
    """`data Tree['a] = Leaf | Node(Tree['a], 'a, Tree['a])`."""

    name: str
    parameters: tuple[str, ...]
    constructors: tuple[Constructor, ...]
    doc: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ClassCondition(Condition):
    """`num 'a`: the type is one of a named set."""

    name: str
    type: TypeSyntax


@dataclass(frozen=True, slots=True, eq=False)
class Signature(Declaration):
    """`val name : type where conditions`: something that the language itself implements."""

    name: str
    type: TypeSyntax
    conditions: tuple[Condition, ...] = ()
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Comment:
    """A `# ...` comment; `own_line` when nothing stands before it."""

    text: str
    line: int
    own_line: bool


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A parsed source text."""

    file: str
    declarations: tuple[Declaration, ...]
    comments: tuple[Comment, ...]

    def definitions(self) -> Iterator[Definition]:
        """The definitions, in the order of the source."""
        return (d for d in self.declarations if isinstance(d, Definition))


PLACES = ("span", "name_span")
"""Fields that say where a node is."""


def spine(expression: Expression) -> tuple[Expression, list[Expression]]:
    """The function that an application calls, and its arguments in order."""
    arguments: list[Expression] = []
    while isinstance(expression, Apply):
        arguments.append(expression.argument)
        expression = expression.function
    return expression, arguments[::-1]


def children(node: object) -> Iterator[Node]:
    """The nodes directly below `node`."""
    for name in _parts(type(node)):
        value = getattr(node, name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from _nodes(cast("tuple[object, ...]", value))


@cache
def _parts(kind: type) -> tuple[str, ...]:
    """The fields of a kind of node that may hold nodes."""
    if not is_dataclass(kind):
        return ()
    return tuple(field.name for field in fields(kind) if field.name not in PLACES)


def _nodes(values: tuple[object, ...]) -> Iterator[Node]:
    for value in values:
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from _nodes(cast("tuple[object, ...]", value))


def structure(node: object) -> object:
    """The tree as nested tuples without places, for comparison."""
    if isinstance(node, tuple):
        items = cast("tuple[object, ...]", node)
        return tuple(structure(item) for item in items)
    if not isinstance(node, (Node, Module)):
        return node
    skipped = {*PLACES, "file", "comments"}
    parts = (structure(getattr(node, f.name)) for f in fields(node) if f.name not in skipped)
    return (type(node).__name__, *parts)


def bound_names(pattern: Pattern) -> Iterator[NamePattern]:
    """The names that a pattern binds, left to right."""
    if isinstance(pattern, NamePattern):
        yield pattern
    for child in children(pattern):
        if isinstance(child, Pattern):
            yield from bound_names(child)
