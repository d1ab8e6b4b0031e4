"""Priors that are flat on a line without end, and starts that are no good."""

from __future__ import annotations

import numpy as np
import pytest

from tawa import cuppl
from tawa.cuppl.typing.failures import ImproperPrior, InvalidParameter

MODEL = """
input y : vector[float]
def main () =
  let m = sample (flat (-infinity) infinity) in
  let s = sample (flat 0 infinity) in
  let low = sample (flat (-infinity) 1.0) in
  iter (fn v -> observe (normal m s) v) y;
  observe (exponential 2.0) (1.0 - low);
  (m, s, low)
"""
Y = [1.0, 2.5, 0.5, 3.0, 2.0, 1.5, 2.2, 0.8]


def test_flat_priors_leave_the_likelihood() -> None:
    posterior = cuppl.model(MODEL).nuts(1500, data={"y": Y}, seed=3)
    n, mean, squares = len(Y), np.mean(Y), np.var(Y) * len(Y)
    # The marginal of m is Student's with n - 2 degrees of freedom.
    spread = np.sqrt(squares / (n * (n - 4.0)))
    assert abs(posterior.mean("m") - mean) < 5 * spread / np.sqrt(1500)
    assert posterior.std("m") == pytest.approx(spread, rel=0.15)
    assert posterior.mean("low") == pytest.approx(0.5, abs=0.05)
    assert (posterior["s"] > 0).all()
    assert (posterior["low"] < 1).all()


@pytest.mark.parametrize("method", ["importance", "smc", "mh"])
def test_methods_that_draw_from_the_prior_refuse_it(method: str) -> None:
    with pytest.raises(ImproperPrior, match="improper") as caught:
        getattr(cuppl.model(MODEL), method)(10, data={"y": Y})
    assert caught.value.span is not None
    assert caught.value.span.line == 4


@pytest.mark.parametrize("ends", ["0 1", "infinity infinity", "2 1"])
def test_ends_that_are_no_line(ends: str) -> None:
    with pytest.raises(InvalidParameter, match="uniform"):
        cuppl.model(f"def main () = sample (flat {ends})").importance(1)


ARMA = """
input y : vector[float]
def main () =
  let theta = sample (normal 0 2) in
  let sigma = sample (half_cauchy 2.5) in
  let _ = fold (fn e v ->
    let next = v - theta * e in observe (normal 0 sigma) next; next) 0.0 y in
  (theta, sigma)
"""


def test_chains_do_not_start_where_a_recursion_explodes() -> None:
    noise = np.random.default_rng(5).normal(size=201)
    y = noise[1:] + 0.4 * noise[:-1]
    posterior = cuppl.model(ARMA).nuts(150, warm_up=300, chains=8, data={"y": y}, seed=11)
    chains = posterior["theta"].reshape(8, -1).mean(axis=1)
    assert np.abs(chains - 0.4).max() < 0.25
