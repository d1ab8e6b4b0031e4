"""Lowering of running combinations: in each thread, then across lanes, then across warps.

An element's result is what comes before its thread's elements, combined with those up to it. So
each thread scans its own consecutive elements, the threads' totals are scanned by shuffles
(Hillis and Steele), the warps' totals through scratch space, and what came before is combined in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from tawa.base.layout import LANES, REPLICA, Layout, Mode
from tawa.base.types import i32, shape_of
from tawa.codegen.combining import Combine, Values, combine_with
from tawa.codegen.fragments import convert, exchanged, fragment, scratch_tile
from tawa.codegen.group_lowering import GroupLowering
from tawa.hopper.dialect.fragment import Coordinate, Fill, Rearrange, Relabel
from tawa.hopper.dialect.lanes import Assemble, ShuffleAlong
from tawa.hopper.dialect.memory import SharedLoad
from tawa.hopper.dialect.types import FragType
from tawa.ir.elementwise import Map
from tawa.machine.chips import DEFAULT
from tawa.tile.dialect.ops import Scan, ScanWith

LONGEST = DEFAULT.scanned_elements
"""Consecutive elements of a thread, if lanes can be had for more."""


@dataclass(frozen=True)
class Spread:
    """How a tile is spread for a scan along an axis.

    `chunk` elements follow each other in a thread, then `lanes` lanes, `below` apart, then warps.
    """

    axis: int
    chunk: int
    lanes: int
    warps: int
    below: int
    layout: Layout

    @property
    def totals(self) -> Layout:
        """The layout of one element for each thread's chunk."""
        shape, reg, lane, warp = self._modes()
        return Layout(_resized(shape, self.axis, self.lanes * self.warps), reg, lane, warp)

    def _modes(
        self,
    ) -> tuple[tuple[int, ...], tuple[Mode, ...], tuple[Mode, ...], tuple[Mode, ...]]:
        layout, axis = self.layout, self.axis
        reg = tuple(m for m in layout.reg if m.dim != axis)

        def shrunk(modes: tuple[Mode, ...]) -> tuple[Mode, ...]:
            return tuple(
                Mode(m.extent, m.dim, m.stride // self.chunk) if m.dim == axis else m for m in modes
            )

        return layout.shape, reg, shrunk(layout.lane), shrunk(layout.warp)

    def of_warps(self, *, together: bool) -> Layout:
        """The layout of one element for each warp's part: its own, or all of them everywhere."""
        shape, reg, lane, _ = self._modes()
        own = tuple(
            (Mode(m.extent, REPLICA, 0) if together else Mode(m.extent, m.dim, 1))
            if m.dim == self.axis
            else m
            for m in self.layout.warp
        )
        lane = tuple(Mode(m.extent, REPLICA, 0) if m.dim == self.axis else m for m in lane)
        extra = (Mode(self.warps, self.axis, 1),) if together else ()
        return Layout(_resized(shape, self.axis, self.warps), (*reg, *extra), lane, own)


def _resized(shape: tuple[int, ...], axis: int, extent: int) -> tuple[int, ...]:
    return (*shape[:axis], extent, *shape[axis + 1 :])


def spread(shape: tuple[int, ...], axis: int, warps: int) -> Spread:
    """Other dimensions have lanes and warps first; the axis those that are left."""
    extent, others = shape[axis], math.prod(shape) // shape[axis]
    across = math.gcd(LANES, others)
    while True:
        lanes = math.gcd(LANES // across, extent)
        outer = math.gcd(warps, others // across)
        along = math.gcd(warps // outer, extent // lanes)
        chunk = extent // (lanes * along)
        if chunk <= LONGEST or across == 1:
            break
        across //= 2
    left, stride = list(shape), [1] * len(shape)

    def take(count: int) -> tuple[list[Mode], int]:
        """Modes of the other dimensions, last first, for `count` lanes or warps."""
        modes: list[Mode] = []
        for dim in reversed(range(len(shape))):
            part = math.gcd(count, left[dim]) if dim != axis else 1
            if part > 1:
                modes.append(Mode(part, dim, stride[dim]))
                stride[dim] *= part
                left[dim] //= part
                count //= part
        return modes, count

    lane, _ = take(across)
    below = math.prod(m.extent for m in lane)
    warp, _ = take(outer)
    beside = math.prod(m.extent for m in warp)
    lane += [Mode(lanes, axis, chunk), Mode(LANES // (below * lanes), REPLICA, 0)]
    warp += [Mode(along, axis, chunk * lanes), Mode(warps // (beside * along), REPLICA, 0)]
    reg = [Mode(left[d], d, stride[d]) for d in reversed(range(len(shape))) if d != axis]
    reg.append(Mode(chunk, axis, 1))
    layout = Layout(
        shape, *(tuple(m for m in modes if m.extent > 1) for modes in (reg, lane, warp))
    )
    return Spread(axis, chunk, lanes, along, below, layout)


@dataclass
class Scanning:
    """One scan under way."""

    g: GroupLowering
    at: Spread
    combine: Combine
    reverse: bool

    def run(self, values: Values) -> Values:
        """The running combination of fragments in the scan's layout."""
        columns = self._columns(values)
        count = self.at.chunk
        order = range(count - 1, -1, -1) if self.reverse else range(count)
        found: dict[int, Values] = {}
        total: Values = []
        for i in order:
            total = self.combine(total, columns[i]) if total else columns[i]
            found[i] = total
        before = self._before(total)
        if before is not None:
            earlier, there = before
            for i in order:
                found[i] = self._choose(there, self.combine(earlier, found[i]), found[i])
        per = self.at.totals.registers
        sources = [(i, r) for i in range(count) for r in range(per)]
        if count == 1:
            return [self.g.add(Relabel(v, self.at.layout)) for v in found[0]]
        return [
            self.g.add(Assemble([found[i][n] for i in range(count)], sources, self.at.layout))
            for n in range(len(values))
        ]

    def _columns(self, values: Values) -> list[Values]:
        """Element `i` of each thread's chunk, for every `i`."""
        layout = self.at.totals
        per = layout.registers
        return [
            [self.g.add(Rearrange(v, range(i * per, (i + 1) * per), layout)) for v in values]
            for i in range(self.at.chunk)
        ]

    def _choose(self, there: SSAValue, yes: Values, no: Values) -> Values:
        return [self.g.add(Map("select", [there, a, b])) for a, b in zip(yes, no, strict=True)]

    def _number(self, value: int, layout: Layout) -> SSAValue:
        return self.g.add(Fill(self.g.constant(value), FragType.of(i32, layout)))

    def _compare(self, value: SSAValue, way: str, number: int, layout: Layout) -> SSAValue:
        return self.g.add(Map(f"cmpi_{way}", [value, self._number(number, layout)]))

    def _before(self, total: Values) -> tuple[Values, SSAValue] | None:
        """What comes before a thread's chunk, and whether there is anything; None if never."""
        at, layout = self.at, self.at.totals
        if at.lanes * at.warps == 1:
            return None
        place = self.g.add(Coordinate(at.axis, 0, layout))
        lane = self.g.add(Map("andi", [place, self._number(at.lanes - 1, layout)]))
        total = self._across_lanes(total, lane)
        last = at.lanes - 1 if self.reverse else 0
        earlier = [self._shuffled(v, 1) for v in total]
        there = self._compare(lane, "ne", last, layout)
        if at.warps == 1:
            return earlier, there
        warp = self.g.add(Map("shrsi", [place, self._number(at.lanes.bit_length() - 1, layout)]))
        carried = self._across_warps(total, warp)
        end = at.warps - 1 if self.reverse else 0
        follows = self._compare(warp, "ne", end, layout)
        with_warps = self._choose(there, self.combine(carried, earlier), carried)
        either = self.g.add(Map("ori", [there, follows]))
        return self._choose(follows, with_warps, earlier), either

    def _shuffled(self, value: SSAValue, distance: int) -> SSAValue:
        """The value of an earlier lane; of the last one for a distance below 0."""
        if self.at.lanes == 1:
            return value
        sign = -1 if self.reverse else 1
        return self.g.add(ShuffleAlong(value, self.at.below, self.at.lanes, sign * distance))

    def _across_lanes(self, total: Values, lane: SSAValue) -> Values:
        distance = 1
        while distance < self.at.lanes:
            others = [self._shuffled(v, distance) for v in total]
            if self.reverse:
                there = self._compare(lane, "slt", self.at.lanes - distance, self.at.totals)
            else:
                there = self._compare(lane, "sge", distance, self.at.totals)
            total = self._choose(there, self.combine(others, total), total)
            distance *= 2
        return total

    def _across_warps(self, total: Values, warp: SSAValue) -> Values:
        """What the warps before this one have in all (anything in the first)."""
        at, layout = self.at, self.at.totals
        own, every = at.of_warps(together=False), at.of_warps(together=True)
        rows: Values = []
        for value in total:
            whole = self.g.add(Relabel(self._shuffled(value, 1 - at.lanes), own))
            assert isinstance(whole.type, FragType)
            tile = scratch_tile(own.shape, whole.type.element_type)
            place = exchanged(self.g, whole, tile)
            rows.append(self.g.add(SharedLoad(place, whole.type.with_layout(every))))
        per = layout.registers
        columns = [
            [self.g.add(Rearrange(v, range(w * per, (w + 1) * per), layout)) for v in rows]
            for w in range(at.warps)
        ]
        order = range(at.warps - 1, 0, -1) if self.reverse else range(at.warps - 1)
        carried: Values = []
        for w in order:
            if not carried:
                carried = columns[w]
                continue
            there = self._compare(warp, "slt" if self.reverse else "sgt", w, layout)
            carried = self._choose(there, self.combine(carried, columns[w]), carried)
        return carried


def _scan(
    g: GroupLowering, operands: Values, results: Values, way: tuple[int, bool], combine: Combine
) -> None:
    axis, reverse = way
    at = spread(shape_of(operands[0].type), axis, g.warps)
    values = [fragment(g, v, at.layout) for v in operands]
    for old, new in zip(results, Scanning(g, at, combine, reverse).run(values), strict=True):
        new.name_hint = old.name_hint
        g.fragments[old] = convert(g, new, g.layouts.of[old])


def lower_scan(g: GroupLowering, op: Scan) -> None:
    """A scan with a scalar function."""

    def combine(left: Values, right: Values) -> Values:
        return [g.add(Map(op.kind.data, [left[0], right[0]]))]

    _scan(g, [op.value], [op.result], (op.axis.value.data, op.reverse is not None), combine)


def lower_scan_with(g: GroupLowering, op: ScanWith) -> None:
    """A scan of several tiles with any function."""
    way = op.axis.value.data, op.reverse is not None
    _scan(g, list(op.values), list(op.outputs), way, combine_with(g, op.body.block))


SCANS: dict[type[Operation], Callable[..., None]] = {Scan: lower_scan, ScanWith: lower_scan_with}
"""Lowering of scans."""
