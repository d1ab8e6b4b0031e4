"""What a register holds in all lanes of a warp, combined by one instruction.

The instruction takes integers. Floats are compared as integers whose order is theirs: the bits
below the sign are turned in negative numbers, and a shift brings the codes of NaN to the end that
loses, so that a NaN is found only where there is nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tawa.base.layout import LANES
from tawa.base.types import f32, i32
from tawa.hopper.dialect.core import HopperOp
from tawa.hopper.dialect.fragment import layout_of
from tawa.hopper.dialect.machine import Actor
from tawa.hopper.dialect.text import Writer
from tawa.hopper.dialect.types import FragType
from tawa.ir.scalars.table import FUNCTIONS

REPEATABLE = frozenset(("maxnumf", "minnumf", "maxsi", "minsi", "maxui", "minui", "andi", "ori"))
"""Functions for which it does not matter that lanes hold the same element."""

_INTEGERS = {
    "addi": ("add", "int"), "maxsi": ("max", "int"), "minsi": ("min", "int"),
    "maxui": ("max", "u32"), "minui": ("min", "u32"), "andi": ("and", "u32"),
    "ori": ("or", "u32"), "xori": ("xor", "u32"),
}  # fmt: skip
"""The instruction of a function of 32-bit integers, and how it takes them."""

_FLOATS = """\
__device__ __forceinline__ u32 in_order(u32 bits) {
  return bits ^ (u32(int(bits) >> 31) & 0x7fffffffu);
}
__device__ __forceinline__ f32 greatest_of_lanes(f32 value) {
  const u32 key = in_order(__float_as_uint(value)) + 0x007fffffu;
  return __uint_as_float(in_order(u32(__reduce_max_sync(0xffffffffu, int(key))) - 0x007fffffu));
}
__device__ __forceinline__ f32 least_of_lanes(f32 value) {
  const u32 key = in_order(__float_as_uint(value)) - 0x007fffffu;
  return __uint_as_float(in_order(u32(__reduce_min_sync(0xffffffffu, int(key))) + 0x007fffffu));
}
"""


@irdl_op_definition
class ReduceLanes(HopperOp):
    """Each thread gets what all lanes of its warp hold in a register, combined by a function."""

    name: ClassVar[str] = "hopper.reduce_lanes"
    operand: SSAValue = operand_def(FragType)
    kind: StringAttr = prop_def(StringAttr)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Pure())
    assembly_format = "$kind $operand attr-dict `:` type($operand) `->` type($value)"

    def __init__(self, operand: SSAValue, kind: str):
        super().__init__(
            operands=[operand],
            properties={"kind": StringAttr(kind)},
            result_types=[operand.type],
        )

    def verify_(self) -> None:
        """There is such an instruction."""
        assert isinstance(self.operand.type, FragType)
        if not reduces_lanes(self.kind.data, self.operand.type):
            raise VerifyException(f"no instruction combines lanes by {self.kind.data}")

    def cuda(self, w: Writer) -> None:
        """An instruction a register."""
        name, source, kind = w.declare(self.value), w.name(self.operand), self.kind.data
        head = w.registers(layout_of(self.value))
        if kind in _INTEGERS:
            word, taken = _INTEGERS[kind]
            text = f"int(__reduce_{word}_sync(0xffffffffu, {taken}({source}[i])))"
        else:
            w.functions.setdefault("floats_of_lanes", _FLOATS)
            text = f"{'greatest' if kind == 'maxnumf' else 'least'}_of_lanes({source}[i])"
        w.line(f"{head} {name}[i] = {text};")

    def run(self, m: Actor) -> None:
        """The lanes of each warp, in pairs as a tree of shuffles would take them."""
        value, function = m.fragment(self.operand), FUNCTIONS[self.kind.data]
        assert isinstance(self.operand.type, FragType)
        element = self.operand.type.element_type
        for bit in range(LANES.bit_length() - 1):
            other = m.from_lane(value, 1 << bit)
            value = function.evaluate((element, element), element, value, other)
        m.new_fragment(self.value, np.asarray(value))


def reduces_lanes(kind: str, type_: FragType) -> bool:
    """Whether one instruction combines a register of all lanes by a function."""
    if type_.element_type == f32:
        return kind in ("maxnumf", "minnumf")
    return type_.element_type == i32 and kind in _INTEGERS


LANE_REDUCTION: Sequence[type[HopperOp]] = (ReduceLanes,)
