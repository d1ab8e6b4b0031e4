"""Kernels written for Triton, unmodified: with Triton absent and, if it is there, with the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KERNEL_FILE = """
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_wait
from triton.language.core import constexpr, tensor
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner, OutOfResources
from triton.runtime.jit import JITFunction
from triton.testing import do_bench
from triton.tools.tensor_descriptor import TensorDescriptor

SCALE = tl.constexpr(2.0)


@triton.jit
def helper(x, y: tl.constexpr):
    return libdevice.tanh(x) * y


@triton.autotune(configs=[triton.Config({"BLOCK": 16}, num_warps=4)], key=["n"])
@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, DTYPE: tl.constexpr = tl.float32):
    pid = tl.program_id(0)
    gdc_wait()
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(DTYPE)
    half: tl.constexpr = triton.cdiv(BLOCK, 2)
    tl.static_assert(triton.next_power_of_2(half) == half)
    y = tl.maximum(helper(x, SCALE), 0.0, propagate_nan=tl.PropagateNan.ALL)
    y = tl.where(tl.math.exp2(x) > 1, y, tl.cdiv(n, BLOCK))
    tl.store(out_ptr + offsets, y.to(out_ptr.dtype.element_ty), mask=mask)


class DerivedTuner(Autotuner):
    def __init__(self, fn, arg_names, configs, key, reset_to_zero, restore_value, **more):
        super().__init__(fn, arg_names, configs, key, reset_to_zero, restore_value, **more)
        assert self.keys == ["n"] and not self.user_defined_pre_hook


derived = DerivedTuner(kernel.fn, kernel.arg_names, kernel.configs, ["n"], None, None)
assert isinstance(kernel, Autotuner)
"""

PROGRAM = """
import numpy as np
import tawa
provided = tawa.provide_triton()
assert provided == {absent}, provided
import kernels
from tawa.frontend import JITFunction, lower_to_tile, parse_argument
from tawa.simulate.interpret.tile import run
module = lower_to_tile(
    JITFunction(kernels.kernel), [parse_argument("*f32"), parse_argument("*f16"),
    parse_argument("i32")], {{"BLOCK": 16}},
)
x = np.linspace(-2, 2, 20).astype(np.float32)
out = np.zeros(20, np.float16)
run(module, (2,), [x, out, 20])
expected = np.where(np.exp2(x) > 1, np.maximum(np.tanh(x) * 2, 0), 2)
np.testing.assert_allclose(out, expected, rtol=1e-3)
print("agrees")
"""


def run_program(folder: Path, absent: bool, path: list[str]) -> str:
    (folder / "kernels.py").write_text(KERNEL_FILE)
    source = str(Path(__file__).parents[2] / "src")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([source, str(folder), *path])}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(absent=absent)],
        env=environment, capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    return result.stdout + result.stderr


def real_triton() -> list[str] | None:
    """Where the real Triton is, beyond the usual path; None if there is none."""
    folder = os.environ.get("TRITON_PATH")
    if folder:
        return [folder]
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('triton') is None)"
    return [] if subprocess.run([sys.executable, "-c", code], check=False).returncode == 0 else None


def test_without_triton(tmp_path):
    if real_triton() == []:
        pytest.skip("Triton is installed")
    assert run_program(tmp_path, True, []).endswith("agrees\n")


def test_with_the_real_triton(tmp_path):
    path = real_triton()
    if path is None:
        pytest.skip("Triton is not installed")
    assert run_program(tmp_path, False, path).endswith("agrees\n")
