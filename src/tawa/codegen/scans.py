"""Lowering of running combinations: in each thread, then across lanes, then across warps.

An element's result is what comes before its thread's elements, combined with those up to it. So
each thread scans its own consecutive elements, the threads' totals are scanned by shuffles
(Hillis and Steele), those of a warp's next rows of lanes behind them, the warps' totals through
scratch space, and what came before is combined in.
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

Before = tuple[Values, SSAValue | None]
"""What comes before a chunk, and whether anything does; None if always."""

LONGEST = DEFAULT.scanned_elements
"""Consecutive elements of a thread, if lanes can be had for more."""


@dataclass(frozen=True)
class Spread:
    """How a tile is spread for a scan along an axis.

    `chunk` elements follow each other in a thread, then `lanes` lanes, `below` apart, then `blocks`
    such rows of the same warp, then warps.
    """

    axis: int
    chunk: int
    lanes: int
    warps: int
    below: int
    layout: Layout
    blocks: int = 1

    @property
    def totals(self) -> Layout:
        """The layout of one element for each thread's chunk, of one block."""
        return self._of_chunks(1)

    @property
    def of_blocks(self) -> Layout:
        """The same of all blocks, the last digit of the registers."""
        return self._of_chunks(self.blocks)

    def _of_chunks(self, blocks: int) -> Layout:
        axis = self.axis
        strides = (1, self.lanes * blocks)
        lane, warp = (
            tuple(Mode(m.extent, axis, stride) if m.dim == axis else m for m in modes)
            for modes, stride in zip((self.layout.lane, self.layout.warp), strides, strict=True)
        )
        more = (Mode(blocks, axis, self.lanes),) if blocks > 1 else ()
        shape = _resized(self.layout.shape, axis, self.lanes * blocks * self.warps)
        return Layout(shape, (*self._others, *more), lane, warp)

    @property
    def _others(self) -> tuple[Mode, ...]:
        return tuple(m for m in self.layout.reg if m.dim != self.axis)

    def registers(self, block: int, place: int) -> list[int]:
        """The registers of the layout that hold an element of each chunk of a block."""
        along = place + block * self.chunk * self.lanes
        first = self.layout.coordinates[0]
        held = {tuple(int(x) for x in where): r for r, where in enumerate(first)}
        base = int(first[0, self.axis])
        return [
            held[(*map(int, w[: self.axis]), base + along, *map(int, w[self.axis + 1 :]))]
            for w in self.totals.coordinates[0]
        ]

    def of_warps(self, *, together: bool) -> Layout:
        """The layout of one element for each warp's part: its own, or all of them everywhere."""
        own = tuple(
            (Mode(m.extent, REPLICA, 0) if together else Mode(m.extent, m.dim, 1))
            if m.dim == self.axis
            else m
            for m in self.layout.warp
        )
        lane = tuple(
            Mode(m.extent, REPLICA, 0) if m.dim == self.axis else m for m in self.layout.lane
        )
        extra = (Mode(self.warps, self.axis, 1),) if together else ()
        shape = _resized(self.layout.shape, self.axis, self.warps)
        return Layout(shape, (*self._others, *extra), lane, own)


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


def as_it_lies(layout: Layout, axis: int) -> Spread | None:
    """A layout as one to scan in, if its digits along the axis follow in a scan's order."""
    reg, lane, warp = (
        [m for m in modes if m.dim == axis] for modes in (layout.reg, layout.lane, layout.warp)
    )
    chunk = reg.pop(0).extent if reg and reg[0].stride == 1 else 1
    extents, stride = list[int](), chunk
    for modes in (lane, reg, warp):
        if len(modes) > 1 or (modes and modes[0].stride != stride):
            return None
        extents.append(modes[0].extent if modes else 1)
        stride *= extents[-1]
    lanes, blocks, warps = extents
    if stride != layout.shape[axis]:
        return None
    below = math.prod(m.extent for m in layout.lane[: layout.lane.index(lane[0])]) if lane else 1
    return Spread(axis, chunk, lanes, warps, below, layout, blocks)


def chosen(held: Layout | None, shape: tuple[int, ...], axis: int, warps: int) -> Spread:
    """The layout in which a tile is held, if a scan can be done in it: exchanges cost more.

    A block takes a shuffle for each doubling of its lanes and two for what comes before it, seven
    at most. An exchange before the scan and one behind it store and load each element once, with an
    address for each, and the whole tile lies in shared memory.
    """
    own = as_it_lies(held, axis) if held is not None else None
    return own if own is not None else spread(shape, axis, warps)


@dataclass
class Scanning:
    """One scan under way."""

    g: GroupLowering
    at: Spread
    combine: Combine
    reverse: bool

    def run(self, values: Values) -> Values:
        """The running combination of fragments in the scan's layout."""
        found = [self._within(values, block) for block in range(self.at.blocks)]
        end = 0 if self.reverse else -1
        befores = self._before([columns[end] for columns in found])
        for columns, before in zip(found, befores, strict=True):
            if before is None:
                continue
            earlier, there = before
            for i, column in enumerate(columns):
                both = self.combine(earlier, column)
                columns[i] = both if there is None else self._choose(there, both, column)
        return [self._whole([[c[n] for c in columns] for columns in found])
                for n in range(len(values))]  # fmt: skip

    def _within(self, values: Values, block: int) -> list[Values]:
        """The running combination of each thread's chunk of a block."""
        at, total = self.at, list[SSAValue]()
        places = range(at.chunk)
        found: dict[int, Values] = {}
        for i in reversed(places) if self.reverse else places:
            column = [self.g.add(Rearrange(v, at.registers(block, i), at.totals)) for v in values]
            total = found[i] = self.combine(total, column) if total else column
        return [found[i] for i in places]

    def _whole(self, columns: list[list[SSAValue]]) -> SSAValue:
        """The fragment whose blocks and places are given."""
        at = self.at
        if at.chunk * at.blocks == 1:
            return self.g.add(Relabel(columns[0][0], at.layout))
        sources = [(0, 0)] * at.layout.registers
        for block in range(at.blocks):
            for i in range(at.chunk):
                for register, to in enumerate(at.registers(block, i)):
                    sources[to] = block * at.chunk + i, register
        return self.g.add(Assemble([v for row in columns for v in row], sources, at.layout))

    def _choose(self, there: SSAValue, yes: Values, no: Values) -> Values:
        return [self.g.add(Map("select", [there, a, b])) for a, b in zip(yes, no, strict=True)]

    def _number(self, value: int, layout: Layout) -> SSAValue:
        return self.g.add(Fill(self.g.constant(value), FragType.of(i32, layout)))

    def _compare(self, value: SSAValue, way: str, number: int, layout: Layout) -> SSAValue:
        return self.g.add(Map(f"cmpi_{way}", [value, self._number(number, layout)]))

    def _before(self, totals: list[Values]) -> list[Before | None]:
        """What comes before a thread's chunk of each block."""
        at, layout = self.at, self.at.totals
        if at.lanes * at.blocks * at.warps == 1:
            return [None]
        place = self.g.add(Coordinate(at.axis, 0, layout))
        lane = self.g.add(Map("andi", [place, self._number(at.lanes - 1, layout)]))
        totals = self._blocks_across_lanes(totals)
        there = self._compare(lane, "ne", at.lanes - 1 if self.reverse else 0, layout)
        found, whole = self._across_blocks(totals, there)
        if at.warps == 1:
            return list(found)
        warp = self.g.add(Map("shrsi", [place, self._number(at.lanes.bit_length() - 1, layout)]))
        carried = self._across_warps(whole, warp)
        follows = self._compare(warp, "ne", at.warps - 1 if self.reverse else 0, layout)
        return [self._behind(carried, follows, before) for before in found]

    def _behind(self, carried: Values, follows: SSAValue, before: Before) -> Before:
        """What comes before a chunk, with that of the warps before, where there are any."""
        earlier, there = before
        both = self.combine(carried, earlier)
        if there is None:
            return self._choose(follows, both, earlier), None
        with_warps = self._choose(there, both, carried)
        either = self.g.add(Map("ori", [there, follows]))
        return self._choose(follows, with_warps, earlier), either

    def _across_blocks(self, totals: list[Values], there: SSAValue) -> tuple[list[Before], Values]:
        """What comes before a chunk in its warp, where lanes (`there`) or blocks do; and all."""
        count, run = len(totals), list[SSAValue]()
        found: dict[int, Before] = {}
        for block in reversed(range(count)) if self.reverse else range(count):
            earlier = [self._shuffled(v, 1) for v in totals[block]]
            found[block] = earlier, there
            if run:
                found[block] = self._choose(there, self.combine(run, earlier), run), None
            whole = [self._shuffled(v, 1 - self.at.lanes) for v in totals[block]]
            run = self.combine(run, whole) if run else whole
        return [found[block] for block in range(count)], run

    def _blocks_across_lanes(self, totals: list[Values]) -> list[Values]:
        """The running combination of the lanes' totals of each block, all at once."""
        at, layout, per = self.at, self.at.of_blocks, self.at.totals.registers
        sources = [(b, r) for b in range(at.blocks) for r in range(per)]
        together = totals[0]
        if at.blocks > 1:
            rows = zip(*totals, strict=True)
            together = [self.g.add(Assemble(list(row), sources, layout)) for row in rows]
        place = self.g.add(Coordinate(at.axis, 0, layout))
        lane = self.g.add(Map("andi", [place, self._number(at.lanes - 1, layout)]))
        scanned = self._across_lanes(together, lane, layout)
        if at.blocks == 1:
            return [scanned]
        return [
            [self.g.add(Rearrange(v, range(b * per, (b + 1) * per), at.totals)) for v in scanned]
            for b in range(at.blocks)
        ]

    def _shuffled(self, value: SSAValue, distance: int) -> SSAValue:
        """The value of an earlier lane; of the last one for a distance below 0."""
        if self.at.lanes == 1:
            return value
        sign = -1 if self.reverse else 1
        return self.g.add(ShuffleAlong(value, self.at.below, self.at.lanes, sign * distance))

    def _across_lanes(self, total: Values, lane: SSAValue, layout: Layout) -> Values:
        distance = 1
        while distance < self.at.lanes:
            others = [self._shuffled(v, distance) for v in total]
            if self.reverse:
                there = self._compare(lane, "slt", self.at.lanes - distance, layout)
            else:
                there = self._compare(lane, "sge", distance, layout)
            total = self._choose(there, self.combine(others, total), total)
            distance *= 2
        return total

    def _across_warps(self, wholes: Values, warp: SSAValue) -> Values:
        """What the warps before this one have in all (anything in the first)."""
        at, layout = self.at, self.at.totals
        own, every = at.of_warps(together=False), at.of_warps(together=True)
        rows: Values = []
        for value in wholes:
            whole = self.g.add(Relabel(value, own))
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
    held = g.layouts.of.get(operands[0])
    at = chosen(held, shape_of(operands[0].type), axis, g.warps)
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
