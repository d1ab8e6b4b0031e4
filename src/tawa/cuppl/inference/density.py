"""A program's log density on unconstrained reals, with its gradient."""

from __future__ import annotations

import math
from threading import Event

import numpy as np
import numpy.typing as npt

from tawa.cuppl.cpu.executable import FIELD, Executable, new_context
from tawa.cuppl.inference.settings import Limits, failure
from tawa.cuppl.natives import starts
from tawa.cuppl.natives import tape as k
from tawa.cuppl.natives.nuts import CHANGED, FAILED, FULL
from tawa.cuppl.natives.starts import ELSEWHERE, STEEP
from tawa.cuppl.typing.errors import UnsupportedMethod
from tawa.cuppl.typing.failures import (
    ALL_ZERO,
    DEPTH,
    DISCRETE_CHOICE,
    FAILURES,
    HEAP_FULL,
    INVALID_PARAMETER,
    NAN_WEIGHT,
    REJECTED,
)
from tawa.functional.errors import FunctionalError

__all__ = ["GRADIENT", "LEVELS", "STEEP", "Density"]

Floats = npt.NDArray[np.float64]
ATTEMPTS = 2 * starts.WIDE
"""Starts that are tried: half of them between -2 and 2, the others nearer and nearer to 0."""
NARROWER = 0.97
GRADIENT = "value_and_gradient run_chain find_step start_climb climb_on complete_points"
"""The entries of code that is compiled for gradients."""
LEVELS = 1 << 11
"""Nested calls for which any thread's native stack has room."""


class Density:
    """A program's log density on unconstrained reals, with its gradient."""

    def __init__(
        self,
        executable: Executable,
        inputs: int,
        references: list[bool],
        limits: Limits,
        seed: int,
        levels: int = LEVELS,
    ) -> None:
        self.executable, self.limits, self.seed = executable, limits, seed
        self.meter = np.zeros(k.METER_WORDS, dtype=np.int64)
        self.context = new_context()
        self.context[FIELD["inputs"]] = inputs
        self.context[FIELD["depth_limit"]] = levels
        self.references = references
        """Of each word of the results, whether it refers to the heap."""
        self.results = np.zeros(max(1, len(references)), dtype=np.int64)
        self.position = np.zeros(1 << 16)
        self.gradient = np.zeros(1 << 16)
        self.evaluations = 0
        self.stopped = Event()
        """Set where the caller was interrupted: nobody waits for what is computed."""
        self.new_tape(1 << 12)
        self.new_heap(1 << 12)
        self.function = executable.compiled.function("value_and_gradient")
        self.arguments = np.zeros(4, dtype=np.int64)
        self.out = np.zeros(2)
        self.ended = self.out.view(np.int64)
        """The same words as integers: the second is the status."""
        self.arguments[:] = (
            self.meter.ctypes.data, self.results.ctypes.data, self.gradient.ctypes.data,
            limits.max_steps,
        )  # fmt: skip
        self.given = self.context.ctypes.data, self.arguments.ctypes.data, self.out.ctypes.data
        self.restart(seed)

    @property
    def kept_words(self) -> int:
        """How many result words a chain keeps with each draw: none where any refers to the heap."""
        return 0 if any(self.references) else len(self.references)

    def restart(self, seed: int) -> None:
        """Look for a start with another seed, as a new density would."""
        self.seed, self.attempts = seed, 0
        self.context[FIELD["key1"]] = 0
        self.dimension = self.explore()

    def new_tape(self, size: int) -> None:
        """Room for the tape."""
        self.check_memory(40 * size)
        self.entries = np.empty(4 * (size + 1), dtype=np.int64)
        self.adjoints = np.zeros(size + 1)
        m = self.meter
        m[k.SIZE], m[k.ENTRIES] = size, self.entries.ctypes.data
        m[k.ADJOINTS] = self.adjoints.ctypes.data
        m[k.POSITION], m[k.ROOM] = self.position.ctypes.data, len(self.position)

    def more_tape(self) -> None:
        """Four times the room for the tape."""
        self.new_tape(4 * int(self.meter[k.SIZE]))

    def more_heap(self) -> None:
        """Twice the heap."""
        self.new_heap(len(self.heap))

    def check_memory(self, size: int) -> None:
        """Raise the error of a run that needs too much memory."""
        if size > self.limits.max_memory:
            raise failure(self.executable.lowered.elaborated, HEAP_FULL, 0, self.seed, 0, 0)

    def new_heap(self, words: int) -> None:
        """A heap, and as many words for the places of the floats in it."""
        self.check_memory(16 * words)
        self.heap = np.zeros(2 * words, dtype=np.int64)
        base = self.heap.ctypes.data
        self.context[FIELD["heap_start"]] = base
        self.context[FIELD["heap_end"]] = base + 8 * words
        self.context[FIELD["tape_delta"]] = 8 * words

    def explore(self) -> int:
        """Run once on fresh values; how many there are."""
        value, status = self.look()
        if status != 0 or not math.isfinite(value):
            error = self.error(ALL_ZERO if status in (0, REJECTED) else status)
            raise error.with_note(f"{ATTEMPTS} random starts were tried")
        taken = int(self.meter[k.TAKEN])
        if taken == 0 or taken > len(self.position):
            raise UnsupportedMethod(
                f"the program makes {taken} continuous choices", expected="between 1 and 65536"
            )
        self.meter[k.DIMENSION] = taken
        if taken >= int(self.meter[k.SIZE]):
            self.new_tape(4 * taken)
        return taken

    def look(self) -> tuple[float, int]:
        """Take fresh values until the density is not 0 there: others each time it is asked."""
        self.meter[k.DIMENSION] = -1
        self.context[FIELD["key0"]] = self.seed & 0xFFFFFFFF
        self.context[FIELD["stream"]] = 8
        value, status = -math.inf, REJECTED
        for attempt in range(self.attempts, ATTEMPTS):
            self.attempts = attempt + 1
            self.context[FIELD["step"]] = attempt
            width = starts.WIDEST * NARROWER ** max(0, attempt - starts.WIDE)
            self.meter[k.WIDTH] = np.array([width]).view(np.int64)[0]
            self.context[FIELD["draw"]] = self.context[FIELD["made"]] = 0
            value, status = self.raw()
            if status == 0 and math.isfinite(value):
                break
        return value, status

    def look_elsewhere(self) -> tuple[float, int]:
        """Take other values than those of the starts so far."""
        value, status = self.look()
        self.meter[k.DIMENSION] = self.dimension
        return value, status

    def leave_cliffs(self) -> tuple[float, Floats]:
        """Start elsewhere where the density is steep, if a few other starts find it less so.

        Returns the log density and its gradient where the start is now. A recursion that explodes
        (an autoregression with a coefficient above 1) makes deserts of modes that a climb does not
        leave.
        """
        first = self.position[: self.dimension].copy()
        for _ in range(ELSEWHERE):
            value, gradient = self(self.position[: self.dimension])
            if np.abs(gradient).max() <= STEEP:
                return value, gradient
            value, status = self.look_elsewhere()
            if status != 0 or not math.isfinite(value):
                break
        return self(first)

    def raw(self) -> tuple[float, int]:
        """Evaluate at `position`; makes room as needed. Raises the errors of the program.

        Where a scale overflows or a weight is NaN the density is 0: that is how a trajectory that
        overshoots is rejected, and a start that is no good.
        """
        while True:
            self.function(*self.given)
            self.evaluations += 1
            status = int(self.ended[1])
            if status == HEAP_FULL:
                self.more_heap()
            elif status == 0 and self.meter[k.USED] >= self.meter[k.SIZE]:
                self.more_tape()
            elif status in (0, REJECTED, INVALID_PARAMETER, NAN_WEIGHT):
                return (-math.inf if status else float(self.out[0])), status
            else:
                raise self.error(status)

    def drive(self, symbol: str, words: npt.NDArray[np.int64]) -> int:
        """Run machine code that evaluates the density, until it has room; its last result."""
        while True:
            given = [self.meter.ctypes.data, words.ctypes.data]
            out = self.executable.call_all(symbol, self.context, given)
            ended, status, done = (int(w) for w in out[:3])
            if not self.make_room(ended, status):
                return done

    def complete(self, points: Floats, words: int) -> None:
        """Evaluate at the positions of points (`natives/nuts.py`) with so many result words."""
        c = np.zeros(starts.EVALUATION_WORDS, dtype=np.int64)
        c[starts.POINTS], c[starts.COUNT] = points.ctypes.data, len(points)
        c[starts.POINT_WORDS], c[starts.WRITTEN] = words, self.results.ctypes.data
        c[starts.STEPS] = self.limits.max_steps
        self.drive("complete_points", c)

    def make_room(self, ended: int, status: int) -> bool:
        """Whether machine code ended because it had too little room; it has more now.

        Raises the errors of the program.
        """
        if ended == FULL:
            self.more_tape()
        elif ended == FAILED and status == HEAP_FULL:
            self.more_heap()
        elif ended == FAILED:
            raise self.error(status)
        elif ended == CHANGED:
            raise self.changed()
        return ended in (FULL, FAILED)

    def error(self, status: int) -> FunctionalError:
        """The error for a status."""
        program = self.executable.lowered.elaborated
        site = int(self.context[FIELD["site"]]) if status != ALL_ZERO else len(program.sites)
        if status == DISCRETE_CHOICE:
            return UnsupportedMethod(
                "this choice is not continuous", span=program.sites[site],
                hint="use SMC, mh or enumerate",
            )  # fmt: skip
        known = status if status in FAILURES else DEPTH
        return failure(program, known, site, self.seed, 0, 0)

    def changed(self) -> UnsupportedMethod:
        """The error for a number of choices that isn't always the same."""
        return UnsupportedMethod(
            "the number of choices depends on their values",
            expected=f"{self.dimension} choices", found=f"{int(self.meter[k.TAKEN])}",
            hint="use SMC or mh",
        )  # fmt: skip

    def __call__(self, q: Floats) -> tuple[float, Floats]:
        """Log density and gradient. Raises UnsupportedMethod if the choices change in number."""
        self.position[: self.dimension] = q
        value, status = self.raw()
        if status == 0 and int(self.meter[k.TAKEN]) != self.dimension:
            raise self.changed()
        if math.isnan(value):
            value = -math.inf
        return value, self.gradient[: self.dimension].copy()
