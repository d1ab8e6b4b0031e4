"""Tiles in shared memory and the TMA engine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i32
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tawa.base.numerics import Array
from tawa.base.types import byte_size, i8
from tawa.hopper.dialect.access_text import CACHE_POLICIES
from tawa.hopper.dialect.core import HopperOp, Number, number
from tawa.hopper.dialect.machine import Actor, Steps
from tawa.hopper.dialect.sync import barrier_address, barrier_at
from tawa.hopper.dialect.text import (
    Writer,
    c_type,
    owner_condition,
    register_coordinate,
    thread_coordinate,
    tile_address,
)
from tawa.hopper.dialect.types import BarrierType, FragType, RingType, TensorMapType, TileType
from tawa.ir.effects import BARRIER, COPYING, GLOBAL, PROXY, SHARED, Effects, reads, writes

REDUCTIONS = {"addf": "add", "addi": "add"}
"""Kinds of atomics that the copy engine does on its way to memory, and its names for them."""


@irdl_op_definition
class Slot(HopperOp):
    """One tile of a ring."""

    name: ClassVar[str] = "hopper.slot"
    ring: SSAValue = operand_def(RingType)
    index: SSAValue = operand_def(i32)
    tile: SSAValue = result_def(TileType)
    traits = traits_def(Pure())
    assembly_format = "$ring `[` $index `]` attr-dict `:` type($ring) `->` type($tile)"

    def __init__(self, ring: SSAValue, index: SSAValue):
        assert isinstance(ring.type, RingType)
        super().__init__(operands=[ring, index], result_types=[ring.type.tile])

    def cuda(self, w: Writer) -> None:
        """The tile's address."""
        assert isinstance(self.ring.type, RingType)
        size = self.ring.type.stride
        w.let(self.tile, f"{w.name(self.ring)} + {w.name(self.index)} * {size}")

    def run(self, m: Actor) -> None:
        """The tile's address."""
        kind = self.ring.type
        assert isinstance(kind, RingType)
        index = m.slot_within(m.integer(self.index), kind.slots.data)
        m.bind(self.tile, m.integer(self.ring) + index * kind.stride)


@irdl_op_definition
class Subtile(HopperOp):
    """A window of a tile: from a row (a multiple of 8 at run time) and a column (a whole panel)."""

    name: ClassVar[str] = "hopper.subtile"
    source: SSAValue = operand_def(TileType)
    row: SSAValue = operand_def(i32)
    column: IntegerAttr = prop_def(Number)
    tile: SSAValue = result_def(TileType)
    traits = traits_def(Pure())
    assembly_format = (
        "$source `[` $row `,` $column `]` attr-dict `:` type($source) `->` type($tile)"
    )

    def __init__(self, source: SSAValue, row: SSAValue, column: int, rows: int, columns: int):
        t = source.type
        assert isinstance(t, TileType)
        window = TileType.of(rows, columns, t.element_type, t.swizzle.data, t.panel_rows.data)
        super().__init__(
            operands=[source, row], properties={"column": number(column)}, result_types=[window]
        )

    def verify_(self) -> None:
        """A window starts at a panel and at a swizzle atom."""
        t, part = self.source.type, self.tile.type
        assert isinstance(t, TileType) and isinstance(part, TileType)
        if t.rows.data == 1 and not t.swizzle.data:
            return
        if self.column.value.data % t.panel_columns:
            raise VerifyException(f"column {self.column.value.data} is not the start of a panel")
        if part.panel_bytes != t.panel_bytes or part.panel_rows != t.panel_rows:
            raise VerifyException("a window keeps its tile's panels")

    @property
    def offset(self) -> int:
        """Bytes from the tile's start to the window's first panel."""
        t, column = self.source.type, self.column.value.data
        assert isinstance(t, TileType)
        if t.rows.data == 1 and not t.swizzle.data:
            return column * byte_size(t.element_type)
        return column // t.panel_columns * t.panel_stride

    def cuda(self, w: Writer) -> None:
        """The window's address."""
        t = self.source.type
        assert isinstance(t, TileType)
        panel = self.offset
        text = f"{w.name(self.source)} + {w.name(self.row)} * {t.panel_bytes}"
        w.let(self.tile, f"{text} + {panel}" if panel else text)

    def run(self, m: Actor) -> None:
        """The window's address."""
        t = self.source.type
        assert isinstance(t, TileType)
        start = m.integer(self.source) + self.offset
        m.bind(self.tile, start + m.integer(self.row) * t.panel_bytes)


@irdl_op_definition
class SubtileColumn(HopperOp):
    """A window that starts at a panel chosen at run time (`panel` counts panels)."""

    name: ClassVar[str] = "hopper.subtile_panel"
    source: SSAValue = operand_def(TileType)
    panel: SSAValue = operand_def(i32)
    tile: SSAValue = result_def(TileType)
    traits = traits_def(Pure())
    assembly_format = "$source `[` $panel `]` attr-dict `:` type($source) `->` type($tile)"

    def __init__(self, source: SSAValue, panel: SSAValue, columns: int):
        t = source.type
        assert isinstance(t, TileType)
        window = TileType.of(
            t.rows.data, columns, t.element_type, t.swizzle.data, t.panel_rows.data
        )
        super().__init__(operands=[source, panel], result_types=[window])

    def cuda(self, w: Writer) -> None:
        """The window's address."""
        t = self.source.type
        assert isinstance(t, TileType)
        w.let(self.tile, f"{w.name(self.source)} + {w.name(self.panel)} * {t.panel_stride}")

    def run(self, m: Actor) -> None:
        """The window's address."""
        t = self.source.type
        assert isinstance(t, TileType)
        m.bind(self.tile, m.integer(self.source) + m.integer(self.panel) * t.panel_stride)


@irdl_op_definition
class TmaLoad(HopperOp):
    """The TMA engine copies one box into a tile and counts its bytes at a barrier's slot.

    With `ctas` (an i32 bit mask), the box lands at the same address of each of those CTAs and
    counts at each one's barrier. `eviction` is the priority in L2 of the lines that it reads.
    """

    name: ClassVar[str] = "hopper.tma_load"
    map: SSAValue = operand_def(TensorMapType)
    coordinates: Sequence[SSAValue] = var_operand_def(i32)
    tile: SSAValue = operand_def(TileType)
    barrier: SSAValue = operand_def(BarrierType)
    slot: SSAValue = operand_def(i32)
    ctas: SSAValue | None = opt_operand_def(i32)
    eviction: StringAttr | None = opt_prop_def(StringAttr)
    traits = traits_def(
        Effects(
            reads(GLOBAL, "map"),
            writes(SHARED, "tile"),
            writes(BARRIER, "barrier"),
            writes(COPYING),
        )
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$map `[` $coordinates `]` `into` $tile `signal` $barrier `[` $slot `]` "
        "(`ctas` $ctas^ `:` type($ctas))? (`eviction` $eviction^)? attr-dict "
        "`:` type($map) `,` type($tile) `,` type($barrier)"
    )

    def __init__(
        self,
        map_: SSAValue,
        coordinates: Sequence[SSAValue],
        tile: SSAValue,
        barrier: SSAValue,
        slot: SSAValue,
        ctas: SSAValue | None = None,
        eviction: StringAttr | None = None,
    ):
        super().__init__(
            operands=[map_, coordinates, tile, barrier, slot, ctas],
            properties={"eviction": eviction},
        )

    def cuda(self, w: Writer) -> None:
        """One instruction."""
        at = barrier_at(w, self.barrier, self.slot)
        where = ", ".join(w.name(c) for c in reversed(self.coordinates))
        head = f"({w.name(self.tile)}, {w.name(self.map)}, {at}, {where}"
        name, more = "tma_load", ""
        if self.ctas is not None:
            name, more = "tma_load_multicast", f", u16({w.name(self.ctas)})"
        if self.eviction is not None and self.eviction.data in CACHE_POLICIES:
            name, more = f"{name}_hint", f"{more}, {CACHE_POLICIES[self.eviction.data]:#x}ull"
        w.line(f"{name}{head}{more});")

    def run(self, m: Actor) -> Steps:
        """The instruction."""
        barrier = barrier_address(m, self.barrier, self.slot)
        where = [m.integer(c) for c in self.coordinates]
        ctas = None if self.ctas is None else m.integer(self.ctas)
        return m.tma_load(m.value(self.map), where, m.integer(self.tile), barrier, ctas)


@irdl_op_definition
class TmaStore(HopperOp):
    """The TMA engine copies a tile to one box of global memory, asynchronously.

    With `reduce` (a kind of atomic) it combines each element into memory instead.
    """

    name: ClassVar[str] = "hopper.tma_store"
    map: SSAValue = operand_def(TensorMapType)
    coordinates: Sequence[SSAValue] = var_operand_def(i32)
    tile: SSAValue = operand_def(TileType)
    evict_first: UnitAttr | None = opt_prop_def(UnitAttr)
    reduce: StringAttr | None = opt_prop_def(StringAttr)
    traits = traits_def(Effects(reads(SHARED, "tile"), writes(GLOBAL, "map"), writes(COPYING)))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$map `[` $coordinates `]` `from` $tile (`evict_first` $evict_first^)? "
        "(`reduce` $reduce^)? attr-dict `:` type($map) `,` type($tile)"
    )

    def __init__(
        self,
        map_: SSAValue,
        coordinates: Sequence[SSAValue],
        tile: SSAValue,
        evict_first: bool,
        reduce: StringAttr | None = None,
    ):
        first = UnitAttr() if evict_first and reduce is None else None
        super().__init__(
            operands=[map_, coordinates, tile],
            properties={"evict_first": first, "reduce": reduce},
        )

    def verify_(self) -> None:
        """Check the kind."""
        if self.reduce is not None and self.reduce.data not in REDUCTIONS:
            raise VerifyException(f"one of {', '.join(REDUCTIONS)} expected")

    def cuda(self, w: Writer) -> None:
        """One instruction."""
        where = ", ".join(w.name(c) for c in reversed(self.coordinates))
        hint = "_evict_first" if self.evict_first else ""
        name = f"tma_reduce_{REDUCTIONS[self.reduce.data]}" if self.reduce else f"tma_store{hint}"
        w.line(f"{name}({w.name(self.map)}, {w.name(self.tile)}, {where});")

    def run(self, m: Actor) -> Steps:
        """The instruction."""
        where = [m.integer(c) for c in self.coordinates]
        kind = self.reduce.data if self.reduce else None
        return m.tma_store(m.value(self.map), where, m.integer(self.tile), kind)


@irdl_op_definition
class BulkCommit(HopperOp):
    """Close this thread's group of TMA stores."""

    name: ClassVar[str] = "hopper.bulk_commit"
    traits = traits_def(Effects(writes(COPYING)))
    assembly_format = "attr-dict"

    def cuda(self, w: Writer) -> None:
        """One instruction."""
        w.line("bulk_commit();")

    def run(self, m: Actor) -> None:
        """The instruction."""
        m.bulk_commit()


@irdl_op_definition
class BulkWaitRead(HopperOp):
    """Wait until all but the newest `pending` groups of this thread have read their tiles."""

    name: ClassVar[str] = "hopper.bulk_wait_read"
    pending: IntegerAttr = prop_def(Number)
    traits = traits_def(Effects(writes(COPYING)))
    assembly_format = "$pending attr-dict"

    def __init__(self, pending: int):
        super().__init__(properties={"pending": number(pending)})

    def cuda(self, w: Writer) -> None:
        """One instruction."""
        w.line(f"bulk_wait_read<{self.pending.value.data}>();")

    def run(self, m: Actor) -> Steps:
        """The instruction."""
        return m.bulk_wait_read(self.pending.value.data)


@irdl_op_definition
class BulkWait(HopperOp):
    """Wait until all but the newest `pending` groups of this thread are complete: memory has them.

    This thread sees what they wrote, and who meets it then.
    """

    name: ClassVar[str] = "hopper.bulk_wait"
    pending: IntegerAttr = prop_def(Number)
    traits = traits_def(Effects(writes(COPYING), writes(PROXY)))
    assembly_format = "$pending attr-dict"

    def __init__(self, pending: int):
        super().__init__(properties={"pending": number(pending)})

    def cuda(self, w: Writer) -> None:
        """One instruction."""
        w.line(f"bulk_wait<{self.pending.value.data}>();")

    def run(self, m: Actor) -> Steps:
        """The instruction."""
        return m.bulk_wait(self.pending.value.data)


def element_places(w: Writer, frag: FragType, tile: TileType, base: str) -> str:
    """The address expression of register `i` of a fragment in a tile."""
    layout = frag.layout
    parts = [
        f"{thread_coordinate(layout, d)} + {register_coordinate(layout, d)}"
        for d in range(len(layout.shape))
    ]
    *outer, column = parts or ["0"]
    row = " + ".join(
        f"({part}) * {math.prod(layout.shape[d + 1 : -1])}" for d, part in enumerate(outer)
    )
    return tile_address(tile, base, row or "0", column)


def element_addresses(m: Actor, frag: FragType, tile: TileType, base: int) -> Array:
    """The address of each register's element; registers of one access follow the first's."""
    where = m.coordinates(frag.layout)
    rank, count, size = where.shape[-1], _vector(frag, tile), byte_size(frag.element_type)
    zero = np.zeros(where.shape[:2], np.int64)
    row = zero
    for d in range(rank - 1):
        row = row + where[..., d] * math.prod(frag.layout.shape[d + 1 : -1])
    column = where[..., rank - 1] if rank else zero
    first = base + tile.offsets(row, column)[:, ::count]
    return (first[:, :, None] + np.arange(count) * size).reshape(zero.shape)


def _vector(frag: FragType, tile: TileType) -> int:
    """Registers that one shared-memory access moves (at most 16 bytes, inside a swizzle chunk)."""
    layout = frag.layout
    count = layout.vector(len(layout.shape) - 1) if layout.shape else 1
    size = byte_size(frag.element_type)
    while count > 1 and (count * size > 16 or layout.registers % count or count & (count - 1)):
        count //= 2
    return count if tile.panel_bytes % (count * size) == 0 else 1


def access_bytes(frag: FragType, tile: TileType) -> int:
    """Bytes that one access takes when a fragment is stored to or loaded from a tile."""
    return _vector(frag, tile) * byte_size(frag.element_type)


@irdl_op_definition
class SharedStore(HopperOp):
    """Every thread writes the elements it holds into a tile (the first holder, of copies)."""

    name: ClassVar[str] = "hopper.shared_store"
    value: SSAValue = operand_def(FragType)
    tile: SSAValue = operand_def(TileType)
    traits = traits_def(Effects(writes(SHARED, "tile")))
    assembly_format = "$value `,` $tile attr-dict `:` type($value) `,` type($tile)"

    def __init__(self, value: SSAValue, tile: SSAValue):
        super().__init__(operands=[value, tile])

    def cuda(self, w: Writer) -> None:
        """A loop over registers, as wide as the layout allows."""
        frag, tile = self.value.type, self.tile.type
        assert isinstance(frag, FragType) and isinstance(tile, TileType)
        owner, count = owner_condition(frag.layout), _vector(frag, tile)
        with w.block(f"if ({owner})" if owner else ""):
            w.line("#pragma unroll")
            with w.block(f"for (int i = 0; i < {frag.layout.registers}; i += {count})"):
                values = ", ".join(f"{w.name(self.value)}[i + {j}]" for j in range(count))
                type_ = f"Vector<{c_type(frag)}, {count}>"
                address = element_places(w, frag, tile, w.name(self.tile))
                w.line(f"shared_store({address}, {type_}{{{{{values}}}}});")

    def run(self, m: Actor) -> None:
        """Each thread's registers, as wide as the C++ text writes them."""
        frag, tile = self.value.type, self.tile.type
        assert isinstance(frag, FragType) and isinstance(tile, TileType)
        at = element_addresses(m, frag, tile, m.integer(self.tile))
        m.shared_store(at, m.fragment(self.value), frag.element_type, m.owners(frag.layout))


@irdl_op_definition
class SharedLoad(HopperOp):
    """Every thread reads the elements of its layout from a tile."""

    name: ClassVar[str] = "hopper.shared_load"
    tile: SSAValue = operand_def(TileType)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Effects(reads(SHARED, "tile")))
    assembly_format = "$tile attr-dict `:` type($tile) `->` type($value)"

    def __init__(self, tile: SSAValue, type_: FragType):
        super().__init__(operands=[tile], result_types=[type_])

    @property
    def in_words(self) -> bool:
        """Whether bytes are read, and left, as words of four."""
        frag, tile = self.value.type, self.tile.type
        assert isinstance(frag, FragType) and isinstance(tile, TileType)
        return frag.element_type == i8 and _vector(frag, tile) % 4 == 0

    def cuda(self, w: Writer) -> None:
        """A loop over registers, as wide as the layout allows."""
        frag, tile = self.value.type, self.tile.type
        assert isinstance(frag, FragType) and isinstance(tile, TileType)
        count, name = _vector(frag, tile), w.declare(self.value)
        w.line("#pragma unroll")
        with w.block(f"for (int i = 0; i < {frag.layout.registers}; i += {count})"):
            address = element_places(w, frag, tile, w.name(self.tile))
            if self.in_words:
                type_ = f"Vector<u32, {count // 4}>"
                w.line(f"const auto part = shared_load<{type_}>({address});")
                w.line(f"memcpy({name} + i, &part, {count});")
                return
            type_ = f"Vector<{c_type(frag)}, {count}>"
            w.line(f"const auto part = shared_load<{type_}>({address});")
            for j in range(count):
                w.line(f"{name}[i + {j}] = part.values[{j}];")

    def run(self, m: Actor) -> None:
        """Each thread's registers, as wide as the C++ text reads them."""
        frag, tile = self.value.type, self.tile.type
        assert isinstance(frag, FragType) and isinstance(tile, TileType)
        at = element_addresses(m, frag, tile, m.integer(self.tile))
        m.new_fragment(self.value, m.shared_load(at, frag.element_type))


@irdl_op_definition
class Stmatrix(HopperOp):
    """Store 64 rows and the tile's columns of an accumulator of 16-bit elements, 8x8 at a time.

    `block` counts blocks of 64 rows and `column` is the first column of the window. Lane `l`
    addresses row `l % 16` of its warp's 16 and the 8-column chunk `l / 16` of each pair.
    """

    name: ClassVar[str] = "hopper.stmatrix"
    value: SSAValue = operand_def(FragType)
    tile: SSAValue = operand_def(TileType)
    first_register: IntegerAttr = prop_def(Number)
    traits = traits_def(Effects(writes(SHARED, "tile")))
    assembly_format = (
        "$value `from` $first_register `,` $tile attr-dict `:` type($value) `,` type($tile)"
    )

    def __init__(self, value: SSAValue, first_register: int, tile: SSAValue):
        super().__init__(
            operands=[value, tile], properties={"first_register": number(first_register)}
        )

    def verify_(self) -> None:
        """stmatrix moves 16-bit elements; four 8x8 matrices at a time."""
        frag, tile = self.value.type, self.tile.type
        assert isinstance(frag, FragType) and isinstance(tile, TileType)
        if byte_size(frag.element_type) != 2:
            raise VerifyException("stmatrix moves 16-bit elements")
        if tile.columns.data % 16 or tile.rows.data != 64:
            raise VerifyException("the window of stmatrix is 64 rows by a multiple of 16 columns")

    def cuda(self, w: Writer) -> None:
        """One instruction for each 16 columns."""
        tile = self.tile.type
        assert isinstance(tile, TileType)
        first, name = self.first_register.value.data, w.name(self.value)
        w.line("#pragma unroll")
        with w.block(f"for (int j = 0; j < {tile.columns.data // 16}; ++j)"):
            row, column = "warp % 4 * 16 + lane % 16", "j * 16 + lane / 16 * 8"
            address = tile_address(tile, w.name(self.tile), row, column)
            at = f"{name}[{first} + j * 8 + "
            pairs = ", ".join(f"pair({at}{k}], {at}{k + 1}])" for k in (0, 2, 4, 6))
            w.line(f"stmatrix({address}, {pairs});")

    def run(self, m: Actor) -> None:
        """Row `i` of matrix `k` goes where lane `8k + i` says; lane `t` holds 2 of row `t / 4`."""
        frag, tile = self.value.type, self.tile.type
        assert isinstance(frag, FragType) and isinstance(tile, TileType)
        count, first = tile.columns.data // 16, self.first_register.value.data
        values = m.fragment(self.value)[:, first : first + 8 * count]
        lane, warp = np.arange(m.threads) % 32, np.arange(m.threads) // 32 + m.first_thread // 32
        k, i = np.arange(4), lane // 4
        source = (8 * k[None, :] + i[:, None])[:, None, :]
        row = (warp % 4 * 16)[:, None, None] + source % 16
        column = np.arange(count)[None, :, None] * 16 + source // 16 * 8
        rows = m.integer(self.tile) + tile.offsets(row, column)
        pair = rows[..., None] + lane[:, None, None, None] % 4 * 4 + np.array([0, 2])
        everyone = np.ones(m.threads, bool)
        m.shared_store(pair.reshape(values.shape), values, frag.element_type, everyone)


MEMORY: Sequence[type[HopperOp]] = (
    Slot, Subtile, SubtileColumn, TmaLoad, TmaStore, BulkCommit, BulkWaitRead, BulkWait,
    SharedStore, SharedLoad, Stmatrix,
)  # fmt: skip
