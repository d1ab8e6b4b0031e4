"""Types of the hopper level: fragments, tiles in shared memory, barriers, tensor maps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tawa.base.layout import Layout, parse_layout
from tawa.base.types import byte_size
from tawa.machine.chips import SM_90A

SWIZZLED_ROWS = SM_90A.swizzle_alignment // SM_90A.swizzles[0]
"""Rows after which a swizzle repeats: panels of a swizzled tile begin at a multiple of them."""


@lru_cache(maxsize=1 << 12)
def _text(layout: Layout) -> StringAttr:
    return StringAttr(str(layout))


@irdl_attr_definition
class FragType(ParametrizedAttribute, TypeAttribute):
    """`!hopper.frag<f32, "64x64: ...">`: a tile spread over the registers of a team of warps."""

    name: ClassVar[str] = "hopper.frag"
    element_type: Attribute
    text: StringAttr

    @staticmethod
    def of(element: Attribute, layout: Layout) -> FragType:
        """The fragment type of one element type in one layout."""
        return FragType(element, _text(layout))

    @property
    def layout(self) -> Layout:
        """The layout that the type's text names."""
        return _layout(self.text.data)

    @property
    def extents(self) -> tuple[int, ...]:
        """The tile's shape."""
        return self.layout.shape

    def with_element_type(self, element: Attribute) -> FragType:
        """The same layout with another element type."""
        return FragType(element, self.text)

    def with_layout(self, layout: Layout) -> FragType:
        """The same element type in another layout."""
        return FragType.of(self.element_type, layout)

    def verify(self) -> None:
        """Reject text that is no layout of its shape."""
        try:
            why = _obstacle(self.text.data)
        except ValueError as error:
            raise VerifyException(str(error)) from None
        if why:
            raise VerifyException(f"{self.text.data!r} is not a layout: {why}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse `<T, "layout">`."""
        with parser.in_angle_brackets():
            element = parser.parse_type()
            parser.parse_punctuation(",")
            return [element, StringAttr(parser.parse_str_literal())]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<T, "layout">`."""
        with printer.in_angle_brackets():
            printer.print_attribute(self.element_type)
            printer.print_string(f', "{self.text.data}"')


@cache
def _layout(text: str) -> Layout:
    return parse_layout(text)


@cache
def _obstacle(text: str) -> str | None:
    """Why a text is not a layout of its shape."""
    return _layout(text).verify()


@irdl_attr_definition
class TileType(ParametrizedAttribute, TypeAttribute):
    """`!hopper.tile<128x64xf16, swizzle 128, panel_rows 128>`: a tile in shared memory.

    The tile is cut into panels as wide as the swizzle (the whole row if there is none); a panel is
    `panel_rows` rows of that many bytes, and panels follow each other. Within a panel, the 16-byte
    chunk index is xor-ed with address bits 7..9 (8 rows of 128 bytes), as the TMA engine does.
    """

    name: ClassVar[str] = "hopper.tile"
    rows: IntAttr
    columns: IntAttr
    element_type: Attribute
    swizzle: IntAttr
    panel_rows: IntAttr

    @staticmethod
    def of(
        rows: int, columns: int, element: Attribute, swizzle: int, panel_rows: int | None = None
    ) -> TileType:
        """A tile type from plain numbers; `panel_rows` defaults to the tile's own rows."""
        numbers = (IntAttr(n) for n in (swizzle, panel_rows or rows))
        return TileType(IntAttr(rows), IntAttr(columns), element, *numbers)

    @property
    def extents(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows.data, self.columns.data

    @property
    def panel_bytes(self) -> int:
        """Bytes of one row of a panel."""
        return self.swizzle.data or self.columns.data * byte_size(self.element_type)

    @property
    def panel_columns(self) -> int:
        """Columns of one panel."""
        return self.panel_bytes // byte_size(self.element_type)

    @property
    def panels(self) -> int:
        """Panels of the tile; the last may be partly unused."""
        return -(-self.columns.data // self.panel_columns)

    @property
    def panel_stride(self) -> int:
        """Bytes from one panel to the next."""
        return self.panel_rows.data * self.panel_bytes

    @property
    def bytes(self) -> int:
        """Bytes of the whole tile."""
        return self.panels * self.panel_stride

    @property
    def filled(self) -> int:
        """Bytes that copies of the whole tile write: not the rows that its panels lack."""
        return self.panels * self.panel_bytes * self.rows.data

    @property
    def alignment(self) -> int:
        """Bytes whose multiple the tile's address is: copies and their swizzle ask for it."""
        return max(SM_90A.copy_alignment, SWIZZLED_ROWS * self.swizzle.data)

    def offsets(self, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Byte offsets of elements from the tile's address (`tile_address` of the prelude)."""
        byte = column * byte_size(self.element_type)
        offset = row * self.panel_bytes + byte % self.panel_bytes
        if self.swizzle.data:
            offset = offset ^ (((offset >> 7) & (self.swizzle.data // 16 - 1)) << 4)
        return byte // self.panel_bytes * self.panel_stride + offset

    def verify(self) -> None:
        """Reject swizzles that do not exist."""
        if self.swizzle.data not in (0, 32, 64, 128):
            raise VerifyException(f"swizzle is 0, 32, 64 or 128 bytes, not {self.swizzle.data}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse `<RxCxT, swizzle S, panel_rows P>`."""
        with parser.in_angle_brackets():
            shape, element = parser.parse_shape()
            if shape is None or len(shape) != 2:
                parser.raise_error("a tile has two dimensions")
            rows, columns = shape
            parser.parse_punctuation(",")
            parser.parse_keyword("swizzle")
            swizzle = parser.parse_integer()
            parser.parse_punctuation(",")
            parser.parse_keyword("panel_rows")
            panel_rows = parser.parse_integer()
        return [IntAttr(rows), IntAttr(columns), element, IntAttr(swizzle), IntAttr(panel_rows)]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<RxCxT, swizzle S, panel_rows P>`."""
        with printer.in_angle_brackets():
            printer.print_string(f"{self.rows.data}x{self.columns.data}x")
            printer.print_attribute(self.element_type)
            printer.print_string(
                f", swizzle {self.swizzle.data}, panel_rows {self.panel_rows.data}"
            )


@irdl_attr_definition
class BarrierType(ParametrizedAttribute, TypeAttribute):
    """`!hopper.mbarrier<4>`: a row of mbarriers in shared memory, one a slot."""

    name: ClassVar[str] = "hopper.mbarrier"
    slots: IntAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse `<slots>`."""
        with parser.in_angle_brackets():
            return [IntAttr(parser.parse_integer())]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<slots>`."""
        with printer.in_angle_brackets():
            printer.print_string(str(self.slots.data))


@irdl_attr_definition
class RingType(ParametrizedAttribute, TypeAttribute):
    """`!hopper.ring<4, !hopper.tile<...>>`: equal tiles in shared memory, one a slot."""

    name: ClassVar[str] = "hopper.ring"
    slots: IntAttr
    tile: TileType

    @property
    def stride(self) -> int:
        """Bytes from one slot to the next, each at an aligned address."""
        return -(-self.tile.bytes // self.tile.alignment) * self.tile.alignment

    @property
    def bytes(self) -> int:
        """Bytes of all slots."""
        return (self.slots.data - 1) * self.stride + self.tile.bytes

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse `<slots, tile>`."""
        with parser.in_angle_brackets():
            slots = parser.parse_integer()
            parser.parse_punctuation(",")
            return [IntAttr(slots), parser.parse_type()]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<slots, tile>`."""
        with printer.in_angle_brackets():
            printer.print_string(f"{self.slots.data}, ")
            printer.print_attribute(self.tile)


@irdl_attr_definition
class TensorMapType(ParametrizedAttribute, TypeAttribute):
    """`!hopper.tensormap`: a tensor map, a kernel parameter that the TMA engine reads."""

    name: ClassVar[str] = "hopper.tensormap"


@irdl_attr_definition
class MatrixDescType(ParametrizedAttribute, TypeAttribute):
    """`!hopper.matrix_desc`: the descriptor of a wgmma operand (PTX ISA, matrix descriptor)."""

    name: ClassVar[str] = "hopper.matrix_desc"
