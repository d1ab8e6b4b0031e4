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


LIBRARY_PROGRAM = """
import importlib.metadata
import importlib.util

import numpy as np
import tawa

assert tawa.provide_triton()
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource, CompiledKernel, triton_key
from triton.language.math import tanh
from triton.runtime.cache import get_cache_manager
from triton.runtime.driver import driver
from triton.runtime.jit import KernelInterface

assert importlib.util.find_spec("triton") is not None
assert importlib.metadata.version("triton") == triton.__version__
assert triton.runtime.driver is driver and triton_key()


@triton.jit(debug=True, repr=lambda _: "other")
def add(x, n: tl.int64, BLOCK: tl.constexpr = 8):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) + n)


assert isinstance(add, triton.JITFunction) and isinstance(add, KernelInterface)
assert [p.name for p in add.params if p.is_constexpr] == ["BLOCK"] and add.constexprs == [2]
assert add.params[1].annotation_type == "i64" and len(add.cache_key) == 64
assert add.src.startswith("def add(") and add.debug and add.repr(None) == "other"
x = np.zeros(8, np.float32)
add[(1,)](x, 2)
add.run(x, 2, grid=(1,), warmup=False)
assert (x == 4).all() and add.device_caches[-1][0]
source = ASTSource(add, {"x": "*fp32", "n": "i64", "BLOCK": "constexpr"}, {(2,): 8})
compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 2})
assert isinstance(compiled, CompiledKernel) and ".entry" in compiled.asm["ptx"]
assert compiled.metadata.num_warps == 2 and compiled.n_regs > 0
warm = add.warmup(x, 3, grid=(1,))
warm._init_handles()
assert warm.n_spills == 0 and warm.metadata.shared == 0
warm[(1,)](x, 3)
assert (x == 7).all()
files = get_cache_manager("key")
assert files.get_file("a.json") is None
assert open(files.put("{}", "a.json", binary=False)).read() == "{}"
seen = []
add.add_pre_run_hook(lambda *args, **kwargs: seen.append(len(args)))
add[(1,)](x, 2)
assert seen == [2]
for use in (
    lambda: triton.compile(source, target=GPUTarget("hip", "gfx942", 64)),
    lambda: setattr(triton.knobs.compilation, "dump_ir", True),
    lambda: triton.compiler.IRSource("path"),
):
    try:
        use()
    except tawa.TawaError as error:
        assert "Tawa" in str(error) or "hip" in str(error) or "no effect" in str(error)
    else:
        raise AssertionError("an object that means nothing was used without an error")
try:
    import triton.experimental.unknown
except ModuleNotFoundError:
    pass


@triton.testing.perf_report(
    triton.testing.Benchmark(["n"], [1, 2], "kind", ["a", "b"], ["A", "B"], "plot", {"scale": 10})
)
def measure(n, kind, scale):
    return n * scale + (kind == "b")


assert measure.run(return_df=True).to_numpy().tolist() == [[1, 10, 11], [2, 20, 21]]
"""


def test_what_libraries_touch_around_kernels(tmp_path: Path) -> None:
    if real_triton() == []:
        pytest.skip("Triton is installed")
    program = tmp_path / "library.py"
    program.write_text(LIBRARY_PROGRAM)
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
        "TAWA_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
