"""Copies from global to shared memory that threads start and do not wait for (PTX `cp.async`).

Each thread copies the elements that its pointers name. They reach shared memory through the
generic proxy at any time before the copying thread's arrival at an mbarrier, which the hardware
makes for it once they have landed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    traits_def,
)
from xdsl.utils.exceptions import VerifyException

from tawa.base.types import PtrType, byte_size
from tawa.hopper.dialect.core import HopperOp, Number, number
from tawa.hopper.dialect.machine import Actor, Steps
from tawa.hopper.dialect.memory import element_addresses, element_places
from tawa.hopper.dialect.sync import barrier_address, barrier_at
from tawa.hopper.dialect.text import Writer, owner_condition
from tawa.hopper.dialect.types import BarrierType, FragType, TileType
from tawa.ir.effects import BARRIER, COPYING, GLOBAL, SHARED, Effects, reads, writes

COPY_BYTES = (16, 8, 4)
"""Bytes that one instruction can copy."""


@irdl_op_definition
class CopyAsync(HopperOp):
    """Every thread starts copies of the elements its pointers name into a tile; zeros where masked.

    `vector` consecutive registers name consecutive, aligned elements of a row with one mask value:
    4, 8 or 16 bytes that one instruction copies. Masked-off addresses are not touched.
    """

    name: ClassVar[str] = "hopper.copy_async"
    pointers: SSAValue = operand_def(FragType)
    mask: SSAValue | None = opt_operand_def(FragType)
    tile: SSAValue = operand_def(TileType)
    vector: IntegerAttr = prop_def(Number)
    traits = traits_def(Effects(reads(GLOBAL, "pointers"), writes(SHARED, "tile"), writes(COPYING)))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$pointers (`mask` $mask^)? `into` $tile `vector` $vector attr-dict "
        "`:` type($pointers) `,` type($tile) (`,` type($mask)^)?"
    )

    def __init__(self, pointers: SSAValue, mask: SSAValue | None, tile: SSAValue, vector: int):
        super().__init__(operands=[pointers, mask, tile], properties={"vector": number(vector)})

    @property
    def frag(self) -> FragType:
        """The tile's elements as the threads' pointers name them."""
        found = self.pointers.type
        assert isinstance(found, FragType) and isinstance(found.element_type, PtrType)
        return found.with_element_type(found.element_type.pointee)

    @property
    def bytes(self) -> int:
        """Bytes of one copy."""
        return self.vector.value.data * byte_size(self.frag.element_type)

    def verify_(self) -> None:
        """The hardware has such copies, and a register's neighbours are its row's."""
        layout, tile = self.frag.layout, self.tile.type
        assert isinstance(tile, TileType)
        if self.bytes not in COPY_BYTES:
            raise VerifyException(f"a copy has 4, 8 or 16 bytes, not {self.bytes}")
        count = self.vector.value.data
        if layout.vector(len(layout.shape) - 1) % count:
            raise VerifyException(f"{count} registers in a row hold neighbours of a row")
        if (1, *layout.shape)[-2:] != tile.extents or tile.element_type != self.frag.element_type:
            raise VerifyException("the pointers name the tile's elements")

    def cuda(self, w: Writer) -> None:
        """One instruction for each `vector` registers."""
        frag, tile, count = self.frag, self.tile.type, self.vector.value.data
        assert isinstance(tile, TileType)
        owner = owner_condition(frag.layout)
        with w.block(f"if ({owner})" if owner else ""):
            w.line("#pragma unroll")
            with w.block(f"for (int i = 0; i < {frag.layout.registers}; i += {count})"):
                to = element_places(w, frag, tile, w.name(self.tile))
                wanted = f"{w.name(self.mask)}[i]" if self.mask else "true"
                w.line(f"copy_async<{self.bytes}>({to}, {w.name(self.pointers)}[i], {wanted});")

    def run(self, m: Actor) -> None:
        """The same copies."""
        frag, tile, count = self.frag, self.tile.type, self.vector.value.data
        assert isinstance(tile, TileType)
        at = m.fragment(self.pointers)[:, ::count]
        to = element_addresses(m, frag, tile, m.integer(self.tile))[:, ::count]
        wanted = np.ones(at.shape, bool)
        if self.mask is not None:
            wanted = m.fragment(self.mask)[:, ::count].astype(bool)
        by = np.broadcast_to(m.owners(frag.layout)[:, None], at.shape)
        m.copy_async(to, at, (frag.element_type, count), wanted, by)


@irdl_op_definition
class CopyArrive(HopperOp):
    """Every thread arrives once at a barrier's slot when all copies that it started have landed.

    It does not wait; the arrivals are among those that the barrier was initialised with.
    """

    name: ClassVar[str] = "hopper.copy_arrive"
    barrier: SSAValue = operand_def(BarrierType)
    slot: SSAValue = operand_def(i32)
    traits = traits_def(Effects(writes(BARRIER, "barrier"), writes(COPYING)))
    assembly_format = "$barrier `[` $slot `]` attr-dict `:` type($barrier)"

    def __init__(self, barrier: SSAValue, slot: SSAValue):
        super().__init__(operands=[barrier, slot])

    def cuda(self, w: Writer) -> None:
        """One instruction."""
        w.line(f"copy_arrive({barrier_at(w, self.barrier, self.slot)});")

    def run(self, m: Actor) -> Steps:
        """The instruction."""
        return m.copy_arrive(barrier_address(m, self.barrier, self.slot))


COPIES: Sequence[type[HopperOp]] = (CopyAsync, CopyArrive)
