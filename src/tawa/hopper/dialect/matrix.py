"""Asynchronous warp-group matrix instructions (PTX ISA: wgmma)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i1, i32
from xdsl.ir import Attribute, SSAValue
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
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tawa.base.layout import operand as operand_layout
from tawa.base.layout import operand_words
from tawa.base.numerics import Array, encode, round_to
from tawa.base.types import byte_size, short_name
from tawa.hopper.dialect.core import HopperOp, Number, number
from tawa.hopper.dialect.machine import Actor, Steps
from tawa.hopper.dialect.text import Writer
from tawa.hopper.dialect.types import FragType, MatrixDescType, TileType
from tawa.ir.effects import OPERANDS, PRODUCTS, REGISTERS, SHARED, Effects, reads, writes

SWIZZLE_CODES = {0: 0, 128: 1, 64: 2, 32: 3}
"""Layout field of the matrix descriptor for each swizzle width in bytes."""

_PTX_TYPES = {
    **{name: name for name in ("f32", "f16", "bf16", "e4m3", "e5m2")},
    "i8": "s8",
    "i32": "s32",
}
_OPERAND_TYPES = {**_PTX_TYPES, "f32": "tf32"}
"""32-bit floating-point operands are read as tf32: the low 13 bits of the mantissa are ignored."""


@irdl_op_definition
class MatrixDesc(HopperOp):
    """The descriptor of a tile: its address, swizzle and the strides between 8-row groups.

    `lbo` is the distance of swizzle-wide panels along the contiguous dimension (used when that is
    M or N), `sbo` that of groups of 8 rows; both in bytes. With `row`, it starts at that row of
    the tile.
    """

    name: ClassVar[str] = "hopper.matrix_desc"
    tile: SSAValue = operand_def(TileType)
    row: SSAValue | None = opt_operand_def(i32)
    lbo: IntegerAttr = prop_def(Number)
    sbo: IntegerAttr = prop_def(Number)
    desc: SSAValue = result_def(MatrixDescType)
    traits = traits_def(Pure())
    assembly_format = "$tile (`from` $row^)? `lbo` $lbo `sbo` $sbo attr-dict `:` type($tile)"

    def __init__(self, tile: SSAValue, lbo: int, sbo: int, row: SSAValue | None = None):
        super().__init__(
            operands=[tile, row],
            properties={"lbo": number(lbo), "sbo": number(sbo)},
            result_types=[MatrixDescType()],
        )

    def cuda(self, w: Writer) -> None:
        """Four fields of 64 bits."""
        tile = self.tile.type
        assert isinstance(tile, TileType)
        code = SWIZZLE_CODES[tile.swizzle.data]
        lbo, sbo = self.lbo.value.data, self.sbo.value.data
        start = w.name(self.tile)
        if self.row is not None:
            start += f" + {w.name(self.row)} * {tile.panel_bytes}"
        w.let(self.desc, f"matrix_desc({start}, {lbo}, {sbo}, {code})")

    def run(self, m: Actor) -> None:
        """Four fields of 64 bits."""
        tile = self.tile.type
        assert isinstance(tile, TileType)
        code = SWIZZLE_CODES[tile.swizzle.data]
        lbo, sbo = self.lbo.value.data, self.sbo.value.data
        row = m.integer(self.row) if self.row is not None else 0
        start = (m.integer(self.tile) + row * tile.panel_bytes & 0x3FFFF) >> 4
        m.bind(self.desc, start | lbo >> 4 << 16 | sbo >> 4 << 32 | code << 62)


class _Bare(HopperOp):
    """An instruction without operands."""

    TEXT: ClassVar[str] = ""
    assembly_format = "attr-dict"

    def cuda(self, w: Writer) -> None:
        """One instruction."""
        w.line(self.TEXT)


@irdl_op_definition
class WgmmaFence(HopperOp):
    """Order earlier register writes of these accumulators (and A fragments) before wgmma."""

    name: ClassVar[str] = "hopper.wgmma_fence"
    values: Sequence[SSAValue] = var_operand_def(FragType)
    traits = traits_def(Effects(writes(REGISTERS, "values"), writes(OPERANDS)))
    assembly_format = "(`of` $values^ `:` type($values))? attr-dict"

    def __init__(self, values: Sequence[SSAValue] = ()):
        super().__init__(operands=[values])

    def cuda(self, w: Writer) -> None:
        """Pins, so that the compiler moves no register write below, then the fence."""
        for value in self.values:
            w.line(f"pin({w.name(value)});")
        w.line("wgmma_fence();")

    def run(self, m: Actor) -> None:
        """The instruction."""
        m.wgmma_fence()


@irdl_op_definition
class WgmmaCommit(_Bare):
    """Close the group of matrix instructions issued so far."""

    name: ClassVar[str] = "hopper.wgmma_commit"
    TEXT: ClassVar[str] = "wgmma_commit();"
    traits = traits_def(Effects(writes(PRODUCTS)))

    def run(self, m: Actor) -> None:
        """The instruction."""
        m.wgmma_commit()


@irdl_op_definition
class WgmmaWait(HopperOp):
    """Wait until at most `pending` groups are in flight; the results may be read after it."""

    name: ClassVar[str] = "hopper.wgmma_wait"
    pending: IntegerAttr = prop_def(Number)
    values: Sequence[SSAValue] = var_operand_def(FragType)
    results_: Sequence[SSAValue] = var_result_def(FragType)
    traits = traits_def(Effects(writes(REGISTERS, "values"), writes(PRODUCTS)))
    assembly_format = "$pending (`,` $values^ `:` type($values) `->` type($results_))? attr-dict"

    def __init__(self, pending: int, values: Sequence[SSAValue] = ()):
        super().__init__(
            operands=[values],
            properties={"pending": number(pending)},
            result_types=[[v.type for v in values]],
        )

    def cuda(self, w: Writer) -> None:
        """The wait, then pins: no read of the accumulators may move above it."""
        w.line(f"wgmma_wait<{self.pending.value.data}>();")
        for value, result in zip(self.values, self.results_, strict=True):
            w.bind(result, w.name(value))
            w.line(f"pin({w.name(value)});")

    def run(self, m: Actor) -> Steps:
        """The instruction; the results are the operands' registers."""
        yield from m.wgmma_wait(self.pending.value.data)
        for value, result in zip(self.values, self.results_, strict=True):
            m.alias(result, value)


def words_type(shape: tuple[int, ...], warps: int, size: int) -> FragType:
    """The words of an A operand in registers, of elements of `size` bytes."""
    rows, inner = shape
    return FragType.of(i32, operand_words((rows, inner), warps, size))


def _words_of(operand: SSAValue, element: Attribute) -> FragType:
    assert isinstance(operand.type, FragType)
    layout = operand.type.layout
    return words_type(layout.shape, layout.warps, byte_size(element))


def _check_operand(value: SSAValue, size: int) -> None:
    assert isinstance(value.type, FragType)
    layout = value.type.layout
    rows, inner = layout.shape
    if layout != operand_layout((rows, inner), layout.warps, size):
        raise VerifyException("elements are packed in the layout of an A operand")


@irdl_op_definition
class RoundOperand(HopperOp):
    """f32 elements rounded to 8 or 16 bits, as the 32-bit words of an A operand."""

    name: ClassVar[str] = "hopper.round_operand"
    operand: SSAValue = operand_def(FragType)
    element = prop_def()
    value: SSAValue = result_def(FragType)
    traits = traits_def(Pure())
    assembly_format = "$operand `to` $element attr-dict `:` type($operand) `->` type($value)"

    def __init__(self, operand: SSAValue, element: Attribute):
        super().__init__(
            operands=[operand],
            properties={"element": element},
            result_types=[_words_of(operand, element)],
        )

    def verify_(self) -> None:
        """The elements lie as in an A operand."""
        _check_operand(self.operand, byte_size(self.element))

    def cuda(self, w: Writer) -> None:
        """A loop over words."""
        frag, name, source = self.value.type, w.declare(self.value), w.name(self.operand)
        assert isinstance(frag, FragType)
        per = 4 // byte_size(self.element)
        function = "round_quad" if per == 4 else "round_word"
        w.line("#pragma unroll")
        parts = ", ".join(f"{source}[i * {per} + {j}]" for j in range(per))
        count, element = frag.layout.registers, short_name(self.element)
        w.line(f"for (int i = 0; i < {count}; ++i) {name}[i] = {function}<{element}>({parts});")

    def run(self, m: Actor) -> None:
        """Rounded and packed."""
        rounded = round_to(m.fragment(self.operand), self.element)
        m.new_fragment(self.value, _words(rounded, self.element))


def _words(values: Array, element: Attribute) -> Array:
    """Elements as the words that two or four of them each are."""
    return np.ascontiguousarray(encode(values, element)).view(np.int32)


@irdl_op_definition
class PackOperand(HopperOp):
    """An A operand's elements as the 32-bit words that matrix instructions take from registers.

    Packed before the fence, so that no register of the operand is written between instructions.
    Words of 8 and 16-bit elements are a fragment of their own.
    """

    name: ClassVar[str] = "hopper.pack_operand"
    operand: SSAValue = operand_def(FragType)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($value)"

    def __init__(self, operand: SSAValue):
        assert isinstance(operand.type, FragType)
        element = operand.type.element_type
        kept = byte_size(element) == 4
        super().__init__(
            operands=[operand],
            result_types=[operand.type if kept else _words_of(operand, element)],
        )

    def verify_(self) -> None:
        """The elements lie as in an A operand."""
        assert isinstance(self.operand.type, FragType)
        _check_operand(self.operand, byte_size(self.operand.type.element_type))

    def cuda(self, w: Writer) -> None:
        """A loop over words."""
        frag = self.operand.type
        assert isinstance(frag, FragType)
        size, source = byte_size(frag.element_type), w.name(self.operand)
        count, name = frag.layout.registers * size // 4, w.define(self.value)
        word = {
            1: f"quad({source} + i * 4)",
            2: f"pair({source}[i * 2], {source}[i * 2 + 1])",
            4: f"bit_cast<u32>({source}[i])",
        }[size]
        w.line(f"u32 {name}[{count}];")
        w.line("#pragma unroll")
        w.line(f"for (int i = 0; i < {count}; ++i) {name}[i] = {word};")

    def run(self, m: Actor) -> None:
        """The elements' words."""
        values, frag = m.fragment(self.operand), self.operand.type
        assert isinstance(frag, FragType)
        kept = byte_size(frag.element_type) == 4
        m.new_fragment(self.value, values if kept else _words(values, frag.element_type))


@irdl_op_definition
class TileWords(HopperOp):
    """A tile of narrower elements seen as 32-bit words, of which an A operand is made."""

    name: ClassVar[str] = "hopper.tile_words"
    source: SSAValue = operand_def(TileType)
    tile: SSAValue = result_def(TileType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($tile)"

    def __init__(self, source: SSAValue):
        t = source.type
        assert isinstance(t, TileType)
        columns = t.columns.data * byte_size(t.element_type) // 4
        words = TileType.of(t.rows.data, columns, i32, t.swizzle.data, t.panel_rows.data)
        super().__init__(operands=[source], result_types=[words])

    def cuda(self, w: Writer) -> None:
        """The same address."""
        w.let(self.tile, w.name(self.source))

    def run(self, m: Actor) -> None:
        """The same address."""
        m.bind(self.tile, m.integer(self.source))


@irdl_op_definition
class Wgmma(HopperOp):
    """One m64nNk instruction: 64 rows of the accumulator += A times B.

    A comes from a descriptor or from a fragment; `a_offset` and `b_offset` move the descriptors (in
    16-byte units), `first_register` picks the block of 64 rows. `accumulate` false starts from
    zero.
    """

    name: ClassVar[str] = "hopper.wgmma"
    accumulator: SSAValue = operand_def(FragType)
    a: SSAValue = operand_def()
    b: SSAValue = operand_def(MatrixDescType)
    accumulate: SSAValue | None = opt_operand_def(i1)
    n: IntegerAttr = prop_def(Number)
    first_register: IntegerAttr = prop_def(Number)
    a_offset: IntegerAttr = prop_def(Number)
    b_offset: IntegerAttr = prop_def(Number)
    a_type = prop_def()
    b_type = prop_def()
    transpose_a: UnitAttr | None = opt_prop_def(UnitAttr)
    transpose_b: UnitAttr | None = opt_prop_def(UnitAttr)
    result: SSAValue = result_def(FragType)
    traits = traits_def(
        Effects(reads(SHARED), reads(OPERANDS), writes(REGISTERS, "accumulator"), writes(PRODUCTS))
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$accumulator `from` $first_register `+` `` `=` $a `+` $a_offset `*` $b `+` $b_offset "
        "`n` $n (`if` $accumulate^ `:` type($accumulate))? `types` $a_type `,` $b_type "
        "(`ta` $transpose_a^)? (`tb` $transpose_b^)? attr-dict "
        "`:` type($accumulator) `,` type($a) `,` type($b) `->` type($result)"
    )

    def verify_(self) -> None:
        """N and the operand types are those of an instruction."""
        n = self.n.value.data
        if n % 8 or not 8 <= n <= 256:
            raise VerifyException(f"n of wgmma is a multiple of 8 from 8 to 256, not {n}")
        if (self.transpose_a or self.transpose_b) and byte_size(self.a_type) != 2:
            raise VerifyException("only 16-bit operands may be transposed")

    def cuda(self, w: Writer) -> None:
        """A call of the wrapper of that one instruction."""
        name = w.name(self.accumulator)
        w.bind(self.result, name)
        function = self._function(w)
        first = self.first_register.value.data
        scale = w.name(self.accumulate) if self.accumulate else "true"
        a_offset = self.a_offset.value.data
        a = f"{w.name(self.a)} + {a_offset}"
        if isinstance(self.a.type, FragType):
            a = f"(const u32*){w.name(self.a)} + {a_offset * byte_size(self.a_type) // 4}"
        b = f"{w.name(self.b)} + {self.b_offset.value.data}"
        w.line(f"{function}({name} + {first}, {a}, {b}, {scale});")

    def _function(self, w: Writer) -> str:
        """The wrapper's name; its text is added to the program."""
        from_registers = isinstance(self.a.type, FragType)
        a, b = short_name(self.a_type), short_name(self.b_type)
        accumulator = self.accumulator.type
        assert isinstance(accumulator, FragType)
        d = short_name(accumulator.element_type)
        n, k = self.n.value.data, 32 // byte_size(self.a_type)
        ta, tb = int(self.transpose_a is not None), int(self.transpose_b is not None)
        name = f"wgmma_m64n{n}k{k}_{d}_{a}_{b}{'_rs' if from_registers else ''}"
        name += f"_{'t' if ta else 'n'}{'t' if tb else 'n'}"
        if name not in w.functions:
            w.functions[name] = _wrapper(name, (n, k), (d, a, b), (ta, tb), from_registers)
        return name

    def run(self, m: Actor) -> Steps:
        """The instruction, on the accumulator's own registers."""
        return m.wgmma(self)


def _wrapper(
    name: str,
    shape: tuple[int, int],
    types: tuple[str, str, str],
    transposed: tuple[int, int],
    from_registers: bool,
) -> str:
    """The C++ function around one wgmma instruction."""
    n, k = shape
    d, a, b = types
    count = n // 4 if d == "f16" else n // 2
    registers = ", ".join(f"%{i}" for i in range(count))
    held = "((u32*)d)" if d == "f16" else "d"
    outputs = ", ".join(f'"+{"f" if d == "f32" else "r"}"({held}[{i}])' for i in range(count))
    at = count
    if from_registers:
        a_text = "{" + ", ".join(f"%{at + i}" for i in range(4)) + "}"
        inputs = ", ".join(f'"r"(a[{i}])' for i in range(4))
        at += 4
        a_parameter = "const u32* a"
    else:
        a_text, inputs, a_parameter = f"%{at}", '"l"(a)', "u64 a"
        at += 1
    immediates = ["p"]
    if d != "i32":
        immediates += ["1", "1"]
    if a in ("f16", "bf16"):
        immediates += ([] if from_registers else [str(transposed[0])]) + [str(transposed[1])]
    ptx = (
        f"wgmma.mma_async.sync.aligned.m64n{n}k{k}."
        f"{_PTX_TYPES[d]}.{_OPERAND_TYPES[a]}.{_OPERAND_TYPES[b]} "
        f"{{{registers}}}, {a_text}, %{at}, {', '.join(immediates)};"
    )
    return (
        f"__device__ __forceinline__ void {name}"
        f"({d}* d, {a_parameter}, u64 b, bool accumulate) {{\n"
        f'  asm volatile("{{.reg .pred p; setp.ne.b32 p, %{at + 1}, 0;\\n"\n'
        f'    "{ptx}}}"\n'
        f'    : {outputs}\n    : {inputs}, "l"(b), "r"(int(accumulate)));\n}}\n'
    )


MATRIX: Sequence[type[HopperOp]] = (
    MatrixDesc, WgmmaFence, RoundOperand, PackOperand, TileWords, Wgmma, WgmmaCommit, WgmmaWait,
)  # fmt: skip
