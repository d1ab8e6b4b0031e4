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
