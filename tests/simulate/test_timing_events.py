"""What the timing machine makes of streams of events, to a thousandth of a cycle.

Rings between a loading and some computing actors, drawn: sizes, depths, products in flight, work,
stores, meetings, copies by threads, several CTAs on one multiprocessor or on two. The figures are
those that the machine had when they were written (`--update`); what they should be is measured
elsewhere (`test_timing_machine.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from tawa.machine.chips import H200
from tawa.simulate.interpret.errors import Deadlock
from tawa.simulate.timing.code import (
    ARRIVE,
    BULK_COMMIT,
    BULK_WAIT,
    COMMIT,
    COPY,
    COPY_ARRIVE,
    EXPECT,
    INIT,
    LOAD,
    MATRIX,
    MATRIX_WAIT,
    MEET,
    STORE,
    WAIT,
    WORK,
)
from tawa.simulate.timing.machine import Actor, Machine, Rates
from tawa.simulate.timing.memory import Misses
from tawa.simulate.timing.work import Work

FULL, EMPTY = 0, 1024
"""Where the rows of a ring's mbarriers begin."""
Steps = Iterator[tuple[Any, ...]]


class Drawn:
    """A ring of some slots that one actor fills and others read, so often."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.turns, self.depth = random.randint(1, 6), random.randint(1, 3)
        self.readers, self.ctas = random.randint(1, 3), random.choice((1, 1, 2))
        self.together = random.random() < 0.5
        self.size = random.choice((1024, 8192, 20000))
        self.by_threads = random.random() < 0.25
        self.shared = self.ctas > 1 and not self.by_threads and random.random() < 0.5
        self.pending = random.randint(0, 1)
        self.cycles, self.instructions = random.choice((32.0, 64.0, 128.0)), random.randint(0, 4)
        self.work = [
            Work(random.choice((2.0, 300.0)), random.choice((0.0, 80.0)),
                 random.choice((0.0, 500.0)), random.choice((0.0, 90.0)),
                 random.choice((0.0, 30.0)))
            for _ in range(random.randint(0, 2))
        ]  # fmt: skip
        self.stored = random.choice((0, 512, 16384))
        self.meets, self.number = random.random() < 0.4, random.randint(0, 1)
        self.announced = not self.by_threads and random.random() < 0.3
        fresh = (random.random(), random.random())
        self.rates = Rates(
            random.choice((25.0, 60.0)), 20.0, 300.0, random.choice((0.0, 400.0)), 30.0,
            Misses(fresh, (fresh[0], 1.5 * fresh[1]), random.choice((0.0, 0.3))),
            random.choice((0.0, 900.0)),
        )  # fmt: skip

    def loading(self, cta: int) -> Steps:
        """Set up, and fill the slots."""
        yield INIT, FULL, self.depth, 128 if self.by_threads else 1 + self.announced
        yield INIT, EMPTY, self.depth, self.readers * (self.ctas if self.shared else 1)
        yield MEET, -1, 32 * 4 * (1 + self.readers), 128, True
        for turn in range(self.turns):
            slot, again = 8 * (turn % self.depth), turn // self.depth & 1
            yield WAIT, EMPTY + slot, again ^ 1
            if self.by_threads:
                yield COPY, self.size
                yield COPY_ARRIVE, FULL + slot, 128
                continue
            yield EXPECT, FULL + slot, self.size
            if self.announced:
                yield ARRIVE, -1, FULL + slot, 1
            if not self.shared or turn % self.ctas == cta:
                mask = (1 << self.ctas) - 1 if self.shared else 0
                yield LOAD, FULL + slot, self.size, mask, turn == 3

    def computing(self) -> Steps:
        """Read the slots, and store what comes of them."""
        yield MEET, -1, 32 * 4 * (1 + self.readers), 128, True
        for turn in range(self.turns):
            slot, again = 8 * (turn % self.depth), turn // self.depth & 1
            yield WAIT, FULL + slot, again
            for _ in range(self.instructions):
                yield MATRIX, self.cycles
            if self.instructions:
                yield (COMMIT,)
                yield MATRIX_WAIT, self.pending
            for work in self.work:
                yield WORK, work
            if self.meets:
                yield (
                    MEET,
                    self.number,
                    128 * self.readers,
                    128,
                    turn % 2 == 0 or turn == self.turns - 1,
                )
            for cta in range(self.ctas) if self.shared else (-1,):
                yield ARRIVE, cta, EMPTY + slot, 1
            if self.stored:
                yield BULK_WAIT, 1
                yield STORE, self.stored
                yield (BULK_COMMIT,)
        yield MATRIX_WAIT, 0
        yield BULK_WAIT, 0

    def figures(self) -> str:
        """When each actor is done, what was used, and the end."""
        actors = [
            actor
            for cta in range(self.ctas)
            for actor in (
                Actor("load", cta, self.loading(cta)),
                *(Actor("math", cta, self.computing()) for _ in range(self.readers)),
            )
        ]
        places = [0 if self.together else cta for cta in range(self.ctas)]
        machine = Machine(H200, self.rates, actors, places)
        end = machine.run()
        own = " ".join(f"{actor.now:.3f}" for actor in actors)
        used = " ".join(f"{name} {cycles:.3f}" for name, cycles in sorted(machine.busy.items()))
        return f"{own}; {used}; {machine.loaded:g} and {machine.stored:g} bytes; {end:.3f}"


def test_streams_of_events(golden: Callable[[str, str], None]):
    lines = [f"{seed}: {Drawn(seed).figures()}" for seed in range(80)]
    golden("\n".join(lines) + "\n", "txt")


@pytest.mark.parametrize("steps", [
    [(INIT, FULL, 1, 1), (WAIT, FULL, 0)], [(MEET, 1, 256, 128, True)],
])  # fmt: skip
def test_who_waits_for_ever_is_named(steps: list[tuple[Any, ...]]):
    with pytest.raises(Deadlock, match="1 actors wait") as raised:
        Machine(H200, Rates(50.0, 20.0), [Actor("alone", 0, iter(steps))], [0]).run()
    assert raised.value.found == "alone"
