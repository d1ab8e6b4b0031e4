"""What a tensor map can describe, at its limits: sizes, strides, alignments, ranks, blocks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tawa.base.errors import TawaError
from tawa.runtime.arrays import HOST
from tawa.runtime.descriptor import check

FAR = 2**39
"""Elements of two bytes in the longest stride."""

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], str]] = {
    "plain": ((64, 64), (64, 1), (16, 16), ""),
    "one dimension": ((64,), (1,), (16,), ""),
    "five": ((2,) * 4 + (64,), (8,) * 4 + (1,), (1, 1, 1, 1, 16), ""),
    "six": ((2,) * 5 + (64,), (8,) * 5 + (1,), (1, 1, 1, 1, 1, 16), "DescriptorMismatch"),
    "none": ((), (), (), "DescriptorMismatch"),
    "fewer strides": ((64, 64), (1,), (16, 16), "DescriptorMismatch"),
    "fewer block sizes": ((64, 64), (64, 1), (16,), "DescriptorMismatch"),
    "longest stride": ((64, 64), (FAR - 8, 1), (16, 16), ""),
    "too long a stride": ((64, 64), (FAR, 1), (16, 16), "SizeOutOfRange"),
    "one row, far": ((1, 64), (FAR, 1), (16, 16), "SizeOutOfRange"),
    "the same row": ((64, 64), (0, 1), (16, 16), ""),
    "backwards": ((64, 64), (-8, 1), (16, 16), "SizeOutOfRange"),
    "aligned rows": ((64, 64), (8, 1), (16, 16), ""),
    "rows of eight bytes": ((64, 64), (4, 1), (16, 16), "StrideNotAligned"),
    "one row of eight bytes": ((1, 64), (4, 1), (16, 16), ""),
    "two rows of eight bytes": ((2, 64), (4, 1), (16, 16), "StrideNotAligned"),
    "every other element": ((64, 64), (128, 2), (16, 16), "InnerStrideNotOne"),
    "two elements apart": ((64, 2), (128, 2), (16, 16), "InnerStrideNotOne"),
    "a column": ((64, 1), (128, 2), (16, 16), ""),
    "largest size": ((2**32, 64), (8, 1), (16, 16), ""),
    "too large a size": ((2**32 + 1, 64), (8, 1), (16, 16), "SizeOutOfRange"),
    "nothing": ((0, 64), (3, 2), (16, 16), ""),
    "less than nothing": ((-1, 64), (8, 1), (16, 16), "SizeOutOfRange"),
    "blocks of eight bytes": ((64, 64), (64, 1), (16, 4), "SizeOutOfRange"),
    "blocks of sixteen bytes": ((64, 64), (64, 1), (1, 8), ""),
    "no block": ((64, 64), (64, 1), (0, 16), "SizeOutOfRange"),
    "blocks to be chosen": ((64, 64), (64, 1), (1, 1), ""),
}


@pytest.mark.parametrize("name", CASES)
def test_what_can_be_described(name: str) -> None:
    shape, strides, block, error = CASES[name]
    array: Any = SimpleNamespace(element_type="f16", device=0, pointer=1 << 20)
    if not error:
        check(array, shape, strides, block)
        return
    with pytest.raises(TawaError) as caught:
        check(array, shape, strides, block)
    assert type(caught.value).__name__ == error


@pytest.mark.parametrize(
    ("device", "pointer", "right"),
    [(0, 16, True), (0, 8, False), (1, 24, False), (HOST, 8, True), (HOST, 16, True)],
)
def test_only_a_device_s_arrays_begin_at_units_of_copies(
    device: int, pointer: int, right: bool
) -> None:
    array: Any = SimpleNamespace(element_type="f16", device=device, pointer=pointer)
    if right:
        check(array, (64, 64), (64, 1), (16, 16))
        return
    with pytest.raises(TawaError, match="base address"):
        check(array, (64, 64), (64, 1), (16, 16))
    check(array, (0, 64), (64, 1), (16, 16))
