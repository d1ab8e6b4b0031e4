"""Which values of actors are cursors of a wheel, and where they stand when it is freed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tawa.simulate.prove.turning import _cursors, free  # pyright: ignore[reportPrivateUsage]
from tawa.simulate.prove.turns import phase_at, slot_at


class Walking:
    """Stands for an actor at one place: what it holds, of which some is still used."""

    def __init__(self, live: str, **values: Any) -> None:
        self.at, self.over, self.live, self.blocked = 0, False, {0: live.split()}, {0: set[int]()}
        self.values = values


def wheel(depth: int = 3, **companions: list[str]) -> Any:
    """Of slots `s` and `t`, and phases `p` and `q`."""
    return SimpleNamespace(number=5, depth=depth, slots={"s", "t"}, phases={"p", "q"},
                           companions=companions or {"p": ["s"], "q": ["t"]})  # fmt: skip


def found(actor: Walking, of: Any) -> list[tuple[str, int, int, bool]] | None:
    held = _cursors([actor], of)  # type: ignore[list-item]
    return None if held is None else [(h.value, h.number, h.position, h.is_phase) for h in held]  # type: ignore[misc]


@pytest.mark.parametrize("slot", [-1, 0, 1, 2, 3])
def test_slots(slot: int) -> None:
    """Numbers that are none, such as -1, stand for no slot."""
    expected = [("s", slot, slot, False)] if 0 <= slot < 3 else []
    assert found(Walking("s x", s=slot, x=1), wheel()) == expected
    assert found(Walking("x", s=slot, x=1), wheel()) == [], "nobody uses it any more"


@pytest.mark.parametrize(
    ("slot", "phase", "position"), [(0, 0, 0), (2, 0, 2), (0, 1, 3), (2, 1, 5)]
)
def test_phases_stand_where_their_slots_do(slot: int, phase: int, position: int) -> None:
    held = found(Walking("s p", s=slot, p=phase), wheel())
    assert held == [("s", slot, slot, False), ("p", phase, position, True)]


@pytest.mark.parametrize(
    ("live", "values", "why"),
    [("s", {"s": "a term"}, "a slot that is no number"), ("s p", {"s": 1, "p": 2}, "no phase"),
     ("p", {"s": 1, "p": 0}, "a phase whose slot is not used any more"),
     ("s p", {"s": 1, "p": "a term"}, "a phase that is no number")],
)  # fmt: skip
def test_what_is_no_cursor(live: str, values: dict[str, Any], why: str) -> None:
    assert found(Walking(live, **values), wheel()) is None, why


def test_a_phase_of_two_slots_belongs_to_neither() -> None:
    both = wheel(p=["s", "t"])
    assert found(Walking("s t p", s=1, t=2, p=0), both) is None
    assert found(Walking("s t p", s=1, t=1, p=0), both) is not None


def test_a_ring_of_one_slot_has_phases_alone() -> None:
    """Its slot is always the first, and may be anything that says so."""
    assert found(Walking("s p", s="a term", p=1), wheel(1)) == [("p", 1, 1, True)]


def test_freeing_names_positions() -> None:
    one, other = Walking("s p", s=2, p=1), Walking("s", s=1)
    path: Any = SimpleNamespace(free=frozenset[int]())
    free([one, other], path, [wheel()])  # type: ignore[list-item]
    assert path.free == {5}
    assert one.values == {"s": slot_at(5, 3, 2), "p": phase_at(5, 3, 5)}
    assert other.values == {"s": slot_at(5, 3, 1)}


@pytest.mark.parametrize(("blocked", "over", "freed"), [(True, False, False), (True, True, True),
                                                        (False, False, True)])  # fmt: skip
def test_a_wheel_that_an_actor_blocks_stays(blocked: bool, over: bool, freed: bool) -> None:
    actor = Walking("s", s=1)
    actor.blocked, actor.over = {0: {5} if blocked else set()}, over
    path: Any = SimpleNamespace(free=frozenset[int]())
    free([actor], path, [wheel()])  # type: ignore[list-item]
    assert (path.free == {5}) is freed
    again: Any = SimpleNamespace(free=frozenset((5,)))
    before = dict(actor.values)
    free([actor], again, [wheel()])  # type: ignore[list-item]
    assert actor.values == before, "what is free already is left alone"


def test_one_that_is_no_cursor_leaves_all_as_it_is() -> None:
    actor = Walking("s t", s=1, t="a term")
    path: Any = SimpleNamespace(free=frozenset[int]())
    free([actor], path, [wheel()])  # type: ignore[list-item]
    assert path.free == frozenset()
    assert actor.values == {"s": 1, "t": "a term"}
