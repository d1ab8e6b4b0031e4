"""`predict` takes tensors of PyTorch that lie in the CPU's memory, as launches do."""

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl

torch: Any = pytest.importorskip("torch")


@tawa.jit
def double(x, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i, mask=i < N), mask=i < N)


def test_tensors_on_the_cpu_are_predicted_as_arrays_are():
    given = [np.zeros(4096, np.float16), torch.zeros(4096, dtype=torch.float16)]
    times = {double.predict(x, 4096, BLOCK=1024, grid=(4,)).us for x in given}
    assert len(times) == 1
