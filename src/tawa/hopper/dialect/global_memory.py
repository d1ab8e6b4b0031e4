"""Loads and stores of global memory through pointers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)

from tawa.base.numerics import value_dtype
from tawa.base.types import PtrType, byte_size
from tawa.hopper.dialect.atomic import ATOMIC
from tawa.hopper.dialect.core import HopperOp, Number, number
from tawa.hopper.dialect.machine import Actor
from tawa.hopper.dialect.text import Writer, c_type, owner_condition
from tawa.hopper.dialect.types import FragType
from tawa.ir.effects import GLOBAL, Effects, reads, writes


@irdl_op_definition
class GlobalLoad(HopperOp):
    """Each thread loads the elements its pointers name; masked-off addresses are not touched.

    `vector` consecutive registers name consecutive, aligned elements with one mask value.
    """

    name: ClassVar[str] = "hopper.global_load"
    pointers: SSAValue = operand_def(FragType)
    mask: SSAValue | None = opt_operand_def(FragType)
    other: SSAValue | None = opt_operand_def(FragType)
    vector: IntegerAttr = prop_def(Number)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Effects(reads(GLOBAL, "pointers")))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self, pointers: SSAValue, mask: SSAValue | None, other: SSAValue | None, vector: int
    ):
        frag = pointers.type
        assert isinstance(frag, FragType) and isinstance(frag.element_type, PtrType)
        super().__init__(
            operands=[pointers, mask, other],
            properties={"vector": number(vector)},
            result_types=[frag.with_element_type(frag.element_type.pointee)],
        )

    def cuda(self, w: Writer) -> None:
        """A loop over registers, `vector` at a time."""
        frag = self.value.type
        assert isinstance(frag, FragType)
        count, name = self.vector.value.data, w.declare(self.value)
        element = c_type(frag)
        w.line("#pragma unroll")
        with w.block(f"for (int i = 0; i < {frag.layout.registers}; i += {count})"):
            for j in range(count):
                other = f"{w.name(self.other)}[i + {j}]" if self.other else f"{element}{{}}"
                w.line(f"{name}[i + {j}] = {other};")
            with w.block(f"if ({w.name(self.mask)}[i])" if self.mask else ""):
                type_ = f"Vector<{element}, {count}>"
                at = f"{w.name(self.pointers)}[i]"
                w.line(f"const auto part = *reinterpret_cast<const {type_}*>({at});")
                for j in range(count):
                    w.line(f"{name}[i + {j}] = part.values[{j}];")

    def run(self, m: Actor) -> None:
        """`vector` consecutive elements from every `vector`-th pointer, under its mask."""
        frag = self.value.type
        assert isinstance(frag, FragType)
        count = self.vector.value.data
        at = m.fragment(self.pointers)[:, ::count]
        by = np.ones(at.shape, bool) if self.mask is None else m.fragment(self.mask)[:, ::count]
        loaded = m.global_load(at, frag.element_type, count, by).reshape(len(at), -1)
        other = np.zeros((), value_dtype(frag.element_type))
        if self.other is not None:
            other = m.fragment(self.other)
        m.new_fragment(self.value, np.where(np.repeat(by, count, axis=1), loaded, other))


def _words(size: int, values: list[str]) -> list[str]:
    """Elements of so many bytes as words of 32 bits."""
    if size == 8:
        bits = [f"bit_cast<u64>({v})" for v in values]
        return [word for b in bits for word in (f"u32({b})", f"u32({b} >> 32)")]
    if size == 4:
        return [f"bit_cast<u32>({v})" for v in values]
    per = 4 // size
    bits = [f"u32(bit_cast<u{8 * size}>({v}))" for v in values]
    return [
        " | ".join(f"{b} << {8 * size * j}" if j else b for j, b in enumerate(bits[i : i + per]))
        for i in range(0, len(bits), per)
    ]


def _store(element: str, size: int, at: str, values: list[str]) -> str:
    """One access. Vectors are one instruction: the compiler may take an assignment apart."""
    if len(values) * size % 8:
        type_ = f"Vector<{element}, {len(values)}>"
        return f"*reinterpret_cast<{type_}*>({at}) = {type_}{{{{{', '.join(values)}}}}};"
    return f"store_words({at}, {', '.join(_words(size, values))});"


@irdl_op_definition
class GlobalStore(HopperOp):
    """Each thread stores the elements it holds (the first holder, of copies)."""

    name: ClassVar[str] = "hopper.global_store"
    pointers: SSAValue = operand_def(FragType)
    value: SSAValue = operand_def(FragType)
    mask: SSAValue | None = opt_operand_def(FragType)
    vector: IntegerAttr = prop_def(Number)
    traits = traits_def(Effects(writes(GLOBAL, "pointers")))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(self, pointers: SSAValue, value: SSAValue, mask: SSAValue | None, vector: int):
        super().__init__(operands=[pointers, value, mask], properties={"vector": number(vector)})

    def cuda(self, w: Writer) -> None:
        """A loop over registers, `vector` at a time."""
        frag = self.value.type
        assert isinstance(frag, FragType)
        count, owner = self.vector.value.data, owner_condition(frag.layout)
        with w.block(f"if ({owner})" if owner else ""):
            w.line("#pragma unroll")
            loop = f"for (int i = 0; i < {frag.layout.registers}; i += {count})"
            masked = f"if ({w.name(self.mask)}[i])" if self.mask else ""
            with w.block(loop), w.block(masked):
                values = [f"{w.name(self.value)}[i + {j}]" for j in range(count)]
                at = f"{w.name(self.pointers)}[i]"
                w.line(_store(c_type(frag), byte_size(frag.element_type), at, values))

    def run(self, m: Actor) -> None:
        """`vector` consecutive elements from every `vector`-th pointer on, under its mask."""
        frag = self.value.type
        assert isinstance(frag, FragType)
        count = self.vector.value.data
        at, values = m.fragment(self.pointers)[:, ::count], m.fragment(self.value)
        by = np.ones(at.shape, bool) if self.mask is None else m.fragment(self.mask)[:, ::count]
        by = by & m.owners(frag.layout)[:, None]
        m.global_store(at, values.reshape(*at.shape, count), frag.element_type, by)


@irdl_op_definition
class ScalarLoad(HopperOp):
    """Load one element; every thread that runs the op gets it."""

    name: ClassVar[str] = "hopper.scalar_load"
    pointer: SSAValue = operand_def(PtrType)
    value: SSAValue = result_def()
    traits = traits_def(Effects(reads(GLOBAL, "pointer")))
    assembly_format = "$pointer attr-dict `:` type($pointer) `->` type($value)"

    def __init__(self, pointer: SSAValue):
        assert isinstance(pointer.type, PtrType)
        super().__init__(operands=[pointer], result_types=[pointer.type.pointee])

    def cuda(self, w: Writer) -> None:
        """A dereference."""
        w.let(self.value, f"*{w.name(self.pointer)}")

    def run(self, m: Actor) -> None:
        """One element."""
        at, by = np.array(m.integer(self.pointer)), np.array(True)
        m.bind(self.value, m.global_load(at, self.value.type, 1, by)[0])


@irdl_op_definition
class ScalarStore(HopperOp):
    """Store one element; run it in one thread."""

    name: ClassVar[str] = "hopper.scalar_store"
    pointer: SSAValue = operand_def(PtrType)
    value: SSAValue = operand_def()
    traits = traits_def(Effects(writes(GLOBAL, "pointer")))
    assembly_format = "$pointer `,` $value attr-dict `:` type($pointer) `,` type($value)"

    def __init__(self, pointer: SSAValue, value: SSAValue):
        super().__init__(operands=[pointer, value])

    def cuda(self, w: Writer) -> None:
        """An assignment."""
        w.line(f"*{w.name(self.pointer)} = {w.name(self.value)};")

    def run(self, m: Actor) -> None:
        """One element."""
        at, by = np.array(m.integer(self.pointer)), np.array(True)
        m.global_store(at, np.array([m.value(self.value)]), self.value.type, by)


GLOBAL_MEMORY: Sequence[type[HopperOp]] = (
    GlobalLoad, GlobalStore, ScalarLoad, ScalarStore, *ATOMIC,
)  # fmt: skip
