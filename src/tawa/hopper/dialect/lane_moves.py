"""Registers of other lanes of a warp, of which each thread names one for each of its registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, i32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tawa.base.layout import LANES, Layout
from tawa.hopper.dialect.core import HopperOp
from tawa.hopper.dialect.fragment import layout_of
from tawa.hopper.dialect.lanes import SHUFFLE_FROM
from tawa.hopper.dialect.machine import Actor
from tawa.hopper.dialect.text import Writer
from tawa.hopper.dialect.types import FragType

LANE_BITS = LANES.bit_length() - 1


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
    assembly_format = (
        "$operand (`plus` $shared^)? `threads` $threads `registers` $registers attr-dict "
        "`:` type($operand) `->` type($value)"
    )

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
        w.functions.setdefault("shuffle_from", SHUFFLE_FROM)
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
        for bit, number in enumerate(self.of_threads):
            lane = lane + (thread + m.first_thread >> bit & 1) * number
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


LANE_MOVES: Sequence[type[HopperOp]] = (ShuffleFrom,)
