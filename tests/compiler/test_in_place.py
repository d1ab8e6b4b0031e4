"""Kernels in place that take strides of each array: equal ones are known to be equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulation import Arrays, check, stored, values

import tawa
import tawa.language as tl
from tawa.runtime.binding import BoundParameter, compile_guard
from tawa.runtime.kinds import kind_of
from tawa.runtime.overlaps import overlapping
from tawa.simulate import run
from tawa.simulate.interpret.launch import SimulationInput


@tawa.jit
def gated(x, sx, y, sy, out, so, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        a = tl.load(x + row * sx + at, mask=at < n, other=0.0)
        b = tl.load(y + row * sy + at, mask=at < n, other=0.0)
        gate = tl.exp(-a * a) * b + a * b - b
        tl.store(out + row * so + at, gate * a + tl.exp(b - 5) * 0.5, mask=at < n)


def expected(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (np.exp(-a * a) * b + a * b - b) * a + np.exp(b - 5) * 0.5


@pytest.mark.parametrize("n", [1001, 1024])
def test_equal_strides_need_no_meeting_of_threads(n: int) -> None:
    a = Arrays()
    x, y = a.random("f32", 3, n), a.random("f32", 3, n)
    args = [x, n, y, n, x, n, n]
    found = gated.compile(*args, BLOCK=512).spec.same
    assert found == (("x", "out"), ("sx", "so"))
    compiled = check(gated, (3,), args, {0: expected(values(x), values(y))}, 1e-5,
                     levels=["tile", "hopper", "ptx"], BLOCK=512, may_overlap=found[:1],
                     same_array=found)  # fmt: skip
    assert "cta_sync" not in str(compiled.stages["hopper"])


def test_other_strides_keep_the_order() -> None:
    x = np.zeros((4, 1000), np.float32)
    y = np.zeros((2, 1000), np.float32)
    compiled = gated.compile(x, 1000, y, 1000, x, 2000, 1000, BLOCK=512)
    assert compiled.spec.same == (("x", "out"),)
    assert "cta_sync" in str(compiled.stages["hopper"])


def test_loads_in_place_run_a_few_strips_ahead() -> None:
    x, y = np.zeros((3, 8191), np.float32), np.zeros((3, 8191), np.float32)
    args = [x, 8191, y, 8191, x, 8191, 8191]
    text = str(gated.compile(*args, BLOCK=4096).stages["hopper"])
    loads = [line for line in text.splitlines() if '"hopper.global_load"' in line]
    assert len(loads) == 2
    assert all("hopper.strips" in line for line in loads)


def test_wide_loads_in_place_come_first() -> None:
    x, y = np.zeros((3, 8192), np.float32), np.zeros((3, 8192), np.float32)
    args = [x, 8192, y, 8192, x, 8192, 8192]
    text = str(gated.compile(*args, BLOCK=4096).stages["hopper"])
    loads = [line for line in text.splitlines() if '"hopper.global_load"' in line]
    assert not any("hopper.strips" in line for line in loads)


def test_what_was_compiled_for_equal_strides_is_refused_others() -> None:
    x, y = stored(np.zeros((4, 512)), "f32"), stored(np.zeros((2, 512)), "f32")
    compiled = gated.compile(x, 512, y, 512, x, 512, 512, BLOCK=512)
    with pytest.raises(SimulationInput, match="`sx` and `so` differ"):
        run(compiled.module("hopper"), (2,), [x, 512, y, 512, x, 1024, 512])


STRIDES = ("x", "out", "sx", "so")


class Tensor:
    """Answers what the guard asks a tensor."""

    def __init__(self, address: int) -> None:
        self.address, self.nbytes = address, 64

    def is_contiguous(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("so", "found"), [(8, (("x", "out"), ("sx", "so"))), (16, (("x", "out"),))]
)
def test_the_quick_look_compares_strides_of_one_array(so: int, found: Any) -> None:
    names = ["x", "sx", "out", "so"]
    kinds = {name: kind_of("*f32" if name in ("x", "out") else "i32") for name in names}
    parameters = [BoundParameter(name) for name in names]
    guard = compile_guard(parameters, [("x", "out")], kinds, "copy", [STRIDES])
    one, far = Tensor(4096), Tensor(8192)
    assert guard((4096, 8, 4096, so), (one, 8, one, so)) == found
    assert guard((4096, 8, 8192, so), (one, 8, far, so)) == ()
    array = np.zeros(16, np.float32)
    named = {"x": array, "out": array, "sx": 8, "so": so}
    assert overlapping([("x", "out")], named, [STRIDES]) == ((("x", "out"),), found)
