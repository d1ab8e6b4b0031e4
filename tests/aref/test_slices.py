"""Teams that share the iterations of a loop give what one gives, and other loops are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulation import Arrays, block, check, values
from xdsl.dialects import scf

import tawa
import tawa.language as tl
from tawa.aref.analysis.iteration_slices import SlicesNotPossible
from tawa.aref.dialect.ops import Create, GetEnter, WarpGroup
from tawa.base.options import BadOption
from tawa.driver.compiled import Compiled
from tawa.simulate import prove

LEVELS = ["hopper", "ptx"]


@tawa.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    c.store([0, 0], acc.to(c.dtype))


@tawa.jit
def scaled(x, w, s, out, N, K, M: tl.constexpr, B: tl.constexpr, KIND: tl.constexpr):
    """A sum of scaled products that begins with numbers."""
    n, k = tl.arange(0, B), tl.arange(0, 32)
    m = tl.arange(0, M)
    acc = tl.full((M, B), 3, KIND)
    for i in range(0, tl.cdiv(K, 32)):
        left = (k < K - i * 32) & (n < N)[:, None]
        xt = tl.load(
            x + m[:, None] * K + i * 32 + k[None, :], mask=k[None, :] < K - i * 32, other=0
        )
        wt = tl.load(w + n[:, None] * K + i * 32 + k[None, :], mask=left, other=0)
        acc += tl.dot(xt, wt.T, out_dtype=KIND) * tl.load(s + i)
    tl.store(out + m[:, None] * N + n[None, :], acc, mask=(n < N)[None, :])


def descriptors(k: int, size: int = 64) -> tuple[list[Any], np.ndarray]:
    a = Arrays()
    x, w, out = a.random("f16", size, k), a.random("f16", 64, k), a.output("f32", size, 64)
    boxes = [block(x, size, 64), block(w, 64, 64), block(out, size, 64)]
    return boxes, values(x) @ values(w).T


def roles(compiled: Compiled) -> list[WarpGroup]:
    return [op for op in compiled.module("aref").walk() if isinstance(op, WarpGroup)]


@pytest.mark.parametrize("slices", [2, 3, 4])
@pytest.mark.parametrize("k", [64, 128, 448, 1216])
def test_teams_add_up_what_one_does(k: int, slices: int) -> None:
    boxes, expected = descriptors(k)
    options = {"M": 64, "N": 64, "slice_k": slices}
    levels = LEVELS if k == 448 else ["hopper"]
    compiled = check(product, (1,), [*boxes, k], {2: expected}, 1e-3, levels=levels, **options)
    _, math = roles(compiled)
    assert (math.teams.value.data, math.sliced is not None) == (slices, True)


@pytest.mark.parametrize("rows", [16, 64])  # by warps, by warp groups
@pytest.mark.parametrize("kind", ["f32", "i32"])
@pytest.mark.parametrize("slices", [2, 3])
def test_scaled_sums_that_begin_with_numbers(kind: str, slices: int, rows: int) -> None:
    a, (n, k) = Arrays(), (40, 160)
    element = "f16" if kind == "f32" else "i8"
    x, w, s = a.random(element, rows, k), a.random(element, n, k), a.random(kind, 5)
    out = a.output(kind, rows, n)
    expected = np.full((rows, n), 3.0)
    for i in range(5):
        part = slice(32 * i, 32 * i + 32)
        expected += values(x)[:, part] @ values(w)[:, part].T * values(s)[i]
    given = [x, w, s, out, n, k]
    element = tl.float32 if kind == "f32" else tl.int32
    constants = {"M": rows, "B": 64, "KIND": element, "slice_k": slices}
    check(scaled, (1,), given, {3: expected}, 2e-3, levels=LEVELS, **constants)


def test_a_slot_belongs_to_one_team() -> None:
    tile = "desc<f16,64x64>"
    for slices in (2, 3):
        types = tile, tile, "desc<f32,64x64>", "i32"
        compiled = product.compile(*types, M=64, N=64, slice_k=slices)
        loops = [op for op in roles(compiled)[1].walk() if isinstance(op, scf.ForOp)]
        rings = {g.ref.owner for loop in loops for g in loop.walk() if isinstance(g, GetEnter)}
        depths = [r.ref.type.depth.data for r in rings if isinstance(r, Create)]  # pyright: ignore
        assert depths
        assert all(depth % slices == 0 and depth >= 2 * slices for depth in depths)
        assert prove(compiled.module("hopper")).proved


def test_what_is_asked_for_is_told() -> None:
    tile = "desc<f16,64x64>"
    compiled = product.compile(tile, tile, "desc<f32,64x64>", "i32", M=64, N=64, slice_k=2)
    assert any("2 teams share the iterations" in d.sentence for d in compiled.decisions)


@tawa.jit
def largest(a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    best = tl.full((M, N), -float("inf"), tl.float32)
    for k in range(0, K, 64):
        best = tl.maximum(best, tl.dot(a.load([0, k]), b.load([0, k]).T))
    c.store([0, 0], best)


@tawa.jit
def counted(a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    acc, rows = tl.zeros((M, N), tl.float32), tl.zeros((M,), tl.float32)
    for k in range(0, K, 64):
        t = a.load([0, k])
        acc = tl.dot(t, b.load([0, k]).T, acc)
        rows += tl.sum(t.to(tl.float32), 1)
    c.store([0, 0], acc + rows[:, None])


@tawa.jit
def stored(a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
        c.store([0, k], acc)


@tawa.jit
def twice(a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    for _ in range(2):
        acc = tl.zeros((M, N), tl.float32)
        for k in range(0, K, 64):
            acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
        c.store([0, 0], acc)


@tawa.jit
def seldom(a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, 64):
        if k > 64:
            acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    c.store([0, 0], acc)


@tawa.jit
def both(a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([64, k]), b.load([0, k]).T, acc)
    c.store([0, 0], acc)


@pytest.mark.parametrize(
    ("kernel", "options", "why"),
    [
        (largest, {}, "carries more than sums of products"),
        (counted, {}, "carries more than sums of products"),
        (stored, {}, "does more than add up products"),
        (twice, {}, "does more than add up products|carries more than sums|one slot of each ring"),
        (seldom, {}, "one slot of each ring|carries more than sums"),
        (both, {}, "no single loop has all products"),
        (product, {"specialize": False}, "one role does everything"),
        (product, {"persistent": True}, "no single loop|one slot of each ring|more than"),
    ],
)
def test_other_loops_are_refused(kernel: Any, options: dict[str, Any], why: str) -> None:
    tile = "desc<f16,64x64>"
    types = tile, tile, "desc<f32,64x64>", "i32"
    with pytest.raises(SlicesNotPossible, match=why) as caught:
        kernel.compile(*types, M=64, N=64, slice_k=2, **options)
    assert caught.value.span is not None


def test_teams_of_more_warps_than_a_cta_has_are_refused() -> None:
    types = "*f16:16", "*f16:16", "*f32:16", "*f32", "i32", "i32:16"
    constants = {"M": 16, "B": 64, "KIND": tl.float32, "slice_k": 4}
    scaled.compile(*types, num_warps=4, **constants)
    with pytest.raises(SlicesNotPossible, match="36 warps are more than a CTA has"):
        scaled.compile(*types, num_warps=8, **constants)


def test_more_slices_than_four_are_refused() -> None:
    tile = "desc<f16,64x64>"
    with pytest.raises(BadOption, match="slice_k=5 is out of range"):
        product.compile(tile, tile, "desc<f32,64x64>", "i32", M=64, N=64, slice_k=5)


def test_each_team_has_the_slots_that_are_asked_for() -> None:
    tile = "desc<f16,64x64>"
    types = tile, tile, "desc<f32,64x64>", "i32"
    for stages, depth in ((1, 2), (3, 6), (9, 12)):  # as far as there is room
        compiled = product.compile(*types, M=64, N=64, slice_k=2, num_stages=stages)
        assert f"aref.ref<{depth}, tensor<64x64xf16>" in compiled.stages["aref"]
