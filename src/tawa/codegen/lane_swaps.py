"""Layouts that differ within warps alone: registers change lanes by shuffles, without memory.

A layout whose extents are powers of two gives each bit of a register's, a lane's and a warp's
number a step along a dimension. Where two layouts have the same steps and the same warps, one
becomes the other by exchanges of a bit of the lanes with a bit of the registers, each a shuffle for
half of the registers. Through shared memory a tile is written and read, between two meetings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tawa.base.layout import REPLICA, Layout, Mode, Modes
from tawa.machine.chips import DEFAULT

MOST_SWAPS = DEFAULT.lane_exchanges
"""Exchanges of a bit that take no longer than shared memory."""

PAIRED = 2
"""Bytes of the elements of which words hold two, that stay neighbours but where their bit moves."""

SIZES = (PAIRED, 4, 8)
"""Bytes of the elements that fill the words that lanes exchange, in pairs or alone."""

Steps = list[tuple[int, int]]
"""Dimension and distance of each bit of a number."""


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
    found: Steps = []
    for mode in of:
        if mode.extent & (mode.extent - 1) or (mode.dim == REPLICA and mode.extent > 1):
            return None
        found += [(mode.dim, mode.stride << k) for k in range(mode.extent.bit_length() - 1)]
    return found


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
