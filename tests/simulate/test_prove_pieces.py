"""Shared memory in pieces: as large as accesses allow, and where they are once a ring is turned."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tawa.simulate.interpret.clocks import SEEN, Components
from tawa.simulate.prove.pieces import SETTLED, NewRegion, PieceShadow, Regions
from tawa.simulate.prove.wheels import Wheel

RING = Wheel(0, 3, tiles=[(16, 16)])
"""Three slots of four granules, behind four others."""


def regions(*wheels: Wheel) -> Regions:
    """64 bytes in granules of four."""
    held: Any = SimpleNamespace(all=list(wheels))
    return Regions(16, 4, held)


def groups(found: Regions) -> list[list[int]]:
    """The granules of each piece."""
    return sorted(np.flatnonzero(found.piece == n).tolist() for n in range(found.pieces))


def test_pieces_are_what_accesses_take_whole():
    found = regions()
    found.add("all", slice(0, 8))
    found.add("some", np.array([2, 3, 9]))
    found.cut()
    assert groups(found) == [[0, 1, 4, 5, 6, 7], [2, 3], [8, 10, 11, 12, 13, 14, 15], [9]]
    assert not found.open
    whole, part = (found.found[key] for key in ("all", "some"))
    assert len(whole) == len(part) == 2
    assert len(np.intersect1d(whole, part)) == 1
    assert [found.piece[first] for first in found.first] == list(range(4))


@pytest.mark.parametrize("where", [slice(5, 7), np.array([5, 6]), slice(9, 11), np.array([13, 14])])
def test_what_is_accessed_in_one_slot_may_be_accessed_in_each(where: Any):
    found = regions(RING)
    found.add("x", where)
    found.cut()
    assert groups(found) == [[0, 1, 2, 3, 4, 7, 8, 11, 12, 15], [5, 6], [9, 10], [13, 14]]
    turned = found.turns[0]
    assert turned is not None
    at = [found.piece[first] for first in (5, 9, 13, 0)]
    assert turned[at].tolist() == [at[2], at[0], at[1], at[3]]


def test_what_lies_outside_the_ring_stays():
    found = regions(RING)
    found.add("before", slice(0, 2))
    found.cut()
    assert groups(found) == [[0, 1], list(range(2, 16))]
    assert found.turns[0] is not None
    assert found.turns[0].tolist() == list(range(found.pieces))


def test_a_ring_whose_slots_differ_is_not_turned():
    found = regions(RING, Wheel(1, 2, tiles=[(0, 8)]))
    found.known["part of one slot"] = np.arange(16) == 5
    found.cut()
    assert found.turns[0] is None
    assert found.turns[1] is not None


def test_memory_is_cut_once_nothing_new_has_come_for_long():
    found = regions()
    found.add("x", slice(0, 2))
    found.note(10)
    assert not found.is_settled(10 + SETTLED)
    assert found.is_settled(11 + SETTLED)
    found.note(20)  # nothing new
    assert found.is_settled(11 + SETTLED)
    found.add("y", slice(2, 4))
    found.note(30)
    assert not found.is_settled(11 + SETTLED)
    found.cut()
    assert not found.is_settled(1000)
    assert found.reopen()
    assert not found.is_settled(1000), "now all of it is collected"
    found.cut()
    assert not found.reopen()


def test_a_shadow_has_a_record_for_each_piece():
    found = regions()
    found.add((0, 8), slice(0, 8))
    found.add((4, 8), slice(4, 8))
    components = Components()
    first = components.add("warp", threads=True)
    assert PieceShadow(64, components, 4, found).pieces(slice(0, 8)) is None
    found.cut()
    shadow = PieceShadow(64, components, 4, found)
    whole, part = shadow.pieces(slice(0, 8)), shadow.pieces(slice(4, 8))
    assert whole is not None
    assert part is not None
    assert [len(whole), len(part)] == [2, 1]
    assert shadow.granule_of(int(part[0])) == 4
    shadow.note_write(slice(4, 8), first, 1, 7)
    clock = components.clock()
    conflict = shadow.check_write(slice(0, 8), clock, asynchronous=False)
    assert conflict == (4, first, 7, False, True)
    clock[SEEN, first] = 1
    assert shadow.check_write(slice(0, 8), clock, asynchronous=False) is None
    with pytest.raises(NewRegion):
        shadow.pieces(slice(1, 3))


def test_what_is_known_of_slots_is_turned_with_the_ring():
    """Of the components, the first is seen as the second then, three steps later."""
    found = regions(RING)
    found.add((4, 8), slice(4, 8))
    found.cut()
    components = Components()
    for name in ("a", "b"):
        components.add(name)
    shadow = PieceShadow(64, components, 4, found)
    shadow.note_write(slice(8, 12), 0, 5, 1)
    shadow.note_read(slice(8, 12), 1, 6, 2)
    shadow.note_write(slice(12, 16), 1, 2, 3)
    shadow.turn(RING, 1, np.array([1, 0]), np.array([3, 0]))
    pieces = [found.piece[at] for at in (4, 8, 12)]
    assert shadow.writer[pieces].tolist() == [1, 0, -1]
    assert shadow.written[pieces].tolist() == [8, 2, 0]
    assert shadow.read[pieces].tolist() == [[6, 0], [0, 0], [0, 0]]
    shadow.turn(RING, 3, np.array([0, 1]), np.array([0, 0]))  # all the way round
    assert shadow.written[pieces].tolist() == [8, 2, 0]
    shadow.turn(RING, 2, np.array([0, 1]), np.array([0, 0]))
    assert shadow.written[pieces].tolist() == [0, 8, 2]
