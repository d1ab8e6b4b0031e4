"""Unrolled loops: their tiles share slots where shared memory holds no slot for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulation import Arrays, check, values

import tawa
import tawa.language as tl
from tawa.codegen.shared_memory import SharedMemoryExceeded
from tawa.driver.compiled import Compiled
from tawa.ir.decisions.choice import RolesLeftOut
from tawa.ir.decisions.memory import SlotsShared
from tawa.simulate import prove

ROWS, DEPTH, COUNT = 128, 64, 8


def shared(compiled: Compiled) -> list[int]:
    return [decision.tiles for decision in compiled.decided(SlotsShared)]


@tawa.jit
def products(a, b, c, n, N: tl.constexpr, R: tl.constexpr, K: tl.constexpr, INSIDE: tl.constexpr):
    """A @ B.T by an unrolled loop, or by several turns of one."""
    acc = tl.zeros((R, R), tl.float32)
    if INSIDE:
        for turn in range(n):
            for i in tl.static_range(N):
                k = (turn * N + i) * K
                acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    else:
        for i in tl.static_range(N):
            acc = tl.dot(a.load([0, i * K]), b.load([0, i * K]).T, acc)
    c.store([0, 0], acc.to(tl.float16))


def described(array: Any, *block: int) -> tawa.TensorDescriptor:
    return tawa.TensorDescriptor.from_tensor(array, list(block))


@pytest.mark.parametrize("options", [{}, {"specialize": False}, {"num_warps": 8}], ids=str)
@pytest.mark.parametrize("turns", [0, 1, 3])
def test_products(turns: int, options: dict[str, Any]) -> None:
    arrays, k = Arrays(), DEPTH * COUNT * max(1, turns)
    a, b = arrays.random("f16", ROWS, k), arrays.random("f16", ROWS, k)
    c = arrays.output("f16", ROWS, ROWS)
    found = check(
        products, (1,),
        [described(a, ROWS, DEPTH), described(b, ROWS, DEPTH), described(c, ROWS, ROWS), turns],
        {2: values(a) @ values(b).T}, 2e-3, ("tile", "hopper", "ptx"), N=COUNT, R=ROWS, K=DEPTH,
        INSIDE=turns > 0, **options,
    )  # fmt: skip
    assert shared(found) == [COUNT]
    proof = prove(found.module("hopper"), 60)
    assert proof.proved, proof.why


@tawa.jit
def sums(a, c, N: tl.constexpr, R: tl.constexpr):
    total = tl.zeros((R, R), tl.float32)
    for i in tl.static_range(N):
        total += a.load([0, i * R]).to(tl.float32) * (i + 1)
    c.store([0, 0], total.to(tl.float16))


@pytest.mark.parametrize("specialize", [True, False])
def test_sums(specialize: bool) -> None:
    arrays = Arrays()
    a, c = arrays.random("f16", ROWS, ROWS * COUNT), arrays.output("f16", ROWS, ROWS)
    parts = values(a).reshape(ROWS, COUNT, ROWS)
    found = check(sums, (1,), [described(a, ROWS, ROWS), described(c, ROWS, ROWS)],
                  {1: np.einsum("rkc,k->rc", parts, np.arange(1, COUNT + 1))}, 2e-3,
                  N=COUNT, R=ROWS, specialize=specialize)  # fmt: skip
    assert shared(found) == [COUNT]


@tawa.jit
def gathered(p, c, N: tl.constexpr, R: tl.constexpr):
    """Operands that threads copy to shared memory."""
    r = tl.arange(0, R)
    acc = tl.zeros((R, R), tl.float32)
    for i in tl.static_range(N):
        x = tl.load(p + r[:, None] * (R * N) + (r[None, :] + i * R))
        acc = tl.dot(x, x.T, acc)
    tl.store(c + r[:, None] * R + r[None, :], acc)


def test_copies_of_threads_take_turns() -> None:
    arrays = Arrays()
    p, c = arrays.random("f16", ROWS, ROWS * COUNT), arrays.output("f32", ROWS, ROWS)
    found = check(gathered, (1,), [p, c], {1: values(p) @ values(p).T}, 1e-4, N=COUNT, R=ROWS,
                  num_warps=8, bulk_copies=False)  # fmt: skip
    assert found.spec.shared_bytes < 4 * ROWS * ROWS * 2


@tawa.jit
def held(a, b, c, n, N: tl.constexpr, R: tl.constexpr, K: tl.constexpr, EARLY: tl.constexpr):
    """Each tile of `a` is held while a loop takes tiles of `b`."""
    total = tl.zeros((R, K), tl.float32)
    following = a.load([0, 0])
    for i in tl.static_range(N):
        x = following if EARLY else a.load([0, i * K])
        if EARLY:
            following = a.load([0, (i + 1) % N * K])
        for j in range(n):
            total += x.to(tl.float32) * b.load([0, j * K]).to(tl.float32) * (i + 1)
    c.store([0, 0], total.to(tl.float16))


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("turns", [0, 1, 4])
def test_tiles_that_loops_hold(turns: int, early: bool) -> None:
    arrays, count = Arrays(), 12
    a = arrays.random("f16", ROWS, DEPTH * 2 * count)
    b = arrays.random("f16", ROWS, DEPTH * 2 * max(1, turns))
    c = arrays.output("f16", ROWS, DEPTH * 2)
    parts = values(a).reshape(ROWS, count, -1)
    factor = values(b).reshape(ROWS, -1, DEPTH * 2).sum(1) * (turns > 0)
    expected = np.einsum("rkc,k->rc", parts, np.arange(1, count + 1)) * factor
    block = ROWS, DEPTH * 2
    check(held, (1,), [described(a, *block), described(b, *block), described(c, *block), turns],
          {2: expected}, 5e-3, N=count, R=ROWS, K=DEPTH * 2, EARLY=early)  # fmt: skip


@tawa.jit
def attention(q, k, v, out, N: tl.constexpr, R: tl.constexpr, D: tl.constexpr):
    x = q.load([0, 0])
    acc, total = tl.zeros((R, D), tl.float32), tl.zeros((R,), tl.float32)
    top = tl.full((R,), -1e30, tl.float32)
    for i in tl.static_range(N):
        s = tl.dot(x, k.load([i * R, 0]).T)
        new = tl.maximum(top, tl.max(s, 1))
        p, old = tl.exp(s - new[:, None]), tl.exp(top - new)
        total = total * old + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v.load([i * R, 0]), acc * old[:, None])
        top = new
    out.store([0, 0], (acc / total[:, None]).to(tl.float16))


def test_one_role_holds_less() -> None:
    arrays = Arrays()
    q = arrays.random("f16", ROWS, ROWS)
    k, v = arrays.random("f16", ROWS * COUNT, ROWS), arrays.random("f16", ROWS * COUNT, ROWS)
    out = arrays.output("f16", ROWS, ROWS)
    weights = np.exp(values(q) @ values(k).T)
    block = ROWS, ROWS
    found = check(
        attention, (1,), [described(x, *block) for x in (q, k, v, out)],
        {3: weights @ values(v) / weights.sum(1, keepdims=True)}, 5e-3, N=COUNT, R=ROWS, D=ROWS,
    )  # fmt: skip
    assert found.decided(RolesLeftOut)
    assert shared(found)
    proof = prove(found.module("hopper"), 60)
    assert proof.proved, proof.why
    with pytest.raises(SharedMemoryExceeded):
        attention.compile(*[f"desc<f16,{ROWS}x{ROWS}>"] * 4, N=COUNT, R=ROWS, D=ROWS,
                          specialize=True)  # fmt: skip
