"""Atomic operations on global memory (PTX ISA 9.0, `atom`, `fence`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.utils.exceptions import VerifyException

from tawa.base.numerics import Array, encode, value_dtype
from tawa.base.types import bf16, byte_size, f16, f32, f64, short_name
from tawa.hopper.dialect.core import HopperOp, Number, number
from tawa.hopper.dialect.machine import Actor
from tawa.hopper.dialect.text import Writer, c_type, owner_condition
from tawa.hopper.dialect.types import FragType
from tawa.ir.effects import GLOBAL, ORDER, Effects, reads, writes
from tawa.ir.scalars.table import FUNCTIONS

COMBINATIONS = {"maxf": "maxnumf", "minf": "minnumf"}
"""Scalar functions of the kinds that are not named as theirs."""

_WORDS = {2: ("u16", "h", "b16"), 4: ("u32", "r", "b32"), 8: ("u64", "l", "b64")}
"""Bytes -> C++ type, constraint and PTX type of an element's bits."""

_ORDERED = {"maxsi": ("max", "s"), "minsi": ("min", "s"), "maxui": ("max", "u"),
            "minui": ("min", "u"), "addi": ("add", "u")}  # fmt: skip
_BITWISE = {"andi": "and", "ori": "or", "xori": "xor", "xchg": "exch"}

VECTORS: dict[Attribute, tuple[str, str, str]] = {
    f32: ("", "f32", "f32"),
    f16: (".noftz", "f16x2", "b32"),
    bf16: (".noftz", "bf16x2", "b32"),
}
"""Element types that one instruction adds several of: rounding, type and registers of a word."""


def _instruction(kind: str, element: Attribute) -> str | None:
    """The instruction's operation and type; None if there is no such instruction."""
    bits = 8 * byte_size(element)
    if kind in _ORDERED:
        operation, sign = _ORDERED[kind]
        return f"{operation}.{sign}{bits}"
    if kind in _BITWISE:
        return f"{_BITWISE[kind]}.b{bits}"
    if kind == "addf":
        if element in (f32, f64):
            return f"add.f{bits}"
        return "add.noftz.f16" if element == f16 else "add.noftz.bf16"
    return None


def _function(kind: str, element: Attribute, scope: str, order: str) -> tuple[str, str]:
    """The name and definition of the C++ function of one operation on one element type."""
    type_ = short_name(element)
    name = f"atomic_{kind}_{type_}_{scope}_{order}"
    word, letter, bits = _WORDS[byte_size(element)]
    compare = f"{type_} compare, " if kind == "cas" else ""
    head = f"__device__ __forceinline__ {type_} {name}({type_}* pointer, {compare}{type_} value) {{"
    found = _instruction(kind, element)
    if found is not None:
        register = f"f{bits[1:]}" if found in ("add.f32", "add.f64") else bits
        body = f"""\
  {word} old;
  asm volatile("{{.reg .{register} o, v; mov.{bits} v, %2; "
               "atom.global.{scope}.{order}.{found} o, [%1], v; mov.{bits} %0, o;}}"
               : "={letter}"(old) : "l"(pointer), "{letter}"(bit_cast<{word}>(value)) : "memory");
  return bit_cast<{type_}>(old);
"""
        return name, f"{head}\n{body}}}\n"
    manner = f"{order}.{scope}" if kind == "cas" else f"{scope}.{order}"
    swap = f"""\
asm volatile("atom.global.{manner}.cas.{bits} %0, [%1], %2, %3;"
                 : "={letter}"(found) : "l"(pointer), "{letter}"(bit_cast<{word}>(old)),
                   "{letter}"(bit_cast<{word}>(next)) : "memory");"""
    if kind == "cas":
        steps = f"  const {type_} old = compare, next = value;\n  {word} found;\n  {swap}\n"
        return name, f"{head}\n{steps}  return bit_cast<{type_}>(found);\n}}\n"
    function = FUNCTIONS[COMBINATIONS[kind]]
    combined = function.cuda((element, element), element).format("old", "value")
    body = f"""\
  {type_} old = bit_cast<{type_}>(*reinterpret_cast<const volatile {word}*>(pointer));
  while (true) {{
    const {type_} next = {combined};
    {word} found;
    {swap}
    if (found == bit_cast<{word}>(old)) return old;
    old = bit_cast<{type_}>(found);
  }}
"""
    return name, f"{head}\n{body}}}\n"


def _vector_function(element: Attribute, count: int, scope: str) -> tuple[str, str]:
    """The name and definition of the function that adds `count` neighbours to memory."""
    type_ = short_name(element)
    name = f"atomic_add_{type_}x{count}_{scope}"
    rounding, word, register = VECTORS[element]
    words = count * byte_size(element) // 4
    names = [f"w{i}" for i in range(words)]
    moves = "".join(f"mov.b32 {n}, %{i + 1}; " for i, n in enumerate(names))
    shape = f".v{words}" if words > 1 else ""
    value = f"{{{', '.join(names)}}}" if words > 1 else names[0]
    operands = ", ".join(f'"r"(words.values[{i}])' for i in range(words))
    return (
        name,
        f"""\
__device__ __forceinline__ void {name}({type_}* pointer, Vector<{type_}, {count}> value) {{
  const auto words = bit_cast<Vector<u32, {words}>>(value);
  asm volatile("{{.reg .{register} {", ".join(names)}; {moves}"
               "red.global.{scope}.relaxed.add{rounding}{shape}.{word} [%0], {value};}}"
               :: "l"(pointer), {operands} : "memory");
}}
""",
    )


def _is_ordered(op: Operation) -> bool:
    """Whether an instruction orders other accesses."""
    return isinstance(op, GlobalAtomic) and op.order.data != "relaxed"


@irdl_op_definition
class GlobalAtomic(HopperOp):
    """Each thread combines the elements it holds into memory and gets the old ones.

    Of copies, the first holder does; the others, and masked-off elements, get 0. `kind` is a kind
    of `tile.atomic_rmw`, or `cas` with a value to compare with. `order` is what each instruction
    by itself releases and acquires (for the thread, and whom it has met or meets). With `vector`
    above 1, `addf` of as many consecutive registers, whose elements are consecutive and aligned in
    memory and have one mask value, is one instruction, relaxed; nothing uses the old values then.
    """

    name: ClassVar[str] = "hopper.global_atomic"
    pointers: SSAValue = operand_def(FragType)
    operand: SSAValue = operand_def(FragType)
    compare: SSAValue | None = opt_operand_def(FragType)
    mask: SSAValue | None = opt_operand_def(FragType)
    kind: StringAttr = prop_def(StringAttr)
    scope: StringAttr = prop_def(StringAttr)
    order: StringAttr = prop_def(StringAttr)
    vector: IntegerAttr = prop_def(Number)
    value: SSAValue = result_def(FragType)
    traits = traits_def(
        Effects(
            reads(GLOBAL, "pointers"),
            writes(GLOBAL, "pointers"),
            reads(ORDER).when(_is_ordered),
            writes(ORDER).when(_is_ordered),
        )
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        kind: str,
        pointers: SSAValue,
        operand: SSAValue,
        mask: SSAValue | None = None,
        compare: SSAValue | None = None,
        *,
        scope: str,
        order: str = "relaxed",
        vector: int = 1,
    ):
        super().__init__(
            operands=[pointers, operand, compare, mask],
            properties={
                "kind": StringAttr(kind),
                "scope": StringAttr(scope),
                "order": StringAttr(order),
                "vector": number(vector),
            },
            result_types=[operand.type],
        )

    def verify_(self) -> None:
        """Only sums of some types are added several at a time, without their old values."""
        if self.vector.value.data == 1:
            return
        frag = self.value.type
        assert isinstance(frag, FragType)
        if self.kind.data != "addf" or frag.element_type not in VECTORS or self.value.first_use:
            raise VerifyException("several elements at once: sums of f32, f16, bf16, unused")
        if self.order.data != "relaxed":
            raise VerifyException("several elements at once are relaxed")

    def cuda(self, w: Writer) -> None:
        """A loop over registers in the threads that hold first copies."""
        frag = self.value.type
        assert isinstance(frag, FragType)
        if self.vector.value.data > 1:
            self._cuda_of_vectors(w, frag)
            return
        name, owner = w.declare(self.value), owner_condition(frag.layout)
        function, text = _function(
            self.kind.data, frag.element_type, self.scope.data, self.order.data
        )
        w.functions.setdefault(function, text)
        w.line(f"{w.registers(frag.layout)} {name}[i] = {c_type(frag)}{{}};")
        with w.block(f"if ({owner})" if owner else ""):
            w.line("#pragma unroll")
            masked = f"if ({w.name(self.mask)}[i]) " if self.mask else ""
            compare = f"{w.name(self.compare)}[i], " if self.compare else ""
            call = f"{function}({w.name(self.pointers)}[i], {compare}{w.name(self.operand)}[i])"
            w.line(f"for (int i = 0; i < {frag.layout.registers}; ++i)")
            w.line(f"  {masked}{name}[i] = {call};")

    def _cuda_of_vectors(self, w: Writer, frag: FragType) -> None:
        count, owner = self.vector.value.data, owner_condition(frag.layout)
        function, text = _vector_function(frag.element_type, count, self.scope.data)
        w.functions.setdefault(function, text)
        with w.block(f"if ({owner})" if owner else ""):
            w.line("#pragma unroll")
            masked = f"if ({w.name(self.mask)}[i]) " if self.mask else ""
            parts = ", ".join(f"{w.name(self.operand)}[i + {j}]" for j in range(count))
            value = f"Vector<{c_type(frag)}, {count}>{{{{{parts}}}}}"
            w.line(f"for (int i = 0; i < {frag.layout.registers}; i += {count})")
            w.line(f"  {masked}{function}({w.name(self.pointers)}[i], {value});")

    def run(self, m: Actor) -> None:
        """One element after the other; the actor's threads in their order."""
        frag = self.value.type
        assert isinstance(frag, FragType)
        at, values = m.fragment(self.pointers), m.fragment(self.operand)
        by = np.ones(at.shape, bool) if self.mask is None else m.fragment(self.mask)
        count = self.vector.value.data
        # What the instruction does: neighbours of the first of `count`, under its mask.
        steps = np.tile(np.arange(count), at.shape[1] // count) * byte_size(frag.element_type)
        at = np.repeat(at[:, ::count], count, axis=1) + steps.astype(at.dtype)
        by = np.repeat(by[:, ::count], count, axis=1)
        by = by & m.owners(frag.layout)[:, None]
        compare = None if self.compare is None else m.fragment(self.compare)
        result = np.zeros(at.shape, value_dtype(frag.element_type))
        for thread, register in np.argwhere(by):
            one = slice(register, register + 1)
            new = values[thread, one]
            expected = None if compare is None else compare[thread, one]
            change = partial(self._combined, frag.element_type, new=new, compare=expected)
            old = m.global_update(int(at[thread, register]), frag.element_type, change)
            result[thread, register] = old[0]
        m.new_fragment(self.value, result)

    def _combined(self, element: Attribute, old: Array, new: Array, compare: Array | None) -> Array:
        """What memory holds afterwards."""
        kind = self.kind.data
        if compare is not None:
            return np.where(encode(old, element) == encode(compare, element), new, old)
        if kind == "xchg":
            return new
        function = FUNCTIONS[COMBINATIONS.get(kind, kind)]
        return function.evaluate((element, element), element, old, new)


@irdl_op_definition
class MemoryFence(HopperOp):
    """Order this thread's memory accesses before it with those after it (`fence.acq_rel`).

    With a barrier before it, it orders those of all threads that met there.
    """

    name: ClassVar[str] = "hopper.memory_fence"
    scope: StringAttr = prop_def(StringAttr)
    traits = traits_def(Effects(reads(ORDER), writes(ORDER)))
    assembly_format = "$scope attr-dict"

    def __init__(self, scope: str):
        super().__init__(properties={"scope": StringAttr(scope)})

    def cuda(self, w: Writer) -> None:
        """The instruction."""
        w.line(f'asm volatile("fence.acq_rel.{self.scope.data};" ::: "memory");')

    def run(self, m: Actor) -> None:
        """Nothing: simulated global memory is ordered."""


ATOMIC: Sequence[type[HopperOp]] = (GlobalAtomic, MemoryFence)
