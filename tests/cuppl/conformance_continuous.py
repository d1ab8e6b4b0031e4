"""Models with continuous choices, each with the exact mean of its result and often the evidence."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """A model; the exact posterior mean of its result; log evidence where it is known."""

    name: str
    source: str
    mean: float
    log_evidence: float | None = None
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    method: str = "smc"
    smooth: bool = False
    """All choices are continuous and their number is fixed, so that NUTS can run it."""


def log_normal_density(x: float, mean: float, variance: float) -> float:
    return -0.5 * (math.log(2 * math.pi * variance) + (x - mean) ** 2 / variance)


def conjugate_normal(ys: list[float]) -> tuple[float, float]:
    """Mean 0, prior variance 4, noise variance 1."""
    precision = 1 / 4 + len(ys)
    evidence, mean, variance = 0.0, 0.0, 4.0
    for y in ys:
        evidence += log_normal_density(y, mean, variance + 1)
        gain = variance / (variance + 1)
        mean, variance = mean + gain * (y - mean), variance * (1 - gain)
    return sum(ys) / precision, evidence


def kalman(ys: list[float]) -> tuple[float, float]:
    """Random walk with variance 1 from 0, noise variance 0.25: last mean and evidence."""
    evidence, mean, variance = 0.0, 0.0, 0.0
    for y in ys:
        variance += 1.0
        evidence += log_normal_density(y, mean, variance + 0.25)
        gain = variance / (variance + 0.25)
        mean, variance = mean + gain * (y - mean), variance * (1 - gain)
    return mean, evidence


def regression(xs: list[float], ys: list[float]) -> tuple[float, float]:
    """Slope and intercept standard normal, noise sd 0.5: mean of the slope and evidence."""
    design = np.column_stack([xs, np.ones(len(xs))])
    cov = design @ design.T + 0.25 * np.eye(len(xs))
    y = np.array(ys)
    mean = design.T @ np.linalg.solve(cov, y)
    _, determinant = np.linalg.slogdet(cov)
    quadratic = y @ np.linalg.solve(cov, y)
    evidence = -0.5 * (quadratic + determinant + len(xs) * math.log(2 * math.pi))
    return float(mean[0]), float(evidence)


def forward(ys: list[float]) -> tuple[float, float]:
    """Two states with means -1 and 1, stay with 0.9: P(last state is 1) and evidence."""
    weights = np.array([0.5, 0.5])
    evidence = 0.0
    for index, y in enumerate(ys):
        if index:
            weights = np.array([[0.9, 0.1], [0.1, 0.9]]).T @ weights
        weights = weights * np.exp([log_normal_density(y, m, 1.0) for m in (-1.0, 1.0)])
        evidence += math.log(weights.sum())
        weights /= weights.sum()
    return float(weights[1]), evidence


def mixture(ys: list[float]) -> float:
    """E[weight] of a two-component mixture with a uniform weight, by quadrature."""
    grid = (np.arange(20000) + 0.5) / 20000
    density = np.ones_like(grid)
    for y in ys:
        parts = [math.exp(log_normal_density(y, m, 1.0)) for m in (-2.0, 2.0)]
        density *= (1 - grid) * parts[0] + grid * parts[1]
    return float((grid * density).sum() / density.sum())


def logistic(xs: list[float], ys: list[bool]) -> float:
    """E[slope] of a logistic regression with a standard normal prior, by quadrature."""
    grid = np.linspace(-8, 8, 20001)
    logs = -0.5 * grid**2
    for x, y in zip(xs, ys, strict=True):
        logs -= np.log1p(np.exp(-grid * x if y else grid * x))
    weights = np.exp(logs - logs.max())
    return float((grid * weights).sum() / weights.sum())


def changepoint(ys: list[int]) -> float:
    """E[time] of a change of Poisson rate from 2 to 5."""
    n = len(ys)
    logs = []
    for at in range(n):
        logs.append(
            sum(y * math.log(r) - r for k, y in enumerate(ys) for r in [2.0 if k < at else 5.0])
        )
    weights = np.exp(np.array(logs) - max(logs))
    return float((np.arange(n) * weights).sum() / weights.sum())


def marsaglia(ys: list[float]) -> tuple[float, float]:
    """Prior mean 1 and variance 5, noise variance 2."""
    evidence, mean, variance = 0.0, 1.0, 5.0
    for y in ys:
        evidence += log_normal_density(y, mean, variance + 2)
        gain = variance / (variance + 2)
        mean, variance = mean + gain * (y - mean), variance * (1 - gain)
    return mean, evidence


YS = [0.3, 1.0, 2.2, 1.7]
XS = [-1.0, 0.0, 1.0, 2.0]
LY = [-1.2, 0.1, 0.7, 2.3]
SEEN = [True, False, True, True]
COUNTS = [1, 2, 3, 6, 4, 7]
BETA = math.lgamma(3 + 7) + math.lgamma(2 + 3) - math.lgamma(3 + 2 + 10)
BETA -= math.lgamma(3) + math.lgamma(2) - math.lgamma(5)
LIST = {"ys": YS}

CASES = [
    Case(
        "normal mean",
        "input ys : vector[float]\ndef main () = let mu = sample (normal 0 2) in "
        "iter (fn y -> observe (normal mu 1) y) ys; mu",
        *conjugate_normal(YS),
        data=LIST,
        smooth=True,
    ),
    Case(
        "beta and binomial",
        "def main () = let p = sample (beta 3 2) in "
        "iter (fn x -> observe (bernoulli p) x) "
        "[true, true, true, true, true, true, true, false, false, false]; p",
        10 / 15,
        BETA,
        smooth=True,
    ),
    Case(
        "gamma and Poisson",
        "def main () = let r = sample (gamma 2 1) in "
        "iter (fn k -> observe (poisson r) k) [3, 4, 2]; r",
        11 / 4,
        smooth=True,
    ),
    Case(
        "gamma and exponential",
        "def main () = let r = sample (gamma 2 1) in "
        "iter (fn x -> observe (exponential r) x) [0.5, 1.5]; r",
        4 / 3,
        smooth=True,
    ),
    Case(
        "Dirichlet and categorical",
        "def main () = let w = sample (dirichlet [1, 1, 1]) in "
        "iter (fn k -> observe (categorical w) k) [0, 0, 2]; w.[0]",
        3 / 6,
        math.log(1 / 30),
        smooth=True,
    ),
    Case(
        "normal and inverse gamma",
        "def main () = let v = sample (inverse_gamma 3 2) in "
        "iter (fn y -> observe (normal 0 (sqrt v)) y) [1.0, -1.0, 0.5]; v",
        (2 + 0.5 * 2.25) / (3 + 1.5 - 1),
        smooth=True,
    ),
    Case(
        "Pareto",
        "def main () = let m = sample (pareto 3 1) in observe (uniform 0 m) 0.5; m",
        4 / 3,
        smooth=True,
    ),
    Case(
        "Kalman filter",
        "input ys : vector[float]\n"
        "def step s y = let n = sample (normal s 1) in observe (normal n 0.5) y; n\n"
        "def main () = fold step 0 ys",
        *kalman(YS),
        data=LIST,
        smooth=True,
    ),
    Case(
        "Kalman filter by recursion",
        "input ys : vector[float]\n"
        "def walk s i = if i == length ys then s else\n"
        "  let n = sample (normal s 1) in observe (normal n 0.5) ys.[i]; walk n (i + 1)\n"
        "def main () = walk 0 0",
        *kalman(YS),
        data=LIST,
    ),
    Case(
        "Kalman filter that keeps its path",
        "input ys : vector[float]\n"
        "def step path y = match path with\n"
        "  | Nil -> path\n"
        "  | Cons (s, _) -> let n = sample (normal s 1) in observe (normal n 0.5) y; Cons (n, path)\n"
        "  end\n"
        "def main () = match fold step (Cons (0.0, Nil)) ys with | Nil -> 0.0 | Cons (s, _) -> s end",
        *kalman(YS),
        data=LIST,
    ),
    Case(
        "hidden Markov model with normals",
        "input ys : vector[float]\n"
        "def see s y = observe (normal (if s then 1 else -1) 1) y\n"
        "def main () = let s = flip 0.5 in see s ys.[0];\n"
        "  let last = fold (fn s y -> let n = flip (if s then 0.9 else 0.1) in see n y; n) s\n"
        "    (slice 1 3 ys) in if last then 1.0 else 0.0",
        *forward(YS),
        data=LIST,
    ),
    Case(
        "linear regression",
        "input xs : vector[float]\ninput ys : vector[float]\n"
        "def main () = let a = sample (normal 0 1) in let b = sample (normal 0 1) in\n"
        "  iteri (fn i x -> observe (normal (a * x + b) 0.5) ys.[i]) xs; a",
        *regression(XS, LY),
        data={"xs": XS, "ys": LY},
        smooth=True,
    ),
    Case(
        "regression in observe order",
        "input xy : vector[(float, float)]\n"
        "def main () = let a = sample (normal 0 1) in let b = sample (normal 0 1) in\n"
        "  iter (fn (x, y) -> observe (normal (a * x + b) 0.5) y) xy; a",
        *regression(XS, LY),
        data={"xy": list(zip(XS, LY, strict=True))},
        smooth=True,
    ),
    Case(
        "logistic regression",
        "input xs : vector[float]\ninput ys : vector[bool]\n"
        "def main () = let a = sample (normal 0 1) in\n"
        "  iteri (fn i x -> observe (bernoulli (sigmoid (a * x))) ys.[i]) xs; a",
        logistic(XS, SEEN),
        data={"xs": XS, "ys": SEEN},
        smooth=True,
    ),
    Case(
        "mixture of normals",
        "input ys : vector[float]\n"
        "def main () = let w = sample (uniform 0 1) in\n"
        "  iter (fn y -> observe (normal (if flip w then 2 else -2) 1) y) ys; w",
        mixture(YS),
        data=LIST,
    ),
    Case(
        "mixture summed out",
        "input ys : vector[float]\n"
        "def main () = let w = sample (uniform 0 1) in\n"
        "  iter (fn y -> factor (log (w * exp (log_density (normal 2 1) y)\n"
        "    + (1.0 - w) * exp (log_density (normal (-2) 1) y)))) ys; w",
        mixture(YS),
        data=LIST,
        smooth=True,
    ),
    Case(
        "change point",
        "input ys : vector[int]\n"
        "def main () = let at = sample (uniform_int 0 (length ys - 1)) in\n"
        "  iteri (fn i y -> observe (poisson (if i < at then 2.0 else 5.0)) y) ys; float at",
        changepoint(COUNTS),
        data={"ys": COUNTS},
    ),
    Case(
        "Marsaglia's normal",
        "def polar () =\n"
        "  let x = sample (uniform (-1) 1) in let y = sample (uniform (-1) 1) in\n"
        "  let s = x * x + y * y in\n"
        "  if s < 1.0 then x * sqrt (-2.0 * log s / s) else polar ()\n"
        "input ys : vector[float]\n"
        "def main () = let mu = 1.0 + sqrt 5.0 * polar () in\n"
        "  iter (fn y -> observe (normal mu (sqrt 2.0)) y) ys; mu",
        *marsaglia([9.0, 8.0]),
        data={"ys": [9.0, 8.0]},
    ),
    Case(
        "rejection in the language",
        "def truncated () =\n"
        "  let x = sample (normal 0 1) in if x > 0.0 then x else truncated ()\n"
        "def main () = truncated ()",
        math.sqrt(2 / math.pi),
    ),
    Case(
        "truncated normal",
        "def main () = sample (truncated_normal 0 1 0 50)",
        math.sqrt(2 / math.pi),
        smooth=True,
    ),
    Case(
        "mean of a geometric",
        "def geo p = if flip p then 0.0 else 1.0 + geo p\ndef main () = geo 0.25",
        3.0,
    ),
    Case(
        "expected maximum",
        "def main () = max (sample (exponential 1)) (sample (exponential 1))",
        1.5,
        smooth=True,
    ),
    Case(
        "random sums",
        "def main () = sum (repeat (sample (poisson 4)) (fn _ -> sample (exponential 2)))",
        2.0,
    ),
    Case(
        "area of a circle",
        "def main () = let x = sample (uniform 0 1) in "
        "let y = sample (uniform 0 1) in if x * x + y * y < 1.0 then 4.0 else 0.0",
        math.pi,
    ),
    Case(
        "memoised normals",
        "def main () = let f = mem (fn k -> sample (normal (float k) 1)) in "
        "observe (normal (f 0) 1) 2; f 0 + f 1 - f 0",
        1.0,
    ),
    Case(
        "Dirichlet process by sticks",
        """
def main () =
  let stick = mem (fn k -> sample (beta 1 1)) in
  letrec pick k = if flip (stick k) then k else pick (k + 1) in
  let a = pick 0 in let b = pick 0 in if a == b then 1.0 else 0.0""",
        1 / 2,
    ),
    Case(
        "branching process",
        """def generation n = if n == 0 then 0 else
  let children = sample (poisson 0.8) in 1 + sum (repeat children (fn _ -> generation (n - 1)))
def main () = float (generation 4)""",
        1 + 0.8 + 0.64 + 0.512,
    ),
    Case(
        "vector normal",
        """def main () =
  let f = cholesky 2 [2.0, 0.6, 0.6, 1.0] in
  let x = sample (mv_normal [1.0, -1.0] f) in
  observe (normal x.[1] 0.5) 0.0; x.[0]""",
        1 + 0.6 / 1.25,
        log_normal_density(0, -1, 1.25),
        smooth=True,
    ),
    Case(
        "independent normals",
        """def main () =
  let x = sample (diagonal_normal [0.0, 3.0] [1.0, 2.0]) in
  observe (normal (x.[0] + x.[1]) 1.0) 5.0; x.[1]""",
        3 + 4 / 6 * 2,
        log_normal_density(5, 3, 6),
        smooth=True,
    ),
    Case(
        "multinomial", "def main () = let c = sample (multinomial 6 [0.2, 0.8]) in float c.[1]", 4.8
    ),
    Case(
        "von Mises", "def main () = cos (sample (von_mises 0 2))", 0.6977746579640081, smooth=True
    ),
    Case(
        "random walk that must return",
        """def main () =
  let (p, q) = range_fold (fn (x, s) i -> let n = x + sample (normal 0 1) in (n, s + n * n))
    (0.0, 0.0) 2 in
  observe (normal p 1.0) 0.0; p""",
        0.0,
        log_normal_density(0, 0, 3),
        smooth=True,
    ),
    Case("likelihood only", "def main () = factor (-1.5); 2.0", 2.0, -1.5),
    Case(
        "early weights that do not matter",
        "def main () = factor 5.0; factor (-5.0); let x = sample (normal 1 1) in x",
        1.0,
        0.0,
    ),
]
