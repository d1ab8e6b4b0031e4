"""Tiles in shared memory transposed for the tensor core, which takes most operands K-major only.

Elements of 8 bits go through `ldmatrix.trans`, which exchanges rows and columns of 16-bit pairs,
byte permutes, which take the pairs apart, and `stmatrix`: 512 bytes in six instructions of a warp.
Other elements, and tiles of other extents, are gathered word by word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from tawa.base.numerics import Array
from tawa.base.types import byte_size, i8, short_name
from tawa.base.warp_transpose import BLOCK_K, BLOCK_M, IN_FLIGHT, Shares
from tawa.hopper.dialect.core import HopperOp, Number, number
from tawa.hopper.dialect.machine import Actor
from tawa.hopper.dialect.text import Writer, tile_address
from tawa.hopper.dialect.types import TileType
from tawa.ir.effects import SHARED, Effects, reads, writes

CHUNK = 16
"""Bytes that a thread stores at once when it gathers."""

INTERLEAVED = tuple(8 * (i >> 1 & 1) + 2 * (i >> 2) + (i & 1) for i in range(16))
"""Which of 16 rows of K lies at each place of an interleaved tile.

A thread holds two columns of every eight of an accumulator, and gives four consecutive 8-bit
elements of K as a part of an A operand (PTX ISA, wgmma register fragments). In this order of K the
four are two such pairs, so a product's result is another's operand without leaving its thread.
"""


@irdl_op_definition
class TransposeTile(HopperOp):
    """The team's `warps` warps write the source tile's transpose into the target tile.

    Each loads `in_flight` blocks before it stores the first of them, four registers each.
    `interleaved`: the target's columns, 16 at a time, are the source's rows in the order
    `INTERLEAVED`. Ordinary reads and writes: readers by other proxies need a fence.
    """

    name: ClassVar[str] = "hopper.transpose_tile"
    source: SSAValue = operand_def(TileType)
    target: SSAValue = operand_def(TileType)
    warps: IntegerAttr = prop_def(Number)
    in_flight: IntegerAttr = prop_def(Number)
    interleaved: UnitAttr | None = opt_prop_def(UnitAttr)
    traits = traits_def(Effects(reads(SHARED, "source"), writes(SHARED, "target")))
    assembly_format = (
        "$source `into` $target `by` $warps `in_flight` $in_flight "
        "(`interleaved` $interleaved^)? attr-dict "
        "`:` type($source) `,` type($target)"
    )

    def __init__(
        self,
        source: SSAValue,
        target: SSAValue,
        warps: int,
        in_flight: int = IN_FLIGHT,
        *,
        interleaved: bool = False,
    ) -> None:
        super().__init__(
            operands=[source, target],
            properties={
                "warps": number(warps),
                "in_flight": number(in_flight),
                "interleaved": UnitAttr() if interleaved else None,
            },
        )

    @property
    def tiles(self) -> tuple[TileType, TileType]:
        """The types of source and target."""
        source, target = self.source.type, self.target.type
        assert isinstance(source, TileType) and isinstance(target, TileType)
        return source, target

    @property
    def shares(self) -> Shares | None:
        """How warps share blocks; None where elements are gathered instead."""
        source, _ = self.tiles
        if byte_size(source.element_type) != 1:
            return None
        return Shares.of(*source.extents, self.warps.value.data, self.in_flight.value.data)

    def verify_(self) -> None:
        """The target is the transposed source; whole chunks of it are written."""
        if self.in_flight.value.data not in (1, 2, 4, 8):
            raise VerifyException("the blocks in flight are 1, 2, 4 or 8")
        source, target = self.tiles
        if source.extents[::-1] != target.extents or source.element_type != target.element_type:
            raise VerifyException("the target has the source's columns as rows")
        if target.columns.data * byte_size(target.element_type) % CHUNK:
            raise VerifyException(f"the target's rows are multiples of {CHUNK} bytes")
        if self.interleaved and byte_size(target.element_type) != 1:
            raise VerifyException("only 8-bit elements may be interleaved")

    def cuda(self, w: Writer) -> None:
        """A call of the function for these tiles."""
        source, target = self.tiles
        blocks, warps = self.shares is not None, self.warps.value.data
        parts = ["blocks" if blocks else "chunks", short_name(source.element_type), f"w{warps}"]
        parts += [f"f{self.in_flight.value.data}"]
        parts += ["interleaved"] if self.interleaved else []
        for tile in (source, target):
            rows, columns = tile.extents
            parts.append(f"{rows}x{columns}_{tile.swizzle.data}_{tile.panel_rows.data}")
        name = "_".join(("transpose", *parts))
        if name not in w.functions:
            body = "\n".join(self._block_text() if blocks else self._gather_text())
            head = f"{name}(u32 source, u32 target, u32 warp, u32 lane)"
            w.functions[name] = f"__device__ __forceinline__ void {head} {{\n{body}\n}}\n"
        w.line(f"{name}({w.name(self.source)}, {w.name(self.target)}, warp, lane);")

    def _block_text(self) -> list[str]:
        """Groups of 32 rows of the source; some blocks are loaded before any is stored.

        Few registers: a lane's places for the first group are moved on for the others.
        """
        (source, target), shares = self.tiles, self.shares
        assert shares is not None
        row = "lane % 8"
        if not self.interleaved:
            row = "lane % 8 / 2 * 4 + (lane / 8 % 2 ^ lane % 8 / 4) * 2 + lane % 2"
            row += " - lane / 8 % 2 * 8"
        # Where rows that come later are in the first of two registers, the permute swaps them.
        swapped = "false" if self.interleaved else "lane % 4 >= 2"
        start = tile_address(source, "source", f"lane / 8 * 8 + {row}", "0")
        place = "lane % 8 * 2 + (lane % 8 / 4 ^ lane / 8 % 2)"
        end = tile_address(target, "target", place, "lane / 16 * 16")
        (groups, blocks), far = shares.at_once, BLOCK_K * shares.groups
        edges = [f"  const u32 first = 0, last = {shares.blocks};"]
        if shares.parts > 1:
            edges = [
                f"  const u32 first = warp / {shares.groups} * {shares.block_steps};",
                f"  const u32 last = min(first + {shares.block_steps}u, {shares.blocks}u);",
            ]
        pairs = ((0, "order"), (0, "order ^ 0x1111"), (2, "order"), (2, "order ^ 0x1111"))
        words = ", ".join(f"__byte_perm(x[i][{j}], x[i][{j + 1}], {how})" for j, how in pairs)
        return [
            # A lane's places are computed anew each time: registers hold none of them in between.
            '  asm volatile("" : "+r"(lane));',
            f"  const u32 from = {start};",
            f"  const u32 to = {end};",
            f"  const u32 order = ({swapped} ? 0x2064 : 0x6420) ^ (lane / 16 ? 0x1111 : 0);",
            *edges,
            "#pragma unroll 1",
            f"  for (u32 g = 0; g < {shares.group_steps}; g += {groups}) {{",
            f"    const u32 k = warp % {shares.groups} * {BLOCK_K} + g * {far};",
            f"    const u32 start = from + k * {source.panel_bytes};",
            f"    const u32 end = {_moved('to', 'k', target)};",
            "#pragma unroll 1",
            f"    for (u32 b = first; b < last; b += {blocks}) {{",
            f"      u32 x[{groups * blocks}][4];",
            "#pragma unroll",
            f"      for (int i = 0; i < {groups * blocks}; ++i) {{",
            f"        const u32 byte = (b + i % {blocks}) * {BLOCK_M};",
            f"        const u32 at = {_moved('start', 'byte', source)};",
            f"        ldmatrix_transposed(x[i], at + i / {blocks} * {far * source.panel_bytes});",
            "      }",
            "#pragma unroll",
            f"      for (int i = 0; i < {groups * blocks}; ++i) {{",
            f"        const u32 at = {_moved('end', f'(i / {blocks} * {far})', target)};",
            f"        const u32 row = (b + i % {blocks}) * {BLOCK_M};",
            f"        stmatrix(at + row * {target.panel_bytes}, {words});",
            "      }",
            "    }",
            "  }",
        ]

    def _gather_text(self) -> list[str]:
        """Each thread reads a chunk's elements from as many rows, and stores them at once."""
        source, target = self.tiles
        size, type_ = byte_size(source.element_type), short_name(source.element_type)
        rows, per = source.columns.data, CHUNK // size
        chunks, threads = rows * source.rows.data // per, 32 * self.warps.value.data
        k = "first + (i / 2 % 2 * 8 + i / 4 * 2 + i % 2)" if self.interleaved else "first + i"
        place = tile_address(source, "source", k, "row")
        return [
            "#pragma unroll 1",
            f"  for (int n = warp * 32 + lane; n < {chunks}; n += {threads}) {{",
            f"    const int row = n % {rows}, first = n / {rows} * {per};",
            f"    Vector<{type_}, {per}> chunk;",
            "#pragma unroll",
            f"    for (int i = 0; i < {per}; ++i)",
            f"      chunk.values[i] = shared_load<{type_}>({place});",
            f"    shared_store({tile_address(target, 'target', 'row', 'first')}, chunk);",
            "  }",
        ]

    # --- meaning ----------------------------------------------------------------------------------

    def run(self, m: Actor) -> None:
        """The same accesses, as bytes of the instructions' lanes."""
        if self.shares is None:
            self._gather(m)
        else:
            self._blocks(m, self.shares)

    def _blocks(self, m: Actor, shares: Shares) -> None:
        """`ldmatrix.trans`: register `j` of lane `4r + q` gets column pair `r` of rows 2q, 2q + 1.

        `stmatrix`: row `r` of matrix `j` has the registers `j` of lanes `4r` to `4r + 3`.
        """
        first, end = shares.first_and_end(m.first_thread // 32 + np.arange(m.threads // 32))
        for g in range(shares.group_steps):
            for step in range(shares.block_steps):
                self._block(m, shares, g, first + step, first + step < end)

    def _block(self, m: Actor, shares: Shares, g: int, block: Array, by: Array) -> None:
        """A block of each warp: of its group `g`, the columns `block`; `by` says which have one."""
        source, target = self.tiles
        lane, warp = np.arange(32), m.first_thread // 32 + np.arange(len(block))
        k = (warp % shares.groups + g * shares.groups)[:, None] * BLOCK_K
        column = np.where(by, block, 0)[:, None] * BLOCK_M
        i, j = lane % 8, lane // 8
        row = i if self.interleaved else i // 2 * 4 + (j % 2 ^ i // 4) * 2 + i % 2 - j % 2 * 8
        rows = source.offsets(k + j * 8 + row, column + 0 * lane)
        places = target.offsets(column + i * 2 + (i // 4 ^ j % 2), k + j // 2 * 16)
        q, r = lane[:, None, None] % 4, lane[:, None, None] // 4
        matrix, byte = np.arange(4)[None, :, None], np.arange(4)[None, None, :]
        at = rows[..., 8 * matrix + 2 * q + byte // 2] + 2 * r + byte % 2
        to = places[..., 8 * matrix + r] + 4 * q + byte
        # [warp, lane, register, byte] -> [thread, register and byte]
        at, to = (x.reshape(m.threads, 16) for x in (at, to))
        everyone = np.repeat(by, 32)
        words = m.shared_load(at + m.integer(self.source), i8, everyone)
        stored = self._permuted(words.reshape(m.threads, 1, 4, 4)).reshape(m.threads, 16)
        m.shared_store(to + m.integer(self.target), stored, i8, everyone)

    def _permuted(self, words: Array) -> Array:
        """The byte permutes of `[thread, block, register, byte]`."""
        lane = np.arange(len(words)) % 32
        swapped = np.zeros(len(lane), bool) if self.interleaved else lane % 4 >= 2
        low = np.where(swapped[:, None], [4, 6, 0, 2], [0, 2, 4, 6])
        first, second = low + (lane >= 16)[:, None], low + (lane < 16)[:, None]
        found = np.empty_like(words)
        for j in (0, 2):
            both = np.concatenate([words[:, :, j], words[:, :, j + 1]], axis=-1)
            for to, chosen in ((j, first), (j + 1, second)):
                index = np.broadcast_to(chosen[:, None], (*both.shape[:-1], 4))
                found[:, :, to] = np.take_along_axis(both, index, axis=-1)
        return found

    def _gather(self, m: Actor) -> None:
        source, target = self.tiles
        size = byte_size(source.element_type)
        rows, per = source.columns.data, CHUNK // size
        chunks, threads = rows * source.rows.data // per, 32 * self.warps.value.data
        thread = m.first_thread + np.arange(m.threads)
        order = np.array(INTERLEAVED) if self.interleaved else np.arange(per)
        for start in range(0, chunks, threads):
            n = start + thread
            by = n < chunks
            row, first = (n % rows)[:, None], np.where(by, n // rows * per, 0)[:, None]
            at = source.offsets(first + order, row) + m.integer(self.source)
            values = m.shared_load(at, source.element_type, by)
            to = target.offsets(row + 0 * order, first + np.arange(per)) + m.integer(self.target)
            m.shared_store(to, values, source.element_type, by)


def _moved(address: str, byte: str, tile: TileType) -> str:
    """The address so many bytes further along its row, from one in the row's first 32 bytes."""
    inside = f"{byte} % {tile.panel_bytes}"
    inside = f"({address} ^ ({inside}))" if tile.swizzle.data else f"{address} + {inside}"
    return f"{inside} + {byte} / {tile.panel_bytes} * {tile.panel_stride}"


TRANSPOSE: Sequence[type[HopperOp]] = (TransposeTile,)
