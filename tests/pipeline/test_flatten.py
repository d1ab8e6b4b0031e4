"""Pipelines that run on from tile to tile, skipped work and carried parts of sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import scf

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import Create, LoadInto, RefType, WarpGroup
from tawa.hopper.dialect.fragment import VoteAny
from tawa.hopper.dialect.matrix import PackOperand, RoundOperand
from tawa.hopper.dialect.structure import Role
from tawa.ir.decisions.loops import LoopJoined, LoopNotJoined
from tawa.machine.chips import H100
from tawa.simulate.interpret.aref import run as run_aref
from tawa.simulate.interpret.hopper import run as run_hopper

LOG2_E = 1.4426950408889634


@tawa.jit
def attention(
    q_desc: Any, k_desc: Any, v_desc: Any, o_desc: Any, scale: Any, slack: Any, KEYS: Any,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, ASSUME: tl.constexpr, BOUND: tl.constexpr,
):  # fmt: skip
    """Attention of one head; maxima that grow by less than `slack` are left as they are.

    With BOUND the factor of what is there has a bound, and is one unless the maximum has grown.
    """
    if ASSUME:
        tl.assume(KEYS > 0)
    start_m = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1)
    q = q_desc.load([head, start_m, 0]).reshape(BLOCK_M, 64)
    top = tl.full((BLOCK_M,), -1.0e30, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, 64), tl.float32)
    for start_n in range(0, KEYS, BLOCK_N):
        k = k_desc.load([head, start_n, 0]).reshape(BLOCK_N, 64)
        scores = tl.dot(q, k.T)
        largest = tl.max(scores, axis=1)
        grown = largest > top + slack
        new_top = tl.where(grown, largest, top)
        correction = tl.exp2((top - new_top) * scale)
        if BOUND:
            correction = tl.where(grown, tl.minimum(correction, 1.0), 1.0)
        p = tl.exp2((scores - new_top[:, None]) * scale)
        total = total * correction + tl.sum(p, axis=1)
        v = v_desc.load([head, start_n, 0]).reshape(BLOCK_N, 64)
        acc = tl.dot(p.to(v.dtype), v, acc * correction[:, None])
        top = new_top
    out = (acc / total[:, None]).to(o_desc.dtype)
    o_desc.store([head, start_m, 0], out.reshape(1, BLOCK_M, 64))


def compiled(*, assume: bool = True, bound: bool = False, **options: Any) -> Any:
    """The kernel for 128 rows and blocks of 64 keys."""
    tiles = [f"desc<f16,1x{n}x64>" for n in (128, 64, 64, 128)]
    return attention.compile(*tiles, "f32", "f32", "i32", 128, 64, assume, bound, **options)


def check(
    kernel: Any,
    shape: tuple[int, int, int],
    *,
    growing: bool = False,
    multiprocessors: int = 2,
    levels: tuple[str, ...] = ("hopper", "aref"),
) -> None:
    """Run (heads, rows, keys) at the levels below and compare with float64."""
    heads, rows, keys = shape
    random = np.random.default_rng(0)
    q = random.standard_normal((heads, rows, 64)).astype(np.float16)
    k, v = (random.standard_normal((heads, keys, 64)).astype(np.float16) for _ in range(2))
    if growing:
        k *= np.linspace(0.1, 4, keys)[:, None].astype(np.float16)
    exact = q.astype(float) @ k.astype(float).swapaxes(1, 2) / 8
    exact = np.exp(exact - exact.max(-1, keepdims=True))
    exact = exact / exact.sum(-1, keepdims=True) @ v.astype(float)
    out = np.empty(q.shape, np.float16)
    describe = tawa.TensorDescriptor.from_tensor
    blocks = zip((q, k, v, out), (128, 64, 64, 128), strict=True)
    arrays = [describe(x, [1, n, 64]) for x, n in blocks]
    scale = LOG2_E / 8
    grid = (-(-rows // 128), heads)
    for level in levels:
        out[:] = np.nan
        run = run_hopper if level == "hopper" else run_aref
        run(kernel.module(level), grid, [*arrays, scale, 8 / scale, keys],
            multiprocessors=multiprocessors)  # fmt: skip
        np.testing.assert_allclose(out, exact, rtol=1e-2, atol=4e-3)


@pytest.fixture(scope="module")
def joined() -> Any:
    found = compiled(persistent=True)
    assert found.decided(LoopJoined)
    assert not found.findings
    return found


@pytest.mark.parametrize("keys", [64, 128, 192])
def test_joined_tiles(joined: Any, keys: int):
    """One, two and three turns a tile; CTAs with three tiles and with two."""
    check(joined, (1, 640, keys))


def test_one_tile_for_each_cta(joined: Any):
    check(joined, (2, 128, 128), levels=("hopper",))


def test_two_ctas_share_a_multiprocessor():
    """Each is compiled for half of the registers and of the shared memory, and takes its own tiles."""
    two = compiled(persistent=True, consumers=1, ctas_per_sm=2)
    source, spec = str(two.stages["cu"]), two.spec
    assert "__launch_bounds__(256, 2)" in source
    assert spec.ctas_per_sm == 2
    assert H100.ctas_with(spec.shared_bytes) >= 2
    (role,) = [r for r in two.module("hopper").walk() if isinstance(r, Role) and not r.single]
    assert role.registers is not None
    assert role.registers.value.data == 232
    check(two, (2, 640, 128), levels=("hopper",), multiprocessors=1)


def test_the_next_tile_is_placed_a_tile_ahead(joined: Any):
    """Between two tiles no quotient comes before the products that it would hold up."""
    (loop,) = [op for op in joined.module("aref").walk() if isinstance(op, scf.WhileOp)]
    names = [getattr(getattr(op, "function", op), "data", op.name)
             for op in loop.after_region.block.ops]  # fmt: skip
    issued = [i for i, name in enumerate(names) if name == "aref.dot_issue"]
    divided = [i for i, name in enumerate(names) if name == "quotient"]
    assert divided
    assert min(divided) > max(issued)


def test_the_next_tile_s_own_loads_come_while_this_one_is_under_way(joined: Any):
    """The first tile's before the loop over tiles, others' in the first turn of the one before."""
    (role,) = [
        op
        for op in joined.module("aref").walk()
        if isinstance(op, WarpGroup) and op.single is not None
    ]
    found: list[tuple[str | None, list[str]]] = []
    for op in [op for op in role.walk() if isinstance(op, LoadInto)]:
        around = [op.parent_op()]
        while around[-1] is not role and around[-1] is not None:
            around.append(around[-1].parent_op())
        found.append((op.desc.name_hint, [parent.name for parent in around[:-1] if parent]))
    both = ["scf.for", "scf.for"]
    assert found == [("q_desc", ["scf.if"]), ("k_desc", both), ("v_desc", both),
                     ("q_desc", ["scf.if", *both])]  # fmt: skip


def test_words_of_an_operand_are_carried(joined: Any):
    """Weights of a turn are packed once they are computed, not where their product is issued."""
    ops = list(joined.module("hopper").walk())
    assert not any(isinstance(op, PackOperand) for op in ops)
    assert any(isinstance(op, RoundOperand) for op in ops)


def test_one_question_a_turn(joined: Any):
    """What is chosen by the comparison that a warp is asked about needs no question of its own."""
    kernel = compiled(persistent=True, bound=True)
    votes = [
        sum(isinstance(op, VoteAny) for op in found.module("hopper").walk())
        for found in (joined, kernel)
    ]
    assert votes[0] == 2 * votes[1]
    check(kernel, (1, 640, 192))
    check(kernel, (1, 256, 256), growing=True)


def test_growing_maxima(joined: Any):
    """The rescaling that is mostly skipped happens where it must."""
    check(joined, (1, 256, 256), growing=True)


def test_programs_dealt_in_pairs():
    kernel = compiled(persistent=True, deal=2)
    check(kernel, (3, 384, 128), multiprocessors=2)
    check(kernel, (1, 384, 64), multiprocessors=4, levels=("hopper",))


def test_programs_planned_by_their_work():
    kernel = compiled(persistent=True, deal="even")
    assert kernel.decided(LoopJoined)
    check(kernel, (3, 384, 128), multiprocessors=2)
    check(kernel, (1, 384, 64), multiprocessors=4, levels=("hopper",))


def test_what_a_tile_loads_once_may_have_one_slot():
    """The loop's rings take the memory: the slot is returned before the next tile waits for it."""
    kernel = compiled(persistent=True, num_stages=12)
    assert kernel.decided(LoopJoined)
    loads = [op.ref for op in kernel.module("aref").walk() if isinstance(op, Create)]
    depths = sorted(ref.type.depth.data for ref in loads if isinstance(ref.type, RefType))
    assert depths[0] == 1
    assert set(depths[1:]) == {12}
    check(kernel, (1, 640, 192))


def test_a_loop_that_may_not_run_is_not_joined():
    kernel = compiled(assume=False, persistent=True)
    assert all("it may not run at all" in d.why for d in kernel.decided(LoopNotJoined))
    assert kernel.decided(LoopNotJoined)
    check(kernel, (1, 256, 128), levels=("hopper",))


def test_a_plain_grid_has_nothing_to_join():
    assert not compiled().decided(LoopJoined)


def test_skipped_work_and_parts_of_sums_are_in_the_ir(joined: Any):
    text = joined.stages["aref"]
    for op in ("aref.any_above", "aref.any ", "aref.lane_partials"):
        assert op in text, op


@tawa.jit
def tile_and_loop(a_desc: Any, b_desc: Any, o_desc: Any, KEYS: Any, TWICE: tl.constexpr):
    """Two products a turn; with TWICE, the tile reads the loop's tensor once more after it."""
    tl.assume(KEYS > 0)
    start = tl.program_id(0) * 128
    a = a_desc.load([start, 0])
    acc = tl.zeros((128, 64), tl.float32)
    for key in range(0, KEYS, 64):
        weights = tl.exp2(tl.dot(a, b_desc.load([key, 0]).T))
        acc = tl.dot(weights.to(a.dtype), b_desc.load([key, 0]), acc)
    if TWICE:
        for key in range(0, KEYS, 64):
            acc += tl.sum(b_desc.load([key, 0]).to(tl.float32), axis=0)[None, :]
    o_desc.store([start, 0], acc.to(o_desc.dtype))


@pytest.mark.parametrize("twice", [False, True])
def test_a_ring_is_read_in_the_order_it_is_filled(twice: bool):
    """A loop after the pipelined one may share its ring: then tiles are not joined."""
    tiles = [f"desc<f16,{n}x64>" for n in (128, 64, 128)]
    kernel = tile_and_loop.compile(*tiles, "i32", twice, persistent=True)
    random = np.random.default_rng(0)
    a, b = ((random.standard_normal((n, 64)) / 8).astype(np.float16) for n in (384, 192))
    out = np.full(a.shape, np.nan, np.float16)
    describe = tawa.TensorDescriptor.from_tensor
    arrays = [describe(x, [n, 64]) for x, n in zip((a, b, out), (128, 64, 128), strict=True)]
    run_hopper(kernel.module("hopper"), (3,), [*arrays, 192], multiprocessors=2)
    a, b = a.astype(float), b.astype(float)
    exact = np.exp2(a @ b.T) @ b + twice * b.sum(0)
    np.testing.assert_allclose(out, exact, rtol=1e-2, atol=2e-2)


def test_deal_needs_a_persistent_kernel():
    with pytest.raises(tawa.TawaError, match="dealt to the CTAs"):
        compiled(deal=2)
