"""Results of Markov chains: equally weighted but dependent draws, with R-hat and ESS."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tawa.base.user_frames import entries, stack_level
from tawa.cuppl.numeric import special
from tawa.cuppl.results.posterior import InferenceWarning, Posterior

__all__ = ["ChainPosterior", "bulk_sample_size", "effective_sample_size", "least_e_bfmi", "r_hat"]

Floats = npt.NDArray[np.float64]
WORST_R_HAT = 1.05
LEAST_ESS = 100.0
LEAST_BFMI = 0.3


def _split(chains: Floats) -> Floats:
    """Each chain cut into halves: (2 * chains, draws // 2)."""
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, half : 2 * half]])


def r_hat(chains: Floats) -> float:
    """R-hat by rank of (chains, draws): near 1 if all halves look alike.

    The larger of split R-hat of normal scores of the values' ranks, and of those of their distances
    from the median, which sees different spreads (Vehtari and others 2021).
    """
    parts = _split(np.asarray(chains, dtype=np.float64))
    if parts.shape[1] < 2:
        return math.nan
    apart = np.abs(parts - np.median(parts))
    return max(_plain_r_hat(_scores(parts)), _plain_r_hat(_scores(apart)))


def _scores(values: Floats) -> Floats:
    """Normal scores of ranks; equal values share their mean rank."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - 0.5 * (counts - 1.0)
    known = _normal_quantiles((ranks - 0.375) / (values.size + 0.25))
    return known[place].reshape(values.shape)


def _normal_quantiles(p: Floats) -> Floats:
    """Standard normal quantiles, 0 < p < 1, as `numeric.special.normal_quantile` has them."""
    q = p - 0.5
    middle = 0.180625 - q * q
    r = np.sqrt(-np.log(np.minimum(p, 1.0 - p)))
    near, far = r - 1.6, r - 5.0
    ends = np.where(
        r <= 5.0,
        _ratio(near, special.MIDDLE_P, special.MIDDLE_Q),
        _ratio(far, special.TAIL_P, special.TAIL_Q),
    )
    centre = q * _ratio(middle, special.CENTRAL_P, special.CENTRAL_Q)
    return np.where(np.abs(q) <= 0.425, centre, np.copysign(ends, q))


def _ratio(x: Floats, above: Sequence[float], below: Sequence[float]) -> Floats:
    """Of two polynomials, their highest coefficients first."""
    return np.polyval(above, x) / np.polyval(below, x)


def _plain_r_hat(parts: Floats) -> float:
    """R-hat of parts of chains (Gelman, BDA3 11.4)."""
    n = parts.shape[1]
    within = float(parts.var(axis=1, ddof=1).mean())
    between = n * float(parts.mean(axis=1).var(ddof=1))
    if within == 0.0:
        return 1.0 if between == 0.0 else math.inf
    return math.sqrt((n - 1) / n + between / (n * within))


def _autocovariance(parts: Floats) -> Floats:
    n = parts.shape[1]
    centred = parts - parts.mean(axis=1, keepdims=True)
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(centred, size, axis=1)
    return np.fft.irfft(spectrum * np.conj(spectrum), size, axis=1)[:, :n] / n


def effective_sample_size(chains: Floats) -> float:
    """Independent draws that would tell the mean as well, at most as many as there are."""
    parts = _split(np.asarray(chains, dtype=np.float64))
    return min(_sample_size(parts), float(parts.size))


def bulk_sample_size(chains: Floats) -> float:
    """The same of normal scores of ranks, as ArviZ's `bulk`; draws may avoid each other."""
    return _sample_size(_scores(_split(np.asarray(chains, dtype=np.float64))))


def _sample_size(parts: Floats) -> float:
    """By Geyer's initial monotone sequence."""
    m, n = parts.shape
    if n < 4:
        return float(m * n)
    covariance = _autocovariance(parts)
    within = float(covariance[:, 0].mean() * n / (n - 1))
    total = within * (n - 1) / n + float(parts.mean(axis=1).var(ddof=1))
    if total == 0.0:
        return float(m * n)
    correlation = 1.0 - (within - covariance.mean(axis=0) * n / (n - 1)) / total
    time, least, lag = -1.0, math.inf, 0
    while 2 * lag + 1 < n:
        pair = float(correlation[2 * lag] + correlation[2 * lag + 1])
        if pair < 0.0:
            break
        least = min(least, pair)
        time += 2.0 * least
        lag += 1
    return m * n / max(time, 1.0 / math.log10(m * n + 1.0))


def least_e_bfmi(energies: Floats) -> float:
    """How well new momenta explore the energies (chains, draws): low is below 0.3.

    That of the chain where it is least (Betancourt 2016); NaN if the first chain's do not change.
    """
    spread = ((energies - energies.mean(1, keepdims=True)) ** 2).sum(1)
    moves = (np.diff(energies, axis=1) ** 2).sum(1)
    with np.errstate(all="ignore"):
        found = np.where(spread > 0.0, moves / spread, math.nan)
    return min(found.tolist())


@entries
class ChainPosterior(Posterior):
    """Draws of several chains; their evidence is not estimated."""

    @cached_property
    def log_evidence(self) -> float:
        """NaN: these methods don't estimate it."""
        return math.nan

    @cached_property
    def log_evidence_error(self) -> float:
        """NaN."""
        return math.nan

    @cached_property
    def weights(self) -> Floats:
        """Equal weights."""
        size = sum(len(r.weights) for r in self.runs)
        return np.full(size, 1.0 / size)

    def chains_of(self, what: str | int | Callable[[Any], float] | npt.NDArray[Any] = 0) -> Floats:
        """A column (or a function of the result) as (chains, draws)."""
        return self._numbers(what).reshape(len(self.runs), -1)

    def equal_draws(self, draws: int, seed: int = 0) -> dict[str, npt.NDArray[Any]]:
        """Columns as (chains, draws); all draws are kept."""
        del draws, seed
        chains = len(self.runs)
        return {n: a.reshape(chains, -1, *a.shape[1:]) for n, a in self.arrays.items()}

    def r_hat(self, what: str | int | Callable[[Any], float] = 0) -> float:
        """R-hat by rank of a column."""
        return r_hat(self.chains_of(what))

    def effective(self, what: str | int | Callable[[Any], float] | npt.NDArray[Any] = 0) -> float:
        """Effective sample size of a column."""
        return effective_sample_size(self.chains_of(what))

    def expectation(
        self, what: str | int | Callable[[Any], float] | npt.NDArray[Any] = 0
    ) -> tuple[float, float]:
        """Posterior mean and its standard error, from the effective sample size."""
        values = self._numbers(what)
        error = float(values.std()) / math.sqrt(self.effective(values))
        return float(values.mean()), error

    def warn(self) -> None:
        """Say which columns have not converged, and what went wrong on the way."""
        self._warn_of_transitions()
        for name in self.columns:
            worst, size = self.r_hat(name), self.effective(name)
            if worst > WORST_R_HAT or size < LEAST_ESS:
                warnings.warn(
                    f"{self.method}: {name} has R-hat {worst:.3f} and effective sample size "
                    f"{size:.0f}; run longer chains",
                    InferenceWarning, stacklevel=stack_level(),
                )  # fmt: skip

    def _warn_of_transitions(self) -> None:
        divergent, size = self.diagnostics.get("divergent", 0.0), len(self.weights)
        if divergent > 0.0:
            warnings.warn(
                f"{self.method}: {divergent:.0f} of {size} transitions diverged, so the draws may "
                "miss a part of the posterior; raise `target`, or write the model without strong "
                "dependence of scales on each other",
                InferenceWarning, stacklevel=stack_level(),
            )  # fmt: skip
        if self.diagnostics.get("e_bfmi", 1.0) < LEAST_BFMI:
            warnings.warn(
                f"{self.method}: E-BFMI is {self.diagnostics['e_bfmi']:.2f}, so the tails are "
                "explored slowly; run longer chains, or write the model otherwise",
                InferenceWarning, stacklevel=stack_level(),
            )  # fmt: skip

    def summary(self) -> str:
        """A table for people."""
        lines = [super().summary()]
        for name in self.columns:
            shown = f"R-hat {self.r_hat(name):.3f}, effective draws {self.effective(name):.0f}"
            lines.append(f"  {name}: {shown}")
        return "\n".join(lines)
