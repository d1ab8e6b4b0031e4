"""Runs the suite on a GPU: all cases in a few processes, or those whose names have an argument.

Compiles while other cases run; prints a line a case, and how many are right.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from device import DTYPES
from simulation import Arrays, Stored
from suite import cases
from workload import relative_error

import tawa


def on_device(value: Any) -> Any:
    """An argument of a launch with its arrays on the GPU."""
    if isinstance(value, tawa.TensorDescriptor):
        return tawa.TensorDescriptor.from_tensor(on_device(value.base), value.block_shape)
    if not isinstance(value, Stored):
        return value
    plain = np.ascontiguousarray(value.view(np.ndarray))
    raw = torch.from_numpy(plain.view(np.uint8).reshape(-1)).cuda()
    return raw.view(DTYPES[value.element]).reshape(plain.shape)


def held(value: Any) -> np.ndarray:
    """What an argument holds after the launch, as float64."""
    tensor = value.base if isinstance(value, tawa.TensorDescriptor) else value
    return tensor.to(torch.float64).cpu().numpy()


def difference(name: str) -> str:
    """What is wrong with a case; "" if nothing."""
    launch = cases()[name](Arrays())
    args = [on_device(a) for a in launch.args]
    launch.kernel[launch.grid](*args, **launch.constants)
    torch.cuda.synchronize()
    for i, expected in launch.expected.items():
        error = relative_error(held(args[i]), np.asarray(expected, np.float64))
        if not error < launch.tolerance:
            return f"argument {i} is off by {error:.2e}, more than {launch.tolerance:.0e}"
    return ""


@dataclass(frozen=True)
class Outcome:
    """What became of one case."""

    name: str
    problem: str
    seconds: float


def outcome(name: str) -> Outcome:
    """Run a case; what it raises is its problem."""
    start = time.perf_counter()
    try:
        problem = difference(name)
    except Exception:
        problem = traceback.format_exc()
    return Outcome(name, problem, time.perf_counter() - start)


def main(words: Sequence[str]) -> int:
    """Run the cases; the number of those that are wrong."""
    names = [n for n in cases() if not words or any(w in n for w in words)]
    wrong = 0
    spawn = multiprocessing.get_context("spawn")
    workers = min(12, os.cpu_count() or 1)
    # A process a few cases: an error of the device ends its context.
    with ProcessPoolExecutor(workers, spawn, max_tasks_per_child=8) as pool:
        for done in as_completed([pool.submit(outcome, name) for name in names]):
            found = done.result()
            wrong += bool(found.problem)
            verdict = found.problem and f"WRONG {found.problem}"
            print(f"{found.seconds:6.2f} s  {found.name}  {verdict or 'right'}", flush=True)
    print(f"{len(names) - wrong} of {len(names)} cases are right")
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
