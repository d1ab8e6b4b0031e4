"""Rings that are followed without their place, and what of them is still seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from launches import LAUNCHES
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.rewriter import InsertPoint, Rewriter

from tawa.hopper.dialect.sync import MbarrierArrive, MbarrierWait
from tawa.ir.elementwise import Map
from tawa.simulate import prove
from tawa.simulate.prove import fixpoint
from tawa.simulate.prove.actor import Walker
from tawa.simulate.prove.turns import computed, phase_at, slot_at, turn_of, turned_back
from tawa.simulate.prove.unknowns import applied, plus, zero
from tawa.simulate.prove.wheels import Wheel

DEPTHS = (2, 3, 4, 5)


def meaning(number, turn: int):
    """A slot or phase at one of the wheel's turns."""
    found = turn_of(number)
    assert found is not None
    position = (turn + found.position) % (2 * found.depth)
    return position // found.depth if found.is_phase else position % found.depth


@pytest.mark.parametrize("depth", DEPTHS)
def test_what_is_computed_of_cursors_is_so_at_every_turn(depth: int):
    for position in range(2 * depth):
        slot, phase = slot_at(0, depth, position), phase_at(0, depth, position)
        wraps = zero(plus(plus(slot, 1), -depth))
        following = computed("select", [wraps, 0, plus(slot, 1)])
        flipped, other = computed("xori", [phase, wraps]), computed("xori", [phase, 1])
        for turn in range(2 * depth):
            s, p = meaning(slot, turn), meaning(phase, turn)
            assert meaning(following, turn) == (s + 1) % depth
            assert meaning(flipped, turn) == p ^ (s + 1 == depth)
            assert meaning(other, turn) == p ^ 1


@pytest.mark.parametrize("depth", DEPTHS)
def test_several_slots_on(depth: int):
    for position in range(2 * depth):
        slot, phase = slot_at(0, depth, position), phase_at(0, depth, position)
        for more in range(3 * depth):
            reached = plus(slot, more)
            times = applied("divsi", "i32", [reached, depth])
            flip = applied("andi", "i32", [times, 1])
            for turn in range(2 * depth):
                s, p = meaning(slot, turn), meaning(phase, turn)
                assert meaning(computed("remsi", [reached, depth]), turn) == (s + more) % depth
                flipped = computed("xori", [phase, flip])
                assert meaning(flipped, turn) == p ^ ((s + more) // depth & 1)


def test_nothing_is_said_of_what_is_not_a_cursor():
    slot, phase = slot_at(0, 4, 1), phase_at(0, 4, 1)
    wraps = zero(plus(slot, -3))
    assert computed("select", [wraps, 1, plus(slot, 1)]) is None
    assert computed("select", [zero(plus(slot, -2)), 0, plus(slot, 1)]) is None
    assert computed("select", [wraps, 0, plus(slot, 2)]) is None
    assert computed("remsi", [slot, 3]) is None
    assert computed("remsi", [plus(slot, -1), 4]) is None
    # The flip of another slot, and of another wheel.
    assert computed("xori", [phase, zero(plus(slot_at(0, 4, 2), -3))]) is None
    assert computed("xori", [phase, zero(plus(slot_at(1, 4, 1), -3))]) is None
    assert computed("xori", [slot, 1]) is None
    # What is no flip: other numbers, and more than the one bit.
    assert computed("xori", [phase, 2]) is None
    assert computed("xori", [phase, 0]) is None
    assert computed("xori", [phase, plus(wraps, 1)]) is None
    assert computed("xori", [phase, plus(1, wraps, -1)]) is None
    several = applied("andi", "i32", [applied("divsi", "i32", [plus(slot, 5), 4]), 1])
    assert computed("xori", [phase, several]) is not None
    for other in (plus(several, 1), plus(several, several), plus(several, wraps)):
        assert computed("xori", [phase, other]) is None
    for part, by in ((plus(slot, 5), 3), (plus(slot_at(1, 4, 1), 5), 4), (plus(slot, -5), 4)):
        other = applied("andi", "i32", [applied("divsi", "i32", [part, by]), 1])
        assert computed("xori", [phase, other]) is None


def test_turning_back_names_the_same_positions():
    depth = 3
    for position in range(2 * depth):
        for by in range(2 * depth):
            for make in (slot_at, phase_at):
                number = make(0, depth, position)
                new = turned_back(0, by)(number)
                for turn in range(2 * depth):
                    assert meaning(new, turn + by) == meaning(number, turn)
    assert turned_back(1, 1)(slot_at(0, 3, 1)) == slot_at(0, 3, 1)


# --- kernels ------------------------------------------------------------------------------------


def compiled(**options: object):
    """A GEMM that the compiler has given rings of three slots."""
    small = next(s for s in LAUNCHES if s.name == "gemm_bias")
    return small.sweep().module({"num_stages": 3, **options})


def test_a_ring_is_followed_from_one_slot_only(monkeypatch: pytest.MonkeyPatch):
    module = compiled(persistent=True)
    found = prove(module)
    monkeypatch.setattr(fixpoint, "free", lambda *_: None)
    without = prove(module)
    assert found.proved
    assert without.proved
    assert found.states * 2 < without.states


def specially_treated(module, kind: type, change) -> None:
    """Change what the first op of a kind in a loop uses of its cursor, in one of the slots."""
    op = next(op for op in module.walk() if isinstance(op, kind) and in_loop(op))
    one = arith.ConstantOp(IntegerAttr(1, i32))
    there = Map("cmpi_eq", [op.slot, one.result])
    Rewriter.insert_op([one, there, *change(op, one.result, there.result)], InsertPoint.before(op))


def in_loop(op) -> bool:
    while op is not None and not isinstance(op, scf.ForOp):
        op = op.parent_op()
    return op is not None


def other_slot(op, one, there):
    other = Map("subi", [op.slot, one])
    chosen = Map("select", [there, other.result, op.slot])
    op.operands[1] = chosen.result
    return [other, chosen]


def other_parity(op, one, there):
    flip = Map("extui", [there], i32)
    parity = Map("xori", [op.parity, flip.result])
    op.operands[2] = parity.result
    return [flip, parity]


@pytest.mark.parametrize(
    ("kind", "change"),
    [(MbarrierArrive, other_slot), (MbarrierWait, other_slot), (MbarrierWait, other_parity)],
)
def test_a_mistake_in_one_slot_alone_is_seen(kind: type, change):
    module = compiled()
    assert prove(module).proved
    specially_treated(module, kind, change)
    module.verify()
    assert not prove(module).proved


# --- where slots lie ------------------------------------------------------------------------------

PLACED = Wheel(5, 3, tiles=[(256, 128), (1024, 64)])
"""Three slots of 128 bytes from 256 on, and of 64 from 1024 on."""


@pytest.mark.parametrize(
    ("address", "slot", "turned"),
    [
        (255, None, 255), (256, (0, 256, 384), 512), (383, (0, 256, 384), 639),
        (384, (1, 384, 512), 256), (639, (2, 512, 640), 511), (640, None, 640),
        (1023, None, 1023), (1024, (0, 1024, 1088), 1152), (1215, (2, 1152, 1216), 1151),
        (1216, None, 1216),
    ],
)  # fmt: skip
def test_the_slot_of_an_address(address: int, slot: tuple[int, int, int] | None, turned: int):
    assert PLACED.slot_at(address) == slot
    assert PLACED.turned(address, 1) == turned
    assert PLACED.turned(PLACED.turned(address, 1), 2) == address


@pytest.mark.parametrize(
    ("begin", "end", "met"),
    [
        (0, 256, False), (0, 257, True), (639, 640, True), (640, 1024, False), (640, 1025, True),
        (1215, 1300, True), (1216, 1300, False),
    ],
)  # fmt: skip
def test_whether_bytes_are_of_slots(begin: int, end: int, met: bool):
    assert PLACED.meets(begin, end) is met


@pytest.mark.parametrize("region", [slice(4, 6), np.asarray([4, 5])])
def test_the_bytes_that_an_op_reaches_end_behind_its_last_granule(region: Any):
    """Granules of 64 bytes: the first and the one behind the last, times 64."""
    seen: list[tuple[int, int]] = []
    walker: Any = SimpleNamespace(
        cta=SimpleNamespace(shadow=SimpleNamespace(granule=64)), values={},
        wheels=SimpleNamespace(check_inside=lambda op, values, parts: seen.extend(parts)),
    )  # fmt: skip
    Walker._check_inside(walker, SimpleNamespace(), [region])  # pyright: ignore
    assert seen == [(256, 384)]
