"""Assertions and messages of a running kernel."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerType, StringAttr, i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def, traits_def

from tawa.base.spans import span_of
from tawa.base.types import PtrType, f32, f64
from tawa.hopper.dialect.core import HopperOp
from tawa.hopper.dialect.fragment import layout_of
from tawa.hopper.dialect.machine import Actor
from tawa.hopper.dialect.text import Writer, owner_condition, register_coordinate, thread_coordinate
from tawa.hopper.dialect.types import FragType
from tawa.ir.effects import OUTPUT, Effects, writes
from tawa.ir.scalars.table import FUNCTIONS


@irdl_op_definition
class Assert(HopperOp):
    """Stop the kernel with `message` and the user's line unless all elements hold."""

    name: ClassVar[str] = "hopper.assert"
    condition: SSAValue = operand_def(FragType)
    message: StringAttr = prop_def(StringAttr)
    traits = traits_def(Effects(writes(OUTPUT)))
    assembly_format = "$condition `,` $message attr-dict `:` type($condition)"

    def __init__(self, condition: SSAValue, message: str):
        super().__init__(operands=[condition], properties={"message": StringAttr(message)})

    def cuda(self, w: Writer) -> None:
        """A call of the run time's own function for failed assertions."""
        name, span = w.name(self.condition), span_of(self)
        file, line = (span.file, span.line) if span else ("kernel", 0)
        head = w.registers(layout_of(self.condition))
        message, place = json.dumps(self.message.data), json.dumps(str(file))
        call = f'__assertfail({message}, {place}, {line}, "kernel", 1);'
        w.line(f"{head} if (!{name}[i]) {call}")

    def run(self, m: Actor) -> None:
        """An error that names the first element for which it does not hold."""
        holds = m.fragment(self.condition)
        if not np.all(holds):
            thread, register = np.argwhere(~holds)[0]
            place = m.coordinates(layout_of(self.condition))[thread, register]
            m.assertion_failed(self.message.data, [int(p) for p in place])


@irdl_op_definition
class Print(HopperOp):
    """Print a prefix and, one a line with its place, the elements of a tile."""

    name: ClassVar[str] = "hopper.print"
    prefix: StringAttr = prop_def(StringAttr)
    value: SSAValue | None = opt_operand_def(FragType)
    traits = traits_def(Effects(writes(OUTPUT)))
    assembly_format = "$prefix (`,` $value^ `:` type($value))? attr-dict"

    def __init__(self, prefix: str, value: SSAValue | None):
        super().__init__(operands=[value], properties={"prefix": StringAttr(prefix)})

    def cuda(self, w: Writer) -> None:
        """A call of printf for each element, in the thread that holds its first copy."""
        program = "(%d, %d, %d)"
        indices = "blockIdx.x, blockIdx.y, blockIdx.z"
        prefix = self.prefix.data.replace("%", "%%")
        if self.value is None:
            text = json.dumps(f"program {program} {prefix}\n")
            w.line(f"printf({text}, {indices});")
            return
        frag = self.value.type
        assert isinstance(frag, FragType)
        layout, owner = frag.layout, owner_condition(frag.layout)
        rank = len(layout.shape)
        places = [f"{thread_coordinate(layout, d)} + {register_coordinate(layout, d)}"
                  for d in range(rank)]  # fmt: skip
        where = f" element ({', '.join(['%d'] * rank)})" if rank else ""
        form, shown = _shown(frag.element_type, f"{w.name(self.value)}[i]")
        text = json.dumps(f"program {program}{where} {prefix} {form}\n")
        with w.block(f"if ({owner})" if owner else ""):
            head = w.registers(layout)
            w.line(f"{head} printf({', '.join([text, indices, *places, shown])});")

    def run(self, m: Actor) -> None:
        """The same lines, in the order of threads and registers."""
        if self.value is None:
            m.say(self.prefix.data)
            return
        layout, values = layout_of(self.value), m.fragment(self.value)
        places, owners = m.coordinates(layout), m.owners(layout)
        for thread in np.flatnonzero(owners):
            for register in range(layout.registers):
                place = tuple(int(p) for p in places[thread, register])
                where = f"element {place} " if place else ""
                m.say(f"{where}{self.prefix.data} {values[thread, register]}")


def _shown(element: Attribute, name: str) -> tuple[str, str]:
    """The format of an element and what is printed with it."""
    if isinstance(element, PtrType):
        return "%p", f"(const void*)({name})"
    if element == i1:
        return "%d", f"int({name})"
    if isinstance(element, IntegerType):
        return ("%lld", name) if element == i64 else ("%d", f"int({name})")
    if element not in (f32, f64):
        name = FUNCTIONS["extf"].cuda([element], f32).format(name)
    return "%g", f"double({name})"


DEBUG: Sequence[type[HopperOp]] = (Assert, Print)
