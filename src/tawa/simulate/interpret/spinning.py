"""Loops that wait for memory which nobody will change: programs run one after the other here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tawa.base.errors import TawaError
from tawa.base.spans import span_of

ITERATIONS = 100
"""Iterations without any change after which a loop is taken to wait for ever."""


class WaitsForever(TawaError):
    """A simulated program waits in a loop for what only a later program could do."""

    explanation = (
        "The simulator runs programs one after the other, in the order of the grid. A loop that "
        "waits until another program has written (a lock, a counter of finished parts) ends only "
        "if an earlier program has. On a GPU all programs that fit on the device run at the same "
        "time. Let programs wait for earlier ones, or run this kernel on a GPU."
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
    """What a loop carried in its last iteration, and since how many nothing has changed."""

    op: Operation
    program: Sequence[int]
    changes: int = -1
    carried: list[Any] = field(default_factory=list[Any])
    iterations: int = 0

    def iteration(self, changes: int, carried: Sequence[Any]) -> None:
        """Note an iteration; `changes` counts those of memory. Raises WaitsForever."""
        same = changes == self.changes and all(map(np.array_equal, carried, self.carried))
        self.iterations = self.iterations + 1 if same else 0
        self.changes, self.carried = changes, [np.array(value) for value in carried]
        if self.iterations >= ITERATIONS:
            raise WaitsForever(
                f"program {list(self.program)} waits for memory that nobody changes",
                span=span_of(self.op),
                expected="a loop whose end an earlier program, or this one, brings about",
                found=f"{ITERATIONS} iterations in which no value and no memory changed",
                hint="wait for earlier programs only, or run the kernel on a GPU",
            )
