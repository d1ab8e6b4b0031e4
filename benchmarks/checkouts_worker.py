"""A process of `checkouts.py`: has one checkout's `tawa`, and does what it is told, line by line.

Each line it reads is JSON, `{"do": ..., ...}`, and it answers each by one line, `{"found": ...}` or
`{"problem": ...}`. `compile` makes a case and launches it once, for the cache on disk; `open` makes
it and looks at its result; `times` gives the milliseconds of executions; `close` lets it go.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
import zlib
from typing import Any

sys.modules["triton"] = None  # pyright: ignore[reportArgumentType]

# Kernels that are written for either compiler take the language of this checkout then.
import same_source_case  # noqa: E402
import torch  # noqa: E402
from checkouts_cases import CASES, Timed  # noqa: E402

from tawa.runtime.timing import Stopwatch  # noqa: E402

SAMPLE = 4096
"""Elements of a result that are sent, for checkouts to be compared with each other."""


class HostWatch:
    """Times executions by the host's clock, where there is no device: to try the benchmark."""

    def times_for(self, work: Any, seconds: float) -> list[float]:
        """Milliseconds of three executions."""
        del seconds
        found: list[float] = []
        for _ in range(3):
            start = time.perf_counter()
            work()
            found.append((time.perf_counter() - start) * 1e3)
        return found


class Station:
    """The case that is open, and what is done with it."""

    def __init__(self, device: str) -> None:
        same_source_case.DEVICE = device
        self.watch: Any = Stopwatch() if device == "cuda" else HostWatch()
        self.case: Timed | None = None

    def compile(self, name: str) -> dict[str, Any]:
        """Make a case, and launch it until nothing more is compiled for it."""
        case = made(name)
        settled(case)
        found = {"registers": registers(case.work())}
        del case
        self.close()
        return found

    def open(self, name: str) -> dict[str, Any]:
        """Make a case, and compare its result with float64."""
        self.close()
        case = made(name)
        exact = case.exact() if case.exact is not None else None
        if case.poison is not None:
            case.poison.fill_(math.nan if case.poison.is_floating_point() else 0)
        case.work()
        errors = [error_of(case, exact)]
        sample = sample_of(case)
        settled(case)
        if case.poison is not None:  # of the variant that is timed
            errors.append(error_of(case, exact))
            sample = sample_of(case)
        self.case = case
        return {
            "row": case.row, "error": max(errors), "tolerance": case.tolerance, "sample": sample,
            "exact": exact is not None, "flops": case.flops, "bytes": case.bytes,
        }  # fmt: skip

    def times(self, seconds: float) -> list[float]:
        """Milliseconds of executions of the open case, for so many seconds."""
        assert self.case is not None
        return self.watch.times_for(self.case.work, seconds)

    def close(self) -> None:
        """Give the open case's memory back."""
        self.case = None
        torch.cuda.empty_cache()

    @property
    def over(self) -> bool:
        """Whether the device answers no more, as after an access out of bounds."""
        if not torch.cuda.is_available():
            return False
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            return True
        return False


def made(name: str) -> Timed:
    """A case with the inputs that its name decides."""
    torch.manual_seed(zlib.crc32(name.encode()))
    return CASES[name]()


def settled(case: Timed) -> None:
    """Launch a case until no better variant of its kernel is compiled beside the launches."""
    main = threading.main_thread()
    for _ in range(4):
        case.work()
        coming = [t for t in threading.enumerate() if t is not main]
        if not coming:
            return
        for thread in coming:
            thread.join(30)


def error_of(case: Timed, exact: torch.Tensor | None) -> float:
    """The relative Frobenius error of a result; inf if it is none, 0 without a reference."""
    output = case.output().double()
    if bool(output.isnan().any()):
        return math.inf
    return 0.0 if exact is None else ((output - exact).norm() / exact.norm()).item()


def sample_of(case: Timed) -> list[float]:
    """Some elements of a result."""
    flat = case.output().double().flatten()
    return flat[:: max(1, flat.numel() // SAMPLE)].tolist()


def registers(found: Any) -> int | None:
    """How many a compiled kernel uses, where a launch gives one back."""
    return getattr(found, "n_regs", None)


def main() -> None:
    """Answer line after line; what anyone prints goes to the errors."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    station = Station(sys.argv[1])
    for line in sys.stdin:
        asked = json.loads(line)
        act = getattr(station, asked.pop("do"))
        try:
            answer = {"found": act(**asked)}
        except Exception as problem:
            text = f"{type(problem).__name__}: {problem}"[:500]
            answer = {"problem": text, "over": station.over}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
