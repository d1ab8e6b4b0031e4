"""Elements of a tile in shared memory at positions that each thread computes: read, or counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.utils.exceptions import VerifyException

from tawa.base.layout import LANES, Layout, Mode
from tawa.base.types import byte_size, element_of
from tawa.hopper.dialect.core import HopperOp
from tawa.hopper.dialect.fragment import layout_of
from tawa.hopper.dialect.machine import Actor
from tawa.hopper.dialect.text import Writer, c_type, owner_condition
from tawa.hopper.dialect.types import FragType, TileType
from tawa.ir.effects import SHARED, Effects, reads, writes


@irdl_op_definition
class SharedGather(HopperOp):
    """Register `i` of the result is element `places[i]` of a tile that lies in a row."""

    name: ClassVar[str] = "hopper.shared_gather"
    tile: SSAValue = operand_def(TileType)
    places: SSAValue = operand_def(FragType)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Effects(reads(SHARED, "tile")))
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


_COUNT = """\
__device__ __forceinline__ void count_one(u32 address) {
  asm volatile("red.shared.add.u32 [%0], 1;" :: "r"(address) : "memory");
}
"""


@irdl_op_definition
class SharedHistogram(HopperOp):
    """Each warp writes to its row of a tile how often its lanes' registers hold each bin's number.

    Of copies, the first counts; what is no bin's number is left out.
    """

    name: ClassVar[str] = "hopper.shared_histogram"
    value: SSAValue = operand_def(FragType)
    tile: SSAValue = operand_def(TileType)
    traits = traits_def(Effects(reads(SHARED, "tile"), writes(SHARED, "tile")))
    assembly_format = "$value `into` $tile attr-dict `:` type($value) `,` type($tile)"

    def __init__(self, value: SSAValue, tile: SSAValue):
        super().__init__(operands=[value, tile])

    def verify_(self) -> None:
        """Both are i32; a row for each warp, without a swizzle."""
        tile, frag = self.tile.type, self.value.type
        assert isinstance(tile, TileType)
        if element_of(frag) != i32 or tile.element_type != i32:
            raise VerifyException("i32 are counted, as i32")
        if tile.rows.data != layout_of(self.value).warps or tile.swizzle.data:
            raise VerifyException("a row for each warp, without a swizzle, is written")

    def cuda(self, w: Writer) -> None:
        """Zeros, then an atomic addition for each register."""
        w.functions.setdefault("count_one", _COUNT)
        tile, layout = self.tile.type, layout_of(self.value)
        assert isinstance(tile, TileType)
        row, name, bins = w.fresh("bins"), w.name(self.value), tile.columns.data
        w.line(f"const u32 {row} = {w.name(self.tile)} + warp * {4 * bins};")
        w.line(f"for (int i = lane; i < {bins}; i += 32) shared_store({row} + i * 4, u32(0));")
        w.line("__syncwarp();")
        owner = owner_condition(layout)
        with w.block(f"if ({owner})" if owner else ""):
            w.line("#pragma unroll")
            w.line(f"for (int i = 0; i < {layout.registers}; ++i)")
            w.line(f"  if (u32({name}[i]) < {bins}) count_one({row} + {name}[i] * 4);")
        w.line("__syncwarp();")

    def run(self, m: Actor) -> None:
        """Each lane writes the counts of every 32nd bin."""
        tile, layout = self.tile.type, layout_of(self.value)
        assert isinstance(tile, TileType)
        values, bins = m.fragment(self.value), tile.columns.data
        places = Layout(
            (layout.warps, LANES), (), (Mode(LANES, 1, 1),), (Mode(layout.warps, 0, 1),)
        )
        where = m.coordinates(places)[:, 0]
        counted = m.owners(layout)[:, None] & (values >= 0) & (values < bins)
        columns = np.minimum(np.arange(-(-bins // LANES)) * LANES + where[:, 1:], bins - 1)
        counts = np.zeros_like(columns)
        for warp in np.unique(where[:, 0]):
            own = where[:, 0] == warp
            found = values[own][counted[own]].astype(np.int64)
            counts[own] = np.bincount(found, minlength=bins)[columns[own]]
        at = m.integer(self.tile) + tile.offsets(where[:, :1], columns)
        m.shared_store(at, counts.astype(np.int32), i32, where[:, 1] < bins)


GATHERS: Sequence[type[HopperOp]] = (SharedGather, SharedHistogram)
