"""Results for other packages: ArviZ."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tawa.cuppl.results.posterior import Posterior

__all__ = ["to_inference_data"]


def to_inference_data(posterior: Posterior, draws: int, seed: int) -> Any:
    """ArviZ `InferenceData` of the numeric columns.

    Chains stay chains; weighted draws are resampled to `draws` equally weighted ones a run.
    Raises ImportError, which says what to install, without ArviZ.
    """
    try:
        arviz: Any = import_module("arviz")
    except ImportError as error:
        raise ImportError("to_inference_data needs ArviZ: pip install 'tawa[arviz]'") from error
    columns = posterior.equal_draws(draws, seed)
    return (
        arviz.from_dict({"posterior": columns}) if _new_style(arviz) else arviz.from_dict(columns)
    )


def _new_style(arviz: Any) -> bool:
    """ArviZ 1.0 takes a dictionary of groups."""
    return int(str(arviz.__version__).split(".")[0]) >= 1
