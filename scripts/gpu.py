"""Runs Tawa's GPU tests and benchmarks on a machine with an H100.

    python scripts/gpu.py OUT [--only tests,gemm,attention,fused,timeline]

Each step runs in a process of its own under a time limit, so that a kernel that hangs costs one
step. OUT receives the logs (one file a step) and the benchmark rows (`OUT/*.jsonl`); the table at
the end says how each step went. Nothing is installed if Python can already import what Tawa needs;
otherwise a virtual environment is made in `build/gpu-venv`, which sees the packages around it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("xdsl", "numpy", "cuda.bindings", "rich", "pytest")
PEERS = ("torch", "triton")


@dataclass(frozen=True)
class Step:
    """One part of the run: a command after the Python interpreter, and its limit in seconds."""

    name: str
    command: tuple[str, ...]
    limit: int
    needs_torch: bool = False


def steps(out: Path) -> list[Step]:
    """All steps, in order of what one would want to know first."""
    rows = ("--rows", str(out))
    tests = (
        "-m",
        "pytest",
        "-m",
        "gpu",
        "--tb=short",
        "-rfE",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:benchmark",
    )
    return [
        Step("tests", (*tests, *isolation(), *gpu_tests()), 300),
        Step("host", ("benchmarks/host.py", *rows), 150, needs_torch=True),
        Step("gemm", ("benchmarks/gemm.py", *rows), 480, needs_torch=True),
        Step("attention", ("benchmarks/attention.py", *rows), 320, needs_torch=True),
        Step("cuppl", ("benchmarks/cuppl_gpu.py", *rows), 75),
        Step("axon", ("benchmarks/axon_gpu.py", *rows), 150, needs_torch=True),
        Step("fused", ("benchmarks/fused.py", *rows), 180, needs_torch=True),
        Step("timeline", ("benchmarks/instrumentation.py", *rows), 90, needs_torch=True),
        Step("ablation", ("benchmarks/gemm.py", "--ablation", *rows), 150, needs_torch=True),
        Step(
            "attention-ablation",
            ("benchmarks/attention.py", "--ablation", *rows),
            60,
            needs_torch=True,
        ),
    ]


PREFLIGHT = """
import sys
from tawa.base.errors import TawaError
from tawa.runtime import driver, nvrtc
try:
    device = driver.device(0)
    device.require("sm_90a")
except TawaError as error:
    sys.exit(error.render())
print(f"{device.name}, {device.multiprocessors} multiprocessors, NVRTC {nvrtc.version()}")
"""


def environment(cache: str) -> dict[str, str]:
    """The environment of the steps: this checkout's sources, and a cache of their own."""
    paths = (str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONUNBUFFERED": "1",
        "TAWA_CACHE_DIR": os.environ.get("TAWA_CACHE_DIR", cache),
    }


def gpu_tests() -> tuple[str, ...]:
    """The files that have tests for a GPU: the others may need packages that are not here."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return tuple(str(f.relative_to(ROOT)) for f in files if "pytest.mark.gpu" in f.read_text())


def isolation() -> tuple[str, ...]:
    """Options of pytest that keep a kernel that hangs, or breaks the context, to its own test."""
    if not (importable("xdist") and importable("pytest_timeout")):
        print("without pytest-xdist and pytest-timeout, a kernel that hangs ends the tests")
        return ("-v",)
    workers = str(max(1, min(12, (os.cpu_count() or 2) * 3 // 4)))
    hanging = ("--timeout=90", "--timeout-method=thread", "--max-worker-restart=20")
    return ("-q", "-n", workers, "--dist=worksteal", *hanging)


def main() -> int:
    """Run the chosen steps and print the table; 0 if all went well."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="folder for logs and rows")
    parser.add_argument("--only", default="", help="comma-separated names of steps")
    parser.add_argument("--limit", type=int, help="seconds for each step, instead of its own")
    parser.add_argument("--total", type=int, help="seconds for everything")
    parser.add_argument("extra", nargs="*", help="after `--`: more arguments for the steps")
    options = parser.parse_args()
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    python = interpreter()
    if subprocess.run([python, "-c", PREFLIGHT], env=environment("")).returncode:
        return 1
    chosen = [step for step in steps(out) if step.name in (options.only or step.name).split(",")]
    if not chosen:
        parser.error(f"no step named {options.only}")
    deadline = time.monotonic() + (options.total or 10**9)
    with tempfile.TemporaryDirectory(prefix="tawa-cache-") as cache:
        results = [
            (step, *run_step(python, step, out, cache, options.extra, options.limit, deadline))
            for step in chosen
        ]
    print(f"\n{'step':10} {'result':24} {'seconds':>8}")
    for step, result, seconds in results:
        print(f"{step.name:10} {result:24} {seconds:8.1f}")
    return int(any(result != "ok" for _, result, _ in results))


def run_step(
    python: str,
    step: Step,
    out: Path,
    cache: str,
    extra: list[str],
    limit: int | None,
    deadline: float,
) -> tuple[str, float]:
    """Run a step, showing and logging what it prints; how it ended, and its seconds."""
    start = time.monotonic()
    seconds = min(limit or step.limit, deadline - start)
    if seconds <= 5:
        return "not run: out of time", 0.0
    if step.needs_torch and importlib.util.find_spec("torch") is None:
        return "not run: needs torch", 0.0
    print(f"\n=== {step.name} (limit {seconds:.0f} s)", flush=True)
    with (out / f"{step.name}.log").open("w") as log:
        process = subprocess.Popen(
            ["timeout", "--kill-after=5", f"{seconds:.0f}", python, *step.command, *extra],
            cwd=ROOT,
            env=environment(cache),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            log.flush()
            print(line, end="", flush=True)
        status = process.wait()
    result = {0: "ok", 5: "no tests", 124: "timed out", 137: "timed out, killed"}.get(
        status, f"failed ({status})"
    )
    return result, time.monotonic() - start


def interpreter() -> str:
    """This Python if it can import what Tawa needs; else one in a new virtual environment."""
    missing = [name for name in NEEDED if not importable(name)]
    for peer in PEERS:
        if not importable(peer):
            print(f"{peer} is missing: it won't be compared with")
    if not missing:
        return sys.executable
    print(f"installing Tawa into build/gpu-venv ({', '.join(missing)} missing here)", flush=True)
    folder = ROOT / "build" / "gpu-venv"
    python = str(folder / "bin" / "python")
    if not Path(python).exists():
        subprocess.run(
            [sys.executable, "-m", "venv", "--system-site-packages", str(folder)], check=True
        )
    install = [python, "-m", "pip", "install", "--quiet", "--editable", f"{ROOT}[dev]"]
    subprocess.run(install, check=True)
    return python


def importable(name: str) -> bool:
    """Whether a module can be found without importing it (its parents are imported)."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


if __name__ == "__main__":
    sys.exit(main())
