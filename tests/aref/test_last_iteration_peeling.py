"""Warp groups that leave out the turns, and the masks, that their own rows do not need."""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportArgumentType=false, reportOperatorIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import scf

import tawa
import tawa.language as tl
from tawa.aref.passes.last_iteration_peeling import LEFT_OUT
from tawa.driver.compiled import Compiled
from tawa.frontend.source.errors import BadArgument
from tawa.ir.decisions.loops import (
    GroupsEndApart,
    GroupsEndTogether,
    LoopJoined,
    LoopNotJoined,
    OwnRowsMasked,
)
from tawa.ir.decisions.roles import LoadTogetherUnneeded
from tawa.simulate import check
from tawa.simulate.interpret.aref import run as run_aref
from tawa.simulate.interpret.hopper import run as run_hopper
from tawa.simulate.interpret.tile import RowEndsBroken

ROWS, D = 128, 64


@tawa.jit
def below(
    q_desc: Any, k_desc: Any, v_desc: Any, o_desc: Any, skew: Any,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, EVERY: tl.constexpr,
):  # fmt: skip
    """The products of scores on and below a diagonal with values."""
    start_m = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1)
    last = (start_m + tl.arange(0, BLOCK_M)) // EVERY + skew
    q = q_desc.load([head, start_m, 0]).reshape(BLOCK_M, 64)
    acc = tl.zeros((BLOCK_M, 64), tl.float32)
    blocks = max(tl.cdiv((start_m + BLOCK_M - 1) // EVERY + skew + 1, BLOCK_N), 1)
    for block in tl.range(0, blocks, row_ends=tl.cdiv(last + 1, BLOCK_N)):
        columns = block * BLOCK_N + tl.arange(0, BLOCK_N)
        k = k_desc.load([head, block * BLOCK_N, 0]).reshape(BLOCK_N, 64)
        scores = tl.dot(q, k.T)
        if (block + 1) * BLOCK_N > start_m // EVERY + skew:
            scores = tl.where(columns[None, :] <= last[:, None], scores, 0.0)
        v = v_desc.load([head, block * BLOCK_N, 0]).reshape(BLOCK_N, 64)
        acc = tl.dot(scores.to(v.dtype), v, acc)
    o_desc.store([head, start_m, 0], acc.to(o_desc.dtype).reshape(1, BLOCK_M, 64))


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "in turns": {"alternate": True},
    "from tile to tile": {"persistent": True},
    "from tile to tile, in turns": {"persistent": True, "alternate": True},
    "in order": {"overlap": False},
    "at once": {"load_together": True},
    "at once, from tile to tile": {"load_together": True, "persistent": True},
}


def compiled(block_m: int = 128, every: int = 1, **options: Any) -> Compiled:
    rows = f"desc<f16,1x{block_m}x{D}>"
    keys = f"desc<f16,1x32x{D}>"
    return below.compile(rows, keys, keys, rows, "i32", block_m, 32, every, **options)


def launched(heads: int, block_m: int = 128) -> tuple[list[Any], np.ndarray]:
    """Arguments of a launch, and what it should give."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((heads, 2 * ROWS, D)).astype(np.float16) for _ in range(3))
    out = np.full_like(q, np.nan)
    boxes = ((1, block_m, D), (1, 32, D), (1, 32, D), (1, block_m, D))
    arrays = (q, k, v, out)
    descriptors = [tawa.TensorDescriptor.from_tensor(a, list(b)) for a, b in zip(arrays, boxes)]  # noqa: B905
    scores = np.tril(np.einsum("hmd,hnd->hmn", q, k, dtype=np.float32))
    exact = np.einsum("hmn,hnd->hmd", scores.astype(np.float16), v, dtype=np.float32)
    return [*descriptors, 0], exact


@pytest.mark.parametrize("name", OPTIONS)
def test_groups_leave_after_their_own_last_turn(name: str) -> None:
    kernel = compiled(**OPTIONS[name])
    assert kernel.decided(GroupsEndApart)
    assert kernel.decided(OwnRowsMasked)
    heads = 3 if "persistent" in OPTIONS[name] else 1
    for run, level in ((run_aref, "aref"), (run_hopper, "hopper")):
        values, exact = launched(heads)
        run(kernel.module(level), (2, heads, 1), values, multiprocessors=2)
        off = np.linalg.norm(values[3].base.astype(np.float32) - exact)
        assert off < 1e-3 * np.linalg.norm(exact)


def test_one_role_says_that_it_loads_nothing_together() -> None:
    assert compiled(specialize=False, load_together=True).decided(LoadTogetherUnneeded)
    assert not compiled(load_together=True).decided(LoadTogetherUnneeded)


def test_a_tile_ends_before_the_next_begins_if_its_slots_are_few() -> None:
    """A slot in use, one that is left out, and the next tile's first make three."""
    options: dict[str, Any] = {"load_together": True, "persistent": True, "schedule": 1}
    kernel = compiled(**options, num_stages=2)
    (apart,) = kernel.decided(LoopNotJoined)
    assert "2 slots of a ring leave none for the next tile" in apart.why
    assert compiled(**options).decided(LoopJoined)
    values, exact = launched(3)
    run_hopper(kernel.module("hopper"), (2, 3, 1), values, multiprocessors=2)
    off = np.linalg.norm(values[3].base.astype(np.float32) - exact)
    assert off < 1e-3 * np.linalg.norm(exact)


@pytest.mark.parametrize("name", ["plain", "in turns", "at once"])
def test_all_orders_are_right(name: str) -> None:
    kernel = compiled(**OPTIONS[name])
    values, _ = launched(1)
    check(kernel.module("hopper"), (1, 1, 1), values)


def test_a_group_makes_fewer_turns() -> None:
    """Of 128 rows and blocks of 32 columns the first 64 rows need two turns, the others four."""
    module = compiled(overlap=False).module("aref")
    loops = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    returning = [loop for loop in loops if LEFT_OUT in loop.attributes]
    assert len(returning) == 2  # of keys and of values
    assert all(loop.lb.name_hint == "own_end" for loop in returning)


def test_rows_that_do_not_grow_are_left_alone() -> None:
    """Ends that fall with the row say nothing at the last one."""

    @tawa.jit
    def above(a_desc: Any, b_desc: Any, o_desc: Any, N: Any, BLOCK: tl.constexpr):
        rows = tl.arange(0, BLOCK)
        acc = tl.zeros((BLOCK, 64), tl.float32)
        for i in tl.range(0, N, row_ends=N - rows):
            a = tl.where((i < N - rows)[:, None], a_desc.load([0, i * 64]), 0.0)
            acc = tl.dot(a, b_desc.load([i * 64, 0]), acc)
        o_desc.store([0, 0], acc.to(tl.float16))

    tile = "desc<f16,{}x64>".format
    found = above.compile(tile(128), tile(64), tile(128), "i32", 128)
    assert found.decided(GroupsEndTogether)


def test_a_loop_that_counts_makes_all_turns() -> None:
    """A number that it carries besides rows would be another one in each group."""

    @tawa.jit
    def counted(a_desc: Any, b_desc: Any, o_desc: Any, turns: Any, N: Any, BLOCK: tl.constexpr):
        rows = tl.arange(0, BLOCK)
        acc = tl.zeros((BLOCK, 64), tl.float32)
        done = 0
        for i in tl.range(0, N, row_ends=rows):
            acc = tl.dot(a_desc.load([0, i * 64]), b_desc.load([i * 64, 0]), acc)
            done += i
        o_desc.store([0, 0], acc.to(tl.float16))
        tl.store(turns, done)

    tile = "desc<f16,{}x64>".format
    found = counted.compile(tile(128), tile(64), tile(128), "*i32", "i32", 128)
    assert [d.why for d in found.decided(GroupsEndTogether)] == [
        "it carries more than rows of products"
    ]


def test_one_group_has_nothing_to_leave_out() -> None:
    assert not any(d.by == "last-iteration-peeling" for d in compiled(64).decisions)


def test_a_broken_promise_is_found() -> None:
    @tawa.jit
    def sums(x: Any, out: Any, N: tl.constexpr):
        rows = tl.arange(0, N)
        total = tl.zeros((N,), tl.float32)
        for i in tl.range(0, N, row_ends=rows):
            total += tl.where(i <= rows, tl.load(x + i), 0.0)
        tl.store(out + rows, total)

    with pytest.raises(RowEndsBroken, match="iteration 0 of the loop changes row 0"):
        sums[(1,)](np.ones(16, np.float32), np.zeros(16, np.float32), 16)


@pytest.mark.parametrize(
    ("ends", "step"), [("3", "1"), ("rows.to(tl.float32)", "1"), ("rows", "-1")]
)
def test_what_ends_of_rows_are(ends: str, step: str) -> None:
    source = f"""
def kernel(out, N: tl.constexpr):
    rows = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for i in tl.range(0, N, {step}, row_ends={ends}):
        total += 1.0
    tl.store(out + rows, total)
"""
    with pytest.raises(BadArgument, match="row_ends"):
        from_text(source).compile("*f32", 16)


def from_text(source: str) -> Any:
    """A kernel whose source is a text."""
    import linecache

    name = "<row ends>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict[str, Any] = {"tl": tl}
    exec(compile(source, name, "exec"), scope)
    return tawa.jit(scope["kernel"])
