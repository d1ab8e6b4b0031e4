"""Every distribution against SciPy: densities at many points, moments and shape of the draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from native_calls import Natives

from tawa.cuppl.distributions import DISTRIBUTIONS

stats = pytest.importorskip("scipy.stats")

SCALAR: dict[str, list[tuple[tuple[float, ...], Any]]] = {
    "Normal": [((1.0, 2.0), stats.norm(1, 2))],
    "Uniform": [((-1.0, 3.0), stats.uniform(-1, 4))],
    "Cauchy": [((0.5, 2.0), stats.cauchy(0.5, 2))],
    "Laplace": [((0.5, 2.0), stats.laplace(0.5, 2))],
    "Logistic": [((0.5, 2.0), stats.logistic(0.5, 2))],
    "Gumbel": [((0.5, 2.0), stats.gumbel_r(0.5, 2))],
    "StudentT": [((4.0, 1.0, 2.0), stats.t(4, 1, 2)), ((0.7, 0.0, 1.0), stats.t(0.7))],
    "TruncatedNormal": [
        ((0.0, 1.0, -1.0, 2.0), stats.truncnorm(-1, 2)),
        ((0.0, 1.0, 5.0, 9.0), stats.truncnorm(5, 9)),
        ((0.0, 1.0, -9.0, -6.0), stats.truncnorm(-9, -6)),
    ],
    "Triangular": [((0.0, 1.0, 4.0), stats.triang(0.25, 0, 4))],
    "VonMises": [((0.5, 2.0), stats.vonmises(2, 0.5)), ((0.0, 50.0), stats.vonmises(50))],
    "Exponential": [((2.0,), stats.expon(0, 0.5))],
    "Gamma": [((2.5, 2.0), stats.gamma(2.5, 0, 2)), ((0.3, 1.0), stats.gamma(0.3))],
    "InverseGamma": [((3.0, 2.0), stats.invgamma(3, 0, 2))],
    "ChiSquared": [((3.0,), stats.chi2(3))],
    "LogNormal": [((0.5, 0.7), stats.lognorm(0.7, 0, math.exp(0.5)))],
    "Weibull": [((1.5, 2.0), stats.weibull_min(1.5, 0, 2))],
    "Pareto": [((3.0, 2.0), stats.pareto(3, 0, 2))],
    "HalfNormal": [((2.0,), stats.halfnorm(0, 2))],
    "HalfCauchy": [((2.0,), stats.halfcauchy(0, 2))],
    "Rayleigh": [((2.0,), stats.rayleigh(0, 2))],
    "Beta": [((2.0, 3.0), stats.beta(2, 3)), ((0.2, 0.1), stats.beta(0.2, 0.1))],
    "Bernoulli": [((0.3,), stats.bernoulli(0.3))],
    "Binomial": [
        ((10, 0.3), stats.binom(10, 0.3)),
        ((1000, 0.7), stats.binom(1000, 0.7)),
        ((5, 0.0), stats.binom(5, 0.0)),
    ],
    "Poisson": [((3.5,), stats.poisson(3.5)), ((200.0,), stats.poisson(200))],
    "Geometric": [((0.3,), stats.geom(0.3, -1))],
    "NegativeBinomial": [((3.5, 0.4), stats.nbinom(3.5, 0.4))],
    "UniformInt": [((-2, 5), stats.randint(-2, 6))],
    "BetaBinomial": [((10, 2.0, 3.0), stats.betabinom(10, 2, 3))],
    "Hypergeometric": [((20, 7, 12), stats.hypergeom(20, 7, 12))],
}
CASES = [
    pytest.param(name, parameters, law, id=f"{name}{parameters}")
    for name, settings in SCALAR.items()
    for parameters, law in settings
]
DRAWS = 4000


@pytest.fixture(scope="module")
def natives() -> Natives:
    return Natives(
        sorted(
            {n for d in DISTRIBUTIONS.values() for n in (d.sample, d.log_density, d.valid)}
            | {
                d.count
                for d in DISTRIBUTIONS.values()
                if d.support == "finite" and d.value == "int"
            }
            | {"cholesky"}
        )
    )


def draws(natives: Natives, name: str, parameters: tuple[Any, ...]) -> np.ndarray:
    family = DISTRIBUTIONS[name]
    out = []
    for particle in range(DRAWS):
        natives.reset(seed=11, particle=particle)
        out.append(natives(family.sample, *parameters))
    return np.array(out)


def test_there_are_enough_and_all_are_tested() -> None:
    vectors = {"Categorical", "Dirichlet", "Multinomial", "DiagonalNormal", "MvNormal"}
    matrices = {"MvStudentT", "Lkj", "LkjCholesky", "Wishart", "InverseWishart"}
    others = {"Flat", "Kumaraswamy", "HalfStudentT", "OrderedNormal", "OrderedLogistic"}
    assert set(SCALAR) | vectors | matrices | others == set(DISTRIBUTIONS)
    assert len(DISTRIBUTIONS) >= 25


@pytest.mark.parametrize(("name", "parameters", "law"), CASES)
def test_log_density(name: str, parameters: tuple[float, ...], law: Any, natives: Natives) -> None:
    family = DISTRIBUTIONS[name]
    discrete = hasattr(law.dist, "pmf")
    if discrete:
        points: list[float] = [int(v) for v in np.unique(law.rvs(50, random_state=1))] + [-5, 9999]
    else:
        points = [*law.ppf(np.linspace(0.001, 0.999, 41)), law.median() + 50.0]
    if name == "VonMises":
        points = list(np.linspace(-3.1, 3.1, 21))
    for x in points:
        argument = bool(x) if family.value == "bool" else x
        if family.value == "bool" and x not in (0, 1):
            continue
        expected = float(law.logpmf(x) if discrete else law.logpdf(x))
        found = natives(family.log_density, argument, *parameters)
        if math.isinf(expected):
            assert found == expected
        else:
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9), x


@pytest.mark.parametrize(("name", "parameters", "law"), CASES)
def test_draws(name: str, parameters: tuple[float, ...], law: Any, natives: Natives) -> None:
    values = draws(natives, name, parameters).astype(float)
    if hasattr(law.dist, "pmf"):
        for k in np.unique(values):
            share, p = float((values == k).mean()), float(law.pmf(k))
            assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / DRAWS) + 1e-9, k
        return
    law_cdf = law.cdf
    if name == "VonMises":

        def law_cdf(x: np.ndarray) -> np.ndarray:
            return law.cdf(x) - law.cdf(-math.pi)

    # Smirnov's statistic at a level of about 1e-5; the streams are fixed.
    statistic = float(stats.kstest(values, law_cdf).statistic)
    assert statistic < 2.4 / math.sqrt(DRAWS)


def test_kumaraswamy(natives: Natives) -> None:
    values = draws(natives, "Kumaraswamy", (2.0, 3.0))
    statistic = stats.kstest(values, lambda x: 1 - (1 - x**2) ** 3).statistic
    assert statistic < 2.4 / math.sqrt(DRAWS)
    density = natives("logpdf_kumaraswamy", 0.3, 2.0, 3.0)
    assert density == pytest.approx(math.log(6 * 0.3 * (1 - 0.09) ** 2))


def test_categorical(natives: Natives) -> None:
    weights = np.array([1.0, 0.0, 3.0])
    values = draws(natives, "Categorical", (weights,))
    assert set(values) == {0, 2}
    assert abs((values == 2).mean() - 0.75) < 0.03
    assert natives("logpdf_categorical", 2, weights) == pytest.approx(math.log(0.75))
    assert natives("logpdf_categorical", 3, weights) == -math.inf


def test_dirichlet(natives: Natives) -> None:
    alpha = np.array([0.5, 2.0, 3.0])
    values = draws(natives, "Dirichlet", (alpha,)).view(np.float64)
    assert np.allclose(values.sum(axis=1), 1.0)
    assert np.allclose(values.mean(axis=0), alpha / alpha.sum(), atol=0.02)
    x = np.array([0.2, 0.3, 0.5])
    expected = stats.dirichlet(alpha).logpdf(x)
    assert natives("logpdf_dirichlet", x, alpha) == pytest.approx(expected)


def test_multinomial(natives: Natives) -> None:
    weights = np.array([0.2, 0.3, 0.5])
    values = draws(natives, "Multinomial", (9, weights))
    assert (values.sum(axis=1) == 9).all()
    assert np.allclose(values.mean(axis=0), 9 * weights, atol=0.12)
    x = np.array([2, 3, 4])
    expected = stats.multinomial(9, weights).logpmf(x)
    assert natives("logpdf_multinomial", x, 9, weights) == pytest.approx(expected)


def test_normals_in_many_dimensions(natives: Natives) -> None:
    mean, cov = np.array([1.0, -1.0]), np.array([[2.0, 0.6], [0.6, 1.0]])
    natives.reset()
    factor = natives("cholesky", cov.reshape(-1), 2).view(np.float64)
    assert np.allclose(factor.reshape(2, 2), np.linalg.cholesky(cov))
    values = draws(natives, "MvNormal", (mean, factor)).view(np.float64)
    assert np.allclose(np.cov(values.T), cov, atol=0.15)
    x = np.array([0.5, 0.2])
    natives.reset()
    expected = stats.multivariate_normal(mean, cov).logpdf(x)
    assert natives("logpdf_mv_normal", x, mean, factor) == pytest.approx(expected)
    sd = np.array([1.0, 2.0])
    expected = stats.norm(mean, sd).logpdf(x).sum()
    assert natives("logpdf_diagonal_normal", x, mean, sd) == pytest.approx(expected)


FACTOR = np.array([1.4, 0.0, 0.0, 0.3, 0.9, 0.0, -0.5, 0.2, 1.1])


def test_student_t_in_many_dimensions(natives: Natives) -> None:
    mean, factor = np.array([1.0, -1.0, 0.5]), FACTOR
    scale = factor.reshape(3, 3) @ factor.reshape(3, 3).T
    x = np.array([0.5, 0.2, 3.0])
    natives.reset()
    expected = stats.multivariate_t(mean, scale, df=4.5).logpdf(x)
    assert natives("logpdf_mv_student_t", x, 4.5, mean, factor) == pytest.approx(expected)
    values = draws(natives, "MvStudentT", (4.5, mean, factor)).view(np.float64)
    law = stats.t(4.5, mean[2], math.sqrt(scale[2, 2]))
    assert stats.kstest(values[:, 2], law.cdf).statistic < 2.4 / math.sqrt(DRAWS)
    natives.reset()
    normal = stats.multivariate_normal(mean, scale).logpdf(x)
    far = natives("logpdf_mv_student_t", x, 1e12, mean, factor)
    assert far == pytest.approx(normal, abs=1e-6)
    pairs = stats.spearmanr(values[:, 0], values[:, 2]).statistic
    assert abs(pairs - scale[0, 2] / math.sqrt(scale[0, 0] * scale[2, 2])) < 0.06


@pytest.mark.parametrize("name", ["Wishart", "InverseWishart"])
def test_wishart(name: str, natives: Natives) -> None:
    scale = FACTOR.reshape(3, 3) @ FACTOR.reshape(3, 3).T
    law = (stats.wishart if name == "Wishart" else stats.invwishart)(df=7.5, scale=scale)
    for x in law.rvs(5, random_state=2):
        natives.reset()
        found = natives(DISTRIBUTIONS[name].log_density, x.reshape(-1), 7.5, FACTOR)
        assert found == pytest.approx(law.logpdf(x), rel=1e-9)
    values = draws(natives, name, (7.5, FACTOR)).view(np.float64)
    error = 6 * values.std(axis=0) / math.sqrt(DRAWS)
    assert (abs(values.mean(axis=0) - law.mean().reshape(-1)) < error).all()
    natives.reset()
    assert (
        natives(DISTRIBUTIONS[name].log_density, -np.eye(3).reshape(-1), 7.5, FACTOR) == -math.inf
    )


def test_correlations(natives: Natives) -> None:
    values = draws(natives, "Lkj", (3, 1.5)).view(np.float64)
    # Each correlation is a beta between -1 and 1, with both shapes concentration + (n - 2) / 2.
    for cell in (1, 2, 5):
        law = stats.beta(2.0, 2.0, -1, 2)
        assert stats.kstest(values[:, cell], law.cdf).statistic < 2.4 / math.sqrt(DRAWS)
    matrix = values[7].reshape(3, 3)
    natives.reset()
    found = natives("logpdf_lkj", values[7], 3, 1.5)
    first, second = stats.beta(2.0, 2.0, -1, 2), stats.beta(1.5, 1.5, -1, 2)
    partial = matrix[1, 2] - matrix[0, 1] * matrix[0, 2]
    spread = math.sqrt((1 - matrix[0, 1] ** 2) * (1 - matrix[0, 2] ** 2))
    expected = first.logpdf(matrix[0, 1]) + first.logpdf(matrix[0, 2])
    expected += second.logpdf(partial / spread) - math.log(spread)
    assert found == pytest.approx(expected, rel=1e-9)
    natives.reset()
    factor = natives("cholesky", values[7], 3).view(np.float64)
    # The cells below the diagonal: R is linear in them but for the products with the diagonal.
    of_factor = natives("logpdf_lkj_cholesky", factor, 3, 1.5)
    assert of_factor == pytest.approx(found + math.log(factor.reshape(3, 3)[1, 1]), rel=1e-9)


def test_half_student_t_and_ordered(natives: Natives) -> None:
    values = draws(natives, "HalfStudentT", (3.0, 2.0))
    law = stats.t(3, 0, 2)
    statistic = stats.kstest(values, lambda x: 2 * law.cdf(x) - 1).statistic
    assert statistic < 2.4 / math.sqrt(DRAWS)
    found = natives("logpdf_half_student_t", 1.3, 3.0, 2.0)
    assert found == pytest.approx(law.logpdf(1.3) + math.log(2))
    values = draws(natives, "OrderedNormal", (4, 1.0, 2.0)).view(np.float64)
    assert (np.diff(values, axis=1) > 0).all()
    shares = stats.norm(1, 2).cdf(values)
    for k in range(4):
        statistic = stats.kstest(shares[:, k], stats.beta(k + 1, 4 - k).cdf).statistic
        assert statistic < 2.4 / math.sqrt(DRAWS)
    density = natives("logpdf_ordered_normal", values[0], 4, 1.0, 2.0)
    assert density == pytest.approx(math.log(24) + stats.norm(1, 2).logpdf(values[0]).sum())
    cut = np.array([-1.0, 0.5, 2.5])
    levels = draws(natives, "OrderedLogistic", (0.4, cut))
    sums = [0.0, *stats.logistic(0.4).cdf(cut), 1.0]
    for k, p in enumerate(np.diff(sums)):
        assert natives("logpdf_ordered_logistic", k, 0.4, cut) == pytest.approx(math.log(p))
        assert abs(float((levels == k).mean()) - p) < 5 * math.sqrt(p * (1 - p) / DRAWS)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("Normal", (0.0, -1.0)), ("Normal", (0.0, 0.0)), ("Normal", (math.nan, 1.0)),
        ("Uniform", (1.0, 1.0)), ("Gamma", (0.0, 1.0)), ("Beta", (1.0, -2.0)),
        ("Bernoulli", (1.5,)), ("Bernoulli", (math.nan,)), ("Binomial", (-1, 0.5)),
        ("Poisson", (-1.0,)), ("Geometric", (0.0,)), ("UniformInt", (3, 2)),
        ("Categorical", (np.array([0.0, 0.0]),)), ("Categorical", (np.array([-1.0, 2.0]),)),
        ("Dirichlet", (np.array([1.0, 0.0]),)), ("TruncatedNormal", (0.0, 1.0, 2.0, 1.0)),
        ("MvNormal", (np.array([0.0]), np.array([-1.0]))),
        ("Wishart", (1.0, FACTOR)), ("Lkj", (0, 1.0)), ("LkjCholesky", (3, 0.0)),
        ("OrderedNormal", (0, 0.0, 1.0)), ("OrderedLogistic", (0.0, np.array([1.0, 1.0]))),
        ("MvStudentT", (0.0, np.array([0.0]), np.array([1.0]))),
    ],
)  # fmt: skip
def test_bad_parameters_are_refused(name: str, bad: tuple[Any, ...], natives: Natives) -> None:
    assert natives(DISTRIBUTIONS[name].valid, *bad) is False
