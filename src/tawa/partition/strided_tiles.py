"""Tiles of integers and addresses as a first element and a stride along each dimension.

A tile is followed through the arithmetic that makes it. What is true of whole tiles only, such as
that `(start + arange) % M` does not begin again inside of one, becomes a condition that the program
can test: a scalar. The scalars that describe a tile are computed where the tile is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from tawa.base.spans import copy_span
from tawa.base.types import i64, shape_of
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant
from tawa.tile.analysis.zero import scalar_constant
from tawa.tile.dialect.ops import Arange, Broadcast, ExpandDims, Splat, Trans


class NotStrided(Exception):
    """A tile's elements are not known to lie at strides; the text says why."""


@dataclass(frozen=True)
class Stride:
    """A number times scalars: what an element is more than the one before."""

    count: int = 0
    factors: tuple[SSAValue, ...] = ()


@dataclass(frozen=True)
class Strided:
    """A tile's first element, its strides, and the scalars (i1) of which all must hold for that."""

    first: SSAValue
    strides: tuple[Stride, ...]
    holds: tuple[SSAValue, ...] = ()

    @property
    def uniform(self) -> bool:
        """Whether all elements are equal."""
        return not any(stride.count for stride in self.strides)


@dataclass
class Bounds:
    """Where a mask holds: from the greatest of `least` up to the smallest of `end`, a dimension.

    All are scalars (i64) that count elements from the tile's first; `holds` (i1) must hold, too.
    """

    least: list[list[SSAValue]]
    end: list[list[SSAValue]]
    holds: list[SSAValue] = field(default_factory=list[SSAValue])


FLIPPED = {"cmpi_slt": "cmpi_sgt", "cmpi_sle": "cmpi_sge", "cmpi_sgt": "cmpi_slt",
           "cmpi_sge": "cmpi_sle"}  # fmt: skip
"""Signed comparisons, and each for operands of the other sign."""


class StridedTiles:
    """Answers for one kernel; what it needs of new scalars it adds to the program."""

    def __init__(self) -> None:
        self._known: dict[SSAValue, Strided] = {}

    def of(self, value: SSAValue) -> Strided:
        """An integer tile. Raises NotStrided."""
        if value not in self._known:
            self._known[value] = self._find(value)
        return self._known[value]

    def _find(self, value: SSAValue) -> Strided:
        shape = shape_of(value.type)
        if not shape:
            return Strided(value, ())
        op = value.owner
        if isinstance(op, Splat):
            return Strided(op.value, (Stride(),) * len(shape))
        if isinstance(op, Arange):
            start = self.constant(op, op.start.value.data, op.start.type)
            return Strided(start, (Stride(1),))
        if isinstance(op, ExpandDims | Broadcast | Trans):
            return _respread(op, self.of(op.operands[0]))
        if isinstance(op, Map):
            return self._map(op)
        what = "a loop or a branch chooses" if isinstance(op, Block) else f"{op.name} gives"
        raise NotStrided(f"its addresses depend on a tile that {what}")

    def _map(self, op: Map) -> Strided:
        name = op.function.data
        if name == "select":
            return self._select(op)
        parts = [self.of(v) for v in op.arguments]
        if all(part.uniform for part in parts):
            first = self.add(op, name, [p.first for p in parts], op.element_types[1])
            return Strided(first, parts[0].strides, _held(parts))
        rule = _RULES.get(name)
        if rule is None:
            raise NotStrided(f"its addresses depend on {name} of a tile")
        return rule(self, op, parts)

    def _select(self, op: Map) -> Strided:
        """The tile that is chosen for every element, if it is."""
        condition, chosen, _ = op.arguments
        bounds, found = self.bounds(condition), self.of(chosen)
        shape, holds = shape_of(condition.type), list(bounds.holds)
        for extent, least, end in zip(shape, bounds.least, bounds.end, strict=True):
            whole = self.constant(op, extent, i64)
            holds += [self.add(op, "cmpi_sle", [v, self.zero(op)]) for v in least]
            holds += [self.add(op, "cmpi_sge", [v, whole]) for v in end]
        return Strided(found.first, found.strides, (*found.holds, *holds))

    def ends(self, op: Map, part: Strided) -> tuple[SSAValue, SSAValue]:
        """A tile's least and greatest element."""
        low = high = 0
        for stride, extent in zip(part.strides, shape_of(op.result.type), strict=True):
            if stride.factors:
                raise NotStrided("it is not known how far rows reach that begin again")
            low += min(0, stride.count * (extent - 1))
            high += max(0, stride.count * (extent - 1))
        return self.moved(op, part.first, low), self.moved(op, part.first, high)

    # --- masks ----------------------------------------------------------------------------------

    def bounds(self, mask: SSAValue) -> Bounds:
        """Where a mask holds. Raises NotStrided."""
        op, rank = mask.owner, len(shape_of(mask.type))
        none: list[list[SSAValue]] = [[] for _ in range(rank)]
        if isinstance(op, Splat):
            return Bounds(none, [[] for _ in range(rank)], [op.value])
        if isinstance(op, ExpandDims | Broadcast | Trans):
            inner = self.bounds(op.operands[0])
            return Bounds(_spread(op, inner.least), _spread(op, inner.end), inner.holds)
        if isinstance(op, Map) and op.function.data == "andi":
            one, other = (self.bounds(v) for v in op.arguments)
            least = [a + b for a, b in zip(one.least, other.least, strict=True)]
            end = [a + b for a, b in zip(one.end, other.end, strict=True)]
            return Bounds(least, end, one.holds + other.holds)
        if isinstance(op, Map) and op.function.data in FLIPPED:
            return self._compared(op)
        raise NotStrided("its mask is not made of bounds alone")

    def _compared(self, op: Map) -> Bounds:
        a, b = (self.of(v) for v in op.arguments)
        strides = _added(a, b, -1)
        rank, holds = len(strides), [*a.holds, *b.holds]
        found = Bounds([[] for _ in range(rank)], [[] for _ in range(rank)], holds)
        shape = shape_of(op.result.type)
        along = [d for d, s in enumerate(strides) if s.count and shape[d] > 1]
        if not along:
            holds.append(self.add(op, op.function.data, [a.first, b.first]))
            return found
        stride = strides[along[0]]
        if len(along) > 1 or stride.factors or abs(stride.count) != 1:
            raise NotStrided("its mask compares more than the places along one dimension")
        name = op.function.data
        left, right = (self.wide(op, part.first) for part in (a, b))
        if stride.count < 0:
            name, left, right = FLIPPED[name], right, left
        rest = self.add(op, "subi", [right, left])
        if name in ("cmpi_slt", "cmpi_sle"):
            found.end[along[0]].append(self.moved(op, rest, name == "cmpi_sle"))
        else:
            found.least[along[0]].append(self.moved(op, rest, name == "cmpi_sgt"))
        return found

    # --- addresses ------------------------------------------------------------------------------

    def addresses(self, pointers: SSAValue) -> tuple[BlockArgument, Strided]:
        """The argument that addresses start from, and their distance in elements (i64) from it.

        Raises NotStrided.
        """
        op = pointers.owner
        if isinstance(op, Block):
            if isinstance(op.parent_op(), func.FuncOp) and not shape_of(pointers.type):
                assert isinstance(pointers, BlockArgument)
                return pointers, Strided(self.first_of(op, 0), ())
            raise NotStrided("its addresses change in a way that no scalar says")
        if isinstance(op, Splat):
            base, offset = self.addresses(op.value)
            return base, Strided(offset.first, (Stride(),) * len(shape_of(pointers.type)))
        if isinstance(op, ExpandDims | Broadcast | Trans):
            base, offset = self.addresses(op.operands[0])
            return base, _respread(op, offset)
        if not isinstance(op, Map) or op.function.data != "addptr":
            raise NotStrided("it starts from no argument: from a pointer that is loaded or chosen")
        (base, start), more = self.addresses(op.arguments[0]), self.of(op.arguments[1])
        first = self.add(op, "addi", [start.first, self.wide(op, more.first)])
        return base, Strided(first, _added(start, more), _held((start, more)))

    # --- scalars --------------------------------------------------------------------------------

    def add(
        self, at: Operation, name: str, values: Sequence[SSAValue], type_: Attribute | None = None
    ) -> SSAValue:
        """A scalar function, computed before an op."""
        return self._put(at, Map(name, list(values), type_))

    def constant(self, at: Operation, number: int, type_: Attribute) -> SSAValue:
        """A constant, before an op."""
        return self._put(at, integer_constant(number, type_))

    def first_of(self, block: Block, number: int) -> SSAValue:
        """A constant (i64) at the beginning of a block."""
        assert block.first_op is not None
        return self.constant(block.first_op, number, i64)

    def zero(self, at: Operation) -> SSAValue:
        """The constant 0 (i64), before an op."""
        return self.constant(at, 0, i64)

    def moved(self, at: Operation, value: SSAValue, distance: int) -> SSAValue:
        """An integer and a number known now."""
        if not distance:
            return value
        return self.add(at, "addi", [value, self.constant(at, int(distance), value.type)])

    def wide(self, at: Operation, value: SSAValue) -> SSAValue:
        """A signed integer as i64."""
        return value if value.type == i64 else self.add(at, "extsi", [value], i64)

    @staticmethod
    def _put(at: Operation, new: Operation) -> SSAValue:
        copy_span(at, [new])
        assert at.parent is not None
        at.parent.insert_op_before(new, at)
        return new.results[0]


def _held(parts: Sequence[Strided]) -> tuple[SSAValue, ...]:
    return tuple(dict.fromkeys(held for part in parts for held in part.holds))


def _spread(op: Operation, dims: list[list[SSAValue]]) -> list[list[SSAValue]]:
    """What is known of each dimension, after an op that changes dimensions."""
    if isinstance(op, ExpandDims):
        return [*dims[: op.axis.value.data], [], *dims[op.axis.value.data :]]
    return [dims[d] for d in op.permutation] if isinstance(op, Trans) else dims


def _respread(op: ExpandDims | Broadcast | Trans, inner: Strided) -> Strided:
    strides = list(inner.strides)
    if isinstance(op, ExpandDims):
        strides.insert(op.axis.value.data, Stride())
    elif isinstance(op, Trans):
        strides = [strides[d] for d in op.permutation]
    else:
        grown = shape_of(op.operands[0].type)
        strides = [Stride() if grown[d] == 1 else s for d, s in enumerate(strides)]
    return Strided(inner.first, tuple(strides), inner.holds)


def _added(a: Strided, b: Strided, sign: int = 1) -> tuple[Stride, ...]:
    """The strides of a sum or difference."""
    found: list[Stride] = []
    for one, other in zip(a.strides, b.strides, strict=True):
        if not one.count:
            found.append(Stride(sign * other.count, other.factors))
        elif not other.count:
            found.append(one)
        elif one.factors == other.factors:
            found.append(Stride(one.count + sign * other.count, one.factors))
        else:
            raise NotStrided("a stride is a sum of several")
    return tuple(found)


Rule = Callable[[StridedTiles, Map, Sequence[Strided]], Strided]


def _sum(tiles: StridedTiles, op: Map, parts: Sequence[Strided]) -> Strided:
    name = op.function.data
    first = tiles.add(op, name, [p.first for p in parts])
    left, right = parts
    return Strided(first, _added(left, right, -1 if name == "subi" else 1), _held(parts))


def _extended(tiles: StridedTiles, op: Map, parts: Sequence[Strided]) -> Strided:
    (part,) = parts
    first = tiles.add(op, "extsi", [part.first], op.element_types[1])
    return Strided(first, part.strides, part.holds)


def _product(tiles: StridedTiles, op: Map, parts: Sequence[Strided]) -> Strided:
    varying, fixed = sorted(parts, key=lambda part: part.uniform)
    if not fixed.uniform:
        raise NotStrided("its addresses are products of places")
    number = scalar_constant(fixed.first)
    times = (1, (fixed.first,)) if number is None else (int(number), ())
    strides = [
        Stride(s.count * times[0], (*s.factors, *times[1])) if s.count else s
        for s in varying.strides
    ]
    first = tiles.add(op, "muli", [p.first for p in parts])
    return Strided(first, tuple(strides), _held(parts))


def _remainder(tiles: StridedTiles, op: Map, parts: Sequence[Strided]) -> Strided:
    """The dividend itself, where all of it lies between zero and the divisor."""
    part, divisor = parts
    if not divisor.uniform:
        raise NotStrided("its addresses are remainders of several divisors")
    low, high = tiles.ends(op, part)
    zero = tiles.constant(op, 0, low.type)
    inside = (
        tiles.add(op, "cmpi_sge", [low, zero]),
        tiles.add(op, "cmpi_slt", [high, divisor.first]),
    )
    return Strided(part.first, part.strides, (*_held(parts), *inside))


def _clamped(tiles: StridedTiles, op: Map, parts: Sequence[Strided]) -> Strided:
    """The operand that differs from place to place, where the other does not cut it."""
    part, limit = sorted(parts, key=lambda p: p.uniform)
    if not limit.uniform:
        raise NotStrided(f"its addresses are {op.function.data} of two tiles")
    low, high = tiles.ends(op, part)
    least = op.function.data == "maxsi"
    compared = ("cmpi_sge", low) if least else ("cmpi_sle", high)
    inside = tiles.add(op, compared[0], [compared[1], limit.first])
    return Strided(part.first, part.strides, (*_held(parts), inside))


_RULES: dict[str, Rule] = {
    "addi": _sum,
    "subi": _sum,
    "extsi": _extended,
    "muli": _product,
    "remsi": _remainder,
    "minsi": _clamped,
    "maxsi": _clamped,
}
"""How the functions of tiles that differ from place to place keep their elements at strides."""


def constant_integer(value: SSAValue) -> int | None:
    """An integer scalar's number, if it is a constant."""
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value.data
    return None
