"""One mbarrier, phase after phase: what it counts, and what it says where the counts are wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.simulate.interpret.barriers import Arrival, Mbarrier
from tawa.simulate.interpret.errors import OverwriteUnread, WrongArrivalCount, WrongByteCount

OTHER, EXPECTS = Arrival("math", "math arrives", "own"), Arrival("load", "load expects", "expect")


def barrier(arrivals: int = 1) -> Mbarrier:
    return Mbarrier("`full`", 0, arrivals, clock(), clock())


def clock() -> np.ndarray:
    return np.zeros((4, 2), np.int64)


def filled(made: Mbarrier, *sizes: int, announced: int | None = None) -> None:
    """A phase: an arrival that expects bytes, and copies that bring some."""
    for _ in sizes:
        made.start_copy(clock())
    made.arrive(EXPECTS, 1, clock(), sum(sizes) if announced is None else announced)
    for size in sizes:
        made.land(size)


def test_a_phase_ends_with_its_last_byte() -> None:
    made = barrier()
    for phase in range(4):
        assert made.passes(1 - phase % 2)
        assert not made.passes(phase % 2)
        for _ in range(2):
            made.start_copy(clock())
        made.arrive(EXPECTS, 1, clock(), 24)
        assert made.phase == phase
        made.land(16)
        assert (made.phase, made.bytes, made.landed, made.announced) == (phase, 8, 16, 24)
        made.land(8)
        assert made.phase == phase + 1
        assert (made.pending, made.bytes, made.landed, made.announced) == (1, 0, 0, 0)


@pytest.mark.parametrize("before", [0, 1, 3])
def test_too_many_bytes_are_counted_from_the_phases_begin(before: int) -> None:
    made = barrier()
    for _ in range(before):
        filled(made, 64, 64)
    with pytest.raises(WrongByteCount) as caught:
        filled(made, 64, 32, announced=80)
    found = "80 bytes announced, 96 landed, 0 copies still under way"
    assert found in str(caught.value)
    assert f"phase {before} of" in str(caught.value)


def test_a_phase_that_leaves_copies_under_way() -> None:
    made = barrier()
    made.start_copy(clock())
    made.start_copy(clock())
    made.arrive(EXPECTS, 1, clock(), 64)
    with pytest.raises(WrongByteCount, match="64 bytes announced, 64 landed, 1 copies"):
        made.land(64)


@pytest.mark.parametrize("arrivals", [1, 2, 128])
def test_arrivals_of_each_phase(arrivals: int) -> None:
    made = barrier(arrivals)
    for phase in range(3):
        if arrivals > 1:
            made.arrive(Arrival(f"warp {phase}", "arrives", "own"), arrivals - 1, clock())
        assert made.phase == phase
        made.arrive(OTHER, 1, clock())
        assert (made.phase, made.pending) == (phase + 1, arrivals)
    with pytest.raises(WrongArrivalCount, match=f"at most {arrivals} arrivals"):
        made.arrive(OTHER, arrivals + 1, clock())


def test_a_fill_before_the_first_has_landed() -> None:
    made = barrier()
    made.start_copy(clock())
    made.arrive(EXPECTS, 1, clock(), 64)
    with pytest.raises(OverwriteUnread):
        made.arrive(EXPECTS, 1, clock(), 64)
