"""Results for other packages: ArviZ."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tawa.cuppl.results.posterior import Posterior

__all__ = ["to_inference_data"]


def to_inference_data(posterior: Posterior, draws: int, seed: int) -> Any:
    """ArviZ `InferenceData` of the numeric columns.

    Chains stay chains, and those of NUTS and HMC have a group `sample_stats`; weighted draws are
    resampled to `draws` equally weighted ones a run.
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
    return arviz.from_dict(groups) if _new_style(arviz) else arviz.from_dict(**groups)


def _new_style(arviz: Any) -> bool:
    """ArviZ 1.0 takes a dictionary of groups."""
    return int(str(arviz.__version__).split(".")[0]) >= 1
