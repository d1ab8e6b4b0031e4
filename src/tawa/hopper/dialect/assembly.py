"""Inline assembly on the registers of fragments."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from tawa.base.layout import Layout
from tawa.base.spans import span_of
from tawa.base.types import element_of
from tawa.hopper.dialect.core import HopperOp, Number, number
from tawa.hopper.dialect.fragment import layout_of
from tawa.hopper.dialect.machine import Actor
from tawa.hopper.dialect.text import Writer, c_type
from tawa.hopper.dialect.types import FragType
from tawa.ir.effects import ORDER, Effects, writes
from tawa.ir.scalars.assembly import Assembly
from tawa.ir.scalars.ptx import UnknownInstruction

_WORDS = """\
template <class T, class W> union Register {
  W word;
  T parts[sizeof(W) / sizeof(T)];
};
template <class T, class W> __device__ __forceinline__ void put_bits(W& word, T value, int at) {
  Register<T, W> whole;
  whole.word = word;
  whole.parts[at] = value;
  word = whole.word;
}
template <class T, class W> __device__ __forceinline__ T get_bits(W word, int at) {
  Register<T, W> whole;
  whole.word = word;
  return whole.parts[at];
}
"""
_C_TYPES = {"h": "u16", "r": "u32", "f": "f32", "l": "u64", "d": "f64"}


@irdl_op_definition
class InlineAssembly(HopperOp):
    """Run assembly on `pack` registers of each operand at a time; the last ones may repeat."""

    name: ClassVar[str] = "hopper.assembly"
    values: Sequence[SSAValue] = var_operand_def(FragType)
    text: StringAttr = prop_def(StringAttr)
    constraints: StringAttr = prop_def(StringAttr)
    pack: IntegerAttr = prop_def(Number)
    effect: UnitAttr | None = opt_prop_def(UnitAttr)
    outputs: Sequence[SSAValue] = var_result_def(FragType)
    traits = traits_def(Effects(writes(ORDER).if_set("effect")))

    def __init__(
        self,
        assembly: Assembly,
        values: Sequence[SSAValue],
        elements: Sequence[Attribute],
        layout: Layout,
        *,
        effect: bool,
    ):
        super().__init__(
            operands=[list(values)],
            properties={
                "text": StringAttr(assembly.text),
                "constraints": StringAttr(assembly.constraints),
                "pack": number(assembly.pack),
                "effect": UnitAttr() if effect else None,
            },
            result_types=[[FragType.of(e, layout) for e in elements]],
        )

    @property
    def assembly(self) -> Assembly:
        """The text and how registers are shared."""
        return Assembly(self.text.data, self.constraints.data, self.pack.value.data)

    @property
    def elements(self) -> tuple[list[Attribute], list[Attribute]]:
        """Element types of the results and of the operands."""
        return (
            [element_of(v.type) for v in self.outputs],
            [element_of(v.type) for v in self.values],
        )

    def verify_(self) -> None:
        """One layout; constraints that fit."""
        if len({layout_of(v) for v in (*self.values, *self.outputs)}) != 1:
            raise VerifyException("fragments of one layout")
        if problem := self.assembly.problem(*self.elements):
            raise VerifyException(problem)

    def cuda(self, w: Writer) -> None:
        """An `asm` for each `pack` registers, between moves that the assembler removes."""
        w.functions.setdefault("put_bits", _WORDS)
        results = [w.declare(v) for v in self.outputs]
        operands = [w.name(v) for v in self.values]
        pack, count = self.pack.value.data, layout_of(self.outputs[0]).registers
        w.line("#pragma unroll")
        with w.block(f"for (int i = 0; i < {count}; i += {pack})"):
            types = self._types()
            outputs = [w.fresh("result") for _ in range(self._outputs)]
            for name, type_ in zip(outputs, types, strict=False):
                w.line(f"{type_} {name};")
            inputs = self._put(w, operands, types[self._outputs :], count)
            w.line(self._statement(outputs, inputs))
            self._get(w, results, outputs, count)

    @property
    def _outputs(self) -> int:
        return sum(self.assembly.registers(e) for e in self.elements[0])

    def _types(self) -> list[str]:
        """The C++ type of each register."""
        found: list[str] = []
        for letter in self.assembly.letters:
            found.append(found[int(letter)] if letter.isdigit() else _C_TYPES[letter])
        return found

    def _put(self, w: Writer, names: Sequence[str], types: Sequence[str], count: int) -> list[str]:
        """Registers of the operands, filled."""
        made: list[str] = []
        for name, element in zip(names, self.elements[1], strict=True):
            together = self.assembly.shared(element)
            for r in range(self.assembly.registers(element)):
                made.append(w.fresh("operand"))
                w.line(f"{types[len(made) - 1]} {made[-1]} = 0;")
                for k in range(together):
                    at = f"min(i + {r * together + k}, {count - 1})"
                    w.line(f"put_bits({made[-1]}, {name}[{at}], {k});")
        return made

    def _statement(self, outputs: Sequence[str], inputs: Sequence[str]) -> str:
        letters = self.assembly.letters
        text = re.sub(r"%(?=[\w])", "%%", self.text.data.replace("$$", "\0"))
        text = re.sub(r"\$(\d+)", r"%\1", text).replace("\0", "$")
        results = ", ".join(f'"={a}"({n})' for a, n in zip(letters, outputs, strict=False))
        rest = letters[self._outputs :]
        operands = ", ".join(f'"{a}"({n})' for a, n in zip(rest, inputs, strict=True))
        volatile = " volatile" if self.effect else ""
        clobbers = ' : "memory"' if self.effect else ""
        # Names that the text declares are its own in every copy of it.
        return f"asm{volatile}({json.dumps('{' + text + '}')} : {results} : {operands}{clobbers});"

    def _get(self, w: Writer, names: Sequence[str], outputs: Sequence[str], count: int) -> None:
        """Elements of the results, taken from registers."""
        pack, registers = self.pack.value.data, iter(outputs)
        for name, element in zip(names, self.elements[0], strict=True):
            together, type_ = self.assembly.shared(element), c_type(element)
            for r in range(self.assembly.registers(element)):
                register = next(registers)
                for k in range(together):
                    at = r * together + k
                    inside = f"if (i + {at} < {count}) " if count % pack else ""
                    value = f"get_bits<{type_}>({register}, {k})"
                    w.line(f"{inside}{name}[i + {at}] = {value};")

    def run(self, m: Actor) -> None:
        """What the interpreter of assembly gives."""
        arrays = [m.fragment(v) for v in self.values]
        try:
            found = self.assembly.evaluate(*self.elements, arrays)
        except UnknownInstruction as error:
            error.span = error.span or span_of(self)
            raise
        shape = (m.threads, layout_of(self.outputs[0]).registers)
        for value, array in zip(self.outputs, found, strict=True):
            m.new_fragment(value, np.broadcast_to(array, shape).copy())


ASSEMBLY: Sequence[type[HopperOp]] = (InlineAssembly,)
