"""Kernels as users call them: grids, arguments, options, the simulator, what compiles anew."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.base.errors import TawaError
from tawa.base.kernel_spec import KernelSpec
from tawa.driver.jit import ConstantNotHashable
from tawa.driver.progress import progress
from tawa.runtime import sass
from tawa.runtime.launch import BadGrid, WrongDevice
from tawa.runtime.launch_errors import BadTypeText, UnknownLaunchOption


@tawa.jit
def axpy(y, x, a, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y + offsets, tl.load(y + offsets, mask) + a * tl.load(x + offsets, mask), mask)


@tawa.jit
def matmul(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        acc = tl.dot(a_desc.load([m, k * BK]), b_desc.load([n, k * BK]).T, acc)
    c_desc.store([m, n], acc.to(c_desc.dtype))


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def vectors(n: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, n)).astype(np.float32)
    return x, y


@pytest.mark.parametrize(
    "grid",
    [(8,), 8, [8], (8, 1, 1), lambda meta: (tawa.cdiv(meta["n"], meta["BLOCK"]),)],
    ids=["tuple", "int", "list", "three", "function"],
)
def test_every_form_of_grid(grid: Any) -> None:
    x, y = vectors()
    expected = y + np.float32(2.0) * x
    compiled = axpy[grid](y, x, 2.0, 1000, BLOCK=128)
    np.testing.assert_array_equal(y, expected)
    assert isinstance(compiled.spec, KernelSpec)


def test_the_simulator_can_be_asked_for() -> None:
    x, y = vectors()
    expected = y + x
    axpy[8](y, x, 1.0, 1000, 128, device="simulator")
    np.testing.assert_array_equal(y, expected)


def test_descriptors_of_bfloat16_arrays() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, 40)).astype(ml_dtypes.bfloat16) for n in (100, 72))
    c = np.full((100, 72), np.nan, ml_dtypes.bfloat16)
    blocks = ((a, (64, 16)), (b, (16, 16)), (c, (64, 16)))
    descriptors = [tawa.TensorDescriptor.from_tensor(x, block) for x, block in blocks]
    matmul[2, 5](*descriptors, 40, BM=64, BN=16, BK=16)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    rounded = exact.astype(ml_dtypes.bfloat16).astype(np.float64)
    found = c.astype(np.float64)
    assert np.linalg.norm(found - rounded) < 1e-3 * np.linalg.norm(exact)


def test_a_kernel_is_compiled_once_for_a_kind_of_call() -> None:
    x, y = vectors(2048)
    first = axpy[8](y, x, 2.0, 1000, BLOCK=128)
    assert axpy[8](y, x, 7.0, n=1000, BLOCK=128) is first
    assert axpy[8](y, x, 2.0, 1001, BLOCK=128) is axpy[8](y, x, 2.0, 999, BLOCK=128)
    assert axpy[8](y, x, 2.0, 1001, BLOCK=256) is not axpy[8](y, x, 2.0, 1001, BLOCK=128)
    assert axpy[8](y.astype(np.float64), x, 2.0, 1000, BLOCK=128) is not first


def test_arguments_that_are_compiled_in_are_not_passed() -> None:
    x, y = vectors()
    expected = y.copy()
    expected[0] += 2 * x[0]
    compiled = axpy[1](y, x, 2.0, 1, BLOCK=128)
    np.testing.assert_array_equal(y, expected)
    assert "n" not in compiled.spec.arguments


def test_do_not_specialize() -> None:
    plain = tawa.jit(do_not_specialize=("n",))(axpy.fn)
    x, y = vectors()
    compiled = {id(plain[8](y, x, 2.0, n, BLOCK=128)) for n in (1, 16, 999, 1000)}
    assert len(compiled) == 1
    unaligned = tawa.jit(do_not_specialize_on_alignment=(3,))(axpy.fn)
    one, *others = (unaligned[8](y, x, 2.0, n, BLOCK=128) for n in (1, 16, 999, 1000))
    assert len({id(other) for other in others}) == 1
    assert "n" not in one.spec.arguments


@pytest.mark.parametrize("listed", ["BLOCK", 4])
def test_constexpr_parameters_are_specialized_in_any_case(listed: str | int) -> None:
    kernel = tawa.jit(do_not_specialize=(listed,))(axpy.fn)
    x, y = vectors()
    with pytest.raises(TawaError, match="BLOCK marked as constexpr and listed"):
        kernel[8](y, x, 2.0, 1000, BLOCK=128)
    with pytest.raises(TawaError, match="BLOCK marked as constexpr and listed"):
        kernel.compile("*f32", "*f32", "f32", "i32", BLOCK=128)


def test_compile_and_warmup_need_no_arrays() -> None:
    compiled = axpy.compile("*f32", "*f32", "f32", "i32", BLOCK=128)
    assert axpy.warmup("*f32", "*f32", "f32", "i32", BLOCK=128, grid=(1,)) == compiled
    assert compiled.spec.arguments == ("y", "x", "a", "n")
    x, y = vectors()
    assert axpy.compile(y, x, 2.0, 999, BLOCK=128).spec.arguments == ("y", "x", "a", "n")


def test_a_specialised_kernel_s_machine_code() -> None:
    compiled = matmul.compile(
        *("desc<f16,128x64>", "desc<f16,256x64>", "desc<f16,128x256>", "i32"),
        BM=128,
        BN=256,
        BK=64,
        persistent=True,
    )
    code = sass.disassemble(compiled.cubin)[compiled.spec.entry]
    assert code.in_loops("HGMMA")
    assert code.count("UTMALDG") >= 2
    assert code.count("UTMASTG") >= 1
    assert code.count("LDL") == code.count("STL") == 0
    assert code.in_loops("MEMBAR.ALL.GPU") == ()
    assert compiled.findings == ()


def test_unknown_options_are_refused_with_a_suggestion() -> None:
    x, y = vectors()
    with pytest.raises(UnknownLaunchOption, match="did you mean `num_stages`"):
        axpy[8](y, x, 2.0, 1000, BLOCK=128, num_stage=3)
    axpy[8](y, x, 2.0, 1000, BLOCK=128, num_ctas=1, num_warps=4, enable_fp_fusion=True, debug=True)


@tawa.jit
def product_and_sum(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    x_row, y_row = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, x_row * y_row + tl.fma(x_row, x_row, y_row))


def test_products_are_rounded_by_themselves_if_asked_for() -> None:
    fused, separate = (
        sass.disassemble(compiled.cubin)[compiled.spec.entry]
        for fusion in (True, False)
        for compiled in (product_and_sum.compile(*["*f32:16"] * 3, N=128, enable_fp_fusion=fusion),)
    )
    assert (fused.count("FFMA"), fused.count("FMUL")) == (2, 0)
    assert (separate.count("FFMA"), separate.count("FMUL")) == (1, 1)


@tawa.jit
def weighted_sum(rows, out, n, options, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    weights, shift, factor = options
    for j in tl.static_range(len(rows)):
        acc += tl.load(rows[j] + i, mask=i < n, other=0.0) * weights[j]
    if shift is not None:
        acc += shift
    tl.store(out + i, acc * factor, mask=i < n)


def test_tuples_are_arguments_part_by_part() -> None:
    rng = np.random.default_rng(0)
    rows = tuple(rng.random(100).astype(np.float32) for _ in range(3))
    out = np.zeros(100, np.float32)
    options = (2.0, 3, 1), None, tl.constexpr(4)
    compiled = weighted_sum[(1,)](rows, out, 100, options, BLOCK=128)
    np.testing.assert_allclose(out, (2 * rows[0] + 3 * rows[1] + rows[2]) * 4, rtol=1e-6)
    # 1 and None are compiled in, as they are outside of tuples.
    assert compiled.spec.arguments == (
        "rows.0", "rows.1", "rows.2", "out", "n", "options.0.0", "options.0.1",
    )  # fmt: skip
    again = weighted_sum[(1,)](rows, out, 100, ((5.0, 7, 1), None, tl.constexpr(4)), BLOCK=128)
    assert again is compiled
    np.testing.assert_allclose(out, (5 * rows[0] + 7 * rows[1] + rows[2]) * 4, rtol=1e-6)
    other = weighted_sum[(1,)](rows[:1], out, 100, ((5.0,), 2.5, tl.constexpr(1)), BLOCK=128)
    assert other is not compiled
    np.testing.assert_allclose(out, 5 * rows[0] + 2.5, rtol=1e-6)


def test_tuples_of_type_texts_and_empty_ones() -> None:
    types = ("*f32:16", "*f32"), "*f32:16", "i32", (("f32", "i32"), None, tl.constexpr(2))
    arguments = weighted_sum.compile(*types, BLOCK=64).spec.arguments
    assert arguments == ("rows.0", "rows.1", "out", "n", "options.0.0", "options.0.1")
    out = np.ones(64, np.float32)
    weighted_sum[(1,)]((), out, 64, ((), 3.0, tl.constexpr(2)), BLOCK=64)
    np.testing.assert_array_equal(out, 6)


@tawa.jit
def names(stride_0, stride_1, λ, x_0, num_warps: tl.constexpr):
    i, j = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
    tile = tl.load(x_0 + i * stride_0 + j * stride_1)
    tl.store(λ + i, tl.reduce(tile, 1, weighted, keep_dims=True) * num_warps)


@tawa.jit
def weighted(a, b):
    return a + b + tl.zeros((1,), tl.int1).dtype.primitive_bitwidth - 1


def test_parameters_keep_names_that_end_in_numbers_or_are_greek() -> None:
    x, out = np.arange(32, dtype=np.float32).reshape(8, 4), np.zeros(4, np.float32)
    compiled = names[(1,)](1, 4, out, x, num_warps=2)
    np.testing.assert_array_equal(out, 2 * x.sum(0))
    assert compiled.spec.arguments == ("stride_1", "λ", "x_0")
    assert names.compile("i32", "i32", "*f32", "*f32", 8).spec.threads == 128


def test_a_parameter_called_num_warps_is_the_option_too() -> None:
    types = ("i32", "i32", "*f32", "*f32")
    assert names.request(*types, num_warps=2).options.num_warps == 2
    assert names.request(*types, num_warps=2).constants["num_warps"] == 2
    assert names.request(*types, 2).options.num_warps == 4, "as in Triton, given by its name alone"


def test_wrong_calls_say_what_is_wrong() -> None:
    x, y = vectors()
    with pytest.raises(TypeError, match=r"axpy\(\) missing 1 required positional argument: 'n'"):
        axpy[8](y, x, 2.0, BLOCK=128)
    with pytest.raises(TypeError, match=r"axpy\[grid\]"):
        axpy(y, x, 2.0, 1000, BLOCK=128)
    with pytest.raises(ConstantNotHashable, match="`BLOCK`"):
        axpy[8](y, x, 2.0, 1000, BLOCK=[128])
    with pytest.raises(BadTypeText, match="pointer"):
        axpy.compile("pointer", "*f32", "f32", "i32", BLOCK=128)
    with pytest.raises(BadGrid):
        axpy[1, 2, 3, 4](y, x, 2.0, 1000, BLOCK=128)


class OnDevice:
    """An array that says that it lies on a CUDA device."""

    dtype = np.dtype(np.float32)
    __cuda_array_interface__ = {
        "data": (4096, False),
        "shape": (1000,),
        "strides": None,
        "typestr": "<f4",
        "version": 3,
    }


def test_arrays_in_different_places_are_named() -> None:
    x, _ = vectors()
    with pytest.raises(WrongDevice, match="argument `x`"):
        axpy[8](OnDevice(), x, 2.0, 1000, BLOCK=128)
    with pytest.raises(WrongDevice, match="argument `y`"):
        axpy[8](OnDevice(), x, 2.0, 1000, BLOCK=128, device="simulator")


def test_autotuned_kernels_run_in_the_simulator() -> None:
    configs = [tawa.Config({"BLOCK": 128}, num_warps=4), tawa.Config({"BLOCK": 256})]
    tuned = tawa.autotune(configs, key=["n"])(axpy)
    x, y = vectors()
    expected = y + 2 * x
    tuned[lambda meta: (tawa.cdiv(meta["n"], meta["BLOCK"]),)](y, x, 2.0, 1000)
    np.testing.assert_array_equal(y, expected + 2 * x if tuned.timings else expected)


class Terminal(io.StringIO):
    """A standard error that someone watches."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("seconds", "shown"), [(0.3, True), (0.0, False)])
def test_only_a_long_compilation_shows_progress(
    monkeypatch: pytest.MonkeyPatch, seconds: float, shown: bool
) -> None:
    monkeypatch.setattr("tawa.driver.progress.PROGRESS_SECONDS", 0.1)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress("compiling axpy") as report:
        report("attempt 2 of at most 9")
        time.sleep(seconds)
    text = sys.stderr.getvalue()  # pyright: ignore
    assert ("compiling axpy: attempt 2 of at most 9" in text) == shown


def test_without_a_terminal_there_is_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("compiling axpy") as report:
        report("attempt 2 of at most 9")
    assert capsys.readouterr().err == ""


USER = """
import sys, json
import numpy as np
import tawa
import tawa.language as tl

@tawa.jit
def twice(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i, i < n), i < n)

x = np.arange(100, dtype=np.float32)
compiled = twice[(1,)](x, 100, BLOCK=128)
assert (x == 2 * np.arange(100)).all()
print(json.dumps({"cached": not compiled.timings, "size": len(compiled.cubin)}))
"""


def test_processes_share_compiled_kernels(tmp_path: Path) -> None:
    script = tmp_path / "user.py"
    script.write_text(USER)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, text=True
        )

    together = [start(), start()]
    results = [json.loads(process.communicate(timeout=300)[0]) for process in together]
    later = json.loads(start().communicate(timeout=300)[0])
    assert later["cached"]
    assert {result["size"] for result in results} == {later["size"]}


x = np.arange(4.0)  # a global of the name that a kernel's parameter has


@tawa.jit
def increment(x, n):
    y = tl.load(x) + n
    tl.store(x, y)


def test_a_parameter_is_not_the_global_of_its_name() -> None:
    global x
    out = np.zeros(1, np.float32)
    increment[(1,)](out, 2)
    before = increment._known
    x = np.arange(5.0)
    increment[(1,)](out, 2)
    assert increment._known is before
    assert out[0] == 4
