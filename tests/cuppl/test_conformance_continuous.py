from __future__ import annotations

import pytest
from conformance_continuous import CASES, Case

from tawa import cuppl

pytestmark = pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_smc_agrees(case: Case) -> None:
    model = cuppl.model(case.source)
    found = model.smc(20_000, data=case.data, seed=3, threads=1)
    mean, error = found.expectation()
    assert abs(mean - case.mean) < 4.5 * error + 1e-9
    if case.log_evidence is not None:
        distance = abs(found.log_evidence - case.log_evidence)
        assert distance < 4.5 * found.log_evidence_error + 1e-9


@pytest.mark.parametrize("case", [c for c in CASES if c.smooth], ids=lambda c: c.name)
def test_nuts_agrees(case: Case) -> None:
    found = cuppl.model(case.source).nuts(400, warm_up=300, data=case.data, seed=5, chains=2)
    mean, error = found.expectation()
    assert abs(mean - case.mean) < 5 * error + 1e-9
    assert found.r_hat() < 1.1  # type: ignore[attr-defined]


MCMC = ("normal mean", "Kalman filter", "mixture of normals", "Marsaglia's normal", "random sums")


@pytest.mark.parametrize("case", [c for c in CASES if c.name in MCMC], ids=lambda c: c.name)
def test_lightweight_metropolis_hastings_agrees(case: Case) -> None:
    found = cuppl.model(case.source).mh(20_000, data=case.data, seed=2, chains=2)
    mean, error = found.expectation()
    assert abs(mean - case.mean) < 4.5 * error


def test_particle_chains_agree() -> None:
    case = next(c for c in CASES if c.name == "Kalman filter")
    model = cuppl.model(case.source)
    for method in (model.pimh, model.particle_gibbs):
        found = method(600, particles=30, data=case.data, seed=4)
        mean, error = found.expectation()
        assert abs(mean - case.mean) < 4.5 * error


def test_particle_marginal_chain_agrees() -> None:
    # theta ~ N(0, 4) at the start of the walk: then y1 ~ N(theta, 1.25), and so on. By symmetry of
    # the joint normal, its posterior mean solves a small linear system.
    import numpy as np

    ys = np.array([0.3, 1.0, 2.2, 1.7])
    steps = np.minimum.outer(np.arange(1, 5), np.arange(1, 5)).astype(float)
    cov = 4.0 + steps + 0.25 * np.eye(4)
    exact = float(4.0 * np.ones(4) @ np.linalg.solve(cov, ys))
    model = cuppl.model("""
input ys : vector[float]
input theta : float
def prior () = sample (normal 0 2)
def step s y = let n = sample (normal s 1) in observe (normal n 0.5) y; n
def main () = fold step theta ys
""")
    found = model.pmmh(1500, particles=30, data={"ys": ys}, seed=1)
    mean, error = found.expectation()
    assert abs(mean - exact) < 4.5 * error
