"""Sequential Monte Carlo and likelihood weighting on a GPU: the host's side.

A batch of steps is launched at once, and the device decides what each of them does; the host looks
at the control block after a batch. When particles need room, the kernels of the rest of the batch
return at once.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..failures import ALL_ZERO, DEPTH, HEAP_FULL, STACK_FULL
from ..inference import smc_natives as k
from ..inference.settings import Limits, failure
from ..inference.smc import SmcRun
from ..ir import Type
from ..lowering.machine import ENTRY_POINT, FINAL_POINT, point_word
from ..lowering.pipeline import Lowered
from ..memory import Image, float_bits, mask_of, object_table
from .device import Device

__all__ = ["GpuRun", "run_on_gpu"]

Words = npt.NDArray[np.int64]
BEST, ACTIVE, WAITS, OUTCOME, TOTAL, SQUARES, RESAMPLING, POINT = range(32, 40)
LOGW, WEIGHTS, LAST, CHUNKS, REGIONS, SUPERS, KEEP, OBJECTS, FRAMES = range(40, 49)
LOW, HIGH, TARGET, ROWS, MASK, SCRATCH, SCRATCH_WORDS, SCRATCH_SLACK = range(49, 57)
BATCH = 16
SCRATCH_BYTES = 1 << 28
NO_LIMIT = 1 << 40


@dataclass(slots=True)
class GpuRun:
    """A run on the device: its result words, and a copy of the heap that they refer to."""

    run: SmcRun
    heap: Words
    heap_address: int
    memory: int
    """Bytes of device memory at the end."""
    seconds: float
    """From the first launch until the device said that all is done."""


@dataclass(slots=True)
class _Driver:
    device: Device
    lowered: Lowered
    image: Image
    particles: int
    seed: int
    threshold: float
    limits: Limits
    control: Words = field(default_factory=lambda: np.zeros(k.CONTROL_WORDS, dtype=np.int64))
    address: int = 0
    rows: int = 0
    heap_words: int = 1 << 14
    heap: int = 0
    collections: tuple[int, int, int] = (0, 0, 0)
    scratch_threads: int = 0
    owned: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def blocks(self) -> int:
        return -(-self.particles // self.device.block)

    def own(self, name: str, size: int) -> int:
        """Allocate, and free what had the name."""
        old = self.owned.pop(name, 0)
        if old:
            self.device.free(old)
        self.owned[name] = self.device.allocate(size)
        return self.owned[name]

    def own_array(self, name: str, data: Words) -> int:
        address = self.own(name, data.nbytes)
        self.device.write(address, data)
        return address

    # Set-up.

    def start(self) -> None:
        n, c = self.particles, self.control
        inputs = self.own("inputs", 8 * len(self.image.words))
        self.device.write(inputs, self.image.at(inputs))
        c[k.PARTICLES], c[k.THREADS], c[k.INPUTS] = n, 1, inputs
        c[k.SEED_LOW], c[k.SEED_HIGH] = self.seed & 0xFFFFFFFF, self.seed >> 32 & 0xFFFFFFFF
        c[k.FUEL], c[k.DEPTH_LIMIT] = self.limits.max_steps, NO_LIMIT
        c[k.THRESHOLD] = float_bits(self.threshold * n)
        c[k.SCALE] = float_bits(2.0 ** (61 - max(1, math.ceil(math.log2(n)))))
        c[LOGW] = self.own("logw", 8 * n)
        c[REGIONS] = self.own("regions", 16 * n)
        c[OBJECTS] = self.own_array("objects", object_table(self.lowered.elaborated.layouts))
        machine = self.lowered.machine
        if machine is None:
            self.start_plain()
        else:
            self.start_machine()
        if self.allocates():
            self.heap_words = max(self.heap_words, 32 * n)
        self.new_heap(self.heap_words, 0)
        self.address = self.own_array("control", c)

    def allocates(self) -> bool:
        """Whether the program makes heap objects; if not, no thread needs a region."""
        from ..ir import Alloc

        return any(
            isinstance(item, Alloc)
            for function in self.lowered.program.functions.values()
            for block in function.blocks.values()
            for item in block.instructions
        )

    def start_plain(self) -> None:
        main = self.lowered.program.functions[self.lowered.elaborated.main]
        references = [t is Type.REF for t in main.results]
        self.rows = max(1, len(references))
        c = self.control
        c[k.STATE] = self.own("state", 8 * self.rows * self.particles)
        c[KEEP], c[ROWS], c[MASK] = int(any(references)), len(references), mask_of(references)
        self.device.write(int(c[LOGW]), np.full(self.particles, np.nan))

    def start_machine(self) -> None:
        machine = self.lowered.machine
        assert machine is not None
        n, c = self.particles, self.control
        masks = [mask_of(f.references) for f in machine.frames]
        c[FRAMES] = self.own_array("frames", np.array(masks, dtype=np.int64))
        c[k.HEADER], c[SCRATCH_SLACK] = machine.header, machine.slack
        self.rows = machine.header + max(len(machine.results) + 2, machine.slack + 1) + 2
        rows = np.zeros((machine.header + 2, n), dtype=np.int64)
        rows[0] = (np.arange(n) << 38) + (machine.header + 2) * n
        rows[machine.header] = point_word(FINAL_POINT, 0)
        rows[machine.header + 1] = point_word(ENTRY_POINT, 0)
        c[k.STATE] = self.own("state", 8 * self.rows * n)
        self.device.write(int(c[k.STATE]), rows)
        c[k.OTHER] = self.own("other", 8 * self.rows * n)
        c[k.LIMIT] = (self.rows - machine.slack) * n
        c[WEIGHTS] = self.own("weights", 8 * n)
        c[LAST] = self.own("last", 8 * n)
        c[CHUNKS] = self.own("chunks", 8 * self.blocks)
        c[SUPERS] = self.own("supers", 8 * (self.blocks // self.device.block + 1))
        self.new_scratch(max(1, 4096 // self.device.block))

    def new_scratch(self, blocks: int) -> None:
        self.scratch_threads = blocks * self.device.block
        c = self.control
        c[SCRATCH_WORDS] = SCRATCH_BYTES // 8 // self.scratch_threads
        if "scratch" in self.owned:
            c[SCRATCH] = self.own("scratch", SCRATCH_BYTES)

    def new_heap(self, words: int, used: int) -> None:
        c = self.control
        if used == 0:
            self.heap = self.own("heap", 8 * words)
        self.heap_words = words
        c[k.HEAP_NEXT], c[k.HEAP_END] = self.heap + used, self.heap + 8 * words
        free = 8 * words - used
        c[k.CHUNK] = max(256, free // (2 * self.particles) & ~7)

    # Running.

    def run(self) -> GpuRun:
        self.start()
        begin = time.perf_counter()
        b = self.blocks
        plain = self.lowered.machine is None
        step = [("advance", b), ("weigh", b), ("decide", 1), ("count_children", b),
                ("copy_states", b), ("turn", 1)]  # fmt: skip
        while True:
            self.device.launch([("run_all", b)] if plain else step * BATCH, self.address)
            self.device.read(self.address, self.control)
            c = self.control
            outcome = int(c[OUTCOME])
            if c[k.FAILED_STATUS]:
                raise self.error(int(c[k.FAILED_STATUS]))
            if outcome == k.DEAD:
                raise self.error(ALL_ZERO)
            if outcome == k.FINISHED or (plain and not c[WAITS]):
                return self.finish(time.perf_counter() - begin)
            if c[WAITS]:
                self.make_room()

    def error(self, status: int) -> Exception:
        c = self.control
        error = failure(
            self.lowered.elaborated, status, int(c[k.FAILED_SITE]), self.seed,
            int(c[k.FAILED_PARTICLE]), int(c[k.STEP]),
        )  # fmt: skip
        if status == ALL_ZERO:
            error.span = None
        return error

    def resume(self) -> None:
        """Clear what stopped the batch, and tell the device."""
        c = self.control
        c[WAITS] = c[OUTCOME] = c[BEST] = c[ACTIVE] = c[TOTAL] = c[SQUARES] = 0
        self.device.write(self.address, c)
        if "supers" in self.owned:
            size = self.blocks // self.device.block + 1
            self.device.write(self.owned["supers"], np.zeros(size, dtype=np.int64))

    def make_room(self) -> None:
        waits = int(self.control[WAITS])
        if waits >> HEAP_FULL & 1:
            self.grow_heap()
        if waits >> STACK_FULL & 1:
            self.run_deep()
        elif waits >> DEPTH & 1:
            raise self.error(DEPTH)
        self.resume()

    def run_deep(self) -> None:
        """Run the particles that wait on scratch stacks, larger ones if need be."""
        c = self.control
        if "scratch" not in self.owned:
            c[SCRATCH] = self.own("scratch", SCRATCH_BYTES)
        while True:
            c[WAITS] = 0
            self.device.write(self.address, c)
            self.device.launch(
                [("advance_deep", self.scratch_threads // self.device.block)], self.address
            )
            self.device.read(self.address, c)
            if c[k.FAILED_STATUS]:
                raise self.error(int(c[k.FAILED_STATUS]))
            waits = int(c[WAITS])
            if waits >> 4 & 1:
                self.grow_rows()
            if waits >> HEAP_FULL & 1:
                self.grow_heap()
            if waits >> STACK_FULL & 1:
                if self.scratch_threads == self.device.block:
                    raise self.error(STACK_FULL)
                self.new_scratch(max(1, self.scratch_threads // self.device.block // 4))
            if not waits:
                return

    def grow_rows(self) -> None:
        """More rows of state: what is left after a step needs them."""
        c, n = self.control, self.particles
        machine = self.lowered.machine
        assert machine is not None
        if 32 * self.rows * n > self.limits.max_memory:
            raise self.error(STACK_FULL)
        old, self.owned["state"] = int(c[k.STATE]), int(c[k.STATE])
        self.owned["other"] = int(c[k.OTHER])
        c[k.OTHER] = self.own("other", 16 * self.rows * n)
        self.device.move(int(c[k.OTHER]), old, 8 * self.rows * n)
        self.rows *= 2
        c[k.STATE], self.owned["state"], self.owned["other"] = (
            int(c[k.OTHER]), self.owned["other"], old,
        )  # fmt: skip
        c[k.OTHER] = self.own("other", 8 * self.rows * n)
        c[k.LIMIT] = (self.rows - machine.slack) * n

    def grow_heap(self) -> None:
        """A fresh heap with what is alive in the old one; twice the size if that is over half."""
        words = self.heap_words
        used = self.move_heap(words)
        now = (int(self.control[k.STEP]), words, used)
        if 2 * used > 8 * words or self.collections == now:
            if 24 * words > self.limits.max_memory:
                raise self.error(HEAP_FULL)
            words *= 2
            used = self.move_heap(words)
        self.collections = now
        self.new_heap(words, used)
        self.device.write(self.owned["regions"], np.zeros(2 * self.particles, dtype=np.int64))

    def move_heap(self, words: int) -> int:
        """Move what is alive to a heap of some words; how many bytes that is."""
        c, old = self.control, self.heap
        self.owned.pop("heap")
        new = self.own("heap", 8 * words)
        c[LOW], c[HIGH], c[TARGET] = old, old + 8 * self.heap_words, new
        self.device.write(self.address, c)
        self.device.launch([("move_heap", 1)], self.address)
        self.device.read(self.address, c)
        self.device.free(old)
        self.heap, self.heap_words = new, words
        return int(c[TARGET]) - new

    # Results.

    def finish(self, seconds: float) -> GpuRun:
        c, n = self.control, self.particles
        logw = np.zeros(n)
        self.device.read(int(c[LOGW]), logw)
        best = float(np.max(logw))
        if best == -math.inf:
            raise self.error(ALL_ZERO)
        machine = self.lowered.machine
        header = machine.header if machine else 0
        count = len(machine.results) if machine else int(c[ROWS])
        rows = np.zeros((header + count, n), dtype=np.int64)
        self.device.read(int(c[k.STATE]), rows)
        evidence = best + math.log(float(np.exp(logw - best).sum()) / n)
        evidence += float(c[k.LOG_Z : k.LOG_Z + 1].view(np.float64)[0])
        heap = np.zeros(self.heap_words, dtype=np.int64)
        self.device.read(self.heap, heap)
        ancestors = rows[0] >> 38 if machine else np.arange(n)
        memory = int(getattr(self.device, "allocated", 0))
        run = SmcRun(
            rows[header:], logw, evidence, ancestors, int(c[k.RESAMPLED]), int(c[k.STEP]), [heap]
        )
        for address in self.owned.values():
            self.device.free(address)
        return GpuRun(run, heap, self.heap, memory, seconds)


def run_on_gpu(
    device: Device,
    lowered: Lowered,
    image: Image,
    particles: int,
    seed: int,
    threshold: float,
    limits: Limits,
) -> GpuRun:
    """Run a lowered program (with explicit recursion) on a device."""
    return _Driver(device, lowered, image, particles, seed, threshold, limits).run()
