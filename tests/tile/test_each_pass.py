"""Each pass over whole tiles leaves a program's meaning, and has programs that it changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import func

import tawa.language as tl
from tawa.base.options import Options
from tawa.driver.pipeline import whole_tiles
from tawa.frontend import JITFunction, lower_to_tile, parse_argument
from tawa.ir.decisions.decision import Decisions
from tawa.simulate.interpret.tile import run
from tawa.tile.passes.simplify import Simplify

N, D = 32, 16


def softmax(x, y, z, n, N: tl.constexpr, D: tl.constexpr):
    """Attention of one block of rows: maxima, scales, masks of positions and of lengths."""
    i, c = tl.arange(0, N), tl.arange(0, D)
    q = tl.load(x + i[:, None] * D + c[None, :])
    most, total = tl.full((N,), -float("inf"), tl.float32), tl.zeros((N,), tl.float32)
    out = tl.zeros((N, D), tl.float32)
    for start in range(0, n, N):
        k = tl.load(
            y + (start + i[:, None]) * D + c[None, :], mask=start + i[:, None] < n, other=0.0
        )
        s = tl.dot(q, k.T) * 0.25
        s = tl.where(
            (start + i[None, :] < n) & (start + i[None, :] <= i[:, None] + 40), s, -float("inf")
        )
        high = tl.maximum(most, tl.max(s, 1))
        p = tl.exp(s - high[:, None])
        scale = tl.exp(most - high)
        total = total * scale + tl.sum(p, 1)
        out = out * scale[:, None] + tl.dot(p.to(tl.float16), k)
        most = high
    tl.store(z + i[:, None] * D + c[None, :], out / total[:, None])


def rows(x, y, z, n, N: tl.constexpr, D: tl.constexpr):
    """A layer norm by pointers that move on, with weights that are loaded again and again."""
    c = tl.arange(0, D)
    p, q = x + c, z + c
    for _ in range(n):
        v = tl.load(p).to(tl.float32)
        mean = tl.sum(v, 0) / D
        d = v - mean
        spread = tl.sum(d * d, 0) / D
        w = tl.load(y + c).to(tl.float32)
        tl.store(q, d / tl.sqrt(spread + 1.0) * w)
        p += D
        q += D


def sums(x, y, z, n, N: tl.constexpr, D: tl.constexpr):
    """Sums that only the first program stores, and an addition to products."""
    i, c = tl.arange(0, N), tl.arange(0, D)
    total, beside = tl.zeros((N, N), tl.float32), tl.zeros((N,), tl.float32)
    for t in range(n // N):
        a = tl.load(x + (t * N + i[:, None]) * D + c[None, :])
        b = tl.load(y + (t * N + i[:, None]) * D + c[None, :])
        total += tl.dot(a, b.T)
        beside += tl.sum(a.to(tl.float32) * b.to(tl.float32), 1)
    tl.store(z + i[:, None] * N + i[None, :], total)
    tl.store(z + N * N + i, beside, mask=tl.program_id(0) == 0)


def moved(x, y, z, n, N: tl.constexpr, D: tl.constexpr):
    """A copy in a loop, a few elements at a time, with a tail."""
    for t in range(tl.cdiv(n, N)):
        i = t * N + tl.arange(0, N)
        v = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
        tl.store(z + i, v * 2 + tl.load(y + i, mask=i < n, other=0.0), mask=i < n)


def guarded(x, y, z, n, N: tl.constexpr, D: tl.constexpr):
    """Blocks that may be missing: asked for by a branch and by a mask."""
    i, c = tl.arange(0, N), tl.arange(0, D)
    total = tl.zeros((N, N), tl.float32)
    for t in range(2):
        a = tl.load(x + i[:, None] * D + c[None, :])
        if N * t < n:
            at = N * t + i
            b = tl.load(y + at[:, None] * D + c[None, :], mask=at[:, None] < n, other=0.0)
            total = tl.dot(a, b.T, total)
    tl.store(z + i[:, None] * N + i[None, :], total)


def tables(x, y, z, n, N: tl.constexpr, D: tl.constexpr):
    """Pages by a table of numbers, and one number for all of a tile."""
    c = tl.arange(0, D)
    total = tl.zeros((D,), tl.float32)
    for t in range(n):
        page = tl.load(y + t % D + c * 0).to(tl.int32)
        v = tl.load(x + (tl.abs(page) % 4) * D + c).to(tl.float32)
        total += v / (1.0 + t)
        largest = tl.max(v, 0)
        least = -tl.max(-v, 0)
        total += largest - least
    tl.store(z + c, total)


def gated(x, y, z, n, N: tl.constexpr, D: tl.constexpr):
    """A logistic function of what is loaded."""
    i = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(z + i, v * (1.0 / (1.0 + tl.exp(-v))), mask=i < n)


def extreme(x, y, z, n, N: tl.constexpr, D: tl.constexpr):
    """The largest of each row and where it is; the least, and where that is."""
    i, c = tl.arange(0, N), tl.arange(0, D)
    v = tl.load(x + i[:, None] * D + c[None, :]).to(tl.float32) + n
    tl.store(z + i, tl.max(v, 1) + tl.argmax(v, 1))
    tl.store(z + N + i, tl.argmin(v, 1) - tl.min(v, 1))


def added(x, y, z, n, N: tl.constexpr, D: tl.constexpr):
    """A sum and an extreme that a loop carries."""
    total, least = 0.5, float("inf")
    for t in range(0, n, N):
        i = t + tl.arange(0, N)
        v = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
        total += tl.sum(v * v, 0)
        least = tl.minimum(least, tl.min(v, 0))
    tl.store(z, total)
    tl.store(z + 1, least)


def packed(x, y, z, n, N: tl.constexpr, D: tl.constexpr):
    """Weights of which eight rows have one word, and a scale for each sixteen columns."""
    i, c = tl.arange(0, N), tl.arange(0, D)
    total = tl.zeros((N, D), tl.float32)
    for t in range(n // N):
        words = tl.load(y + (t * (N // 8) + i[:, None] // 8) * D + c[None, :]).to(tl.float32)
        weights = (words * (i[:, None] % 8 + 1)).to(tl.float16)
        a = tl.load(x + i[:, None] * N + i[None, :])
        total = tl.dot(a, weights, total)
    tl.store(z + i[:, None] * D + c[None, :], total)


def walking(x, y, z, n, N: tl.constexpr, D: tl.constexpr):
    """Tiles of pointers that move on; products of few rows that are added in half precision."""
    i, c, few = tl.arange(0, N), tl.arange(0, D), tl.arange(0, 8)
    p = x + few[:, None] * (n * 0 + 19) + c[None, :]
    q = y + c[:, None] * (n * 0 + 33) + i[None, :]
    total = tl.zeros((8, N), tl.float16)
    for _ in range(3):
        total = tl.dot(tl.load(p), tl.load(q), total, out_dtype=tl.float16)
        p += D
        q += D * 33
    tl.store(z + few[:, None] * N + i[None, :], total.to(tl.float32))


def causal(x, y, z, n, N: tl.constexpr, D: tl.constexpr):
    """Blocks of columns up to a diagonal: only the last ones have something to mask."""
    i, c = tl.arange(0, N), tl.arange(0, D)
    r = tl.program_id(0) * N + i
    total = tl.zeros((N, D), tl.float32)
    q = tl.load(x + r[:, None] * D + c[None, :])
    for t in range(0, (tl.program_id(0) + 1) * N, N):
        k = tl.load(y + (t + i[:, None]) * D + c[None, :])
        s = tl.dot(q, k.T)
        s = tl.where(t + i[None, :] <= r[:, None], s, 0.0)
        total = tl.dot(s.to(tl.float16), k, total)
    tl.store(z + r[:, None] * D + c[None, :], total)


KERNELS = {
    k.__name__: k
    for k in (
        softmax,
        rows,
        sums,
        moved,
        guarded,
        tables,
        gated,
        extreme,
        added,
        packed,
        walking,
        causal,
    )
}


SIZES = {"causal": 128}
"""Rows and columns of a tile, where a branch for the whole tile is worth its while."""


def outcome(module: Any, n: int) -> np.ndarray:
    """What two programs leave in z."""
    random = np.random.default_rng(3)
    x, y = ((random.integers(-16, 17, 4096) / 8).astype(np.float16) for _ in range(2))
    z = np.full(4096, -7, np.float32)
    run(module, (2,), [x, y, z, n])
    return z


def changes(name: str) -> set[str]:
    """Run all passes; the names of those that change something."""
    halves = "*f16" if name in SIZES else "*f16:16"  # what is not aligned is not copied in bulk
    kinds = [parse_argument(text) for text in (halves, halves, "*f32:16", "i32")]
    module = lower_to_tile(JITFunction(KERNELS[name]), kinds, {"N": SIZES.get(name, N), "D": D})
    length = 9 if name in ("rows", "tables") else 77
    expected = outcome(module, length)
    options = Options()
    found = set[str]()
    text = str(module)
    steps = [Simplify(), *whole_tiles(options, Decisions())[:-1]]
    for step in steps:
        step.apply(module)
        module.verify()
        now = str(module)
        if now == text:
            continue
        text = now
        found.add(step.name)
        if len(next(op for op in module.ops if isinstance(op, func.FuncOp)).body.block.args) > 4:
            break  # arguments that the host makes
        np.testing.assert_allclose(outcome(module, length), expected, rtol=2e-3, atol=2e-3,
                                   err_msg=step.name)  # fmt: skip
    return found


CHANGED: dict[str, set[str]] = {
    "softmax": {"fuse-accumulate", "scaled-exponents"}, "rows": {"simplify"},
    "sums": {"fuse-accumulate", "partial-dead-code"}, "moved": {"batched-loads"},
    "guarded": {"early-loads"}, "tables": {"uniform-loads"}, "gated": {"reciprocals"},
    "extreme": {"shared-extremes"}, "added": {"late-reductions"}, "packed": {"repeated-loads"},
    "walking": {"widen-accumulators", "carried-pointers"}, "causal": {"split-loops"},
}  # fmt: skip
"""Passes that change each kernel; others may, too."""


@pytest.mark.parametrize("name", KERNELS)
def test_meanings_stay(name: str) -> None:
    assert CHANGED[name] <= changes(name)
