"""Options beyond those that the choice looks at, so that what it leaves out is measured, too.

    python benchmarks/choice_space.py --compile 15        # into the cache on disk, in processes
    python benchmarks/choice_space.py --rows FOLDER       # on a device; rows of suite `choice`

Some thirty pairs of a kernel and a size, of all families. Each is timed with every candidate of
the choice, and with consumers, slots, copies and roles set by hand, in turn, in one process. Cases
run in a process beside this one: one that stands still is ended and left out.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import same_source_case

from choice import RESULTS, WRITTEN, Contender
from tawa.machine.chips import DEFAULT

PATIENCE = 40
"""Seconds that a case may take."""
LEAST_ROWS = 128
"""Of a tile that two warp groups can share."""

CHOSEN: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = [
    ("gemm", (8192, 8192, 512), (1,)),
    ("gemm", (2048, 5120, 5120), (0,)),
    ("gemm_pointers", (8192, 8192, 512), (1,)),
    ("gemm_pointers", (2048, 5120, 5120), (0, 3)),
    ("attention", (64, 1024, False), (1,)),
    ("attention", (128, 2048, True), (0,)),
    ("linear_attention", (64, 4096, 512), (0,)),
    ("attention_dkdv", (64, 1024, 128), (1,)),
    ("attention_dq", (64, 1024, 128), (1,)),
    ("paged_decode", (64, 1024, 32), (2,)),
    ("decode_split", (131072, 128, 128), (1,)),
    ("varlen_attention", (16, 1024, 16), (1,)),
    ("window_attention", (8192, 1024, 64), (0, 1)),
    ("moe_gather", (512, 7168, 2048, 64), (0, 2)),
    ("moe_gather", (4096, 2048, 4096, 16), (0,)),
    ("int8_matmul", (1024, 8192, 2048), (0,)),
    ("fp8_block_scaled", (2048, 5120, 5120), (0, 1)),
    ("block_scaled_fp8", (4096, 4096, 4096), (0, 1)),
    ("block_scaled_fp8", (1024, 8192, 2048), (1,)),
    ("lora", (1024, 8192, 2048), (1,)),
    ("matmul", (1024, 8192, 2048), (0,)),
    ("int4_matmul", (16, 4096, 4096), (0, 1)),
    ("int4_matmul", (256, 4096, 4096), (3,)),
    ("int8_weights", (16, 4096, 4096), (0, 1)),
    ("int8_weights", (256, 4096, 4096), (3,)),
    ("int8_weights", (2048, 8192, 4096), (1,)),
    ("int4_gemm_tall_packed", (16, 4096, 4096), (0,)),
    ("ssd_chunk_scan", (65536, 64, 64), (0,)),
    ("int8_weights", (16, 4096, 14336), (0,)),
    ("int8_weights", (32, 8192, 4096), (0,)),
    ("int4_matmul", (32, 2048, 8192), (0,)),
    ("gemm", (256, 1024, 4096), (1,)),
    ("gemm", (128, 4096, 14336), (1,)),
    ("block_scaled_fp8", (128, 2048, 8192), (0,)),
    ("fp8_block_scaled", (128, 2048, 8192), (1,)),
]
"""Cases of `same_source.py`: its function, sizes, and which of its configurations."""


@cache
def case_of(number: int) -> Any:
    """The case of a number."""
    import same_source
    import same_source_products

    name, sizes, _ = CHOSEN[number]
    make = getattr(same_source, name, None) or getattr(same_source_products, name)
    return make(*sizes)


def variants(case: Any, config: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and options of what a case is timed with; `chosen` is what a launch does itself."""
    from tawa.driver.choosing import profile_for

    kernel, args, given = launch_of(case, config)
    request = kernel.request(*args[1:], **given)
    profile = profile_for(kernel, request.types, request.constants, request.options)
    yield "chosen", {}
    named: dict[str, dict[str, Any]] = {"as written": {}}
    for found in kernel.candidates(*args[1:], grid=args[0], **given):
        named[str(found.candidate)] = dict(found.candidate.options)
    more: list[dict[str, Any]] = [{"ctas_per_sm": 2}]
    if profile.apart:
        more += [{"persistent": True}, {"persistent": True, "ctas_per_sm": 2}]
    if profile.copies:
        more += [{"bulk_copies": False}, {"bulk_copies": False, "ctas_per_sm": 2}]
    if profile.groups:
        more += [{"specialize": False}]
    if profile.groups == 1 and profile.rows >= LEAST_ROWS:
        more += [{"consumers": 2}]
    if profile.groups > 1:
        more += [{"consumers": 1}]
    if profile.groups and math.prod(args[0]) <= DEFAULT.multiprocessors:
        more += [{"slice_k": teams} for teams in (2, 4)]
    slots = given.get("num_stages")
    more += [{"num_stages": n} for n in ((slots + 1,) if slots else (2, 3, 4))]
    for options in more:
        named[", ".join(f"{name}={value!r}" for name, value in options.items())] = options
    for name, options in named.items():
        yield name, {**WRITTEN, **options}


def contenders(case: Any, config: dict[str, Any]) -> Iterator[Contender]:
    """The same as launches, with what the model says of each that it knows.

    What was not compiled ahead is left out: it may take longer than all else.
    """
    import tawa

    kernel, args, given = launch_of(case, config)
    known = {
        str(found.candidate): found.microseconds
        for found in kernel.candidates(*args[1:], grid=args[0], **given)
    }
    for name, options in variants(case, config):
        _, _, keywords = launch_of(case, config, options)
        if options and not kernel.is_compiled(kernel.request(*args[1:], **keywords)):
            print(f"{case} {name}: was not compiled ahead", flush=True)
            continue
        work = case.launch(kernel, tawa.TensorDescriptor, {**config, **options})
        yield name, known.get(name, math.nan), work


def launch_of(
    case: Any, config: dict[str, Any], options: dict[str, Any] | None = None
) -> tuple[Any, list[Any], dict[str, Any]]:
    """A launch's kernel, its grid and arguments, and its keywords."""
    import tawa

    kernel = same_source_case.compiled_by("tawa", case.function)
    plain = case.launch(kernel, tawa.TensorDescriptor, {**config, **(options or {})})
    return kernel, list(plain.args), dict(plain.keywords)


def without_device() -> None:
    """Make arrays in the CPU's memory, without contents."""
    same_source_case.DEVICE, same_source_case.CONTENTS = "cpu", False


def compiled(job: tuple[int, int, str, dict[str, Any]]) -> str:
    """Compile one variant of one case; what it took, or why it failed."""
    number, which, name, options = job
    case = case_of(number)
    kernel, args, given = launch_of(case, case.configurations[which], options)
    start, failed = time.perf_counter(), ""
    try:
        if name == "chosen":
            request = kernel.request(*args[1:], **given)
            named = kernel.arguments(tuple(args[1:]), given)
            kernel._suited(request, named, given, args[0])
        else:
            kernel.compile(*args[1:], **given)
    except Exception as error:  # of one variant: it is tried, and gets its row, on the device
        failed = f" {type(error).__name__}: {error}"[:150]
    return f"{time.perf_counter() - start:6.1f} s {case} {which} {name}{failed}"


def jobs_of(number: int) -> list[tuple[int, int, str, dict[str, Any]]]:
    """All variants of a case."""
    case = case_of(number)
    return [
        (number, which, name, options)
        for which in CHOSEN[number][2]
        for name, options in variants(case, case.configurations[which])
    ]


def compile_all(processes: int, numbers: list[int]) -> None:
    """Compile all variants in processes, into the cache on disk: the first of each case first."""
    start = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, initializer=without_device) as pool:
        rounds = zip_longest(*pool.imap_unordered(jobs_of, numbers))
        found = [job for jobs in rounds for job in jobs if job is not None]
        print(f"{len(found)} variants, {time.perf_counter() - start:.0f} s", flush=True)
        for line in pool.imap_unordered(compiled, found):
            print(line, flush=True)
    print(f"compiled in {time.perf_counter() - start:.0f} s", flush=True)


def measure(numbers: list[int], rows: Path | None, soak: float, window: float) -> None:
    """Time cases in this process; a line before and after each."""
    import torch
    from rows import Run

    from choice import one_case

    torch.manual_seed(0)
    run = Run("choice", rows)
    for number in numbers:
        print(f"case {number}", flush=True)
        case = case_of(number)
        for which in CHOSEN[number][2]:
            config = case.configurations[which]
            one_case(run, case, config, soak, window, contenders(case, config))
        case_of.cache_clear()
        torch.cuda.empty_cache()


def watched(numbers: list[int], options: argparse.Namespace) -> None:
    """Time cases in a process beside this one; one that stands still is left out."""
    left = list(numbers)
    while left:
        command = [sys.executable, __file__, "--inside", "--cases", ",".join(map(str, left))]
        command += ["--soak", str(options.soak), "--window", str(options.window)]
        command += ["--rows", str(options.rows)] if options.rows else []
        left = _after(subprocess.Popen(command, stdout=subprocess.PIPE, text=True), left)


def _after(process: subprocess.Popen[str], left: list[int]) -> list[int]:
    """Pass a process's lines on; the cases that are left when it ends or stands still."""
    import threading

    seen, last = left[0], [time.monotonic()]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(1.0):
            if time.monotonic() - last[0] > PATIENCE:
                process.kill()

    threading.Thread(target=watch, daemon=True).start()
    assert process.stdout is not None
    for line in process.stdout:
        last[0] = time.monotonic()
        if line.startswith("case "):
            seen = int(line.split()[1])
        else:
            print(line, end="", flush=True)
    done.set()
    if process.wait() == 0:
        return []
    print(f"case {seen} {CHOSEN[seen]} stopped: {process.returncode}", flush=True)
    return left[left.index(seen) + 1 :]


def summary(rows: Path) -> None:
    """How far what launches take is from the best candidate, and from the best of all options."""
    cases: dict[str, dict[str, float]] = {}
    for row in map(json.loads, (rows / "choice.jsonl").read_text().splitlines()):
        if "ms" in row:
            cases.setdefault(json.dumps(row["case"]), {})[row["config"]] = row["ms"]
    of_all = {key: found["chosen"] / min(found.values()) - 1 for key, found in cases.items()
              if "chosen" in found}  # fmt: skip
    for key, regret in sorted(of_all.items(), key=lambda item: item[1]):
        found, case = cases[key], json.loads(key)
        best = min(found, key=lambda name: found[name])
        kept = [case[n] for n in case if n not in ("source", "kind", "config")]
        print(
            f"{regret:6.1%} {kept} {found['chosen'] * 1e3:.1f} us; {best} {found[best] * 1e3:.1f}"
        )
    middle, far = np.percentile(list(of_all.values()), (50, 95))
    print(f"{len(of_all)} cases, above the best of all: median {middle:.1%}, 95% {far:.1%}")


def main() -> None:
    """Compile, or measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile", type=int, default=0, help="compile only, so many processes")
    parser.add_argument("--cases", default="", help="numbers of cases, separated by commas")
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--soak", type=float, default=0.05)
    parser.add_argument("--window", type=float, default=0.04)
    parser.add_argument("--inside", action="store_true", help="in this process")
    options = parser.parse_args()
    numbers = [int(n) for n in options.cases.split(",") if n] or list(range(len(CHOSEN)))
    if options.compile:
        compile_all(options.compile, numbers)
    elif options.inside:
        measure(numbers, options.rows, options.soak, options.window)
    else:
        watched(numbers, options)
        summary(options.rows or RESULTS)


if __name__ == "__main__":
    main()
