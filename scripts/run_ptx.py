"""Run the PTX of the suite's and the examples' kernels, and compare with what they should give.

    python scripts/run_ptx.py            all of them
    python scripts/run_ptx.py PART       those with PART in their names
    python scripts/run_ptx.py --first 194 --seconds 60    from a place on, each so long at most

No device is needed: NVRTC compiles, the simulator runs what it wrote. Prints a line a kernel.
What does not end in time is named, and neither right nor wrong.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "tests" / "workloads"), str(ROOT / "tests")]

from tawa.base.errors import TawaError  # noqa: E402


def suite() -> Iterator[tuple[str, Callable[[], None]]]:
    """Kernels as public collections have them."""
    from simulation import Arrays, check
    from suite import cases

    def run(make: Any) -> None:
        launch = make(Arrays())
        given = launch.kernel, launch.grid, launch.args, dict(launch.expected), launch.tolerance
        check(*given, levels=["ptx"], **launch.constants)

    for name, make in cases().items():
        yield f"suite {name}", lambda make=make: run(make)


def examples() -> Iterator[tuple[str, Callable[[], None]]]:
    """The examples, at small sizes."""
    from catalogue import WORKLOADS
    from simulation import simulate

    for workload in WORKLOADS:
        yield f"example {workload.name}", lambda w=workload: simulate(w, ["ptx"])


class Late(BaseException):
    """A kernel's time is over; nothing on the way takes it for an error of its own."""


def stop(signum: int, frame: object) -> None:
    """End what runs."""
    raise Late


def verdict(run: Callable[[], None], seconds: float) -> str:
    """`right`, or what went wrong; with seconds other than 0 only what ends in that time."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        run()
    except Late:
        return "late"
    except TawaError as error:
        found = str(error).splitlines()
        return f"refused: {found[0]} {' '.join(line.strip() for line in found if 'found' in line)}"
    except AssertionError as error:
        return f"WRONG: {' '.join(str(error).split())[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "right"


def main() -> int:
    """Run the kernels; 1 if some are not right."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", default="", help="part of a name")
    parser.add_argument("--first", type=int, default=0, help="the first kernel's place")
    parser.add_argument("--count", type=int, help="how many from there on")
    parser.add_argument("--seconds", type=float, default=0, help="for each; 0: as long as it takes")
    chosen = parser.parse_args()
    signal.signal(signal.SIGALRM, stop)
    counts: Counter[str] = Counter()
    for name, run in [*suite(), *examples()][chosen.first :][: chosen.count]:
        if chosen.part in name:
            begin = time.perf_counter()
            with np.errstate(all="ignore"):
                found = verdict(run, chosen.seconds)
            counts[found.partition(":")[0]] += 1
            print(f"{name:60} {time.perf_counter() - begin:6.1f} s  {found}", flush=True)
    print(dict(counts))
    return int(bool(set(counts) - {"right", "late"}))


if __name__ == "__main__":
    sys.exit(main())
