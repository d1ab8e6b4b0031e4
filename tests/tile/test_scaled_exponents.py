"""Scales move after maxima and into exponents, however they are spelled, and nowhere else."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from simulation import Arrays, Recorded, block, check, stored, values
from xdsl.dialects.builtin import ModuleOp

import tawa
import tawa.language as tl
from tawa.base.options import Options
from tawa.base.types import shape_of
from tawa.frontend import lower_to_tile, parse_argument
from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import Reduce
from tawa.tile.passes.scaled_exponents import ScaledExponents
from tawa.tile.passes.simplify import simplify


@tawa.jit
def scaled(product: Any, scale: Any, SIDE: tl.constexpr):
    """The scores: a product times a number, on a side."""
    if SIDE == "left":
        return scale * product
    if SIDE == "right":
        return product * scale
    return product * scale * 1.25 if SIDE == "twice" else product


@tawa.jit
def softmax(
    a: Any, b: Any, out: Any, scale: Any, SIDE: tl.constexpr, MASK: tl.constexpr,
    MAXIMUM: tl.constexpr, BASE: tl.constexpr,
):  # fmt: skip
    """Rows of `exp(c * a @ b - max)`, over their sums, in many spellings."""
    scores = scaled(tl.dot(a.load([0, 0]), b.load([0, 0]).T), scale, SIDE)
    column = tl.arange(0, 64)
    if MASK == "where":
        scores = tl.where(column[None, :] < 50, scores, -float("inf"))
    elif MASK == "added":
        scores += tl.where(column < 50, 0.0, -float("inf"))[None, :]
    elif MASK == "otherwise":
        scores = tl.where(column[None, :] >= 50, float("-inf"), scores)
    top = tl.max(scores, axis=1)
    if MAXIMUM == "where":
        top = tl.where(top > -100.0, top, -100.0)
    elif MAXIMUM == "maximum":
        top = tl.maximum(-100.0, top)
    if BASE == "exp":
        p = tl.exp(scores - top[:, None])
    elif BASE == "exp2":
        p = tl.exp2((scores - top[:, None]) * 1.4426950408889634)
    elif BASE == "bare":
        p = tl.exp2(scores - top[:, None])
    else:
        p = tl.exp2(1.4426950408889634 * (scores - tl.expand_dims(top, 1)))
    out.store([0, 0], p / tl.sum(p, axis=1)[:, None])


SPELLINGS = list(
    itertools.product(
        ("left", "right"), ("none", "where", "otherwise", "added"), ("plain", "where", "maximum"),
        ("exp", "exp2", "factor first"),
    )
)  # fmt: skip


def rewritten(kernel: Any, types: list[str], constants: dict[str, Any], **options: Any) -> ModuleOp:
    """A kernel's tile module after the pass."""
    module = lower_to_tile(kernel, [parse_argument(t) for t in types], constants)
    simplify(module)
    ScaledExponents(Options(**options)).apply(module)
    simplify(module)
    module.verify()
    return module


def tiles(module: ModuleOp, function: str) -> int:
    """How many functions of whole tiles there are of a name."""
    maps = [op for op in module.walk() if isinstance(op, Map)]
    return sum(op.function.data == function and len(shape_of(op.result.type)) > 1 for op in maps)


TYPES = ["desc<f16,128x32>", "desc<f16,64x32>", "desc<f32,128x64>"]


@pytest.mark.parametrize(("side", "mask", "maximum", "base"), SPELLINGS)
def test_one_multiply_add_is_left(side: str, mask: str, maximum: str, base: str) -> None:
    constants = {"SIDE": side, "MASK": mask, "MAXIMUM": maximum, "BASE": base}
    module = rewritten(softmax, [*TYPES, "f32:+"], constants)
    assert tiles(module, "fma") == 1
    assert tiles(module, "mulf") == tiles(module, "subf") == tiles(module, "exp") == 0


@pytest.mark.parametrize("scale", [0.17, -0.4, 0.0, 1.0, 2.5e-30, 300.0])
@pytest.mark.parametrize("spelling", [*SPELLINGS[::5], ("twice", "where", "maximum", "exp")])
def test_values_stay(spelling: tuple[str, str, str, str], scale: float) -> None:
    arrays = Arrays()
    a, b = arrays.random("f16", 128, 32), arrays.random("f16", 64, 32)
    out = arrays.output("f32", 128, 64)
    scores = values(a) @ values(b).T * np.float64(np.float32(scale))
    scores *= 1.25 if spelling[0] == "twice" else 1
    if spelling[1] != "none":
        scores[:, 50:] = -np.inf
    top = scores.max(axis=1, keepdims=True)
    if spelling[2] != "plain":
        top = np.maximum(top, -100.0)
    with np.errstate(under="ignore", over="ignore"):
        p = np.exp(scores - top)
        expected = p / p.sum(axis=1, keepdims=True)
    described = [block(a, 128, 32), block(b, 64, 32), block(out, 128, 64)]
    check(softmax, (1,), [*described, scale, *spelling], {2: expected}, 1e-3)


@pytest.mark.parametrize("mask", ["none", "where"])
def test_all_scales_move(mask: str) -> None:
    constants = {"SIDE": "twice", "MASK": mask, "MAXIMUM": "plain", "BASE": "exp"}
    module = rewritten(softmax, [*TYPES, "f32:+"], constants)
    assert (tiles(module, "fma"), tiles(module, "mulf")) == (1, 0)


@pytest.mark.parametrize(("side", "fma", "subf"), [("left", 1, 0), ("none", 0, 1)])
def test_powers_of_two_of_scaled_differences(side: str, fma: int, subf: int) -> None:
    """One multiply-add, as machine code would have it; a difference alone stays one."""
    constants = {"SIDE": side, "MASK": "none", "MAXIMUM": "plain", "BASE": "bare"}
    module = rewritten(softmax, [*TYPES, "f32:+"], constants)
    assert (tiles(module, "fma"), tiles(module, "subf")) == (fma, subf)


def test_an_unknown_scale_stays_before_the_maximum() -> None:
    constants = {"SIDE": "left", "MASK": "none", "MAXIMUM": "plain", "BASE": "exp"}
    module = rewritten(softmax, [*TYPES, "f32"], constants)
    (reduce, _) = [op for op in module.walk() if isinstance(op, Reduce)]
    assert isinstance(reduce.value.owner, Map)
    assert reduce.value.owner.function.data == "mulf"


def test_nothing_is_contracted_without_fusion() -> None:
    constants = {"SIDE": "left", "MASK": "none", "MAXIMUM": "plain", "BASE": "exp"}
    module = rewritten(softmax, [*TYPES, "f32:+"], constants, enable_fp_fusion=False)
    assert (tiles(module, "fma"), tiles(module, "exp")) == (0, 1)


@tawa.jit
def filled(a: Any, b: Any, bias: Any, out: Any, scale: Any, FILL: tl.constexpr):
    """A softmax whose rows may be masked altogether, by numbers that are no infinities."""
    scores = tl.dot(a.load([0, 0]), b.load([0, 0]).T) * scale
    row, column = tl.arange(0, 128), tl.arange(0, 64)
    if FILL is None:
        scores += bias.load([0, 0])
    else:
        scores = tl.where(column[None, :] < row[:, None], scores, FILL)
    p = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    out.store([0, 0], p / tl.sum(p, axis=1)[:, None])


@pytest.mark.parametrize(
    ("fill", "contracted"),
    [(-1e30, 0), (None, 0), (-1e5, 1), (-np.inf, 1), (-(2.0**20), 1), (-(2.0**21), 0)],
)
def test_masked_rows(fill: float | None, contracted: int) -> None:
    types = [*TYPES[:2], "desc<f32,128x64>", TYPES[2], "f32:+"]
    assert tiles(rewritten(filled, types, {"FILL": fill}), "fma") == contracted
    arrays = Arrays()
    a, b = arrays.random("f16", 128, 32), arrays.random("f16", 64, 32)
    out, least = arrays.output("f32", 128, 64), float(np.finfo(np.float32).min)
    scores = values(a) @ values(b).T * np.float64(np.float32(0.3))
    keep = np.arange(64)[None, :] < np.arange(128)[:, None]
    added = stored(np.where(keep, 0.0, least), "f32")
    scores = np.where(keep, scores, least if fill is None else fill)
    with np.errstate(all="ignore"):
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        expected = p / p.sum(axis=1, keepdims=True)
    described = [block(x, *shape) for x, shape in (
        (a, (128, 32)), (b, (64, 32)), (added, (128, 64)), (out, (128, 64)))]  # fmt: skip
    if fill == -np.inf:  # the first row has no element: NaN, here and there
        expected[0], compiled = np.nan, filled.compile(*types, fill)
        for level in ("tile", "hopper"):
            Recorded(filled, (1,), (*described, 0.3, fill), {}).run(compiled, level)
            np.testing.assert_allclose(values(out), expected, rtol=1e-3, atol=1e-4)
        return
    check(filled, (1,), [*described, 0.3, fill], {3: expected}, 1e-3)


@tawa.jit
def loaded(x: Any, out: Any, M: tl.constexpr, N: tl.constexpr, SCALE: tl.constexpr):
    """Exponentials of what was loaded: the differences may be exact."""
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    scores = tl.load(x + at) * SCALE
    tl.store(out + at, tl.exp(scores - tl.max(scores, axis=1)[:, None]))


@pytest.mark.parametrize("scale", [0.5, 0.7, -0.7])
def test_infinities_and_nan(scale: float) -> None:
    constants = {"M": 16, "N": 64, "SCALE": scale}
    assert tiles(rewritten(loaded, ["*f32:16", "*f32:16"], constants), "fma") == 0
    arrays = Arrays()
    data = np.random.default_rng(1).standard_normal((16, 64))
    data[0, :], data[1, 3], data[2, 5], data[3, 7] = -np.inf, np.inf, np.nan, -np.inf
    x, out = stored(data, "f32"), arrays.output("f32", 16, 64)
    compiled = loaded.compile("*f32:16", "*f32:16", 16, 64, scale)
    with np.errstate(all="ignore"):
        for level in ("tile", "hopper"):
            out[...] = np.nan
            Recorded(loaded, (1,), (x, out, 16, 64, scale), {}).run(compiled, level)
            scores = data * scale
            expected = np.exp(scores - np.fmax.reduce(scores, axis=1)[:, None])
            np.testing.assert_allclose(values(out), expected, rtol=1e-5, atol=1e-6)
