"""Likelihood weighting on the CPU: the host's side."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tawa.cuppl.core.ir import Type
from tawa.cuppl.cpu.executable import FIELD, Executable, Workers
from tawa.cuppl.cpu.memory import mask_of_results
from tawa.cuppl.inference.settings import Limits, check_memory, failure
from tawa.cuppl.inference.smc import SmcRun, first_failure
from tawa.cuppl.inference.weights import relative_weights
from tawa.cuppl.natives import control as k
from tawa.cuppl.typing.failures import ALL_ZERO, DEPTH, HEAP_FULL

__all__ = ["run_importance"]

Words = npt.NDArray[np.int64]
RECORDED = 6
"""Words of a particle besides its results: weights in several forms, its number, its ancestor."""


def run_importance(
    executable: Executable, workers: Workers, particles: int, seed: int, limits: Limits
) -> SmcRun:
    """Run the program `particles` times from its prior, weighted by its observations."""
    return _Driver(executable, workers, particles, seed, limits).run()


class _Driver:
    """One run of likelihood weighting."""

    def __init__(
        self, executable: Executable, workers: Workers, particles: int, seed: int, limits: Limits
    ) -> None:
        lowered = executable.lowered
        main = lowered.program.functions[lowered.elaborated.main]
        self.executable, self.workers, self.limits = executable, workers, limits
        self.particles, self.seed = particles, seed
        self.references = [t is Type.REF for t in main.results]
        check_memory("particles", particles, len(main.results) + RECORDED)
        self.out = np.zeros((max(1, len(main.results)), particles), dtype=np.int64)
        self.logw = np.full(particles, np.nan)
        self.part = np.zeros(8 * workers.count, dtype=np.int64)
        self.control = np.zeros(k.CONTROL_WORDS, dtype=np.int64)
        self.heap = np.empty(1 << 16, dtype=np.int64)
        self.capacity, self.done = len(self.heap), 0
        c = self.control
        c[k.PARTICLES], c[k.THREADS] = particles, workers.count
        c[k.SEED_LOW], c[k.SEED_HIGH] = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
        c[k.FUEL], c[k.STATE] = limits.max_steps, self.out.ctypes.data
        self.share_heap(0)

    def share_heap(self, used: int) -> None:
        """Divide the free part of the heap."""
        c, base = self.control, self.heap.ctypes.data
        c[k.HEAP_NEXT], c[k.HEAP_END] = base + used, base + 8 * self.capacity
        c[k.CHUNK] = max(1 << 12, (8 * self.capacity - used) // (4 * self.workers.count) & ~7)
        self.workers.forget_heap()

    def run(self) -> SmcRun:
        keep = int(any(self.references))

        def work(thread: int, context: Words) -> int:
            given = [
                self.control.ctypes.data, thread, self.logw.ctypes.data, self.part.ctypes.data, keep
            ]  # fmt: skip
            return self.executable.call("importance_thread", context, given)

        while True:
            statuses = self.workers.run(work, self.control)
            worst = max(statuses)
            if worst == 0:
                return self.finish()
            if HEAP_FULL in statuses or DEPTH in statuses:
                self.make_room(statuses)
                if worst <= DEPTH:
                    continue
            raise self.error(first_failure(self.control, self.part, 0))

    def error(self, status: int) -> Exception:
        c = self.control
        return failure(
            self.executable.lowered.elaborated, status, int(c[k.FAILED_SITE]), self.seed,
            int(c[k.FAILED_PARTICLE]), 0,
        )  # fmt: skip

    def make_room(self, statuses: list[int]) -> None:
        """More heap or native stack."""
        if DEPTH in statuses:
            self.workers.depth *= 8
            if self.workers.depth > self.limits.max_depth:
                self.note_site()
                raise self.error(DEPTH)
        if HEAP_FULL in statuses:
            self.grow_heap()

    def grow_heap(self) -> None:
        """Keep the results that are there; twice the room if they take half of it."""
        old, words = self.heap, self.capacity
        self.heap = np.empty(2 * words, dtype=np.int64)
        context = self.workers.contexts[0]
        context[FIELD["heap"]] = self.heap.ctypes.data
        low, objects = old.ctypes.data, self.executable.objects
        mask = mask_of_results(self.executable.lowered.elaborated, objects)
        self.executable.collect(
            "collect_results", context,
            [self.out.ctypes.data, self.out.shape[0], mask, self.particles, low, low + 8 * words,
             objects.ctypes.data],
        )  # fmt: skip
        used = int(context[FIELD["heap"]]) - self.heap.ctypes.data
        done = int(np.isfinite(self.logw).sum())
        if 2 * used > 8 * words or done == self.done:
            self.capacity = 2 * words
            if 8 * self.capacity > self.limits.max_memory:
                self.note_site()
                raise self.error(HEAP_FULL)
        self.done = done
        self.share_heap(used)

    def note_site(self) -> None:
        """Remember where a thread that ran out of room was."""
        for context in self.workers.contexts:
            if context[FIELD["status"]]:
                self.control[k.FAILED_SITE] = context[FIELD["site"]]
                self.control[k.FAILED_PARTICLE] = context[FIELD["particle"]]

    def finish(self) -> SmcRun:
        best = float(np.max(self.logw))
        if best == -math.inf:
            raise failure(self.executable.lowered.elaborated, ALL_ZERO, 1 << 60, self.seed, 0, 0)
        relative = relative_weights(self.logw)
        evidence = best + math.log(float(relative.mean()))
        rows = self.out[: len(self.references)]
        ancestors = np.arange(self.particles)
        return SmcRun(rows, self.logw, evidence, ancestors, 0, 1, [self.heap], relative)
