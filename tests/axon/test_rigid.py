"""Named sizes are rigid: programs that identify them are refused at the place that does."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from tawa import axon
from tawa.axon.typing.errors import (
    ContractViolation,
    NamedSizesAgree,
    OtherLayout,
    ShapeMismatch,
)
from tawa.axon.typing.language import axon as language
from tawa.base.errors import TawaError

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import axon_mutants

IDENTIFIED = {
    "a forgotten transpose": (
        "def attn (q: f32[b, h, n, d]) (k: f32[b, h, m, d]) (v: f32[b, h, m, e]) =\n"
        "  let scores = matmul q k in\n"
        "  matmul (softmax scores) v", ("`m`", "`d`"), 2,
    ),
    "a transpose too many": (
        "def proj (x: f32[batch, time, d]) (w: f32[d, out]) : f32[batch, time, out] =\n"
        "  transpose x @ w", ("`time`", "`d`"), 2,
    ),
    "an image and its transpose": (
        "def swap (x: f32[h, w]) (y: f32[h, w]) =\n  x .+ transpose y", ("`h`", "`w`"), 2,
    ),
    "a number": ("def f (x: f32[n, k]) =\n  x @ zeros{[3, 4]}", ("`k` is 3",), 2),
    "a sum of other names": (
        "def f (x: f32[a]) (y: f32[b]) (z: f32[c]) =\n  concat x y .+ z", ("`c`", "a + b"), 2,
    ),
    "a local function": (
        "def f x =\n  let g (y: f32[n, m]) = y .+ transpose y in\n  g x", ("`m`", "`n`"), 2,
    ),
    "a result": ("def f (x: f32[n, m]) : f32[n, m] =\n  transpose x", ("`m`", "`n`"), 2),
}  # fmt: skip


@pytest.mark.parametrize("name", IDENTIFIED)
def test_identified_names_are_refused(name: str):
    text, words, line = IDENTIFIED[name]
    with pytest.raises(NamedSizesAgree) as found:
        axon.load(text)
    assert all(word in str(found.value) for word in words)
    span = found.value.span
    assert span is not None
    assert abs(span.line - line) <= 2
    assert len(str(found.value).splitlines()) <= 25


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("def f (x: f32[2*?n]) (y: f32[6]) = x .+ y", "f32[6] -> f32[6] -> f32[6]"),
        ("def f (x: f32[?a]) (y: f32[b]) = x .+ y", "f32[a] -> f32[a] -> f32[a]"),
        ("def f (x: f32[n]) = (halves x).0", "f32[2*n] -> f32[n]"),
        ("def f{k} (x: f32[n, k]) = x", "{k} f32[n, k] -> f32[n, k]"),
        (
            "def f (x: f32[a, 3]) (y: f32[b, 3]) = x + y",
            "f32[a, 3] -> f32[b, 3] -> f32[max(a, b), 3] where a ~ b",
        ),
    ],
)
def test_conditions_and_flexible_names_stay(text: str, type_: str):
    assert str(axon.load(text)["f"].type) == type_


def test_annotating_a_local_function_does_not_narrow_its_caller():
    text = (
        "def f{{h, g}} (wq, wk) s x =\n"
        "  let rot {} = let a, b = halves x in concat b a * s in\n"
        '  let q = rearrange{{"b t (h g d) -> b (h g) t d", h = h, g = g}} (x @ wq) in\n'
        '  let k = rearrange{{"b t (h d) -> b h t d", h = h}} (x @ wk) in\n'
        "  (rot q, rot k)\n"
    )
    plain, annotated = (
        axon.load(text.format(pattern))["f"] for pattern in ("x", "(x: t[..b, 2*m])")
    )
    wq, wk, x = np.ones((5, 12)), np.ones((5, 6)), np.ones((2, 3, 5))
    expected = [y.shape for y in plain((wq, wk), np.float64(2), x, h=3, g=2)]
    assert [y.shape for y in annotated((wq, wk), np.float64(2), x, h=3, g=2)] == expected


def test_broadcasting_two_unknown_ranks_comes_to_an_end():
    module = axon.load(
        'def g w x = rearrange{"b t d -> b d t"} x @ w\n'
        "def f wte wpe w ids = g w (take wte ids + wpe)"
    )
    sizes = ((11, 8), (6, 8), (8, 3))
    with pytest.raises(ContractViolation):
        module["f"](*(np.ones(s, np.float32) for s in sizes), np.ones((2, 6), int))


@pytest.mark.parametrize("axis", [100_000, -70, 65])
def test_axes_have_a_limit(axis: int):
    with pytest.raises(TawaError, match="no axis"):
        axon.load(f"def f x = sum{{axis = {axis}}} x")


def test_an_error_shows_few_places():
    lines = "\n".join("  let x = relu x in" for _ in range(8))
    text = f"def f (x: f32[b, 8]) =\n{lines}\n  x @ zeros{{[9, 4]}}"
    with pytest.raises(ShapeMismatch) as found:
        language().check(text)
    assert len(str(found.value).splitlines()) <= 25


def test_a_named_size_is_not_stretched_to_another():
    text = (
        "def read (w: f32[b, n]) (memory: f32[b, n, e]) : f32[b, e] =\n"
        "  let scaled = expand{axis = 1} w * memory in\n"
        "  sum{axis = 1} scaled"
    )
    with pytest.raises(NamedSizesAgree, match="`n` is 1 or `e` here") as found:
        axon.load(text)
    assert found.value.span is not None
    assert found.value.span.line == 2
    assert axon.load(text.replace("axis = 1} w", "axis = 2} w"))["read"]


@pytest.mark.parametrize(
    "body",
    [
        "(y: t[n, k]) : t[n, k] = y * x",
        "(y: t[n, k]) : t[n, 2*k] = let z = y * x in concat z z",
        "(y: t[n, k]) : t[n, k + 3] = concat (y * x) (c @ zeros{[k, 3]})",
        "(y: t[n, 2*k]) : t[n, 2*k] = let a, b = halves y in concat (a * x) (b * c)",
    ],
)
def test_what_is_broadcast_and_then_joined_is_found(body: str):
    with pytest.raises(NamedSizesAgree, match="`d` is 1 or `k` here"):
        axon.load(f"def f (c: t[n, k]) (x: t[n, d]) {body}")


def test_sizes_are_checked_before_they_are_restated():
    text = (
        "def pairs (x: t[b, d]) (s: t[b, f, d]) =\n"
        "  let all : t[b, f + 1, d] = concat{axis = 1} (expand{axis = 1} x) s in\n"
        "  let found : t[b, f + 1, f + 1] = matmul (transpose all) all in found"
    )
    with pytest.raises(NamedSizesAgree, match="`f` and `d - 1` are one size"):
        axon.load(text)


LAYOUTS = {
    "a split": ('def f{h} (x: f32[n, h*k]) = rearrange{"n (k h) -> n h k", h = h} x', "(k h)"),
    "a join": ("def f{h} (x: f32[n, h, k]) : f32[n, h*k] = "
               'rearrange{"n h k -> n (k h)"} x', "(k h)"),
    "groups": ("def f{g, h} (x: f32[n, g*h*2*k]) = "
               'rearrange{"n (h g k) -> n g h k", g = g, h = h} x', "(h g k)"),
    "equal factors": ("def f{p} (x: f32[b, c, h*p, w*p]) : f32[b, h*w, c*p*p] = "
                      'rearrange{"b c (h p) (w q) -> b (h w) (p q c)", p = p, q = p} x', "(p q c)"),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_an_axis_is_taken_apart_as_it_is_laid_out(name: str):
    text, group = LAYOUTS[name]
    with pytest.raises(OtherLayout, match=f"`{re.escape(group)}` is not how"):
        axon.load(text)


@pytest.mark.parametrize(
    "text",
    [
        'def f{h} (x: f32[n, h*k]) = rearrange{"n (h k) -> n h k", h = h} x',
        'def f{h} (x: f32[n, h*k]) : f32[n, k*h] = rearrange{"n (h k) -> n (k h)", h = h} x',
        'def f (x: f32[n, 2*k]) = rearrange{"n (k two) -> n k two", two = 2} x',
        'def f{g, h} (x: f32[n, g*h*2*k]) = rearrange{"n (gh k) -> n gh k", gh = g*h} x',
        'def f{g} (x: f32[b, g*c]) : f32[b, g*c] = rearrange{"b (g c) -> b (c g)", g = g} x',
        'def f{h} (x: f32[n, ?h1*?k]) = rearrange{"n (k h) -> n h k", h = h} x',
        "def f{p} (x: f32[b, c, h*p, w*p]) : f32[b, h*w, p*p*c] = "
        'rearrange{"b c (h p) (w q) -> b (h w) (p q c)", p = p, q = p} x',
    ],
)
def test_layouts_that_fit_or_are_changed_on_purpose(text: str):
    assert axon.load(text)["f"]


ANNOTATED = Path(__file__).parents[2] / "examples" / "axon" / "annotated.ax"


def test_planted_mistakes_are_caught_when_loaded():
    every = axon_mutants.mutants(ANNOTATED.read_text())
    outcomes = [axon_mutants.tried(m) for m in axon_mutants.drawn(every, 30, 1)]
    caught = [outcome for outcome in outcomes if outcome.caught]
    assert len(caught) >= 28
    assert sum(outcome.near for outcome in caught) >= 0.8 * len(caught)
    assert max(outcome.lines for outcome in caught) <= 25
