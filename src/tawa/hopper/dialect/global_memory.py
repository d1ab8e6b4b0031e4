"""Loads and stores of global memory through pointers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)

from tawa.base.numerics import Array, value_dtype
from tawa.base.types import PtrType, byte_size, element_of, i1
from tawa.hopper.dialect.access_text import Manner
from tawa.hopper.dialect.atomic import ATOMIC
from tawa.hopper.dialect.core import HopperOp, Number, number
from tawa.hopper.dialect.machine import Actor
from tawa.hopper.dialect.text import Writer, c_type, owner_condition
from tawa.hopper.dialect.types import FragType
from tawa.ir.effects import GLOBAL, ORDER, Effects, reads, writes
from tawa.ir.traits import Elementwise

PLAIN = Manner()


@irdl_op_definition
class GlobalLoad(HopperOp):
    """Each thread loads the elements its pointers name; masked-off addresses are not touched.

    `vector` consecutive registers name consecutive, aligned elements; `mask_run` of them, or all,
    have one mask value. Where the mask lets all of a vector through it is one access, else one for
    each run. A volatile load reads memory each time it is done (PTX ISA 9.0, `ld.volatile`).
    `cache` and `eviction` are those of `tile.load`.
    """

    name: ClassVar[str] = "hopper.global_load"
    pointers: SSAValue = operand_def(FragType)
    mask: SSAValue | None = opt_operand_def(FragType)
    other: SSAValue | None = opt_operand_def(FragType)
    vector: IntegerAttr = prop_def(Number)
    mask_run: IntegerAttr | None = opt_prop_def(Number)
    volatile: UnitAttr | None = opt_prop_def(UnitAttr)
    cache: StringAttr | None = opt_prop_def(StringAttr)
    eviction: StringAttr | None = opt_prop_def(StringAttr)
    value: SSAValue = result_def(FragType)
    traits = traits_def(
        Elementwise(), Effects(reads(GLOBAL, "pointers"), writes(ORDER).if_set("volatile"))
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        pointers: SSAValue,
        mask: SSAValue | None,
        other: SSAValue | None,
        vector: int,
        run: int | None = None,
        *,
        manner: Manner = PLAIN,
    ):
        frag = pointers.type
        assert isinstance(frag, FragType) and isinstance(frag.element_type, PtrType)
        super().__init__(
            operands=[pointers, mask, other],
            properties={
                "vector": number(vector),
                "mask_run": None if run in (None, vector) else number(run),
                "volatile": UnitAttr() if manner.volatile else None,
                **_hints(manner),
            },
            result_types=[frag.with_element_type(frag.element_type.pointee)],
        )

    def cuda(self, w: Writer) -> None:
        """A loop over registers, `vector` at a time."""
        frag = self.value.type
        assert isinstance(frag, FragType)
        count, name = self.vector.value.data, w.declare(self.value)
        element = c_type(frag)
        with w.block(w.registers(frag.layout, step=count)):
            others = [
                f"{w.name(self.other)}[i + {j}]" if self.other else f"{element}{{}}"
                for j in range(count)
            ]
            if self._in_words:
                self._write_words(w, others)
                return
            for j, other in enumerate(others):
                w.line(f"{name}[i + {j}] = {other};")

            def load(start: int, size: int) -> None:
                type_ = f"Vector<{element}, {size}>"
                at = f"{w.name(self.pointers)}[i{plus(start)}]"
                w.line(f"const auto part = {self._read(w, type_, at)};")
                for j in range(size):
                    w.line(f"{name}[i + {start + j}] = part.values[{j}];")

            accesses(w, self.mask, count, run_of(self), load)

    @property
    def _in_words(self) -> bool:
        """Whether registers of two or four elements are chosen between, not the elements.

        Else each element is moved out of its register by itself, under the mask, which puts what
        waits for one load before the next.
        """
        element, count = element_of(self.value.type), self.vector.value.data
        whole = self.volatile is None and run_of(self) == count
        if element == i1 or byte_size(element) > 2 or count * byte_size(element) % 4:
            return False
        return whole and self.mask is not None

    def _write_words(self, w: Writer, others: list[str]) -> None:
        """The access as words of two or four elements each, taken apart after the choice."""
        assert self.mask is not None
        size = byte_size(element_of(self.value.type))
        name, words, per = w.name(self.value), _words(size, others), 4 // size
        w.line(f"Vector<u32, {len(words)}> words{{{{{', '.join(words)}}}}};")
        with w.block(f"if ({w.name(self.mask)}[i])"):
            at = f"{w.name(self.pointers)}[i]"
            w.line(f"words = {self._read(w, f'Vector<u32, {len(words)}>', at)};")
        for j in range(len(words)):
            parts = ", ".join(f"{name}[i + {per * j + k}]" for k in range(per))
            w.line(f"unpack(words.values[{j}], {parts});")

    def _read(self, w: Writer, type_: str, at: str) -> str:
        """The text that reads one value from an address."""
        return _loaded(w, manner_of(self), f"reinterpret_cast<const {type_}*>({at})")

    def run(self, m: Actor) -> None:
        """Vectors whose mask lets all through, and of the others the runs that it does."""
        frag = self.value.type
        assert isinstance(frag, FragType)
        pointers, count, each = (
            m.fragment(self.pointers),
            self.vector.value.data,
            run_of(self),
        )
        result = np.zeros((), value_dtype(frag.element_type))
        if self.other is not None:
            result = m.fragment(self.other)
        whole, by = masks(m, self.mask, pointers, count, run_of(self))
        for size, through in ((count, whole), (each, by & ~whole)):
            chosen = through[:, ::size]
            loaded = m.global_load(pointers[:, ::size], frag.element_type, size, chosen)
            result = np.where(through, loaded.reshape(len(pointers), -1), result)
            if each == count:
                break
        m.new_fragment(self.value, result)


def manner_of(op: GlobalLoad | GlobalStore | ScalarLoad | ScalarStore) -> Manner:
    """How an access is done."""
    cache, eviction = (None if hint is None else hint.data for hint in (op.cache, op.eviction))
    return Manner(isinstance(op, GlobalLoad) and op.volatile is not None, cache, eviction)


def _hints(manner: Manner) -> dict[str, StringAttr | None]:
    """What an access says of caches, as properties."""
    named = {"cache": manner.cache, "eviction": manner.eviction}
    return {name: StringAttr(value) if value else None for name, value in named.items()}


def _loaded(w: Writer, manner: Manner, address: str) -> str:
    """The text that reads what a typed pointer points at."""
    if not manner:
        return f"*{address}"
    name, text = manner.function("load")
    w.functions.setdefault(name, text)
    return f"{name}({address})"


def _written(w: Writer, manner: Manner, address: str, value: str) -> str:
    """The statement that writes where a typed pointer points."""
    if not manner:
        return f"*{address} = {value};"
    name, text = manner.function("store")
    w.functions.setdefault(name, text)
    return f"{name}({address}, {value});"


def run_of(op: GlobalLoad | GlobalStore) -> int:
    """Registers that share a mask: those of a vector, unless the op says fewer."""
    return (op.mask_run or op.vector).value.data


def plus(number: int) -> str:
    """An offset, if there is one."""
    return f" + {number}" if number else ""


def accesses(
    w: Writer, mask: SSAValue | None, count: int, run: int, access: Callable[[int, int], None]
) -> None:
    """Access `count` registers from `i` on as the mask lets them through: all at once, or by runs.

    `access` writes the text for the registers from a place on, so many of them.
    """
    if mask is None or run == count:
        with w.block(f"if ({w.name(mask)}[i])" if mask else ""):
            access(0, count)
        return
    asked = [f"{w.name(mask)}[i{plus(j)}]" for j in range(0, count, run)]
    with w.block(f"if ({' && '.join(asked)})"):
        access(0, count)
    with w.block("else"):
        for number, question in enumerate(asked):
            with w.block(f"if ({question})"):
                access(number * run, run)


def masks(
    m: Actor, mask: SSAValue | None, pointers: Array, count: int, run: int
) -> tuple[Array, Array]:
    """For each register whether its whole vector is let through, and whether it is.

    The first register of a run has the mask of all of it.
    """
    if mask is None:
        every = np.ones(pointers.shape, bool)
        return every, every
    by = np.repeat(m.fragment(mask)[:, ::run], run, axis=1)
    whole = by.reshape(len(by), -1, count).all(axis=2)
    return np.repeat(whole, count, axis=1), by


def _words(size: int, values: list[str]) -> list[str]:
    """Elements of so many bytes as words of 32 bits, or of 64 where they are as large."""
    if size >= 4:
        return [f"bit_cast<u{8 * size}>({v})" for v in values]
    if size == 2:
        return [f"pack({low}, {high})" for low, high in zip(values[::2], values[1::2], strict=True)]
    per = 4 // size
    bits = [f"u32(bit_cast<u{8 * size}>({v}))" for v in values]
    return [
        " | ".join(f"{b} << {8 * size * j}" if j else b for j, b in enumerate(bits[i : i + per]))
        for i in range(0, len(bits), per)
    ]


def _store(w: Writer, op: GlobalStore, at: str, values: list[str]) -> str:
    """One access. Vectors are one instruction: the compiler may take an assignment apart."""
    assert isinstance(op.value.type, FragType)
    element, size = c_type(op.value.type), byte_size(op.value.type.element_type)
    manner = manner_of(op)
    if manner or len(values) * size % 8:
        type_ = f"Vector<{element}, {len(values)}>"
        value = f"{type_}{{{{{', '.join(values)}}}}}"
        return _written(w, manner, f"reinterpret_cast<{type_}*>({at})", value)
    return f"store_words({at}, {', '.join(_words(size, values))});"


@irdl_op_definition
class GlobalStore(HopperOp):
    """Each thread stores the elements it holds (the first holder, of copies).

    `vector`, `mask_run`, `cache` and `eviction` are those of a load.
    """

    name: ClassVar[str] = "hopper.global_store"
    pointers: SSAValue = operand_def(FragType)
    value: SSAValue = operand_def(FragType)
    mask: SSAValue | None = opt_operand_def(FragType)
    vector: IntegerAttr = prop_def(Number)
    mask_run: IntegerAttr | None = opt_prop_def(Number)
    cache: StringAttr | None = opt_prop_def(StringAttr)
    eviction: StringAttr | None = opt_prop_def(StringAttr)
    traits = traits_def(Elementwise(), Effects(writes(GLOBAL, "pointers")))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        pointers: SSAValue,
        value: SSAValue,
        mask: SSAValue | None,
        vector: int,
        run: int | None = None,
        *,
        manner: Manner = PLAIN,
    ):
        super().__init__(
            operands=[pointers, value, mask],
            properties={
                "vector": number(vector),
                "mask_run": None if run in (None, vector) else number(run),
                **_hints(manner),
            },
        )

    def cuda(self, w: Writer) -> None:
        """A loop over registers, `vector` at a time."""
        frag = self.value.type
        assert isinstance(frag, FragType)
        count, owner = self.vector.value.data, owner_condition(frag.layout)

        def store(start: int, size: int) -> None:
            values = [f"{w.name(self.value)}[i + {start + j}]" for j in range(size)]
            at = f"{w.name(self.pointers)}[i{plus(start)}]"
            w.line(_store(w, self, at, values))

        own = f"if ({owner})" if owner else ""
        with w.block(own), w.block(w.registers(frag.layout, step=count)):
            if self.mask is not None and self._predicated:
                values = [f"{w.name(self.value)}[i{plus(j)}]" for j in range(count)]
                words = ", ".join(_words(byte_size(frag.element_type), values))
                asked = f"{w.name(self.mask)}[i]"
                w.line(f"store_words_where({asked}, {w.name(self.pointers)}[i], {words});")
            else:
                accesses(w, self.mask, count, run_of(self), store)

    @property
    def _predicated(self) -> bool:
        """Whether an access with a mask is one instruction under a predicate.

        Behind a branch the compiler would put all that is computed for the store alone, and could
        order nothing across it.
        """
        count = self.vector.value.data
        whole = count * byte_size(element_of(self.value.type)) % 8 == 0 and not manner_of(self)
        return run_of(self) == count and whole

    def run(self, m: Actor) -> None:
        """Vectors whose mask lets all through, and of the others the runs that it does."""
        frag = self.value.type
        assert isinstance(frag, FragType)
        count, each = self.vector.value.data, run_of(self)
        pointers, values = m.fragment(self.pointers), m.fragment(self.value)
        whole, by = masks(m, self.mask, pointers, count, run_of(self))
        owners = m.owners(frag.layout)[:, None]
        for size, through in ((count, whole), (each, by & ~whole)):
            at, chosen = pointers[:, ::size], (through & owners)[:, ::size]
            m.global_store(at, values.reshape(*at.shape, size), frag.element_type, chosen)
            if each == count:
                break


@irdl_op_definition
class ScalarLoad(HopperOp):
    """Load one element; every thread that runs the op gets it."""

    name: ClassVar[str] = "hopper.scalar_load"
    pointer: SSAValue = operand_def(PtrType)
    cache: StringAttr | None = opt_prop_def(StringAttr)
    eviction: StringAttr | None = opt_prop_def(StringAttr)
    value: SSAValue = result_def()
    traits = traits_def(Effects(reads(GLOBAL, "pointer")))
    assembly_format = (
        "$pointer (`cache` $cache^)? (`eviction` $eviction^)? attr-dict "
        "`:` type($pointer) `->` type($value)"
    )

    def __init__(self, pointer: SSAValue, manner: Manner = PLAIN):
        assert isinstance(pointer.type, PtrType)
        super().__init__(
            operands=[pointer],
            properties=_hints(manner),
            result_types=[pointer.type.pointee],
        )

    def cuda(self, w: Writer) -> None:
        """A dereference."""
        w.let(self.value, _loaded(w, manner_of(self), w.name(self.pointer)))

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
    cache: StringAttr | None = opt_prop_def(StringAttr)
    eviction: StringAttr | None = opt_prop_def(StringAttr)
    traits = traits_def(Effects(writes(GLOBAL, "pointer")))
    assembly_format = (
        "$pointer `,` $value (`cache` $cache^)? (`eviction` $eviction^)? attr-dict "
        "`:` type($pointer) `,` type($value)"
    )

    def __init__(self, pointer: SSAValue, value: SSAValue, manner: Manner = PLAIN):
        super().__init__(operands=[pointer, value], properties=_hints(manner))

    def cuda(self, w: Writer) -> None:
        """An assignment."""
        w.line(_written(w, manner_of(self), w.name(self.pointer), w.name(self.value)))

    def run(self, m: Actor) -> None:
        """One element."""
        at, by = np.array(m.integer(self.pointer)), np.array(True)
        m.global_store(at, np.array([m.value(self.value)]), self.value.type, by)


GLOBAL_MEMORY: Sequence[type[HopperOp]] = (
    GlobalLoad, GlobalStore, ScalarLoad, ScalarStore, *ATOMIC,
)  # fmt: skip
