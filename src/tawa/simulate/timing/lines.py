"""What a launch's time goes to, by line of the source, and what the time of each line is.

Of the actors that run side by side the one that waits least for others is what the launch takes as
long as: its lines are what there is to gain from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation

from tawa.base.spans import Span, span_of
from tawa.hopper.dialect.fragment import ShuffleXor
from tawa.hopper.dialect.lane_reduction import ReduceLanes
from tawa.hopper.dialect.lanes import ShuffleFrom
from tawa.hopper.dialect.warp_matrix import WarpProduct
from tawa.ir.effects import (
    COPYING,
    GLOBAL,
    MEETING,
    OPERANDS,
    PHASE,
    PRODUCTS,
    PROXY,
    SHARED,
    VOTE,
    touches,
)
from tawa.ir.elementwise import Map
from tawa.machine.instructions import SPECIAL
from tawa.simulate.timing.ledger import Account

WAITING = "waits for data or room"
MEETINGS = "warps meet"
DONE = "done before others"
OTHERS = frozenset((WAITING, MEETINGS, DONE))
"""What an actor spends on others."""
PRODUCING = "products"
SHARED_MEMORY = "shared memory"
LANES = "lanes exchange values"
FUNCTIONS = "special functions"
ARITHMETIC = "arithmetic"

Place = tuple[str, int]
"""A file and a line of it; ("", 0) for what no line asked for."""
NOWHERE: Place = ("", 0)


@dataclass(frozen=True)
class Line:
    """What the chosen actor spends on one line: cycles, by cause, the most first."""

    place: Place
    cycles: float
    causes: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Spent:
    """What an actor spends on each line, the most first, out of all cycles of a CTA."""

    actor: str
    cycles: float
    lines: tuple[Line, ...]


def cause_of(op: Operation) -> str:
    """What the time of an op goes to, by its effects."""
    for resource, cause in _CAUSES:
        if touches(op, resource):
            return cause
    if isinstance(op, WarpProduct):
        return PRODUCING
    if touches(op, SHARED) or touches(op, PROXY):
        return SHARED_MEMORY
    if touches(op, VOTE) or isinstance(op, ShuffleXor | ShuffleFrom | ReduceLanes):
        return LANES
    if isinstance(op, Map) and op.function.data in SPECIAL:
        return FUNCTIONS
    return ARITHMETIC


_CAUSES = (
    (PHASE, WAITING),
    (MEETING, MEETINGS),
    (PRODUCTS, PRODUCING),
    (OPERANDS, PRODUCING),
    (COPYING, "copies"),
    (GLOBAL, "device memory"),
)
CAUSES = frozenset((*dict(_CAUSES).values(), SHARED_MEMORY, LANES, FUNCTIONS, ARITHMETIC, DONE))
"""All that the time of a line may go to."""


def place_of(op: Operation) -> Place:
    """The line of the source that an op was made for."""
    span: Span | None = span_of(op)
    return (span.file, span.line) if span is not None else NOWHERE


def busiest(accounts: Sequence[Account]) -> Spent:
    """What the actor that waits least for others spends on each line."""
    return max(map(_spent, accounts), key=_own)


def _own(spent: Spent) -> float:
    return sum(c for line in spent.lines for cause, c in line.causes if cause not in OTHERS)


def _spent(account: Account) -> Spent:
    causes: dict[Place, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for op, cycles in account.spent.items():
        causes[place_of(op)][cause_of(op)] += cycles
    left = account.cycles - sum(account.spent.values())
    if left > 0.5:
        causes[NOWHERE][DONE] += left
    lines = [
        Line(place, sum(by.values()), tuple(sorted(by.items(), key=lambda item: -item[1])))
        for place, by in causes.items()
    ]
    ordered = sorted(lines, key=lambda line: -line.cycles)
    return Spent(account.actor, account.cycles, tuple(ordered))
