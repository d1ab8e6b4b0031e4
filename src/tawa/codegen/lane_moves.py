"""Layouts whose threads find in their own warp what they need: one shuffle a register, no memory.

Each bit of a number of a register, a lane or a warp is a step along a dimension (see `lane_swaps`);
lanes and warps may have copies instead. A thread that needs an element asks the lane that holds it.
Where its register differs from one asking thread to the next, lanes that hold copies each keep the
half of their registers that is asked of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from tawa.base.layout import LANES, REPLICA, Layout, Mode, Modes
from tawa.codegen.group_lowering import GroupLowering
from tawa.hopper.dialect.fragment import Coordinate, Fill, Rearrange
from tawa.hopper.dialect.lane_moves import LANE_BITS, ShuffleFrom
from tawa.hopper.dialect.types import FragType
from tawa.ir.elementwise import Map
from tawa.machine.chips import DEFAULT

MOST_MOVES = DEFAULT.lane_moves
"""Shuffles, one after the other, that take no longer than shared memory."""

Step = tuple[int, int]
"""Dimension and distance of a bit; of copies `REPLICA`."""
COPY: Step = (REPLICA, 0)


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


def moved(g: GroupLowering, source: SSAValue, moves: Moves, layout: Layout) -> SSAValue:
    """A fragment in another layout, by these moves."""
    for register, thread in moves.kept:
        source = _kept_half(g, source, register, thread)
    if moves.stays:
        return g.add(Rearrange(source, moves.registers, layout))
    source = g.add(Rearrange(source, moves.registers, layout))
    return g.add(ShuffleFrom(source, moves.threads, moves.lanes, layout))


def _kept_half(g: GroupLowering, source: SSAValue, register: int, thread: int) -> SSAValue:
    """The registers whose number's bit is a bit of the thread's number."""
    assert isinstance(source.type, FragType)
    layout = source.type.layout
    count = layout.registers
    half = Layout((count // 2,), (Mode(count // 2, 0, 1),), (Mode(LANES, REPLICA, 0),),
                  (Mode(layout.warps, REPLICA, 0),))  # fmt: skip
    low = [r for r in range(count) if not r & register]
    sides = [g.add(Rearrange(source, [r | bit for r in low], half)) for bit in (0, register)]
    upper = g.add(Rearrange(_bit_of_thread(g, thread, layout.warps), [0] * len(low), half))
    return g.add(Map("select", [upper, sides[1], sides[0]]))


def _bit_of_thread(g: GroupLowering, bit: int, warps: int) -> SSAValue:
    """Whether a bit of each thread's number is set: one register."""

    def only(bits: int, bit: int) -> Modes:
        if not 0 <= bit < bits:
            return (Mode(1 << bits, REPLICA, 0),)
        sides = (Mode(1 << bit, REPLICA, 0), Mode(1 << bits - 1 - bit, REPLICA, 0))
        return (sides[0], Mode(2, 0, 1), sides[1])

    lane, warp = only(LANE_BITS, bit), only(warps.bit_length() - 1, bit - LANE_BITS)
    layout = Layout((2,), (), lane, warp)
    number = g.add(Coordinate(0, 0, layout))
    zero = g.add(Fill(g.constant(0), FragType.of(i32, layout)))
    return g.add(Map("cmpi_ne", [number, zero]))
