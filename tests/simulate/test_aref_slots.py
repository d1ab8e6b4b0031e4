"""Slots of rings at the aref level: who has which, what may be read of them, what errors say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tawa.base.errors import TawaError
from tawa.simulate.interpret.aref_actor import ArefActor, Dot, Ring, Slot, Token, View, unchanged


def ring(slots: int = 3, consumers: int = 2, peer: Any = None) -> Ring:
    return Ring("ring", [Slot([np.zeros(2)]) for _ in range(slots)], consumers, True, peer=peer)


@pytest.mark.parametrize("use", range(8))
def test_the_slot_of_a_put(use: int) -> None:
    made = ring()
    token = Token(made, use, put=True)
    assert token.slot is made.slots[use % 3]
    assert token.generation == use // 3
    assert made.place(use) == f"slot {use % 3} of `ring`"


def test_returns_before_a_slot_is_empty() -> None:
    """Each consumer's; with multicast those of both CTAs."""
    assert ring(consumers=2).needed == 2
    assert ring(consumers=2, peer=ring()).needed == 4


class Actor(ArefActor):
    """One without a CTA."""

    def __init__(self) -> None:
        self.name, self.loops, self.dots, self.values = "math", [], [], {}
        self.op = SimpleNamespace(name="aref.view_read", attributes={}, parent_op=lambda: None)  # type: ignore[assignment]


def test_who_does_what() -> None:
    actor = Actor()
    assert actor.doing() == "math (outside loops): aref.view_read"
    actor.loops = [("k", 3), ("iteration", 0)]
    assert actor.doing() == "math (k = 3, iteration = 0): aref.view_read"
    actor.op = None
    assert actor.doing() == "math (k = 3, iteration = 0): start"


@pytest.mark.parametrize(
    ("put", "is_open", "found"),
    [
        (False, True, None), (True, True, "a slot being filled"),
        (False, False, "a slot that has been returned"), (True, False, "a slot being filled"),
    ],
)  # fmt: skip
def test_what_a_view_shows(put: bool, is_open: bool, found: str | None) -> None:
    """A tile between the get of a slot and its return; as its shape says."""
    actor, made = Actor(), ring()
    made.slots[1].tiles[0] = np.arange(4).reshape(2, 2)
    view = View(Token(made, 4, put, is_open), 0, np.transpose)
    if found is None:
        np.testing.assert_array_equal(actor.tile(view), [[0, 2], [1, 3]])
        return
    with pytest.raises(TawaError) as caught:
        actor.tile(view)
    assert caught.value.found == found
    assert "slot 1 of `ring` is read outside" in caught.value.message


def test_a_staged_tile_is_nobody_s_slot() -> None:
    assert Actor().tile(View(None, 0, unchanged, np.arange(3))).tolist() == [0, 1, 2]


@pytest.mark.parametrize("pending", [0, 1, 2, 3, 4])
def test_products_finish_in_their_order(pending: int) -> None:
    """All but so many of the newest; each computes once, what it reads is read by then."""
    actor, done = Actor(), list[int]()
    for number in range(3):
        actor.dots.append(Dot(lambda number=number: (done.append(number), np.zeros(1))[1], []))
    actor.finish_dots(pending)
    assert done == list(range(max(0, 3 - pending)))
    assert len(actor.dots) == min(3, pending)


def test_a_value_in_flight_is_not_read() -> None:
    actor = Actor()
    name: Any = SimpleNamespace(name_hint="sums")
    dot = Dot(lambda: np.ones(1), [])
    actor.values = SlotValues({id(name): dot})  # type: ignore[assignment]
    actor.dots.append(dot)
    with pytest.raises(TawaError, match="`sums` is read while its dot is in flight") as caught:
        actor.known(name)
    assert caught.value.found == "1 dots in flight"
    dot.value = np.ones(1)
    assert actor.known(name).tolist() == [1]


class SlotValues(dict[int, Any]):
    """Values by what names them."""

    def __getitem__(self, name: Any) -> Any:
        return super().__getitem__(id(name))

    def __setitem__(self, name: Any, value: Any) -> None:
        super().__setitem__(id(name), value)
