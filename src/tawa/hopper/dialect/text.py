"""The writer of CUDA C++ text: names, declarations and indentation. It decides nothing."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tawa.base.layout import REPLICA, Layout, Modes
from tawa.base.types import NAMES, PlanType, PtrType, byte_size, short_name
from tawa.hopper.dialect.prelude import HOPPER_PRELUDE
from tawa.hopper.dialect.types import (
    BarrierType,
    FragType,
    MatrixDescType,
    RingType,
    TensorMapType,
    TileType,
)
from tawa.ir.scalars.prelude import PRELUDE

_KEYWORDS = frozenset(
    "auto break case char class const continue default delete do double else enum extern float "
    "for goto if inline int long new operator private public register return short signed sizeof "
    "static struct switch template this throw typedef union unsigned using virtual void volatile "
    "while and or not xor bool true false lane warp thread warp_id warp_group group_thread smem "
    "add sub mul exp log sqrt sin cos max min abs floor ceil erf tanh fma asm half i j s "
    "part other low high threadIdx blockIdx blockDim gridDim NULL NAN INFINITY Vector "
    "u8 u16 u32 u64".split()
) | frozenset([*NAMES, *PRELUDE, *HOPPER_PRELUDE])


def c_type(type_: Attribute) -> str:
    """The C++ type of a scalar value (or of one element of a fragment)."""
    if isinstance(type_, PtrType):
        return f"{short_name(type_.pointee)}*"
    if isinstance(type_, FragType):
        return c_type(type_.element_type)
    if isinstance(type_, RingType | TileType | BarrierType):
        return "u32"
    if isinstance(type_, MatrixDescType):
        return "u64"
    if isinstance(type_, PlanType):
        return "Plan"
    if isinstance(type_, TensorMapType):
        return "const TensorMap*"
    return short_name(type_)


def constant(type_: Attribute) -> str:
    """The C++ type of a constant: a pointer is constant itself, not what it points to."""
    name = c_type(type_)
    return f"{name} const" if isinstance(type_, PtrType) else f"const {name}"


MAY_UNROLL = "hopper.may_unroll"
"""Attribute of loops of which the assembler may put iterations together."""
STRIPS = "hopper.strips"
"""Attribute of ops that are written together, a few registers at a time.

A number, how many registers, and how many times as many ahead of the others."""
EVERY = "hopper.every"
"""Attribute of ops that compute every so many registers of their result: no other is read."""


def computed(op: Operation | Block | None) -> int:
    """Every how many registers of its result an op computes."""
    found = op.attributes.get(EVERY) if isinstance(op, Operation) else None
    return found.value.data if isinstance(found, IntegerAttr) else 1


class Writer:
    """Collects the lines of one kernel and the C++ name of every value."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.op: Operation | None = None
        """The op that is being written."""
        self.writers: list[Operation | None] = []
        """Which op wrote each line."""
        self.depth = 0
        self._names: dict[SSAValue, str] = {}
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}
        self.functions: dict[str, str] = {}
        self.strip: tuple[int, int] | None = None
        """The registers that are written now, of ops that are written strip by strip."""

    def line(self, text: str) -> None:
        """Append one line at the current depth."""
        self.lines.append("  " * self.depth + text if text else "")
        self.writers.append(self.op)

    @contextmanager
    def block(self, header: str) -> Generator[None]:
        """Lines between `header {` and `}`."""
        self.line(f"{header} {{" if header else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def fresh(self, hint: str | None) -> str:
        """A C++ identifier not used before, after the value's name in the user's source."""
        stem = re.sub(r"\W", "_", hint or "v").rstrip("_") or "v"
        if stem[0].isdigit():
            stem = f"v{stem}"
        if hint is not None and stem not in _KEYWORDS and stem not in self._taken:
            self._taken.add(stem)
            return stem
        count = self._counts.get(stem, 0)
        while f"{stem}_{count}" in self._taken:
            count += 1
        self._counts[stem] = count + 1
        self._taken.add(f"{stem}_{count}")
        return f"{stem}_{count}"

    def name(self, value: SSAValue) -> str:
        """The C++ name of a value that has been defined."""
        return self._names[value]

    def define(self, value: SSAValue) -> str:
        """Give a value a fresh name."""
        name = self._names[value] = self.fresh(value.name_hint)
        return name

    def bind(self, value: SSAValue, name: str) -> None:
        """Let a value stand for an existing name or expression."""
        self._names[value] = name

    def let(self, value: SSAValue, expression: str) -> None:
        """`const T name = expression;`."""
        self.line(f"{constant(value.type)} {self.define(value)} = {expression};")

    def declare(self, value: SSAValue) -> str:
        """Declare a mutable variable (an array for a fragment) and return its name.

        Of ops that are written strip by strip the first strip declares.
        """
        if self.strip is not None and self.strip[0]:
            return self._names[value]
        name = self.define(value)
        size = f"[{value.type.layout.registers}]" if isinstance(value.type, FragType) else ""
        self.line(f"{c_type(value.type)} {name}{size};")
        return name

    def region(self, region: Region) -> None:
        """Write the ops of a region; the emitter, which knows all ops, defines it."""
        raise NotImplementedError

    def registers(self, layout: Layout, index: str = "i", step: int = 1) -> str:
        """The head of the loop over a fragment's registers that are computed, or the strip's."""
        self.line("#pragma unroll")
        first, end = self.strip or (0, layout.registers)
        every = computed(self.op)
        step = step if every % step else every
        advance = f"{index} += {step}" if step > 1 else f"++{index}"
        return f"for (int {index} = {first}; {index} < {end}; {advance})"

    def assign(self, target: str, source: str, type_: Attribute) -> None:
        """`target = source;`, register by register for a fragment."""
        if target == source:
            return
        if isinstance(type_, FragType):
            head = self.registers(type_.layout)
            self.line(f"{head} {target}[i] = {source}[i];")
        else:
            self.line(f"{target} = {source};")


def digits(index: str, modes: Modes, dim: int) -> list[str]:
    """The terms that an index adds to coordinate `dim`, as C++ expressions."""
    terms: list[str] = []
    below = 1
    total = 1
    for m in modes:
        total *= m.extent
    for m in modes:
        if m.dim == dim and m.extent > 1:
            digit = index if below == 1 else f"({index} / {below})"
            if below * m.extent < total:
                digit = f"({digit} % {m.extent})" if below > 1 else f"({index} % {m.extent})"
            terms.append(digit if m.stride == 1 else f"{digit} * {m.stride}")
        below *= m.extent
    return terms


def thread_coordinate(layout: Layout, dim: int) -> str:
    """What the thread's position adds to coordinate `dim`, as a C++ expression."""
    terms = digits("warp", layout.warp, dim) + digits("lane", layout.lane, dim)
    return " + ".join(terms) or "0"


def register_coordinate(layout: Layout, dim: int, index: str = "i") -> str:
    """What register `index` adds to coordinate `dim`, as a C++ expression."""
    return " + ".join(digits(index, layout.reg, dim)) or "0"


def owner_condition(layout: Layout) -> str | None:
    """The C++ condition that this thread holds the first copy; None if there are no copies."""
    terms: list[str] = []
    for index, modes in (("lane", layout.lane), ("warp", layout.warp)):
        below = 1
        for m in modes:
            if m.dim == REPLICA and m.extent > 1:
                terms.append(f"{index} / {below} % {m.extent} == 0")
            below *= m.extent
    return " && ".join(terms) or None


def tile_address(tile: TileType, base: str, row: str, column: str) -> str:
    """The shared-memory address of an element, as a call of the prelude's `tile_address`."""
    size = byte_size(tile.element_type)
    shape = f"{tile.swizzle.data}, {tile.panel_bytes}, {tile.panel_stride}"
    return f"tile_address<{shape}>({base}, {row}, ({column}) * {size})"
