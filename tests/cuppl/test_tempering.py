"""Tempering, by exact answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tawa import cuppl
from tawa.cuppl.typing.failures import AllWeightsZero

NARROW = """
input y : vector[float]
def main () = let m = sample (normal 0 10) in iter (fn v -> observe (normal m 0.1) v) y; m
"""
Y = 3.0 + 0.1 * np.random.default_rng(0).normal(size=20)
FINITE = {
    "any number of choices": "def leaves () = if flip 0.15 then leaves () + leaves () else 1\n"
    "def main () = let n = leaves () in condition (n < 4 && n > 1); observe (poisson (float n)) 6; n",
    "lists and prompts": "def main () = let p = prompt () in\n"
    "  let x = reset p (fn () -> let c = flip 0.3 in shift p (fn k -> if c then k 1 + k 2 else k 5)) in\n"
    "  observe (normal (float x) 1) 3; Cons (x, Nil)",
    "two modes": "def main () = let k = sample (uniform_int 0 60) in\n"
    "  factor (0.0 - 2.0 * float (min (abs (k - 7)) (1 + abs (k - 52)))); k",
    "vectors": "def main () = let v = repeat 3 (fn () -> flip 0.5) in\n"
    "  let n = count (fn c -> c) v in factor (3.0 * float n); v",
}


def test_a_posterior_far_narrower_than_the_prior() -> None:
    covariance = 100.0 * np.ones((20, 20)) + 0.01 * np.eye(20)
    solved = np.linalg.solve(covariance, Y)
    exact = -0.5 * (Y @ solved + np.linalg.slogdet(2.0 * math.pi * covariance)[1])
    found = cuppl.model(NARROW).tempered(600, data={"y": Y}, seed=1)
    assert abs(found.log_evidence - exact) < 4.0 * found.log_evidence_error < 1.5
    assert found.mean("m") == pytest.approx(100.0 * solved.sum(), abs=0.008)
    assert found["m"].std() == pytest.approx(0.1 / math.sqrt(20.0), rel=0.25)
    assert found.diagnostics["powers"] > 3


def test_what_walks_stays_in_its_support() -> None:
    """A rate that is known from one count: its posterior is a gamma distribution."""
    count, shape, scale = 150, 2.0, 50.0
    model = cuppl.model(
        f"def main () = let l = sample (gamma {shape} {scale}) in observe (poisson l) {count}; l"
    )
    found = model.tempered(400, seed=4)
    exact = math.lgamma(shape + count) - math.lgamma(shape) - math.lgamma(count + 1.0)
    exact += count * math.log(scale) - (count + shape) * math.log(1.0 + scale)
    assert abs(found.log_evidence - exact) < 4.0 * found.log_evidence_error < 1.5
    mean = (shape + count) * scale / (1.0 + scale)
    sd = math.sqrt(shape + count) * scale / (1.0 + scale)
    assert abs(found.mean("l") - mean) < 0.3 * sd
    assert found["l"].std() == pytest.approx(sd, rel=0.25)
    assert found["l"].min() > 0
    assert found.diagnostics["accepted"] > 0.3


@pytest.mark.parametrize("name", FINITE)
def test_it_agrees_with_enumeration(name: str) -> None:
    model = cuppl.model(FINITE[name])
    exact = model.enumerate(tolerance=1e-9)
    found = model.tempered(800, seed=2)
    assert abs(found.log_evidence - exact.log_evidence) < 4.0 * found.log_evidence_error + 1e-9
    right, given = exact.probabilities(), found.probabilities()
    # A part of the particles are copies of others that have moved only a little.
    worst = max(abs(given.get(v, 0.0) - p) / math.sqrt(p + 0.01) for v, p in right.items())
    assert worst < 0.15
    assert set(given) <= set(right)


def test_runs_of_weight_0_are_lost_at_once() -> None:
    rare = cuppl.model("def main () = condition (flip 0.02); factor 2.0; flip 0.5")
    found = rare.tempered(2000)
    assert abs(found.log_evidence - (2.0 + math.log(0.02))) < 4.0 * found.log_evidence_error
    with pytest.raises(AllWeightsZero):
        cuppl.model("def main () = condition false; 1").tempered(10)


@pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")
def test_threads_change_nothing() -> None:
    model = cuppl.model(NARROW)
    one, two = (model.tempered(60, data={"y": Y}, seed=3, threads=t) for t in (1, 2))
    assert (one["m"] == two["m"]).all()
    assert one.log_evidence == two.log_evidence
