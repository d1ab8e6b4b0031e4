"""Loops that wait for memory: programs take turns, and a loop that nobody can end is named."""

from __future__ import annotations

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
        "The simulator starts programs in the order of the grid, as a GPU does: the next one when "
        "all that run wait for memory in a loop, as many at a time as there are multiprocessors. "
        "When all of them wait and no more fit, nobody can end the loop that is named here. A "
        "program may wait for earlier ones; of later ones, only for those that run beside it."
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
            yield lambda: True


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


def take_turns(programs: Iterable[Iterator[Any]], resident: int) -> None:
    """Run programs to their ends, each until it waits; they start in order, so many at a time.

    Raises `WaitsForever`.
    """
    coming, running = iter(programs), list[tuple[Iterator[Any], Any]]()
    while True:
        at = next((n for n, (_, wait) in enumerate(running) if wait()), None)
        if at is not None:
            steps, _ = running.pop(at)
        else:
            steps = next(coming, None) if len(running) < resident else None
            if steps is None and running:
                raise waits_forever([wait for _, wait in running])
            if steps is None:
                return
        with suppress(StopIteration):
            running.append((steps, next(steps)))
