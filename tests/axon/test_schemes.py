"""The inferred types of the examples, and of the probes that decide what a solver can do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tawa.axon import load
from tawa.axon.tools.explain import definition_requirements
from tawa.axon.typing.errors import ContractViolation
from tawa.axon.typing.language import axon

EXAMPLES = Path(__file__).parents[2] / "examples" / "axon"


def schemes(path: Path) -> str:
    """All types of a module, and what it requires of the sizes that it names."""
    checked = axon().check_file(path)
    lines: list[str] = []
    for name, scheme in checked.schemes.items():
        lines.append(f"{name} : {checked.inference.printer().scheme(scheme)}")
        lines.extend(f"  {requirement}" for requirement in definition_requirements(checked, name))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.ax")))
def test_example(name: str, golden: Callable[[str, str], None]):
    text = schemes(EXAMPLES / f"{name}.ax")
    golden(text, "txt")
    assert max(len(line.partition(" : ")[2]) for line in text.splitlines()) < 300


def scheme(text: str) -> str:
    checked = axon().check(text)
    *_, last = checked.schemes
    return checked.inference.printer().scheme(checked.schemes[last])


PROBES = {
    "def f (x: f32[..bs, i]) (w: f32[i, h]) = x @ w":
        "f32[..bs, i] -> f32[i, h] -> f32[..bs, h]",
    "def f (x: f32[..s, a]) (y: f32[..s, b]) = concat x y":
        "f32[..s, a] -> f32[..s, b] -> f32[..s, a + b]",
    'def f x w = einsum{"..b i, i h -> ..b h"} x w': "t[..b, i] -> t[i, h] -> t[..b, h]",
    "def f (x: f32[2*?n]) (y: f32[6]) = (x .+ y, iota{n})": "f32[6] -> f32[6] -> (f32[6], i64[3])",
    "def f{n} (x: f32[d]) (y: f32[n*(d//n)]) = x .+ y":
        "{n} f32[d*n] -> f32[d*n] -> f32[d*n]",
    "def f (x: f32[b, 3]) (y: f32[?c, 3]) = x .+ y": "f32[b, 3] -> f32[b, 3] -> f32[b, 3]",
    "def f (x: f32[b, 3]) (y: f32[c, 3]) = x + y":
        "f32[b, 3] -> f32[c, 3] -> f32[max(b, c), 3] where b ~ c",
    "def f (x: f32[2*a]) (y: f32[3*b]) = x .+ y": "f32[6*a] -> f32[6*a] -> f32[6*a]",
    "def f (x: f32[2*?a + 3*?b]) (y: f32[7]) (z: f32[a, b]) = (x .+ y, z)":
        "f32[7] -> f32[7] -> f32[2, 1] -> (f32[7], f32[2, 1])",
    "def f (x: f32[?n, 9216]) = reshape{[1, 9216]} x": "f32[1, 9216] -> f32[1, 9216]",
    "def f (x: f32[..s, ..r]) (y: f32[..r]) = (x, y)":
        "f32[..s, ..r] -> f32[..r] -> (f32[..s, ..r], f32[..r])",
    "def f (x: f32[..s, 3]) (y: f32[4, ..r]) (z: f32[..r, 5]) = (x .+ y, z)":
        "f32[..s, 3] -> f32[4, ..r] -> f32[..r, 5] -> (f32[..s, 3], f32[..r, 5]) "
        "where [..s, 3] = [4, ..r]",
    "def f (x: f32[..s, 3]) (y: f32[4, ..r]) (z: f32[?a, ?b, ..r]) (w: f32[5, 6, 7, 3]) ="
    " (x .+ y, z .+ w)":
        "f32[4, 7, 3] -> f32[4, 7, 3] -> f32[5, 6, 7, 3] -> f32[5, 6, 7, 3] -> "
        "(f32[4, 7, 3], f32[5, 6, 7, 3])",
    "def f (x: f32[n*?m]) (y: f32[n*?k]) = x .+ y": "f32[n*m] -> f32[n*m] -> f32[n*m]",
    "def f (x: f32[?n*?n]) (y: f32[49]) (z: f32[n]) = (x .+ y, z)":
        "f32[49] -> f32[49] -> f32[7] -> (f32[49], f32[7])",
    "def f x = let a = x @ x in let b = flatten a in b @ b": "t[a, a] -> t[a, a] where num t",
    "def f x = let a = x @ x in let b = flatten x in (a, b @ b)":
        "t[a, a] -> (t[a, a], t[a, a]) where num t",
    "def f x = flatten (flatten x) @ flatten x":
        "t[size(..s), ..s] -> t[size(..s), size(..s)] where num t",
    "def f{axis} x y = concat{axis = axis} x y":
        "{axis} t[..p, a, ..q] -> t[..p, b, ..q] -> t[..p, a + b, ..q] "
        "where axis splits [..p] [..q]",
}  # fmt: skip


@pytest.mark.parametrize("text", PROBES)
def test_probe(text: str):
    assert scheme(text) == PROBES[text]


def test_local_functions_are_polymorphic_in_rank():
    found = scheme("def f (x: f32[3]) (y: f32[4, 5]) = let g u = relu u .+ u in (g x, g y)")
    assert found == "f32[3] -> f32[4, 5] -> (f32[3], f32[4, 5])"


def test_a_signature_carries_its_conditions_to_each_use():
    text = "def g x = max_pool x\ndef f (x: f32[b, c, 8, 6]) = g x"
    assert scheme(text) == "f32[b, c, 8, 6] -> f32[b, c, 4, 3]"


def test_numbers_are_general_and_other_values_have_one_type():
    assert scheme("def half = 0.5") == "t[] where float t"
    assert scheme("def half = 0.5\ndef f x = x * half") == "t[..s] -> t[..s] where float t"
    assert scheme("def two = 1.0 + 1.0\ndef f x = x * two") == "f32[..s] -> f32[..s]"
    used = "def three = 1 + 2\ndef f x = x + three\ndef g x = f (zeros{[2]})"
    assert scheme(used) == "'a -> f32[2]"


def test_equal_broadcasts_have_one_result():
    rotated = "def f a x = let l, r = halves x in concat (l * a - r * a) (l * a + r * a)"
    assert scheme(rotated) == (
        "t[..r] -> t[..p, 2*n] -> t[..p1, 2*a] where num t, [..p1, a] = [..p, n] & [..r]"
    )


def test_arguments_have_plain_sizes():
    assert scheme("def f x w = conv1d (pad{3, 0} x) w") == (
        "t[b, c, h] -> t[o, c, k] -> t[b, o, h + 4 - k] where h >= k - 3, float t"
    )
    assert scheme("def f{k} x = slice{k, 9} x") == (
        "{k} t[..p, n] -> t[..p, 9 - k] where k <= 9, n >= 9, k >= 0"
    )


def test_a_condition_that_an_argument_s_size_shows_is_not_shown_but_checked():
    module = load("def pair w x y = (conv1d{dilation = 2} x w) .+ y")
    assert module["pair"].type == (
        "t[o, c, k] -> t[b, c, 2*k + h - 2] -> t[b, o, h] -> t[b, o, h] where float t"
    )
    with pytest.raises(ContractViolation):
        module["pair"](np.ones((1, 1, 3)), np.ones((1, 1, 4)), np.ones((1, 1, 1)))
