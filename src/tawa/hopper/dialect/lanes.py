"""Registers put together from several fragments, and those of other lanes of a warp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, i32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tawa.base.layout import LANES, Layout
from tawa.base.types import byte_size
from tawa.hopper.dialect.core import HopperOp, Number, number
from tawa.hopper.dialect.fragment import layout_of
from tawa.hopper.dialect.machine import Actor
from tawa.hopper.dialect.text import Writer
from tawa.hopper.dialect.types import FragType

LANE_BITS = LANES.bit_length() - 1
_SHUFFLE = """\
template <class T> __device__ __forceinline__ T shuffle_from(T value, int source) {
  if constexpr (sizeof(T) >= 4) {
    return __shfl_sync(0xffffffffu, value, source);
  } else {
    union { T small; u32 word; } both;
    both.word = 0;
    both.small = value;
    both.word = __shfl_sync(0xffffffffu, both.word, source);
    return both.small;
  }
}
template <class T> __device__ __forceinline__ T* shuffle_from(T* value, int source) {
  return (T*)__shfl_sync(0xffffffffu, (u64)value, source);
}
"""


@irdl_op_definition
class Assemble(HopperOp):
    """Register `i` of the result is register `registers[i]` of operand `operands[i]`."""

    name: ClassVar[str] = "hopper.assemble"
    parts: Sequence[SSAValue] = var_operand_def(FragType)
    which = prop_def(DenseArrayBase)
    registers = prop_def(DenseArrayBase)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Pure())

    def __init__(self, parts: Sequence[SSAValue], sources: Sequence[tuple[int, int]], to: Layout):
        assert isinstance(parts[0].type, FragType)
        which, registers = zip(*sources, strict=True)
        super().__init__(
            operands=[parts],
            properties={
                "which": DenseArrayBase.from_list(i64, list(which)),
                "registers": DenseArrayBase.from_list(i64, list(registers)),
            },
            result_types=[parts[0].type.with_layout(to)],
        )

    @property
    def sources(self) -> list[tuple[int, int]]:
        """Operand and register of each register of the result."""
        columns = (
            cast("DenseArrayBase[IntegerType]", array).get_values()
            for array in (self.which, self.registers)
        )
        return [(int(a), int(b)) for a, b in zip(*columns, strict=True)]

    def verify_(self) -> None:
        """Every register has a source."""
        counts = [layout_of(part).registers for part in self.parts]
        there = all(which < len(counts) and r < counts[which] for which, r in self.sources)
        if not there or len(self.sources) != layout_of(self.value).registers:
            raise VerifyException("one source register for each register of the result")

    def cuda(self, w: Writer) -> None:
        """An assignment a register."""
        names = [w.name(part) for part in self.parts]
        target = w.declare(self.value)
        for i, (which, register) in enumerate(self.sources):
            w.line(f"{target}[{i}] = {names[which]}[{register}];")

    def run(self, m: Actor) -> None:
        """Registers picked by number."""
        parts = [m.fragment(part) for part in self.parts]
        columns = [parts[which][:, register] for which, register in self.sources]
        m.new_fragment(self.value, np.stack(columns, axis=1))


@irdl_op_definition
class ShuffleAlong(HopperOp):
    """Each thread gets the registers of a lane some way before it along one digit of the lanes.

    The digit is `lane / below % extent`; `distance` is taken from it (a negative one looks ahead),
    and the first or the last digit stands for what would lie outside.
    """

    name: ClassVar[str] = "hopper.shuffle_along"
    operand: SSAValue = operand_def(FragType)
    below: IntegerAttr = prop_def(Number)
    extent: IntegerAttr = prop_def(Number)
    distance: IntegerAttr = prop_def(Number)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Pure())
    assembly_format = (
        "$operand `below` $below `of` $extent `by` $distance attr-dict "
        "`:` type($operand) `->` type($value)"
    )

    def __init__(self, operand: SSAValue, below: int, extent: int, distance: int):
        super().__init__(
            operands=[operand],
            properties={
                "below": number(below),
                "extent": number(extent),
                "distance": number(distance),
            },
            result_types=[operand.type],
        )

    def verify_(self) -> None:
        """The digit is one of the lanes'."""
        if LANES % (self.below.value.data * self.extent.value.data):
            raise VerifyException("the digit is one of 32 lanes")

    def cuda(self, w: Writer) -> None:
        """A loop over registers."""
        w.functions.setdefault("shuffle_from", _SHUFFLE)
        name, source, at = w.declare(self.value), w.name(self.operand), w.fresh("from_lane")
        below, extent = self.below.value.data, self.extent.value.data
        digit = f"lane / {below} % {extent}"
        wanted = f"min(max({digit} - {self.distance.value.data}, 0), {extent - 1})"
        w.line(f"const int {at} = lane + ({wanted} - {digit}) * {below};")
        head = w.registers(layout_of(self.value))
        w.line(f"{head} {name}[i] = shuffle_from({source}[i], {at});")

    def run(self, m: Actor) -> None:
        """The other lane's registers."""
        below, extent = self.below.value.data, self.extent.value.data
        registers = m.fragment(self.operand)
        thread = np.arange(len(registers))
        digit = thread % LANES // below % extent
        wanted = np.clip(digit - self.distance.value.data, 0, extent - 1)
        m.new_fragment(self.value, registers[thread + (wanted - digit) * below])


@irdl_op_definition
class SwapBits(HopperOp):
    """A bit of the lanes' numbers and a bit of the registers' numbers change places.

    Registers whose bit is another than their lane's are exchanged with the lane across `lanes`, a
    mask of one bit; `registers` is that of the registers. Elements of 16 bits are exchanged as
    words of two registers: whole ones, or, for the lowest bit, halves of two words as one.
    """

    name: ClassVar[str] = "hopper.swap_bits"
    operand: SSAValue = operand_def(FragType)
    lanes: IntegerAttr = prop_def(Number)
    registers: IntegerAttr = prop_def(Number)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Pure())
    assembly_format = (
        "$operand `lanes` $lanes `registers` $registers attr-dict "
        "`:` type($operand) `->` type($value)"
    )

    def __init__(self, operand: SSAValue, lanes: int, registers: int, to: Layout):
        assert isinstance(operand.type, FragType)
        super().__init__(
            operands=[operand],
            properties={"lanes": number(lanes), "registers": number(registers)},
            result_types=[operand.type.with_layout(to)],
        )

    def verify_(self) -> None:
        """Both are single bits of numbers that there are."""
        lanes, registers = self.lanes.value.data, self.registers.value.data
        count = layout_of(self.value).registers
        single = all(bit > 0 and bit & (bit - 1) == 0 for bit in (lanes, registers))
        if not single or lanes >= LANES or count % (2 * registers):
            raise VerifyException("one bit of 32 lanes and one of the registers")

    @property
    def _pairs(self) -> bool:
        assert isinstance(self.value.type, FragType)
        return byte_size(self.value.type.element_type) == 2

    def cuda(self, w: Writer) -> None:
        """A shuffle for each pair of registers: a lane gives the one that it does not keep."""
        name, source = w.declare(self.value), w.name(self.operand)
        lanes, bit = self.lanes.value.data, self.registers.value.data
        count, upper = layout_of(self.value).registers, w.fresh("upper")
        w.line(f"const bool {upper} = lane & {lanes};")
        if self._pairs and bit == 1:
            self._exchange_halves(w, name, source, upper)
            return
        if self._pairs:
            self._exchange_pairs(w, name, source, upper)
            return
        w.line("#pragma unroll")
        with w.block(f"for (int i = 0; i < {count}; i += {2 * bit})"):
            w.line("#pragma unroll")
            with w.block(f"for (int j = i; j < i + {bit}; ++j)"):
                low, high = f"{source}[j]", f"{source}[j + {bit}]"
                given = f"{upper} ? {low} : {high}"
                w.line(f"const auto other = shuffle_xor({given}, {lanes});")
                w.line(f"{name}[j] = {upper} ? other : {low};")
                w.line(f"{name}[j + {bit}] = {upper} ? {high} : other;")

    def _exchange_pairs(self, w: Writer, name: str, source: str, upper: str) -> None:
        lanes, bit = self.lanes.value.data, self.registers.value.data
        w.line("#pragma unroll")
        with w.block(f"for (int i = 0; i < {layout_of(self.value).registers}; i += {2 * bit})"):
            w.line("#pragma unroll")
            with w.block(f"for (int j = i; j < i + {bit}; j += 2)"):
                for word, at in (("low", "j"), ("high", f"j + {bit}")):
                    w.line(f"const u32 {word} = pack({source}[{at}], {source}[{at} + 1]);")
                w.line(f"const u32 other = shuffle_xor({upper} ? low : high, {lanes});")
                for given, at in (("other : low", "j"), ("high : other", f"j + {bit}")):
                    w.line(f"unpack({upper} ? {given}, {name}[{at}], {name}[{at} + 1]);")

    def _exchange_halves(self, w: Writer, name: str, source: str, upper: str) -> None:
        """The halves that two words give, packed, are one shuffle; bytes are picked by number."""
        lanes, count = self.lanes.value.data, layout_of(self.value).registers
        first, second = w.fresh("first"), w.fresh("second")
        w.line(f"const u32 {first} = {upper} ? 0x3254u : 0x5410u;")
        w.line(f"const u32 {second} = {upper} ? 0x3276u : 0x7610u;")
        w.line("#pragma unroll")
        with w.block(f"for (int j = 0; j < {count}; j += 4)"):
            low, high = (f"pack({source}[{at}], {source}[{at} + 1])" for at in ("j", "j + 2"))
            w.line(f"const u32 low = {low};")
            if count == 2:
                w.line(f"const u32 other = shuffle_xor(low, {lanes});")
                picked = f"{upper} ? {second} : {first}"
                w.line(f"unpack(__byte_perm(low, other, {picked}), {name}[j], {name}[j + 1]);")
                return
            w.line(f"const u32 high = {high};")
            given = f"__byte_perm(low, high, {upper} ? 0x5410u : 0x7632u)"
            w.line(f"const u32 other = shuffle_xor({given}, {lanes});")
            for word, picked, at in (("low", first, "j"), ("high", second, "j + 2")):
                halves = f"{name}[{at}], {name}[{at} + 1]"
                w.line(f"unpack(__byte_perm({word}, other, {picked}), {halves});")

    def run(self, m: Actor) -> None:
        """Registers of this lane or of the other one."""
        lanes, bit = self.lanes.value.data, self.registers.value.data
        held = m.fragment(self.operand)
        thread, register = np.indices(held.shape)
        differ = ((thread & lanes) != 0) != ((register & bit) != 0)
        there = held[thread ^ lanes, register ^ bit]
        m.new_fragment(self.value, np.where(differ, there, held))


@irdl_op_definition
class ShuffleFrom(HopperOp):
    """Each register of a thread is that register of another lane.

    Its number is a sum of what the bits of the thread's own number give (`threads`, from the lowest
    bit on; a lane's, then those of the warp's number), of the register's (`registers`) and of a
    number that all threads share.
    """

    name: ClassVar[str] = "hopper.shuffle_from"
    operand: SSAValue = operand_def(FragType)
    shared: SSAValue | None = opt_operand_def(i32)
    threads = prop_def(DenseArrayBase)
    registers = prop_def(DenseArrayBase)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Pure())

    def __init__(
        self,
        operand: SSAValue,
        threads: Sequence[int],
        registers: Sequence[int],
        to: Layout,
        shared: SSAValue | None = None,
    ):
        assert isinstance(operand.type, FragType)
        super().__init__(
            operands=[operand, [shared] if shared else []],
            properties={
                "threads": DenseArrayBase.from_list(i64, list(threads)),
                "registers": DenseArrayBase.from_list(i64, list(registers)),
            },
            result_types=[operand.type.with_layout(to)],
        )

    @property
    def of_threads(self) -> list[int]:
        """What each bit of a thread's number gives."""
        return [int(n) for n in cast("DenseArrayBase[IntegerType]", self.threads).get_values()]

    @property
    def of_registers(self) -> list[int]:
        """What each register's number gives."""
        return [int(n) for n in cast("DenseArrayBase[IntegerType]", self.registers).get_values()]

    def verify_(self) -> None:
        """There is a number for each register, and all lanes so named are there."""
        count = layout_of(self.value).registers
        if len(self.of_registers) != count or layout_of(self.operand).registers != count:
            raise VerifyException("one lane for each register")
        if sum(self.of_threads) + max(self.of_registers) >= LANES:
            raise VerifyException(f"lanes are from 0 to {LANES - 1}")

    def cuda(self, w: Writer) -> None:
        """A shuffle a register."""
        w.functions.setdefault("shuffle_from", _SHUFFLE)
        name, source, at = w.declare(self.value), w.name(self.operand), w.fresh("from_lane")
        terms = [*_fields(self.of_threads), *([w.name(self.shared)] if self.shared else [])]
        w.line(f"const int {at} = {' + '.join(terms) or '0'};")
        for i, add in enumerate(self.of_registers):
            lane = f"{at} + {add}" if add else at
            w.line(f"{name}[{i}] = shuffle_from({source}[{i}], {lane});")

    def run(self, m: Actor) -> None:
        """The registers of the lanes that are named."""
        held = m.fragment(self.operand)
        thread, register = np.indices(held.shape)
        lane = np.array(self.of_registers)[register]
        for bit, gives in enumerate(self.of_threads):
            lane = lane + (thread + m.first_thread >> bit & 1) * gives
        if self.shared is not None:
            lane = lane + m.integer(self.shared)
        m.new_fragment(self.value, held[thread // LANES * LANES + lane % LANES, register])


def _fields(numbers: list[int]) -> list[str]:
    """Terms of a thread's number: bits side by side that stay so are one field."""
    terms: list[str] = []
    first = 0
    while first < len(numbers):
        last = first + 1
        inside = first < LANE_BITS
        while (
            last < len(numbers)
            and (last < LANE_BITS) == inside
            and numbers[last] == 2 * numbers[last - 1]
        ):
            last += 1
        if numbers[first]:
            index, low = ("lane", first) if inside else ("warp", first - LANE_BITS)
            field = (
                f"({index} >> {low} & {(1 << last - first) - 1})"
                if low
                else (f"({index} & {(1 << last - first) - 1})")
            )
            terms.append(f"{field} * {numbers[first]}" if numbers[first] > 1 else field)
        first = last
    return terms


LANE_OPS: Sequence[type[HopperOp]] = (Assemble, ShuffleAlong, ShuffleFrom, SwapBits)
