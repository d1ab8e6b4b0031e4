"""The syntax tree of Axon's own grammar rules."""

from __future__ import annotations

import ast
from typing import Any

from lark.tree import Meta

from tawa.axon.typing import syntax as x
from tawa.functional.builder import CoreBuilder
from tawa.functional.syntax import ClassCondition, NamedType


class AxonBuilder(CoreBuilder):
    """The base grammar's rules and Axon's."""

    def type_argument(self, meta: Meta, children: list[Any]) -> Any:
        """A size or `..s`."""
        return children[0]

    def dim_operation(self, meta: Meta, children: list[Any]) -> x.DimOperation:
        """`left operator right`."""
        left, operator, right = children
        return x.DimOperation(left, str(operator), right, span=self.span(meta))

    def dim_number(self, meta: Meta, children: list[Any]) -> x.DimNumber:
        """A number."""
        return x.DimNumber(int(children[0]), span=self.span(meta))

    def dim_negative(self, meta: Meta, children: list[Any]) -> x.DimOperation:
        """`-size`."""
        zero = x.DimNumber(0, span=self.span(meta))
        return x.DimOperation(zero, "-", children[1], span=self.span(meta))

    def dim_name(self, meta: Meta, children: list[Any]) -> x.DimName:
        """A name."""
        return x.DimName(str(children[0]), span=self.span(meta))

    def dim_flexible(self, meta: Meta, children: list[Any]) -> x.DimName:
        """`?n`."""
        return x.DimName(str(children[0]), True, span=self.span(meta))

    def dim_wildcard(self, meta: Meta, children: list[Any]) -> x.DimWildcard:
        """`_`."""
        return x.DimWildcard(span=self.span(meta))

    def dim_call(self, meta: Meta, children: list[Any]) -> x.DimCall:
        """`max(a, b)`."""
        return x.DimCall(str(children[0]), tuple(children[1:]), span=self.span(meta))

    def dim_measure(self, meta: Meta, children: list[Any]) -> x.DimMeasure:
        """`size(..s)`."""
        return x.DimMeasure(str(children[0]), children[1], span=self.span(meta))

    def dim_parenthesised(self, meta: Meta, children: list[Any]) -> Any:
        """`(size)`."""
        return children[0]

    def spread(self, meta: Meta, children: list[Any]) -> x.Spread:
        """`..s & ..t`."""
        return x.Spread(tuple(str(child) for child in children), span=self.span(meta))

    def static_definition(self, meta: Meta, children: list[Any]) -> x.StaticDefinition:
        """`def name{h} p = body`."""
        name, statics, *parameters, result, body = children
        return x.StaticDefinition(
            str(name), self.token_span(name), tuple(parameters), result, body,
            statics=statics, span=self.span(meta),
        )  # fmt: skip

    def static_signature(self, meta: Meta, children: list[Any]) -> x.StaticSignature:
        """`val name{axis} : type`."""
        name, statics, type_, conditions = children
        return x.StaticSignature(
            str(name), type_, conditions or (), statics=statics, span=self.span(meta)
        )

    def static_parameters(self, meta: Meta, children: list[Any]) -> Any:
        """All the static parameters."""
        return tuple(children)

    def static_name(self, meta: Meta, children: list[Any]) -> x.StaticParameter:
        """A static number."""
        return x.StaticParameter(str(children[0]), None, False, span=self.span(meta))

    def static_default(self, meta: Meta, children: list[Any]) -> x.StaticParameter:
        """A static number with a default."""
        return x.StaticParameter(str(children[0]), children[1], False, span=self.span(meta))

    def static_shape_name(self, meta: Meta, children: list[Any]) -> x.StaticParameter:
        """A static shape."""
        return x.StaticParameter(str(children[0]), None, True, span=self.span(meta))

    def static_apply(self, meta: Meta, children: list[Any]) -> x.StaticApply:
        """`function{arguments}`."""
        token, *arguments = children
        name = self.variable(meta, [token])
        return x.StaticApply(name, tuple(arguments), span=self.span(meta))

    def static(self, meta: Meta, children: list[Any]) -> x.Static:
        """A static argument."""
        name, value = children
        return x.Static(None if name is None else str(name), value, span=self.span(meta))

    def static_shape(self, meta: Meta, children: list[Any]) -> x.ShapeSyntax:
        """`[..s, n]`."""
        items = tuple(child for child in children if child is not None)
        return x.ShapeSyntax(items, span=self.span(meta))

    def static_string(self, meta: Meta, children: list[Any]) -> x.StringSyntax:
        """A pattern."""
        return x.StringSyntax(ast.literal_eval(str(children[0])), span=self.span(meta))

    def element_condition(self, meta: Meta, children: list[Any]) -> ClassCondition:
        """`num t`."""
        span = self.span(meta)
        element = NamedType(str(children[1]), None, span=span)
        return ClassCondition(str(children[0]), element, span=span)

    def equal_condition(self, meta: Meta, children: list[Any]) -> x.DimCondition:
        """`left = right`."""
        return x.DimCondition(children[0], "=", children[1], span=self.span(meta))

    def least_condition(self, meta: Meta, children: list[Any]) -> x.DimCondition:
        """`left >= right`."""
        return x.DimCondition(children[0], ">=", children[1], span=self.span(meta))

    def divides_condition(self, meta: Meta, children: list[Any]) -> x.DimCondition:
        """`left divides right`."""
        return x.DimCondition(children[0], "divides", children[1], span=self.span(meta))

    def position_condition(self, meta: Meta, children: list[Any]) -> x.PositionCondition:
        """`axis splits ..before ..after`."""
        axis, before, after = children
        return x.PositionCondition(axis, str(before), str(after), span=self.span(meta))

    def product_condition(self, meta: Meta, children: list[Any]) -> x.ProductCondition:
        """`..result = ..left @ ..right`."""
        result, left, _, right = (str(child) for child in children)
        return x.ProductCondition(result, left, right, span=self.span(meta))

    def stack_condition(self, meta: Meta, children: list[Any]) -> x.StackCondition:
        """`'whole stacks count 'part`."""
        whole, count, part = (str(child) for child in children)
        return x.StackCondition(whole, count, part, span=self.span(meta))
