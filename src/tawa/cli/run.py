"""`tawa run`: a kernel's example, run and compared."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from tawa.cli.arguments import assignments, option_values
from tawa.cli.kernel_file import find_kernel
from tawa.runtime.arrays import HOST

TOLERANCE = 1e-2
"""Relative error (Frobenius norm) above which a result is called wrong."""


def run_example(where: str, options: Sequence[str] = ()) -> int:
    """Run the example of the kernel `FILE.py:NAME`; the result is 1 if a comparison fails.

    `options` are launch options, `NAME=VALUE`, for all its launches of the kernel.
    """
    pinned = option_values(assignments("--option", options))
    found = find_kernel(where)
    start = time.perf_counter()
    with found.launches(pinned) as places:
        result = found.example()
    seconds = time.perf_counter() - start
    print(f"{found.name}: ran {_where(places)}in {seconds:.2f} s")
    return compared(result)


def compared(result: Any) -> int:
    """Print how far an example's results are off; 1 if one is wrong, or 0."""
    if not isinstance(result, Mapping):
        return 0
    wrong = False
    for name, pair in cast("Mapping[str, Any]", result).items():
        actual, expected = pair
        error = relative_error(actual, expected)
        right = error < TOLERANCE
        wrong |= not right
        said = _not_numbers(actual, expected) or f"relative error {error:.1e}"
        print(f"  {name}: {said}" + ("" if right else "  WRONG"))
    return int(wrong)


def _not_numbers(actual: Any, expected: Any) -> str:
    """How many elements are NaN or infinite and should not be, in words; empty if none is."""
    result, wanted = (np.asarray(_on_host(x), np.float64) for x in (actual, expected))
    if result.shape != wanted.shape:
        return ""
    for kind, test in (("NaN", np.isnan), ("infinite", np.isinf)):
        count = int((test(result) & np.isfinite(wanted)).sum())
        if count:
            return f"{count} of {result.size} elements are {kind}"
    return ""


def _where(places: Sequence[int]) -> str:
    """Where launches ran, in words: nothing if there was none."""
    names = ["in the simulator" if place == HOST else f"on GPU {place}" for place in places]
    found = " and ".join(dict.fromkeys(names))
    return f"{found} " if found else "no launch "


def relative_error(actual: Any, expected: Any) -> float:
    """The Frobenius norm of the difference over that of `expected`; NaN counts as infinite."""
    left, right = (np.asarray(_on_host(array), np.float64) for array in (actual, expected))
    difference = float(np.linalg.norm(left - right))
    scale = float(np.linalg.norm(right))
    if not np.isfinite(difference):
        return float("inf")
    return difference / scale if scale else difference


def _on_host(array: Any) -> Any:
    """A copy in the host's memory of an array that may lie on a GPU (PyTorch, CuPy)."""
    for method in ("cpu", "get"):
        if hasattr(array, method):
            return getattr(array, method)()
    return array
