"""From lark's parse tree to the syntax tree: one method for each rule of the base grammar."""

from __future__ import annotations

import ast
from typing import Any

from lark import Token, Tree
from lark.tree import Meta

from tawa.base.source import Span
from tawa.functional import syntax as s

UNARY_NAMES = {"-": "negate", "!": "not"}
"""What the unary operators are called as functions."""


class TreeBuilder:
    """Makes syntax nodes of lark's parse tree; a language derives from it.

    It has a method for each rule of the grammar, which takes the rule's position and its children:
    tokens, nodes, and None for an optional part that is missing. Trees may be deep, so they are
    walked without recursion.
    """

    def __init__(self, file: str) -> None:
        self.file = file

    def build(self, tree: Tree[Any]) -> Any:
        """The node for a parse tree."""
        built: dict[int, Any] = {}
        for part in tree.iter_subtrees():
            given: list[Any] = [*part.children]
            children = [built[id(child)] if isinstance(child, Tree) else child for child in given]  # pyright: ignore[reportUnknownArgumentType]
            built[id(part)] = getattr(self, str(part.data))(part.meta, children)
        return built[id(tree)]

    def span(self, meta: Meta) -> Span:
        """The place of a rule; an empty one is put at the start of the text."""
        if meta.empty:
            return Span(self.file, 1, 0)
        return Span(self.file, meta.line, meta.column - 1, meta.end_line, meta.end_column - 1)

    def token_span(self, token: Token) -> Span:
        """The place of a token."""
        line, column = token.line or 1, (token.column or 1) - 1
        return Span(self.file, line, column, token.end_line or line, (token.end_column or 1) - 1)


class CoreBuilder(TreeBuilder):
    """The tree of the base grammar's rules."""

    def start(self, meta: Meta, children: list[Any]) -> tuple[s.Declaration, ...]:
        """A module's declarations."""
        return tuple(children)

    def definition(self, meta: Meta, children: list[Any]) -> s.Definition:
        """`def name p : type = body`."""
        name, *parameters, result, body = children
        where = self.token_span(name)
        return s.Definition(str(name), where, tuple(parameters), result, body, span=self.span(meta))

    def import_all(self, meta: Meta, children: list[Any]) -> s.Import:
        """`import module`."""
        return s.Import(str(children[0]), None, span=self.span(meta))

    def import_names(self, meta: Meta, children: list[Any]) -> s.Import:
        """`import module (names)`."""
        module, *names = (str(child) for child in children)
        return s.Import(module, tuple(names), span=self.span(meta))

    def datatype(self, meta: Meta, children: list[Any]) -> s.Datatype:
        """`data Name['a] = constructors`."""
        name, parameters, *constructors = children
        return s.Datatype(str(name), parameters or (), tuple(constructors), span=self.span(meta))

    def parameters(self, meta: Meta, children: list[Any]) -> tuple[str, ...]:
        """The parameters of a datatype."""
        return tuple(str(child) for child in children)

    def constructor(self, meta: Meta, children: list[Any]) -> s.Constructor:
        """`Name(types)` in a datatype."""
        name, *types = children
        known = tuple(child for child in types if child is not None)
        return s.Constructor(str(name), known, span=self.span(meta))

    def signature(self, meta: Meta, children: list[Any]) -> s.Signature:
        """`val name : type where conditions`."""
        name, type_, conditions = children
        return s.Signature(str(name), type_, conditions or (), span=self.span(meta))

    def conditions(self, meta: Meta, children: list[Any]) -> tuple[s.Condition, ...]:
        """The conditions of a signature."""
        return tuple(children)

    def class_condition(self, meta: Meta, children: list[Any]) -> s.ClassCondition:
        """`num 'a`."""
        return s.ClassCondition(str(children[0]), children[1], span=self.span(meta))

    def operator(self, meta: Meta, children: list[Any]) -> Token:
        """An operator as a name."""
        return children[0]

    # Expressions.

    def let(self, meta: Meta, children: list[Any]) -> s.Let:
        """`let bindings in body`."""
        return s.Let(tuple(children[:-1]), children[-1], False, span=self.span(meta))

    def letrec(self, meta: Meta, children: list[Any]) -> s.Let:
        """`letrec bindings in body`."""
        return s.Let(tuple(children[:-1]), children[-1], True, span=self.span(meta))

    def function_binding(self, meta: Meta, children: list[Any]) -> s.Binding:
        """`name p q : type = value`."""
        name, *parameters, result, value = children
        pattern = s.NamePattern(str(name), span=self.token_span(name))
        return s.Binding(pattern, tuple(parameters), result, value, span=self.span(meta))

    def value_binding(self, meta: Meta, children: list[Any]) -> s.Binding:
        """`pattern : type = value`."""
        pattern, result, value = children
        return s.Binding(pattern, (), result, value, span=self.span(meta))

    def lambda_(self, meta: Meta, children: list[Any]) -> s.Lambda:
        """`fn p q -> body`."""
        return s.Lambda(tuple(children[:-1]), children[-1], span=self.span(meta))

    def if_(self, meta: Meta, children: list[Any]) -> s.If:
        """`if a then b else c`."""
        return s.If(*children, span=self.span(meta))

    def match(self, meta: Meta, children: list[Any]) -> s.Match:
        """`match subject with cases end`."""
        return s.Match(children[0], tuple(children[1:]), span=self.span(meta))

    def case(self, meta: Meta, children: list[Any]) -> s.Case:
        """`pattern -> body`."""
        return s.Case(*children, span=self.span(meta))

    def pipe(self, meta: Meta, children: list[Any]) -> s.Pipe:
        """`argument |> function`."""
        return s.Pipe(*children, span=self.span(meta))

    def binary(self, meta: Meta, children: list[Any]) -> s.Binary:
        """`left operator right`."""
        left, operator, right = children
        name = s.Name(str(operator), span=self.token_span(operator))
        return s.Binary(name, left, right, span=self.span(meta))

    def unary_operation(self, meta: Meta, children: list[Any]) -> s.Unary:
        """`-operand` or `!operand`."""
        operator, operand = children
        name = s.Name(UNARY_NAMES[str(operator)], span=self.token_span(operator))
        return s.Unary(name, operand, span=self.span(meta))

    def apply(self, meta: Meta, children: list[Any]) -> s.Apply:
        """`function argument`."""
        return s.Apply(*children, span=self.span(meta))

    def project(self, meta: Meta, children: list[Any]) -> s.Project:
        """`subject.0`."""
        return s.Project(children[0], int(children[1][1:]), span=self.span(meta))

    def index(self, meta: Meta, children: list[Any]) -> s.Index:
        """`subject.[i, j]`."""
        return s.Index(children[0], tuple(children[1:]), span=self.span(meta))

    def variable(self, meta: Meta, children: list[Any]) -> s.Name:
        """A name."""
        return s.Name(str(children[0]), span=self.span(meta))

    def operator_name(self, meta: Meta, children: list[Any]) -> s.Name:
        """`(+)`."""
        name = str(children[0])
        return s.Name("not" if name == "!" else name, span=self.span(meta))

    def unit(self, meta: Meta, children: list[Any]) -> s.Tuple:
        """`()`."""
        return s.Tuple((), span=self.span(meta))

    def parenthesised(self, meta: Meta, children: list[Any]) -> s.Expression:
        """`(e)`."""
        return children[0]

    def tuple(self, meta: Meta, children: list[Any]) -> s.Tuple:
        """`(a, b)`."""
        return s.Tuple(tuple(children), span=self.span(meta))

    def vector(self, meta: Meta, children: list[Any]) -> s.Vector:
        """`[a, b]`."""
        items = tuple(child for child in children if child is not None)
        return s.Vector(items, span=self.span(meta))

    def annotated(self, meta: Meta, children: list[Any]) -> s.Annotated:
        """`(e : type)`."""
        return s.Annotated(*children, span=self.span(meta))

    def integer(self, meta: Meta, children: list[Any]) -> s.Literal:
        """An integer literal."""
        return s.Literal(int(children[0]), span=self.span(meta))

    def float(self, meta: Meta, children: list[Any]) -> s.Literal:
        """A floating-point literal."""
        return s.Literal(float(children[0]), span=self.span(meta))

    def string(self, meta: Meta, children: list[Any]) -> s.Literal:
        """A string literal."""
        return s.Literal(ast.literal_eval(str(children[0])), span=self.span(meta))

    def true(self, meta: Meta, children: list[Any]) -> s.Literal:
        """`true`."""
        return s.Literal(True, span=self.span(meta))

    def false(self, meta: Meta, children: list[Any]) -> s.Literal:
        """`false`."""
        return s.Literal(False, span=self.span(meta))

    # Patterns.

    def name_pattern(self, meta: Meta, children: list[Any]) -> s.NamePattern:
        """A name that binds."""
        return s.NamePattern(str(children[0]), span=self.span(meta))

    def wildcard_pattern(self, meta: Meta, children: list[Any]) -> s.WildcardPattern:
        """`_`."""
        return s.WildcardPattern(span=self.span(meta))

    def constructor_pattern(self, meta: Meta, children: list[Any]) -> s.ConstructorPattern:
        """A constructor without an argument."""
        return s.ConstructorPattern(str(children[0]), None, span=self.span(meta))

    def applied_constructor_pattern(self, meta: Meta, children: list[Any]) -> s.ConstructorPattern:
        """A constructor with an argument."""
        return s.ConstructorPattern(str(children[0]), children[1], span=self.span(meta))

    def literal_pattern(self, meta: Meta, children: list[Any]) -> s.LiteralPattern:
        """A literal that must be equal."""
        return s.LiteralPattern(children[0].value, span=self.span(meta))

    def negative_pattern(self, meta: Meta, children: list[Any]) -> s.LiteralPattern:
        """A negative number that must be equal."""
        value = ast.literal_eval(str(children[-1]))
        return s.LiteralPattern(-value, span=self.span(meta))

    def unit_pattern(self, meta: Meta, children: list[Any]) -> s.TuplePattern:
        """`()`."""
        return s.TuplePattern((), span=self.span(meta))

    def tuple_pattern(self, meta: Meta, children: list[Any]) -> s.TuplePattern:
        """`(p, q)`."""
        return s.TuplePattern(tuple(children), span=self.span(meta))

    def parenthesised_pattern(self, meta: Meta, children: list[Any]) -> s.Pattern:
        """`(p)`."""
        return children[0]

    def annotated_pattern(self, meta: Meta, children: list[Any]) -> s.AnnotatedPattern:
        """`(p : type)`."""
        return s.AnnotatedPattern(*children, span=self.span(meta))

    # Types.

    def arrow_type(self, meta: Meta, children: list[Any]) -> s.ArrowType:
        """`a -> b`."""
        return s.ArrowType(*children, span=self.span(meta))

    def type_variable(self, meta: Meta, children: list[Any]) -> s.TypeVariable:
        """`'a`."""
        return s.TypeVariable(str(children[0]), span=self.span(meta))

    def named_type(self, meta: Meta, children: list[Any]) -> s.NamedType:
        """A type's name."""
        return s.NamedType(str(children[0]), None, span=self.span(meta))

    def applied_type(self, meta: Meta, children: list[Any]) -> s.NamedType:
        """`name[arguments]`."""
        name, *arguments = children
        known = tuple(child for child in arguments if child is not None)
        return s.NamedType(str(name), known, span=self.span(meta))

    def unit_type(self, meta: Meta, children: list[Any]) -> s.TupleType:
        """`()`."""
        return s.TupleType((), span=self.span(meta))

    def parenthesised_type(self, meta: Meta, children: list[Any]) -> s.TypeSyntax:
        """`(type)`."""
        return children[0]

    def tuple_type(self, meta: Meta, children: list[Any]) -> s.TupleType:
        """`(a, b)`."""
        return s.TupleType(tuple(children), span=self.span(meta))
