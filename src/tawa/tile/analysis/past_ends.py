"""What tiles hold past the end of the tensors that they are boxes of, and who combines that.

A box that reaches past an end is filled up, with zeros for one. That does no harm as long as each
element stays where it is: what a program computes there is not stored. It matters where elements
are combined: by reductions, scans against their direction, products along K. There, elements past
the end have to be neutral: zeros in a sum, minus infinity in a maximum, ones in a product.

The analysis follows one element past each end through a program, by its number where that is known
(functions are evaluated, with probes for what is not known), and reports the combinations in which
it counts. Masks that compare coordinates are believed: past the end they do not hold.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects import arith, scf
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tawa.base.numerics import value_dtype
from tawa.base.types import bits, element_of, is_float, shape_of
from tawa.ir.elementwise import Map
from tawa.tile.analysis.linear import linear
from tawa.tile.analysis.zero import NOT_NEGATIVE, scalar_constant
from tawa.tile.dialect import ops
from tawa.tile.dialect.ops import spreads

Edges: TypeAlias = frozenset[tuple[Any, int]]
"""Names of ends: whatever the caller tells boxes apart by, and a dimension."""


@dataclass(frozen=True)
class At:
    """What a tile holds along one dimension, past the ends that it has there.

    `kind`: `uniform` does not vary along the dimension, `place` follows from the coordinate alone,
    `chosen` was selected by a mask that is not understood, and is believed; `data` is all else.
    """

    kind: str = "data"
    number: Any = None
    """The one number that it is past the end (of a `place`, a comparison's answer), if known."""
    edges: Edges = frozenset()
    """The ends that elements along the dimension are past, as the caller names them."""
    masked: bool = False
    """Whether a mask put the number there: the program's own choice."""
    unit: int = 1
    """Elements that are before the end: a multiple of so many along the dimension."""


Tile: TypeAlias = tuple[At, ...]

Filled: TypeAlias = Mapping[int, tuple[Edges, Any]] | None
"""By dimension of a tile, the ends that it is filled up past, and the number (None: anything)."""


@dataclass(frozen=True)
class Counted:
    """A combination in which elements past an end count."""

    op: Operation
    kind: str
    """The scalar function, or `dot`, `argmax`, `histogram` and the like."""
    number: Any
    """What is there, if it is one number."""
    edges: Edges


def counted(block: Block, ends: Callable[[Operation], Filled]) -> list[Counted]:
    """The combinations of a function's block in which elements past an end count.

    `ends` says of an op whose result is filled up past ends: which, and with what.
    """
    analysis = _PastEnds(ends)
    analysis.block(block)
    return list(analysis.found.values())


class _PastEnds:
    def __init__(self, ends: Callable[[Operation], Filled]) -> None:
        self.ends = ends
        self.tiles: dict[SSAValue, Tile] = {}
        self.found: dict[Operation, Counted] = {}

    def of(self, value: SSAValue) -> Tile:
        """What is known of a tile."""
        known = self.tiles.get(value)
        return tuple(At() for _ in shape_of(value.type)) if known is None else known

    def block(self, block: Block) -> None:
        """The ops of a block, in order."""
        for op in block.ops:
            for result, tile in zip(op.results, self.results(op), strict=False):
                self.tiles[result] = tile
            filled = self.ends(op)
            if filled and op.results:
                self.fill(op.results[0], filled)

    def fill(self, value: SSAValue, filled: Mapping[int, tuple[Edges, Any]]) -> None:
        """A tile that is filled up past ends."""
        self.tiles[value] = tuple(
            At("data", filled[d][1], filled[d][0]) if d in filled else replace(at, edges=Edges())
            for d, at in enumerate(self.of(value))
        )

    def results(self, op: Operation) -> Sequence[Tile]:
        """What an op's results hold."""
        rule = _RULES.get(type(op))
        if rule is not None:
            return [rule(self, op)]
        if isinstance(op, ops.ArgReduce):
            self.combine(op, op.value, op.axis.value.data, op.kind.data)
            rest = _without(_unknown(self.of(op.value)), op.axis.value.data)
            return [rest, rest]
        if isinstance(op, ops.ReduceWith | ops.ScanWith):
            return self.custom(op)
        if isinstance(op, scf.ForOp):
            return self.loop(op.body.block, op.iter_args, 1)
        if isinstance(op, scf.IfOp):
            return self.branches(op)
        if isinstance(op, scf.WhileOp):
            return self.repeated(op)
        if isinstance(op, ops.Histogram):
            self.combine(op, op.operands[0], 0, "histogram")
        edges = Edges().union(*(at.edges for v in op.operands for at in self.of(v)))
        return [tuple(At(edges=edges) for _ in shape_of(r.type)) for r in op.results]

    def combine(self, op: Operation, value: SSAValue, axis: int, kind: str) -> None:
        """Report a combination along an axis, if what is past the end there counts."""
        at = self.of(value)[axis]
        if not at.edges or at.kind == "chosen":
            self.found.pop(op, None)
            return
        if _is_neutral(kind, at, element_of(value.type), value):
            self.found.pop(op, None)
            return
        self.found[op] = Counted(op, kind, at.number, at.edges)

    def reduce(self, op: Operation) -> Tile:
        """A reduction."""
        assert isinstance(op, ops.Reduce)
        axis, tile = op.axis.value.data, self.of(op.value)
        self.combine(op, op.value, axis, op.kind.data)
        element = element_of(op.value.type)
        count = shape_of(op.value.type)[axis]
        rest: list[At] = []
        for d, at in enumerate(tile):
            number = None
            if d != axis and at.number is not None and at.edges:
                row = np.full((count,), at.number, value_dtype(element))
                with np.errstate(all="ignore"):
                    number = ops.Reduce(_probe(row, element), 0, op.kind.data).evaluate(row)
            kind = at.kind if at.kind in ("uniform", "chosen") else "data"
            rest.append(At(kind, number, at.edges, at.masked, at.unit))
        return _without(tuple(rest), axis)

    def scan(self, op: Operation) -> Tile:
        """A scan: elements past the end come last, unless it runs backwards."""
        assert isinstance(op, ops.Scan)
        axis = op.axis.value.data
        if op.reverse is not None:
            self.combine(op, op.value, axis, op.kind.data)
        tile = list(_unknown(self.of(op.value)))
        return tuple(tile)

    def custom(self, op: ops.ReduceWith | ops.ScanWith) -> Sequence[Tile]:
        """Combinations by a function of the program's own: only masked elements are believed."""
        axis = op.axis.value.data
        backwards = isinstance(op, ops.ReduceWith) or op.reverse is not None
        edges = Edges()
        for value in op.values:
            at = self.of(value)[axis]
            if not at.masked and at.kind != "chosen":
                edges |= at.edges
        if edges and backwards:
            self.found[op] = Counted(op, "a function of its own", None, edges)
        else:
            self.found.pop(op, None)
        joined = self.joined([_unknown(self.of(v)) for v in op.values])
        if isinstance(op, ops.ReduceWith):
            joined = _without(joined, axis)
        return [joined for _ in op.results]

    def dot(self, op: Operation) -> Tile:
        """A product: K is combined, rows and columns stay where they are."""
        assert isinstance(op, ops.Dot)
        a, b, acc = self.of(op.a), self.of(op.b), self.of(op.acc)
        along = a[-1], b[-2]
        edges = along[0].edges | along[1].edges
        harmless = any(at.kind == "chosen" or (at.edges and at.number == 0) for at in along)
        if edges and not harmless:
            number = along[0].number if along[0].edges else along[1].number
            self.found[op] = Counted(op, "dot", number, edges)
        else:
            self.found.pop(op, None)
        rows = (*(_met(x, y) for x, y in zip(a[:-2], b[:-2], strict=True)), a[-2], b[-1])
        return tuple(_added(x, y) for x, y in zip(rows, acc, strict=True))

    def loop(self, body: Block, inits: Iterable[SSAValue], skipped: int) -> Sequence[Tile]:
        """A loop: what it carries, joined until nothing changes."""
        carried = [self.of(v) for v in inits]
        for _ in range(8):
            for arg, tile in zip(body.args[skipped:], carried, strict=True):
                self.tiles[arg] = tile
            self.block(body)
            last = body.last_op
            ends = [self.of(v) for v in last.operands] if last is not None else []
            after = [self.joined(pair) for pair in zip(carried, ends, strict=True)]
            if after == carried:
                break
            carried = after
        return carried

    def branches(self, op: scf.IfOp) -> Sequence[Tile]:
        """Either branch's values."""
        given: list[list[Tile]] = []
        for region in op.regions:
            if region.blocks:
                self.block(region.block)
                last = region.block.last_op
                given.append([self.of(v) for v in last.operands] if last is not None else [])
        return [self.joined(both) for both in zip(*given, strict=True)] if op.results else []

    def repeated(self, op: scf.WhileOp) -> Sequence[Tile]:
        """A `while`: its condition's block hands values on, its body's hands them back."""
        before, after = op.before_region.block, op.after_region.block
        carried, handed = [self.of(v) for v in op.arguments], list[Tile]()
        for _ in range(8):
            for arg, tile in zip(before.args, carried, strict=True):
                self.tiles[arg] = tile
            self.block(before)
            handed = [self.of(v) for v in before.last_op.operands[1:]] if before.last_op else []
            for arg, tile in zip(after.args, handed, strict=True):
                self.tiles[arg] = tile
            self.block(after)
            back = [self.of(v) for v in after.last_op.operands] if after.last_op else []
            joined = [self.joined(pair) for pair in zip(carried, back, strict=True)]
            if joined == carried:
                break
            carried = joined
        return handed

    def joined(self, tiles: Sequence[Tile]) -> Tile:
        """What holds of each of several tiles."""
        return tuple(_joined(ats) for ats in zip(*tiles, strict=True))

    def map(self, op: Operation) -> Tile:
        """An elementwise function."""
        assert isinstance(op, Map)
        given = [self.of(v) for v in op.arguments]
        constants = [_constant(v) for v in op.arguments]
        return tuple(
            _mapped(
                op, [_or_constant(tile[d], c) for tile, c in zip(given, constants, strict=True)]
            )
            for d in range(len(shape_of(op.result.type)))
        )


def _constant(value: SSAValue) -> Any:
    owner = value.owner
    return scalar_constant(owner.value) if isinstance(owner, ops.Splat) else None


def _or_constant(at: At, constant: Any) -> At:
    return At("uniform", constant) if constant is not None else at


def _mapped(op: Map, given: Sequence[At]) -> At:
    """An elementwise function along one dimension."""
    return replace(_applied(op, given), unit=_common_unit(given))


def _common_unit(ats: Sequence[At]) -> int:
    """A number of elements that the ends of all these are multiples of."""
    return gcd(*(at.unit for at in ats if at.edges)) or 1


def _applied(op: Map, given: Sequence[At]) -> At:
    """What a function makes of elements past the end."""
    edges = Edges().union(*(at.edges for at in given))
    masked = any(at.masked for at in given)
    if op.function.data == "select":
        return _selected(given, edges)
    if any(at.kind == "chosen" for at in given):
        return At("chosen", None, edges, masked)
    kinds = {at.kind for at in given}
    number = _number(op, given)
    if edges:
        return At("data", number, edges, masked)
    if kinds <= {"uniform"}:
        return At("uniform", number)
    return At("place", number) if kinds <= {"uniform", "place"} else At()


def _selected(given: Sequence[At], edges: Edges) -> At:
    """A choice between two tiles: by data, or by a mask."""
    condition, yes, no = given
    if condition.number is not None:
        taken = yes if condition.number else no
        number = taken.number
        if condition.kind == "place" and number is not None:
            return At("data", number, edges or frozenset(), True)
        return replace(taken, edges=edges or taken.edges) if edges else taken
    if condition.kind == "place":
        return At("chosen", None, edges, True)
    if yes.number is not None and yes.number == no.number:
        return At("data", yes.number, edges, yes.masked and no.masked)
    return At("data", None, edges)


def _number(op: Map, given: Sequence[At]) -> Any:
    """The number that a function gives past the end, whatever the operands that are not known."""
    name = op.function.data
    if name.startswith("cmpi_") and None in (given[0].number, given[1].number):
        within = _compared_with_range(op, given)
        return (
            within
            if within is not None
            else _compared(name.removeprefix("cmpi_").lstrip("su"), given)
        )
    if all(at.number is None for at in given):
        return None
    operands, result = op.element_types
    choices = [
        [at.number] if at.number is not None else _probes(element)
        for at, element in zip(given, operands, strict=True)
    ]
    function, found = op.scalar_function, list[Any]()
    for values in itertools.product(*choices):
        arrays = [np.asarray(v, value_dtype(e)) for v, e in zip(values, operands, strict=True)]
        with np.errstate(all="ignore"):
            found.append(function.evaluate(operands, result, *arrays).item())
    first = found[0]
    return first if all(other == first for other in found) else None


def _compared_with_range(op: Map, given: Sequence[At]) -> bool | None:
    """What a comparison of a number with a tile of known range gives, if it gives one answer."""
    known = given[0].number is not None
    number, other = given[not known].number, linear(op.arguments[known])
    if number is None or other is None or other.terms:
        return None
    operands, result = op.element_types
    ends = {other.least, other.most, min(max(number, other.least), other.most)}
    answers: set[bool] = set()
    for end in ends:
        pair = (number, end) if known else (end, number)
        arrays = [np.asarray(v, value_dtype(e)) for v, e in zip(pair, operands, strict=True)]
        answers.add(bool(op.scalar_function.evaluate(operands, result, *arrays)))
    return answers.pop() if len(answers) == 1 else None


def _compared(what: str, given: Sequence[At]) -> bool | None:
    """A coordinate past the end is not below a bound."""
    left, right = (at.kind == "place" for at in given)
    if left == right:
        return None
    if what in ("lt", "le"):
        return not left
    return left if what in ("gt", "ge") else None


def _probes(element: Attribute) -> list[Any]:
    """Numbers of a type that stand for all of them."""
    if not is_float(element):
        width = bits(element)
        if width == 1:
            return [False, True]
        return [-(1 << width - 1), -7, 0, 3, (1 << width - 1) - 1]
    big = float(np.finfo(value_dtype(element)).max) if value_dtype(element).kind == "f" else 1.0
    big = min(big, 60000.0)
    return [-big, -2.5, 0.75, 3.0, big]


_EXTREMES = {"argmax": ("maxnumf", "maxsi"), "argmin": ("minnumf", "minsi")}


def _is_neutral(kind: str, at: At, element: Attribute, value: SSAValue) -> bool:
    """Whether what is past the end leaves a combination as it is."""
    from tawa.ir.scalars.table import FUNCTIONS

    if kind in _EXTREMES:
        kind = _EXTREMES[kind][not is_float(element)]
    if at.number is None or kind not in FUNCTIONS:
        return False
    probes = [p for p in _probes(element) if not at.masked or abs(p) < 1000]
    if not at.masked and is_float(element):
        probes += [-3e38, 3e38]
    if kind.startswith("max") and _is_not_negative(value):
        probes = [p for p in probes if p >= 0]
    for probe in probes:
        arrays = [np.asarray(v, value_dtype(element)) for v in (at.number, probe)]
        with np.errstate(all="ignore"):
            if FUNCTIONS[kind].evaluate([element, element], element, *arrays) != arrays[1]:
                return False
    return True


def _is_not_negative(value: SSAValue) -> bool:
    """Whether no element is below zero."""
    owner = value.owner
    if isinstance(owner, ops.Splat) or spreads(owner):
        return _is_not_negative(owner.operands[0])
    if isinstance(owner, arith.ConstantOp):
        return (scalar_constant(value) or 0) >= 0
    if not isinstance(owner, Map):
        return False
    name, given = owner.function.data, owner.arguments
    if name in NOT_NEGATIVE:
        return True
    if name == "mulf" and given[0] == given[1]:
        return True
    if name in ("addf", "mulf", "extf", "truncf", "minnumf"):
        return all(_is_not_negative(v) for v in given)
    if name == "select":
        return all(_is_not_negative(v) for v in given[1:])
    return name == "maxnumf" and any(_is_not_negative(v) for v in given)


def _probe(row: Any, element: Attribute) -> SSAValue:
    """A tensor value with a shape and type, to build an op whose meaning is asked for."""
    from xdsl.dialects.builtin import TensorType
    from xdsl.dialects.test import TestOp

    return TestOp(result_types=[TensorType(element, row.shape)]).results[0]


def _unknown(tile: Tile) -> Tile:
    return tuple(replace(at, number=None, kind="chosen" if at.kind == "chosen" else "data")
                 for at in tile)  # fmt: skip


def _without(tile: Tile, axis: int) -> Tile:
    return (*tile[:axis], *tile[axis + 1 :])


def _met(one: At, other: At) -> At:
    """A factor along a batch's dimension: zero if either is."""
    zero = 0 in (one.number, other.number)
    return At("data", 0 if zero else None, one.edges | other.edges)


def _added(product: At, acc: At) -> At:
    """A product's rows, added to an accumulator's."""
    edges = product.edges | acc.edges
    if "chosen" in (product.kind, acc.kind) and edges:
        return At("chosen", None, edges)
    if not edges:
        return At()
    none = product.edges and product.number == 0
    number = acc.number if none and acc.number is not None else None
    return At("data", number, edges)


def _joined(ats: Sequence[At]) -> At:
    first = ats[0]
    edges = Edges().union(*(at.edges for at in ats))
    if all(at == first for at in ats):
        return first
    numbers = [at.number for at in ats]
    number = first.number if all(n is not None and n == first.number for n in numbers) else None
    kinds = {at.kind for at in ats}
    kind = first.kind if len(kinds) == 1 else "data"
    return At(kind, number, edges, all(at.masked for at in ats), _common_unit(ats))


def _arange(_: _PastEnds, op: Operation) -> Tile:
    return (At("place"),)


def _splat(_: _PastEnds, op: Operation) -> Tile:
    assert isinstance(op, ops.Splat)
    return tuple(At("uniform", scalar_constant(op.value)) for _ in shape_of(op.result.type))


def _broadcast(state: _PastEnds, op: Operation) -> Tile:
    assert isinstance(op, ops.Broadcast)
    source, target = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    return tuple(
        at if own == wanted else At("uniform", at.number if at.kind == "uniform" else None)
        for at, own, wanted in zip(state.of(op.operands[0]), source, target, strict=True)
    )


def _expand(state: _PastEnds, op: Operation) -> Tile:
    assert isinstance(op, ops.ExpandDims)
    axis, tile = op.axis.value.data, state.of(op.operands[0])
    return (*tile[:axis], At("uniform"), *tile[axis:])


def _trans(state: _PastEnds, op: Operation) -> Tile:
    assert isinstance(op, ops.Trans)
    tile = state.of(op.operands[0])
    return tuple(tile[d] for d in op.order.get_values())


def _reshape(state: _PastEnds, op: Operation) -> Tile:
    """Dimensions of one come and go; others that hold the same elements are looked at together."""
    source, target = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    given = [
        (at, size) for at, size in zip(state.of(op.operands[0]), source, strict=True) if size != 1
    ]
    made: list[At] = []
    wanted = [size for size in target if size != 1]
    while given:
        one, other = [given.pop(0)], [wanted.pop(0)]
        while (held := prod(size for _, size in one)) != (count := prod(other)):
            if held < count:
                one.append(given.pop(0))
            else:
                other.append(wanted.pop(0))
        made += _regrouped(one, other)
    rest = iter(made)
    return tuple(At("uniform") if size == 1 else next(rest) for size in target)


def _regrouped(given: Sequence[tuple[At, int]], sizes: Sequence[int]) -> list[At]:
    """The elements of some dimensions, in others of these sizes.

    What is past the end of the first dimension is past that of the new first one alone, if it
    begins where one of its places does. What else is past an end may lie anywhere.
    """
    (first, _), *others = given
    if len(given) == len(sizes) == 1:
        return [first]
    ended = [at for at, _ in others if at.edges]
    before = first.unit * prod(size for _, size in others)
    inside = prod(sizes[1:])
    if before % inside:
        ended.append(first)
    rest = replace(_joined(ended), unit=1) if any(at.edges for at in ended) else At()
    if before % inside:
        return [rest] * len(sizes)
    top = replace(first, kind=_mixed(first), unit=before // inside)
    if ended:
        top = replace(_joined([top, rest]), unit=1)
    return [top, *[rest] * (len(sizes) - 1)]


def _mixed(at: At) -> str:
    """What is known of a dimension that is not by itself any more."""
    return at.kind if at.kind == "chosen" else "data"


_RULES: dict[type[Operation], Callable[[_PastEnds, Any], Tile]] = {
    Map: _PastEnds.map,
    ops.Dot: _PastEnds.dot,
    ops.Reduce: _PastEnds.reduce,
    ops.Scan: _PastEnds.scan,
    ops.Arange: _arange,
    ops.Splat: _splat,
    ops.Broadcast: _broadcast,
    ops.ExpandDims: _expand,
    ops.Trans: _trans,
    ops.Reshape: _reshape,
}
"""What the results of pure ops hold; other ops may put anything anywhere."""
