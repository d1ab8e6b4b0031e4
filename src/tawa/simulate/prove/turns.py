"""Slots and phases of a free wheel as numbers: terms that say how far they are from its turn.

A position is `turn + k` modulo twice the depth, with an unknown turn; its slot is the position
modulo the depth, its phase the quotient. What is computed of them is followed where it is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tawa.simulate.prove.unknowns import Number, Sum, Term, plus, symbols, term, zero


class NotFree(Exception):
    """A wheel's slot or phase is used in a way that depends on where it stands."""

    def __init__(self, wheel: int) -> None:
        super().__init__(wheel)
        self.wheel = wheel


class Turn(NamedTuple):
    """What a term of a free wheel says."""

    wheel: int
    depth: int
    position: int
    is_phase: bool
    term: Term


def slot_at(wheel: int, depth: int, position: int) -> Sum:
    """The slot of a position; two positions have the same if they are a depth apart."""
    return term("turn", "slot", wheel, depth, position % depth)


def phase_at(wheel: int, depth: int, position: int) -> Sum:
    """The phase of a position."""
    return term("turn", "phase", wheel, depth, position % (2 * depth))


def turn_in(found: Term) -> Turn | None:
    """What a term is, if it is one of a free wheel."""
    if found[0] != "turn":
        return None
    _, kind, wheel, depth, position = found
    assert isinstance(wheel, int) and isinstance(depth, int) and isinstance(position, int)
    return Turn(wheel, depth, position, kind == "phase", found)


def turn_of(number: object) -> Turn | None:
    """A slot or phase itself, and nothing added."""
    if not isinstance(number, Sum) or number.constant or len(number.terms) != 1:
        return None
    found, factor = number.terms[0]
    return turn_in(found) if factor == 1 else None


def wheel_in(number: Number) -> int | None:
    """A free wheel that a number depends on."""
    turns = (turn_in(found) for found in symbols(number) if found[0] == "turn")
    return next((turn.wheel for turn in turns if turn is not None), None)


def refuse_turns(number: Number) -> None:
    """Raise `NotFree` if a number depends on where a wheel stands."""
    wheel = wheel_in(number)
    if wheel is not None:
        raise NotFree(wheel)


def turned_back(wheel: int, by: int) -> Callable[[Sum], Number]:
    """What a sum is once the positions of a wheel are counted from `by` on."""

    def change(number: Sum) -> Number:
        total: Number = number.constant
        for found, factor in number.terms:
            turn, new = turn_in(found), Sum(0, ((found, 1),))
            if turn is not None and turn.wheel == wheel:
                make = phase_at if turn.is_phase else slot_at
                new = make(wheel, turn.depth, turn.position - by)
            total = plus(total, new, factor)
        return total

    return change


def computed(function: str, values: Sequence[Number]) -> Number | None:
    """A function of slots and phases, if it is one of them; None if nothing is known."""
    if function == "select":
        return _selected(*values)
    if function == "remsi":
        on = _further(values[0])
        if on is not None and on[0].depth == values[1]:
            return slot_at(on[0].wheel, on[0].depth, on[0].position + on[1])
    if function == "xori":
        a, b = values
        found = _flipped(a, b)
        return _flipped(b, a) if found is None else found
    return None


def _further(number: Number) -> tuple[Turn, int] | None:
    """A slot, and how many are added to it, at least none."""
    if isinstance(number, int) or number.constant < 0:
        return None
    turn = turn_of(plus(number, -number.constant))
    return None if turn is None or turn.is_phase else (turn, number.constant)


def _wraps(turn: Turn) -> Number:
    """1 where the next slot is the first."""
    return zero(plus(slot_at(turn.wheel, turn.depth, turn.position), 1 - turn.depth))


def _selected(condition: Number, yes: Number, no: Number) -> Number | None:
    """The next slot: the first one after the last."""
    on = _further(no)
    if on is None or on[1] != 1 or yes != 0 or condition != _wraps(on[0]):
        return None
    return slot_at(on[0].wheel, on[0].depth, on[0].position + 1)


def _flipped(phase: Number, by: Number) -> Number | None:
    """A phase that is changed always, or where its slot goes past the end."""
    turn = turn_of(phase)
    if turn is None or not turn.is_phase:
        return None
    steps = turn.depth if by == 1 else _steps(turn, by)
    return None if steps is None else phase_at(turn.wheel, turn.depth, turn.position + steps)


def _steps(turn: Turn, by: Number) -> int | None:
    """After how many slots a phase is another one where `by` is 1."""
    if by == _wraps(turn):
        return 1
    if isinstance(by, int) or by.constant or len(by.terms) != 1 or by.terms[0][1] != 1:
        return None
    found = by.terms[0][0]
    if found[:2] != ("op", "andi") or found[-1] != 1 or not isinstance(found[-2], Sum):
        return None
    # Of a quotient, whether it is odd: what is even besides makes no difference.
    odd = [(t, n) for t, n in found[-2].terms if n % 2]
    if len(odd) != 1 or found[-2].constant % 2 or odd[0][0][:2] != ("op", "divsi"):
        return None
    reached, depth = odd[0][0][-2:]
    on = _further(reached) if isinstance(reached, int | Sum) else None
    if on is None or depth != turn.depth or on[0].wheel != turn.wheel:
        return None
    return on[1] if (on[0].position - turn.position) % turn.depth == 0 else None
