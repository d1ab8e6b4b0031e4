"""Triton's options are wishes, Tawa's own are demands."""

import pytest

import tawa
import tawa.language as tl
from tawa.codegen.lower import RegistersExceeded
from tawa.codegen.shared_memory import SharedMemoryExceeded
from tawa.ir.decisions.choice import WishLeftOpen
from tawa.triton.kernel import JITFunction


def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    c.store([0, 0], acc.to(tl.float16))


TYPES = "desc<f16,128x64>", "desc<f16,128x64>", "desc<f16,128x128>", "i32"


def test_stages_that_do_not_fit_are_a_demand_of_ours():
    with pytest.raises(SharedMemoryExceeded):
        tawa.jit(product).compile(*TYPES, M=128, N=128, num_stages=12)


def test_stages_that_do_not_fit_are_a_wish_of_tritons():
    found = JITFunction(product).compile(*TYPES, M=128, N=128, num_stages=12)
    (decision,) = [d for d in found.decisions if isinstance(d, WishLeftOpen)]
    assert str(decision) == "choice: num_stages=12 does not fit in shared memory: as many as fit"


def test_stages_that_fit_are_kept():
    found = JITFunction(product).compile(*TYPES, M=128, N=128, num_stages=3)
    assert not any(isinstance(d, WishLeftOpen) for d in found.decisions)
    assert "3 slots" in "\n".join(found.remarks)


def test_warps_that_do_not_hold_a_product_are_a_wish_of_tritons():
    tiles = "desc<f16,192x64>", "desc<f16,256x64>", "desc<f16,192x256>", "i32"
    sizes = {"M": 192, "N": 256}
    with pytest.raises(RegistersExceeded):
        tawa.jit(product).compile(*tiles, **sizes)
    found = JITFunction(product).compile(*tiles, **sizes)
    assert found.spec.threads == 256
    said = [str(d) for d in found.decisions if isinstance(d, WishLeftOpen)]
    assert said == [
        f"choice: num_warps=4 leaves products too few registers: {warps} warps, one role"
        for warps in (4, 8)
    ]
