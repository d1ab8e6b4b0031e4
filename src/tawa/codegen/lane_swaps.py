"""Layouts that differ within warps alone: registers change lanes by shuffles, without memory.

A layout whose extents are powers of two gives each bit of a register's, a lane's and a warp's
number a step along a dimension. Where two layouts have the same steps and the same warps, one
becomes the other by exchanges of a bit of the lanes with a bit of the registers, each a shuffle for
half of the registers. Through shared memory a tile is written and read, between two meetings.

Where lanes or warps hold copies, a thread asks the lane that holds its element, a shuffle for each
register. If the lane's register differs from one asking thread to the next, lanes that hold copies
each keep the half of their registers that is asked of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tawa.base.layout import LANES, REPLICA, Layout, Mode, Modes
from tawa.machine.chips import DEFAULT

MOST_SWAPS = DEFAULT.lane_exchanges
"""Exchanges of a bit that take no longer than shared memory."""

MOST_MOVES = DEFAULT.lane_moves
"""Shuffles, one after the other, that take no longer than shared memory."""

LANE_BITS = LANES.bit_length() - 1

PAIRED = 2
"""Bytes of the elements of which words hold two, that stay neighbours but where their bit moves."""

SIZES = (PAIRED, 4, 8)
"""Bytes of the elements that fill the words that lanes exchange, in pairs or alone."""

Step = tuple[int, int]
"""Dimension and distance of a bit of a number; of copies `COPY`."""
COPY: Step = (REPLICA, 0)
Steps = list[Step]


@dataclass(frozen=True)
class Swaps:
    """Bits of lanes and of registers that change places, in order, and the registers after it."""

    bits: tuple[tuple[int, int], ...]
    registers: tuple[int, ...]


def lane_swaps(source: Layout, result: Layout, size: int) -> Swaps | None:
    """How registers get from one layout to another; None if not so, or if memory is quicker."""
    have = [steps(m) for m in (source.reg, source.lane, source.warp)]
    want = [steps(m) for m in (result.reg, result.lane, result.warp)]
    if size not in SIZES or None in have or None in want:
        return None
    registers, lanes, warps = (list(steps or ()) for steps in have)
    wanted, wanted_lanes, wanted_warps = (list(steps or ()) for steps in want)
    if warps != wanted_warps or sorted(registers + lanes) != sorted(wanted + wanted_lanes):
        return None
    if len(lanes) != len(wanted_lanes) or len({*registers, *lanes}) < len(registers + lanes):
        return None
    if size == PAIRED and len(registers) < PAIRED:
        return None
    bits = _exchange(registers, lanes, wanted_lanes, by_way_of=1 if size == PAIRED else 0)
    if bits is None or not 0 < len(bits) <= MOST_SWAPS:
        return None
    if size == PAIRED and registers[0] != wanted[0]:
        return None
    return Swaps(tuple(bits), _permutation(registers, wanted))


def _exchange(
    registers: Steps, lanes: Steps, wanted: Steps, by_way_of: int
) -> list[tuple[int, int]] | None:
    """Swap bits until the lanes are as wanted; the lists follow.

    Two lanes' bits change places by way of a register's, given by number.
    """
    bits: list[tuple[int, int]] = []
    for place, step in enumerate(wanted):
        if lanes[place] == step:
            continue
        if step in lanes:
            if len(registers) <= by_way_of:
                return None
            bits.append(_swap(registers, lanes, by_way_of, lanes.index(step)))
        bits.append(_swap(registers, lanes, registers.index(step), place))
    return bits


def _swap(registers: Steps, lanes: Steps, register: int, lane: int) -> tuple[int, int]:
    registers[register], lanes[lane] = lanes[lane], registers[register]
    return 1 << lane, 1 << register


def _permutation(have: Steps, want: Steps) -> tuple[int, ...]:
    """For each register of a layout, the one of another that has its elements."""
    places = [have.index(step) for step in want]
    count = 1 << len(want)
    return tuple(sum((i >> k & 1) << place for k, place in enumerate(places)) for i in range(count))


def steps(of: Modes) -> Steps | None:
    """The step of each bit; None for extents that are no powers of two, and for copies."""
    found = _bits(of)
    return None if found is None or COPY in found else found


def modes(found: Steps) -> Modes:
    """The modes of bits with such steps: bits that go on along a dimension are one."""
    made: list[Mode] = []
    for dim, step in found:
        last = made[-1] if made else None
        if last is not None and last.dim == dim and step == last.stride * last.extent:
            made[-1] = replace(last, extent=2 * last.extent)
        else:
            made.append(Mode(2, dim, step))
    return tuple(made)


@dataclass(frozen=True)
class Moves:
    """How registers get from one layout to another within warps."""

    kept: tuple[tuple[int, int], ...]
    """Bits of registers, each with the bit of a thread's number that says which half it keeps."""
    registers: tuple[int, ...]
    """For each register of the result, the one among those kept."""
    threads: tuple[int, ...]
    """What each bit of a thread's number gives of the lane's number that it asks."""
    lanes: tuple[int, ...]
    """What each register's number gives."""

    @property
    def stays(self) -> bool:
        """Whether every thread has what it needs."""
        own = tuple(1 << bit for bit in range(LANE_BITS))
        return (
            not any(self.lanes)
            and self.threads[:LANE_BITS] == own
            and not any(self.threads[LANE_BITS:])
        )


def lane_moves(source: Layout, result: Layout, size: int) -> Moves | None:
    """How registers get from one layout to another; None if not so, or if memory is quicker."""
    if result.registers * math.ceil(size / 4) > MOST_MOVES or source.warps != result.warps:
        return None
    have = [_bits(m) for m in (source.reg, source.lane, source.warp)]
    want = [_bits(m) for m in (result.reg, result.lane, result.warp)]
    if None in have or None in want:
        return None
    registers, lanes, warps = (list(bits or ()) for bits in have)
    wanted, wanted_lanes, wanted_warps = (list(bits or ()) for bits in want)
    across = list(zip(warps, wanted_warps, strict=True))
    if COPY in registers or COPY in wanted or any(a not in (b, COPY) for a, b in across):
        return None
    asked = wanted_lanes + [b if a == COPY else COPY for a, b in across]
    plan = _Plan(registers, lanes, [0] * len(asked))
    if not all(plan.ask(bit, step) for bit, step in enumerate(asked) if step != COPY):
        return None
    return plan.moves(wanted)


class _Plan:
    """The moves found so far: registers that are left, lanes' bits that are not yet asked for."""

    def __init__(self, registers: list[Step], lanes: list[Step], threads: list[int]):
        self.registers, self.lanes, self.threads = registers, lanes, threads
        self.free = [bit for bit, step in enumerate(lanes) if step == COPY]
        self.kept: list[tuple[int, int]] = []

    def ask(self, bit: int, step: Step) -> bool:
        """Let a bit of a thread's number say which of two elements a step apart it gets."""
        if step in self.lanes:
            self.threads[bit] += 1 << self.lanes.index(step)
            return True
        if step not in self.registers:
            return False
        if bit < LANE_BITS:
            if not self.free:
                return False
            chosen = bit if bit in self.free else self.free[0]
            self.free.remove(chosen)
            self.threads[bit] += 1 << chosen
        else:
            chosen = bit
        place = self.registers.index(step)
        self.registers.pop(place)
        self.kept.append((1 << place, chosen))
        return True

    def moves(self, wanted: list[Step]) -> Moves | None:
        """The moves, once all bits of threads are asked: registers, or lanes by their number."""
        if any(step not in self.registers and step not in self.lanes for step in wanted):
            return None
        for bit in self.free:
            if not self.threads[bit]:
                self.threads[bit] = 1 << bit
        places = [self.registers.index(s) if s in self.registers else None for s in wanted]
        registers, lanes = list[int](), list[int]()
        for number in range(1 << len(wanted)):
            on = [k for k in range(len(wanted)) if number >> k & 1]
            registers.append(sum(1 << p for k in on if (p := places[k]) is not None))
            lanes.append(sum(1 << self.lanes.index(wanted[k]) for k in on if places[k] is None))
        return Moves(tuple(self.kept), tuple(registers), tuple(self.threads), tuple(lanes))


def _bits(of: Modes) -> list[Step] | None:
    """The step of each bit; None for extents that are no powers of two."""
    found: list[Step] = []
    for mode in of:
        if mode.extent & (mode.extent - 1):
            return None
        count = mode.extent.bit_length() - 1
        copy = mode.dim == REPLICA
        found += [COPY if copy else (mode.dim, mode.stride << k) for k in range(count)]
    return found
