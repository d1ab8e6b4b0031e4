"""Lightweight Metropolis-Hastings: the host's side. Chains run side by side, one a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tawa.cuppl.core.ir import Type
from tawa.cuppl.cpu.executable import BYTES_A_LEVEL, FIELD, Executable, new_context
from tawa.cuppl.cpu.memory import float_bits, mask_of_results
from tawa.cuppl.cpu.together import run_together
from tawa.cuppl.inference.record import Record
from tawa.cuppl.inference.settings import Limits, failure
from tawa.cuppl.natives import trace as k
from tawa.cuppl.typing.failures import ALL_ZERO, DEPTH, HEAP_FULL, TRACE_FULL

__all__ = ["Chain", "on_threads", "run_chains"]

Words = npt.NDArray[np.int64]
FIRST_SLICE, SLICE = 100, 20_000
"""Iterations between reports of progress, at first and at most."""
QUICK = 0.1
"""Seconds in which as many iterations are too few for a report."""


@dataclass(slots=True)
class Chain:
    """One chain: kept results (a column each), their log weights, and how it went."""

    executable: Executable
    number: int
    draws: int
    burn: int
    thin: int
    seed: int
    limits: Limits
    inputs: int
    depth: int = 1 << 13
    record: Record = field(default_factory=Record)
    control: Words = field(default_factory=lambda: np.zeros(k.CHAIN_WORDS, dtype=np.int64))
    context: Words = field(default_factory=new_context)
    heap: Words = field(default_factory=lambda: np.empty(1 << 15, dtype=np.int64))
    rows: Words = field(default_factory=lambda: np.zeros((1, 1), dtype=np.int64))
    weights: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    stopped: bool = False
    """Whether the caller was interrupted, and nobody waits for the chain."""
    buffers: Words = field(default_factory=lambda: np.zeros((2, 1), dtype=np.int64))

    @property
    def references(self) -> list[bool]:
        """Which words of the result refer to the heap."""
        return [t is Type.REF for t in self.executable.lowered.results]

    @property
    def accepted(self) -> float:
        """Share of the proposals that were accepted."""
        return int(self.control[k.ACCEPTED]) / max(1, int(self.control[k.ITERATION]))

    def start(self) -> None:
        """Set the control block."""
        size = max(1, len(self.references))
        self.rows = np.zeros((size, self.draws), dtype=np.int64)
        self.buffers = np.zeros((2, size), dtype=np.int64)
        self.weights = np.zeros(self.draws)
        c = self.control
        c[k.SEED_LOW], c[k.SEED_HIGH] = self.seed & 0xFFFFFFFF, self.seed >> 32 & 0xFFFFFFFF
        c[k.CHAIN], c[k.WEIGHT] = self.number, float_bits(-np.inf)
        c[k.OUT], c[k.KEPT] = self.rows.ctypes.data, self.draws
        c[k.BURN], c[k.THIN] = self.burn, self.thin
        c[k.CURRENT], c[k.SCRATCH] = self.buffers[0].ctypes.data, self.buffers[1].ctypes.data
        c[k.RESULTS], c[k.FUEL] = len(self.references), self.limits.max_steps
        c[k.WEIGHTS], c[k.POWER] = self.weights.ctypes.data, float_bits(1.0)
        self.context[FIELD["inputs"]] = self.inputs
        self.give_heap(0)

    def give_heap(self, used: int) -> None:
        """Let the chain allocate in the free part of its heap."""
        self.context[FIELD["heap"]] = self.heap.ctypes.data + used
        self.context[FIELD["heap_end"]] = self.heap.ctypes.data + 8 * len(self.heap)

    def run(self, last: int) -> None:
        """Go on to an iteration. Raises the error of a run that failed."""
        self.control[k.LAST] = last
        keep = int(any(self.references))
        self.until_done("mh_chain", [self.control.ctypes.data, self.record.words.ctypes.data, keep])

    def until_done(self, symbol: str, given: list[int]) -> None:
        """Call machine code, with more room where it needs that."""
        while True:
            self.context[FIELD["depth_limit"]] = self.depth
            status = self.executable.call(symbol, self.context, given)
            if status == 0:
                return
            self.make_room(status)

    def make_room(self, status: int) -> None:
        """Repeat the iteration with more room, or raise."""
        if status == TRACE_FULL:
            self.record.grow()
            return
        if status == HEAP_FULL and 16 * len(self.heap) <= self.limits.max_memory:
            self.grow_heap()
            return
        if status == DEPTH:
            raise _Deeper
        site = int(self.context[FIELD["site"]])
        iteration = int(self.control[k.ITERATION])
        program = self.executable.lowered.elaborated
        raise failure(program, status, site, self.seed, self.number, iteration)

    def grow_heap(self) -> None:
        """A heap of twice the size that holds the kept results."""
        old = self.heap
        self.heap = np.empty(2 * len(old), dtype=np.int64)
        self.context[FIELD["heap"]] = self.heap.ctypes.data
        low = old.ctypes.data
        tables = [low, low + 8 * len(old), self.executable.objects.ctypes.data]
        program = self.executable.lowered.elaborated
        mask = mask_of_results(program, self.executable.objects)
        for array, columns in ((self.rows, self.draws), (self.buffers.T.copy(), 2)):
            given = [array.ctypes.data, array.shape[0], mask, columns, *tables]
            self.executable.collect("collect_results", self.context, given)
            if columns == 2 and array is not self.rows:
                self.buffers[:] = array.T
        self.give_heap(int(self.context[FIELD["heap"]]) - self.heap.ctypes.data)


Kind = TypeVar("Kind", bound=Chain)


class _Deeper(Exception):
    """The chain needs a deeper native stack: go on in a new thread."""


class _Queue(Generic[Kind]):
    """Chains that wait for a thread, which does some work with each."""

    def __init__(self, chains: Sequence[Kind], work: Callable[[Kind], None]) -> None:
        self.chains, self.do = chains, work
        self.waiting = list(chains)
        self.errors: list[BaseException] = []
        self.lock = threading.Lock()

    def work(self) -> None:
        """Run chains until none is left, or this thread's stack is too small for the next."""
        while True:
            with self.lock:
                if not self.waiting or self.errors:
                    return
                chain = self.waiting.pop(0)
            try:
                self.do(chain)
            except _Deeper:
                with self.lock:
                    for other in self.chains:
                        other.depth *= 8
                    self.waiting.insert(0, chain)
                return
            except BaseException as error:
                self.errors.append(error)

    def start(self, threads: int) -> None:
        """Run `work` on some threads with stacks as deep as is wanted now."""
        depth = max(c.depth for c in self.chains)
        chain = self.waiting[0]
        if depth > chain.limits.max_depth:
            site = int(chain.context[FIELD["site"]])
            program = chain.executable.lowered.elaborated
            raise failure(program, DEPTH, site, chain.seed, chain.number, 0)
        count = min(threads, len(self.waiting))
        run_together([self.work] * count, self.stop, depth * BYTES_A_LEVEL + (1 << 20))

    def stop(self) -> None:
        """Leave the rest: the caller was interrupted."""
        self.errors.append(KeyboardInterrupt())
        for chain in self.chains:
            chain.stopped = True


def run_chains(
    chains: list[Chain], threads: int, progress: Callable[[int], None] | None = None
) -> None:
    """Run chains to their ends, at most `threads` at a time."""
    for chain in chains:
        chain.start()
    on_threads(chains, lambda one: _run(one, progress if one is chains[0] else None), threads)


def on_threads(chains: Sequence[Kind], work: Callable[[Kind], None], threads: int) -> None:
    """Do some work with each chain, at most `threads` at a time.

    What fails for want of native stack is done again in a thread that has more.
    """
    queue = _Queue(chains, work)
    while queue.waiting and not queue.errors:
        queue.start(threads)
    if queue.errors:
        raise queue.errors[0]


def _run(chain: Chain, progress: Callable[[int], None] | None) -> None:
    total = chain.burn + chain.draws * chain.thin
    done, more = int(chain.control[k.ITERATION]), FIRST_SLICE
    while done < total and not chain.stopped:
        done, begin = min(total, done + more), time.monotonic()
        chain.run(done)
        if time.monotonic() - begin < QUICK:
            more = min(2 * more, SLICE)
        if progress is not None:
            progress(done)
    if float(chain.control[k.WEIGHT : k.WEIGHT + 1].view(np.float64)[0]) == -np.inf:
        program = chain.executable.lowered.elaborated
        raise failure(program, ALL_ZERO, 1 << 60, chain.seed, chain.number, total)
