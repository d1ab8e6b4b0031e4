"""Nutpie's side of `cuppl_nuts.py`, for a Python that has it and PyMC.

What is timed is nutpie's sampler on one core: compiling is apart.
"""

from __future__ import annotations

import sys
import time
from importlib import metadata
from typing import Any

import numpy as np
import nutpie
import pymc as pm
import pytensor
import pytensor.tensor as pt
from cuppl_nuts_server import serve

Data = dict[str, Any]


def eight_schools_noncentered(d: Data) -> None:
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    z = pm.Normal("_z", 0, 1, shape=8)
    pm.Normal("y", mu + tau * z, d["sigma"], observed=d["y"])


def eight_schools_centered(d: Data) -> None:
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    pm.Normal("y", pm.Normal("_theta", mu, tau, shape=8), d["sigma"], observed=d["y"])


def garch11(d: Data) -> None:
    mu, a0 = pm.Normal("mu", 0, 100), pm.Exponential("a0", 0.01)
    a1 = pm.Uniform("a1", 0, 1)
    b1 = pm.Uniform("b1", 0, 1 - a1)

    def step(y: Any, sigma: Any, mu: Any, a0: Any, a1: Any, b1: Any) -> Any:
        return pt.sqrt(a0 + a1 * (y - mu) ** 2 + b1 * sigma * sigma)

    first = pt.constant(np.float64(d["sigma1"]))
    later = pytensor.scan(
        step, sequences=[pt.as_tensor(d["y"][:-1])], outputs_info=[first],
        non_sequences=[mu, a0, a1, b1], return_updates=False,
    )  # fmt: skip
    pm.Normal("y", mu, pt.concatenate([first[None], later]), observed=d["y"])


def kidscore_interaction(d: Data) -> None:
    b = pm.Normal("b", 0, 100, shape=4)
    mean = b[0] + b[1] * d["hs"] + b[2] * d["iq"] + b[3] * d["hs"] * d["iq"]
    pm.Normal("kid", mean, pm.HalfCauchy("sigma", 2.5), observed=d["kid"])


def arK(d: Data) -> None:
    a, b = pm.Normal("a", 0, 10), pm.Normal("b", 0, 10, shape=5)
    y, n = d["y"], len(d["y"])
    x = np.stack([y[4 - k : n - 1 - k] for k in range(5)], 1)
    pm.Normal("y", a + x @ b, pm.HalfCauchy("sigma", 2.5), observed=y[5:])


def low_dim_gauss_mix(d: Data) -> None:
    m1 = pm.Normal("m1", 0, 2)
    m2 = pm.Deterministic("m2", m1 + pt.exp(pm.Normal("_d", 0, 2)))
    s, theta = pm.HalfNormal("s", 2, shape=2), pm.Beta("theta", 5, 5)
    a = pt.log(theta) + pm.logp(pm.Normal.dist(m1, s[0]), d["y"])
    b = pt.log1p(-theta) + pm.logp(pm.Normal.dist(m2, s[1]), d["y"])
    pm.Potential("y", pt.logaddexp(a, b).sum())


def diamonds(d: Data) -> None:
    b, a = pm.Normal("b", 0, 1, shape=24), pm.StudentT("a", nu=3, mu=8, sigma=10)
    pm.Normal("y", a + d["xs"] @ b, pm.HalfCauchy("sigma", 10), observed=d["y"])


def gp_pois_regr(d: Data) -> None:
    rho, alpha = pm.Gamma("rho", 25, 4), pm.HalfNormal("alpha", 2)
    z, x = pm.Normal("_z", 0, 1, shape=11), d["x"]
    near = pt.exp(-0.5 * ((x[:, None] - x[None]) / rho) ** 2)
    root = pt.linalg.cholesky(alpha**2 * near + 1e-10 * np.eye(11))
    pm.Poisson("k", pt.exp(root @ z), observed=d["k"])


def lotka_volterra(d: Data) -> None:
    def positive(name: str, mean: float, sd: float) -> Any:
        return pm.TruncatedNormal(name, mean, sd, lower=0)

    a, c = positive("a", 1, 0.5), positive("c", 1, 0.5)
    b, e = positive("b", 0.05, 0.05), positive("d", 0.05, 0.05)
    u0, v0 = (pm.LogNormal(n, np.log(10), 1) for n in ("u0", "v0"))
    s1, s2 = (pm.LogNormal(n, -1, 1) for n in ("s1", "s2"))

    def step(u: Any, v: Any, a: Any, b: Any, c: Any, e: Any) -> Any:
        k1, l1 = (a - b * v) * u, (e * u - c) * v
        p, q = u + 0.025 * k1, v + 0.025 * l1
        k2, l2 = (a - b * q) * p, (e * p - c) * q
        p, q = u + 0.025 * k2, v + 0.025 * l2
        k3, l3 = (a - b * q) * p, (e * p - c) * q
        p, q = u + 0.05 * k3, v + 0.05 * l3
        k4, l4 = (a - b * q) * p, (e * p - c) * q
        u = u + 0.05 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return u, v + 0.05 / 6 * (l1 + 2 * l2 + 2 * l3 + l4)

    us, vs = pytensor.scan(
        step, outputs_info=[u0, v0], non_sequences=[a, b, c, e], n_steps=400, return_updates=False
    )  # twenty steps at once take PyTensor more than six minutes to compile
    hare, lynx = pt.concatenate([u0[None], us[19::20]]), pt.concatenate([v0[None], vs[19::20]])
    pm.LogNormal("hare", pt.log(hare), s1, observed=d["hare"])
    pm.LogNormal("lynx", pt.log(lynx), s2, observed=d["lynx"])


def hmm_example(d: Data) -> None:
    rows = [pm.Dirichlet(n, np.ones(2)) for n in ("t1", "t2")]
    m1 = pm.TruncatedNormal("m1", 3, 1, lower=0, upper=50)
    m2 = pm.Deterministic("m2", m1 + pt.exp(pm.Normal("_d", 1.5, 1)))
    seen = pt.stack([pm.logp(pm.Normal.dist(m, 1), d["y"]) for m in (m1, m2)], 1)

    def step(now: Any, alpha: Any, moves: Any) -> Any:
        return pt.logsumexp(alpha[:, None] + moves, axis=0) + now

    moves = pt.log(pt.stack(rows))
    alpha = pytensor.scan(
        step, sequences=[seen[1:]], outputs_info=[seen[0]], non_sequences=[moves],
        return_updates=False,
    )  # fmt: skip
    pm.Potential("y", pt.logsumexp(alpha[-1]))


def main(model: str) -> None:
    """Serve one model's chains."""

    def make(given: Data) -> tuple[Any, float]:
        data = {name: np.array(v) for name, v in given.items()}
        begin = time.process_time()
        with pm.Model() as written:
            globals()[model](data)
        compiled = nutpie.compile_pymc_model(written)

        def run(seed: int, draws: int) -> tuple[float, Any]:
            now = time.process_time()
            found = nutpie.sample(
                compiled, draws=draws, tune=1000, chains=1, cores=1, seed=seed, progress_bar=False
            )
            return time.process_time() - now, found

        def chain(seed: int) -> tuple[float, float, Any]:
            warming, _ = run(seed, 1)
            seconds, found = run(seed, 1000)
            looked = [
                np.asarray(v).reshape(1000, -1)
                for n, v in found.posterior.items()
                if n[0] != "_" and not n.endswith("__")
            ]
            return warming, seconds - warming, np.concatenate(looked, axis=1)

        run(99, 1)
        return chain, time.process_time() - begin

    serve(make, f"nutpie {metadata.version('nutpie')}")


if __name__ == "__main__":
    main(sys.argv[1])
