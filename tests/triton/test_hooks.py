"""What `triton.knobs.runtime` lets a program hear of, and what a compiled kernel tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa.language as tl
from tawa.frontend.source.errors import LaunchMismatch
from tawa.language.extra.cuda import globaltimer, smid
from tawa.runtime.descriptor import TensorDescriptor
from tawa.triton.kernel import RUNTIME, jit
from tawa.triton.objects import KNOBS, ASTSource, GPUTarget, HookChain, NotProvided, compile


@pytest.fixture(autouse=True)
def no_hooks():
    """Hooks of a test end with it."""
    before = dict(vars(RUNTIME))
    RUNTIME.launch_enter_hook, RUNTIME.launch_exit_hook = HookChain(), HookChain()
    yield
    vars(RUNTIME).update(before)


def cost(grid: tuple[int, ...], metadata: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": f"{metadata.name} of {arguments['N']}", "flops": grid[0] * arguments["N"]}


def make():
    @jit(launch_metadata=cost)
    def twice(x, N: tl.constexpr):
        i = tl.program_id(0) * N + tl.arange(0, N)
        tl.store(x + i, tl.load(x + i) * 2)

    return twice


@jit
def scaled(x):
    i = tl.arange(0, 128)
    tl.store(x + i, tl.load(x + i) * 1.5 + 1.0)


@pytest.mark.parametrize("fused", [True, False])
def test_products_and_sums_are_fused_as_the_settings_say(
    fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(KNOBS["language"]), "default_fp_fusion", fused)
    text = str(scaled.compile("*f32:16").stages["ptx"])
    assert ("fma.rn.f32" in text) == fused


@jit
def clocks(out):
    tl.store(out, globaltimer())
    tl.store(out + 1, smid().to(tl.int64))
    tl.store(out + 2, globaltimer())


def test_hooks_hear_of_launches():
    heard: list[Any] = []
    RUNTIME.launch_enter_hook.add(lambda details: heard.append(details.get()))
    RUNTIME.launch_exit_hook = lambda details: heard.append(details.get()["name"])
    x = np.ones(64, np.float32)
    make()[(2,)](x, N=32)
    assert heard == [
        {"name": "twice of 32", "stream": None, "function": None, "flops": 64},
        "twice of 32",
    ]


def test_hooks_hear_of_a_compilation_once():
    heard: list[Any] = []
    kernel = make()
    RUNTIME.jit_cache_hook = lambda **told: heard.append((told["fn"], told["compile"]["signature"]))
    RUNTIME.jit_post_compile_hook = lambda **told: heard.append(told["key"])
    for n in (32, 32, 16):
        kernel[(1,)](np.ones(n, np.float32), N=n)
    assert [h[0].jit_function for h in heard[::2]] == [kernel, kernel]
    assert heard[0][1] == {"x": "*fp32", "N": "constexpr"}
    assert heard[1] != heard[3]
    RUNTIME.jit_cache_hook = lambda **told: True
    with pytest.raises(NotProvided, match="jit_cache_hook"):
        kernel.warmup(np.ones(64, np.float32), N=64, grid=(1,))


def test_stages_have_triton_s_names_too():
    compiled = make().warmup(np.ones(16, np.float32), N=16, grid=(1,), num_stages=2)
    assert compiled.asm["ttir"] == compiled.asm["tile"]
    assert compiled.asm["ttgir"] == compiled.asm["hopper"]
    with pytest.raises(KeyError):
        compiled.asm["llir"]
    told = compiled.metadata._asdict()
    assert (told["num_stages"], told["num_warps"], told["target"].arch) == (2, 4, 90)
    assert compiled.n_max_threads == 128
    assert compiled.kernel == compiled.asm["cubin"]


def test_the_device_s_clock_goes_on():
    out = np.zeros(3, np.int64)
    clocks[(1,)](out)
    assert 0 < out[0] <= out[2]
    assert out[1] == 0
    assert "%globaltimer" in str(clocks.compile("*i64").asm["ptx"])


def test_types_say_how_their_bits_are_meant():
    assert [t.exponent_bias for t in (tl.float16, tl.bfloat16, tl.float8e4nv)] == [15, 127, 7]
    with pytest.raises(AttributeError, match="no exponent"):
        _ = tl.int32.exponent_bias


@jit
def staged(x, y, N: tl.constexpr, num_stages: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i) * num_stages)


def test_a_warmed_kernel_is_launched_by_position_though_a_parameter_is_an_option_too():
    x, y = np.ones(16, np.float32), np.zeros(16, np.float32)
    warm = staged.warmup(x, y, N=16, num_stages=3, num_warps=2, grid=(1,))
    assert warm[(1,)](x, y, 16, 3).hash == warm.hash
    assert (y == 3).all()


@jit
def copied(source, target):
    target.store([0, 0], source.load([0, 0]))


def test_a_block_of_one_element_stands_for_one_that_is_assigned_later():
    x, y = np.ones((16, 16), np.float32), np.zeros((16, 16), np.float32)
    source, target = (TensorDescriptor.from_tensor(a, [1, 1]) for a in (x, y))
    with pytest.raises(LaunchMismatch, match="has 4 bytes"):
        copied[(1,)](source, target)
    source.block_shape = target.block_shape = [16, 16]
    copied[(1,)](source, target)
    assert (y == 1).all()


def test_another_gpu_is_no_target():
    source = ASTSource(clocks, {"out": "*i64"})
    assert compile(source, GPUTarget("cuda", 90, 32)).n_regs > 0
    with pytest.raises(NotProvided, match="compute capability 100"):
        compile(source, GPUTarget("cuda", 100, 32))


@jit
def copied_elements(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def test_ptx_says_how_many_bits_are_moved():
    wide = copied_elements.compile("*f32:16", "*f32:16", "i32:16", BLOCK=1024).asm["ptx"]
    assert "ld.global.v4.b32" in wide
    assert "st.global.v4.b32" in wide
    single = copied_elements.compile("*u8", "*u8", "i32", BLOCK=128).asm["ptx"]
    assert "ld.global.b8" in single
    assert "ld.global.u8" not in single
