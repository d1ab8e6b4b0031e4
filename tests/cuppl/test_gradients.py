"""Gradients against differences, and how little of a density reaches the tape."""

from __future__ import annotations

import numpy as np
import pytest

from tawa import cuppl
from tawa.cuppl.natives import tape

PROGRAMS = {
    "many families": """
def main () =
  let a = sample (gamma 2 1) in
  let b = sample (beta (a + 0.5) 2) in
  let v = tabulate 3 (fn i -> sample (normal b a)) in
  let d = sample (dirichlet [a, 1.0, 2.0]) in
  observe (student_t (a + 2.0) b d.[1]) (sum v);
  observe (beta_binomial 10 a 2.0) 4;
  observe (negative_binomial a b) 3;
  observe (gamma 2000.0 a) 1500.0;
  observe (von_mises 0.3 a) 0.5; b""",
    "branches and loops": """
def main () =
  let x = sample (normal 0 1) in
  let y = sample (normal x 1) in
  let z = if x * y > 0.3 then exp (x + y) else if y > 0.0 then sqrt (y + 2.0) else x * x in
  let w = range_fold (fn a i -> if i % 2 == 0 then a * x + y else max a (z * z)) (x - y) 7 in
  observe (normal w (1.0 + z * z)) (abs (x - 0.1) + min x y); w""",
    "one name for another": """
def turn a b n = if n == 0 then a - 2.0 * b else turn b (a * b + 0.5) (n - 1)
def main () =
  let x = sample (normal 0 1) in
  let y = sample (normal 0 1) in
  let same = x in
  factor (turn same (same * y) 5 * 0.1); observe (normal (x + same + x * x) 2.0) y; x""",
    "many operands": """
def main () =
  let v = tabulate 12 (fn i -> sample (normal (float i) 1)) in
  let t = v.[0] + v.[1] * v.[2] + v.[3] * v.[4] * v.[5] + v.[6] / v.[7] in
  observe (normal (t + v.[8] * v.[9]) (exp (0.1 * v.[10]))) (v.[11] - t); t""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_those_of_differences(name: str) -> None:
    density, block = cuppl.model(PROGRAMS[name]).density()
    n = density.dimension
    for seed in range(4):
        q = np.random.default_rng(seed).normal(size=n) * 0.4 + 0.2
        _, gradient = density(q)
        moved = [(density(q + h)[0], density(q - h)[0]) for h in np.eye(n) * 1e-6]
        expected = [(above - below) / 2e-6 for above, below in moved]
        assert gradient == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert block is not None


def test_an_observation_costs_a_few_entries_of_the_tape() -> None:
    model = cuppl.model("""
input y : vector[float]
def main () =
  let a = sample (normal 0 1) in
  let b = sample (normal 0 1) in
  let s = sample (half_normal 1) in
  iteri (fn i v -> observe (normal (a + b * float i) s) v) y; a""")
    density, block = model.density(data={"y": [0.5] * 100})
    density(np.array([0.1, 0.2, 0.3]))
    assert density.meter[tape.USED] < 100 * 5
    assert block is not None
