"""`ew.map`: one op that applies a scalar function to scalars, tensors or register fragments.

A *container* is any type with an `element_type`: the builtin tensor, or a type of a lower level
that has a method `with_element_type(type)` giving the same container of other elements. All
operands and the result of one `ew.map` are of the same container (or are all scalars); what
their elements may be is what `scalars.table` says of the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, FunctionType, IntegerAttr, StringAttr, TensorType
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tawa.base.numerics import Array
from tawa.base.types import element_of
from tawa.ir.scalars.table import FUNCTIONS, ScalarFunction
from tawa.ir.traits import Elementwise


def with_element(type_: Attribute, element: Attribute) -> Attribute:
    """`type_` with its elements replaced; a scalar type becomes `element` itself."""
    if element_of(type_) == element:
        return type_
    if isinstance(type_, TensorType):
        return TensorType(element, type_.get_shape())
    replaced: Callable[[Attribute], Attribute] | None = getattr(type_, "with_element_type", None)
    return element if replaced is None else replaced(element)


def scalar_constant(value: IntegerAttr[Any] | FloatAttr) -> arith.ConstantOp:
    """A constant, of the type of its value."""
    return arith.ConstantOp.create(properties={"value": value}, result_types=[value.get_type()])


@cache
def _named(function: str) -> StringAttr:
    """The attribute that names a scalar function."""
    return StringAttr(function)


@irdl_op_definition
class Map(IRDLOperation):
    """Apply the scalar function `function` to each element of the operands."""

    name = "ew.map"
    function = prop_def(StringAttr)
    arguments = var_operand_def()
    result = result_def()

    traits = traits_def(Pure(), Elementwise())

    def __init__(
        self,
        function: str,
        operands: Sequence[SSAValue | Operation],
        result_type: Attribute | None = None,
    ) -> None:
        """Build a map; `result_type` (of the container or of one element) is needed by casts."""
        values = [SSAValue.get(operand) for operand in operands]
        types = [value.type for value in values]
        wanted = None if result_type is None else element_of(result_type)
        element = FUNCTIONS[function].result_type([element_of(t) for t in types], wanted)
        Operation.__init__(  # at once, not by what is declared of any op: most ops are maps
            self,
            operands=values,
            properties={"function": _named(function)},
            result_types=[with_element(types[0], element)],
        )

    @property
    def scalar_function(self) -> ScalarFunction:
        """The table's entry."""
        return FUNCTIONS[self.function.data]

    @property
    def element_types(self) -> tuple[list[Attribute], Attribute]:
        """Element types of the operands and of the result."""
        return [element_of(v.type) for v in self.arguments], element_of(self.result.type)

    def verify_(self) -> None:
        """Check the function's name, its element types and that all containers agree."""
        name = self.function.data
        if name not in FUNCTIONS:
            raise VerifyException(f"unknown scalar function {name!r}")
        operands, result = self.element_types
        try:
            FUNCTIONS[name].result_type(operands, result)
        except ValueError as error:
            raise VerifyException(str(error)) from error
        probe = {with_element(v.type, result) for v in (*self.arguments, self.result)}
        if len(probe) > 1:
            types = ", ".join(str(v.type) for v in self.arguments)
            raise VerifyException(
                f"{name} maps over containers of one shape, found ({types}) -> {self.result.type}"
            )

    def evaluate(self, *values: Array) -> Array:
        """The result for value arrays (see `base.numerics`)."""
        operands, result = self.element_types
        return self.scalar_function.evaluate(operands, result, *values)

    @classmethod
    def parse(cls, parser: Parser) -> Map:
        """Parse `name(%a, %b) {attributes} : (types) -> type`."""
        function = parser.parse_identifier()
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        types: FunctionType = parser.parse_function_type()
        values = parser.resolve_operands(operands, types.inputs.data, start)
        op = cls.create(
            operands=values,
            result_types=list(types.outputs.data),
            properties={"function": StringAttr(function)},
        )
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        """Print `name(%a, %b) {attributes} : (types) -> type`."""
        printer.print_string(f" {self.function.data}")
        with printer.in_parens():
            printer.print_list(self.arguments, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_operation_type(self)


EW = Dialect("ew", [Map])
