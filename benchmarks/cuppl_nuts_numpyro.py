"""The side of NumPyro and BlackJAX of `cuppl_nuts.py`, for a Python that has them.

What is timed is two compiled functions, of which one starts a chain and warms it up and the other
draws from it: tracing and compiling are apart. Sites whose names begin with an underscore are not
looked at.
"""

from __future__ import annotations

import sys
import time
from importlib import metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from cuppl_nuts_server import serve
from jax.flatten_util import ravel_pytree
from numpyro import deterministic, factor, sample
from numpyro.infer.hmc import hmc
from numpyro.infer.util import initialize_model

numpyro.enable_x64()
numpyro.enable_validation(False)
Data = dict[str, Any]


def eight_schools_noncentered(d: Data) -> None:
    mu, tau = sample("mu", dist.Normal(0, 5)), sample("tau", dist.HalfCauchy(5))
    z = sample("_z", dist.Normal(0, 1).expand([8]))
    sample("y", dist.Normal(mu + tau * z, d["sigma"]), obs=d["y"])


def eight_schools_centered(d: Data) -> None:
    mu, tau = sample("mu", dist.Normal(0, 5)), sample("tau", dist.HalfCauchy(5))
    theta = sample("_theta", dist.Normal(mu, tau).expand([8]))
    sample("y", dist.Normal(theta, d["sigma"]), obs=d["y"])


def garch11(d: Data) -> None:
    mu, a0 = sample("mu", dist.Normal(0, 100)), sample("a0", dist.Exponential(0.01))
    a1 = sample("a1", dist.Uniform(0, 1))
    b1 = sample("b1", dist.Uniform(0, 1 - a1))

    def step(sigma: Any, y: Any) -> Any:
        found = jnp.sqrt(a0 + a1 * (y - mu) ** 2 + b1 * sigma * sigma)
        return found, found

    _, later = jax.lax.scan(step, d["sigma1"], d["y"][:-1])
    sigma = jnp.concatenate([d["sigma1"][None], later])
    sample("y", dist.Normal(mu, sigma), obs=d["y"])


def kidscore_interaction(d: Data) -> None:
    b = sample("b", dist.Normal(0, 100).expand([4]))
    mean = b[0] + b[1] * d["hs"] + b[2] * d["iq"] + b[3] * d["hs"] * d["iq"]
    sample("kid", dist.Normal(mean, sample("sigma", dist.HalfCauchy(2.5))), obs=d["kid"])


def arK(d: Data) -> None:
    a, b = sample("a", dist.Normal(0, 10)), sample("b", dist.Normal(0, 10).expand([5]))
    y, n = d["y"], len(d["y"])
    x = jnp.stack([y[4 - k : n - 1 - k] for k in range(5)], 1)
    sample("y", dist.Normal(a + x @ b, sample("sigma", dist.HalfCauchy(2.5))), obs=y[5:])


def low_dim_gauss_mix(d: Data) -> None:
    m1 = sample("m1", dist.Normal(0, 2))
    m2 = deterministic("m2", m1 + jnp.exp(sample("_d", dist.Normal(0, 2))))
    s, theta = sample("s", dist.HalfNormal(2).expand([2])), sample("theta", dist.Beta(5, 5))
    a = jnp.log(theta) + dist.Normal(m1, s[0]).log_prob(d["y"])
    b = jnp.log1p(-theta) + dist.Normal(m2, s[1]).log_prob(d["y"])
    factor("y", jnp.logaddexp(a, b).sum())


def diamonds(d: Data) -> None:
    b, a = sample("b", dist.Normal(0, 1).expand([24])), sample("a", dist.StudentT(3, 8, 10))
    sigma = sample("sigma", dist.HalfCauchy(10))
    sample("y", dist.Normal(a + d["xs"] @ b, sigma), obs=d["y"])


def gp_pois_regr(d: Data) -> None:
    rho, alpha = sample("rho", dist.Gamma(25, 4)), sample("alpha", dist.HalfNormal(2))
    z, x = sample("_z", dist.Normal(0, 1).expand([11])), d["x"]
    near = jnp.exp(-0.5 * ((x[:, None] - x[None]) / rho) ** 2)
    root = jnp.linalg.cholesky(alpha**2 * near + 1e-10 * jnp.eye(11))
    sample("k", dist.Poisson(jnp.exp(root @ z)), obs=d["k"])


def lotka_volterra(d: Data) -> None:
    def positive(name: str, mean: float, sd: float) -> Any:
        return sample(name, dist.TruncatedNormal(mean, sd, low=0))

    a, c = positive("a", 1, 0.5), positive("c", 1, 0.5)
    b, e = positive("b", 0.05, 0.05), positive("d", 0.05, 0.05)
    first = jnp.stack([sample(n, dist.LogNormal(np.log(10), 1)) for n in ("u0", "v0")])
    s1, s2 = (sample(n, dist.LogNormal(-1, 1)) for n in ("s1", "s2"))

    def slope(w: Any) -> Any:
        return jnp.stack([(a - b * w[1]) * w[0], (e * w[0] - c) * w[1]])

    def step(w: Any, _: Any) -> Any:
        k1 = slope(w)
        k2 = slope(w + 0.025 * k1)
        k3 = slope(w + 0.025 * k2)
        k4 = slope(w + 0.05 * k3)
        return w + 0.05 / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    def year(w: Any, _: Any) -> Any:
        w, _ = jax.lax.scan(step, w, None, length=20)
        return w, w

    _, later = jax.lax.scan(year, first, None, length=20)
    found = jnp.log(jnp.concatenate([first[None], later]))
    sample("hare", dist.LogNormal(found[:, 0], s1), obs=d["hare"])
    sample("lynx", dist.LogNormal(found[:, 1], s2), obs=d["lynx"])


def hmm_example(d: Data) -> None:
    rows = [sample(n, dist.Dirichlet(jnp.ones(2))) for n in ("t1", "t2")]
    m1 = sample("m1", dist.TruncatedNormal(3, 1, low=0, high=50))
    m2 = deterministic("m2", m1 + jnp.exp(sample("_d", dist.Normal(1.5, 1))))
    seen = jnp.stack([dist.Normal(m, 1).log_prob(d["y"]) for m in (m1, m2)], 1)
    moves = jnp.log(jnp.stack(rows))

    def step(alpha: Any, now: Any) -> Any:
        return jax.nn.logsumexp(alpha[:, None] + moves, 0) + now, None

    alpha, _ = jax.lax.scan(step, seen[0], seen[1:])
    factor("y", jax.nn.logsumexp(alpha))


def numpyro_chain(info: Any, dense: bool) -> tuple[Any, Any]:
    """A warm-up from a position and a key, and the draws after it."""
    init, draw = hmc(info.potential_fn, algo="NUTS")

    def warm(q: Any, key: Any) -> Any:
        state = init(q, 1000, rng_key=key, target_accept_prob=0.8, dense_mass=dense)
        return jax.lax.fori_loop(0, 1000, lambda _, s: draw(s), state)

    def one(state: Any, _: Any) -> Any:
        state = draw(state)
        return state, info.postprocess_fn(state.z)

    return warm, lambda state: jax.lax.scan(one, state, None, length=1000)[1]


def blackjax_chain(info: Any, dense: bool) -> tuple[Any, Any]:
    """The same of BlackJAX."""
    import blackjax

    def density(z: Any) -> Any:
        return -info.potential_fn(z)

    learn = blackjax.window_adaptation(
        blackjax.nuts, density, is_mass_matrix_diagonal=not dense, target_acceptance_rate=0.8
    )

    def warm(q: Any, key: Any) -> Any:
        first, later = jax.random.split(key)
        found, _ = learn.run(first, q, num_steps=1000)
        return found.state, found.parameters, later

    def draws(warmed: Any) -> Any:
        state, parameters, key = warmed
        sampler = blackjax.nuts(density, **parameters)

        def one(state: Any, key: Any) -> Any:
            state, _ = sampler.step(key, state)
            return state, info.postprocess_fn(state.position)

        return jax.lax.scan(one, state, jax.random.split(key, 1000))[1]

    return warm, draws


def main(model: str, sampler: str, metric: str) -> None:
    """Serve one model's chains."""
    chains = {"numpyro": numpyro_chain, "blackjax": blackjax_chain}

    def make(given: dict[str, Any]) -> tuple[Any, float]:
        begin = time.process_time()
        data = {name: jnp.array(v) for name, v in given.items()}
        info = initialize_model(jax.random.PRNGKey(0), globals()[model], model_args=(data,))
        flat, unravel = ravel_pytree(info.param_info.z)
        slope = jax.jit(jax.value_and_grad(lambda q: info.potential_fn(unravel(q))))
        warm, draws = (jax.jit(f) for f in chains[sampler](info, metric == "dense"))

        def start(seed: int) -> Any:
            random = np.random.default_rng(seed)
            while True:
                q = random.uniform(-2, 2, flat.shape)
                if all(np.isfinite(v).all() for v in slope(q)):
                    return unravel(q)

        def chain(seed: int) -> tuple[float, float, Any]:
            q = jax.block_until_ready(start(seed))
            times = [time.process_time()]
            state = jax.block_until_ready(warm(q, jax.random.PRNGKey(seed)))
            times.append(time.process_time())
            found = jax.block_until_ready(draws(state))
            times.append(time.process_time())
            looked = [np.asarray(v).reshape(1000, -1) for n, v in found.items() if n[0] != "_"]
            return times[1] - times[0], times[2] - times[1], np.concatenate(looked, axis=1)

        chain(99)
        return chain, time.process_time() - begin

    serve(make, f"{sampler} {metadata.version(sampler)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
