"""Loops over unsigned bounds take the same turns at every level, at 2**31 and elsewhere."""

import numpy as np
import pytest
from lowering import HEAD, kernel_in, modules, run_time_arguments

from tawa.hopper.emit import emit
from tawa.simulate import run
from tawa.simulate.interpret import aref, tile

SOURCE = HEAD + (
    "def kernel(bounds_ptr, out_ptr):\n"
    "    first = tl.load(bounds_ptr)\n"
    "    last = tl.load(bounds_ptr + 1)\n"
    "    step = tl.load(bounds_ptr + 2)\n"
    "    turns = 0\n"
    "    total = first - first\n"
    "    for i in range(first, last, step):\n"
    "        turns += 1\n"
    "        total += i\n"
    "    tl.store(out_ptr, total)\n"
    "    tl.store(out_ptr + 1, turns.to(tl.uint64))\n"
)
HALF, WHOLE = 2**31, 2**32

CASES = [
    (np.uint32, HALF - 2, HALF + 3, 1),
    (np.uint32, HALF - 5, HALF + 5, 4),
    (np.uint32, HALF + 7, HALF + 9, 1),
    (np.uint32, HALF + 1, 2, 1),
    (np.uint32, WHOLE - 1, 1, 1),
    (np.uint32, WHOLE - 9, WHOLE - 1, 4),
    (np.uint32, 3, 0, 1),
    (np.uint64, 2**63 - 2, 2**63 + 3, 2),
    (np.uint64, 2**64 - 3, 2**64 - 1, 1),
    (np.uint64, 2**63 + 1, 1, 1),
    (np.uint8, 250, 255, 2),
]


@pytest.mark.parametrize(("dtype", "first", "last", "step"), CASES)
def test_turns(tmp_path, dtype, first, last, step):
    bounds = np.array([first, last, step], dtype)
    named = {"bounds_ptr": bounds, "out_ptr": np.zeros(2, np.uint64)}
    levels = modules(kernel_in(tmp_path, SOURCE), named, {})
    turns = range(first, last, step)
    expected = [sum(turns) % 2 ** (8 * bounds.dtype.itemsize), len(turns)]
    for level, module in levels.items():
        out = np.zeros(2, np.uint64)
        given = {**named, "out_ptr": out}
        if level == "hopper":
            run(module, (1,), run_time_arguments(module, given))
        else:
            (aref if level == "aref" else tile).run(module, (1,), list(given.values()))
        assert list(out) == expected, level


def test_the_loop_in_cuda_compares_signed_numbers_that_hold_every_bound(tmp_path):
    named = {"bounds_ptr": np.zeros(3, np.uint32), "out_ptr": np.zeros(2, np.uint64)}
    text = emit(modules(kernel_in(tmp_path, SOURCE), named, {})["hopper"])
    (loop,) = [line for line in text.splitlines() if line.strip().startswith("for (")]
    assert "long long" in loop or "i64" in loop, loop
