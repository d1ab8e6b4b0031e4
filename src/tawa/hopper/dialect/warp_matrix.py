"""Matrix products that each warp does by itself, done when the op is."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import reduce
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.utils.exceptions import VerifyException

from tawa.base.layout import Layout
from tawa.base.numerics import Array, value_dtype
from tawa.base.types import f16, f32, f64, i8, i32, short_name
from tawa.base.warp_matrix import COLUMNS, ROWS, Product
from tawa.hopper.dialect.core import HopperOp, Number, number
from tawa.hopper.dialect.ldmatrix import MOST_MATRICES, Fetch
from tawa.hopper.dialect.machine import Actor
from tawa.hopper.dialect.register_words import held_word
from tawa.hopper.dialect.scalar_products import ScalarOperand, scalar_operands
from tawa.hopper.dialect.text import Writer, c_type, thread_coordinate, tile_address
from tawa.hopper.dialect.types import FragType, TileType
from tawa.ir.effects import SHARED, Effects, reads
from tawa.ir.scalars.table import FUNCTIONS

_LOW_TF32_BITS = np.uint32(0xFFFFE000)
LATENCY_BLOCKS = 4
"""Blocks of a warp whose products hide the latency of each other (an instruction waits about four
times as long for the one before as it takes)."""
LEAST_STEPS = 4
"""Products that a sum of its own takes at least."""
MOST_UNROLLED = 128
"""Matrix instructions of a loop's body along K, at most: the whole loop of products of few rows
(counted: half of it takes 15 registers and a quarter of the code more, twice changes none)."""
SCALARS_UNROLLED = 32
"""Multiplications, one by one, of a loop's body along K."""
_WIDER: dict[Attribute, str] = {f32: "extf", f64: "extf", f16: "extf", i32: "extsi"}
"""Scalar functions that convert to a type, without loss."""


_SUMS: dict[Attribute, tuple[str, str]] = {i32: ("s32", "r"), f32: ("f32", "f"), f16: ("f16", "r")}
"""Types of sums in PTX, and the registers that hold them."""


def _instruction(product: Product, total: Attribute) -> tuple[str, str]:
    """The name and definition of the C++ function of one matrix instruction with such sums."""
    element = product.multiplied
    operand = "tf32" if element == f32 else "s8" if element == i8 else short_name(element)
    result, letter = _SUMS[total]
    counts, sums = product.registers, 2 if total == f16 else 4
    name = f"mma_m16n8k{product.step}_{operand}{'_f16' if total == f16 else ''}"
    places, first = ["{" + ", ".join(f"%{i}" for i in range(sums)) + "}"], sums
    for count in counts:
        places.append("{" + ", ".join(f"%{first + i}" for i in range(count)) + "}")
        first += count
    held = "((u32*)c)" if total == f16 else "c"
    c = ", ".join(f'"+{letter}"({held}[{i}])' for i in range(sums))
    sources = ", ".join(
        f'"r"({x}[{i}])' for x, n in zip("ab", counts, strict=True) for i in range(n)
    )
    text = f"mma.sync.aligned.m16n8k{product.step}.row.col.{result}.{operand}.{operand}.{result}"
    return name, (
        f"__device__ __forceinline__ void {name}"
        f"({short_name(total)}* c, const u32* a, const u32* b) {{\n"
        f'  asm volatile("{text} "\n'
        f'               "{", ".join(places)}, {places[0]};"\n'
        f"               : {c}\n"
        f"               : {sources});\n}}\n"
    )


@irdl_op_definition
class WarpProduct(HopperOp):
    """`accumulator + a @ b`, each warp its own part of the result.

    An operand is a tile in shared memory or a fragment, whose threads hold what they multiply, with
    `run` elements of K in a row. With `turn_a` (`turn_b`), rank 2, the tile holds the operand
    transposed. Where the layout has copies, all threads that hold one compute it. `narrow`: few
    registers beside the accumulator.
    """

    name: ClassVar[str] = "hopper.warp_product"
    accumulator: SSAValue = operand_def(FragType)
    a: SSAValue = operand_def(TileType | FragType)
    b: SSAValue = operand_def(TileType | FragType)
    inner: IntegerAttr = prop_def(Number)
    precision: StringAttr = prop_def(StringAttr)
    run_along: IntegerAttr | None = opt_prop_def(Number)
    turn_a: UnitAttr | None = opt_prop_def(UnitAttr)
    turn_b: UnitAttr | None = opt_prop_def(UnitAttr)
    narrow: UnitAttr | None = opt_prop_def(UnitAttr)
    result: SSAValue = result_def(FragType)
    traits = traits_def(
        Effects(
            reads(SHARED, "a").when(lambda op: isinstance(op.a.type, TileType)),
            reads(SHARED, "b").when(lambda op: isinstance(op.b.type, TileType)),
        )
    )

    def __init__(
        self,
        accumulator: SSAValue,
        operands: tuple[SSAValue, SSAValue],
        turned: tuple[bool, bool],
        inner: int,
        precision: str,
        run: int = 0,
    ):
        flags = (UnitAttr() if t else None for t in turned)
        super().__init__(
            operands=[accumulator, *operands],
            properties={
                "inner": number(inner),
                "precision": StringAttr(precision),
                "run_along": number(run) if run else None,
                **dict(zip(("turn_a", "turn_b"), flags, strict=True)),
            },
            result_types=[accumulator.type],
        )

    @property
    def product(self) -> Product:
        """What is multiplied."""
        layout = self.layout
        *batch, rows, columns = layout.shape
        inner = self.inner.value.data
        a = (*batch, rows, inner)
        return Product.of(a, (*batch, inner, columns), element_in(self.a), self.precision.data)

    @property
    def layout(self) -> Layout:
        """The accumulator's layout."""
        assert isinstance(self.accumulator.type, FragType)
        return self.accumulator.type.layout

    @property
    def _turned(self) -> tuple[bool, bool]:
        return self.turn_a is not None, self.turn_b is not None

    def verify_(self) -> None:
        """The accumulator has the product's own layout."""
        if self.layout != self.product.accumulator(self.layout.warps):
            raise VerifyException("the accumulator of a warp product has the product's layout")
        for side, kind in enumerate((self.a.type, self.b.type)):
            if isinstance(kind, FragType) and kind.layout != self._layout_of(side):
                raise VerifyException("an operand in registers has the product's layout")

    # --- text -----------------------------------------------------------------------------------

    def cuda(self, w: Writer) -> None:
        """A loop over K, whose body loads operands and multiplies them."""
        frag = self.result.type
        name = w.declare(self.result)
        w.assign(name, w.name(self.accumulator), frag)
        product, k = self.product, w.fresh("along_k")
        if product.way == "scalar":
            self._scalars(w, name, k)
            return
        assert isinstance(frag, FragType)
        sums = [name, *self._partial_sums(w, frag)]
        iterations = max(1, len(sums) // self.steps)
        step = product.step * self.steps
        whole = product.inner // (step * iterations)
        unrolled = min(whole, max(1, MOST_UNROLLED // (self.instructions * iterations)))
        unrolled = 1 if self.narrow else unrolled if any(self.fetches) else 2
        w.line("#pragma unroll" if self._holds else f"#pragma unroll {unrolled}")
        with w.block(f"for (int {k} = 0; {k} < {product.inner}; {k} += {step * iterations})"):
            for iteration in range(iterations):
                first = iteration * self.steps % len(sums)
                with w.block("") if iterations > 1 else nullcontext():
                    self._matrices(
                        w,
                        sums[first : first + self.steps],
                        f"{k} + {iteration * step}" if iteration else k,
                    )
        if len(sums) > 1:
            total = reduce(self._plus, (f"{s}[i]" for s in sums))
            w.line(f"{w.registers(frag.layout)} {name}[i] = {total};")

    def _partial_sums(self, w: Writer, frag: FragType) -> list[str]:
        """Further accumulators where a warp has few blocks: a product waits for the one before."""
        names = [w.fresh("partial_sum") for _ in range(self.chains - 1)]
        for name in names:
            w.line(f"{c_type(frag)} {name}[{frag.layout.registers}] = {{}};")
        return names

    def _plus(self, x: str, y: str) -> str:
        if self._element_type != f16:
            return f"{x} + {y}"
        return FUNCTIONS["addf"].cuda([f16, f16], f16).format(x, y)

    @property
    def chains(self) -> int:
        """Sums that a warp adds up beside each other, so that enough instructions are under way."""
        blocks, product = int(np.prod(self._sizes)), self.product
        quick = self._holds or any(self.fetches)
        found = LATENCY_BLOCKS // blocks if quick and not self.narrow else 1
        while found > 1:
            step = product.step * max(self.steps, found)
            if found & (found - 1) == 0 and product.inner % step == 0:
                if product.inner >= LEAST_STEPS * product.step * found:
                    return found
            found -= 1
        return 1

    @property
    def _sizes(self) -> tuple[int, int, int]:
        """Batches, blocks of rows and blocks of columns of a warp."""
        p = self.product
        along, down, across = p.shares(self.layout.warps)
        return p.batches // along, p.rows // down // ROWS, p.columns // across // COLUMNS

    @property
    def _holds(self) -> bool:
        """Whether an operand is in registers, whose numbers then have to be constants."""
        return any(isinstance(operand.type, FragType) for operand in (self.a, self.b))

    def _layout_of(self, side: int) -> Layout:
        """The layout of an operand, A or B, as threads take it."""
        held = isinstance((self.a, self.b)[side].type, FragType)
        run = self.run_along.value.data if self.run_along and held else 0
        return self.product.operand(self.layout.warps, side, run)

    @property
    def steps(self) -> int:
        """Instructions along K for which operands are fetched together: one or two.

        Two where one `ldmatrix` then moves more of a single column, or of elements of 8 bits.
        """
        product, b = self.product, element_in(self.b)
        few = self._sizes[2] % 2 == 1 or b != product.multiplied
        return 2 if few and self._fits(1) and product.inner % (2 * product.step) == 0 else 1

    @property
    def instructions(self) -> int:
        """A warp's matrix instructions of an iteration along K (a third, of the way `three`)."""
        return int(np.prod(self._sizes)) * self.steps

    def _fits(self, side: int) -> bool:
        tile = (self.a, self.b)[side].type
        if not isinstance(tile, TileType):
            return False
        fits = Fetch.fits(self.product, tile, side, self._turned[side])
        # Both operands have the order of K that widening makes, or none.
        return fits and (tile.element_type == self.product.multiplied or self._both_fit)

    @property
    def _both_fit(self) -> bool:
        tiles = [t.type for t in (self.a, self.b) if isinstance(t.type, TileType)]
        return all(
            Fetch.fits(self.product, tile, side, self._turned[side])
            for side, tile in enumerate(tiles)
        )

    @property
    def fetches(self) -> tuple[Fetch | None, Fetch | None]:
        """How each operand comes by `ldmatrix`; None if element by element."""
        return self._fetch(0), self._fetch(1)

    def _fetch(self, side: int) -> Fetch | None:
        tile = (self.a, self.b)[side].type
        if not isinstance(tile, TileType) or not self._fits(side):
            return None
        layout = self.product.operand(self.layout.warps, side)
        return Fetch(self.product, layout, tile, side, self._turned[side], self.steps)

    def _start(self, side: int, dim: int) -> str:
        """What a thread's place adds to a coordinate of an operand (counted from the last)."""
        layout = self.product.operand(self.layout.warps, side)
        return thread_coordinate(layout, len(layout.shape) + dim)

    def _element(self, w: Writer, side: int, at: tuple[str, str, str]) -> str:
        """One element of an operand, batch, row and column given, as what is multiplied."""
        stored = element_in((self.a, self.b)[side])
        return self._converted(
            side, f"shared_load<{short_name(stored)}>({self._address(w, side, at)})"
        )

    def _converted(self, side: int, text: str) -> str:
        """An element of an operand as what is multiplied."""
        stored, product = element_in((self.a, self.b)[side]), self.product
        wanted = self._element_type if product.way == "scalar" else product.multiplied
        return (
            text
            if stored == wanted
            else FUNCTIONS[_WIDER[wanted]].cuda([stored], wanted).format(text)
        )

    @property
    def _element_type(self) -> Attribute:
        assert isinstance(self.accumulator.type, FragType)
        return self.accumulator.type.element_type

    def _address(self, w: Writer, side: int, at: tuple[str, str, str]) -> str:
        tile = (self.a, self.b)[side]
        assert isinstance(tile.type, TileType)
        batch, row, column = at
        if self._turned[side]:
            row, column = column, row
        elif self.product.batched:
            row = f"({batch}) * {self._rows(side)} + {row}"
        return tile_address(tile.type, w.name(tile), row, column)

    def _rows(self, side: int) -> int:
        return self.product.inner if side else self.product.rows

    def _word(self, w: Writer, side: int, at: tuple[str, str, str]) -> str:
        """A register of an operand: elements that follow each other along K."""
        tile = (self.a, self.b)[side]
        product = self.product
        contiguous = self._turned[side] == bool(side)
        if contiguous and element_in(tile) == product.multiplied and product.packed > 1:
            return f"shared_load<u32>({self._address(w, side, at)})"
        parts: list[str] = []
        for i in range(product.packed):
            batch, row, column = at
            row, column = (f"{row} + {i}", column) if side else (row, f"{column} + {i}")
            parts.append(self._element(w, side, (batch, row, column)))
        if product.packed == 1:
            return f"bit_cast<u32>({parts[0]})"
        if product.packed == 2:
            return f"pair({parts[0]}, {parts[1]})"
        bytes_ = (f"u32(u8({part})) << {8 * i}" for i, part in enumerate(parts))
        return " | ".join(bytes_)

    def _matrices(self, w: Writer, sums: Sequence[str], k: str) -> None:
        """Registers of A for all rows, then of some columns those of B, and the products.

        `sums` are the accumulators of each step along K in turn.
        """
        product = self.product
        function, text = _instruction(product, self._element_type)
        w.functions.setdefault(function, text)
        batches, rows, _ = self._sizes
        batch, a, b = (w.fresh(n) for n in ("batch_part", "a_words", "b_words"))
        with _unrolled(w, batch, batches):
            w.line(f"u32 {a}[{rows}][{product.registers[0] * self.steps}];")
            self._load_a(w, a, batch, k)
            for columns in self._column_parts(w):
                with columns as (first, count):
                    self._load_b(w, b, (batch, first, k), count)
                    for column, row, step in np.ndindex(count, rows, self.steps):
                        place = (
                            f"({batch} * {rows} + {row}) * {self._sizes[2]} + {first} + {column}"
                        )
                        at = f"{sums[step % len(sums)]} + ({place}) * 4"
                        left = f"{a}[{row}] + {step * product.registers[0]}"
                        right = f"{b} + {(column * self.steps + step) * product.registers[1]}"
                        self._multiply(w, function, at, (left, right))

    def _column_parts(self, w: Writer) -> Sequence[AbstractContextManager[tuple[str, int]]]:
        """Loops over a warp's columns, in blocks whose B comes by one instruction; what is left."""
        columns, fetch = self._sizes[2], self.fetches[1]
        most = min(columns, max(1, MOST_MATRICES // fetch.registers)) if fetch else 1
        per = 1 << (most.bit_length() - 1)
        whole, rest = divmod(columns, per)
        found = [_parts(w, whole, per)]
        while rest:
            count = 1 << (rest.bit_length() - 1)
            found.append(_parts(w, 1, count, columns - rest))
            rest -= count
        return found

    def _load_a(self, w: Writer, a: str, batch: str, k: str) -> None:
        fetch, product = self.fetches[0], self.product
        count = product.registers[0] * self.steps
        if fetch is not None:
            for first, many in fetch.together():
                target = f"(&{a}[0][0])", first // fetch.registers * count
                fetch.load(w, target, (first, many), (w.name(self.a), batch, k))
            return
        row = w.fresh("row_part")
        if isinstance(self.a.type, FragType):
            with _unrolled(w, row, self._sizes[1]):
                for i in range(count):
                    step, register = divmod(i, product.registers[0])
                    block = f"{register % 2} + 2 * ({row} + {self._sizes[1]} * {batch})"
                    word = held_word(product, w.name(self.a), block, k, step, register // 2)
                    w.line(f"{a}[{row}][{i}] = {word};")
            return
        at_batch = f"{self._start(0, -3)} + {batch}" if product.batched else "0"
        with _unrolled(w, row, self._sizes[1]):
            for i in range(count):
                at_row = f"{self._start(0, -2)} + {row} * {ROWS} + {i % 2 * 8}"
                at_k = f"{k} + {self._start(0, -1)} + {i // 2 * 4 * product.packed}"
                self._load(w, f"{a}[{row}][{i}]", 0, (at_batch, at_row, at_k))

    def _load_b(self, w: Writer, b: str, where: tuple[str, str, str], columns: int) -> None:
        """The registers of so many blocks of columns from a first one on, at a batch and k."""
        fetch, product = self.fetches[1], self.product
        batch, first, k = where
        each = product.registers[1] * self.steps
        w.line(f"u32 {b}[{columns * each}];")
        if fetch is not None:
            place = w.name(self.b), batch, k
            matrices = columns * fetch.registers
            moved = "0" if first == "0" else f"({first}) * {COLUMNS}"
            fetch.load(w, (b, 0), (0, matrices), place, moved)
            return
        if isinstance(self.b.type, FragType):
            for i in range(columns * each):
                step, half = divmod(i % each, product.registers[1])
                block = f"{first} + {i // each} + {self._sizes[2]} * {batch}"
                w.line(f"{b}[{i}] = {held_word(product, w.name(self.b), block, k, step, half)};")
            return
        at_batch = f"{self._start(1, -3)} + {batch}" if product.batched else "0"
        for i in range(columns * each):
            at_k = f"{k} + {self._start(1, -2)} + {i % each * 4 * product.packed}"
            at_column = f"{self._start(1, -1)} + ({first} + {i // each}) * {COLUMNS}"
            self._load(w, f"{b}[{i}]", 1, (at_batch, at_k, at_column))

    def _load(self, w: Writer, target: str, side: int, at: tuple[str, str, str]) -> None:
        w.line(f"{target} = {self._word(w, side, at)};")

    def _multiply(self, w: Writer, function: str, c: str, operands: tuple[str, str]) -> None:
        """One instruction; or three, of the upper parts of f32 numbers and what is left of them."""
        product = self.product
        if product.element != f32:
            w.line(f"{function}({c}, {operands[0]}, {operands[1]});")
            return
        with w.block(""):
            for x, part, count in zip(operands, "ab", product.registers, strict=True):
                low = f", {part}_low[{count}]" if product.way == "three" else ""
                w.line(f"u32 {part}_high[{count}]{low};")
                w.line("#pragma unroll")
                with w.block(f"for (int i = 0; i < {count}; ++i)"):
                    w.line(f"{part}_high[i] = ({x})[i] & 0xffffe000u;")
                    if low:
                        rest = f"bit_cast<f32>(({x})[i]) - bit_cast<f32>({part}_high[i])"
                        w.line(f"{part}_low[i] = bit_cast<u32>({rest});")
            pairs = (("low", "high"), ("high", "low"), ("high", "high"))
            for left, right in pairs if product.way == "three" else pairs[2:]:
                w.line(f"{function}({c}, a_{left}, b_{right});")

    @property
    def _scalar_operands(self) -> tuple[list[ScalarOperand], int]:
        assert isinstance(self.a.type, TileType) and isinstance(self.b.type, TileType)
        tiles = self.a.type, self.b.type
        return scalar_operands(self.layout, self.product.inner, tiles, self._turned)

    @property
    def scalar_accesses(self) -> int:
        """A thread's loads of what it multiplies one by one."""
        operands, step = self._scalar_operands
        return sum(len(o.accesses(step)) for o in operands) * (self.product.inner // step)

    def _scalars(self, w: Writer, name: str, k: str) -> None:
        """Every element of A and B that this thread needs of a few k, then their products."""
        operands, step = self._scalar_operands
        inner = self.product.inner
        places = [tuple(p) for p in self.layout.offsets(self.layout.reg).tolist()]
        names = w.fresh("a_part"), w.fresh("b_part")
        w.line(f"#pragma unroll {max(1, SCALARS_UNROLLED // (len(places) * step))}")
        with w.block(f"for (int {k} = 0; {k} < {inner}; {k} += {step})"):
            for side, operand in enumerate(operands):
                self._fetch_scalars(w, side, names[side], operand, (k, step))
            for part in range(step):
                for r, place in enumerate(places):
                    a, b = (
                        operand.needed.index((*place[:-2], place[-2 + side])) * step + part
                        for side, operand in enumerate(operands)
                    )
                    w.line(f"{name}[{r}] += {names[0]}[{a}] * {names[1]}[{b}];")

    def _fetch_scalars(
        self, w: Writer, side: int, array: str, operand: ScalarOperand, along: tuple[str, int]
    ) -> None:
        """What a thread needs of an operand for some steps along K."""
        k, step = along
        stored, rank = element_in((self.a, self.b)[side]), len(self.layout.shape)
        w.line(f"{c_type(self.accumulator.type)} {array}[{len(operand.needed) * step}];")
        for key, first, places in operand.accesses(step):
            batch = f"{self._start(side, -3)} + {key[0]}" if rank == 3 else "0"
            outer = f"{self._start(side, -1 if side else -2)} + {key[-1]}"
            inner = f"{k} + {first}" if first else k
            at = (batch, inner, outer) if side else (batch, outer, inner)
            with w.block(""):
                type_ = f"Vector<{short_name(stored)}, {operand.width}>"
                w.line(f"const auto part = shared_load<{type_}>({self._address(w, side, at)});")
                for i, place in enumerate(places):
                    text = self._converted(side, f"part.values[{i}]")
                    w.line(f"{array}[{place}] = {text};")

    # --- meaning --------------------------------------------------------------------------------

    def run(self, m: Actor) -> None:
        """Each warp reads its operands and adds its part of the product."""
        layout = self.layout
        result = m.fragment(self.accumulator).copy()
        where = m.coordinates(layout)
        sides = [self._read(m, side) for side in (0, 1)]
        for warp in range(m.threads // 32):
            part = slice(32 * warp, 32 * warp + 32)
            at = where[part]
            rows, columns = (np.unique(at[..., d]) for d in (-2, -1))
            batches = np.unique(at[..., 0]) if self.product.batched else np.zeros(1, np.int64)
            a, b = (self._dense(values[part], at_[part], side)
                    for side, (values, at_) in enumerate(sides))  # fmt: skip
            product = self._times(a[batches][:, rows], b[batches][:, :, columns])
            first = np.searchsorted(batches, at[..., 0]) if self.product.batched else 0
            place = np.searchsorted(rows, at[..., -2]), np.searchsorted(columns, at[..., -1])
            total = result[part].astype(product.dtype) + product[(first, *place)]
            result[part] = total.astype(result.dtype)
        m.new_fragment(self.result, result)

    def _read(self, m: Actor, side: int) -> tuple[Array, Array]:
        """The elements that each thread reads of an operand, and where they are in it."""
        tile = (self.a, self.b)[side]
        where = m.coordinates(self._layout_of(side))
        if not isinstance(tile.type, TileType):
            return m.fragment(tile), where
        fetch = self.fetches[side]
        if fetch is not None:
            return fetch.read(m, m.integer(tile)), where
        row, column = where[..., -2], where[..., -1]
        if self._turned[side]:
            row, column = column, row
        elif self.product.batched:
            row = where[..., 0] * self._rows(side) + row
        at = m.integer(tile) + tile.type.offsets(row, column)
        return m.shared_load(at, tile.type.element_type), where

    def _dense(self, values: Array, where: Array, side: int) -> Array:
        """What one warp has read of an operand, `[batches, rows, columns]`."""
        p = self.product
        shape = (p.batches, p.inner, p.columns) if side else (p.batches, p.rows, p.inner)
        dense = np.zeros(shape, values.dtype)
        batch = where[..., 0] if p.batched else 0
        dense[batch, where[..., -2], where[..., -1]] = values
        return dense

    def _times(self, a: Array, b: Array) -> Array:
        """The product, in the accumulator's type or f32; i8 exactly."""
        element = self._element_type
        if element == i32:
            return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
        if self.product.element == f32 and self.product.precision == "tf32":
            a, b = (np.ascontiguousarray(x).view(np.uint32) & _LOW_TF32_BITS for x in (a, b))
            a, b = a.view(np.float32), b.view(np.float32)
        dtype = value_dtype(f32 if element == f16 else element)
        with np.errstate(all="ignore"):
            return np.matmul(a.astype(dtype), b.astype(dtype))


@contextmanager
def _unrolled(w: Writer, index: str, count: int) -> Generator[None]:
    """A loop over parts, unrolled."""
    w.line("#pragma unroll")
    with w.block(f"for (int {index} = 0; {index} < {count}; ++{index})"):
        yield


@contextmanager
def _parts(w: Writer, count: int, per: int, first: int = 0) -> Generator[tuple[str, int]]:
    """A loop over `count` times `per` columns from a first one on: where each begins, and `per`."""
    if count == 1:
        with w.block(""):
            yield str(first), per
        return
    index = w.fresh("column_part")
    with _unrolled(w, index, count):
        yield f"{index} * {per}", per


def element_in(operand: SSAValue) -> Attribute:
    """The element type of an operand: a tile in shared memory, or a fragment."""
    assert isinstance(operand.type, TileType | FragType)
    return operand.type.element_type


WARP_MATRIX: Sequence[type[HopperOp]] = (WarpProduct,)
