"""Machine code whose parts lie out of each other's reach, as beside a GPU's driver."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tawa import cuppl

SOURCE = """
def main () =
  let x = sample (normal 0 1) in
  observe (student_t 4 (exp x) 0.5) 1;
  (x, lgamma (abs x + 1.0), sample (categorical [0.1, 0.2, 0.7]))
"""
SCATTERED = f'''
import ctypes
from tawa import cuppl

model = cuppl.model("""{SOURCE}""")
mmap = ctypes.CDLL(None).mmap
mmap.restype = ctypes.c_void_p
mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
TOP, PAGES, BLOCK = 1 << 47, 4 * 4096, 3 << 30
NEW_ONLY, PRIVATE, NO_MEMORY = 0x100000, 0x22, 0x4000
taken = sorted(
    tuple(int(end, 16) for end in line.split()[0].split("-")) for line in open("/proc/self/maps")
)
holes = zip([end for _, end in taken], [start for start, _ in taken[1:]] + [TOP - 4096])
fill = lambda at, size: mmap(at, size, 0, NEW_ONLY | PRIVATE | NO_MEMORY, -1, 0)
for low, high in ((low, high) for low, high in holes if low < high < TOP):
    if high - low < 1 << 41:
        fill(low, high - low)
    for number in range(200 if high - low >= 1 << 41 else 0):
        fill(high - (number + 1) * (BLOCK + PAGES) + PAGES, BLOCK)
print(repr(model.smc(100, seed=3, threads=1).log_evidence))
'''


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="fills Linux's address space"
)
def test_sections_may_lie_anywhere() -> None:
    paths = os.pathsep.join([str(Path(cuppl.__file__).parents[2]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCATTERED],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-500:]
    here = cuppl.model(SOURCE).smc(100, seed=3, threads=1).log_evidence
    assert float(done.stdout) == here
