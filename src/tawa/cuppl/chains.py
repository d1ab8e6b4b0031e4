"""Posteriors by chains of NUTS or HMC, on the CPU or on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tawa.base.cores import cores
from tawa.cuppl.cpu.memory import encode_inputs
from tawa.cuppl.inference.adaptation import Plan, Report
from tawa.cuppl.inference.checkpoint import Folder
from tawa.cuppl.inference.density import LEVELS
from tawa.cuppl.inference.nuts import Drawn, rivals_of, run_plans
from tawa.cuppl.inference.settings import Limits, check_settings, counts
from tawa.cuppl.observations import observations
from tawa.cuppl.results.chains import ChainPosterior, least_e_bfmi
from tawa.cuppl.results.posterior import Posterior, Run

if TYPE_CHECKING:
    from tawa.cuppl.model import Model

__all__ = ["chains_posterior"]


def chains_posterior(
    model: Model,
    plan: Plan,
    data: Mapping[str, Any] | None,
    chains: int,
    threads: int | None,
    limits: Limits | None,
    report: Report | None,
    device: str,
    checkpoint: Folder = None,
) -> Posterior:
    """Draws of some chains, whose seeds follow from the plan's."""
    check_settings(plan.seed, device)
    plan, chains = plan.checked(), counts(chains=chains)[0]
    (threads,) = counts(threads=cores() if threads is None else threads)
    model.check_draws(plan.draws * chains)
    workers, block = model.workers(data, 1)
    start = partial(model.density_of, workers.inputs, limits or Limits())
    model.gradient_code()
    plans = [replace(plan, seed=plan.seed + 7919 * chain) for chain in range(chains)]
    method, seconds = "hmc" if plan.leapfrogs else "nuts", 0.0
    kept = model.checkpoint(checkpoint, data, device, plan, chains if plan.pooled else 0)
    if device == "cpu":
        places = [kept.place(f"chain-{chain}") for chain in range(chains)] if kept else None
        found = Drawn.of(run_plans(plans, start, threads, limits or Limits(), report, places))
    else:
        from tawa.cuppl.gpu.chains import run_on_gpu

        image = encode_inputs(model.elaborated, data or {})
        first = start(plan.seed, LEVELS)
        found, seconds = run_on_gpu(
            model.chains_device(chains), first, image, plans, report,
            rivals_of(plans, partial(start, plan.seed, LEVELS)),
        )  # fmt: skip
        method += " on the GPU"
    weights, order = np.full(plan.draws, 1.0 / plan.draws), np.arange(plan.draws)
    runs = [
        Run(columns, weights, 0.0, order, [*memory, block], plan.draws)
        for columns, memory in zip(found.columns, found.memory, strict=True)
    ]
    runs[0].device_seconds = seconds
    kept = found.statistics
    diagnostics = {
        "accepted": float(kept["acceptance_rate"].mean(1).mean()),
        "divergent": float(kept["diverging"].sum()),
        "e_bfmi": least_e_bfmi(kept["energy"]),
    }
    posterior = ChainPosterior(model.elaborated, runs, model.names, method, diagnostics)
    posterior.statistics.update(kept)
    again = dict(data or {}), found.positions, plan.seed, limits or Limits()
    posterior.run_again_by(partial(observations, model.module, model.main, *again))
    posterior.warn()
    return posterior
