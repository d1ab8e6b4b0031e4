"""Exact enumeration: every path through the program's choices, by re-execution."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tawa.cuppl.cpu.executable import FIELD, Executable, Workers
from tawa.cuppl.cpu.memory import Decoder, flat_key, float_bits
from tawa.cuppl.inference.record import Record
from tawa.cuppl.inference.settings import Limits, failure
from tawa.cuppl.natives import trace as k
from tawa.cuppl.typing.failures import ALL_ZERO, DEPTH, FUEL, HEAP_FULL, TRACE_FULL
from tawa.functional.errors import FunctionalError

__all__ = ["Enumeration", "run_enumeration"]

Words = npt.NDArray[np.int64]
ROWS = 4096


@dataclass(slots=True)
class Enumeration:
    """Distinct results with the log of their unnormalised probability."""

    words: Words
    """A column for each value."""
    log_weights: npt.NDArray[np.float64]
    paths: int
    pruned: float
    """Prior probability of the paths that were dropped."""
    memory: list[Words]


def run_enumeration(
    executable: Executable, workers: Workers, tolerance: float, max_paths: int, limits: Limits
) -> Enumeration:
    """Go through all paths whose prior probability is at least `tolerance`.

    Raises InfiniteSupport or UnboundedRecursion where there is no end.
    """
    return _Walk(executable, workers, tolerance, max_paths, limits).run()


class _Walk:
    """One enumeration."""

    def __init__(
        self,
        executable: Executable,
        workers: Workers,
        tolerance: float,
        max_paths: int,
        limits: Limits,
    ) -> None:
        lowered = executable.lowered
        self.executable, self.workers, self.limits = executable, workers, limits
        self.max_paths = max_paths
        self.rows = np.zeros((max(1, len(lowered.results)), ROWS), dtype=np.int64)
        self.weights = np.zeros(ROWS)
        self.record = Record(64, 64)
        low = math.log(tolerance) if tolerance > 0.0 else -math.inf
        self.record.words[k.TOLERANCE] = float_bits(low)
        self.record.words[k.PRUNED] = float_bits(0.0)
        self.control = np.zeros(16, dtype=np.int64)
        self.control[k.FUEL] = min(limits.max_steps, 1 << 24)
        self.control[k.MOST_CHOICES] = limits.max_steps
        self.control[k.OUT] = self.rows.ctypes.data
        self.heaps: list[Words] = []
        self.decoder = Decoder(lowered.elaborated)
        self.found: dict[object, tuple[list[int], list[float]]] = {}
        self.paths = 0

    def new_heap(self, words: int) -> None:
        """A fresh heap; the old ones stay, for the results that are in them."""
        if 8 * words > self.limits.max_memory:
            raise self.error(HEAP_FULL)
        heap = np.empty(words, dtype=np.int64)
        self.heaps.append(heap)
        context = self.workers.contexts[0]
        context[FIELD["heap"]] = heap.ctypes.data
        context[FIELD["heap_end"]] = heap.ctypes.data + 8 * words

    def error(self, status: int) -> FunctionalError:
        program = self.executable.lowered.elaborated
        site = int(self.workers.contexts[0][FIELD["site"]])
        error = failure(program, status, site, 0, 0, self.paths)
        if status in (DEPTH, FUEL):
            error.notes.clear()  # no seed replays a path
            error.hint = "enumerate with a `tolerance` (1e-6) drops paths that are less probable"
        return error

    def run(self) -> Enumeration:
        self.new_heap(1 << 14)
        done = 0
        while not done:
            done = self.batch()
        if not self.found:
            raise failure(self.executable.lowered.elaborated, ALL_ZERO, 1 << 60, 0, 0, 0)
        columns = [words for words, _ in self.found.values()]
        weights = [float(np.logaddexp.reduce(w)) for _, w in self.found.values()]
        pruned = self.record.words[k.PRUNED : k.PRUNED + 1].view(np.float64)[0]
        return Enumeration(
            np.array(columns, dtype=np.int64).T.reshape(len(columns[0]), -1),
            np.array(weights), self.paths, float(pruned), self.heaps,
        )  # fmt: skip

    def batch(self) -> int:
        """Some paths; true when there are no more."""
        given = [
            self.control.ctypes.data, self.record.words.ctypes.data, self.weights.ctypes.data, ROWS,
            max(1, min(ROWS, self.max_paths - self.paths + 1)),
        ]  # fmt: skip
        got = np.zeros(8, dtype=np.int64)

        def work(thread: int, context: Words) -> int:
            del thread
            got[:] = self.executable.call_all("enumerate_paths", context, given)
            return 0

        self.workers.run(work)
        stored, status, last = (int(v) for v in got[:3])
        self.store(stored)
        if status:
            # The failed path is run again from its start; those before it are stored.
            self.paths += last - 1
            self.make_room(status)
            return 0
        self.paths += int(self.control[k.ITERATION])
        spent = self.control[k.CHOICES] >= self.control[k.MOST_CHOICES]
        if (self.paths > self.max_paths or spent) and not last:
            raise self.error(FUEL)
        return last

    def make_room(self, status: int) -> None:
        """Repeat the path with more room, or raise."""
        self.record.words[k.REPLAYED] = 0 if self.paths == 0 else self.record.words[k.REPLAYED]
        if status == TRACE_FULL:
            if int(self.record.words[k.CAPACITY]) > 1 << 16:
                raise self.error(DEPTH)
            self.record.grow()
        elif status == HEAP_FULL:
            self.new_heap(2 * len(self.heaps[-1]))
        elif status == DEPTH and self.workers.depth * 8 <= self.limits.max_depth:
            self.workers.depth *= 8
        else:
            raise self.error(status)

    def store(self, count: int) -> None:
        """Add up the weights of equal results."""
        program = self.executable.lowered.elaborated
        for index in range(count):
            words = self.rows[:, index].tolist()
            value = self.decoder.decode(program.result, words)
            key = flat_key(value)
            if key not in self.found:
                self.found[key] = (words, [])
            self.found[key][1].append(float(self.weights[index]))
