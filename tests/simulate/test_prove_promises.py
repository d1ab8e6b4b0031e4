"""What a user promises of arguments: proofs are about the launches that keep it."""

from __future__ import annotations

import tawa
import tawa.language as tl
from tawa.ir.kernels import AT_LEAST
from tawa.simulate import prove


@tawa.jit
def products(x, y, o, n):
    """The last tile of an iteration is given back after the loop: there has to be one."""
    tl.assume(n > 0)
    row = tl.program_id(0)
    rows = tl.make_tensor_descriptor(x, [4096, 64], [64, 1], [64, 64])
    others = tl.make_tensor_descriptor(y, [4096, 64], [64, 1], [64, 64])
    out = tl.make_tensor_descriptor(o, [4096, 64], [64, 1], [64, 64])
    q = rows.load([row * 64, 0])
    total = tl.zeros((64, 64), tl.float32)
    for i in range(n):
        k = others.load([i * 64, 0])
        total = tl.dot(tl.dot(q, tl.trans(k)).to(tl.float16), k, total)
    out.store([row * 64, 0], total.to(tl.float16))


def test_a_loop_that_runs_is_proved():
    made = products.compile("*f16:16", "*f16:16", "*f16:16", "i32", persistent=True)
    module = made.module("hopper")
    proof = prove(module)
    assert proof.proved, proof.why
    (kernel,) = [op for op in module.walk() if AT_LEAST in op.attributes]
    del kernel.attributes[AT_LEAST]
    proof = prove(module)
    assert "waits for ever" in proof.why
