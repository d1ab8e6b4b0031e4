"""What a launch gives is launched again, as libraries do that keep compiled kernels themselves."""

from __future__ import annotations

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.driver.compiled import NotLaunchable


@tawa.jit
def scaled(x, y, n, factor, BLOCK: tl.constexpr, num_stages: tl.constexpr = 1):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor * num_stages, mask=at < n)


def test_a_launch_again_takes_all_arguments() -> None:
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    compiled = scaled[(2,)](x, y, 100, 2.0, BLOCK=64, num_warps=4)
    again = np.zeros(100, np.float32)
    compiled[(2, 1, 1)](x, again, 100, 3.0, 64, 1)
    assert np.array_equal(y, 2 * x)
    assert np.array_equal(again, 3 * x)


def test_a_kernel_launched_again_gives_itself() -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    compiled = scaled[(1,)](x, y, 64, 2.0, 64)
    compiled[(1,)](x, y, 64, 5.0, 64)[(1,)](x, y, 64, 7.0, 64)
    assert np.array_equal(y, 7 * x)


def test_what_was_compiled_for_types_says_how_it_is_launched() -> None:
    compiled = scaled.compile("*f32", "*f32", "i32", "f32", BLOCK=64)
    with pytest.raises(NotLaunchable, match="not for a launch"):
        compiled[(1,)]
