"""The no-U-turn sampler's bookkeeping, and what of it runs as machine code."""

from __future__ import annotations

import numpy as np
import pytest
from tests.work import calls_made

from tawa import cuppl
from tawa.cuppl.inference.nuts import Plan, nuts_chain
from tawa.cuppl.natives import nuts as k
from tawa.cuppl.typing.errors import BadSetting

FUNNEL = """
def main () =
  let v = sample (normal 0 3) in
  let xs = repeat 5 (fn () -> sample (normal 0 (exp (v / 2.0)))) in
  v
"""


def turns(momenta: np.ndarray, metric: np.ndarray) -> bool:
    """Whether a balanced piece, or one of its halves, begins to turn back."""
    half = len(momenta) // 2
    if not half:
        return False
    if turns(momenta[:half], metric) or turns(momenta[half:], metric):
        return True
    across = metric * momenta.sum(0)
    return bool(momenta[0] @ across <= 0 or momenta[-1] @ across <= 0)


@pytest.mark.parametrize("seed", range(6))
def test_pieces_are_those_of_the_recursive_definition(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, metric = 3, random.random(3) + 0.5
    momenta = random.standard_normal((16, n)) + 0.5 * seed
    sums, kept = np.zeros(n), np.zeros(2 * 10 * n)
    for leaf, p in enumerate(momenta):
        k.add_momentum(n, leaf, sums, kept, p)
        sizes = [size for size in (2, 4, 8, 16) if (leaf + 1) % size == 0]
        expected = any(turns(momenta[leaf + 1 - size : leaf + 1], metric) for size in sizes)
        covariance = np.diag(metric).reshape(-1)
        room = np.zeros(2 * n)
        assert k.turned(n, 0, leaf, metric, sums, kept, p, room) == expected
        assert k.turned(n, 1, leaf, covariance, sums, kept, p, room) == expected
        if expected:
            break


def test_chains_are_no_work_for_the_interpreter() -> None:
    density, inputs = cuppl.model(FUNNEL).density()
    steps: list[int] = []

    def chain() -> None:
        steps.append(nuts_chain(density, Plan(50, 50, 1, 0.99)).evaluations)

    chain()
    assert calls_made(chain) < steps[-1] // 2
    assert steps[-1] > 1000
    del inputs


LINE = """
input y : vector[float]
def main () =
  let a = sample (normal 0 10) in
  let b = sample (normal 0 10) in
  iteri (fn i v -> observe (normal (a + b * (100.0 + float i)) 1) v) y;
  (a, b)
"""


def exact_line(y: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the posterior of `LINE`."""
    design = np.stack([np.ones(len(y)), 100.0 + np.arange(len(y))], axis=1)
    covariance = np.linalg.inv(design.T @ design + np.eye(2) / 100.0)
    return covariance @ design.T @ np.array(y), covariance


def test_a_covariance_is_learned() -> None:
    """The two coefficients are correlated by 0.998: a diagonal metric takes far longer."""
    y = [3.0, 1.0, 2.5, 2.0, 4.0, 3.5, 1.5, 2.0]
    mean, covariance = exact_line(y)
    model = cuppl.model(LINE)
    steps: dict[str, int] = {}
    for metric in ("diagonal", "dense"):
        density, block = model.density({"y": y})
        one = nuts_chain(density, Plan(1000, 500, 3, metric=metric))
        steps[metric] = one.evaluations
        draws = one.columns.view(np.float64)
        error = np.abs(draws.mean(1) - mean) / np.sqrt(np.diag(covariance))
        assert error.max() < 0.25
        assert draws.std(1) == pytest.approx(np.sqrt(np.diag(covariance)), rel=0.15)
        assert block is not None
    assert steps["dense"] < steps["diagonal"] / 4


def test_threads_change_nothing() -> None:
    model = cuppl.model(LINE)
    data = {"y": [1.0, 2.0]}
    one, two = (
        model.nuts(150, warm_up=150, chains=2, data=data, threads=t, seed=5) for t in (1, 2)
    )
    assert (one["a"] == two["a"]).all()
    assert not (one["a"][:150] == one["a"][150:]).any()


def test_results_that_hold_vectors() -> None:
    """They stay what they were, however many draws are made after them."""
    posterior = cuppl.model("""
def main () =
  let v = repeat 3 (fn () -> sample (normal 0 1)) in
  (v, Some (v.[0]), sum v)
""").nuts(400, warm_up=100, chains=2)
    for vector, (_, first), total in posterior.values[::50]:
        assert first == vector[0]
        assert total == pytest.approx(sum(vector))


HALF_BOUNDED = {
    "0 (1.0 / 0.0)": 0.7978845608,
    "(-1.0 / 0.0) 0": -0.7978845608,
    "(-1.0 / 0.0) (1.0 / 0.0)": 0.0,
    "(-1) 1": 0.0,
}


@pytest.mark.parametrize("ends", HALF_BOUNDED)
def test_supports_with_one_end(ends: str) -> None:
    model = cuppl.model(f"def main () = sample (truncated_normal 0 1 {ends})")
    mean, error = model.nuts(1000, warm_up=300, chains=2, seed=1).expectation()
    assert error < 0.06
    assert abs(mean - HALF_BOUNDED[ends]) < 4.5 * error


@pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")
def test_deep_recursion() -> None:
    model = cuppl.model("""
def f n = if n == 0 then 0.0 else 1.0 + f (n - 1)
def main () = let x = sample (normal 0 1) in f 5000 + x
""")
    posterior = model.nuts(120, warm_up=30, chains=1)
    assert posterior.mean() == pytest.approx(5000.0, abs=1.0)


def test_an_unknown_metric() -> None:
    with pytest.raises(BadSetting, match="metric"):
        cuppl.model("def main () = sample (normal 0 1)").nuts(10, metric="round")


def test_a_covariance_is_not_learned_of_few_draws() -> None:
    """Of as many draws as values, or fewer, it would say nothing of most directions."""
    model = cuppl.model("def main () = sum (repeat 60 (fn () -> sample (normal 0 1)))")
    density, block = model.density()
    one = nuts_chain(density, Plan(50, 150, 2, metric="dense"))
    assert one.evaluations < 200 * 40
    assert block is not None


def test_statistics_are_a_group_of_arviz() -> None:
    arviz = pytest.importorskip("arviz")
    posterior = cuppl.model(LINE).nuts(200, warm_up=200, chains=2, data={"y": [1.0, 2.0, 2.5]})
    data = posterior.to_inference_data()
    found = data.sample_stats
    assert found["energy"].shape == (2, 200)
    assert int(found["diverging"].sum()) == posterior.diagnostics["divergent"]
    assert 0.6 < float(found["acceptance_rate"].mean()) < 1.0
    assert int(found["n_steps"].min()) >= 1
    before, energy = np.array(found["lp"])[:, :-1], np.array(found["energy"])[:, 1:]
    assert (energy >= -before).all()  # the energy that a transition starts with has a kinetic part
    assert np.allclose(arviz.bfmi(data).min(), posterior.diagnostics["e_bfmi"], rtol=0.05)
