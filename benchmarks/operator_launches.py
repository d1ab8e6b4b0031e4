"""Each launch of the operators of packages under Triton and under Tawa, timed by itself.

    python benchmarks/operator_launches.py --only chunk_gla                       on a GPU
    python benchmarks/operator_launches.py --only chunk_gla --compile tawa --part 0/4

An operator makes several launches; one ratio does not say which of them is slow. A line a launch:
Triton's time with Triton's choice of a configuration, Tawa's time with the same configuration, and
Tawa's time with its own choice. `--compile` makes one compiler's kernels and times nothing; of the
configurations of every tuned kernel it takes those of a part.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import same_source
import same_source_case
import torch
from recorded_launches import Launch, recording
from same_source_libraries import choosing_anew
from triton.runtime.autotuner import Autotuner

import tawa
from tawa.runtime.timing import Stopwatch

TUNED, TIMED = 0.002, 0.01
"""Seconds for which a configuration is tried, and a launch is timed."""


@contextmanager
def tuning_quickly(part: str) -> Iterator[None]:
    """Tuned kernels try each configuration of a part for a few milliseconds in the block."""
    first, every = map(int, part.split("/"))
    own, seconds = Autotuner.prune_configs, same_source_case.TUNING

    def pruned(self: Any, kwargs: dict[str, Any]) -> list[Any]:
        found = own(self, kwargs)
        return found[first::every] or found[:1]

    Autotuner.prune_configs, same_source_case.TUNING = pruned, TUNED
    try:
        yield
    finally:
        Autotuner.prune_configs, same_source_case.TUNING = own, seconds


def launches_under(compiler: str, op: Callable[[], Any], part: str = "0/1") -> list[Launch]:
    """The launches of an operator as a compiler's tuning chose them."""
    with tawa.enable(strict=True) if compiler == "tawa" else nullcontext():
        with tuning_quickly(part), choosing_anew():
            op()
        with recording(run=True) as launches:
            op()
    return launches


def milliseconds(launch: Launch, through: Any = None) -> float:
    """A launch's median time, by a compiler's `run`."""
    work = replace(launch, through=through or launch.through).bound()
    watch = Stopwatch()
    watch.times_for(work, TIMED / 2)
    return statistics.median(watch.times_for(work, TIMED))


def chosen(launch: Launch) -> str:
    """What tuning chose: blocks in capitals, and options."""
    named = {k: v for k, v in launch.kwargs.items() if type(v) is int}
    blocks = [f"{k}={v}" for k, v in named.items() if k[:1] == "B" and k.isupper() and len(k) == 2]
    options = [f"{k[4]}={named[k]}" for k in ("num_warps", "num_stages") if k in named]
    return " ".join([*blocks, *options])


def compare(op: Callable[[], Any]) -> None:
    """Print a line for each launch of an operator."""
    triton, own = (launches_under(compiler, op) for compiler in ("triton", "tawa"))
    for one, other in zip(triton, own, strict=True):
        times = milliseconds(one), milliseconds(one, other.through), milliseconds(other)
        shown = "  ".join(f"{1e3 * t:8.1f}" for t in times)
        ratios = " ".join(f"{times[0] / t:.2f}" for t in times[1:])
        print(f"  {one.name[:44]:44} {one.sizes()!s:16} {shown}  {ratios}  "
              f"{chosen(one)} | {chosen(other)}", flush=True)  # fmt: skip


def main() -> None:
    """Compare the launches of every chosen operator."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="chunk_", help="parts of names, separated by commas")
    parser.add_argument("--share", default="0/1", help="I/N: every N-th case from the I-th on")
    parser.add_argument("--compile", default="", help="compile by `triton` or `tawa`, time nothing")
    parser.add_argument("--part", default="0/1", help="I/N: of the configurations, with --compile")
    options = parser.parse_args()
    torch.manual_seed(0)
    for make in same_source.chosen(options.only, options.share):
        case = make()
        if case.op is None:
            continue
        print(f"{case}: us of Triton, of Tawa with its choice, of Tawa with its own", flush=True)
        try:
            if options.compile:
                launches_under(options.compile, case.op, options.part)
            else:
                compare(case.op)
        except Exception as problem:  # of one operator: the others are compared all the same
            print(f"  {type(problem).__name__}: {problem}"[:600], flush=True)


if __name__ == "__main__":
    main()
