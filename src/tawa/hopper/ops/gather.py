"""Elements of a tile in shared memory at positions that each thread computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from tawa.base.types import byte_size, element_of
from tawa.hopper.ops.core import HopperOp
from tawa.hopper.ops.fragment import layout_of
from tawa.hopper.ops.machine import Actor
from tawa.hopper.text import Writer, c_type
from tawa.hopper.types import FragType, TileType


@irdl_op_definition
class SharedGather(HopperOp):
    """Register `i` of the result is element `places[i]` of a tile that lies in a row."""

    name: ClassVar[str] = "hopper.shared_gather"
    tile: SSAValue = operand_def(TileType)
    places: SSAValue = operand_def(FragType)
    value: SSAValue = result_def(FragType)
    assembly_format = (
        "$tile `at` $places attr-dict `:` type($tile) `,` type($places) `->` type($value)"
    )

    def __init__(self, tile: SSAValue, places: SSAValue):
        assert isinstance(tile.type, TileType)
        result = FragType.of(tile.type.element_type, layout_of(places))
        super().__init__(operands=[tile, places], result_types=[result])

    def verify_(self) -> None:
        """Positions are i32; the tile is a row without a swizzle; the layouts agree."""
        tile, places, value = self.tile.type, self.places.type, self.value.type
        assert isinstance(tile, TileType)
        assert isinstance(places, FragType)
        if places.element_type != i32 or layout_of(self.value) != places.layout:
            raise VerifyException("positions are i32, in the layout of the result")
        if tile.rows.data != 1 or tile.swizzle.data or element_of(value) != tile.element_type:
            raise VerifyException("a row of the result's elements, without a swizzle, is read")

    def cuda(self, w: Writer) -> None:
        """A load for each register."""
        name, at, base = w.declare(self.value), w.name(self.places), w.name(self.tile)
        element = c_type(self.value.type)
        size = byte_size(element_of(self.value.type))
        head = w.registers(layout_of(self.value))
        w.line(f"{head} {name}[i] = shared_load<{element}>({base} + {at}[i] * {size});")

    def run(self, m: Actor) -> None:
        """The same loads."""
        element = element_of(self.value.type)
        at = m.integer(self.tile) + m.fragment(self.places).astype("int64") * byte_size(element)
        m.new_fragment(self.value, m.shared_load(at, element))


GATHERS: Sequence[type[HopperOp]] = (SharedGather,)
