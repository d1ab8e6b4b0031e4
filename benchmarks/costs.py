"""Micro-benchmarks of the timing model's costs on an H100, beside the target table's values.

    python benchmarks/costs.py               # measure: prints a table, writes rows (suite `costs`)
    python benchmarks/costs.py --dry         # only compile every kernel; needs no GPU

Each probe is one small kernel (`cost_kernels`, `cost_engines`). Clocks are medians of a few runs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cost_engines as engines
import cost_kernels as kernels
import numpy as np
from rows import Run

from tawa.base.kernel_spec import KernelSpec, PointerParam, TensorMapParam
from tawa.machine.chips import H100
from tawa.runtime import driver, launch
from tawa.runtime.nvrtc import compile_cuda
from tawa.runtime.timing import Stopwatch

OUT_BYTES = 1 << 16
ARRAY_BYTES = 1 << 30
REPEATS = 5
REACH = {"L2": 16 << 20, "memory": ARRAY_BYTES}
"""Bytes of an array that stays in L2, and of one that does not."""
MULTIPROCESSORS = H100.multiprocessors

Values = dict[str, float]


@dataclass(frozen=True)
class Probe:
    """One micro-benchmark: a program, its launch, and how its output words are read.

    `read` turns the `u32` words of one run into named clocks (or rates); `expected` are what the
    target table says of the same names.
    """

    name: str
    text: str
    read: Callable[[Any], Values]
    threads: int = 128
    grid: int = 1
    shared_bytes: int = 0
    rows: int = 0
    """Rows of the boxes of 64 f16 that the tensor map moves; 0 without a map."""
    stored: bool = False
    expected: Values = field(default_factory=dict[str, float])
    repeats: int = REPEATS

    def spec(self) -> KernelSpec:
        """How to launch it: arguments are the output and, for copies, an array of f16."""
        map_ = TensorMapParam(
            arg=1,
            element_type="f16",
            box=(self.rows, 64),
            shape=(ARRAY_BYTES // 128, 64),
            strides=(64, 1),
            swizzle=128,
            source="array",
            stored=self.stored,
        )
        parameters = (PointerParam(0), map_) if self.rows else (PointerParam(0),)
        return KernelSpec("probe", self.threads, self.shared_bytes, parameters, ("out", "array"))


def matrix_probes() -> Iterator[Probe]:
    """Matrix instructions: by N, operands and how many warp groups issue at once."""
    shapes = [(n, 1, rs, t) for n in (64, 128, 256) for rs in (False, True) for t in (False, True)]
    shapes += [(n, 1, False, False) for n in (80, 96, 192, 200)]
    shapes += [(64, 2, False, False), (128, 2, False, False), (256, 2, False, False)]
    shapes += [(128, 3, False, False), (128, 3, True, True), (80, 3, False, False)]
    for n, groups, from_registers, transposed in shapes:
        kind = f"{'registers' if from_registers else 'shared'}{', B along N' if transposed else ''}"
        yield Probe(
            f"wgmma n{n}, {groups} groups, A in {kind}",
            kernels.matrix(n, groups, from_registers, transposed),
            lambda words, groups=groups: read_matrix(words, groups),
            threads=128 * groups,
            shared_bytes=65536,
            expected={"cycles an instruction": max(n / 2, 8.0)},
        )


def read_matrix(words: Any, groups: int) -> Values:
    """Issue and completion by count for each group; slope from 16 to 32; loops per instruction."""
    found: Values = {}
    for group in range(groups):
        own = words[group * 64 : group * 64 + 64]
        for place, count in enumerate(kernels.COUNTS):
            found[f"group {group}: {count} issued after"] = float(own[2 * place])
            found[f"group {group}: {count} done after"] = float(own[2 * place + 1])
        each = 4 * kernels.ROUNDS
        found[f"group {group}: loop, wait 0, an instruction"] = float(own[40]) / each
        found[f"group {group}: loop, wait 1, an instruction"] = float(own[41]) / each
    found["cycles an instruction"] = (float(words[11]) - float(words[9])) / 16 / groups
    return found


PIPE_COSTS = {"fadd": 1, "ffma": 1, "imad": 2, "fmnmx": 2, "pack": 2, "ex2": 8, "ffma+ex2": 8}
"""Cycles of a scheduler for one instruction of a warp, by the throughput table."""


def pipe_probes() -> Iterator[Probe]:
    """Ordinary instructions: latency of a chain, throughput with 1 to 4 warps a scheduler."""
    for name, text in kernels.PIPES.items():
        for warps, chains in ((1, 1), (1, 16), (2, 16), (4, 16)):
            count = 16 * kernels.ROUNDS * chains * warps
            what = "latency" if chains == 1 else "cycles an instruction"
            expected = {what: float(PIPE_COSTS.get(name, 0))} if chains > 1 else {}
            yield Probe(
                f"{name}, {warps} warps a scheduler, {chains} chains",
                kernels.pipe(text, 128 * warps, chains),
                lambda words, what=what, count=count: {what: float(words[0]) / count},
                threads=128 * warps,
                expected=expected,
            )


def jump_probes() -> Iterator[Probe]:
    """Jumps over code that never runs, in an iteration whose warps share a scheduler."""
    for warps in (1, 3):
        for count, skipped in ((0, 0), (1, 128), (3, 128), (3, 32), (5, 128), (5, 512)):
            yield Probe(
                f"{count} jumps over {skipped}, {warps} warps a scheduler",
                kernels.jumps(128 * warps, count, skipped),
                lambda words: {"cycles an iteration": float(words[0]) / kernels.ROUNDS},
                threads=128 * warps,
            )


def softmax_probes() -> Iterator[Probe]:
    """Softmaxes alone, beside a busy tensor core, and in the shadow of the own products."""
    width, rounds = kernels.WIDTH, kernels.ROUNDS
    bound = {f"group {g}: an element": 8.0 for g in range(1)}
    for groups in (1, 2, 3):
        yield Probe(
            f"softmax alone, {groups} groups",
            kernels.softmax(128 * groups),
            lambda words, groups=groups: {
                f"group {g}: an element": float(words[g]) / width / rounds for g in range(groups)
            },
            threads=128 * groups,
            expected=bound,
        )
    for n, softmaxes in ((256, 1), (256, 2), (128, 1), (128, 2)):
        yield Probe(
            f"softmax beside wgmma n{n}, {softmaxes} groups",
            kernels.contention(n, softmaxes),
            lambda words, count=softmaxes: {
                "an instruction": float(words[0]) / (16 * rounds),
                **{
                    f"group {g}: an element": float(words[g]) / width / rounds
                    for g in range(1, count + 1)
                },
            },
            threads=128 * (1 + softmaxes),
            shared_bytes=65536,
        )
    for n, count, groups in ((128, 8, 1), (128, 8, 2), (128, 16, 1), (128, 16, 2), (64, 8, 3)):
        yield Probe(
            f"{count} wgmma n{n} over a softmax, {groups} groups",
            kernels.shadow(n, count, groups),
            lambda words, groups=groups: {
                f"group {g}: a turn": float(words[g]) / rounds for g in range(groups)
            },
            threads=128 * groups,
            shared_bytes=65536,
            expected={"group 0: a turn": max(groups * count * n / 2.0, 8.0 * width)},
        )


def barrier_probes() -> Iterator[Probe]:
    """Barriers, fences, stmatrix, and moves of registers between warp groups."""
    rounds = kernels.ROUNDS
    names = ("a satisfied wait", "an arrival")
    yield Probe(
        "mbarrier",
        engines.mbarriers(),
        lambda words: {n: float(words[i]) / rounds for i, n in enumerate(names)},
        shared_bytes=1024,
    )
    yield Probe(
        "mbarrier, two groups in turn",
        engines.mbarrier_turns(),
        lambda words: {"arrival to waiter": float(words[0]) / rounds / 2},
        threads=256,
        shared_bytes=1024,
        expected={"arrival to waiter": float(H100.costs.arrive + H100.costs.mbarrier_latency)},
    )
    meetings = ("sync of 128", "sync of 256", "arrive to sync", "arrive")
    yield Probe(
        "named barrier",
        engines.named_barriers(),
        lambda words: {
            n: float(words[i]) / rounds / (1 + (i == 2)) for i, n in enumerate(meetings)
        },
        threads=256,
        expected={
            "arrive to sync": float(H100.costs.barrier),
            "arrive": float(H100.costs.meeting_arrive),
        },
    )
    parts = (
        *("store and proxy fence", "4 stmatrix.x4 of 4 warps", "4 loads of 4 bytes"),
        *("store", "proxy fence", "load to load"),
    )
    yield Probe(
        "shared memory of a group",
        engines.fences(),
        lambda words: {n: float(words[i]) / rounds for i, n in enumerate(parts)},
        shared_bytes=16384,
        expected={
            parts[1]: 8192 / H100.shared_memory_bytes,
            parts[2]: 16.0,
            "proxy fence": H100.costs.fence,
            "load to load": H100.timing.fetch_latency,
        },
    )
    yield Probe(
        "setmaxnreg",
        engines.register_moves(),
        lambda words: {"up, group 0": float(words[0]), "down": float(words[2])},
        threads=384,
    )


def copy_probes() -> Iterator[Probe]:
    """Bulk copies: latency by box, throughput of all multiprocessors by box and place."""
    for rows in (8, 64, 128, 256):
        yield Probe(
            f"copy latency, box of {rows} rows of 128 bytes",
            engines.copy_latency(rows),
            lambda words: {
                "from memory": statistics.median(map(float, words[:8])),
                "from L2": statistics.median(map(float, words[8:16])),
            },
            shared_bytes=65536 + 1024,
            rows=rows,
            expected={"from memory": float(H100.copy_latency)},
            repeats=1,
        )
    yield Probe(
        "issue of copies",
        engines.copy_issue(),
        lambda words: {"a copy": statistics.median(map(float, words[1:4])) / 8},
        shared_bytes=65536 + 1024,
        rows=8,
        expected={"a copy": H100.timing.copy_issue},
    )
    for place, reach in REACH.items():
        for rows, sharing in ((64, 1), (128, 1), (256, 1), (128, 4), (128, 12)):
            size, boxes = rows * 128, (6 << 20) // (rows * 128)
            yield Probe(
                f"copies from {place}, boxes of {rows} rows, {sharing} CTAs load each",
                engines.copy_stream(rows, boxes, reach // size, sharing),
                lambda words, total=boxes * size: rates(words, total),
                grid=MULTIPROCESSORS,
                shared_bytes=engines.STAGES * size + 1024,
                rows=rows,
                expected=limits(place, sharing),
            )
        boxes = (2 << 20) // 8192
        yield Probe(
            f"stores to {place}",
            engines.copy_out(boxes, reach // 8192),
            lambda words, total=boxes * 8192: rates(words, total),
            grid=MULTIPROCESSORS,
            shared_bytes=16384,
            rows=64,
            stored=True,
            expected={"GB/s of all": H100.l2_store_gbs if place == "L2" else H100.memory_gbs},
        )


def limits(place: str, sharing: int) -> Values:
    """The machine's rate of copies, if so many CTAs load the same: GB/s of all."""
    if place == "memory":
        return {"GB/s of all": H100.memory_gbs}
    return {"GB/s of all": H100.l2_gbs if sharing == 1 else H100.l2_shared_gbs}


def rates(words: Any, total: int) -> Values:
    """Bytes a clock of one multiprocessor, and gigabytes a second of all of them."""
    clocks = statistics.median(float(c) for c in words[0 : 2 * MULTIPROCESSORS : 2])
    elapsed = max(float(c) for c in words[1 : 2 * MULTIPROCESSORS : 2])
    return {
        "bytes a clock": total / clocks,
        "GB/s of all": MULTIPROCESSORS * total / elapsed if elapsed else 0.0,
    }


def probes() -> list[Probe]:
    """Every probe, those that cannot hang first."""
    return [
        *matrix_probes(),
        *pipe_probes(),
        *jump_probes(),
        *softmax_probes(),
        *copy_probes(),
        *barrier_probes(),
    ]


class Bench:
    """Memory on the device, and what runs a probe there."""

    def __init__(self) -> None:
        driver.make_current(0)
        self.out = int(driver.checked("cuMemAlloc", OUT_BYTES))
        self.array = int(driver.checked("cuMemAlloc", ARRAY_BYTES))
        driver.checked("cuMemsetD8", self.array, 0, ARRAY_BYTES)

    def words(self) -> Any:
        """The output, as u32."""
        found = np.empty(OUT_BYTES // 4, np.uint32)
        driver.checked("cuMemcpyDtoH", found.ctypes.data, self.out, OUT_BYTES)
        return found

    def measure(self, probe: Probe, cubin: bytes) -> Values:
        """Medians over the probe's repetitions, the first (cold) one left out if there are more."""
        launcher = launch.load(probe.spec(), cubin)
        found: list[Values] = []
        for _ in range(probe.repeats):
            driver.checked("cuMemsetD8", self.out, 0, OUT_BYTES)
            launcher((probe.grid,), [self.out, self.array], 0)
            driver.checked("cuCtxSynchronize")
            found.append(probe.read(self.words()))
        kept = found[1:] or found
        return {name: statistics.median(v[name] for v in kept) for name in kept[0]}


def compiled(chosen: list[Probe]) -> Iterator[tuple[Probe, bytes]]:
    """Machine code of each probe, compiled side by side."""
    with ThreadPoolExecutor() as pool:
        texts = [probe.text for probe in chosen]
        for probe, built in zip(
            chosen, pool.map(lambda text: compile_cuda(text, H100.target), texts), strict=True
        ):
            for finding in built.report.findings():
                print(f"{probe.name}: {finding.kind}: {finding.text}", flush=True)
            yield probe, built.cubin


def main() -> None:
    """Compile, and unless it is a dry run measure, every probe whose name matches."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--dry", action="store_true", help="compile only")
    parser.add_argument("--only", default="", help="part of the names of the probes to take")
    parser.add_argument("--without-clocks", action="store_true", help="leave out the kernel clocks")
    options = parser.parse_args()
    start = time.perf_counter()
    chosen = [probe for probe in probes() if options.only in probe.name]
    if options.dry:
        count = sum(1 for _ in compiled(chosen))
        print(f"{count} probes compile, {time.perf_counter() - start:.1f} s")
        return
    run, bench = Run("costs", options.rows), Bench()
    for probe, cubin in compiled(chosen):
        report(run, probe, bench.measure(probe, cubin))
    print(f"{len(chosen)} probes, {time.perf_counter() - start:.1f} s")
    if not options.only:
        measure_launches(run)
    if not options.without_clocks and not options.only:
        from kernel_clocks import measure_clocks  # needs PyTorch

        measure_clocks(run)
    print(f"all done, {time.perf_counter() - start:.1f} s")


def measure_launches(run: Run) -> None:
    """Time between events of kernels that do nothing, with 1 and 17 CTAs a multiprocessor."""
    threads, shared = 384, H100.shared_bytes
    spec = KernelSpec("probe", threads, shared, (PointerParam(0),), ("out", "array"))
    text = kernels.program("  __syncthreads();", threads)
    empty = launch.load(spec, compile_cuda(text, H100.target).cubin)
    medians: list[float] = []
    for ctas in (1, 17):
        times = Stopwatch().times(lambda n=ctas: empty((n * MULTIPROCESSORS,), [0, 0], 0), 100)
        medians.append(1e3 * statistics.median(times[20:]))
    found = {"one CTA (us)": medians[0], "each further CTA (us)": (medians[1] - medians[0]) / 16}
    print("an empty kernel of 384 threads and all shared memory", found, flush=True)
    run.add({"probe": "empty kernel"}, "tawa", None, clocks=found)


def report(run: Run, probe: Probe, found: Values) -> None:
    """Print a probe's values beside the table's, and write its row."""
    print(probe.name, flush=True)
    for name, value in found.items():
        table = f"{probe.expected[name]:10.1f} in the table" if name in probe.expected else ""
        print(f"    {name:44} {value:10.2f} {table}", flush=True)
    rounded = {name: round(value, 3) for name, value in found.items()}
    run.add({"probe": probe.name}, "tawa", None, clocks=rounded, table=probe.expected)


if __name__ == "__main__":
    main()
