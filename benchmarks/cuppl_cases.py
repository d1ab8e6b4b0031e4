"""The probabilistic models that the benchmarks run, their data, and the exact answers."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

EXAMPLES = Path(__file__).parents[1] / "examples" / "cuppl"
sys.path.insert(0, str(EXAMPLES))

import crbd  # noqa: E402

CURVE = """
input xs : vector[float]
input ys : vector[float]

def main () =
  let a = sample (normal 0 1) in
  let b = sample (normal 0 1) in
  let c = sample (normal 0 1) in
  iteri (fn i x -> observe (normal (a + b * x + c * x * x) NOISE) ys.[i]) xs;
  (a, b, c)
"""
"""A curve of second order through points; NOISE is a number, their standard deviation."""

LOG_Z, LAMBDA, MU = -307.273912, 0.1448894, 0.0270357
"""Birth-death on the kingfishers' tree: log evidence and posterior means, by quadrature."""
PURE_BIRTH_LOG_Z = -304.46522
"""The same without extinction, in closed form."""


def birth_death() -> dict[str, dict[str, Any]]:
    """The inputs of both forms of the model."""
    tree = crbd.read_tree(EXAMPLES / "data" / "alcedinidae.phyjson")
    return {
        "crbd": {"tree": tree, "rho": crbd.RHO},
        "crbd_branches": {"branches": crbd.branches(tree), "rho": crbd.RHO},
    }


def epidemic() -> dict[str, Any]:
    """400 days of reports, made up with a fixed seed."""
    random = np.random.default_rng(1)
    population, s, i, r = 100_000, 99_990, 10, 0
    cases: list[int] = []
    for _ in range(400):
        infected = random.binomial(s, 1 - math.exp(-0.2 * i / population))
        recovered = random.binomial(i, 1 - math.exp(-0.1))
        waned = random.binomial(r, 1 - math.exp(-0.01))
        s, i, r = s - infected + waned, i + infected - recovered, r + recovered - waned
        cases.append(int(random.poisson(0.1 * infected + 0.001)))
    return {"cases": cases, "population": population}
