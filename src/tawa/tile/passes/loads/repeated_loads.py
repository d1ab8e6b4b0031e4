"""Rows and columns that are loaded several times in a row are loaded once.

Packed weights are loaded by the place of their word (`k // 8`), so that runs of eight rows of a
tile have the same addresses, or of eight columns. The tile would be eight times as large as what it
is loaded from, in the slots that it goes through too. What is known of runs of equal elements
(`axis_info`) shows it: the addresses are then computed for the first of each run, and what is
loaded is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tawa.base.spans import copy_span
from tawa.base.types import element_of, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map
from tawa.ir.properties import TIDY
from tawa.ir.walking import all_of
from tawa.tile.analysis.axis_info import AxisAnalysis
from tawa.tile.dialect.ops import Arange, Broadcast, ExpandDims, Load, Repeat, Splat, Trans

MOST_VALUES = 128
"""That a tile may be computed from to be computed again, for some of its rows (counted: 73 at most
in kernels of the examples and the suite, so that none is left out)."""


@dataclass(frozen=True)
class RepeatedLoads:
    """Load the first of each run of rows, or of columns, that have the same addresses."""

    name: ClassVar[str] = "repeated-loads"
    contract: ClassVar[Contract] = Contract(invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Rewrite every load of a matrix whose addresses and masks come in runs of equal lines."""
        for dim in range(2):
            axes = AxisAnalysis()
            loads = all_of(module, Load)
            plain = [op for op in loads if op.volatile is None and op.desc is None]
            for load in [op for op in plain if len(shape_of(op.result.type)) == 2]:
                run = _run(load, dim, axes)
                if run > 1 and run == shape_of(load.result.type)[dim]:
                    _load_one(load, dim)
                elif run > 1:
                    _load_first(load, dim, run, axes)


def _run(load: Load, dim: int, axes: AxisAnalysis) -> int:
    """How many rows (0) or columns (1) in a row have the same addresses; 1 if that is not known."""
    shape = shape_of(load.result.type)
    runs = [axes.of(v).constant[dim] for v in load.operands]
    run = min(runs)
    even = all(r % run == 0 for r in runs) and shape[dim] % run == 0
    powers = all(n & (n - 1) == 0 for n in (*shape, run))
    made = even and powers and all(map(_is_made, load.operands))
    return run if made else 1


def _is_made(tile: SSAValue) -> bool:
    """Whether a tile is computed from ranges and scalars alone, so that some rows can be.

    What takes many ops is not computed a second time.
    """
    seen, work = {tile}, [tile]
    while work:
        value = work.pop()
        op = value.owner
        if not shape_of(value.type) or isinstance(op, Splat | Arange):
            continue
        turned = isinstance(op, Trans) and op.permutation == (1, 0)
        if not turned and not isinstance(op, Map | Broadcast | ExpandDims):
            return False
        assert isinstance(op, Operation)
        new = [operand for operand in op.operands if operand not in seen]
        seen.update(new)
        work += new
        if len(seen) > MOST_VALUES:
            return False
    return True


def _load_first(load: Load, dim: int, run: int, axes: AxisAnalysis) -> None:
    """Load the first of each run of rows or columns."""
    lines = _Lines(run, axes)
    ptr, *rest = (lines.of(v, dim) for v in load.operands)
    mask = rest.pop(0) if load.mask is not None else None
    single = Load(ptr, mask, rest.pop(0) if rest else None)
    _replace(load, [*lines.new, single, Repeat(single, dim, run)], single)


def _load_one(load: Load, dim: int) -> None:
    """Load the row, or the column, that all of a tile are, as a vector."""
    line = _Line(shape_of(load.result.type)[1 - dim])
    ptr, *rest = (line.of(v, dim) for v in load.operands)
    mask = rest.pop(0) if load.mask is not None else None
    single = Load(ptr, mask, rest.pop(0) if rest else None)
    tile = ExpandDims(single, dim)
    whole = Broadcast(tile, shape_of(load.result.type))
    _replace(load, [*line.new, single, tile, whole], single)


def _replace(load: Load, new: Sequence[Operation], single: Load) -> None:
    block = load.parent
    assert block is not None
    single.properties |= {n: p for n, p in load.properties.items() if n in ("cache", "eviction")}
    single.result.name_hint = load.result.name_hint
    copy_span(load, new)
    block.insert_ops_before(new, load)
    load.result.replace_all_uses_with(new[-1].results[0])
    load.detach()
    load.erase()


@dataclass
class _Lines:
    """Computes every `run`-th element along a dimension of tiles."""

    run: int
    axes: AxisAnalysis
    new: list[Operation] = field(default_factory=list[Operation])
    _known: dict[tuple[SSAValue, int], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, int], SSAValue]
    )

    def of(self, value: SSAValue, dim: int) -> SSAValue:
        """The elements of a tile along a dimension; a scalar as it is."""
        shape = shape_of(value.type)
        if not shape or shape[dim] == 1:
            return value
        if (value, dim) not in self._known:
            smaller = (*shape[:dim], shape[dim] // self.run, *shape[dim + 1 :])
            self._known[value, dim] = self._made(value, dim, smaller)
        return self._known[value, dim]

    def _add(self, op: Operation) -> SSAValue:
        self.new.append(op)
        return op.results[0]

    def _number(self, value: int, type_: Attribute = i32) -> SSAValue:
        return self._add(arith.ConstantOp(IntegerAttr(value, type_)))  # pyright: ignore

    def _made(self, value: SSAValue, dim: int, shape: tuple[int, ...]) -> SSAValue:
        op = value.owner
        match op:
            case Splat():
                return self._add(Splat(op.value, shape))
            case Arange():
                start, count = op.start.value.data, shape[0]
                steps = self._add(Arange(0, count))
                each = self._add(Splat(self._number(self.run), shape))
                first = self._add(Splat(self._number(start), shape))
                scaled = self._add(Map("muli", [steps, each]))
                return self._add(Map("addi", [scaled, first]))
            case Broadcast():
                return self._add(Broadcast(self.of(op.value, dim), shape))
            case ExpandDims():
                axis = op.axis.value.data
                return self._add(ExpandDims(self.of(op.value, dim - (axis < dim)), axis))
            case Trans():
                return self._add(Trans(self.of(op.value, 1 - dim), (1, 0)))
            case _:
                assert isinstance(op, Map)
                return self._quotient(op, dim, shape) or self._mapped(op, dim)

    def _mapped(self, op: Map, dim: int) -> SSAValue:
        operands = [self.of(v, dim) for v in op.arguments]
        type_ = element_of(op.result.type)
        return self._add(Map(op.function.data, operands, type_))

    def _quotient(self, op: Map, dim: int, shape: tuple[int, ...]) -> SSAValue | None:
        """Quotients of consecutive numbers by the length of a run: consecutive numbers again."""
        line = all(size == 1 for i, size in enumerate(shape) if i != dim)
        if op.function.data not in ("divsi", "divui") or not line:
            return None
        number, divisor = op.arguments
        known = self.axes.of(number)
        consecutive = known.contiguous[dim] == shape[dim] * self.run
        if not consecutive or known.multiple[dim] % self.run or _constant(divisor) != self.run:
            return None
        first = self._first(number) if element_of(op.result.type) == i32 else None
        if first is None:
            return None
        start = self._add(Map(op.function.data, [first, self._number(self.run)]))
        steps = self._add(Arange(0, shape[dim]))
        found = self._add(Map("addi", [self._add(Splat(start, (shape[dim],))), steps]))
        for other in range(len(shape)):
            found = self._add(ExpandDims(found, other)) if other != dim else found
        return found

    def _first(self, value: SSAValue) -> SSAValue | None:
        """The first of numbers that are a sum of scalars and a range; None if they are not."""
        op = value.owner
        if isinstance(op, Splat):
            return op.value
        if isinstance(op, ExpandDims):
            return self._first(op.value)
        if isinstance(op, Arange):
            return self._number(op.start.value.data)
        if isinstance(op, Map) and op.function.data in ("addi", "muli"):
            parts = [self._first(v) for v in op.arguments]
            known = [p for p in parts if p is not None]
            return self._add(Map(op.function.data, known)) if len(known) == len(parts) else None
        return None


@dataclass
class _Line:
    """Computes the first row or column of tiles as a vector, and first elements as numbers."""

    length: int
    new: list[Operation] = field(default_factory=list[Operation])
    _known: dict[tuple[SSAValue, int], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, int], SSAValue]
    )
    _numbers: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def of(self, tile: SSAValue, dim: int) -> SSAValue:
        """The first row of a tile, or with a `dim` of 1 its first column.

        Of a tile that is one element long there, that element as often as the vector is long.
        """
        if (tile, dim) not in self._known:
            self._known[tile, dim] = self._made(tile, dim)
        return self._known[tile, dim]

    def number(self, value: SSAValue) -> SSAValue:
        """The first element of a tile, or a number as it is."""
        if not shape_of(value.type):
            return value
        if value not in self._numbers:
            op = value.owner
            if isinstance(op, Arange):
                first: Operation = arith.ConstantOp(IntegerAttr(op.start.value.data, i32))
                self._numbers[value] = self._add(first)
            elif isinstance(op, Map):
                operands = [self.number(v) for v in op.arguments]
                mapped = Map(op.function.data, operands, element_of(op.result.type))
                self._numbers[value] = self._add(mapped)
            else:
                assert isinstance(op, Splat | Broadcast | ExpandDims | Trans)
                self._numbers[value] = self.number(op.operands[0])
        return self._numbers[value]

    def _add(self, op: Operation) -> SSAValue:
        self.new.append(op)
        return op.results[0]

    def _made(self, tile: SSAValue, dim: int) -> SSAValue:
        op, shape = tile.owner, shape_of(tile.type)
        if isinstance(op, Broadcast):
            return self.of(op.value, dim)
        if isinstance(op, ExpandDims) and op.axis.value.data == dim:
            if shape[1 - dim] == self.length:
                return op.value
        if isinstance(op, Trans):
            return self.of(op.value, 1 - dim)
        if isinstance(op, Map):
            operands = [self.of(v, dim) if shape_of(v.type) else v for v in op.arguments]
            return self._add(Map(op.function.data, operands, element_of(tile.type)))
        return self._add(Splat(self.number(tile), (self.length,)))


def _constant(value: SSAValue) -> int | None:
    """The number that all elements of a tile are, if it is written in the kernel."""
    op = value.owner
    source = op.value.owner if isinstance(op, Splat) else op
    if isinstance(source, arith.ConstantOp) and isinstance(source.value, IntegerAttr):
        return source.value.value.data
    return None
