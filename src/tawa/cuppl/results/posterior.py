"""What an inference method returns: weighted or plain draws of the program's result."""

from __future__ import annotations

import ctypes
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tawa.base.user_frames import entries, stack_level
from tawa.cuppl.cpu.memory import Decoder, column, flat_key, hashable, is_array
from tawa.cuppl.elaboration.shared import Elaborated
from tawa.cuppl.inference.noted import Noted
from tawa.cuppl.inference.smc import SmcRun
from tawa.cuppl.inference.weights import relative_weights
from tawa.cuppl.typing.errors import NoColumn, UnsupportedMethod
from tawa.functional.terms import Con, Term

__all__ = ["InferenceWarning", "Posterior", "Run"]

Floats = npt.NDArray[np.float64]
LOW_ESS = 100.0
WORST_K = 0.7


def few_runs(runs: int) -> float:
    """What widens a standard error from few runs: Student's quantile over a normal's.

    At 97.5%, by the first terms of its expansion (Abramowitz and Stegun 26.7.5).
    """
    z, free = 1.959963985, runs - 1.0
    first = (z**3 + z) / 4.0
    second = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
    return (z + first / free + second / free**2 + third / free**3) / z


class InferenceWarning(UserWarning):
    """An estimate that should not be trusted as it is."""


@dataclass(repr=False)
class Run:
    """One run of a weighted method: result words, normalised weights, evidence."""

    words: npt.NDArray[np.int64]
    weights: Floats
    log_evidence: float
    groups: npt.NDArray[np.int64]
    """Particles with the same number descend from one particle and are not independent."""
    memory: list[Any] = field(default_factory=list[Any])
    steps: int = 0
    resampled: int = 0
    copies: list[tuple[int, npt.NDArray[np.int64]]] = field(
        default_factory=list[tuple[int, npt.NDArray[np.int64]]]
    )
    """Memory of a run on another device or in another process: where it lay, and what it held."""
    device_memory: int = 0
    """The most bytes of the device's memory that the run used."""
    device_seconds: float = 0.0
    """From the first launch to the last, without copying results back."""
    device_rows: int = 0
    """Words that each particle has on the device at rest; deeper ones have more in a pool."""
    device_sizes: dict[str, int] = field(default_factory=dict[str, int])
    """Bytes of each allocation on the device."""

    def __repr__(self) -> str:
        """The number of draws and the evidence."""
        return f"<run: {len(self.weights)} draws, log evidence {self.log_evidence:.5g}>"

    def read(self, address: int, count: int) -> bytes:
        """Words of memory that the results refer to."""
        for base, words in self.copies:
            first = (address - base) // 8
            if 0 <= first < len(words):
                return words[first : first + count].tobytes()
        if self.copies and count:
            raise ValueError("a result refers to an input, which is on the device")
        return ctypes.string_at(address, 8 * count)

    def portable(self) -> Run:
        """The same without addresses of this process, for another one."""
        copies = self.copies or [(a.ctypes.data, a) for a in self.memory]
        return replace(self, memory=[], copies=copies)

    @staticmethod
    def of(run: SmcRun) -> Run:
        """From what the driver returns."""
        relative = run.relative if run.relative is not None else relative_weights(run.log_weights)
        weights = relative / relative.sum()
        return Run(
            run.results, weights, run.log_evidence, run.ancestors, run.memory, run.steps,
            run.resampled,
        )  # fmt: skip

    def relative_variance(self) -> float:
        """Estimated variance of the evidence, relative to its square.

        From the genealogy of this one run (Lee and Whiteley 2018): what all particles of one
        first ancestor weigh together varies as an independent draw would. It is at most 1 (all
        particles descend from one ancestor), and then says only that it is not small.
        """
        share = np.bincount(self.groups, weights=self.weights)
        n = len(self.weights)
        squares = float(np.einsum("i,i", share, share))
        return max(0.0, (squares * n - 1.0) / (n - 1)) if n > 1 else 1.0

    def mean_variance(self, values: Floats, mean: float) -> float:
        """Estimated variance of a weighted mean, by the same argument."""
        terms = np.bincount(self.groups, weights=self.weights * (values - mean))
        return float((terms**2).sum())


@entries
class Posterior:
    """Draws of the program's result, with weights that add up to 1.

    Columns are the parts of a result that is a tuple of numbers; they are called as the variables
    in the tuple that `main` returns, or by their position.
    """

    def __init__(
        self,
        program: Elaborated,
        runs: Sequence[Run],
        names: Sequence[str],
        method: str,
        diagnostics: Mapping[str, float] | None = None,
        exact: bool = False,
    ) -> None:
        self.program = program
        self.runs = list(runs)
        self.method = method
        self.names = list(names)
        self.exact = exact
        self.diagnostics = dict(diagnostics or {})
        self.statistics: dict[str, Floats] = {}
        """Of each transition of chains that have such, as (chains, draws): ArviZ's sample_stats."""
        self._look: Callable[[], dict[str, Noted]] | None = None
        self._noted: dict[str, Noted] | None = None

    def __repr__(self) -> str:
        """The method, the number of draws and what they are of."""
        names = ", ".join(self.names) if len(self.names) < 9 else f"{len(self.names)} parts"
        size = sum(len(run.weights) for run in self.runs)
        return f"<{self.method}: {size} draws of {names}>"

    # Evidence.

    @cached_property
    def log_evidence(self) -> float:
        """log of the estimated evidence (of the mean of the runs' estimates)."""
        values = np.array([r.log_evidence for r in self.runs])
        return float(np.logaddexp.reduce(values) - math.log(len(values)))

    @cached_property
    def log_evidence_error(self) -> float:
        """Standard error of `log_evidence`.

        With four runs or more from their spread, else from the genealogy inside each run; 0 for
        exact methods. A spread of few runs is uncertain itself: it is widened so that twice the
        error holds the truth as often as it would for many.
        """
        if self.exact:
            return 0.0
        values = np.array([r.log_evidence for r in self.runs])
        relative = np.exp(values - self.log_evidence)
        if len(values) >= 4:
            spread = float(np.std(relative, ddof=1) / math.sqrt(len(values)))
            return spread * few_runs(len(values))
        variances = np.array([r.relative_variance() for r in self.runs])
        return float(math.sqrt((relative**2 * variances).sum()) / len(values))

    # Draws.

    @cached_property
    def weights(self) -> Floats:
        """Weights of all draws, those of each run in proportion to its evidence."""
        if len(self.runs) == 1:
            return self.runs[0].weights
        top = max(r.log_evidence for r in self.runs)
        scaled = [r.weights * math.exp(r.log_evidence - top) for r in self.runs]
        total = np.concatenate(scaled)
        return total / total.sum()

    @cached_property
    def ess(self) -> float:
        """Effective number of draws as far as the weights say: 1 / sum of squares."""
        return float(1.0 / np.einsum("i,i", self.weights, self.weights))

    @cached_property
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Each numeric part of the result as an array over all draws."""
        out: dict[str, npt.NDArray[Any]] = {}
        runs = [r.words for r in self.runs]
        words = runs[0] if len(runs) == 1 else np.concatenate(runs, axis=1)
        row = 0
        for name, type_ in zip(self.names, _parts(self.program.result), strict=True):
            found = column(type_, words[row]) if row < len(words) else None
            if found is not None:
                out[name] = found
            row += len(self.program.layouts.words(type_))
        return out

    def __getitem__(self, name: str | int) -> npt.NDArray[Any]:
        """A column, by name or position. Raises NoColumn, which is a KeyError."""
        if isinstance(name, int) and 0 <= name < len(self.names):
            name = self.names[name]
        if not isinstance(name, int) and name in self.arrays:
            return self.arrays[name]
        if isinstance(name, int) or name not in self.columns:
            known = ", ".join(f"`{n}`" for n in self.arrays)
            raise NoColumn(
                f"the result has no part `{name}` of numbers",
                expected=f"one of {known}" if known else None,
                hint="use `.values`, or give a function of the result instead of a name",
            )  # fmt: skip
        return self.columns[name]

    @cached_property
    def values(self) -> list[Any]:
        """The result of every draw as a Python value (those without weight are None)."""
        out: list[Any] = []
        for run in self.runs:
            decoder = Decoder(self.program, run.read)
            rows = run.words.T.tolist()
            for words, weight in zip(rows, run.weights.tolist(), strict=True):
                out.append(decoder.decode(self.program.result, words) if weight > 0.0 else None)
        return out

    def probabilities(self) -> dict[Any, float]:
        """The posterior probability of each value of the result, largest first."""
        found: dict[Any, float] = {}
        values: dict[Any, Any] = {}
        for value, weight in zip(self.values, self.weights.tolist(), strict=True):
            if weight > 0.0:
                key = flat_key(value)
                values.setdefault(key, value)
                found[key] = found.get(key, 0.0) + weight
        ranked = sorted(found.items(), key=lambda item: -item[1])
        return {hashable(values[key]): weight for key, weight in ranked}

    @cached_property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Each part of the result that has one size in all draws: (draws, ...) of each.

        Numbers, vectors of numbers (and vectors of such), and matrices. Draws without weight have
        zeros in the last two.
        """
        out: dict[str, npt.NDArray[Any]] = dict(self.columns)
        parts = _parts(self.program.result)
        single = len(parts) == 1 and parts[0] is self.program.result
        for index, (name, type_) in enumerate(zip(self.names, parts, strict=True)):
            if name not in out and is_array(type_):
                items = [v if single or v is None else v[index] for v in self.values]
                found = _stacked(items)
                if found is not None:
                    out[name] = found
        return {name: out[name] for name in self.names if name in out}

    def observations(self) -> dict[str, Noted]:
        """What each `observe` saw in each draw of NUTS or HMC, and would see again.

        By the names of what is observed: log likelihoods, draws from the posterior predictive
        distribution and the data. The draws are run again for it, once.
        Raises UnsupportedMethod for other methods.
        """
        if self._noted is None:
            if self._look is None:
                raise UnsupportedMethod(
                    f"{self.method} keeps no choices that could be run again",
                    hint="use `nuts` or `hmc`, or return `log_density` of each observation",
                )
            self._noted = self._look()
        return self._noted

    @property
    def can_run_again(self) -> bool:
        """Whether there are `observations`."""
        return self._look is not None

    def run_again_by(self, look: Callable[[], dict[str, Noted]]) -> None:
        """How the observations are found when someone asks for them."""
        self._look = look

    # Estimates.

    def expectation(
        self, what: str | int | Callable[[Any], float] | npt.NDArray[Any] = 0
    ) -> tuple[float, float]:
        """Posterior mean of a column (or of a function of the result) and its standard error."""
        values = self._numbers(what)
        means = self._by_run(values)
        weights = self._run_weights()
        mean = float((weights * means).sum())
        if self.exact:
            return mean, 0.0
        if len(self.runs) >= 4:
            spread = (weights**2 * (means - mean) ** 2).sum() * len(means) / (len(means) - 1)
            return mean, float(math.sqrt(spread)) * few_runs(len(self.runs))
        variance = 0.0
        start = 0
        for weight, run in zip(weights.tolist(), self.runs, strict=True):
            part = values[start : start + len(run.weights)]
            variance += weight**2 * run.mean_variance(part, mean)
            start += len(run.weights)
        return mean, math.sqrt(variance)

    def mean(self, what: str | int | Callable[[Any], float] = 0) -> float:
        """Posterior mean of a column, or of a function of the result."""
        return float((self._run_weights() * self._by_run(self._numbers(what))).sum())

    def std(self, what: str | int | Callable[[Any], float] = 0) -> float:
        """Posterior standard deviation."""
        values = self._numbers(what)
        mean = float((self.weights * values).sum())
        return float(math.sqrt((self.weights * (values - mean) ** 2).sum()))

    def quantile(self, q: float, what: str | int | Callable[[Any], float] = 0) -> float:
        """Posterior quantile."""
        values = self._numbers(what)
        order = np.argsort(values, kind="stable")
        position = np.searchsorted(np.cumsum(self.weights[order]), q)
        return float(values[order[min(int(position), len(order) - 1)]])

    def _numbers(self, what: str | int | Callable[[Any], float] | npt.NDArray[Any]) -> Floats:
        if isinstance(what, str | int):
            found = np.asarray(self[what], dtype=np.float64)
            if found.ndim > 1:
                name = self.names[what] if isinstance(what, int) else what
                raise NoColumn(
                    f"`{name}` is a vector or a matrix in each draw", expected="a number",
                    hint=f"take one: `lambda v: v[...]`, or compute with `posterior[{name!r}]`",
                )  # fmt: skip
            return found
        if callable(what):
            return np.array([what(v) if v is not None else 0.0 for v in self.values], dtype=float)
        return np.asarray(what, dtype=np.float64)

    def _by_run(self, values: Floats) -> Floats:
        out: list[float] = []
        start = 0
        for run in self.runs:
            out.append(float((run.weights * values[start : start + len(run.weights)]).sum()))
            start += len(run.weights)
        return np.array(out)

    def _run_weights(self) -> Floats:
        values = np.array([r.log_evidence for r in self.runs])
        weights = np.exp(values - values.max())
        return weights / weights.sum()

    # Reports.

    def warn(self) -> None:
        """Say what is doubtful about these estimates."""
        if self.exact:
            return
        if self.ess < min(LOW_ESS, 0.5 * len(self.weights)):
            warnings.warn(
                f"{self.method}: effective sample size {self.ess:.1f} of {len(self.weights)}",
                InferenceWarning, stacklevel=stack_level(),
            )  # fmt: skip
        if self.diagnostics.get("pareto_k", 0.0) > WORST_K:
            warnings.warn(
                f"{self.method}: Pareto's k is {self.diagnostics['pareto_k']:.2f}, above "
                f"{WORST_K}: the normal is no good approximation here; use `nuts`",
                InferenceWarning, stacklevel=stack_level(),
            )  # fmt: skip
        if self.runs and self.log_evidence_error > 0.5 and math.isfinite(self.log_evidence):
            warnings.warn(
                f"{self.method}: log evidence has a standard error of "
                f"{self.log_evidence_error:.2f}; use more particles",
                InferenceWarning, stacklevel=stack_level(),
            )  # fmt: skip

    def equal_draws(self, draws: int, seed: int = 0) -> dict[str, npt.NDArray[Any]]:
        """Columns resampled to equal weights: (runs, draws) each."""
        random = np.random.Generator(np.random.Philox(key=seed))
        start = 0
        picks: list[npt.NDArray[np.int64]] = []
        for run in self.runs:
            size = len(run.weights)
            picks.append(start + random.choice(size, size=draws, p=run.weights / run.weights.sum()))
            start += size
        chosen = np.array(picks)
        return {name: values[chosen] for name, values in self.arrays.items()}

    def to_inference_data(self, draws: int = 1000, seed: int = 0) -> Any:
        """ArviZ `InferenceData`, with equally weighted draws. Needs the `arviz` extra."""
        from tawa.cuppl.results.interop import to_inference_data

        return to_inference_data(self, draws, seed)

    def summary(self) -> str:
        """A table for people."""
        lines = [f"{self.method}: {len(self.weights)} draws, effective sample size {self.ess:.1f}"]
        if math.isfinite(self.log_evidence):
            lines.append(f"log evidence {self.log_evidence:.5f} +- {self.log_evidence_error:.5f}")
        for name in self.columns:
            mean, error = self.expectation(name)
            lines.append(f"  {name:12} mean {mean:.6g} +- {error:.2g}, sd {self.std(name):.6g}")
        if not self.columns:
            for value, probability in list(self.probabilities().items())[:10]:
                lines.append(f"  {value!r:24} {probability:.5f}")
        lines.extend(f"  {name}: {value:.4g}" for name, value in self.diagnostics.items())
        return "\n".join(lines)


def _stacked(items: list[Any]) -> npt.NDArray[Any] | None:
    """Equally large nested lists as one array; None if their sizes differ."""
    first = next((item for item in items if item is not None), None)
    if first is None:
        return None
    try:
        empty = np.zeros_like(np.asarray(first))
        return np.array([empty if item is None else item for item in items])
    except ValueError:
        return None


def _parts(type_: Term) -> tuple[Term, ...]:
    assert isinstance(type_, Con)
    return type_.arguments if type_.name == "tuple" else (type_,)
