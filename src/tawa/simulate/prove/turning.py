"""Wheels that turn: rings of which it does not matter at which slot they stand.

A cursor is a slot and a phase, which go on by one slot at a time: `q % depth` and `q // depth` of
a position `q` modulo twice the depth. Once a wheel is *free*, a state stands for all its turns at
once: positions are `turn + k`, with an unknown turn. Slots and phases are terms that say `k`, and
what code computes of them is followed exactly: one slot on, `n` slots on, the other phase. Memory
and barriers are named as if the turn were 0; at another turn they are the same, each so many slots
further, and their phases the other ones where that goes past the end. So barriers may be used with
a cursor's slot and the phase that belongs to it, tiles may be reached by its slot, and only there:
whatever else is done with either raises `NotFree`, and the proof begins again with this wheel as it
stands.

To free a wheel takes all turns in beside the one that it has, so which values are cursors may be
guessed. To turn it back, so that a first cursor is at 0, only names the turn anew: the state stands
for the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from xdsl.ir import SSAValue

from tawa.base.numerics import Array
from tawa.hopper.dialect.types import MatrixDescType, TileType
from tawa.simulate.interpret.barriers import Mbarrier
from tawa.simulate.interpret.cta import Cta
from tawa.simulate.prove.actor import Walker
from tawa.simulate.prove.forget import change_all
from tawa.simulate.prove.path import Path
from tawa.simulate.prove.pieces import PieceShadow
from tawa.simulate.prove.state import Cluster
from tawa.simulate.prove.turns import phase_at, slot_at, turn_in, turn_of, turned_back
from tawa.simulate.prove.unknowns import Sum, Term, symbols
from tawa.simulate.prove.wheels import Wheel, ring_of

ADDRESS = 0x3FFF
"""The bits of a matrix descriptor that say where it begins, in 16 bytes."""


class _Held(NamedTuple):
    """A cursor's slot or phase that an actor holds, as a number."""

    actor: Walker
    value: SSAValue
    number: int
    position: int
    is_phase: bool


def free(actors: list[Walker], path: Path, wheels: list[Wheel]) -> None:
    """Free the wheels whose slots are named by cursors alone from here on."""
    for wheel in wheels:
        if wheel.number in path.free or any(
            wheel.number in actor.blocked[actor.at] for actor in actors if not actor.over
        ):
            continue
        found = _cursors(actors, wheel)
        if found is None:
            continue
        for held in found:
            make = phase_at if held.is_phase else slot_at
            held.actor.values[held.value] = make(wheel.number, wheel.depth, held.position)
        path.free |= {wheel.number}


def _cursors(actors: list[Walker], wheel: Wheel) -> list[_Held] | None:
    """All slots and phases that actors hold; None if one of them is no number of a cursor."""
    found: list[_Held] = []
    for actor in actors:
        live = actor.live[actor.at]
        for value in live:
            number = actor.values[value]
            if value in wheel.slots and wheel.depth > 1:
                if not isinstance(number, int):
                    return None
                if 0 <= number < wheel.depth:  # others, such as -1, stand for no slot
                    found.append(_Held(actor, value, number, number, False))
            elif value in wheel.phases:
                slot = _companion(actor, wheel, value)
                if slot is None or number not in (0, 1):
                    return None
                found.append(_Held(actor, value, number, number * wheel.depth + slot, True))
    return found


def _companion(actor: Walker, wheel: Wheel, phase: SSAValue) -> int | None:
    if wheel.depth == 1:
        return 0
    live = set(actor.live[actor.at])
    slots = {actor.values[s] for s in wheel.companions.get(phase, ()) if s in live}
    slot = slots.pop() if len(slots) == 1 else None
    return slot if isinstance(slot, int) else None


def turn_back(cluster: Cluster, path: Path, wheels: list[Wheel]) -> None:
    """Turn each free wheel so that the first cursor of it is at its first slot, and phase 0."""
    for wheel in wheels:
        if wheel.number in path.free:
            by = _first(cluster, wheel)
            if by and _reachable(cluster, wheel):
                _park(cluster, path, wheel)
                _turn(cluster, path, wheel, by)


def _park(cluster: Cluster, path: Path, wheel: Wheel) -> None:
    """Leave a wheel as it stands in CTAs none of whose actors comes to it again.

    Only others could then tell how it stands to the one that they use, by touching it.
    """
    for cta in cluster.machine.ctas:
        own = [actor for actor in cluster.actors if actor.cta is cta]
        if not any(_comes_to(actor, wheel) for actor in own):
            path.parked |= {(wheel.number, cta.rank)}


def _comes_to(actor: Walker, wheel: Wheel) -> bool:
    """Whether an actor may yet use a wheel, or holds a slot, a phase or a place of it."""
    if wheel.number in actor.rings[actor.at]:
        return True
    for value in actor.live[actor.at]:
        held = actor.values[value]
        if _terms_of(wheel, held):
            return True
        if isinstance(value.type, TileType | MatrixDescType) and held != _place(
            wheel, value, held, 1
        ):
            return True
    numbers = (n for loop in actor.loops_open for n in (loop.first, loop.end, loop.step))
    return any(_terms_of(wheel, number) for number in numbers)


def _turning(cluster: Cluster, path: Path, wheel: Wheel) -> list[Cta]:
    """The CTAs in which a wheel turns."""
    ctas = cluster.machine.ctas
    return [cta for cta in ctas if (wheel.number, cta.rank) not in path.parked]


def _first(cluster: Cluster, wheel: Wheel) -> int:
    """The position of the first cursor that an actor holds; 0 if there is none."""
    slot = 0
    for actor in cluster.actors:
        for value in actor.live[actor.at]:
            found = turn_of(actor.values[value])
            if found is not None and found.wheel == wheel.number:
                if found.is_phase:
                    return found.position
                slot = slot or found.position
    return slot


def _reachable(cluster: Cluster, wheel: Wheel) -> bool:
    """Whether it is known of every place that an actor holds if it lies in a slot of the wheel."""
    for actor in cluster.actors:
        for value in actor.live[actor.at]:
            if isinstance(value.type, TileType | MatrixDescType) and ring_of(value) is None:
                return False
    return True


def _turn(cluster: Cluster, path: Path, wheel: Wheel, by: int) -> None:
    """Name positions anew, so that `by` becomes 0, with everything that lies in the slots."""
    terms: set[Term] = set()
    for actor in cluster.actors:
        for value in actor.live[actor.at]:
            held = actor.values[value]
            if isinstance(value.type, TileType | MatrixDescType):
                actor.values[value] = _place(wheel, value, held, by)
            terms |= _terms_of(wheel, held)
        for loop in actor.loops_open:
            for number in (loop.first, loop.end, loop.step):
                terms |= _terms_of(wheel, number)
    change_all(list(cluster.actors), turned_back(wheel.number, by), terms)
    turning = _turning(cluster, path, wheel)
    columns, more = _components(cluster, turning, wheel, by)
    _turn_barriers(turning, wheel, by)
    cluster.change_clocks(lambda clock: _clock(clock, columns, more))
    for cta in cluster.machine.ctas:
        shadow = cta.shadow
        assert isinstance(shadow, PieceShadow)
        shadow.turn(wheel, by if cta in turning else 0, columns, more)
        cta.remote = [(int(columns[c]), t + int(more[c]), op, s) for c, t, op, s in cta.remote]


def _terms_of(wheel: Wheel, held: object) -> set[Term]:
    """The slots and phases of a wheel in what an actor holds."""
    if not isinstance(held, Sum):
        return set()
    turns = (turn_in(found) for found in symbols(held))
    return {t.term for t in turns if t is not None and t.wheel == wheel.number}


def _place(wheel: Wheel, value: SSAValue, held: int, by: int) -> int:
    slot = ring_of(value)
    assert slot is not None
    if isinstance(value.type, TileType):
        return wheel.turned(held, by)
    start = (held & ADDRESS) << 4
    return held + (wheel.turned(start, by) - start >> 4)


def _components(cluster: Cluster, ctas: list[Cta], wheel: Wheel, by: int) -> tuple[Array, Array]:
    """Where each clock component goes, and how much its times grow: by 1 past the wheel's end.

    A phase that comes past the end is the other one, and so are all that were before it.
    """
    count = len(cluster.machine.components.names)
    columns, more = np.arange(count), np.zeros(count, np.int32)
    for cta in ctas:
        for first in wheel.rows:
            for slot in range(wheel.depth):
                old = cta.barrier_components[first + 8 * slot]
                new, flips = _moved(wheel, slot, by)
                columns[old] = cta.barrier_components[first + 8 * new]
                more[old] = flips
    ranks = {cta.rank for cta in ctas}
    own = [f for f in cluster.fills if f.wheel == wheel.number and f.rank in ranks]
    at = {(f.rank, f.tiles, f.slot): f.component for f in own}
    for fill in own:
        columns[fill.component] = at[fill.rank, fill.tiles, (fill.slot - by) % wheel.depth]
    return columns, more


def _moved(wheel: Wheel, slot: int, by: int) -> tuple[int, int]:
    """A slot's new number; 1 if its phases become the other ones."""
    position = (slot - by) % (2 * wheel.depth)
    return position % wheel.depth, position // wheel.depth


def _clock(clock: Array, columns: Array, more: Array) -> Array:
    new = np.empty_like(clock)
    new[..., columns] = clock + more
    return new


def _turn_barriers(ctas: list[Cta], wheel: Wheel, by: int) -> None:
    for cta in ctas:
        new: dict[int, Mbarrier] = {}
        for first in wheel.rows:
            for slot in range(wheel.depth):
                barrier = cta.mbarriers[first + 8 * slot]
                to, flips = _moved(wheel, slot, by)
                at = first + 8 * to
                barrier.label, barrier.component = cta.place(at), cta.barrier_components[at]
                barrier.phase += flips
                barrier.passed = [w._replace(phase=w.phase + flips) for w in barrier.passed]
                new[at] = barrier
        cta.mbarriers.update(new)
