"""The built-in distributions and what the compiler and the inference methods know of each."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.cuppl.distributions import (
    continuous,
    correlations,
    discrete,
    matrices,
    ordered,
    positive,
    vectors,
)
from tawa.cuppl.translation.registry import NATIVES

__all__ = ["DISTRIBUTIONS", "Distribution"]

_MODULES = (continuous, correlations, discrete, matrices, ordered, positive, vectors)


@dataclass(frozen=True, slots=True)
class Distribution:
    """One family.

    `parameters` are (name, type) pairs and `value` the type of a draw; the types are `float`,
    `int`, `bool`, `vector float` and `vector int`. `stem` names the natives `sample_stem` and
    `logpdf_stem`; `valid` names the native that checks the parameters, and `requirement` says in
    words what it checks. `support` is `real`, `positive`, `unit`, `interval` (of the first two
    parameters), `line` (the same, an end of which is infinite), `circle`, `finite` or `naturals`,
    and of vectors `reals`, `simplex`, `ordered`, `correlation_factor`, `correlation`,
    `covariance` or `counts`; a finite support has `count_stem` values from `first` (0, or the
    first parameter).
    """

    name: str
    parameters: tuple[tuple[str, str], ...]
    value: str
    stem: str
    valid: str
    requirement: str
    support: str
    first: str = "0"

    @property
    def sample(self) -> str:
        """Name of the native that draws."""
        return f"sample_{self.stem}"

    @property
    def log_density(self) -> str:
        """Name of the native that gives the log density or log probability."""
        return f"logpdf_{self.stem}"

    def accepts(self, *parameters: float) -> bool:
        """Whether these numbers are parameters that it has."""
        return bool(NATIVES[self.valid](*parameters))

    @property
    def improper(self) -> bool:
        """Whether it has a density, but no draws."""
        return self.support == "line"

    @property
    def drawn_density(self) -> str:
        """The same for a value that was drawn, and rounded to an end of the support perhaps.

        There the density may be infinite; `drawn_stem` then gives its mean over what is rounded
        to this value.
        """
        name = f"drawn_{self.stem}"
        return name if name in NATIVES else self.log_density

    @property
    def free_density(self) -> str | None:
        """Name of the native that gives the log density of unconstrained values, if there is one.

        It takes them instead of the value, which is rounded where they are far from 0.
        """
        name = f"free_{self.stem}"
        return name if name in NATIVES else None

    @property
    def count(self) -> str:
        """Name of the native that counts a finite support."""
        return f"count_{self.stem}"


def _family(
    name: str, parameters: str, value: str, valid: str, requirement: str, support: str
) -> Distribution:
    pairs: list[tuple[str, str]] = []
    for item in parameters.split(", "):
        parameter, _, type_ = item.partition(": ")
        pairs.append((parameter, type_ or "float"))
    stem = "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")
    first = "low" if name == "UniformInt" else "0"
    return Distribution(
        name, tuple(pairs), value, stem, f"valid_{valid}", requirement, support, first
    )


_LOCATION_SCALE = ("location_scale", "a finite location and a positive scale")
_TWO = ("two_positive", "two positive numbers")
_LKJ = ("lkj", "n > 0 rows and a concentration > 0")
_WISHART = (
    "df, factor: vector float",
    "vector float",
    "wishart",
    "an n*n Cholesky factor with a positive diagonal, and df > n - 1",
    "covariance",
)

_FAMILIES = (
    _family("Normal", "mean, sd", "float", "location_scale", "sd > 0", "real"),
    _family(
        "Uniform",
        "low, high",
        "float",
        "uniform",
        "low < high, a finite distance apart",
        "interval",
    ),
    _family(
        "Flat",
        "low, high",
        "float",
        "flat",
        "low < high, and at least one end that is infinite (else take `uniform`)",
        "line",
    ),
    _family("Cauchy", "location, scale", "float", *_LOCATION_SCALE, "real"),
    _family("Laplace", "location, scale", "float", *_LOCATION_SCALE, "real"),
    _family("Logistic", "location, scale", "float", *_LOCATION_SCALE, "real"),
    _family("Gumbel", "location, scale", "float", *_LOCATION_SCALE, "real"),
    _family(
        "StudentT", "df, location, scale", "float", "student_t", "df > 0 and scale > 0", "real"
    ),
    _family(
        "TruncatedNormal",
        "mean, sd, low, high",
        "float",
        "truncated_normal",
        "sd > 0, low < high, and an end within 37 sd of the mean",
        "truncated",
    ),
    _family(
        "Triangular",
        "low, mode, high",
        "float",
        "triangular",
        "low <= mode <= high and low < high",
        "bounded",
    ),
    _family(
        "VonMises",
        "mean, concentration",
        "float",
        "von_mises",
        "concentration >= 0 and a mean between -1e7 and 1e7",
        "circle",
    ),
    _family("Exponential", "rate", "float", "positive", "rate > 0", "positive"),
    _family("Gamma", "shape, scale", "float", *_TWO, "positive"),
    _family("InverseGamma", "shape, scale", "float", *_TWO, "positive"),
    _family("ChiSquared", "df", "float", "positive", "df > 0", "positive"),
    _family("LogNormal", "mean, sd", "float", "location_scale", "sd > 0", "positive"),
    _family("Weibull", "shape, scale", "float", *_TWO, "positive"),
    _family("Pareto", "shape, minimum", "float", *_TWO, "above"),
    _family("HalfNormal", "sd", "float", "positive", "sd > 0", "positive"),
    _family("HalfCauchy", "scale", "float", "positive", "scale > 0", "positive"),
    _family("Rayleigh", "scale", "float", "positive", "scale > 0", "positive"),
    _family("Beta", "a, b", "float", *_TWO, "unit"),
    _family("Kumaraswamy", "a, b", "float", *_TWO, "unit"),
    _family("Bernoulli", "p", "bool", "probability", "0 <= p <= 1", "finite"),
    _family("Binomial", "n: int, p", "int", "binomial", "n >= 0 and 0 <= p <= 1", "finite"),
    _family("Poisson", "rate", "int", "rate", "0 <= rate <= 9e18", "naturals"),
    _family("Geometric", "p", "int", "success", "1e-17 <= p <= 1", "naturals"),
    _family(
        "NegativeBinomial",
        "successes, p",
        "int",
        "negative_binomial",
        "successes > 0, 0 < p <= 1, and a mean below 1e17",
        "naturals",
    ),
    _family("UniformInt", "low: int, high: int", "int", "uniform_int", "low <= high", "finite"),
    _family(
        "BetaBinomial", "n: int, a, b", "int", "beta_binomial", "n >= 0, a > 0, b > 0", "finite"
    ),
    _family(
        "Hypergeometric",
        "total: int, good: int, draws: int",
        "int",
        "hypergeometric",
        "0 <= good <= total and 0 <= draws <= total",
        "finite",
    ),
    _family(
        "Categorical",
        "weights: vector float",
        "int",
        "weights",
        "weights that are not negative and not all 0, with a finite sum",
        "finite",
    ),
    _family(
        "Dirichlet",
        "concentration: vector float",
        "vector float",
        "dirichlet",
        "positive concentrations",
        "simplex",
    ),
    _family(
        "Multinomial",
        "n: int, weights: vector float",
        "vector int",
        "multinomial",
        "n >= 0 and weights that are not negative and not all 0, with a finite sum",
        "counts",
    ),
    _family(
        "DiagonalNormal",
        "mean: vector float, sd: vector float",
        "vector float",
        "diagonal_normal",
        "equal lengths and positive scales",
        "reals",
    ),
    _family(
        "MvNormal",
        "mean: vector float, factor: vector float",
        "vector float",
        "mv_normal",
        "an n*n Cholesky factor with a positive diagonal",
        "reals",
    ),
    _family("HalfStudentT", "df, scale", "float", *_TWO, "positive"),
    _family(
        "MvStudentT",
        "df, location: vector float, factor: vector float",
        "vector float",
        "mv_student_t",
        "df > 0 and an n*n Cholesky factor with a positive diagonal",
        "reals",
    ),
    _family(
        "OrderedNormal",
        "n: int, mean, sd",
        "vector float",
        "ordered_normal",
        "n > 0 and sd > 0",
        "ordered",
    ),
    _family(
        "OrderedLogistic",
        "predictor, cutpoints: vector float",
        "int",
        "ordered_logistic",
        "finite cutpoints that ascend",
        "finite",
    ),
    _family("LkjCholesky", "n: int, concentration", "vector float", *_LKJ, "correlation_factor"),
    _family("Lkj", "n: int, concentration", "vector float", *_LKJ, "correlation"),
    _family("Wishart", *_WISHART),
    _family("InverseWishart", *_WISHART),
)

DISTRIBUTIONS: dict[str, Distribution] = {d.name: d for d in _FAMILIES}
"""The families by name."""
