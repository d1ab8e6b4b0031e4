"""Draws that are rounded to an end of their support, full heaps, starts that are impossible."""

from __future__ import annotations

import math

import pytest

from tawa import cuppl
from tawa.cuppl import failures
from tawa.cuppl.distributions import positive, vectors
from tawa.cuppl.inference import tape_natives as tape
from tawa.cuppl.numeric.primitives import Context, new_floats

SHARES = """
def main () =
  let s = sample (exponential 1) in
  let coin () = let p = sample (beta (s / 20.0) (s / 20.0)) in observe (bernoulli p) true; p in
  let first = coin () in
  let second = coin () in
  (s, first, second)
"""


def test_draws_that_are_rounded_to_one_can_be_left_and_reached() -> None:
    """Heads tell nothing about the spread of a coin's bias: its mean stays 1."""
    posterior = cuppl.model(SHARES).mh(40_000, seed=1)
    assert float((posterior["first"] == 1.0).mean()) > 0.3
    mean, error = posterior.expectation("s")
    assert error < 0.06
    assert abs(mean - 1.0) < 4 * error


def test_gradients_reach_log_odds_whose_numbers_are_rounded() -> None:
    model = cuppl.model("def main () = let p = sample (beta 0.05 0.05) in (p, p == 1.0)")
    posterior = model.nuts(1500, warm_up=500, chains=2, seed=2)
    mean, error = posterior.expectation("p")
    assert posterior.diagnostics["divergent"] == 0
    assert error < 0.04
    assert abs(mean - 0.5) < 4 * error
    assert posterior.mean(1) > 0.05


@pytest.mark.parametrize("q", [-3.0, 0.2, 2.5])
def test_densities_of_unconstrained_values_agree_with_those_of_the_values(q: float) -> None:
    x, y = math.exp(q), tape.between(0.0, 1.0, q)
    pairs = [
        (positive.free_gamma(q, 0.7, 2.0), positive.logpdf_gamma(x, 0.7, 2.0) + q),
        (positive.free_chi_squared(q, 3.0), positive.logpdf_chi_squared(x, 3.0) + q),
        (
            positive.free_beta(q, 0.3, 1.4),
            positive.logpdf_beta(y, 0.3, 1.4) + tape.between_density(0.0, 1.0, q),
        ),
        (positive.drawn_gamma(x, 0.7, 2.0), positive.logpdf_gamma(x, 0.7, 2.0)),
        (positive.drawn_beta(y, 0.3, 1.4), positive.logpdf_beta(y, 0.3, 1.4)),
    ]
    assert [a for a, _ in pairs] == pytest.approx([b for _, b in pairs])


def test_the_simplex_in_both_forms() -> None:
    context = Context()
    free, weights = new_floats(context, 2), new_floats(context, 3)
    free[0], free[1] = 0.4, -1.3
    weights[0], weights[1], weights[2] = 0.5, 2.0, 0.8
    point = tape.stick(context, free)
    expected = vectors.logpdf_dirichlet(point, weights)
    assert vectors.drawn_dirichlet(point, weights) == pytest.approx(expected)
    assert vectors.free_dirichlet(free, weights) == pytest.approx(
        expected + tape.stick_density(free)
    )


def test_a_full_heap_inside_the_handler_of_a_shift() -> None:
    """The handler calls nothing that suspends; what it makes is more than the heap holds."""
    model = cuppl.model("""
data Step = Done | Yield(int, () -> Step)
def main () =
  let p = prompt () in
  let yield_ x = shift p (fn k -> Yield (x, k)) in
  let s = reset p (fn () -> yield_ (if flip 0.5 then 1 else 3); yield_ 2; Done) in
  match s with | Done -> 0 | Yield (x, _) -> x end
""")
    assert model.importance(20_000, threads=1).mean() == pytest.approx(2.0, abs=0.03)


def test_gradients_need_a_start_that_is_possible() -> None:
    model = cuppl.model("def main () = let x = sample (normal 0 1) in condition (x == 0.5); x")
    with pytest.raises(failures.AllWeightsZero, match="random starts"):
        model.nuts(10)
