"""Fragments: tiles spread over the registers of a team of warps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tawa.base.layout import LANES, Layout
from tawa.base.numerics import poison, value_dtype
from tawa.base.types import PtrType, byte_size
from tawa.hopper.dialect.core import HopperOp, Number, number
from tawa.hopper.dialect.machine import Actor
from tawa.hopper.dialect.text import (
    Writer,
    c_type,
    computed,
    register_coordinate,
    thread_coordinate,
)
from tawa.hopper.dialect.types import FragType
from tawa.ir.effects import REGISTERS, VOTE, Effects, makes, writes
from tawa.ir.scalars.table import FUNCTIONS
from tawa.ir.traits import Elementwise, Free


def layout_of(value: SSAValue) -> Layout:
    """The layout of a fragment."""
    assert isinstance(value.type, FragType)
    return value.type.layout


@irdl_op_definition
class Fill(HopperOp):
    """Every element is the scalar."""

    name: ClassVar[str] = "hopper.fill"
    scalar: SSAValue = operand_def()
    value: SSAValue = result_def(FragType)
    traits = traits_def(Elementwise(), Pure())
    assembly_format = "$scalar attr-dict `:` type($scalar) `->` type($value)"

    def __init__(self, scalar: SSAValue, type_: FragType):
        super().__init__(operands=[scalar], result_types=[type_])

    def cuda(self, w: Writer) -> None:
        """A loop over registers."""
        name = w.declare(self.value)
        w.line(f"{w.registers(layout_of(self.value))} {name}[i] = {w.name(self.scalar)};")

    def run(self, m: Actor) -> None:
        """The scalar in every register."""
        shape = (m.threads, layout_of(self.value).registers)
        m.new_fragment(self.value, np.full(shape, m.value(self.scalar)))


@irdl_op_definition
class Coordinate(HopperOp):
    """Every element is its own coordinate along `dim`, plus `start`."""

    name: ClassVar[str] = "hopper.coordinate"
    dim: IntegerAttr = prop_def(Number)
    start: IntegerAttr = prop_def(Number)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Elementwise(), Pure())
    assembly_format = "$dim `from` $start attr-dict `:` type($value)"

    def __init__(self, dim: int, start: int, layout: Layout):
        super().__init__(
            properties={"dim": number(dim), "start": number(start)},
            result_types=[FragType.of(i32, layout)],
        )

    def cuda(self, w: Writer) -> None:
        """A loop over registers."""
        layout, name, dim = layout_of(self.value), w.declare(self.value), self.dim.value.data
        own = f"{thread_coordinate(layout, dim)} + {register_coordinate(layout, dim)}"
        w.line(f"{w.registers(layout)} {name}[i] = {self.start.value.data} + {own};")

    def run(self, m: Actor) -> None:
        """The layout's own coordinates."""
        own = m.coordinates(layout_of(self.value))[:, :, self.dim.value.data]
        m.new_fragment(self.value, (own + self.start.value.data).astype(np.int32))


@lru_cache(maxsize=1 << 12)
def _registers(numbers: tuple[int, ...]) -> DenseArrayBase[I64]:
    """A number for each register: few maps are used by many ops."""
    return DenseArrayBase.from_list(i64, numbers)


@irdl_op_definition
class Rearrange(HopperOp):
    """Register `i` of the result is register `source[i]` of the operand: no data leaves a thread.

    Broadcasts, inserted dimensions, transposes and layout changes inside a thread are all this.
    """

    name: ClassVar[str] = "hopper.rearrange"
    operand: SSAValue = operand_def(FragType)
    source = prop_def(DenseArrayBase)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, source: Sequence[int], layout: Layout):
        assert isinstance(operand.type, FragType)
        super().__init__(
            operands=[operand],
            properties={"source": _registers(tuple(source))},
            result_types=[FragType.of(operand.type.element_type, layout)],
        )

    @property
    def sources(self) -> list[int]:
        """The operand's register for each register of the result."""
        return _numbers(self.source)

    def verify_(self) -> None:
        """Every register has a source."""
        source, layout = self.sources, layout_of(self.value)
        if len(source) != layout.registers or max(source) >= layout_of(self.operand).registers:
            raise VerifyException("one source register for each register of the result")

    def cuda(self, w: Writer) -> None:
        """A loop over registers with the map as a table, or a plain alias."""
        source = self.sources
        operand = w.name(self.operand)
        if source == list(range(layout_of(self.operand).registers)):
            w.bind(self.value, operand)
            return
        name = w.declare(self.value)
        index = _closed_form(source)
        if index is None:
            table = ", ".join(map(str, source))
            w.line(f"constexpr int {name}_source[] = {{{table}}};")
            index = f"{name}_source[i]"
        w.line(f"{w.registers(layout_of(self.value))} {name}[i] = {operand}[{index}];")

    def run(self, m: Actor) -> None:
        """Registers picked by number; the identity is the same registers."""
        source = self.sources
        if source == list(range(layout_of(self.operand).registers)):
            m.alias(self.value, self.operand)
        else:
            m.new_fragment(self.value, m.fragment(self.operand)[:, source])


def _closed_form(source: list[int]) -> str | None:
    """`i / a % b` if that is what the map is: what broadcasting along one dimension gives."""
    if len(set(source)) == 1:
        return str(source[0])
    count = max(source) + 1
    repeat = next((i for i, s in enumerate(source) if s != source[0]), len(source))
    if all(s == i // repeat % count for i, s in enumerate(source)):
        index = f"i / {repeat}" if repeat > 1 else "i"
        return f"{index} % {count}" if repeat * count < len(source) else index
    return None


@irdl_op_definition
class Anchored(HopperOp):
    """Register `i` of the result is register `anchor[i]` of the operand plus `distance[i]`.

    So it is in the operand itself: this says what need not be computed there. Distances of
    addresses count elements.
    """

    name: ClassVar[str] = "hopper.anchored"
    operand: SSAValue = operand_def(FragType)
    anchor = prop_def(DenseArrayBase)
    distance = prop_def(DenseArrayBase)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Elementwise(), Pure())

    def __init__(self, operand: SSAValue, anchor: Sequence[int], distance: Sequence[int]):
        super().__init__(
            operands=[operand],
            properties={
                "anchor": _registers(tuple(anchor)),
                "distance": _registers(tuple(distance)),
            },
            result_types=[operand.type],
        )

    @property
    def anchors(self) -> list[int]:
        """The operand's register for each register of the result."""
        return _numbers(self.anchor)

    @property
    def distances(self) -> list[int]:
        """What each register of the result is greater by."""
        return _numbers(self.distance)

    def verify_(self) -> None:
        """Every register has an anchor and a distance; truth values have no distance."""
        count = layout_of(self.operand).registers
        if not len(self.anchors) == len(self.distances) == count or max(self.anchors) >= count:
            raise VerifyException("one anchor and one distance for each register")
        assert isinstance(self.operand.type, FragType)
        if self.operand.type.element_type == i1 and any(self.distances):
            raise VerifyException("truth values do not grow")

    def cuda(self, w: Writer) -> None:
        """A line for each register."""
        name, operand = w.declare(self.value), w.name(self.operand)
        anchors, distances = self.anchors, self.distances
        for i in range(*(w.strip or (0, len(anchors))), computed(self)):
            anchor, distance = anchors[i], distances[i]
            w.line(f"{name}[{i}] = {self._text(f'{operand}[{anchor}]', distance)};")

    def _text(self, anchor: str, distance: int) -> str:
        if not distance:
            return anchor
        assert isinstance(self.operand.type, FragType)
        element = self.operand.type.element_type
        if isinstance(element, PtrType):
            return f"{anchor} + {distance}"
        number = f"{c_type(element)}({distance})"
        return FUNCTIONS["addi"].cuda((element, element), element).format(anchor, number)

    def run(self, m: Actor) -> None:
        """Registers picked by number, and their distances added."""
        assert isinstance(self.operand.type, FragType)
        found, element = m.fragment(self.operand)[:, self.anchors], self.operand.type.element_type
        if any(self.distances):
            size = byte_size(element.pointee) if isinstance(element, PtrType) else 1
            found = found + (np.array(self.distances) * size).astype(found.dtype)
        m.new_fragment(self.value, found)


def _numbers(array: Attribute) -> list[int]:
    return [int(n) for n in cast("DenseArrayBase[IntegerType]", array).get_values()]


@irdl_op_definition
class Relabel(HopperOp):
    """The same registers, read as another layout with as many registers."""

    name: ClassVar[str] = "hopper.relabel"
    operand: SSAValue = operand_def(FragType)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Free(), Elementwise(), Pure())
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($value)"

    def __init__(self, operand: SSAValue, layout: Layout):
        assert isinstance(operand.type, FragType)
        super().__init__(
            operands=[operand], result_types=[FragType.of(operand.type.element_type, layout)]
        )

    def verify_(self) -> None:
        """The register counts agree."""
        if layout_of(self.operand).registers != layout_of(self.value).registers:
            raise VerifyException("a relabelled fragment keeps its registers")

    def cuda(self, w: Writer) -> None:
        """Nothing."""
        w.bind(self.value, w.name(self.operand))

    def run(self, m: Actor) -> None:
        """The same registers."""
        m.alias(self.value, self.operand)


@irdl_op_definition
class Window(HopperOp):
    """Consecutive registers of a fragment, read as a smaller tile's layout."""

    name: ClassVar[str] = "hopper.window"
    operand: SSAValue = operand_def(FragType)
    first_register: IntegerAttr = prop_def(Number)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Free(), Pure())
    assembly_format = (
        "$operand `from` $first_register attr-dict `:` type($operand) `->` type($value)"
    )

    def __init__(self, operand: SSAValue, first_register: int, layout: Layout):
        assert isinstance(operand.type, FragType)
        super().__init__(
            operands=[operand],
            properties={"first_register": number(first_register)},
            result_types=[FragType.of(operand.type.element_type, layout)],
        )

    def verify_(self) -> None:
        """The window lies inside the fragment."""
        end = self.first_register.value.data + layout_of(self.value).registers
        if end > layout_of(self.operand).registers:
            raise VerifyException("the window ends outside the fragment")

    def cuda(self, w: Writer) -> None:
        """A pointer to the first register."""
        name = w.define(self.value)
        element, first = c_type(self.value.type), self.first_register.value.data
        w.line(f"{element}* const {name} = {w.name(self.operand)} + {first};")

    def run(self, m: Actor) -> None:
        """The registers themselves."""
        count = layout_of(self.value).registers
        m.window(self.value, self.operand, self.first_register.value.data, count)


@irdl_op_definition
class Undefined(HopperOp):
    """Registers without a value yet."""

    name: ClassVar[str] = "hopper.undefined"
    value: SSAValue = result_def(FragType)
    traits = traits_def(Free(), Effects(makes(REGISTERS, "value")))
    assembly_format = "attr-dict `:` type($value)"

    def __init__(self, type_: FragType):
        super().__init__(result_types=[type_])

    def cuda(self, w: Writer) -> None:
        """A declaration."""
        w.declare(self.value)

    def run(self, m: Actor) -> None:
        """Values that show where they are used: NaN, or the largest integer."""
        frag = self.value.type
        assert isinstance(frag, FragType)
        dtype = value_dtype(frag.element_type)
        m.new_fragment(
            self.value, np.full((m.threads, frag.layout.registers), poison(dtype), dtype)
        )


@irdl_op_definition
class ZeroUnless(HopperOp):
    """In place: zeros, unless the condition holds."""

    name: ClassVar[str] = "hopper.zero_unless"
    condition: SSAValue = operand_def(i1)
    operand: SSAValue = operand_def(FragType)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Effects(writes(REGISTERS, "operand")))
    assembly_format = "$condition `,` $operand attr-dict `:` type($operand) `->` type($value)"

    def __init__(self, condition: SSAValue, operand: SSAValue):
        super().__init__(operands=[condition, operand], result_types=[operand.type])

    def cuda(self, w: Writer) -> None:
        """A branch around a loop over registers."""
        name = w.name(self.operand)
        w.bind(self.value, name)
        with w.block(f"if (!{w.name(self.condition)})"):
            w.line(
                f"{w.registers(layout_of(self.value))} {name}[i] = {c_type(self.value.type)}{{}};"
            )
            # A pin keeps this a branch: as selects it would cost an instruction a register.
            w.line(f"pin({name});")

    def run(self, m: Actor) -> None:
        """The same registers, zeroed first where the condition fails."""
        if bool(m.value(self.condition)):
            m.alias(self.value, self.operand)
        else:
            m.overwrite(self.value, self.operand, 0)


@irdl_op_definition
class Copy(HopperOp):
    """A copy in registers of its own, for an accumulator that is changed in place."""

    name: ClassVar[str] = "hopper.copy"
    operand: SSAValue = operand_def(FragType)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Effects(makes(REGISTERS, "value")))
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($value)"

    def __init__(self, operand: SSAValue):
        super().__init__(operands=[operand], result_types=[operand.type])

    def cuda(self, w: Writer) -> None:
        """A loop over registers."""
        w.assign(w.declare(self.value), w.name(self.operand), self.operand.type)

    def run(self, m: Actor) -> None:
        """The registers' values."""
        m.new_fragment(self.value, m.fragment(self.operand).copy())


@irdl_op_definition
class ReduceRegisters(HopperOp):
    """Combine the registers of each thread along a dimension; the other threads' are left out."""

    name: ClassVar[str] = "hopper.reduce_registers"
    operand: SSAValue = operand_def(FragType)
    axis: IntegerAttr = prop_def(Number)
    kind: StringAttr = prop_def(StringAttr)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Pure())
    assembly_format = "$kind $operand `axis` $axis attr-dict `:` type($operand) `->` type($value)"

    def __init__(self, operand: SSAValue, axis: int, kind: str):
        frag = operand.type
        assert isinstance(frag, FragType)
        result = FragType.of(frag.element_type, frag.layout.without(axis))
        super().__init__(
            operands=[operand],
            properties={"axis": number(axis), "kind": StringAttr(kind)},
            result_types=[result],
        )

    def sources(self) -> list[list[int]]:
        """For each register of the result, the operand's registers that it combines."""
        layout, axis = layout_of(self.operand), self.axis.value.data
        place = layout.offsets(layout.reg)
        kept = [tuple(p[:axis]) + tuple(p[axis + 1 :]) for p in place.tolist()]
        result = layout_of(self.value)
        own = [tuple(p) for p in result.offsets(result.reg).tolist()]
        return [[i for i, k in enumerate(kept) if k == p] for p in own]

    def cuda(self, w: Writer) -> None:
        """Four chains a register where there are enough terms, else one."""
        name, source = w.declare(self.value), w.name(self.operand)
        element = c_type(self.value.type)
        for r, terms in enumerate(self.sources()):
            stride = terms[1] - terms[0] if len(terms) > 1 else 1
            regular = terms == list(range(terms[0], terms[0] + stride * len(terms), stride))
            chains = 4 if len(terms) % 4 == 0 else 2 if len(terms) % 2 == 0 else 1
            if not regular or len(terms) <= 8:
                if len(terms) <= 8:
                    chains = 1
                parts = [
                    self._fold([f"{source}[{t}]" for t in terms[c::chains]]) for c in range(chains)
                ]
                w.line(f"{name}[{r}] = {self._fold(parts)};")
                continue
            self._chains(w, (name, source, element), r, (terms[0], stride, len(terms)), chains)

    def _fold(self, terms: Sequence[str]) -> str:
        """The combination of terms, from left to right."""
        text = terms[0]
        for term in terms[1:]:
            text = self._combine([text, term])
        return text

    def _combine(self, terms: Sequence[str]) -> str:
        frag = self.value.type
        assert isinstance(frag, FragType)
        element = frag.element_type
        return FUNCTIONS[self.kind.data].cuda((element, element), element).format(*terms)

    def _chains(
        self,
        w: Writer,
        names: tuple[str, str, str],
        register: int,
        run: tuple[int, int, int],
        chains: int,
    ) -> None:
        """A loop that combines `chains` interleaved runs, then the runs themselves."""
        name, source, element = names
        first, stride, count = run
        with w.block(""):
            at = [f"{source}[{first + c * stride}]" for c in range(chains)]
            w.line(f"{element} part[{chains}] = {{{', '.join(at)}}};")
            w.line("#pragma unroll")
            with w.block(f"for (int i = {chains}; i < {count}; i += {chains})"):
                for c in range(chains):
                    term = f"{source}[{first} + (i + {c}) * {stride}]"
                    text = self._combine([f"part[{c}]", term])
                    w.line(f"part[{c}] = {text};")
            text = "part[0]"
            for c in range(1, chains):
                text = self._combine([text, f"part[{c}]"])
            w.line(f"{name}[{register}] = {text};")

    def run(self, m: Actor) -> None:
        """Left to right (the C++ text may take several chains: float sums differ in rounding)."""
        frag = self.value.type
        assert isinstance(frag, FragType)
        function, element = FUNCTIONS[self.kind.data], frag.element_type
        registers = m.fragment(self.operand)
        columns: list[np.ndarray] = []
        for terms in self.sources():
            column = registers[:, terms[0]]
            for t in terms[1:]:
                column = function.evaluate((element, element), element, column, registers[:, t])
            columns.append(column)
        m.new_fragment(self.value, np.stack(columns, axis=1).astype(value_dtype(element)))


@irdl_op_definition
class ShuffleXor(HopperOp):
    """Each thread gets the registers of the lane whose index differs in the bits of `mask`."""

    name: ClassVar[str] = "hopper.shuffle_xor"
    operand: SSAValue = operand_def(FragType)
    mask: IntegerAttr = prop_def(Number)
    value: SSAValue = result_def(FragType)
    traits = traits_def(Pure())
    assembly_format = "$operand `,` $mask attr-dict `:` type($operand) `->` type($value)"

    def __init__(self, operand: SSAValue, mask: int):
        super().__init__(
            operands=[operand], properties={"mask": number(mask)}, result_types=[operand.type]
        )

    def verify_(self) -> None:
        """The mask is a lane mask."""
        if not 0 < self.mask.value.data < LANES:
            raise VerifyException(f"a lane mask is from 1 to {LANES - 1}")

    def cuda(self, w: Writer) -> None:
        """A loop over registers."""
        name, source, mask = w.declare(self.value), w.name(self.operand), self.mask.value.data
        head = w.registers(layout_of(self.value))
        w.line(f"{head} {name}[i] = shuffle_xor({source}[i], {mask});")

    def run(self, m: Actor) -> None:
        """The other lane's registers."""
        m.new_fragment(self.value, m.from_lane(m.fragment(self.operand), self.mask.value.data))


@irdl_op_definition
class Extract(HopperOp):
    """The one element of a fragment of rank 0, which every thread holds."""

    name: ClassVar[str] = "hopper.extract"
    operand: SSAValue = operand_def(FragType)
    value: SSAValue = result_def()
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($value)"

    def __init__(self, operand: SSAValue):
        assert isinstance(operand.type, FragType)
        super().__init__(operands=[operand], result_types=[operand.type.element_type])

    def cuda(self, w: Writer) -> None:
        """Register 0."""
        w.let(self.value, f"{w.name(self.operand)}[0]")

    def run(self, m: Actor) -> None:
        """Register 0 of the actor's first thread."""
        m.bind(self.value, m.fragment(self.operand)[0, 0])


@irdl_op_definition
class VoteAny(HopperOp):
    """Whether any register of the warp is true; one answer for all of its lanes."""

    name: ClassVar[str] = "hopper.vote_any"
    operand: SSAValue = operand_def(FragType)
    value: SSAValue = result_def(i1)
    traits = traits_def(Effects(writes(VOTE)))
    # Not pure: every lane must take part, so it stays where it is.
    assembly_format = "$operand attr-dict `:` type($operand)"

    def __init__(self, operand: SSAValue):
        super().__init__(operands=[operand], result_types=[i1])

    def cuda(self, w: Writer) -> None:
        """The registers of a lane, then a vote."""
        source, count = w.name(self.operand), layout_of(self.operand).registers
        own = " || ".join(f"{source}[{r}]" for r in range(count))
        w.let(self.value, f"vote_any({own})")

    def run(self, m: Actor) -> None:
        """One answer for all warps of the actor: what it decides may be skipped, but need not."""
        m.bind(self.value, np.asarray(np.any(m.fragment(self.operand))))


FRAGMENT: Sequence[type[HopperOp]] = (
    Fill, Coordinate, Rearrange, Anchored, Relabel, Window, Undefined, ZeroUnless, Copy,
    ReduceRegisters, ShuffleXor, Extract, VoteAny,
)  # fmt: skip
