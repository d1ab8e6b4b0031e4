"""Posteriors by normal approximations, whose draws are weighed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tawa.cuppl.inference.approximation import Normal, weigh
from tawa.cuppl.inference.density import Density
from tawa.cuppl.inference.settings import Limits, check_settings, counts
from tawa.cuppl.results.posterior import Posterior, Run

if TYPE_CHECKING:
    from tawa.cuppl.model import Model

__all__ = ["approximated"]


def approximated(
    model: Model,
    method: str,
    fit: Callable[[Density, np.random.Generator], tuple[Normal, float]],
    draws: int,
    paths: int,
    data: Mapping[str, Any] | None,
    seed: int,
    limits: Limits | None,
) -> Posterior:
    """Draws of the normals that `fit` finds from some starts, with the evidence they estimate."""
    (draws,) = counts(draws=draws)
    check_settings(seed)
    model.check_draws(draws * paths)
    random = np.random.Generator(np.random.Philox(key=seed))
    density, block = model.density(data, seed, limits)
    normals = [fit(density, random)]
    for path in range(1, paths):
        density, block = model.density(data, seed + 7919 * path, limits)
        normals.append(fit(density, random))
    found = weigh(density, normals, draws, random)
    total = float(np.logaddexp.reduce(found.log_weights))
    weights = np.exp(found.log_weights - total)
    count = len(weights)
    evidence = total - float(np.log(count))
    run = Run(
        found.columns, weights / weights.sum(), evidence, np.arange(count), [*found.memory, block]
    )
    diagnostics = {"pareto_k": found.pareto_k, "elbo": found.elbo}
    posterior = Posterior(model.elaborated, [run], model.names, method, diagnostics)
    posterior.warn()
    return posterior
