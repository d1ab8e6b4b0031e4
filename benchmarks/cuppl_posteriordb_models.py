"""Posteriors of posteriordb as CuPPL programs, with what each quantity is called in its database.

A model takes the database's data under the names that the program declares; what Stan computes in
`transformed data` is computed by `prepared`. Parameters without a prior in Stan are `flat` here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["MODELS", "Model"]

Data = dict[str, Any]


@dataclass(frozen=True)
class Model:
    """A program, how its data are made of the database's, and the names of its results."""

    program: str
    prepared: Callable[[Data], Data]
    quantities: tuple[str, ...]


def _names(stem: str, count: int) -> tuple[str, ...]:
    return tuple(f"{stem}[{k + 1}]" for k in range(count))


LINE = "(flat (-infinity) infinity)"
HALF = "(flat 0 infinity)"
CAUCHY = "(half_cauchy 2.5)"
LOG_SUM = "def log_sum a b = max a b + log1p (exp (-(abs (a - b))))\n"


def regression(
    slopes: int, columns: Callable[[Data], list[Any]], outcome: Callable[[Data], Any],
    slope: str = LINE, deviation: str = HALF,
) -> Model:  # fmt: skip
    """A linear regression; its columns begin with the intercept's."""
    program = f"""
input x : matrix
input y : vector[float]
def main () =
  let beta = repeat {slopes} (fn () -> sample {slope}) in
  let sigma = sample {deviation} in
  let mean = x @ beta in
  iteri (fn i v -> observe (normal mean.[i] sigma) v) y;
  (beta, sigma)
"""

    def prepared(data: Data) -> Data:
        y = np.asarray(outcome(data), float)
        ones = np.ones(len(y))
        return {"x": np.stack([ones, *(np.asarray(c, float) for c in columns(data))], 1), "y": y}

    return Model(program, prepared, (*_names("beta", slopes), "sigma"))


def _of(*names: str) -> Callable[[Data], list[Any]]:
    return lambda d: [np.asarray(d[n], float) for n in names]


def _log(name: str) -> Callable[[Data], Any]:
    return lambda d: np.log(np.asarray(d[name], float))


def _scaled(values: Any, by: float = 1.0) -> Any:
    values = np.asarray(values, float)
    return (values - values.mean()) / (by * values.std(ddof=1))


def _with_product(a: Any, b: Any) -> list[Any]:
    return [a, b, a * b]


def _scores(change: Callable[[Any, Any], tuple[Any, Any]], deviation: str = HALF) -> Model:
    """Scores of children by their mothers' schooling and intelligence, and the product of both."""

    def columns(d: Data) -> list[Any]:
        return _with_product(
            *change(np.asarray(d["mom_hs"], float), np.asarray(d["mom_iq"], float))
        )

    return regression(4, columns, lambda d: d["kid_score"], deviation=deviation)


def _is(name: str, values: tuple[int, ...]) -> Callable[[Data], list[Any]]:
    return lambda d: [np.asarray(d[name]) == v for v in values]


def _shrubs(*parts: str) -> Model:
    """The logarithm of mesquite's weight by those of some measures, and by the group perhaps."""

    def columns(d: Data) -> list[Any]:
        measures = {
            "volume": d["diam1"] * d["diam2"] * d["canopy_height"],
            "area": d["diam1"] * d["diam2"],
            "shape": d["diam1"] / d["diam2"],
            **d,
        }
        return [measures[p] if p == "group" else np.log(measures[p]) for p in parts]

    def arrays(d: Data) -> list[Any]:
        return columns({k: np.asarray(v, float) for k, v in d.items()})

    return regression(1 + len(parts), arrays, _log("weight"))


def _voters(d: Data) -> list[Any]:
    ages = _is("age_discrete", (2, 3, 4))(d)
    return [*_of("real_ideo", "race_adj")(d), *ages, *_of("educ1", "gender", "income")(d)]


def _keep(*names: str) -> Callable[[Data], Data]:
    return lambda d: {n: np.asarray(d[n]) for n in names}


SCHOOLS = _keep("y", "sigma")

CENTERED = Model("""
input y : vector[float]
input sigma : vector[float]
def main () =
  let mu = sample (normal 0 5) in
  let tau = sample (half_cauchy 5) in
  let theta = repeat 8 (fn () -> sample (normal mu tau)) in
  iteri (fn j v -> observe (normal theta.[j] sigma.[j]) v) y;
  (theta, mu, tau)
""", SCHOOLS, (*_names("theta", 8), "mu", "tau"))  # fmt: skip

NONCENTERED = Model("""
input y : vector[float]
input sigma : vector[float]
def main () =
  let mu = sample (normal 0 5) in
  let tau = sample (half_cauchy 5) in
  let theta = map (fn z -> mu + tau * z) (repeat 8 (fn () -> sample (normal 0 1))) in
  iteri (fn j v -> observe (normal theta.[j] sigma.[j]) v) y;
  (theta, mu, tau)
""", SCHOOLS, (*_names("theta", 8), "mu", "tau"))  # fmt: skip

ARK = Model("""
input y : vector[float]
def main () =
  let alpha = sample (normal 0 10) in
  let beta = repeat 5 (fn () -> sample (normal 0 10)) in
  let sigma = sample (half_cauchy 2.5) in
  range_fold (fn () t ->
    let mean = range_fold (fn m k -> m + beta.[k] * y.[t + 4 - k]) alpha 5 in
    observe (normal mean sigma) y.[t + 5]) () (length y - 5);
  (alpha, beta, sigma)
""", _keep("y"), ("alpha", *_names("beta", 5), "sigma"))  # fmt: skip

ARMA = Model("""
input y : vector[float]
def main () =
  let mu = sample (normal 0 10) in
  let phi = sample (normal 0 2) in
  let theta = sample (normal 0 2) in
  let sigma = sample (half_cauchy 2.5) in
  let first = y.[0] - (mu + phi * mu) in
  observe (normal 0 sigma) first;
  let _ = range_fold (fn e t ->
    let next = y.[t + 1] - (mu + phi * y.[t] + theta * e) in
    observe (normal 0 sigma) next;
    next) first (length y - 1) in
  (mu, phi, theta, sigma)
""", _keep("y"), ("mu", "phi", "theta", "sigma"))  # fmt: skip

GARCH = Model("""
input y : vector[float]
input sigma1 : float
def main () =
  let mu = sample (flat (-infinity) infinity) in
  let a0 = sample (flat 0 infinity) in
  let a1 = sample (uniform 0 1) in
  let b1 = sample (uniform 0 (1.0 - a1)) in
  factor (log (1.0 - a1));
  observe (normal mu sigma1) y.[0];
  let _ = range_fold (fn s t ->
    let e = y.[t] - mu in
    let next = sqrt (a0 + a1 * e * e + b1 * s * s) in
    observe (normal mu next) y.[t + 1];
    next) sigma1 (length y - 1) in
  (mu, a0, a1, b1)
""", _keep("y", "sigma1"), ("mu", "alpha0", "alpha1", "beta1"))  # fmt: skip


def _drives(emission: str, first: str) -> Model:
    """Two hidden states, each with a simplex of its own; `first` bounds the lower of two values."""
    program = f"""
input u : vector[float]
input v : vector[float]
input alpha : vector[vector[float]]
{LOG_SUM}
def main () =
  let t1 = sample (dirichlet alpha.[0]) in
  let t2 = sample (dirichlet alpha.[1]) in
  let phi1 = sample {first} in
  let phi2 = sample (flat phi1 infinity) in
  let lambda1 = sample {first} in
  let lambda2 = sample (flat lambda1 infinity) in
  factor (log_density (normal 0 1) phi1 + log_density (normal 3 1) phi2);
  factor (log_density (normal 0 1) lambda1 + log_density (normal 3 1) lambda2);
  let seen1 t = {emission.format(1)} in
  let seen2 t = {emission.format(2)} in
  let stay1 = log t1.[0] in let leave1 = log t1.[1] in
  let leave2 = log t2.[0] in let stay2 = log t2.[1] in
  let (a, b) = range_fold (fn (a, b) s ->
    let t = s + 1 in
    (log_sum (a + stay1) (b + leave2) + seen1 t, log_sum (a + leave1) (b + stay2) + seen2 t))
    (seen1 0, seen2 0) (length u - 1) in
  factor (log_sum a b);
  (t1, t2, [phi1, phi2], [lambda1, lambda2])
"""
    names = [name for stem in ("theta1", "theta2", "phi", "lambda") for name in _names(stem, 2)]
    return Model(program, _keep("u", "v", "alpha"), tuple(names))


HIDDEN = Model(f"""
input y : vector[float]
{LOG_SUM}
def main () =
  let t1 = sample (dirichlet [1.0, 1.0]) in
  let t2 = sample (dirichlet [1.0, 1.0]) in
  let m1 = sample (flat 0 infinity) in
  let m2 = sample (flat m1 infinity) in
  factor (log_density (normal 3 1) m1 + log_density (normal 10 1) m2);
  let stay1 = log t1.[0] in let leave1 = log t1.[1] in
  let leave2 = log t2.[0] in let stay2 = log t2.[1] in
  let seen m t = log_density (normal m 1) y.[t] in
  let (a, b) = range_fold (fn (a, b) s ->
    let t = s + 1 in
    (log_sum (a + stay1) (b + leave2) + seen m1 t, log_sum (a + leave1) (b + stay2) + seen m2 t))
    (seen m1 0, seen m2 0) (length y - 1) in
  factor (log_sum a b);
  (t1, t2, [m1, m2])
""", _keep("y"), (*_names("theta1", 2), *_names("theta2", 2), *_names("mu", 2)))  # fmt: skip

MIXTURE = Model(f"""
input y : vector[float]
{LOG_SUM}
def main () =
  let mu = sample (ordered_normal 2 0 2) in
  let s1 = sample (half_normal 2) in
  let s2 = sample (half_normal 2) in
  let theta = sample (beta 5 5) in
  let one = log theta in let other = log1p (-theta) in
  iter (fn v -> factor (log_sum
    (one + log_density (normal mu.[0] s1) v) (other + log_density (normal mu.[1] s2) v))) y;
  (mu, [s1, s2], theta)
""", _keep("y"), (*_names("mu", 2), *_names("sigma", 2), "theta"))  # fmt: skip


def _centered(d: Data) -> Data:
    x = np.asarray(d["X"], float)[:, 1:]
    return {"x": x - x.mean(0), "y": np.asarray(d["Y"], float)}


DIAMONDS = Model("""
input x : matrix
input y : vector[float]
def main () =
  let b = repeat 24 (fn () -> sample (normal 0 1)) in
  let a = sample (student_t 3 8 10) in
  let sigma = sample (half_student_t 3 10) in
  let mean = x @ b in
  iteri (fn i v -> observe (normal (a + mean.[i]) sigma) v) y;
  (b, a, sigma)
""", _centered, (*_names("b", 24), "Intercept", "sigma"))  # fmt: skip

KERNEL = """
def kernel x alpha rho noise =
  let n = length x in
  matrix n n (fn i j ->
    let d = (x.[i] - x.[j]) / rho in
    alpha * alpha * exp (-0.5 * d * d) + (if i == j then noise else 0.0))
"""

COUNTS = Model(f"""
input x : vector[float]
input k : vector[int]
{KERNEL}
def main () =
  let rho = sample (gamma 25 0.25) in
  let alpha = sample (half_normal 2) in
  let z = repeat (length x) (fn () -> sample (normal 0 1)) in
  let f = cholesky_factor (kernel x alpha rho 1e-10) @ z in
  iteri (fn i c -> observe (poisson (exp f.[i])) c) k;
  (rho, alpha, f)
""", _keep("x", "k"), ("rho", "alpha", *_names("f", 11)))  # fmt: skip

PROCESS = Model(f"""
input x : vector[float]
input y : vector[float]
{KERNEL}
def main () =
  let rho = sample (gamma 25 0.25) in
  let alpha = sample (half_normal 2) in
  let sigma = sample (half_normal 1) in
  observe (multi_normal (replicate (length x) 0.0) (kernel x alpha rho sigma)) y;
  (rho, alpha, sigma)
""", _keep("x", "y"), ("rho", "alpha", "sigma"))  # fmt: skip

LYNX = Model("""
input ts : vector[float]
input y_init : vector[float]
input y : vector[vector[float]]
def main () =
  let above mean sd = sample (truncated_normal mean sd 0 infinity) in
  let a = above 1.0 0.5 in let b = above 0.05 0.05 in
  let c = above 1.0 0.5 in let d = above 0.05 0.05 in
  let u0 = sample (log_normal (log 10.0) 1) in
  let v0 = sample (log_normal (log 10.0) 1) in
  let s1 = sample (log_normal (-1) 1) in
  let s2 = sample (log_normal (-1) 1) in
  let change t z = [(a - b * z.[1]) * z.[0], (d * z.[0] - c) * z.[1]] in
  observe (log_normal (log u0) s1) y_init.[0];
  observe (log_normal (log v0) s2) y_init.[1];
  iteri (fn k z ->
    observe (log_normal (log z.[0]) s1) y.[k].[0];
    observe (log_normal (log z.[1]) s2) y.[k].[1]) (ode change 0 [u0, v0] ts 1e-5);
  ([a, b, c, d], [u0, v0], [s1, s2])
""", _keep("ts", "y_init", "y"),
    (*_names("theta", 4), *_names("z_init", 2), *_names("sigma", 2)))  # fmt: skip

DOSE = Model("""
input dose : float
input volume : float
input times : vector[float]
input seen : vector[float]
def main () =
  let ka = sample (half_cauchy 1) in
  let km = sample (half_cauchy 1) in
  let vm = sample (half_cauchy 1) in
  let sigma = sample (half_cauchy 1) in
  let change t c =
    [(exp (-ka * t) * dose * ka - vm * c.[0] / (km + c.[0])) / volume] in
  iteri (fn k c -> observe (log_normal (log c.[0]) sigma) seen.[k]) (ode change 0 [0] times 1e-6);
  (ka, km, vm, sigma)
""", lambda d: {
    "dose": float(d["D"]), "volume": float(d["V"]), "times": np.asarray(d["times"], float),
    "seen": np.asarray(d["C_hat"], float),
}, ("k_a", "K_m", "V_m", "sigma"))  # fmt: skip

WEATHER = Model("""
input x : vector[float]
input y : vector[float]
input at : vector[float]
def main () =
  let alpha = sample (normal at.[0] at.[1]) in
  let beta = sample (normal at.[2] at.[3]) in
  let sigma = sample (flat 0 infinity) in
  iteri (fn i v -> observe (normal (alpha + beta * x.[i]) sigma) v) y;
  (alpha, beta, sigma)
""", lambda d: {
    "x": np.asarray(d["x"], float), "y": np.asarray(d["y"], float),
    "at": np.array([d[n] for n in ("pmualpha", "psalpha", "pmubeta", "psbeta")], float),
}, ("alpha", "beta", "sigma"))  # fmt: skip

LINEAR = Model("""
input x : matrix
input y : vector[float]
def main () =
  let beta = repeat 5 (fn () -> sample (normal 0 10)) in
  let sigma = sample (half_normal 10) in
  let mean = x @ beta in
  iteri (fn i v -> observe (normal mean.[i] sigma) v) y;
  (beta, sigma)
""", lambda d: {"x": np.asarray(d["X"], float), "y": np.asarray(d["y"], float)},
    (*_names("beta", 5), "sigma"))  # fmt: skip


def _earnings() -> dict[str, Model]:
    earn, height = _log("earn"), _of("height")

    def product(d: Data) -> list[Any]:
        return _with_product(*_of("height", "male")(d))

    def z(d: Data) -> list[Any]:
        return _with_product(_scaled(d["height"]), np.asarray(d["male"], float))

    return {
        "earn_height": regression(2, height, lambda d: d["earn"]),
        "log10earn_height": regression(2, height, lambda d: np.log10(d["earn"])),
        "logearn_height": regression(2, height, earn),
        "logearn_height_male": regression(3, _of("height", "male"), earn),
        "logearn_interaction": regression(
            4, lambda d: _with_product(*_of("height", "male")(d)), earn
        ),
        "logearn_interaction_z": regression(4, z, earn),
        "logearn_logheight_male": regression(
            3, lambda d: [np.log(d["height"]), np.asarray(d["male"], float)], earn
        ),
    }


def _children() -> dict[str, Model]:
    def score(d: Data) -> Any:
        return d["kid_score"]

    return {
        "kidscore_interaction": _scores(lambda a, b: (a, b), CAUCHY),
        "kidscore_interaction_c": _scores(lambda a, b: (a - a.mean(), b - b.mean())),
        "kidscore_interaction_c2": _scores(lambda a, b: (a - 0.5, b - 100)),
        "kidscore_interaction_z": _scores(lambda a, b: (_scaled(a, 2), _scaled(b, 2))),
        "kidscore_momhs": regression(2, _of("mom_hs"), score, deviation=CAUCHY),
        "kidscore_momhsiq": regression(3, _of("mom_hs", "mom_iq"), score, deviation=CAUCHY),
        "kidscore_momiq": regression(2, _of("mom_iq"), score, deviation=CAUCHY),
        "kidscore_mom_work": regression(4, _is("mom_work", (2, 3, 4)), score),
    }


def _mesquite() -> dict[str, Model]:
    plain = ("diam1", "diam2", "canopy_height", "total_height", "density", "group")
    return {
        "logmesquite": _shrubs(*plain),
        "logmesquite_logva": _shrubs("volume", "area", "group"),
        "logmesquite_logvas": _shrubs(
            "volume", "area", "shape", "total_height", "density", "group"
        ),
        "logmesquite_logvash": _shrubs("volume", "area", "shape", "total_height", "group"),
        "logmesquite_logvolume": _shrubs("volume"),
        "mesquite": regression(7, _of(*plain), lambda d: d["weight"]),
    }


RATE = "log_density (exponential phi{0}) u.[t] + log_density (exponential lambda{0}) v.[t]"
PLACE = "log_density (normal phi{0} 0.1) u.[t] + log_density (normal lambda{0} 0.1) v.[t]"

MODELS: dict[str, Model] = {
    "arK": ARK,
    "arma11": ARMA,
    "blr": LINEAR,
    "diamonds": DIAMONDS,
    "eight_schools_centered": CENTERED,
    "eight_schools_noncentered": NONCENTERED,
    "garch11": GARCH,
    "gp_pois_regr": COUNTS,
    "gp_regr": PROCESS,
    "hmm_drive_0": _drives(RATE, HALF),
    "hmm_drive_1": _drives(PLACE, LINE),
    "hmm_example": HIDDEN,
    "kilpisjarvi": WEATHER,
    "lotka_volterra": LYNX,
    "low_dim_gauss_mix": MIXTURE,
    "nes": regression(9, _voters, lambda d: d["partyid7"]),
    "one_comp_mm_elim_abs": DOSE,
    **_earnings(),
    **_children(),
    **_mesquite(),
}
"""By the database's name of the model."""
