"""Tensors of microscaling formats: every code, rounding between them, packing, scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa.triton.mxfp import MAGNITUDES, MXFP4Tensor, MXScaleTensor

torch: Any = pytest.importorskip("torch")


def test_every_code_is_the_rounding_of_its_number() -> None:
    every = MXFP4Tensor(size=(16,))
    every.data = torch.arange(16, dtype=torch.uint8)
    assert torch.equal(MXFP4Tensor(every.to(torch.float64)).data, every.data)


def test_numbers_are_rounded_to_the_nearest_and_ties_to_even() -> None:
    values = np.linspace(-7, 7, 14 * 64 + 1, dtype=np.float32)
    sizes = np.array(MAGNITUDES)
    distance = np.abs(np.abs(values)[:, None] - sizes)
    distance += (np.arange(8) % 2) * 1e-9  # of two that are as near, the even code
    nearest = np.copysign(sizes[distance.argmin(1)], values)
    rounded = MXFP4Tensor(torch.tensor(values)).to(torch.float32).numpy()
    np.testing.assert_array_equal(rounded, nearest)


@pytest.mark.parametrize(("shape", "dim"), [((5, 6), 0), ((5, 6), 1), ((2, 3, 3), 2), ((1,), 0)])
def test_packing_keeps_the_first_of_two_in_the_low_bits(shape: Any, dim: int) -> None:
    drawn = MXFP4Tensor(size=shape).random()
    packed = drawn.to_packed_tensor(dim)
    assert packed.shape[dim] == (shape[dim] + 1) // 2
    first = drawn.data.index_select(dim, torch.arange(0, shape[dim], 2))
    assert torch.equal(packed & 15, first)
    assert torch.equal(drawn.unpack_packed_tensor(packed, dim, shape), drawn.data)


def test_scales_are_powers_of_two_or_no_number() -> None:
    scales = MXScaleTensor(torch.tensor([1.0, 3.9, 2.0**-126, 2.0**127, 0.0, -2.0, torch.inf]))
    assert scales.data.tolist() == [127, 128, 1, 254, 255, 255, 255]
    back = scales.to(torch.float32)
    assert back[:4].tolist() == [1.0, 2.0, 2.0**-126, 2.0**127]
    assert back[4:].isnan().all()
    drawn = MXScaleTensor(size=(500,)).random(low=0.5, high=4.0).to(torch.float32)
    assert set(drawn.tolist()) == {0.5, 1.0, 2.0, 4.0}
