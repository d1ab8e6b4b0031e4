"""What a posterior says of observations: likelihoods one by one, predictions, ArviZ's groups."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tawa import cuppl
from tawa.cuppl.typing.errors import NoColumn, UnsupportedMethod

pytestmark = pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")
SCHOOLS = """
input y : vector[float]
input sigma : vector[float]
def main () =
  let mu = sample (normal 0 5) in
  let tau = sample (half_cauchy 5) in
  let z = repeat 3 (fn () -> sample (normal 0 1)) in
  let theta = map (fn e -> mu + tau * e) z in
  iteri (fn i v -> observe (normal theta.[i] sigma.[i]) v) y;
  observe (poisson tau) 3;
  (mu, theta)
"""
DATA = {"y": [28.0, 8.0, -3.0], "sigma": [15.0, 10.0, 16.0]}


@pytest.fixture(scope="module")
def schools() -> cuppl.Posterior:
    return cuppl.model(SCHOOLS).nuts(200, warm_up=200, chains=2, data=DATA, seed=1)


def test_likelihoods_are_those_of_the_draws(schools: cuppl.Posterior) -> None:
    found = schools.observations()
    assert list(found) == ["y", "observed"]
    y, sigma = np.array(DATA["y"]), np.array(DATA["sigma"])
    theta = schools["theta"].reshape(2, 200, 3)
    z = (y - theta) / sigma
    expected = -0.5 * z * z - np.log(sigma) - 0.5 * math.log(2 * math.pi)
    assert found["y"].log_likelihood == pytest.approx(expected, abs=1e-12)
    assert (found["y"].observed == y).all()
    assert found["observed"].observed.tolist() == [3]
    away = (found["y"].predicted - theta) / sigma
    assert abs(away.mean()) < 0.1
    assert abs(away.std() - 1.0) < 0.1
    assert found["observed"].predicted.dtype == np.int64


def test_vectors_are_observed_as_wholes() -> None:
    text = (
        "input rows : vector[vector[float]]\n"
        "def main () = let m = sample (normal 0 1) in\n"
        "  iter (fn r -> observe (diagonal_normal [m, 0.0] [1.0, 2.0]) r) rows; m"
    )
    posterior = cuppl.model(text).hmc(50, warm_up=50, chains=1, data={"rows": [[1, 2], [3, 4]]})
    (found,) = posterior.observations().values()
    assert found.log_likelihood.shape == (1, 50, 2)
    assert found.predicted.shape == (1, 50, 2, 2)
    assert found.observed.tolist() == [[1, 2], [3, 4]]


def test_vectors_of_several_lengths_are_no_array() -> None:
    text = (
        "input v : vector[vector[float]]\n"
        "def main () = let x = sample (normal 0 1) in\n"
        "  iter (fn r -> observe (diagonal_normal (map (fn _ -> x) r) r) r) v; x"
    )
    posterior = cuppl.model(text).nuts(20, warm_up=20, chains=1, data={"v": [[1.0, 2.0], [3.0]]})
    with pytest.raises(UnsupportedMethod, match="several lengths"):
        posterior.observations()
    none = cuppl.model("def main () = sample (normal 0 1)").nuts(20, warm_up=20, chains=1)
    assert none.observations() == {}


def test_where_there_are_none() -> None:
    text = "def main () = let x = sample (normal 0 1) in observe (normal x 1) 1; [x, x]"
    with pytest.raises(UnsupportedMethod, match="keeps no choices"):
        cuppl.model(text).importance(100).observations()
    changing = (
        "def main () = let x = sample (normal 0 1) in\n"
        "  observe (normal x 1) 1; (if x > 0.5 then observe (normal x 1) 1 else ()); x"
    )
    posterior = cuppl.model(changing).nuts(100, warm_up=100, chains=1)
    with pytest.raises(UnsupportedMethod, match="differs between draws"):
        posterior.observations()


def test_parts_that_are_vectors_are_arrays() -> None:
    text = (
        "def main () = let x = sample (normal 0 1) in (x, [x, 2.0 * x], matrix 1 2 (fn i j -> x))"
    )
    posterior = cuppl.model(text).importance(100)
    arrays = list(posterior.arrays.values())
    assert [a.shape for a in arrays] == [(100,), (100, 2), (100, 1, 2)]
    assert (arrays[1][:, 1] == 2 * arrays[0]).all()
    with pytest.raises(NoColumn, match="a vector or a matrix in each draw"):
        posterior.mean("1")


def test_arviz_gets_all_groups(schools: cuppl.Posterior) -> None:
    arviz = pytest.importorskip("arviz")
    data = schools.to_inference_data()
    wanted = {
        "posterior",
        "sample_stats",
        "log_likelihood",
        "posterior_predictive",
        "observed_data",
    }
    assert wanted <= set(data.groups())
    assert data.posterior["theta"].shape == (2, 200, 3)
    assert math.isfinite(float(arviz.loo(data, var_name="y").elpd_loo))
