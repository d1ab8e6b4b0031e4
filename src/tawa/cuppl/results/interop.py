"""Results for other packages: ArviZ."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tawa.cuppl.results.posterior import Posterior

__all__ = ["to_inference_data"]


def to_inference_data(posterior: Posterior, draws: int, seed: int) -> Any:
    """ArviZ `InferenceData` of the numbers, vectors and matrices of the result.

    Chains stay chains, and those of NUTS and HMC have the groups `sample_stats`, `log_likelihood`,
    `posterior_predictive` and `observed_data`; weighted draws are resampled to `draws` equally
    weighted ones a run.
    Raises ImportError, which says what to install, without ArviZ.
    """
    try:
        arviz: Any = import_module("arviz")
    except ImportError as error:
        raise ImportError("to_inference_data needs ArviZ: pip install 'tawa[arviz]'") from error
    groups: dict[str, Any] = {"posterior": posterior.equal_draws(draws, seed)}
    if posterior.statistics:
        kinds = {"diverging": bool, "n_steps": int}
        groups["sample_stats"] = {
            name: values.astype(kinds.get(name, float))
            for name, values in posterior.statistics.items()
        }
    if posterior.can_run_again:
        found = posterior.observations()
        groups["log_likelihood"] = {n: one.log_likelihood for n, one in found.items()}
        groups["posterior_predictive"] = {n: one.predicted for n, one in found.items()}
        groups["observed_data"] = {n: one.observed for n, one in found.items()}
        groups = {name: group for name, group in groups.items() if group}
    return arviz.from_dict(groups) if _new_style(arviz) else arviz.from_dict(**groups)


def _new_style(arviz: Any) -> bool:
    """ArviZ 1.0 takes a dictionary of groups."""
    return int(str(arviz.__version__).split(".")[0]) >= 1
