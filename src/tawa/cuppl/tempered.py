"""Posteriors by tempering."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tawa.base.cores import cores
from tawa.cuppl.inference.settings import Limits, check_memory, check_settings, counts
from tawa.cuppl.inference.tempering import ENTRIES, run_tempered
from tawa.cuppl.results.posterior import Posterior, Run
from tawa.cuppl.results.progress import progress_bar

if TYPE_CHECKING:
    from tawa.cuppl.model import Model

__all__ = ["tempered_posterior"]

WORDS_A_PARTICLE = 2000
"""Of what is recorded, and of a heap, for a run of few choices."""


def tempered_posterior(
    model: Model, particles: int, data: Mapping[str, Any] | None, seed: int, sweeps: int,
    threshold: float, threads: int | None, limits: Limits | None, progress: bool,
) -> Posterior:  # fmt: skip
    """Draws that weigh the same, and the evidence."""
    particles, sweeps = counts(particles=particles, sweeps=sweeps)
    check_settings(seed, ess_threshold=threshold)
    check_memory("particles", particles, WORDS_A_PARTICLE)
    (threads,) = counts(threads=cores() if threads is None else threads)
    executable = model.traced(ENTRIES)
    workers, block = model.workers(data, 1)
    with progress_bar("tempered", progress) as report:
        found = run_tempered(
            executable, workers.inputs, particles, seed, threshold, sweeps, threads,
            limits or Limits(), report,
        )  # fmt: skip
    weights, steps = np.full(particles, 1.0 / particles), len(found.powers) - 1
    run = Run(
        found.words, weights, found.log_evidence, found.ancestors, [*found.memory, block], steps,
        steps,
    )  # fmt: skip
    more = {"accepted": found.accepted, "powers": float(steps)}
    posterior = Posterior(model.elaborated, [run], model.names, "tempered", more)
    posterior.warn()
    return posterior
