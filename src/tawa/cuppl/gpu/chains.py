"""Many chains of NUTS or HMC on a GPU, with the draws that the CPU gives.

The chains start on the device; those whose first start is no good look for another one on the CPU,
one after the other. Then they run on the device, from one window of the warm-up to the next; what
the windows teach is computed here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tawa.cuppl.cpu.executable import FIELD
from tawa.cuppl.cpu.memory import Image
from tawa.cuppl.gpu.device import CudaDevice, Device
from tawa.cuppl.gpu.source import (
    CHAINS_BLOCK,
    LANES_TOGETHER,
    WARPS_A_MULTIPROCESSOR,
    block_of_warps,
    chains_source,
    shared_slots,
)
from tawa.cuppl.inference.adaptation import Plan, Report, warm_up
from tawa.cuppl.inference.density import STEEP, Density
from tawa.cuppl.inference.metrics import Metric, diagonal
from tawa.cuppl.inference.nuts import (
    SLICE,
    Drawn,
    first_point,
    set_words,
    sizes_of_arrays,
    tell_nobody,
)
from tawa.cuppl.inference.results import results_of
from tawa.cuppl.inference.rivals import Rivals
from tawa.cuppl.lowering.pipeline import Lowered
from tawa.cuppl.natives import nuts as k
from tawa.cuppl.natives import tape
from tawa.cuppl.typing.failures import HEAP_FULL
from tawa.runtime import driver

__all__ = ["ChainsKernels", "run_on_gpu", "threads_of_a_block"]

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.int64]

# Words of the control block, and of each chain (`chains.cuh`).
CHAINS, LANES, LAST, LEARNING, KEPT, INPUTS, METERS, SAMPLERS, OWN, HEAPS, HEAP_WORDS = range(11)
SEED_LOW, SEED_HIGH, FIRST, WANTED, ENDED, STATUS, SITE, LOG_DENSITY, OWN_WORDS = range(9)
RUN, FIND, START = 0, 1, 2
FASTER = 8
"""So many more chains than warps still have a warp each, where lanes share loops over data."""
CONTROL_WORDS = 11
LEARNED = (k.WORK, k.METRIC, k.FACTOR, k.MOMENTS)
"""Arrays that are written or read in the warm-up."""
READ = (k.COLUMNS, k.POSITIONS, k.STATISTICS)
"""Arrays that are read when the chains are done."""


@dataclass(slots=True)
class GpuChains:
    """A team of chains on a device (`inference/adaptation.py`)."""

    device: Device
    density: Density
    image: Image
    plans: list[Plan]
    dimension: int = 0
    told: Words = field(init=False)
    """What is written before the chains run, and read after that: the next three, side by side."""
    control: Words = field(init=False)
    own: Words = field(init=False)
    words: Words = field(init=False)
    meters: Words = field(init=False)
    arrays: dict[int, Floats] = field(default_factory=dict[int, Floats])
    """Copies on the host of arrays that the warm-up needs, a row a chain."""
    owned: dict[object, int] = field(default_factory=dict[object, int])
    """Addresses on the device."""
    places: dict[int, int] = field(default_factory=dict[int, int])
    """Those of arrays, which lie side by side."""
    taken: dict[object, int] = field(default_factory=dict[object, int])
    """Bytes of each."""
    dirty: set[int] = field(default_factory=set[int])
    """Arrays whose copies are newer."""
    found: tuple[Floats, Floats] = field(init=False)
    """The start that the CPU found last: a point, and variances."""

    def __post_init__(self) -> None:
        count, density = len(self.plans), self.density
        sizes = [CONTROL_WORDS, count * OWN_WORDS, count * k.SAMPLER_WORDS]
        self.told = self.device.host(sum(sizes))
        self.told[:] = 0
        self.control, own, words = np.split(self.told, np.cumsum(sizes[:2]))
        self.own, self.words = own.reshape(count, -1), words.reshape(count, -1)
        self.meters = np.zeros((count, tape.METER_WORDS), dtype=np.int64)
        seeds = np.array([p.seed & (1 << 64) - 1 for p in self.plans], dtype=np.uint64)
        self.own[:, SEED_LOW] = (seeds & np.uint64(0xFFFFFFFF)).astype(np.int64)
        self.own[:, SEED_HIGH] = (seeds >> np.uint64(32)).astype(np.int64)
        set_words(self.words, self.plans[0], density.dimension, self.kept_words, density.limits)

    @property
    def kept_words(self) -> int:
        """How many result words are kept with each draw."""
        return self.density.kept_words

    @property
    def moments(self) -> Floats:
        """What the window so far has seen."""
        self.device.read(self.places[k.MOMENTS], self.arrays[k.MOMENTS])
        return self.arrays[k.MOMENTS]

    def forget(self, chains: npt.NDArray[np.bool_]) -> None:
        """Some chains begin a new window."""
        self.arrays[k.MOMENTS][chains] = 0.0
        self.words[chains, k.SEEN] = 0
        self.dirty.add(k.MOMENTS)

    @property
    def seeds(self) -> list[int]:
        """Of each chain."""
        return [plan.seed for plan in self.plans]

    @property
    def densities(self) -> Floats:
        """The log density where each chain is."""
        return self.own.view(np.float64)[:, LOG_DENSITY].copy()

    # Set-up.

    def start(self) -> None:
        """Find where the chains start, and copy all to the device."""
        need = np.array(self.find_start(0))
        self.lay_out()
        self.take_start(0)
        self.words[:, k.RESULTS] = self.each("results", 8 * len(self.density.results))
        n = self.dimension
        self.meters[:, tape.DIMENSION] = self.meters[:, tape.ROOM] = n
        self.meters[:, tape.POSITION] = self.each("position", 8 * n)
        control, device = self.control, self.device
        control[CHAINS] = len(self.plans)
        together = self.device.together
        control[LANES] = 1 if together else min(device.warp, -(-len(self.plans) // device.warps))
        inputs = self.place("inputs", max(8, 8 * len(self.image.words)))
        control[INPUTS] = inputs
        self.device.write(inputs, self.image.at(inputs))
        place = self.place("told", self.told.nbytes)
        control[OWN] = place + control.nbytes
        control[SAMPLERS] = control[OWN] + self.own.nbytes
        self.make_room(*need)
        for chain in self.start_there().tolist():
            need = np.maximum(need, self.find_start(chain))
            self.take_start(chain)
        self.make_room(*need)

    def lay_out(self) -> None:
        """Place the arrays, side by side on both sides."""
        count, sizes = len(self.plans), self.sizes()
        rows = [sizes[word] for word in LEARNED]
        whole = self.device.host(count * sum(rows)).view(np.float64)
        whole[:] = 0.0
        parts = np.split(whole, np.cumsum(count * np.array(rows))[:-1])
        for word, part in zip(LEARNED, parts, strict=True):
            self.arrays[word] = part.reshape(count, -1)
        for words in (LEARNED, READ):
            place = self.place(words, 8 * count * sum(sizes[word] for word in words))
            for word in words:
                self.places[word] = place
                self.words[:, word] = place + 8 * sizes[word] * np.arange(count, dtype=np.int64)
                place += 8 * count * sizes[word]

    def sizes(self) -> dict[int, int]:
        """Floats of each array of a chain."""
        return sizes_of_arrays(self.plans[0], self.dimension, self.kept_words)

    def find_start(self, chain: int) -> tuple[int, int]:
        """Find where a chain starts; entries of the tape and words of the heap that a run needs."""
        density, plan = self.density, self.plans[chain]
        if chain:
            density.restart(plan.seed)
        else:
            self.dimension = density.dimension
        if density.dimension != self.dimension:
            raise density.changed()
        density.context[FIELD["key1"]] = plan.seed >> 32 & 0xFFFFFFFF
        self.found = first_point(density, self.kept_words)
        used = int(density.context[FIELD["heap"]] - density.context[FIELD["heap_start"]])
        return int(density.meter[tape.USED]), used // 8

    def take_start(self, chain: int) -> None:
        """Put a chain at the start that was found."""
        point, variances = self.found
        self.arrays[k.WORK][chain, : len(point)] = point
        self.dirty.add(k.WORK)
        self.use(np.array([chain]), diagonal(variances))

    def start_there(self) -> Words:
        """Find starts on the device; the chains, but for the first, that did not find one."""
        n, work, own = self.dimension, self.arrays[k.WORK], self.own
        own[1:, WANTED] = 1
        self.run_kernel(START)
        self.device.read(self.places[k.WORK], work)
        steep = np.abs(work[:, n : 2 * n])
        with np.errstate(invalid="ignore"):
            even = (steep.max(1) <= STEEP) & (steep.min(1) >= 1.0 / STEEP)
        good = (own[:, ENDED] == 0) & even
        own[:, WANTED] = own[:, ENDED] = own[:, STATUS] = 0
        good[0] = False
        rows = 1.0 / np.clip(steep[good], 1.0, 1e20)
        self.words[good, k.KIND] = 0
        self.arrays[k.METRIC][good, :n], self.arrays[k.FACTOR][good, :n] = rows, np.sqrt(rows)
        self.dirty |= {k.METRIC, k.FACTOR}
        good[0] = True
        return np.flatnonzero(~good)

    def place(self, name: object, size: int) -> int:
        """Some bytes of the device, instead of those that had the name."""
        if name in self.owned:
            self.device.free(self.owned.pop(name))
        self.taken[name] = size
        self.density.check_memory(sum(self.taken.values()))
        self.owned[name] = self.device.allocate(size)
        return self.owned[name]

    def each(self, name: object, size: int) -> Words:
        """The addresses of so many bytes for each chain."""
        count = len(self.plans)
        return self.place(name, count * size) + size * np.arange(count, dtype=np.int64)

    def make_room(self, entries: int, heap: int) -> None:
        """Tapes and heaps, with more than runs need that took so many entries and words."""
        if 2 * entries + 64 > self.meters[0, tape.SIZE]:
            self.new_tapes(2 * entries + 64)
        if 2 * heap + 64 > self.control[HEAP_WORDS]:
            self.new_heaps(2 * heap + 64)

    def new_tapes(self, size: int) -> None:
        """Room for the tapes."""
        m = self.meters
        m[:, tape.SIZE] = size
        m[:, tape.ENTRIES] = self.each("entries", 32 * (size + 1))
        m[:, tape.ADJOINTS] = self.each("adjoints", 8 * (size + 1))
        self.control[METERS] = self.place("meters", m.nbytes)
        self.device.write(self.owned["meters"], m)

    def new_heaps(self, words: int) -> None:
        """Heaps, and as many words for the places of the floats in them."""
        self.control[HEAP_WORDS] = words
        self.control[HEAPS] = self.place("heaps", 16 * words * len(self.plans))

    def close(self) -> None:
        """Give the device's memory back."""
        for address in self.owned.values():
            self.device.free(address)
        self.owned.clear()

    # What the warm-up asks for.

    def use(self, chains: Words, metric: Metric) -> None:
        """Give some chains a metric."""
        rows = slice(None) if len(chains) == len(self.plans) else chains
        self.words[rows, k.KIND] = metric.kind
        for word, array in ((k.METRIC, metric.words), (k.FACTOR, metric.roots)):
            self.arrays[word][rows, : array.size] = array
            self.dirty.add(word)

    def put(self, chains: Words, points: Floats) -> None:
        """Put some chains somewhere else."""
        if len(chains):
            work = self.arrays[k.WORK]
            self.device.read(self.places[k.WORK], work)
            work[chains, : points.shape[1]] = points
            self.dirty.add(k.WORK)

    def find_steps(self, iteration: int, chains: npt.NDArray[np.bool_]) -> None:
        """Some chains look for a step size."""
        self.own[:, WANTED] = chains
        self.control[LAST] = iteration
        while self.launch(FIND):
            pass

    def run(self, first: int, last: int, learning: bool, kept: int, report: Report) -> None:
        """Transitions of all chains."""
        control = self.control
        control[LEARNING], control[KEPT] = learning, -1 if kept < 0 else first - kept
        self.own[:, FIRST] = first
        while first < last:
            first = min(last, first + SLICE)
            control[LAST] = first
            while self.launch(RUN):
                pass
            report(first)

    def run_kernel(self, what: int) -> None:
        """Write what the host has changed, run the chains, and read what became of them."""
        device = self.device
        for word in sorted(self.dirty):
            device.write(self.places[word], self.arrays[word], wait=False)
        self.dirty.clear()
        warps = -(-len(self.plans) // int(self.control[LANES]))
        blocks = -(-warps * device.warp // device.block)
        device.write(self.owned["told"], self.told, wait=False)
        device.launch([("run_chains", blocks, what)], self.owned["told"])
        device.read(self.owned["told"], self.told)

    def launch(self, what: int) -> bool:
        """Go on with all chains; whether some were left because they need more room."""
        control = self.control
        self.run_kernel(what)
        ended, status = self.own[:, ENDED], self.own[:, STATUS]
        if not ended.any():
            return False
        no_heap = (ended == k.FAILED) & (status == HEAP_FULL)
        for chain in np.flatnonzero((ended == k.CHANGED) | (ended == k.FAILED) & ~no_heap)[:1]:
            raise self.error(int(chain))
        full = (ended == k.FULL).any()
        if full:
            self.new_tapes(4 * int(self.meters[0, tape.SIZE]))
        if no_heap.any():
            self.new_heaps(2 * int(control[HEAP_WORDS]))
        if full or no_heap.any():
            self.own[:, ENDED] = self.own[:, STATUS] = 0
        return bool(full or no_heap.any())

    def error(self, chain: int) -> Exception:
        """Why a chain can't go on."""
        density, ended, status = self.density, *(int(self.own[chain, w]) for w in (ENDED, STATUS))
        density.seed = self.plans[chain].seed
        if ended == k.CHANGED:
            meters = np.zeros_like(self.meters)
            self.device.read(self.owned["meters"], meters)
            density.meter[tape.TAKEN] = meters[chain, tape.TAKEN]
            return density.changed()
        density.context[FIELD["site"]] = self.own[chain, SITE]
        return density.error(status)

    # Results.

    def finish(self) -> Drawn:
        """What the chains have drawn."""
        count, draws, sizes = len(self.plans), self.plans[0].draws, self.sizes()
        rows = np.array([sizes[word] for word in READ])
        whole = self.device.host(count * int(rows.sum()))
        self.device.read(self.owned[READ], whole)
        columns, points, statistics = np.split(whole, np.cumsum(count * rows)[:-1])
        positions = points.view(np.float64).reshape(count, draws, -1)
        columns = columns.reshape(count, -1, draws)
        kept = statistics.view(np.float64).reshape(count, len(k.KEPT), draws)
        named: dict[str, Floats] = dict(zip(k.KEPT, kept.swapaxes(0, 1), strict=True))
        if not any(self.density.references):
            return Drawn([*columns], [*positions], named, [[] for _ in range(count)])
        found = [results_of(self.density, some) for some in positions]
        return Drawn([one for one, _ in found], [*positions], named, [one for _, one in found])


def threads_of_a_block(chains: int, multiprocessors: int, most: int) -> int:
    """Threads of a block where each of so many chains has a warp.

    A multiprocessor is the faster the fewer chains it runs, so that all get some before one gets
    many; those that it runs are one block, as far as `most` threads go.
    """
    return min(most, 32 * max(1, -(-chains // multiprocessors)))


@dataclass(slots=True)
class ChainsKernels:
    """Kernels of a differentiated program on the first GPU, made when chains first need them.

    Each chain has the lanes of a warp, unless there are far too many. A chain with a warp is some
    ten times as fast as one with a lane where lanes share loops over data, and a few times where
    they share its own arithmetic alone.
    """

    lowered: Lowered
    slots: int = field(init=False)
    """Of loops over data that lanes share."""
    kept: dict[tuple[bool, int], Device] = field(default_factory=dict[tuple[bool, int], Device])
    """By whether lanes are together, and the threads of a block."""

    def __post_init__(self) -> None:
        self.slots = shared_slots(self.lowered)

    def device(self, chains: int) -> Device:
        """The first GPU with the kernels for so many chains."""
        multiprocessors = driver.device(0).multiprocessors
        faster = FASTER if self.slots else 1
        together = chains <= faster * WARPS_A_MULTIPROCESSOR * multiprocessors
        block = CHAINS_BLOCK
        if together:
            block = threads_of_a_block(chains, multiprocessors, block_of_warps(self.slots))
        if (together, block) not in self.kept:
            source = chains_source(self.lowered, together=LANES_TOGETHER if together else None)
            self.kept[together, block] = CudaDevice(source, block=block, together=together)
        return self.kept[together, block]


def run_on_gpu(
    device: Any, density: Density, image: Image, plans: list[Plan], report: Report | None,
    rivals: Rivals,
) -> tuple[Drawn, float]:  # fmt: skip
    """Chains, and the seconds that they took from their starts on; `density` is the first's."""
    plan, tell = plans[0], report or tell_nobody
    begin = time.perf_counter()
    team = GpuChains(device, density, image, plans)
    try:
        if plan.warm_up:
            rivals.prepare(ahead=True)  # on a core of its own, while the device works
        team.start()
        warm_up(team, plan, tell, rivals)
        team.run(plan.warm_up, plan.warm_up + plan.draws, False, 0, tell)
        drawn = team.finish()
    finally:
        team.close()
        rivals.wait()
    return drawn, time.perf_counter() - begin
