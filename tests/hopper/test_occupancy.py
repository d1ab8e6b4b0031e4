"""How many CTAs a kernel is compiled for beside those that fit: who asks, and what threads give."""

from __future__ import annotations

import pytest

from tawa.hopper.passes.occupancy import Occupancy
from tawa.machine.chips import H200

FEW, MUCH = 1024, 50 * 1024
"""Bytes of shared memory that let sixteen and four CTAs on."""


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "fit", "others", "more"),
    [
        (128, 64, FEW, 8, 16, [10, 9]),  # 48 and 56 of 64 registers each
        (128, 128, FEW, 4, 16, [5]),  # 96 of 128; for a sixth, 48 would have to go
        (128, 34, FEW, 12, 16, [16]),  # 40 taken, 32 left, as to 13 to 15: eight at a time
        (128, 0, 0, 64, 16, []),
        (256, 72, FEW, 3, 8, [4]),
        (512, 32, FEW, 4, 4, []),  # all threads are there
        (32, 80, 0, 24, 32, [32, 28]),  # six warps a scheduler; 64 and 72 registers for more
        (32, 199, FEW, 8, 32, [12]),  # 168 registers: three warps a scheduler, as with 9 to 11
        (64, 123, FEW, 8, 32, [10]),  # 96: five warps a scheduler
        (32, 51, 0, 36, 32, []),
        (1024, 60, FEW, 1, 2, []),  # a second would leave 32
    ],
)
def test_ordinary_kernels_ask_for_more_if_threads_are_few(
    threads: int, registers: int, shared: int, fit: int, others: int, more: list[int]
):
    taken = Occupancy(H200, threads, registers, shared)
    assert (taken.by_registers, taken.by_others, taken.more) == (fit, others, more)


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "meets", "by_warps"),
    [
        (128, 128, FEW, [7, 5], [5]),  # 72 and 96 of 128
        (128, 130, FEW, [7, 4], [5, 4]),  # 72, 96, and next to nothing
        (128, 168, FEW, [5, 4], [4]),
        (128, 168, MUCH, [4], [4]),  # no room for a fifth
        (128, 96, FEW, [9, 6], [7, 6]),
        (128, 100, FEW, [9, 5], [7, 6, 5]),  # 72, 80 and 96 of 100
        (128, 255, FEW, [3], []),
        (512, 128, FEW, [], []),
        (128, 136, 2 * MUCH, [], []),  # three fit by registers, two by shared memory
    ],
)
def test_kernels_whose_warps_wait_for_each_other_ask_for_more(
    threads: int, registers: int, shared: int, meets: list[int], by_warps: list[int]
):
    """For what nearly half of the registers buys; a third where warps multiply by themselves."""
    for found, each in ((meets, False), (by_warps, True)):
        assert Occupancy(H200, threads, registers, shared, True, each).more == found
