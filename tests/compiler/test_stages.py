"""The stages of every example: text that reads back, levels that leave nothing of the last one."""

from __future__ import annotations

import pytest
from catalogue import BY_NAME
from checks import dialects
from simulation import recorded

import tawa
import tawa.language as tl
from tawa.driver.compilation import Compilation
from tawa.driver.compiled import read_module
from tawa.driver.compiler import compile_kernel, resume
from tawa.hopper.emit import emit

SHARED = {"builtin", "func", "arith", "scf", "ew"}
LEVELS = {
    "tile": SHARED | {"tile"},
    "aref": SHARED | {"tile", "aref"},
    "hopper": SHARED | {"hopper"},
}
ONE_EACH = [
    "vector_add-f32-4", "softmax-f32-781-4", "layernorm", "row_statistics", "newton_root",
    "gemm_gelu-plain", "dual_gemm-plain", "gemm_bias", "running_max", "gemm-cooperative",
    "gemm-ping-pong", "gemm-one-role", "layouts-f16-TT", "layouts-e4m3-NT", "batched_gemm",
    "persistent_gemm", "pointers-small", "attention-causal-64",
]  # fmt: skip


@pytest.mark.parametrize("name", ONE_EACH)
def test_stages(name: str) -> None:
    launch, _ = recorded(BY_NAME[name])
    compiled = launch.compile()
    for level, known in LEVELS.items():
        text = str(compiled.stages[level])
        module = read_module(text, level)
        assert str(module) == text, f"{level} does not survive a round trip"
        assert dialects(module) <= known
    assert emit(read_module(str(compiled.stages["hopper"]), "hopper")) == compiled.stages["cu"]


@pytest.mark.parametrize("level", ["tile", "aref", "hopper", "cu"])
@pytest.mark.parametrize("name", ["gemm-persistent", "softmax-f32-20-1"])
def test_any_stage_can_be_started_from(name: str, level: str) -> None:
    launch, _ = recorded(BY_NAME[name])
    compiled = launch.compile()
    request = launch.request()
    again = resume(
        compiled.name, (level, str(compiled.stages[level])), Compilation(request.options)
    )
    assert again.stages["cu"] == compiled.stages["cu"]
    assert again.spec == compiled.spec


def test_a_module_of_a_stage_is_the_callers_own() -> None:
    """Whether it is copied from the compilation or read from its text."""
    launch, _ = recorded(BY_NAME["vector_add-f32-4"])
    compiled = launch.compile()
    text = str(compiled.stages["hopper"])
    for _ in range(2):
        module = compiled.module("hopper")
        assert str(module) == text == str(read_module(text, "hopper"))
        for op in list(module.ops):
            op.detach()


def test_compiling_twice_gives_the_same_text(tmp_path) -> None:
    """With a dump folder nothing comes from the cache."""
    launch, _ = recorded(BY_NAME["attention-causal-64"])
    request = launch.request()
    arguments = (launch.kernel, request.types, request.constants, request.options)
    first, second = (compile_kernel(*arguments, dump_dir=tmp_path / n) for n in "ab")
    for stage in ("tile", "aref", "hopper", "cu"):
        assert first.stages[stage] == second.stages[stage], stage


@tawa.jit
def scaled_sum(x, y, out, scale, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    total = tl.load(x + at, mask=mask) * scale + tl.load(y + at, mask=mask)
    tl.store(out + at, total, mask=mask)


def test_cuda_of_a_small_kernel(golden) -> None:
    types = ("*f32:16", "*f32:16", "*f32:16", "f32", "i32")
    compiled = scaled_sum.compile(*types, BLOCK=512, num_warps=4)
    golden(str(compiled.stages["cu"]), "cu")


def test_cuda_of_a_product(golden) -> None:
    types = ("desc<f16,64x64>", "desc<f16,64x64>", "desc<f16,64x64>", "i32")
    golden(str(small_gemm.compile(*types, num_stages=3).stages["cu"]), "cu")


@tawa.jit
def small_gemm(a, b, c, K):
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    c.store([0, 0], acc.to(tl.float16))
