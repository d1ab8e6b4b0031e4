"""Lines of CUDA C++ and the ops that wrote them."""

from __future__ import annotations

import tawa
import tawa.language as tl
from tawa.driver.inspection.cuda_lines import cuda_text
from tawa.hopper.dialect.global_memory import GlobalStore


@tawa.jit
def doubled(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at) * 2)


def test_lines_are_counted_from_one() -> None:
    module = doubled.compile("*f32", "*f32", 128).module("hopper")
    found = cuda_text(module)
    lines = found.text.splitlines()
    assert lines[found.kernel - 1].startswith('extern "C" __global__')
    assert set(found.writers) <= set(range(found.kernel, len(lines) + 1))
    written = [lines[n - 1] for n, op in found.writers.items() if isinstance(op, GlobalStore)]
    assert "reinterpret_cast" in "".join(written)
