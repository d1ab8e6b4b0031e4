"""How many slots rings get: what was asked for, what fits, and no more than hide a load."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType, UnitAttr, f16, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, Region

import tawa
import tawa.language as tl
from tawa.aref.analysis.slots import slot_bytes
from tawa.aref.dialect.ops import Create, GetEnter
from tawa.aref.passes.last_iteration_peeling import LEFT_OUT
from tawa.codegen.shared_memory import SharedMemoryExceeded
from tawa.driver.compiled import Compiled
from tawa.ir.decisions.loops import ProductsInFlight
from tawa.ir.decisions.memory import RingDepth
from tawa.kernels.gemm import gemm
from tawa.pipeline.depths import _lag, _passes_on  # pyright: ignore[reportPrivateUsage]
from tawa.simulate import run
from tawa.simulate.interpret.tile import HostDescriptor


def product(block: tuple[int, int] = (128, 128), **options: Any) -> Compiled:
    """A product of blocks."""
    return gemm.compile(
        f"desc<f16,{block[0]}x64>", f"desc<f16,{block[1]}x64>", f"desc<f16,{block[0]}x{block[1]}>",
        "i32:16", "i32:16", "i32:16",
        TRANSPOSE_A=False, TRANSPOSE_B=True, BLOCK_M=block[0], BLOCK_N=block[1], BLOCK_K=64,
        GROUP_M=8, ACCUMULATOR=tl.float32, **options,
    )  # fmt: skip


def depth(block: tuple[int, int] = (128, 128), **options: Any) -> RingDepth:
    """What was decided for the rings of a product."""
    (found,) = product(block, **options).decided(RingDepth)
    return found


@pytest.mark.parametrize("in_flight", [0, 1, 2, 3])
def test_products_in_flight_hold_slots(in_flight: int) -> None:
    module = product((128, 64), num_stages=6, mma_depth=in_flight).module("aref")
    rings = [op for op in module.walk() if isinstance(op, Create)]
    assert rings
    assert {_lag(ring) for ring in rings} == {in_flight}


@tawa.jit
def copied(a, b, c, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, ROLES: tl.constexpr):
    rows, columns, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, 64)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, K if K else k, 64):
        x = tl.load(a + rows[:, None] * k + (start + depth)[None, :])
        y = tl.load(b + (start + depth)[:, None] * N + columns[None, :])
        total = tl.dot(x * 2 if ROLES else x, y, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))


def rings(m: int, n: int, k: int = 0, scaled: bool = False, **options: Any) -> list[str]:
    """The slots of each ring of a product whose operands pointers address."""
    compiled = copied.compile(*["*f16:16"] * 3, "i32:16", m, n, k, scaled, **options)
    return [
        f"{op.ref.type.depth.data} of {slot_bytes(op.ref)}"
        for op in compiled.module("aref").walk()
        if isinstance(op, Create)
    ]


@pytest.mark.parametrize(
    ("block", "options", "found"),
    [
        ((128, 128), {}, (6, 32768, "most")),
        ((128, 128), {"num_stages": 2}, (2, 32768, "asked")),
        ((128, 256), {}, (4, 49152, "most")),
        ((64, 64), {}, (8, 16384, "most")),  # more would hide nothing
        ((64, 128), {"ctas_per_sm": 2}, (3, 24576, "most")),
    ],
)
def test_a_product_of_blocks(
    block: tuple[int, int], options: dict[str, Any], found: tuple[int, int, str]
) -> None:
    decided = depth(block, **options)
    assert (decided.slots, decided.slot_bytes, decided.chosen) == found


@pytest.mark.parametrize(
    ("sizes", "options", "found"),
    [
        ((128, 128), {}, ["7 of 32768"]),
        ((128, 128, 128), {}, ["2 of 32768"]),  # two iterations
        ((64, 64), {}, ["6 of 16384"]),  # two CTAs share a multiprocessor
        ((64, 64, 0, True), {}, ["5 of 8192", "5 of 8192"]),
        ((128, 128, 0, True), {}, ["4 of 16384"] * 3),
        ((16, 16), {}, ["8 of 4096"]),
        ((16, 64), {}, ["5 of 10240"]),  # four of them
        ((16, 16, 192), {}, ["3 of 4096"]),
        ((128, 128), {"specialize": False}, ["4 of 32768"]),  # run ahead, no more
        ((64, 64), {"specialize": False, "num_stages": 6}, ["6 of 16384"]),
    ],
)
def test_a_product_of_what_pointers_address(
    sizes: tuple[Any, ...], options: dict[str, Any], found: list[str]
) -> None:
    assert rings(*sizes, **options) == found


def returned(*, in_while: bool, left_out: bool, get: bool = True) -> Operation:
    """An op of a loop that takes and returns slots, which stands in a loop over tiles."""
    op: Operation = GetEnter(Create(2, [TensorType(f16, (64, 64))]).ref) if get else Made()
    bound = Made(result_types=[i32]).results[0]
    loop = scf.ForOp(bound, bound, bound, [], Block([op, scf.YieldOp()], arg_types=[i32]))
    if left_out:
        loop.attributes[LEFT_OUT] = UnitAttr()
    inner = Block([loop, scf.YieldOp()])
    if in_while:
        scf.WhileOp([], [], Region(Block()), Region(inner))
    else:
        Made(regions=[Region(inner)])
    return op


@pytest.mark.parametrize(
    ("of", "passes"),
    [
        ({"in_while": True, "left_out": True}, True), ({"in_while": False, "left_out": True}, False),
        ({"in_while": True, "left_out": False}, False),
        ({"in_while": True, "left_out": True, "get": False}, False),
    ],
)  # fmt: skip
def test_slots_that_are_left_out_before_the_next_tile(of: dict[str, bool], passes: bool) -> None:
    assert _passes_on(returned(**of)) is passes
    assert not _passes_on(GetEnter(Create(2, [TensorType(f16, (64, 64))]).ref))


@tawa.jit
def two_products(a, b, c, d, out, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Of f32, whose right operands are turned on their way: they take a ring more each."""
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        total = tl.dot(a.load([0, start]), b.load([start, 0]), total)
        total = tl.dot(c.load([0, start]), d.load([start, 0]), total)
    out.store([0, 0], total)


def of_two(m: int, n: int, k: int, **options: Any) -> Compiled:
    """The two products of blocks."""
    left, right = f"desc<f32,{m}x{k}>", f"desc<f32,{k}x{n}>"
    types = left, right, left, right, f"desc<f32,{m}x{n}>", "i32"
    return two_products.compile(*types, M=m, N=n, K=k, **options)


def test_products_whose_slots_do_not_fit_in_flight_are_waited_for() -> None:
    compiled = of_two(64, 128, 64)
    assert [d.iterations for d in compiled.decided(ProductsInFlight)] == [0]
    module = compiled.module("hopper")
    a, b, out = np.random.rand(64, 128), np.random.rand(128, 128), np.zeros((64, 128))
    x, y, z = (array.astype(np.float32) for array in (a, b, out))
    blocks = [HostDescriptor(array, array.shape, (128, 1)) for array in (x, y, x, y, z)]
    run(module, (1,), [*blocks, 128])
    np.testing.assert_allclose(z, 2 * (a @ b), rtol=2e-3)


def test_products_that_are_asked_for_in_flight_stay_there() -> None:
    with pytest.raises(SharedMemoryExceeded):
        of_two(64, 128, 64, mma_depth=1)
    assert [d.iterations for d in of_two(64, 64, 64).decided(ProductsInFlight)] == [1]


def test_blocks_that_do_not_fit_in_one_slot_are_refused() -> None:
    with pytest.raises(SharedMemoryExceeded):
        of_two(64, 128, 128)
