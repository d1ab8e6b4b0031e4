"""CuPPL on the first GPU: exactness, speed and memory, in less than a minute.

    python benchmarks/cuppl_gpu.py [--rows FOLDER] [--limit SECONDS] [--largest PARTICLES]

The birth-death model of the kingfishers' tree at up to 1e7 particles, whose answers are known from
quadrature; an epidemic of 400 days; one core of this machine's CPU on the same program; where the
time goes, kernel by kernel; and what each idea of the execution is worth. What is left when the
limit comes is not run, and said.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cuppl_gpu_peers
from cuppl_cases import EXAMPLES, LAMBDA, LOG_Z, MU, PURE_BIRTH_LOG_Z, birth_death, epidemic
from rows import Run

from tawa import cuppl
from tawa.cuppl.gpu.device import CudaDevice
from tawa.cuppl.gpu.source import cuda_source
from tawa.runtime.timing import Timing

MIB = 2**20
MEMORY_LIMIT = 2048 * MIB


class Clock:
    """What is left of the time."""

    def __init__(self, limit: float) -> None:
        self.start, self.limit = time.perf_counter(), limit

    def spent(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start

    def left(self, seconds: float, what: str) -> bool:
        """Whether there is time for something; says so if not."""
        fits = self.spent() + seconds < self.limit
        if not fits:
            print(f"not run: {what} ({self.spent():.0f} s of {self.limit:.0f} s are over)")
        return fits


class ProfiledDevice(CudaDevice):
    """Waits after each kernel, to see how long it takes."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.seconds: dict[str, float] = {}

    def launch(self, steps: Sequence[tuple[str, int, int]], control: int) -> None:
        """Launch kernels and add up the seconds of each."""
        for step in steps:
            self.synchronize()
            begin = time.perf_counter()
            self._launch([step], control)
            self.synchronize()
            self.seconds[step[0]] = self.seconds.get(step[0], 0.0) + time.perf_counter() - begin


def load(name: str, edit: Callable[[str], str] = str) -> cuppl.Model:
    """An example as a model."""
    return cuppl.model(edit((EXAMPLES / f"{name}.ppl").read_text()), file=f"{name}.ppl")


def compile_time(run: Run, name: str) -> cuppl.Model:
    """A new model's code for the GPU, from its text to loaded kernels."""
    begin = time.perf_counter()
    model = load(name)
    model.gpu_device(suspend=True)
    seconds = time.perf_counter() - begin
    run.add({"model": name, "what": "compile"}, "tawa", Timing((1000 * seconds,)))
    print(f"{name:14} compiled in {seconds:.2f} s", flush=True)
    return model


def repeat(
    model: cuppl.Model, data: dict[str, Any], n: int, runs: int, ess: float
) -> tuple[Any, Timing, int]:
    """Some runs with other seeds: the posterior, times, and bytes missing on the device."""
    _, device = model.gpu_device(suspend=True)
    free, least = device.free_bytes(), [device.free_bytes()]
    allocate = device.allocate

    def watched(size: int) -> int:
        address = allocate(size)
        least[0] = min(least[0], device.free_bytes())
        return address

    device.allocate = watched
    found = model.smc(n, data=data, runs=runs, seed=100, device="gpu", ess_threshold=ess)
    device.allocate = allocate
    times = tuple(1000 * one.device_seconds for one in found.runs)
    return found, Timing(times), free - least[0]


def exactness(
    run: Run, model: cuppl.Model, name: str, data: dict[str, Any], n: int, runs: int
) -> float:
    """Birth-death at one size against the exact answers; milliseconds of a run."""
    begin = time.perf_counter()
    found, timing, bytes_used = repeat(model, data, n, runs, 1.0)
    call = 1000 * (time.perf_counter() - begin) / runs
    checks = {"log_evidence": (found.log_evidence, LOG_Z, found.log_evidence_error)}
    for column, exact in (("lambda", LAMBDA), ("mu", MU)):
        mean, error = found.expectation(column)
        checks[column] = (mean, exact, error)
    worst = max(abs(value - exact) / error for value, exact, error in checks.values())
    one = found.runs[0]
    run.add(
        {"model": name, "particles": n, "ess_threshold": 1.0}, "tawa", timing,
        error={k: [v, exact, error] for k, (v, exact, error) in checks.items()},
        standard_errors=round(worst, 2), bytes_by_driver=bytes_used,
        bytes_allocated=one.device_memory, sizes=one.device_sizes, rows=one.device_rows,
        call_ms=round(call, 1),
    )  # fmt: skip
    print(
        f"{name:14} {n:>9} {timing.median:9.1f} ms (least {min(timing.times):.1f}; "
        f"{call:.1f} with all results)  "
        f"{1e6 * min(timing.times) / n:7.1f} ns a particle  log Z {found.log_evidence:.4f} "
        f"+- {found.log_evidence_error:.4f}, E[lambda] {checks['lambda'][0]:.5f} "
        f"+- {checks['lambda'][2]:.5f}, E[mu] {checks['mu'][0]:.5f} +- {checks['mu'][2]:.5f}: "
        f"{worst:.1f} standard errors {'ok' if worst < 3 else 'WRONG'}; "
        f"{bytes_used / MIB:.0f} MiB by the driver, {one.device_memory / n:.0f} bytes a particle "
        f"({one.device_rows} rows)"
        f"{'' if bytes_used < MEMORY_LIMIT or n < 10**7 else ' TOO MUCH'}",
        flush=True,
    )
    return min(timing.times)


def pure_birth(run: Run, data: dict[str, Any]) -> None:
    """The model without extinction, whose evidence is known in closed form."""
    prior = "let mu = sample (gamma 1.0 0.5) in"
    model = load("crbd_branches", lambda text: text.replace(prior, "let mu = 0.0 in"))
    found, timing, _ = repeat(model, data, 1_000_000, 4, 1.0)
    error = found.log_evidence_error
    away = abs(found.log_evidence - PURE_BIRTH_LOG_Z) / error
    case = {"model": "pure birth", "particles": 1_000_000}
    run.add(case, "tawa", timing, error=[found.log_evidence, PURE_BIRTH_LOG_Z, error])
    print(
        f"pure birth       1000000 {timing.median:9.1f} ms  log Z {found.log_evidence:.4f} +- "
        f"{error:.4f} (exact {PURE_BIRTH_LOG_Z}): {away:.1f} standard errors "
        f"{'ok' if away < 3 else 'WRONG'}",
        flush=True,
    )


def sir(run: Run, model: cuppl.Model, data: dict[str, Any]) -> None:
    """131,072 particles through 400 days."""
    for ess in (0.5, 1.0):
        found, timing, _ = repeat(model, data, 131_072, 5, ess)
        case = {"model": "sir", "particles": 131_072, "steps": 400, "ess_threshold": ess}
        run.add(case, "tawa", timing, log_evidence=found.log_evidence)
        print(
            f"sir               131072 {timing.median:9.1f} ms (least {min(timing.times):.1f}), "
            f"ess_threshold {ess}, resampled {found.runs[0].resampled} times, "
            f"log Z {found.log_evidence:.3f} +- {found.log_evidence_error:.3f}",
            flush=True,
        )


def one_core(run: Run, name: str, data: dict[str, Any], n: int) -> float:
    """Milliseconds of one thread of this machine's CPU."""
    model = load(name)
    model.smc(100, data=data, threads=1)
    times: list[float] = []
    for seed in (1, 2):
        begin = time.process_time()
        model.smc(n, data=data, seed=seed, threads=1, ess_threshold=1.0)
        times.append(1000 * (time.process_time() - begin))
    run.add({"model": name, "particles": n}, "tawa one core", Timing(tuple(times)))
    print(f"{name:14} {n:>9} {min(times):9.1f} ms on one core of {cpu_name()}", flush=True)
    return min(times)


def cpu_name() -> str:
    """The CPU's name, as Linux gives it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), "?")


def profile(run: Run, name: str, data: dict[str, Any], n: int) -> None:
    """Where the time goes: every kernel by itself."""
    model = load(name)
    lowered = model.gpu_code(suspend=True)
    device = ProfiledDevice(cuda_source(lowered))
    model.use_device(True, lowered, device)
    model.smc(n, data=data, seed=1, device="gpu", ess_threshold=1.0)
    device.seconds.clear()
    model.smc(n, data=data, seed=1, device="gpu", ess_threshold=1.0)
    parts = {k: round(1000 * v, 3) for k, v in device.seconds.items()}
    run.add({"model": name, "particles": n, "what": "profile"}, "tawa", None, kernels=parts)
    shown = ", ".join(f"{k} {v:.1f}" for k, v in sorted(parts.items(), key=lambda x: -x[1]))
    print(f"{name:14} {n:>9} ms by kernel (waiting for each): {shown}", flush=True)


VARIANTS: dict[str, tuple[tuple[str, str], ...]] = {
    "as it is": (),
    "three blocks a multiprocessor": (("_bounds__(BLOCK, 2)", "_bounds__(BLOCK, 3)"),),
    "every lane its own segment": (
        ("unsigned same = __match_any_sync(ALL_LANES, point);",
         "if (__any_sync(ALL_LANES, point != IDLE)) return point == IDLE ? ENTER + 2 : point;"
         "unsigned same = 0;"),
    ),
    "the segment of the first lane": (
        ("unsigned same = __match_any_sync(ALL_LANES, point);",
         "unsigned busy = __ballot_sync(ALL_LANES, point != IDLE);"
         "int first = __shfl_sync(ALL_LANES, point, busy ? __ffs(busy) - 1 : 0);"
         "if (busy) return first; unsigned same = 0;"),
    ),
    "four blocks a multiprocessor": (("_bounds__(BLOCK, 2)", "_bounds__(BLOCK, 4)"),),
    "a new particle when one lane is idle": (("4 * bits_in(idle) >= WARP", "bits_in(idle) >= 1"),),
    "new particles when half is idle": (("4 * bits_in(idle)", "2 * bits_in(idle)"),),
    "no large stacks": (("attempt < 64", "attempt < 0"),),
}  # fmt: skip
"""Names and changes of the kernels' text."""


def ablation(
    run: Run, clock: Clock, name: str, data: dict[str, Any], n: int, names: Sequence[str]
) -> None:
    """What each idea of the execution is worth."""
    model = load(name)
    lowered = model.gpu_code(suspend=True)
    whole = cuda_source(lowered)
    for variant in names:
        changes = VARIANTS[variant]
        if not clock.left(3.5, f"variant: {variant}"):
            continue
        text = whole
        for old, new in changes:
            if old not in text:
                raise ValueError(f"variant {variant}: the kernels have no {old!r}")
            text = text.replace(old, new)
        model.use_device(True, lowered, CudaDevice(text))
        found, timing, _ = repeat(model, data, n, 2, 1.0)
        case = {"model": name, "particles": n, "variant": variant}
        run.add(case, "tawa", timing, log_evidence=found.log_evidence)
        print(
            f"{name:14} {n:>9} {min(timing.times):9.1f} ms  {variant} "
            f"(log Z {found.log_evidence:.4f})",
            flush=True,
        )


def measure(run: Run, clock: Clock, largest: int) -> None:
    """Everything, what matters most first."""
    trees, days = birth_death(), epidemic()
    branches = compile_time(run, "crbd_branches")
    best: dict[int, float] = {}
    for n, runs in ((10_000, 24), (100_000, 16), (1_000_000, 8), (10_000_000, 4)):
        seconds = best.get(n // 10, 0.0) * 10 * runs / 1000 + 3e-7 * n * runs
        if n <= largest and seconds > 15:
            runs, seconds = 2, seconds * 2 / runs
        if n <= largest and clock.left(seconds, f"{n} particles"):
            best[n] = exactness(run, branches, "crbd_branches", trees["crbd_branches"], n, runs)
    sir(run, compile_time(run, "sir"), days)
    core = one_core(run, "crbd_branches", trees["crbd_branches"], 20_000) / 20_000
    for n, ms in best.items():
        print(f"{n:>9} particles: {core * n / ms:.0f} times one core a particle", flush=True)
        run.add({"model": "crbd_branches", "particles": n, "what": "speed-up over one core"},
                "tawa", None, ratio=round(core * n / ms, 1))  # fmt: skip
    for name in ("regression", "chain"):
        if clock.left(8, f"{name} beside NumPyro"):
            cuppl_gpu_peers.compare(run, name, min(largest, 1_000_000))
    pure_birth(run, trees["crbd_branches"])
    tree = compile_time(run, "crbd")
    exactness(run, tree, "crbd", trees["crbd"], min(largest, 1_000_000), 4)
    if clock.left(4, "profiles"):
        profile(run, "crbd_branches", trees["crbd_branches"], min(largest, 1_000_000))
        profile(run, "sir", days, 131_072)
    most, branches_data = min(largest, 1_000_000), trees["crbd_branches"]
    ablation(run, clock, "crbd_branches", branches_data, most, list(VARIANTS)[:4])
    ablation(run, clock, "sir", days, 131_072, list(VARIANTS)[:2])
    ablation(run, clock, "crbd_branches", branches_data, most, list(VARIANTS)[4:])


def main() -> None:
    """Measure and write rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--limit", type=float, default=55.0, help="seconds for everything")
    parser.add_argument("--largest", type=int, default=10_000_000, help="particles")
    options = parser.parse_args()
    warnings.simplefilter("ignore", cuppl.InferenceWarning)
    clock = Clock(options.limit)
    run = Run("cuppl-gpu", options.rows)
    print(f"{os.cpu_count()} cores; exact log Z {LOG_Z}, E[lambda] {LAMBDA}, E[mu] {MU}")
    measure(run, clock, options.largest)
    print(f"{clock.spent():.1f} s")


if __name__ == "__main__":
    main()
