"""Options that kernels of Triton's give: met, or wishes that are left open with a word."""

from __future__ import annotations

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.base.kernel_spec import KernelSpec
from tawa.base.options import BadOption
from tawa.ir.decisions.choice import WishLeftOpen
from tawa.runtime.launch import COOPERATIVE, _config
from tawa.triton.kernel import jit
from tawa.triton.objects import OtherTarget


def double(x, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(x + i, tl.load(x + i) * 2)


def test_a_limit_of_registers_is_the_assembler_s():
    compiled = tawa.jit(double).compile("*f32:16", 8192, maxnreg=40)
    assert ".maxnreg 40" in str(compiled.asm["ptx"])
    assert compiled.n_regs <= 40
    assert compiled.metadata.maxnreg == 40
    with pytest.raises(BadOption, match="roles have registers of their own"):
        tawa.jit(double).compile("*f32:16", 64, maxnreg=40, specialize=True)


def test_a_launch_may_be_cooperative():
    compiled = tawa.jit(double).compile("*f32:16", 64, launch_cooperative_grid=True)
    spec = KernelSpec.from_json(compiled.spec.to_json())
    config = _config(spec)
    found = config.attributes[0]
    assert (config.attribute_count, found.id, found.cluster[0]) == (1, COOPERATIVE, 1)
    assert _config(tawa.jit(double).compile("*f32:16", 64).spec).attribute_count == 0
    with pytest.raises(BadOption, match="run at the same time"):
        tawa.jit(double).compile("*f32:16", 64, launch_cooperative_grid=True, persistent=True)


def test_several_ctas_a_program_are_a_wish_of_triton_s_alone():
    x = np.ones(128, np.float32)
    compiled = jit(double)[(2,)](x, N=64, num_ctas=2, extern_libs={"name": "path"})
    assert (x == 2).all()
    assert WishLeftOpen("num_ctas", 2, "is left out: a CTA a program") in compiled.decisions
    assert compiled.metadata.num_ctas == 1
    with pytest.raises(BadOption, match="num_ctas=2"):
        tawa.jit(double).compile("*f32:16", 64, num_ctas=2)


def powers(x, out):
    i = tl.arange(0, tl.extra.cuda.num_threads())
    tl.store(out + i, tl.exp2(tl.load(x + i)) + 0 * tl.extra.cuda.num_warps())


def test_denormals_of_exponentials_are_kept_if_asked_for():
    x = np.linspace(-140, -127, 64, dtype=np.float32)
    for flushed in (True, False):
        out = np.ones(64, np.float32)
        compiled = jit(powers)[(1,)](x, out, num_warps=2, enable_reflect_ftz=flushed)
        assert ("ex2.approx.ftz.f32" in compiled.asm["ptx"]) == flushed
        assert (out == (0 if flushed else np.exp2(x))).all()


def product(x, out, N: tl.constexpr):
    i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + i, tl.dot(tl.load(x + i), tl.load(x + i)))


def test_a_launch_may_say_how_products_take_operands_of_32_bits():
    kernel = jit(product)
    for precision, products in (("ieee", 1), ("tf32x3", 1), ("bf16x6", 6)):
        compiled = kernel.compile("*f32:16", "*f32:16", 16, default_dot_input_precision=precision)
        asked = "xbf16>" if products > 1 else precision
        assert asked in compiled.asm["tile"].partition("tile.dot")[2].partition("\n")[0]
        assert compiled.asm["tile"].count("tile.dot") == products
    with pytest.raises(BadOption, match="default_dot_input_precision"):
        kernel.compile("*f32:16", "*f32:16", 16, default_dot_input_precision="exact")


def test_there_is_one_architecture():
    x = np.ones(128, np.float32)
    jit(double)[(2,)](x, N=64, arch="sm90")
    assert (x == 2).all()
    with pytest.raises(OtherTarget, match="compute capability 80"):
        jit(double).warmup(x, N=64, arch="sm80", grid=(1,))
