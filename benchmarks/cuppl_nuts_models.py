"""Ten posteriors that are often used to compare samplers: programs, and data drawn from the models.

The models are those of posteriordb; eight schools and lynx and hare have their published data, the
others data of the same size that the models themselves give.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["PROGRAMS", "observed"]

Numbers = list[float]


def observed(seed: int = 20261126) -> dict[str, dict[str, Any]]:
    """The data of each model."""
    random = np.random.default_rng(seed)
    return {
        "eight_schools_noncentered": SCHOOLS,
        "eight_schools_centered": SCHOOLS,
        "garch11": {"y": _garch(random), "sigma1": 0.5},
        "kidscore_interaction": _scores(random),
        "arK": {"y": _autoregression(random)},
        "low_dim_gauss_mix": {"y": _mixture(random)},
        "diamonds": _diamonds(random),
        "gp_pois_regr": _counts(random),
        "lotka_volterra": {"hare": HARE, "lynx": LYNX},
        "hmm_example": {"y": _hidden_states(random)},
    }


SCHOOLS = {
    "y": [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0],
    "sigma": [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0],
}
HARE = [
    30.0, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22.0, 25.4, 27.1, 40.3, 57.0, 76.6, 52.3, 19.5,
    11.2, 7.6, 14.6, 16.2, 24.7,
]  # fmt: skip
LYNX = [
    4.0, 6.1, 9.8, 35.2, 59.4, 41.7, 19.0, 13.0, 8.3, 9.1, 7.4, 8.0, 12.3, 19.5, 45.7, 51.1, 29.7,
    15.8, 9.7, 10.1, 8.6,
]  # fmt: skip
"""Pelts in thousands, 1900 to 1920."""


def _garch(random: np.random.Generator) -> Numbers:
    deviation, y = 1.0, [0.3]
    for _ in range(199):
        deviation = float(np.sqrt(0.4 + 0.3 * (y[-1] - 5.0) ** 2 + 0.2 * deviation**2))
        y.append(float(5.0 + deviation * random.normal()))
    return y


def _scores(random: np.random.Generator) -> dict[str, Numbers]:
    school = (random.random(434) < 0.786).astype(float)
    iq = random.normal(100, 15, 434)
    mean = -11.5 + 51 * school + 1.1 * iq - 0.48 * school * iq
    kid = mean + 18 * random.normal(size=434)
    return {"kid": kid.tolist(), "hs": school.tolist(), "iq": iq.tolist()}


def _autoregression(random: np.random.Generator) -> Numbers:
    y = [0.0] * 5
    for _ in range(200):
        before = sum(b * v for b, v in zip((0.7, -0.15, 0.2, -0.1, 0.05), y[:-6:-1], strict=True))
        y.append(float(0.05 + before + 0.15 * random.normal()))
    return y[5:]


def _mixture(random: np.random.Generator) -> Numbers:
    first = random.random(1000) < 0.35
    mean = np.where(first, -2.75, 2.75)
    return (mean + random.normal(size=1000)).tolist()


def _diamonds(random: np.random.Generator) -> dict[str, Any]:
    x = random.normal(size=(5000, 24))
    x[:, 1] = 0.5 * x[:, 0] ** 2 + 0.1 * x[:, 1]
    x[:, 2] = 0.7 * x[:, 0] + 0.3 * x[:, 2]
    x -= x.mean(0)
    slopes = 0.3 * random.normal(size=24)
    y = 7.8 + x @ slopes + 0.13 * random.normal(size=5000)
    return {"xs": x.tolist(), "y": y.tolist()}


def _counts(random: np.random.Generator) -> dict[str, Any]:
    x = np.linspace(-10, 10, 11)
    return {"x": x.tolist(), "k": random.poisson(np.exp(1 + np.sin(x / 2))).tolist()}


def _hidden_states(random: np.random.Generator) -> Numbers:
    state, y = 0, list[float]()
    for _ in range(100):
        state = int(random.random() < (0.3 if state == 0 else 0.9))
        y.append(float(random.normal((3, 10)[state], 1)))
    return y


PROGRAMS = {
    "eight_schools_noncentered": """
input y : vector[float]
input sigma : vector[float]
def main () =
  let mu = sample (normal 0 5) in
  let tau = sample (half_cauchy 5) in
  let z = sample (diagonal_normal (replicate 8 0.0) (replicate 8 1.0)) in
  iteri (fn j yj -> observe (normal (mu + tau * z.[j]) sigma.[j]) yj) y;
  (mu, tau)
""",
    "eight_schools_centered": """
input y : vector[float]
input sigma : vector[float]
def main () =
  let mu = sample (normal 0 5) in
  let tau = sample (half_cauchy 5) in
  let theta = repeat 8 (fn () -> sample (normal mu tau)) in
  iteri (fn j yj -> observe (normal theta.[j] sigma.[j]) yj) y;
  (mu, tau)
""",
    "garch11": """
input y : vector[float]
input sigma1 : float
def main () =
  let mu = sample (normal 0 100) in
  let a0 = sample (exponential 0.01) in
  let a1 = sample (uniform 0 1) in
  let b1 = sample (uniform 0 (1.0 - a1)) in
  observe (normal mu sigma1) y.[0];
  let s = range_fold (fn s t ->
    let e = y.[t] - mu in
    let next = sqrt (a0 + a1 * e * e + b1 * s * s) in
    observe (normal mu next) y.[t + 1];
    next) sigma1 (length y - 1) in
  (mu, a0, a1, b1)
""",
    "kidscore_interaction": """
input kid : vector[float]
input hs : vector[float]
input iq : vector[float]
def main () =
  let b0 = sample (normal 0 100) in
  let b1 = sample (normal 0 100) in
  let b2 = sample (normal 0 100) in
  let b3 = sample (normal 0 100) in
  let sigma = sample (half_cauchy 2.5) in
  iteri (fn i k ->
    let mean = b0 + b1 * hs.[i] + b2 * iq.[i] + b3 * hs.[i] * iq.[i] in
    observe (normal mean sigma) k) kid;
  (b0, b1, b2, b3, sigma)
""",
    "arK": """
input y : vector[float]
def main () =
  let a = sample (normal 0 10) in
  let b = repeat 5 (fn () -> sample (normal 0 10)) in
  let sigma = sample (half_cauchy 2.5) in
  iter (fn t ->
    let m = range_fold (fn m k -> m + b.[k] * y.[t + 4 - k]) a 5 in
    observe (normal m sigma) y.[t + 5]) (range (length y - 5));
  (a, b.[0], b.[1], b.[2], b.[3], b.[4], sigma)
""",
    "low_dim_gauss_mix": """
input y : vector[float]
def main () =
  let m1 = sample (normal 0 2) in
  let m2 = m1 + exp (sample (normal 0 2)) in
  let s1 = sample (half_normal 2) in
  let s2 = sample (half_normal 2) in
  let theta = sample (beta 5 5) in
  iter (fn v ->
    let a = log theta + log_density (normal m1 s1) v in
    let b = log1p (-theta) + log_density (normal m2 s2) v in
    factor (max a b + log1p (exp (-(abs (a - b)))))) y;
  (m1, m2, s1, s2, theta)
""",
    "diamonds": """
input xs : vector[vector[float]]
input y : vector[float]
def main () =
  let b = repeat 24 (fn () -> sample (normal 0 1)) in
  let a = sample (student_t 3 8 10) in
  let sigma = sample (half_cauchy 10) in
  iteri (fn i v ->
    let row = xs.[i] in
    let m = a + dot b row in
    observe (normal m sigma) v) y;
  (a, sigma, b.[0], b.[1], b.[2], b.[23])
""",
    "gp_pois_regr": """
input x : vector[float]
input k : vector[int]
def main () =
  let n = length x in
  let rho = sample (gamma 25 0.25) in
  let alpha = sample (half_normal 2) in
  let z = sample (diagonal_normal (replicate n 0.0) (replicate n 1.0)) in
  let cov = tabulate (n * n) (fn c ->
    let i = c // n in let j = c % n in
    let d = (x.[i] - x.[j]) / rho in
    alpha * alpha * exp (-0.5 * d * d) + (if i == j then 1e-10 else 0.0)) in
  let l = cholesky n cov in
  iteri (fn i ki ->
    let f = range_fold (fn a j -> a + l.[i * n + j] * z.[j]) 0.0 (i + 1) in
    observe (poisson (exp f)) ki) k;
  (rho, alpha)
""",
    "lotka_volterra": """
input hare : vector[float]
input lynx : vector[float]
def main () =
  let a = sample (truncated_normal 1 0.5 0 (1.0 / 0.0)) in
  let b = sample (truncated_normal 0.05 0.05 0 (1.0 / 0.0)) in
  let c = sample (truncated_normal 1 0.5 0 (1.0 / 0.0)) in
  let d = sample (truncated_normal 0.05 0.05 0 (1.0 / 0.0)) in
  let u0 = sample (log_normal (log 10.0) 1) in
  let v0 = sample (log_normal (log 10.0) 1) in
  let s1 = sample (log_normal (-1) 1) in
  let s2 = sample (log_normal (-1) 1) in
  let du u v = (a - b * v) * u in
  let dv u v = (d * u - c) * v in
  let h = 0.05 in
  let step uv =
    let (u, v) = uv in
    let k1 = du u v in let l1 = dv u v in
    let u2 = u + 0.5 * h * k1 in let v2 = v + 0.5 * h * l1 in
    let k2 = du u2 v2 in let l2 = dv u2 v2 in
    let u3 = u + 0.5 * h * k2 in let v3 = v + 0.5 * h * l2 in
    let k3 = du u3 v3 in let l3 = dv u3 v3 in
    let u4 = u + h * k3 in let v4 = v + h * l3 in
    let k4 = du u4 v4 in let l4 = dv u4 v4 in
    (u + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4),
     v + h / 6.0 * (l1 + 2.0 * l2 + 2.0 * l3 + l4)) in
  let see uv t = (let (u, v) = uv in
    observe (log_normal (log u) s1) hare.[t]; observe (log_normal (log v) s2) lynx.[t]) in
  see (u0, v0) 0;
  let (x, y) = range_fold (fn uv t ->
    let next = range_fold (fn p _ -> step p) uv 20 in
    see next (t + 1); next) (u0, v0) 20 in
  (a, b, c, d, u0, v0, s1, s2)
""",
    "hmm_example": """
input y : vector[float]
def main () =
  let t1 = sample (dirichlet [1.0, 1.0]) in
  let t2 = sample (dirichlet [1.0, 1.0]) in
  let m1 = sample (truncated_normal 3 1 0 50) in
  let m2 = m1 + exp (sample (normal 1.5 1)) in
  let lse a b = max a b + log1p (exp (-(abs (a - b)))) in
  let a0 = log_density (normal m1 1) y.[0] in
  let b0 = log_density (normal m2 1) y.[0] in
  let l11 = log t1.[0] in let l12 = log t1.[1] in let l21 = log t2.[0] in let l22 = log t2.[1] in
  let (a, b) = range_fold (fn ab t ->
    let (a, b) = ab in
    (lse (a + l11) (b + l21) + log_density (normal m1 1) y.[t + 1],
     lse (a + l12) (b + l22) + log_density (normal m2 1) y.[t + 1])) (a0, b0) (length y - 1) in
  factor (lse a b);
  (m1, m2, t1.[0], t2.[0])
""",
}
