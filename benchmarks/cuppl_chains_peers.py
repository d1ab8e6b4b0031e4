"""Peers of `cuppl_chains.py`: many chains of BlackJAX's ChEES or MEADS, or NumPyro's NUTS.

What is timed is one compiled function from starts to draws, warm-up included, at its second and
third call. Data come on standard input, draws go to a file, a line of JSON says the times.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import cuppl_nuts_numpyro as models
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.infer.hmc import hmc
from numpyro.infer.util import initialize_model


def positions(step: Any, states: Any, keys: Any, chains: int) -> Any:
    """Those of all chains after each step of BlackJAX's, one for each key."""

    def one(states: Any, key: Any) -> Any:
        states, _ = step(jax.random.split(key, chains), states)
        return states, states.position

    return jax.lax.scan(one, states, keys)[1]


def chees(density: Callable[[Any], Any], chains: int, warm_up: int, draws: int) -> Any:
    """From a key and starts to positions (draws, chains, values), by ChEES-HMC."""
    blackjax: Any = import_module("blackjax")
    optax: Any = import_module("optax")

    def run(key: Any, q: Any) -> Any:
        first, second = jax.random.split(key)
        adaptation = blackjax.chees_adaptation(density, chains)
        (states, parameters), _ = adaptation.run(first, q, 0.1, optax.adam(0.05), warm_up)
        step = jax.vmap(blackjax.dynamic_hmc(density, **parameters).step)
        return positions(step, states, jax.random.split(second, draws), chains)

    return run


def meads(density: Callable[[Any], Any], chains: int, warm_up: int, draws: int) -> Any:
    """The same by MEADS, generalised HMC."""
    blackjax: Any = import_module("blackjax")

    def run(key: Any, q: Any) -> Any:
        first, second = jax.random.split(key)
        (states, parameters), _ = blackjax.meads_adaptation(density, chains).run(first, q, warm_up)
        step = jax.vmap(blackjax.ghmc(density, **parameters).step)
        return positions(step, states, jax.random.split(second, draws), chains)

    return run


def nuts(density: Callable[[Any], Any], chains: int, warm_up: int, draws: int) -> Any:
    """The same by NumPyro's NUTS, a chain beside the other."""
    init, draw = hmc(lambda q: -density(q), algo="NUTS")

    def chain(key: Any, q: Any) -> Any:
        state = init(q, warm_up, rng_key=key, target_accept_prob=0.8, dense_mass=True)
        state = jax.lax.fori_loop(0, warm_up, lambda _, s: draw(s), state)

        def one(state: Any, _: Any) -> Any:
            state = draw(state)
            return state, state.z

        return jax.lax.scan(one, state, None, length=draws)[1]

    def run(key: Any, q: Any) -> Any:
        return jnp.swapaxes(jax.vmap(chain)(jax.random.split(key, chains), q), 0, 1)

    return run


def main(peer: str, name: str, chains: int, warm_up: int, draws: int, out: str) -> None:
    """Run one model."""
    data = {key: jnp.array(v) for key, v in json.loads(sys.stdin.read()).items()}
    info = initialize_model(
        jax.random.PRNGKey(0), getattr(models, name), model_args=(data,)
    )  # fmt: skip
    flat, unravel = ravel_pytree(info.param_info.z)

    def density(q: Any) -> Any:
        return -info.potential_fn(unravel(q))

    make = {"chees": chees, "meads": meads, "numpyro": nuts}[peer]
    run = jax.jit(make(density, chains, warm_up, draws))
    finite = jax.jit(jax.vmap(lambda q: jnp.isfinite(density(q))))
    random = np.random.default_rng(1)
    starts = random.uniform(-2, 2, (4 * chains, flat.size))
    starts = jnp.array(starts[np.asarray(finite(starts))][:chains])
    begin = time.perf_counter()
    jax.block_until_ready(run(jax.random.PRNGKey(0), starts))
    compiled = time.perf_counter() - begin
    seconds: list[float] = []
    found: Any = None
    for seed in (1, 2):
        begin = time.perf_counter()
        found = np.asarray(run(jax.random.PRNGKey(seed), starts))
        seconds.append(time.perf_counter() - begin)
    looked = jax.jit(jax.vmap(lambda q: info.postprocess_fn(unravel(q))))
    shown = looked(jnp.array(found.reshape(-1, flat.size)))
    columns = [np.asarray(v).reshape(draws, chains, -1) for n, v in shown.items() if n[0] != "_"]
    np.savez(out, draws=np.swapaxes(np.concatenate(columns, axis=2), 0, 1))
    more = {"first_call_s": round(compiled, 2), "jax": jax.__version__}
    print(json.dumps({"seconds": seconds, "more": more}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]), sys.argv[6])
