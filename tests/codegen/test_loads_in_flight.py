"""Before a slot is given back, the threads that read it by ordinary loads fence them.

A load may still be in flight when its thread arrives at a barrier. On an H100 without the fence, in
2 of 100 launches of the first kernel below rows of a slot were read as the copy engine had filled
it again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp

import tawa
import tawa.language as tl
from tawa.hopper.dialect.sync import FenceProxyAsync, MbarrierExpect
from tawa.simulate import check, prove
from tawa.simulate.interpret.errors import MissingProxyFence


@tawa.jit
def product(a: Any, b: Any, c: Any, K):
    acc = tl.zeros((32, 32), tl.float32)
    for k in range(0, K, 32):
        acc = tl.dot(a.load([0, k]), b.load([k, 0]), acc)
    c.store([0, 0], acc.to(tl.float16))


@tawa.jit
def total(a: Any, b: Any, c: Any, K):
    acc = tl.zeros((32, 32), tl.float16)
    for k in range(0, K, 32):
        acc += a.load([0, k]) * b.load([k, 0])
    c.store([0, 0], acc)


def compiled(kernel: tawa.Kernel) -> tuple[ModuleOp, list[Any], FenceProxyAsync]:
    """A kernel's module, the arguments of a launch, and its only fence in a loop."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((32, 256), (256, 32)))
    c = np.zeros((32, 32), np.float16)
    types = ["desc<f16,32x32>"] * 3
    found = kernel.compile(*types, "i32", num_warps=8, num_stages=2, specialize=True)
    module = found.module("hopper")
    loops = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    (fence,) = [op for loop in loops for op in loop.body.ops if isinstance(op, FenceProxyAsync)]
    given = [tawa.TensorDescriptor.from_tensor(x, [32, 32]) for x in (a, b, c)]
    return module, [*given, 256], fence


@pytest.mark.parametrize("kernel", [product, total], ids=["matrix loads", "loads"])
def test_the_checker_misses_the_fence(kernel: tawa.Kernel) -> None:
    module, given, fence = compiled(kernel)
    check(module, (1, 1), given)
    assert prove(module).proved
    fence.detach()
    with pytest.raises(MissingProxyFence, match="may be in flight"):
        check(module, (1, 1), given)
    assert not prove(module).proved


def test_a_fence_of_the_thread_that_copies_does_not_wait_for_loads_of_others() -> None:
    module, given, fence = compiled(product)
    fence.detach()
    for op in [op for op in module.walk() if isinstance(op, MbarrierExpect)]:
        block = op.parent_block()
        assert block is not None
        block.insert_op_before(FenceProxyAsync(), op)
    with pytest.raises(MissingProxyFence, match="may be in flight"):
        check(module, (1, 1), given)
    assert not prove(module).proved
