"""Sequential Monte Carlo on the CPU: the host's side.

Particles run from one weight to the next; then they are resampled if the effective sample size is
below the threshold. All of that happens in `smc_natives.smc_thread`; here is memory (state, heap,
collection) and the reading of results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tawa.cuppl.cpu.executable import FIELD, Executable, Workers
from tawa.cuppl.cpu.memory import float_bits
from tawa.cuppl.inference.checkpoint import Place
from tawa.cuppl.inference.settings import Limits, check_memory, failure
from tawa.cuppl.inference.weights import relative_weights
from tawa.cuppl.lowering.frames import ENTRY_POINT, FINAL_POINT, Machine, point_word
from tawa.cuppl.natives import control as k
from tawa.cuppl.numeric.philox import GROUP
from tawa.cuppl.typing.errors import BadSetting
from tawa.cuppl.typing.failures import ALL_ZERO, DEPTH, FUEL, HEAP_FULL, STACK_FULL

__all__ = [
    "Smc", "SmcRun", "first_ancestors", "first_failure", "refuse_too_many", "run_smc",
]  # fmt: skip

Words = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
HEAP_A_PARTICLE = 16
TURNS = 1 << 40
TURNS_APART = 200_000
"""Particles' steps between two reports of progress, or looks at the clock."""
STACK_ROWS = 128
"""Words of a stack of which eight are kept side by side."""
BEFORE_STACKS = 3
"""Rows before them: see `natives/groups.py`."""


def refuse_too_many(particles: int) -> None:
    """Raise BadSetting if ancestors' numbers would not fit above the stacks' tops."""
    if particles > k.MOST_PARTICLES:
        raise BadSetting(
            "too many particles for one run", expected=f"at most {k.MOST_PARTICLES}",
            found=str(particles), hint="`runs=...` makes several runs of fewer particles",
        )  # fmt: skip


def first_ancestors(words: Words) -> Words:
    """The first ancestors, out of the words that hold the stacks' tops, too."""
    return (words.view(np.uint64) >> np.uint64(k.TOP_BITS)).view(np.int64)


@dataclass(slots=True)
class SmcRun:
    """A finished run: result words (a row each) of all particles, weights, evidence."""

    results: Words
    log_weights: Floats
    log_evidence: float
    ancestors: Words
    """The particle at the start from which each one descends."""
    resampled: int
    steps: int
    memory: list[Words] = field(default_factory=list[Words])
    """Keeps alive what the results refer to."""
    relative: Floats | None = None
    """The weights relative to the largest, if they are known."""


@dataclass(slots=True)
class Smc:
    """One run; `stream` sets its random numbers apart from those of other runs."""

    executable: Executable
    workers: Workers
    particles: int
    seed: int
    threshold: float
    limits: Limits
    progress: Callable[[int], None] | None
    stream: int = 0
    control: Words = field(default_factory=lambda: np.zeros(k.CONTROL_WORDS, dtype=np.int64))
    state: Words = field(default_factory=lambda: np.zeros((1, 1), dtype=np.int64))
    other: Words = field(default_factory=lambda: np.zeros((1, 1), dtype=np.int64))
    heap: Words = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    stacks: Words = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    logw: Floats = field(default_factory=lambda: np.zeros(0))
    weights: Words = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    parents: Words = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    part: Words = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """What each thread has seen of a step."""
    capacity: int = 0
    """Words of the heap that may be used."""
    collections: tuple[int, int, int] = (0, 0, 0)
    place: Place | None = None
    """Where the run is kept from time to time, and goes on from."""

    @property
    def machine(self) -> Machine:
        """The resumable function and its frames."""
        machine = self.executable.lowered.machine
        assert machine is not None
        return machine

    def run(self) -> SmcRun:
        """Run to the end."""
        self.begin()
        while not self.turn():
            pass
        return self.finish(self.logw)

    def begin(self) -> None:
        """Make the memory of a run, and be where one was kept."""
        n = self.particles
        self.start()
        self.logw = np.zeros(n)
        self.weights, self.parents = np.zeros(n, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
        self.part = np.zeros(8 * self.workers.count, dtype=np.int64)
        go_on(self, self.logw)

    def turn(self) -> bool:
        """Let the threads run until they come back; whether all particles have ended."""
        arrays = [a.ctypes.data for a in (self.logw, self.weights, self.parents, self.part)]

        def work(thread: int, context: Words) -> int:
            given = [self.control.ctypes.data, thread, *arrays]
            return self.executable.call("smc_thread", context, given)

        outcome = self.workers.run(work, self.control)[0]
        if self.progress is not None:
            self.progress(int(self.control[k.STEP]))
        if outcome == k.RUNNING:
            self.between_steps(self.parents, self.logw)
        if outcome == k.FAILED:
            raise self.error(first_failure(self.control, self.part, k.OWN_STATUS))
        if outcome == k.DEAD:
            raise self.error(ALL_ZERO)
        if outcome == k.NEED_ROOM:
            self.make_room(int(np.bitwise_or.reduce(self.part[2::8])))
        return bool(outcome == k.FINISHED)

    def between_steps(self, parents: Words, logw: Floats) -> None:
        """What is done whenever the threads come back."""
        self.turned(parents)
        if self.place is not None and self.place.due():
            keep(self, self.place, logw)
        if int(self.control[k.STEP]) > self.limits.max_steps:
            raise self.error(FUEL)

    def turned(self, parents: Words) -> None:
        """Called whenever the threads come back between two steps."""

    def error(self, status: int) -> Exception:
        """The error for a status that stopped the run."""
        site, particle = (int(self.control[w]) for w in (k.FAILED_SITE, k.FAILED_PARTICLE))
        step = int(self.control[k.STEP])
        program = self.executable.lowered.elaborated
        error = failure(program, status, site, self.seed, particle, step)
        if status in (ALL_ZERO, FUEL) and step > self.limits.max_steps:
            error.span = None
            error.with_note(f"no particle's run ended within {step} weights")
        elif status == ALL_ZERO:
            error.span = None
            error.with_note(f"at step {step} (counted in weights) the last particle died")
        return error

    def start(self) -> None:
        """State and control before the first step."""
        n = self.particles
        machine = self.machine
        rows = machine.header + len(machine.results) + machine.slack + 8
        rows = (rows + 7) & ~7  # states are copied eight words at a time
        refuse_too_many(n)
        check_memory("particles", n, 2 * rows + 2 * HEAP_A_PARTICLE + 6)
        self.state = aligned(n, rows)
        self.other = aligned(n, rows)
        self.state[:, 0] = (np.arange(n) << k.TOP_BITS) + (machine.header + 2)
        self.state[:, machine.header] = point_word(FINAL_POINT, 0)
        self.state[:, machine.header + 1] = point_word(ENTRY_POINT, 0)
        c = self.control = np.zeros(k.CONTROL_WORDS + 8 * self.workers.count, dtype=np.int64)
        c[k.PARTICLES], c[k.THREADS] = n, self.workers.count
        c[k.PORTION] = portion(n, self.workers.count)
        c[k.SEED_LOW], c[k.SEED_HIGH] = self.seed & 0xFFFFFFFF, self.seed >> 32 & 0xFFFFFFFF
        c[k.STREAM] = self.stream
        c[k.HEADER] = machine.header
        c[k.FUEL] = self.limits.max_steps
        c[k.THRESHOLD] = float_bits(self.threshold * n)
        c[k.SCALE] = float_bits(2.0 ** (61 - max(1, math.ceil(math.log2(n)))))
        c[k.TURNS] = (
            min(TURNS, self.limits.max_steps + 1)
            if self.progress is None and self.place is None
            else max(1, TURNS_APART // n)
        )
        c[k.INPUTS] = self.workers.inputs
        self.set_addresses()
        self.new_heap(max(1 << 16, HEAP_A_PARTICLE * n), ())

    def set_addresses(self) -> None:
        """Tell the compiled code where the particles' state lies now."""
        c = self.control
        c[k.STATE], c[k.OTHER] = self.state.ctypes.data, self.other.ctypes.data
        c[k.WIDTH] = self.state.shape[1]
        c[k.LIMIT] = self.state.shape[1] - self.machine.slack
        self.place_stacks()

    def place_stacks(self) -> None:
        """Room for the words of eight particles side by side, for each thread."""
        width = self.state.shape[1]
        rows = min(width, STACK_ROWS)
        self.stacks = aligned(self.workers.count, GROUP * (BEFORE_STACKS + rows) + width)
        for thread, own in enumerate(self.stacks):
            start = own.ctypes.data + 8 * GROUP * BEFORE_STACKS
            mine = self.control[k.CONTROL_WORDS + 8 * thread :]
            mine[k.STACKS], mine[k.SPARE_ROW] = start, start + 8 * GROUP * rows
            mine[k.ROOM] = rows - self.machine.slack

    def in_order(self) -> None:
        """Let `state` be the array that the threads used last."""
        if int(self.control[k.STATE]) == self.other.ctypes.data:
            self.state, self.other = self.other, self.state

    def new_heap(self, words: int, keep: tuple[int, int] | tuple[()]) -> None:
        """A heap of some words, to which what is alive in the old one has been moved.

        It becomes twice as large if more than half of it is alive. (The array always is: pages
        that are not touched cost nothing.)
        """
        heap = np.empty(2 * words, dtype=np.int64)
        base, used = heap.ctypes.data, 0
        if keep:
            context = self.workers.contexts[0]
            context[FIELD["heap"]] = base
            self.executable.collect(
                "collect", context,
                [self.state.ctypes.data, self.particles, self.state.shape[1],
                 self.machine.header, *keep,
                 self.executable.objects.ctypes.data, self.executable.frames.ctypes.data],
            )  # fmt: skip
            used = int(context[FIELD["heap"]]) - base
        if 2 * used > 8 * words or self.stuck(words, used):
            words *= 2
            self.check(8 * words, HEAP_FULL)
        self.heap, self.capacity = heap, words
        self.workers.forget_heap()
        c = self.control
        c[k.HEAP_NEXT], c[k.HEAP_END] = base + used, base + 8 * words
        c[k.CHUNK] = max(1 << 12, (8 * words - used) // (4 * self.workers.count) & ~7)

    def stuck(self, words: int, used: int) -> bool:
        """Whether no particle got further since the last collection, for all its free memory."""
        now = (int(self.control[k.STEP]), words, used)
        self.collections, last = now, self.collections
        return last == now

    def make_room(self, wanted: int) -> None:
        """More stack, heap or native stack, for the particles that ran out of it."""
        self.in_order()
        if wanted >> STACK_FULL & 1:
            rows = 2 * self.state.shape[1]
            self.check(16 * rows * self.particles, STACK_FULL)
            grown = aligned(self.particles, rows)
            grown[:, : self.state.shape[1]] = self.state
            self.state = grown
            self.other = aligned(self.particles, rows)
            self.set_addresses()
        if wanted >> HEAP_FULL & 1:
            self.set_addresses()
            low = self.heap.ctypes.data
            self.new_heap(self.capacity, (low, low + 8 * self.capacity))
        if wanted >> DEPTH & 1:
            self.workers.depth *= 8
            if self.workers.depth > self.limits.max_depth:
                raise self.error(DEPTH)

    def check(self, size: int, status: int) -> None:
        """Raise unless so many bytes are allowed."""
        if size > self.limits.max_memory:
            raise self.error(status)

    def finish(self, logw: Floats) -> SmcRun:
        """Results and evidence of finished particles."""
        self.in_order()
        machine = self.machine
        rows = self.state[:, machine.header : machine.header + len(machine.results)].T
        best = float(np.max(logw))
        if best == -math.inf:
            raise self.error(ALL_ZERO)
        rows = np.where(logw > -math.inf, rows, 0)  # those that died have none
        relative = relative_weights(logw)
        total = math.log(float(relative.sum()) / self.particles)
        resampled = int(self.control[k.RESAMPLED])
        before = float(self.control[k.LOG_Z : k.LOG_Z + 1].view(np.float64)[0])
        return SmcRun(
            np.ascontiguousarray(rows), logw, before + best + total,
            first_ancestors(self.state[:, 0]), resampled, int(self.control[k.STEP]), [self.heap],
            relative,
        )  # fmt: skip


KEPT = (k.STEP, k.LOG_Z, k.RESAMPLED)
"""Words of the control block that say how far a run has come."""


def keep(smc: Smc, place: Place, logw: Floats) -> None:
    """Write a run between two steps to its place."""
    smc.in_order()
    smc.set_addresses()
    low = smc.heap.ctypes.data
    smc.new_heap(smc.capacity, (low, low + 8 * smc.capacity))
    low = smc.heap.ctypes.data
    used = (int(smc.control[k.HEAP_NEXT]) - low) // 8
    sizes = np.array([low, smc.capacity, smc.workers.inputs, smc.workers.depth])
    control = smc.control[list(KEPT)]
    place.save(
        {"state": smc.state, "logw": logw, "control": control, "heap": smc.heap[:used],
         "sizes": sizes}
    )  # fmt: skip


def go_on(smc: Smc, logw: Floats) -> None:
    """Take a run up where it was written, if it was."""
    kept = smc.place.load() if smc.place else None
    if kept is None:
        return
    heap: Words = kept["heap"]
    low, capacity, inputs, smc.workers.depth = (int(size) for size in kept["sizes"])
    smc.state = aligned(*kept["state"].shape)
    smc.other = aligned(*kept["state"].shape)
    smc.state[:], logw[:] = kept["state"], kept["logw"]
    smc.control[list(KEPT)] = kept["control"]
    smc.set_addresses()
    smc.new_heap(capacity, ())
    start = smc.heap.ctypes.data
    smc.heap[: len(heap)] = heap
    smc.control[k.HEAP_NEXT] = start + heap.nbytes
    regions = np.array(
        [low, low + heap.nbytes, start - low,
         inputs, inputs + smc.workers.inputs_size, smc.workers.inputs - inputs]
    )  # fmt: skip
    executable = smc.executable
    executable.collect(
        "relocate", smc.workers.contexts[0],
        [smc.state.ctypes.data, smc.particles, smc.state.shape[1], smc.machine.header,
         start, start + heap.nbytes, regions.ctypes.data,
         executable.objects.ctypes.data, executable.frames.ctypes.data],
    )  # fmt: skip


def aligned(rows: int, words: int) -> Words:
    """Rows of zeros; if they are whole cache lines, each starts where one does."""
    block: Words = np.zeros(rows * words + GROUP, dtype=np.int64)
    skipped = -block.ctypes.data % 64 // 8
    return block[skipped : skipped + rows * words].reshape(rows, words)


def portion(particles: int, threads: int) -> int:
    """How many particles a thread takes at a time: whole groups, whose draws are made together."""
    if threads == 1:
        return particles
    return min(max(particles // (16 * threads), 4 * GROUP), 32 * GROUP) & -GROUP


def first_failure(control: Words, part: Words, word: int) -> int:
    """The status of the first particle that failed, whichever thread ran it; noted in `control`."""
    failed = [own for own in part.reshape(-1, 8).tolist() if own[word] > STACK_FULL]
    first = min(failed, key=lambda own: own[k.OWN_PARTICLE])
    control[k.FAILED_SITE], control[k.FAILED_PARTICLE] = first[k.OWN_SITE], first[k.OWN_PARTICLE]
    return first[word]


def run_smc(
    executable: Executable,
    workers: Workers,
    particles: int,
    seed: int,
    threshold: float,
    limits: Limits,
    progress: Callable[[int], None] | None = None,
    stream: int = 0,
    place: Place | None = None,
) -> SmcRun:
    """Run SMC; resample below `threshold * particles` effective particles."""
    driver = Smc(
        executable, workers, particles, seed, threshold, limits, progress, stream, place=place
    )
    return driver.run()
