"""Sequential Monte Carlo and likelihood weighting on a GPU: the host's side.

A batch of steps is launched at once, and the device decides what each of them does; the host looks
at the control block after a batch. When particles need room, the kernels of the rest of the batch
return at once.

Memory is what particles at rest need (`particles.cuh`): rows of words for all of them, a pool for
the words of the few that have more, and stacks for as many as run at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tawa.cuppl.core.ir import Alloc, Type
from tawa.cuppl.cpu.memory import Image, float_bits, mask_of_results, masks_of, object_table
from tawa.cuppl.gpu.device import Device
from tawa.cuppl.inference.settings import Limits, failure
from tawa.cuppl.inference.smc import SmcRun, first_ancestors, refuse_too_many
from tawa.cuppl.lowering.pipeline import Lowered
from tawa.cuppl.natives import control as k
from tawa.cuppl.typing.failures import ALL_ZERO, DEPTH, HEAP_FULL, STACK_FULL

__all__ = ["GpuMemory", "GpuRun", "run_on_gpu"]

Words = npt.NDArray[np.int64]
BEST, ACTIVE, WAITS, OUTCOME, TOTAL, SQUARES, RESAMPLING, POINT = range(32, 40)
LOGW, WEIGHTS = 40, 41
CHUNKS, REGIONS, SUPERS, KEEP, OBJECTS, FRAMES = range(43, 49)
LOW, HIGH, TARGET, ROWS, MASK, TABLE_OF_ROWS, BASE, PHYSICAL, GAP = range(49, 58)
OLD_ROWS, DEEP, SPILLERS, SPILL_WORDS, SLACK, SHALLOW_LANES, NEXT = range(58, 65)
STACKS, STACK_WORDS, POOLS, POOL_WORDS, POOL_NEXT = 66, 68, 70, 72, 74
GRAB, SLOTS, SLOT_COUNT, PATIENCE, LIVE = 75, 76, 77, 79, 82
FIRST, WHOLE, SHARES, SHARE_SIZE, CONTROLS = range(83, 88)
CONTROL_WORDS = 90
POOL_FULL = 4
SHALLOW, DEEP_LANES = 0, 1
BATCH = 16
FREE_ROWS_BYTES = 1 << 28
"""Resampling may use so much for rows that are free: fewer mean more passes."""
MOST_STACK_WORDS = 1 << 10
MOVED_CHUNK = 128
"""Words that a thread of the collector takes at once: CHUNK_WORDS in `collect.cuh`."""
NO_LIMIT = 1 << 40


@dataclass(slots=True)
class GpuRun:
    """A run on the device: its result words, and a copy of the heap that they refer to."""

    run: SmcRun
    heap: Words
    heap_address: int
    memory: int
    """The most bytes of device memory that were in use."""
    seconds: float
    """From the first launch until the device said that all is done."""
    rows: int = 0
    """Words of a particle at rest, without those in the pool."""
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    """Bytes of each allocation at the end."""


STATUS_BITS, SITE_BITS = 8, 22
"""Of the word that says what failed first; those above count back from the last particle."""


def first_failure(control: Words) -> int:
    """The status of the first particle that failed, or 0; the control block then names it."""
    word = int(control[k.FAILED_STATUS]) & (2**64 - 1)
    if word:
        key = word >> STATUS_BITS
        last = 2**64 - 1 >> STATUS_BITS + SITE_BITS
        control[k.FAILED_SITE] = key & 2**SITE_BITS - 1
        control[k.FAILED_PARTICLE] = last - (key >> SITE_BITS)
    return word & 2**STATUS_BITS - 1


@dataclass(slots=True)
class GpuMemory:
    """A run on a device, and what it owns there."""

    device: Device
    lowered: Lowered
    image: Image
    particles: int
    seed: int
    threshold: float
    limits: Limits
    control: Words = field(default_factory=lambda: np.zeros(CONTROL_WORDS, dtype=np.int64))
    objects: Words = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    address: int = 0
    rows: int = 0
    free_rows: int = 0
    """Physical rows beyond those in use."""
    ring: list[int] = field(default_factory=list[int])
    """Names of the allocations of the physical rows, in the order of the device's table."""
    lanes: list[int] = field(default_factory=lambda: [0, 0])
    heap_words: int = 1 << 14
    heap: int = 0
    collections: tuple[int, int, int] = (0, 0, 0)
    owned: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    peak: int = 0

    @property
    def whole(self) -> int:
        """Particles of the run; a share of them may be on another device."""
        return self.particles

    @property
    def most(self) -> int:
        """Particles of the largest share."""
        return self.particles

    @property
    def blocks(self) -> int:
        """Blocks of one thread a particle."""
        return -(-self.particles // self.device.block)

    # Memory.

    def own(self, name: str, size: int, keep: int = 0) -> int:
        """Allocate, and free what had the name, of which some bytes are kept."""
        old, old_size = self.owned.pop(name, (0, 0))
        new = self.device.allocate(size)
        if keep:
            self.device.move(new, old, keep)
        self.owned[name] = (new, size)
        self.peak = max(self.peak, self.in_use() + old_size)
        if old:
            self.device.free(old)
        return new

    def own_array(self, name: str, data: Words) -> int:
        """Allocate, and copy an array there."""
        address = self.own(name, data.nbytes)
        self.device.write(address, data)
        return address

    def in_use(self) -> int:
        """Bytes allocated."""
        return sum(size for _, size in self.owned.values())

    def check(self, more: int, status: int) -> None:
        """Raise unless so many more bytes are allowed."""
        if self.in_use() + more > self.limits.max_memory:
            raise self.error(status)

    # Set-up.

    def start(self) -> None:
        """Everything before the first step."""
        n, c = self.particles, self.control
        if self.lowered.machine is not None:
            refuse_too_many(self.whole)
        inputs = self.own("inputs", 8 * len(self.image.words))
        self.device.write(inputs, self.image.at(inputs))
        c[k.PARTICLES], c[k.THREADS], c[k.INPUTS] = n, 1, inputs
        c[k.SEED_LOW], c[k.SEED_HIGH] = self.seed & 0xFFFFFFFF, self.seed >> 32 & 0xFFFFFFFF
        c[k.FUEL], c[k.DEPTH_LIMIT] = self.limits.max_steps, NO_LIMIT
        c[k.THRESHOLD] = float_bits(self.threshold * self.whole)
        c[k.SCALE] = float_bits(2.0 ** (61 - max(1, math.ceil(math.log2(self.whole)))))
        c[LOGW] = self.own("logw", 8 * n)
        self.objects = object_table(self.lowered.elaborated.layouts)
        c[OBJECTS] = self.own_array("objects", self.objects)
        if self.lowered.machine is None:
            self.start_plain()
        else:
            self.start_machine()
        c[REGIONS] = self.own("regions", 16 * sum(self.lanes))
        if self.allocates():
            self.heap_words = self.device.heap_words * max(n, self.device.block)
        self.new_heap(self.heap_words, 0)
        self.address = self.own_array("control", c)
        if self.lowered.machine is not None:
            self.device.launch([("begin", self.blocks, 0)], self.address)

    def allocates(self) -> bool:
        """Whether the program makes heap objects."""
        return any(
            isinstance(item, Alloc)
            for function in self.lowered.program.functions.values()
            for block in function.blocks.values()
            for item in block.instructions
        )

    def start_plain(self) -> None:
        """Memory of a program that runs straight through."""
        main = self.lowered.program.functions[self.lowered.elaborated.main]
        references = [t is Type.REF for t in main.results]
        self.rows = max(1, len(references))
        self.lanes[SHALLOW] = self.grid("run_all") * self.device.block
        c = self.control
        c[k.STATE] = self.own("state", 8 * self.rows * self.particles)
        c[KEEP], c[ROWS] = int(any(references)), len(references)
        c[MASK] = mask_of_results(self.lowered.elaborated, self.objects)
        self.device.write(int(c[LOGW]), np.full(self.particles, np.nan))

    def start_machine(self) -> None:
        """Memory of a program that stops at its weights."""
        machine = self.lowered.machine
        assert machine is not None
        n, c = self.particles, self.control
        masks = masks_of([f.references for f in machine.frames], len(machine.frames))
        c[FRAMES] = self.own_array("frames", np.array(masks, dtype=np.int64))
        c[k.HEADER], c[SLACK] = machine.header, machine.slack
        c[WEIGHTS] = self.own("weights", 8 * n)
        c[CHUNKS] = self.own("chunks", 8 * self.blocks)
        c[SUPERS] = self.own("supers", 8 * (self.blocks // self.device.block + 1))
        self.add_rows(machine.header + max(len(machine.results) + 2, 4))
        for pool in (0, 1):
            c[POOLS + pool] = self.own(f"pool {pool}", 8 * self.device.pool_words)
            c[POOL_WORDS + pool] = self.device.pool_words
        self.lanes[SHALLOW] = self.grid("advance") * self.device.block
        c[SHALLOW_LANES] = self.lanes[SHALLOW]
        least = machine.header + 2 + 2 * machine.slack
        self.new_stacks(SHALLOW, max(least, self.stack_words()))
        self.lanes[DEEP_LANES] = min(16 * self.device.block, self.lanes[SHALLOW])
        self.new_stacks(DEEP_LANES, 4 * int(c[STACK_WORDS]))
        c[GRAB], c[PATIENCE] = self.grab(), self.device.patience

    def stack_words(self) -> int:
        """Words of each lane's stack: what recursion may need, as far as memory is not wasted."""
        words, lanes = self.device.stack_words, self.lanes[SHALLOW]
        most = min(self.device.stack_bytes, self.limits.max_memory // 8)
        while words < MOST_STACK_WORDS and 16 * words * lanes <= most:
            words *= 2
        return words

    def grab(self) -> int:
        """Particles that a warp takes at once: some for every warp, whole warps of them if many."""
        warp = self.device.warp
        share = self.particles * warp // (2 * self.lanes[SHALLOW])
        few = share < max(1, warp // 2)
        return max(4, share) if few else min(2, (share + warp // 2) // warp) * warp

    def grid(self, kernel: str) -> int:
        """Blocks that can run at once, or fewer if there are fewer particles."""
        return min(self.blocks, self.device.resident(kernel))

    def new_stacks(self, kind: int, words: int) -> None:
        """Stacks of some words for the lanes that run particles."""
        c = self.control
        c[STACK_WORDS + kind] = words
        c[STACKS + kind] = self.own(f"stacks {kind}", 8 * words * self.lanes[kind])
        if kind == DEEP_LANES:
            c[SLOTS] = self.own("slots", 8 * self.lanes[kind])
            c[SLOT_COUNT] = self.lanes[kind]

    def add_rows(self, more: int) -> None:
        """More rows of state, and as many free ones as resampling needs; BASE becomes 0."""
        c, n = self.control, self.particles
        base, physical = int(c[BASE]), len(self.ring)
        self.ring = [self.ring[(base + r) % physical] for r in range(physical)]
        used, free = self.ring[: self.rows], self.ring[self.rows :]
        self.rows += more
        fit = max(1, FREE_ROWS_BYTES // (8 * self.most))
        self.free_rows = max(1, len(free), min(self.rows, fit))
        wanted = self.rows + self.free_rows - physical
        self.check(8 * n * wanted, STACK_FULL)
        for name in range(physical, physical + wanted):
            self.own(f"row {name}", 8 * n)
        self.ring = [*used, *range(physical, physical + wanted), *free]
        table = np.array([self.owned[f"row {r}"][0] for r in self.ring], dtype=np.int64)
        c[TABLE_OF_ROWS] = self.own_array("table of rows", table)
        c[ROWS], c[BASE], c[PHYSICAL], c[GAP] = self.rows, 0, len(self.ring), self.free_rows

    def new_heap(self, words: int, used: int) -> None:
        """Use a heap of some words, of which some bytes are taken."""
        c = self.control
        if used == 0:
            self.heap = self.own("heap", 8 * words)
        self.heap_words = words
        c[k.HEAP_NEXT], c[k.HEAP_END] = self.heap + used, self.heap + 8 * words
        free = 8 * words - used
        c[k.CHUNK] = max(256, free // (2 * sum(self.lanes)) & ~7)

    # Running.

    def step(self) -> Sequence[tuple[str, int, int]]:
        """The kernels of one step: name, blocks, argument."""
        return [
            ("advance", self.lanes[SHALLOW] // self.device.block, 0),
            ("resample", self.grid("resample"), 0),
        ]  # fmt: skip

    def run(self) -> GpuRun:
        """Run to the end."""
        self.start()
        self.device.synchronize()
        begin = time.perf_counter()
        plain = self.lowered.machine is None
        while True:
            if plain:
                self.device.launch(
                    [("run_all", self.lanes[SHALLOW] // self.device.block, 0)], self.address
                )
            else:
                self.device.launch([*self.step()] * BATCH, self.address)
            self.device.read(self.address, self.control)
            c = self.control
            outcome = int(c[OUTCOME])
            failed = first_failure(c)
            if failed:
                raise self.error(failed)
            if outcome == k.DEAD:
                raise self.error(ALL_ZERO)
            if outcome == k.FINISHED or (plain and not c[WAITS]):
                return self.finish(time.perf_counter() - begin)
            if c[WAITS] or c[DEEP]:
                self.make_room()

    def error(self, status: int) -> Exception:
        """Free everything; the error for a status that stopped the run."""
        c = self.control
        for address, _ in self.owned.values():
            self.device.free(address)
        self.owned.clear()
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
        for word in (WAITS, OUTCOME, BEST, ACTIVE, TOTAL, SQUARES, NEXT, NEXT + 1, DEEP, SPILLERS):
            c[word] = 0
        c[SPILL_WORDS] = 0
        self.device.write(self.address, c)
        if "supers" in self.owned:
            size = self.blocks // self.device.block + 1
            self.device.write(self.owned["supers"][0], np.zeros(size, dtype=np.int64))

    def make_room(self) -> None:
        """Give the particles that wait what they wait for."""
        waits = int(self.control[WAITS])
        if not waits:
            waits = self.run_deep()
        if waits >> HEAP_FULL & 1:
            self.grow_heap()
        if waits >> DEPTH & 1 and not waits >> STACK_FULL & 1:
            raise self.error(DEPTH)
        if waits >> STACK_FULL & 1:
            self.grow_stacks()
        if waits >> POOL_FULL & 1:
            self.grow_rows_or_pool()
        self.resume()

    def run_deep(self) -> int:
        """Run the particles that found no large stack; what they wait for after that."""
        c = self.control
        c[OUTCOME] = k.RUNNING
        self.device.write(self.address, c)
        blocks = self.lanes[DEEP_LANES] // self.device.block
        self.device.launch([("advance", blocks, 1)], self.address)
        self.device.read(self.address, c)
        failed = first_failure(c)
        if failed:
            raise self.error(failed)
        return int(c[WAITS])

    def grow_stacks(self) -> None:
        """Larger stacks for the deep lanes; fewer of them while that is possible."""
        words, block = 4 * int(self.control[STACK_WORDS + DEEP_LANES]), self.device.block
        lanes = max(block, self.lanes[DEEP_LANES] // 4 // block * block)
        _, size = self.owned[f"stacks {DEEP_LANES}"]
        self.check(8 * words * lanes - size, STACK_FULL)
        self.lanes[DEEP_LANES] = lanes
        self.device.free(self.owned.pop(f"stacks {DEEP_LANES}")[0])
        self.new_stacks(DEEP_LANES, words)

    def grow_rows_or_pool(self) -> None:
        """More rows if many particles need them, else a larger pool for the few that do."""
        c = self.control
        spillers, pool = int(c[SPILLERS]), (int(c[k.STEP]) + 1) & 1
        begun = int(c[NEXT]) + self.lanes[SHALLOW] // self.device.warp * int(c[GRAB])
        all_ran = begun >= self.particles or self.particles <= self.device.patience
        settled = self.particles if all_ran else int(c[ACTIVE]) + spillers
        capacity = int(c[POOL_WORDS + pool])
        c[POOL_NEXT] = min(int(c[POOL_NEXT]), capacity)
        if 8 * spillers >= settled:
            c[OLD_ROWS] = self.rows
            self.add_rows(max(1, math.ceil(int(c[SPILL_WORDS]) / spillers) - 1))
            self.device.write(self.address, c)
            self.device.launch([("widen", self.blocks, 0)], self.address)
            return
        words = max(2 * capacity, capacity + int(c[SPILL_WORDS]))
        self.check(8 * words, STACK_FULL)
        c[POOLS + pool] = self.own(f"pool {pool}", 8 * words, keep=8 * capacity)
        c[POOL_WORDS + pool] = words

    def grow_heap(self) -> None:
        """A fresh heap with what is alive in the old one; twice the size if that is over half."""
        words = self.heap_words
        used = self.move_heap(words)
        now = (int(self.control[k.STEP]), words, int(self.control[LIVE]))
        if self.collections == now or 2 * used > 8 * words:
            self.check(16 * words, HEAP_FULL)
            words = max(2 * words, used // 4)
            used = self.move_heap(words)
        self.collections = now
        self.new_heap(words, used)
        regions = np.zeros(2 * sum(self.lanes), dtype=np.int64)
        self.device.write(self.owned["regions"][0], regions)

    def move_heap(self, words: int) -> int:
        """Move what is alive to a heap of some words; how many bytes that takes.

        Copies leave some room between them unused (`collect.cuh`).
        """
        c, old, block = self.control, self.heap, self.device.block
        _, size = self.owned["old heap"] = self.owned.pop("heap")
        blocks = min(self.device.resident("move_heap"), -(-self.particles // (8 * block)))
        room = 3 * self.heap_words // 2 + MOVED_CHUNK * blocks * block
        new = self.own("heap", 8 * max(words, room))
        c[LOW], c[HIGH], c[TARGET], c[LIVE] = old, old + size, new, 0
        self.device.write(self.address, c)
        self.device.launch([("move_heap", blocks, 0)], self.address)
        self.device.read(self.address, c)
        self.owned.pop("old heap")
        self.device.free(old)
        self.heap, self.heap_words = new, words
        return int(c[TARGET]) - new

    # Results.

    def finish(self, seconds: float) -> GpuRun:
        """Results and evidence, once all particles have finished."""
        c, n = self.control, self.particles
        logw = np.empty(n)
        self.device.read(int(c[LOGW]), logw)
        if float(np.max(logw)) == -math.inf:
            raise self.error(ALL_ZERO)
        rows, ancestors = self.result_rows()
        evidence = self.evidence(logw)
        heap = np.empty(self.heap_words if self.allocates() else 1, dtype=np.int64)
        self.device.read(self.heap, heap)
        run = SmcRun(rows, logw, evidence, ancestors, int(c[k.RESAMPLED]), int(c[k.STEP]), [heap])
        sizes = {name: size for name, (_, size) in self.owned.items()}
        for address, _ in self.owned.values():
            self.device.free(address)
        return GpuRun(run, heap, self.heap, self.peak, seconds, self.rows, sizes)

    def evidence(self, logw: npt.NDArray[np.float64]) -> float:
        """The logarithm of the evidence, of the weights of all particles at the end."""
        best = float(np.max(logw))
        relative = logw - best
        last = best + math.log(float(np.exp(relative, out=relative).sum()) / len(logw))
        return last + float(self.control[k.LOG_Z : k.LOG_Z + 1].view(np.float64)[0])

    def result_rows(self) -> tuple[Words, Words]:
        """The rows of the results, and each particle's first ancestor."""
        c, n, machine = self.control, self.particles, self.lowered.machine
        if machine is None:
            rows = np.empty((int(c[ROWS]), n), dtype=np.int64)
            self.device.read(int(c[k.STATE]), rows)
            return rows, np.arange(n)
        rows = np.empty((len(machine.results), n), dtype=np.int64)
        first = np.empty(n, dtype=np.int64)
        for word, data in [(0, first), *((machine.header + r, rows[r]) for r in range(len(rows)))]:
            name = self.ring[(int(c[BASE]) + word) % len(self.ring)]
            self.device.read(self.owned[f"row {name}"][0], data)
        return rows, first_ancestors(first)


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
    return GpuMemory(device, lowered, image, particles, seed, threshold, limits).run()
