"""The clock inside kernels: what the power limit leaves while they run.

NVML's reading is an average over milliseconds; between two executions the device is less loaded and
its clock higher. Here one warp beside the kernel writes pairs of time and clock, small kernels
before and after each execution write the time, and the clock inside is the slope between them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

import cost_engines as engines
import numpy as np
import torch
from contenders import Problem, Tile, tawa_work
from rows import Run

from tawa.base.kernel_spec import KernelSpec, PointerParam
from tawa.kernels.attention import Configuration, attention
from tawa.machine.chips import H100
from tawa.runtime import driver, launch
from tawa.runtime.nvrtc import compile_cuda
from tawa.runtime.timing import FLUSH_BYTES, Stopwatch

SOAK = 0.4
"""Seconds that a kernel runs before its clock is read."""
LEAD = 0.005
"""Seconds of executions in flight before the probe starts, and while it runs twice that."""
SIZE = 8192
PING_PONG = {"persistent": True, "consumers": 2, "ping_pong": True, "num_stages": 5, "staging": 1}
COOPERATIVE = {"persistent": True, "consumers": 2, "num_stages": 3}

Case = tuple[dict[str, Any], Callable[[], Any]]


def cases() -> Iterator[Case]:
    """Products and attentions of the benchmarks, with the configurations that win there."""
    for depth in (256, 512, 1024, 2048, 4096, 8192):
        problem = Problem.random(SIZE, SIZE, depth, torch.float16)
        tile = Tile(128, 192, options=PING_PONG)
        if depth > 2048:
            tile = Tile(256, 200, options=COOPERATIVE)
        yield {"kernel": "gemm", "k": depth, "config": str(tile)}, tawa_work(problem, tile)
    for d, rows, causal in (
        (128, 16384, False),
        (128, 1024, False),
        (64, 16384, False),
        (256, 16384, False),
        (128, 16384, True),
    ):
        shape = (16384 // rows * 2048 // d, rows, d)
        q, k, v = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(3))
        using = Configuration(192, 128, {"consumers": 3})
        if d > 64:
            using = Configuration(128, 128 if d == 128 else 64)
        out, case = torch.empty_like(q), {"d": d, "rows": rows, "causal": causal}
        config = f"{using.block_m}x{using.block_n} {using.options}"

        def work(
            q: Any = q, k: Any = k, v: Any = v, out: Any = out, c: Any = causal, u: Any = using
        ):
            return attention(q, k, v, out, causal=c, using=u)

        yield {"kernel": "attention", **case, "config": config}, work


class Probe:
    """The kernels that read times, and their memory."""

    def __init__(self) -> None:
        self.pairs = int(driver.checked("cuMemAlloc", 16 * engines.STAMPS))
        self.stamps = int(driver.checked("cuMemAlloc", 1 << 20))
        self.beside = _load(engines.clock_probe())
        self.stamp = _load(engines.stamp())
        self.stream = int(driver.checked("cuStreamCreate", 1))
        self.flush = int(driver.checked("cuMemAlloc", FLUSH_BYTES))

    def read(self, work: Callable[[], Any], each: float) -> tuple[Any, Any]:
        """Pairs (ns, clock), and the start and end (ns) of executions that take `each` seconds."""
        count = max(3, int(LEAD / (each + 1e-4)))
        driver.checked("cuMemsetD8", self.stamps, 0, 1 << 20)
        for number in range(3 * count):
            if number == count:
                self.beside((1,), [self.pairs], self.stream)
            driver.checked("cuMemsetD8Async", self.flush, 0, FLUSH_BYTES, 0)
            self.stamp((1,), [self.stamps], 0)
            work()
            self.stamp((1,), [self.stamps], 0)
        driver.checked("cuCtxSynchronize")
        pairs = _fetch(self.pairs, 2 * engines.STAMPS).reshape(-1, 2)
        stamps = _fetch(self.stamps, 1 + 6 * count)[1:].reshape(-1, 2)
        return pairs, stamps


def _load(text: str) -> launch.Launcher:
    spec = KernelSpec("probe", 32, 0, (PointerParam(0),), ("out",))
    return launch.load(spec, compile_cuda(text, H100.target).cubin)


def _fetch(address: int, count: int) -> Any:
    found = np.empty(count, np.uint64)
    driver.checked("cuMemcpyDtoH", found.ctypes.data, address, 8 * count)
    return found.astype(np.int64)


def inside(pairs: Any, windows: Any) -> list[float]:
    """The clock (GHz) in each window of time that the pairs cover, from interpolated clocks."""
    times, clocks = pairs[:, 0], pairs[:, 1]
    covered = windows[(windows[:, 0] > times[0]) & (windows[:, 1] < times[-1])]
    base = times[0], clocks[0]
    at = np.interp(covered - base[0], times - base[0], (clocks - base[1]).astype(np.float64))
    return [float(c) for c in (at[:, 1] - at[:, 0]) / (covered[:, 1] - covered[:, 0])]


def measure_clocks(run: Run) -> None:
    """Print and write the clock inside each of `cases`, between them, and NVML's reading."""
    probe, watch = Probe(), Stopwatch()
    for case, work in cases():
        name = str(case)
        with run.sampler.sampling():
            watch.times_for(work, SOAK / 2)
            run.sampler.turn(name)
            times = watch.times_for(work, SOAK)
        each = statistics.median(times)
        pairs, windows = probe.read(work, each / 1e3)
        gaps = np.stack([windows[:-1, 1], windows[1:, 0]], axis=1)
        found, between = inside(pairs, windows), inside(pairs, gaps)
        if not found:
            print(f"{name}: no execution beside the probe", flush=True)
            continue
        beside = statistics.median(float(w) for w in (windows[:, 1] - windows[:, 0])) / 1e6
        row = {
            "ms": round(each, 5),
            "ms_beside_probe": round(beside, 5),
            "kernel_clock_mhz": round(1e3 * statistics.median(found)),
            "clock_between_mhz": round(1e3 * statistics.median(between)) if between else None,
            "executions": len(found),
            **run.sampler.readings(name),
        }
        print(name, row, flush=True)
        run.add(case, "tawa", None, **row)
