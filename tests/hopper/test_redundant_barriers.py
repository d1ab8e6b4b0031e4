"""Warps that multiply by themselves meet as often as they have to, and no more often."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plain_products import gemm
from simulation import Arrays, Recorded, Stored, values
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

import tawa
import tawa.language as tl
from tawa.hopper.dialect.structure import Role
from tawa.hopper.dialect.sync import CtaSync, NamedBarrierSync
from tawa.hopper.passes.redundant_barriers import _Role  # pyright: ignore[reportPrivateUsage]
from tawa.ir.decisions.memory import BarriersLeftOut
from tawa.simulate.check.protocol import check
from tawa.simulate.interpret import errors
from tawa.simulate.interpret.hopper import run


@tawa.jit
def latent_attention(
    q, kv, o, n, H: tl.constexpr, C: tl.constexpr, R: tl.constexpr, BN: tl.constexpr
):
    """Keys are a latent and a rotary part; values are the latent."""
    h, c, r = tl.arange(0, H), tl.arange(0, C), C + tl.arange(0, R)
    qc = tl.load(q + h[:, None] * (C + R) + c[None, :])
    qr = tl.load(q + h[:, None] * (C + R) + r[None, :])
    top = tl.zeros([H], tl.float32) - float("inf")
    total = tl.zeros([H], tl.float32)
    acc = tl.zeros([H, C], tl.float32)
    for s0 in range(0, n, BN):
        t = s0 + tl.arange(0, BN)
        kc = tl.load(kv + t[None, :] * (C + R) + c[:, None], mask=t[None, :] < n, other=0.0)
        kr = tl.load(kv + t[None, :] * (C + R) + r[:, None], mask=t[None, :] < n, other=0.0)
        s = tl.where(t[None, :] < n, tl.dot(qc, kc) + tl.dot(qr, kr), float("-inf"))
        new = tl.maximum(tl.max(s, 1), top)
        scale = tl.exp(top - new)
        p = tl.exp(s - new[:, None])
        acc = acc * scale[:, None] + tl.dot(p.to(kc.dtype), tl.trans(kc))
        total = total * scale + tl.sum(p, 1)
        top = new
    tl.store(o + h[:, None] * C + c[None, :], acc / total[:, None])


CONSTANTS = {"H": 16, "C": 64, "R": 32, "BN": 32}


def launch(**options: Any) -> tuple[Recorded, np.ndarray]:
    """Attention to 70 keys, and what it gives."""
    arrays = Arrays()
    q, kv = arrays.random("bf16", 16, 96), arrays.random("bf16", 70, 96)
    s = np.exp(values(q) @ values(kv).T)
    expected = s @ values(kv)[:, :64] / s.sum(1, keepdims=True)
    arguments = (q, kv, arrays.output("f32", 16, 64), 70)
    return Recorded(latent_attention, (1,), arguments, {**CONSTANTS, **options}), expected


def meetings(module: ModuleOp) -> list[Operation]:
    """The meetings of the computing role in its last loop; one before it may start copies."""
    role = next(op for op in module.walk() if isinstance(op, Role) and op.gives is None)
    *_, loop = (op for op in role.walk() if isinstance(op, scf.ForOp))
    return [op for op in loop.walk() if isinstance(op, NamedBarrierSync | CtaSync)]


def simulate(made: Recorded, module: ModuleOp) -> np.ndarray:
    compiled = made.compile()
    plain = [v.view(np.ndarray) if isinstance(v, Stored) else v for v in made.values(compiled)]
    run(module, made.grid, plain)
    return plain[2]


WAYS = {"with a loading role": ({}, 3, 3), "eight warps": ({"num_warps": 8}, 3, 3),
        "one role": ({"specialize": False, "num_stages": 1}, 5, 4),
        "one role, copies ahead": ({"specialize": False}, 4, 3)}  # fmt: skip
"""Options, meetings in the loop, and how many of them order what several warps do.

In one role, each warp multiplies by the rotary parts of the keys that it has stored itself.
"""


@pytest.mark.parametrize("way", WAYS)
def test_meetings_that_are_left_order_something(way: str) -> None:
    """What is computed is right, and the simulator finds a race without a meeting."""
    options, count, needed = WAYS[way]
    made, expected = launch(**options)
    module = made.compile().module("hopper")
    np.testing.assert_allclose(simulate(made, module), expected, rtol=2e-2, atol=2e-2)
    assert len(meetings(module)) == count
    caught = 0
    for number in range(count):
        broken = module.clone()
        meeting = meetings(broken)[number]
        meeting.detach()
        meeting.erase()
        try:
            simulate(made, broken)
        except errors.ReadBeforeFull:
            caught += 1
    assert caught == needed


def test_a_slot_goes_back_at_a_meeting_that_is_there_anyway() -> None:
    made, _ = launch()
    (found,) = made.compile().decided(BarriersLeftOut)
    assert (found.count, found.role) == (5, "math")


@pytest.mark.parametrize(("slots", "warps"), [(1, 4), (2, 8)])
def test_slots_that_go_back_late_are_proved_safe(slots: int, warps: int) -> None:
    """All interleavings of two roles that reuse every slot, with returns at later meetings."""
    made, _ = launch(num_stages=slots, num_warps=warps)
    compiled = made.compile()
    plain = [v.view(np.ndarray) if isinstance(v, Stored) else v for v in made.values(compiled)]
    report = check(compiled.module("hopper"), made.grid, plain)
    assert not report.cut
    assert report.ordered
    assert {"kc_empty", "kr_empty"} <= report.awaited


@tawa.jit
def recurrence(w, k, v, gates, out, T, D: tl.constexpr, C: tl.constexpr):
    """A gated delta rule of one head: two products, and three copies for them, a chunk."""
    i, d = tl.arange(0, C), tl.arange(0, D)
    at = i[:, None] * D + d[None, :]
    state = tl.zeros((D, D), tl.float32)
    for start in range(0, T, C):
        tl.store(out + start * D + at, state.to(tl.float16))
        x, y = tl.load(w + start * D + at), tl.load(k + start * D + at)
        u = tl.load(v + start * D + at) - tl.dot(x, state.to(tl.float16))
        last, gate = tl.load(gates + start + C - 1), tl.load(gates + start + i)
        u = (u * tl.exp2(last - gate)[:, None]).to(tl.float16)
        state = tl.dot(y.T, u, state * tl.exp2(last))


def chunked(T: int) -> tuple[Recorded, np.ndarray]:
    arrays = Arrays()
    w, k, v = (arrays.random("f16", T, 64) for _ in range(3))
    gates = arrays.random("f32", T)
    state, expected = np.zeros((64, 64)), np.zeros((T, 64))
    for start in range(0, T, 64):
        rows = slice(start, start + 64)
        x, y, u, g = (values(a)[rows].astype(np.float64) for a in (w, k, v, gates))
        expected[rows] = state
        u = (u - x @ state) * np.exp2(g[-1] - g)[:, None]
        state = state * np.exp2(g[-1]) + y.T @ u
    arguments = (w, k, v, gates, arrays.output("f16", T, 64), T)
    return Recorded(recurrence, (1,), arguments, {"D": 64, "C": 64}), expected


def test_copies_for_products_of_warp_groups_share_meetings() -> None:
    """Of the meetings before and after each copy those go that products' waits are behind."""
    made, expected = chunked(192)
    compiled = made.compile()
    module = compiled.module("hopper")
    plain = [v.view(np.ndarray) if isinstance(v, Stored) else v for v in made.values(compiled)]
    run(module, made.grid, plain)
    error = np.abs(plain[4].astype(np.float64) - expected).max()
    assert error < 2e-2 * np.abs(expected).max()
    assert compiled.decided(BarriersLeftOut)
    caught = 0
    for number in range(len(meetings(module))):
        broken = module.clone()
        meetings(broken)[number].detach()
        try:
            run(broken, made.grid, [np.copy(v) if isinstance(v, np.ndarray) else v for v in plain])
        except errors.ProtocolError:
            caught += 1
    assert (len(meetings(module)), caught) == (2, 2)


@pytest.mark.parametrize("depth", [0, 1])
def test_what_products_read_until_they_are_waited_for(depth: int) -> None:
    """Both operands' rings, in the loop and behind it."""
    compiled = gemm.compile("desc<f16,128x64>", "desc<f16,128x64>", "desc<f16,128x128>", "i32",
                            mma_depth=depth, consumers=1)  # fmt: skip
    roles = [op for op in compiled.module("hopper").walk() if isinstance(op, Role)]
    (math,) = [found for role in roles if (found := _Role(role)).multiplied]
    assert len(math.multiplied) == 2
    assert math.awaited
    assert all(regions == math.multiplied for regions in math.awaited.values())


@tawa.jit
def squares(b, o, n, M: tl.constexpr, K: tl.constexpr):
    """Each block's product, and its square, which two warp groups copy for one another."""
    r, k = tl.arange(0, M), tl.arange(0, K)
    t = tl.zeros([M, M], tl.int32)
    p = (r[:, None] + k[None, :] & 3).to(tl.int8)
    for i in range(n):
        t = tl.dot(p, b.load([0, i * M]), t)
        small = (t & 3).to(tl.int8)
        t += tl.dot(small, small)
    tl.store(o + r[:, None] * M + r[None, :], t)


def test_a_fence_is_followed_by_a_meeting_before_a_slot_is_returned() -> None:
    """The meeting before the fence does not do: the others' fences may come after the return."""
    blocks = 20
    b = np.random.default_rng(0).integers(-3, 4, (64, 16 * blocks)).astype(np.int8)
    desc = tawa.TensorDescriptor(b, list(b.shape), [b.shape[1], 1], [64, 16])
    compiled = squares.compile("desc<i8,64x16>", "*i32", "i32", M=16, K=64, consumers=2)
    out = np.zeros((16, 16), np.int32)
    run(compiled.module("hopper"), (1,), [desc, out, blocks], seed=0, single_warps=True)
    t = np.zeros((16, 16), np.int32)
    p = np.arange(16)[:, None] + np.arange(64) & 3
    for block in np.split(b.astype(np.int32), blocks, axis=1):
        t += p @ block
        t += (t & 3) @ (t & 3)
    np.testing.assert_array_equal(out, t)
