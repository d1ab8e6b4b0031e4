"""How a matrix product is spread over warps that each compute a part of it by themselves.

Layouts of operands and accumulators of `mma.sync` (PTX ISA 9.0, matrix fragments), and of products
of scalars for what that instruction does not do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from xdsl.ir import Attribute

from tawa.base.layout import REPLICA, Layout, Mode, Modes, blocked
from tawa.base.types import bf16, byte_size, e4m3, e5m2, f16, f32, i8
from tawa.machine.chips import SM_90A

ROWS, COLUMNS = SM_90A.warp_mma
"""Rows and columns of one instruction."""

RUNS = 16, 8, 4
"""Elements in a row, the most first: of bytes 16 are a thread's widest access, of halves two."""

Way = Literal["matrix", "three", "scalar"]
"""By matrix instructions, by three each (of f32 cut in two parts), or by scalar ones."""


@dataclass(frozen=True)
class Product:
    """Batches, M, N, K of a product, the type of its operands, and their precision."""

    batches: int
    rows: int
    columns: int
    inner: int
    element: Attribute
    precision: str
    batched: bool

    @staticmethod
    def of(
        a: tuple[int, ...], b: tuple[int, ...], element: Attribute, precision: str | None
    ) -> Product:
        """The product of operands of these shapes."""
        batches = a[0] if len(a) == 3 else 1
        return Product(batches, a[-2], b[-1], a[-1], element, precision or "tf32", len(a) == 3)

    @property
    def multiplied(self) -> Attribute:
        """The type that is multiplied; 8-bit floats are f16 without loss."""
        return f16 if self.element in (e4m3, e5m2) else self.element

    @property
    def way(self) -> Way:
        """How it is computed."""
        fits = self.multiplied in (f16, bf16, f32, i8) and self.rows % ROWS == 0
        fits = fits and self.columns % COLUMNS == 0 and self.inner % (4 * self.packed) == 0
        if not fits or (self.element == f32 and self.precision == "ieee"):
            return "scalar"
        return "three" if self.element == f32 and self.precision == "tf32x3" else "matrix"

    @property
    def packed(self) -> int:
        """Elements of an operand that make a 32-bit register."""
        return max(1, 4 // byte_size(self.multiplied))

    @property
    def registers(self) -> tuple[int, int]:
        """32-bit registers of A and of B that one instruction takes."""
        return (4, 2) if self.inner % (8 * self.packed) == 0 else (2, 1)

    @property
    def step(self) -> int:
        """Elements of K of one instruction."""
        return 4 * self.packed * self.registers[1]

    @property
    def run(self) -> int:
        """Elements of K in a row that a thread holds where both operands are in registers.

        Any order of K will do if both have it; a run's elements are neighbours in memory.
        0 where K is too short for any but the instruction's own order.
        """
        step = self.packed * self.registers[1]
        found = (r for r in RUNS if r % step == 0 and self.inner % (4 * r) == 0)
        return next(found, 0) if self.way == "matrix" else 0

    def shares(self, warps: int) -> tuple[int, int, int]:
        """Warps along batches, rows and columns, so that operands are read least often."""
        along = math.gcd(warps, self.batches)
        left = warps // along
        found = (1, 1)
        best = self.rows + self.columns
        for down in range(1, left + 1):
            across = math.gcd(left // down, self.columns // COLUMNS) if left % down == 0 else 0
            if across and self.rows // ROWS % down == 0:
                size = self.rows // down + self.columns // across
                if (down * across, -size) > (found[0] * found[1], -best):
                    found, best = (down, across), size
        return along, found[0], found[1]

    def accumulator(self, warps: int) -> Layout:
        """The layout of the result."""
        shape = (self.rows, self.columns)
        full = (self.batches, *shape) if self.batched else shape
        if self.way == "scalar":
            return blocked(full, warps, 4 if self.columns % 4 == 0 else 1)
        m, n = (1, 2) if self.batched else (0, 1)
        along, down, across = self.shares(warps)
        own = self.rows // down, self.columns // across
        reg = [Mode(2, n, 1), Mode(2, m, 8), Mode(own[1] // COLUMNS, n, COLUMNS),
               Mode(own[0] // ROWS, m, ROWS), Mode(self.batches // along, 0, 1)]  # fmt: skip
        warp = [Mode(down, m, own[0]), Mode(across, n, own[1]),
                Mode(along, 0, self.batches // along),
                Mode(warps // (along * down * across), REPLICA, 0)]  # fmt: skip
        lane = (Mode(4, n, 2), Mode(8, m, 1))
        return Layout(full, _long(reg), lane, _long(warp))

    def operand(self, warps: int, side: int, run: int = 0) -> Layout:
        """What each thread reads of A (`side` 0) or B (1): its elements of every instruction.

        In the order of the instruction along K, or with so many of a thread in a row (`run`).
        """
        result = self.accumulator(warps)
        kept, dropped = ((-2, -1), (-1, -2))[side]
        rank = len(result.shape)
        outer, gone = rank + kept, rank + dropped
        shape = list(result.shape)
        shape[gone] = self.inner
        copies = _replaced(result.warp, gone)
        if self.way == "scalar":
            reg = (*_without(result.reg, gone), Mode(self.inner, gone, 1))
            return Layout(tuple(shape), _long(reg), _replaced(result.lane, gone), copies)
        size, half = self.packed, 4 * self.packed
        own = [
            Mode(m.extent, m.dim, m.stride) for m in result.reg if m.dim == outer and m.stride != 1
        ]
        own += [m for m in result.reg if rank == 3 and m.dim == 0]
        along = [Mode(size, gone, 1), Mode(self.registers[1], gone, half),
                 Mode(self.inner // self.step, gone, self.step)]  # fmt: skip
        if run:
            along = [Mode(run, gone, 1), Mode(self.inner // (4 * run), gone, 4 * run)]
        reg = [*along, *own]
        lane = (Mode(4, gone, run or size), Mode(8, outer, 1))
        return Layout(tuple(shape), _long(reg), lane, copies)


def _long(modes: list[Mode] | Modes) -> Modes:
    return tuple(m for m in modes if m.extent > 1)


def _without(modes: Modes, dim: int) -> Modes:
    return tuple(m for m in modes if m.dim != dim)


def _replaced(modes: Modes, dim: int) -> Modes:
    """The modes with copies in the place of those along a dimension."""
    return tuple(Mode(m.extent, REPLICA, 0) if m.dim == dim else m for m in modes)
