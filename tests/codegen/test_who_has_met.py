"""Whether threads have met right before they give back a slot, and who fills slots."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from xdsl.dialects.builtin import TensorType, f16
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation

from tawa.aref.dialect.ops import Consumed, Create, GetEnter, PutEnter, PutExit, Stage
from tawa.codegen import channels
from tawa.codegen.kernel_lowering import LoweredRing

TILE = TensorType(f16, (64, 64))


class Role:
    """A role with two rings of two tiles; of some, threads copy tiles, and some are boxes."""

    def __init__(self, first: Any, second: Any, **group: Any) -> None:
        self.rings = [Create(2, [TILE, TILE]) for _ in range(2)]
        self.gets = [GetEnter(ring.ref) for ring in self.rings]
        lowered = {
            ring.ref: LoweredRing([], ring.ref, ring.ref, 0, copied=frozenset(copied),
                                  boxed=frozenset(boxed))
            for ring, (copied, boxed) in zip(self.rings, (first, second), strict=True)
        }  # fmt: skip
        kind = SimpleNamespace(moves=group.get("moves"), converts=group.get("converts"))
        self.g: Any = SimpleNamespace(kernel=SimpleNamespace(rings=lowered), group=kind)

    def back(self, number: int, completion: str = "none") -> Consumed:
        get = self.gets[number]
        return Consumed(get.ref, get.token, completion)

    def has_met(self, before: Operation, last: Consumed) -> bool:
        Block([before, last])
        return channels._has_met(self.g, last)  # pyright: ignore[reportPrivateUsage]


ENGINE, THREADS, BOXES = ((), ()), ((0, 1), ()), ((0, 1), (1,))
ONE_EACH = ((0,), ())


@pytest.mark.parametrize(
    ("ring", "filled"), [(ENGINE, True), (THREADS, False), (BOXES, True), (ONE_EACH, True)]
)
def test_who_fills_a_slot(ring: Any, filled: bool) -> None:
    """The copy engine, unless threads copy all tiles and none of them is a box."""
    role = Role(ring, ENGINE)
    found = channels._filled_by_engine(role.g, role.back(0))  # pyright: ignore[reportPrivateUsage]
    assert found is filled


@pytest.mark.parametrize(
    ("first", "second", "met"),
    [(ENGINE, ENGINE, True), (ENGINE, THREADS, True), (THREADS, THREADS, True),
     (THREADS, ENGINE, False)],
)  # fmt: skip
def test_a_slot_that_was_given_back_right_before(first: Any, second: Any, met: bool) -> None:
    """They met then; for a slot of the copy engine they also have to have fenced."""
    role = Role(first, second)
    assert role.has_met(role.back(0), role.back(1)) is met


@pytest.mark.parametrize(("one", "other"), [("none", "wgmma"), ("wgmma", "none")])
def test_slots_that_products_give_back_are_no_meeting(one: str, other: str) -> None:
    role = Role(ENGINE, ENGINE)
    assert not role.has_met(role.back(0, one), role.back(1, other))


@pytest.mark.parametrize(
    ("group", "met"),
    [
        ({}, False),
        ({"moves": 1}, True),
        ({"converts": 1}, True),
        ({"moves": 1, "converts": 1}, True),
    ],
)
def test_roles_that_pass_tiles_on_met_when_they_published_them(
    group: dict[str, Any], met: bool
) -> None:
    role = Role(ENGINE, ENGINE, **group)
    ring = Create(2, [TILE])
    put = PutEnter(ring.ref)
    assert role.has_met(PutExit(ring.ref, put.token, "none"), role.back(1)) is met
    assert not role.has_met(Made(), role.back(0)), "anything else is no meeting"


@pytest.mark.parametrize("by_warps", [False, True])
def test_a_tile_that_was_staged_for_warp_groups(
    by_warps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "read_by_warps", lambda view: by_warps)
    role = Role(ENGINE, ENGINE)
    stage = Stage(Made(result_types=[TILE]).results[0])
    assert role.has_met(stage, role.back(0)) is not by_warps
