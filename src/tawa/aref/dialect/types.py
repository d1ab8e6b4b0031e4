"""Types of the aref level: rings, views of their slots, cursors and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntAttr, TensorType
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

TensorAttr = TensorType[Attribute]


@irdl_attr_definition
class RefType(ParametrizedAttribute, TypeAttribute):
    """A ring of arefs for a tuple of tiles: `!aref.ref<3, tensor<128x64xf16>, ...>`."""

    name: ClassVar[str] = "aref.ref"
    depth: IntAttr
    tiles: ArrayAttr[TensorAttr]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse `<depth, tile, ...>`."""
        with parser.in_angle_brackets():
            depth = parser.parse_integer()
            tiles: list[Attribute] = []
            while parser.parse_optional_punctuation(","):
                tiles.append(parser.parse_type())
        return [IntAttr(depth), ArrayAttr(tiles)]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<depth, tile, ...>`."""
        with printer.in_angle_brackets():
            printer.print_string(str(self.depth.data))
            for tile in self.tiles:
                printer.print_string(", ")
                printer.print_attribute(tile)


@irdl_attr_definition
class ViewType(ParametrizedAttribute, TypeAttribute):
    """`!aref.view<tensor<64x128xf16>>`: a tile in a slot, perhaps transposed or reshaped."""

    name: ClassVar[str] = "aref.view"
    tile: TensorAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse `<tile>`."""
        with parser.in_angle_brackets():
            return [parser.parse_type()]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<tile>`."""
        with printer.in_angle_brackets():
            printer.print_attribute(self.tile)


@irdl_attr_definition
class CursorType(ParametrizedAttribute, TypeAttribute):
    """`!aref.cursor`: how many slots of one ring a warp group has used."""

    name: ClassVar[str] = "aref.cursor"


@irdl_attr_definition
class TokenType(ParametrizedAttribute, TypeAttribute):
    """`!aref.token`: a slot that is being filled or read, or none."""

    name: ClassVar[str] = "aref.token"
