"""Loops that wait for memory: programs take turns, and a loop that nobody can end is named."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from xdsl.dialects import scf

from tawa.base.errors import TawaError
from tawa.base.spans import span_of
from tawa.ir.waits import deciding_numbers

TURN = 1000
"""Iterations of a `while` loop after which another program has its turn."""

Wait = Callable[[], bool]
"""Whether a program can go on."""


class Changing(Protocol):
    """Memory that counts its changes."""

    changes: int


class WaitsForever(TawaError):
    """A simulated program waits in a loop for what only a later program could do."""

    explanation = (
        "The simulator starts programs in the order of the grid, as a GPU does. It starts the "
        "next one when all that run wait for memory in a loop. At most as many run at a time as "
        "there are multiprocessors. When all of them wait and no more fit, nobody can end the "
        "loop that is named here. A program may wait for earlier ones. It may wait for a later "
        "one only if the two run at the same time."
    )
    example = """
import numpy as np
import tawa
import tawa.language as tl


@tawa.jit
def wait(flag):
    while tl.atomic_add(flag, 0) == 0:
        pass


wait[(1,)](np.zeros(1, np.int32))
"""


@dataclass
class Spinning:
    """What decides about a loop: its value in the last iteration, and the memory."""

    op: scf.WhileOp
    program: Sequence[int]
    memory: Changing
    changes: int = -1
    carried: list[Any] = field(default_factory=list[Any])
    iterations: int = 0

    def __post_init__(self) -> None:
        self.numbers = deciding_numbers(self.op)

    def iteration(self, carried: Sequence[Any]) -> Iterator[Wait]:
        """Begin an iteration: wait if the last one has changed nothing that decides."""
        deciding = [carried[n] for n in self.numbers]
        same = self.changes == self.memory.changes and all(
            map(np.array_equal, deciding, self.carried)
        )
        self.changes, self.carried = self.memory.changes, [np.array(v) for v in deciding]
        self.iterations += 1
        if same:
            yield Change(self, self.memory.changes)
        elif self.iterations % TURN == 0:
            yield always


@dataclass(frozen=True)
class Change:
    """A loop waits until memory is no longer what it was."""

    spinning: Spinning
    since: int

    def __call__(self) -> bool:
        """Whether it has changed."""
        return self.spinning.memory.changes != self.since

    def ready(self) -> bool:
        """Whether it has changed."""
        return self()

    def describe(self) -> str:
        """Who waits, for messages."""
        return f"program {list(self.spinning.program)} waits for memory to change"


def waits_forever(waits: Sequence[Change]) -> WaitsForever:
    """Nobody can end these loops."""
    first = waits[0].spinning
    return WaitsForever(
        f"program {list(first.program)} waits for memory that nobody changes",
        span=span_of(first.op),
        expected="a loop whose end an earlier program, or one that runs beside it, brings about",
        found=f"{len(waits)} program(s) that wait, and none that can go on or start",
        hint="wait for earlier programs, or launch no more programs than run at the same time",
    )


@dataclass(frozen=True)
class Order:
    """How the programs of a launch are interleaved.

    By itself a program runs to its end, or until it waits. With `switching`, another one has its
    turn at each access of memory: all in step, or, with a `seed`, one drawn at random. In step,
    the first to start has the first turn; `backwards`, the last of those that fit.
    """

    switching: bool = False
    seed: int | None = None
    backwards: bool = False

    def describe(self) -> str:
        """The order as words."""
        if not self.switching:
            return "one after the other"
        if self.seed is not None:
            return f"drawn with seed {self.seed}"
        return "in step, backwards" if self.backwards else "in step"


ONE_BY_ONE = Order()


def always() -> bool:
    """What a program waits for that only lets others have their turn."""
    return True


def take_turns(programs: Iterable[Iterator[Any]], resident: int, order: Order = ONE_BY_ONE) -> None:
    """Run programs to their ends, each until it waits; they start in order, so many at a time.

    Raises `WaitsForever`.
    """
    coming, running = iter(programs), list[tuple[Iterator[Any], Any]]()
    rng = None if order.seed is None else random.Random(order.seed)
    turns = order.backwards
    while True:
        starts = order.switching and (rng is None or rng.random() < 0.5)
        steps = next(coming, None) if starts and len(running) < resident else None
        if steps is None:
            if turns:
                running.reverse()
                turns = False
            at = _chosen(running, rng)
            if at is not None:
                steps, _ = running.pop(at)
            elif len(running) < resident:
                steps = next(coming, None)
        if steps is None and running:
            raise waits_forever([wait for _, wait in running])
        if steps is None:
            return
        with suppress(StopIteration):
            running.append((steps, next(steps)))


def _chosen(running: Sequence[tuple[Any, Wait]], rng: random.Random | None) -> int | None:
    """The place of a program that can go on: the one that has waited longest, or any."""
    ready = (n for n, (_, wait) in enumerate(running) if wait())
    if rng is None:
        return next(ready, None)
    able = list(ready)
    return rng.choice(able) if able else None
