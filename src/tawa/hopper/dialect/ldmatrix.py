"""Operands of warps' products that `ldmatrix` reads from shared memory (PTX ISA, ldmatrix).

The instruction moves up to four matrices of 8 rows of 16 bytes. Lane `8 j + r` names the address of
row `r` of matrix `j`; lane `l` gets word `l % 4` of row `l / 4` of each, which is what a register
of an operand of `mma.sync` holds if K is contiguous. If the other dimension is, `.trans` exchanges
rows and columns of 16-bit elements on the way: lane `l` gets element `l / 4` of rows `2 (l % 4)`
and `2 (l % 4) + 1`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tawa.base.layout import Layout
from tawa.base.numerics import Array
from tawa.base.types import byte_size, short_name
from tawa.base.warp_matrix import COLUMNS, ROWS, Product
from tawa.hopper.dialect.machine import Actor
from tawa.hopper.dialect.text import Writer, digits, tile_address
from tawa.hopper.dialect.types import TileType

MATRIX_ROWS, ROW_BYTES, MOST_MATRICES = 8, 16, 4


@dataclass(frozen=True)
class Fetch:
    """How one warp gets the registers of A (`side` 0) or B (1) for `steps` instructions along K.

    Its matrices are numbered as the registers are: those of an instruction's rows (or columns)
    follow each other, first those of its first half of K.
    """

    product: Product
    layout: Layout
    """The operand's (`Product.operand`)."""
    tile: TileType
    side: int
    turned: bool
    steps: int

    @staticmethod
    def fits(product: Product, tile: TileType, side: int, turned: bool) -> bool:
        """Whether a tile's rows are made of what the instruction moves.

        Elements are multiplied as they are, or are of 8 bits and widened (see `widened`).
        """
        if product.way == "scalar" or tile.panel_bytes % ROW_BYTES:
            return False
        k_contiguous = turned == bool(side)
        if tile.element_type != product.multiplied:
            return k_contiguous and product.inner % ROW_BYTES == 0
        return k_contiguous or byte_size(tile.element_type) == 2

    @property
    def widened(self) -> bool:
        """Whether words of four 8-bit floats become two words of 16-bit ones.

        A matrix then has 16 elements of K, a whole step. Lane `l` holds the elements `4 (l % 4)`
        to `4 (l % 4) + 3`: the first two stand for the first half of K, the others for the second.
        Both operands have this order of K, so their products add up to the same.
        """
        return self.tile.element_type != self.product.multiplied

    @property
    def words(self) -> int:
        """Registers of an operand that a register of a matrix becomes."""
        return 2 if self.widened else 1

    @property
    def transposed(self) -> bool:
        """Whether rows and columns are exchanged on the way: K is not contiguous."""
        return self.turned != bool(self.side)

    @property
    def rows(self) -> int:
        """Rows of A, or columns of B, of one instruction."""
        return COLUMNS if self.side else ROWS

    @property
    def blocks(self) -> int:
        """Times so many that a warp has."""
        dim = len(self.layout.shape) - (1 if self.side else 2)
        own = [m.extent for m in self.layout.reg if m.dim == dim]
        return int(np.prod(own, dtype=np.int64)) * MATRIX_ROWS // self.rows

    @property
    def batches(self) -> int:
        """Products of a batch that a warp has."""
        own = [m.extent for m in self.layout.reg if self.product.batched and m.dim == 0]
        return int(np.prod(own, dtype=np.int64))

    @property
    def registers(self) -> int:
        """Registers, each of a matrix, of one block for `steps` instructions."""
        return self.product.registers[self.side] * self.steps // self.words

    @property
    def half(self) -> int:
        """Elements of K of one matrix."""
        return ROW_BYTES // byte_size(self.tile.element_type)

    def place(self, matrix: int) -> tuple[int, int]:
        """Of a matrix, its first row of A (column of B), and its first element of K."""
        block, number = divmod(matrix, self.registers)
        down = ROWS // MATRIX_ROWS if self.side == 0 else 1
        outer = block * self.rows + number % down * MATRIX_ROWS
        return outer, number // down * self.half

    def together(self) -> list[tuple[int, int]]:
        """First matrix of each instruction, and how many it moves."""
        total = self.blocks * self.registers
        found: list[tuple[int, int]] = []
        first = 0
        while first < total:
            count = next(n for n in (MOST_MATRICES, 2, 1) if n <= total - first)
            found.append((first, count))
            first += count
        return found

    # --- text -----------------------------------------------------------------------------------

    def load(
        self,
        w: Writer,
        target: tuple[str, int],
        at: tuple[int, int],
        where: tuple[str, str, str],
        moved: str = "0",
    ) -> None:
        """One instruction: what products take of the matrices `at` (first, how many).

        `target` is an array and the index in it of the first matrix's block. `where` are the tile's
        address, a batch and an element of K, and `moved` is the row of A (or the column of B) from
        which its matrices count.
        """
        first, count = at
        name, start = target
        if not self.widened:
            self._line(w, _sum(name, str(start + first % self.registers)), at, where, moved)
            return
        narrow = w.fresh("narrow")
        w.line(f"u32 {narrow}[{count}];")
        self._line(w, narrow, at, where, moved)
        type_ = short_name(self.tile.element_type)
        w.functions.setdefault(f"widen_pair_{type_}", _widening(type_))
        down = 2 if self.side == 0 else 1
        for j in range(count):
            number = first % self.registers + j
            for half in range(2):
                word = start + number // down * 2 * down + half * down + number % down
                pair = f"{narrow}[{j}]" + (" >> 16" if half else "")
                w.line(f"{name}[{word}] = widen_pair_{type_}({pair});")

    def _line(
        self,
        w: Writer,
        target: str,
        at: tuple[int, int],
        where: tuple[str, str, str],
        moved: str,
    ) -> None:
        first, count = at
        base, batch, k = where
        name = f"ldmatrix_x{count}{'_trans' if self.transposed else ''}"
        w.functions.setdefault(name, _function(name, count, self.transposed))
        outer, element = self.place(first)
        lane_outer, lane_k = self._of_lane(count)
        along = _sum(k, str(element), lane_k)
        across = _sum(*digits("warp", self.layout.warp, self._outer), moved, str(outer), lane_outer)
        row, column = (along, across) if self.transposed else (across, along)
        row = _sum(row, "lane % 8")
        if self.product.batched:
            extent = self.product.inner if self.side else self.product.rows
            own = _sum(*digits("warp", self.layout.warp, 0), batch)
            row = f"({own}) * {extent} + {row}"
        w.line(f"{name}({target}, {tile_address(self.tile, base, row, column)});")

    @property
    def _outer(self) -> int:
        return len(self.layout.shape) - (1 if self.side else 2)

    def _of_lane(self, count: int) -> tuple[str, str]:
        """What the matrix of a lane's row adds to the first one's place, as C++ expressions."""
        places = [self.place(j) for j in range(count)]
        return _bits([p[0] for p in places]), _bits([p[1] for p in places])

    # --- meaning --------------------------------------------------------------------------------

    def read(self, m: Actor, base: int) -> Array:
        """The elements that each thread gets of its whole operand, in the layout's order."""
        product = self.product
        halves = product.inner // (4 * product.packed)
        shape = (self.batches, self.blocks * self.rows // MATRIX_ROWS, halves, product.packed)
        at = np.zeros((m.threads, *shape), np.int64)
        for batch in range(self.batches):
            for k in range(0, product.inner, product.step * self.steps):
                for first, count in self.together():
                    rows = base + self._addresses(m, (batch, k), first, count)
                    assert not (rows % ROW_BYTES).any(), "rows of matrices are aligned"
                    for j in range(count):
                        outer, element = self.place(first + j)
                        half = (k + element) // (4 * product.packed)
                        received = self._received(rows, j).reshape(m.threads, self.words, -1)
                        at[:, batch, outer // MATRIX_ROWS, half : half + self.words] = received
        # Of the layout's digits, halves of K come before rows, and batches last.
        every = at.reshape(m.threads, self.layout.registers)
        return m.shared_load(every, self.tile.element_type)

    def _addresses(self, m: Actor, at: tuple[int, int], first: int, count: int) -> Array:
        """The address of a row that each lane names, from the tile's on."""
        thread = m.first_thread + np.arange(m.threads)
        lane, (batch, k) = thread % 32, at
        places = np.array([self.place(first + j) for j in range(count)])
        own = self.layout.offsets(self.layout.warp)[thread // 32]
        named = places[lane // MATRIX_ROWS % count]
        across, along = own[:, self._outer] + named[:, 0], k + named[:, 1]
        r = lane % MATRIX_ROWS
        row, column = (along + r, across) if self.transposed else (across + r, along)
        if self.product.batched:
            extent = self.product.inner if self.side else self.product.rows
            row = row + (own[:, 0] + batch) * extent
        return self.tile.offsets(row, column)

    def _received(self, rows: Array, matrix: int) -> Array:
        """Where the elements of the register come from that each lane gets of a matrix."""
        thread = np.arange(len(rows))
        warp, lane, size = thread // 32 * 32, thread % 32, byte_size(self.tile.element_type)
        e = np.arange(4 // size)
        if self.transposed:
            named = warp[:, None] + 8 * matrix + 2 * (lane % 4)[:, None] + e
            return rows[named] + size * (lane // 4)[:, None]
        return rows[warp + 8 * matrix + lane // 4][:, None] + (4 * (lane % 4))[:, None] + size * e


def _bits(values: list[int]) -> str:
    """A number for each matrix of an instruction, as a C++ expression of the lane that names it."""
    parts = [f"lane / {8 << b} % 2 * {values[1 << b]}" for b in range(2) if 1 << b < len(values)]
    for j, value in enumerate(values):
        assert value == sum(values[1 << b] for b in range(2) if j >> b & 1), "bits add up"
    return _sum(*(p for p in parts if not p.endswith("* 0")))


def _sum(*terms: str) -> str:
    """Terms that are not zero, as a C++ expression."""
    return " + ".join(t for t in terms if t != "0") or "0"


def _widening(type_: str) -> str:
    """The C++ function that makes two 16-bit floats of two of 8 bits, the low half of a word."""
    return (
        f"__device__ __forceinline__ u32 widen_pair_{type_}(u32 pair) {{\n"
        f'  u32 y;\n  asm("cvt.rn.f16x2.{type_}x2 %0, %1;" : "=r"(y) : "h"(u16(pair)));\n'
        f"  return y;\n}}\n"
    )


def _function(name: str, count: int, transposed: bool) -> str:
    """The C++ function of one instruction."""
    places = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"=r"(x[{i}])' for i in range(count))
    trans = ".trans" if transposed else ""
    return (
        f"__device__ __forceinline__ void {name}(u32* x, u32 address) {{\n"
        f'  asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 '
        f'{{{places}}}, [%{count}];"\n'
        f'               : {outputs} : "r"(address) : "memory");\n}}\n'
    )
