"""Loops that wait: for earlier programs they end, for later ones the simulator says so."""

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate.interpret.hopper import run as run_hopper
from tawa.simulate.interpret.spinning import WaitsForever
from tawa.simulate.interpret.tile import run as run_tile


@tawa.jit
def pass_on(flags, out, n, BACKWARD: tl.constexpr):
    """Each program waits for its neighbour's flag."""
    pid = tl.program_id(0)
    before = pid + 1 if BACKWARD else pid - 1
    if (before >= 0) & (before < n):
        while tl.atomic_add(flags + before, 0) == 0:
            pass
    tl.store(out + pid, pid)
    tl.atomic_xchg(flags + pid, 1)


def run(level: str, backward: bool) -> np.ndarray:
    compiled = pass_on.compile("*i32", "*i32", "i32", backward)
    flags, out = np.zeros(4, np.int32), np.full(4, -1, np.int32)
    simulate = run_hopper if level == "hopper" else run_tile
    simulate(compiled.module(level), (4,), [flags, out, 4])
    return out


@pytest.mark.parametrize("level", ["tile", "hopper"])
def test_a_program_may_wait_for_an_earlier_one(level):
    assert run(level, False).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("level", ["tile", "hopper"])
def test_waiting_for_a_later_program_is_said(level):
    with pytest.raises(WaitsForever, match=r"program \[0, 0, 0\] waits"):
        run(level, True)
