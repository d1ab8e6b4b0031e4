"""Work behind a warp's question: no warp may have to wait for another there."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects import scf
from xdsl.ir import Operation

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import AnyAbove
from tawa.hopper.dialect.fragment import VoteAny
from tawa.hopper.dialect.sync import NamedBarrierSync
from tawa.ir.elementwise import Map
from tawa.simulate.interpret.hopper import run
from tawa.tile.analysis.zero import constant_of


@tawa.jit
def online(q_desc: Any, k_desc: Any, v_desc: Any, out_desc: Any, n: Any, BLOCK: tl.constexpr):
    """Weights of running maxima times values: e4m3 blocks of 96 are no warp group's product."""
    q = q_desc.load([0, 0])
    top = tl.full((128,), -1.0e30, tl.float32)
    total = tl.zeros((128,), tl.float32)
    acc = tl.zeros((128, 64), tl.float32)
    for block in range(0, n):
        scores = tl.dot(q, k_desc.load([block * BLOCK, 0]).T)
        block_top = tl.max(scores, axis=1)
        new_top = tl.where(block_top > top, block_top, top)
        factor = tl.exp2(top - new_top)
        p = tl.exp2(scores - new_top[:, None])
        total = total * factor + tl.sum(p, axis=1)
        v = v_desc.load([block * BLOCK, 0])
        acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None])
        top = new_top
    out_desc.store([0, 0], acc / total[:, None])


def divergent(module: Any) -> list[Operation]:
    """The barriers behind a warp's question."""
    asked = [op for op in module.walk() if isinstance(op, scf.IfOp)]
    behind = [op for op in asked if isinstance(op.cond.owner, VoteAny)]
    assert behind
    return [o for op in behind for o in op.walk() if isinstance(o, NamedBarrierSync)]


@pytest.mark.parametrize("block", [64, 96])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float16"])
def test_no_warp_waits_behind_a_question(block: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    type_ = np.dtype(getattr(ml_dtypes, dtype, dtype))
    k = (rng.standard_normal((3 * block, 64)) * np.linspace(0.1, 1, 3 * block)[:, None]).astype(
        type_
    )
    q, v = (rng.standard_normal((n, 64)).astype(type_) for n in (128, 3 * block))
    out = np.full((128, 64), np.nan, np.float32)
    describe = tawa.TensorDescriptor.from_tensor
    arrays = list(zip((q, k, v, out), (128, block, block, 128), strict=True))
    arguments = [describe(x, [n, 64]) for x, n in arrays]
    compiled = online.compile(*arguments, 3, BLOCK=block, consumers=2)
    module = compiled.module("hopper")
    assert not divergent(module)
    stored = [describe(x.view(np.uint8) if x.itemsize == 1 else x, [n, 64]) for x, n in arrays]
    run(module, (1,), [*stored, 3])
    scores = q.astype(float) @ k.astype(float).T
    p = np.exp2(scores - scores.max(1, keepdims=True))
    exact = p @ v.astype(float) / p.sum(1, keepdims=True)
    assert abs(out - exact).max() < (0.15 if type_.itemsize == 1 else 0.01)


@tawa.jit
def of_maxima(q_desc: Any, k_desc: Any, out, n: Any, KIND: tl.constexpr):
    """Sums of weights of running maxima, with a factor for what is there or without."""
    q = q_desc.load([0, 0])
    top = tl.full((128,), -1.0e30, tl.float32)
    total = tl.zeros((128,), tl.float32)
    for block in range(0, n):
        scores = tl.dot(q, k_desc.load([block * 64, 0]).T)
        if KIND == "scaled":
            scores = scores * 0.3 * 1.7
        new_top = tl.maximum(top, tl.max(scores, axis=1))
        if KIND != "none":
            total = total * tl.exp2(top - new_top) + tl.sum(tl.exp2(scores - new_top[:, None]), 1)
        top = new_top
    tl.store(out + tl.arange(0, 128), total + top)


@pytest.mark.parametrize(("kind", "factors"), [("none", 0), ("factors", 1), ("scaled", 1)])
def test_a_running_maximum_and_its_factors_are_behind_one_question(kind: str, factors: int) -> None:
    compiled = of_maxima.compile("desc<f16,128x64>", "desc<f16,64x64>", "*f32", "i32", kind)
    module = compiled.module("aref")
    module.verify()
    asked = [op for op in module.walk() if isinstance(op, AnyAbove)]
    assert asked
    for question in asked:
        assert len(question.scales) == (2 if kind == "scaled" else 0)
        (branch,) = (use.operation for use in question.results[0].uses)
        assert isinstance(branch, scf.IfOp)
        assert len(branch.results) == 1 + factors
        inside = [op.function.data for op in branch.true_region.walk() if isinstance(op, Map)]
        assert sum(name in ("exp", "exp2") for name in inside) == factors
        yielded = branch.false_region.block.last_op
        assert yielded is not None
        assert sum(constant_of(v) == 1 for v in yielded.operands) == factors
