"""Descriptors of PyTorch's tensors in the CPU's memory: the simulator reads and writes them."""

from __future__ import annotations

from typing import Any

import pytest

import tawa
import tawa.language as tl
from tawa.runtime.descriptor import TensorDescriptor

torch: Any = pytest.importorskip("torch")


@tawa.jit
def double(source, target, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # pyright: ignore
    row = tl.program_id(0) * ROWS
    target.store([row, 0], source.load([row, 0]) * 2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int16"])
def test_a_part_of_a_tensor_is_read_and_written_in_place(dtype: str) -> None:
    whole = torch.arange(40 * 64).remainder(128).reshape(40, 64).to(getattr(torch, dtype))
    target = torch.zeros_like(whole)
    blocks = [16, 32]
    source = TensorDescriptor.from_tensor(whole[3:, :32], blocks)
    double[(3,)](source, TensorDescriptor.from_tensor(target[3:, :32], blocks), *blocks)
    expected = torch.zeros_like(whole)
    expected[3:, :32] = whole[3:, :32] * 2
    assert torch.equal(target, expected)
