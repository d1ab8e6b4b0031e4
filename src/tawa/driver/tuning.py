"""`tawa.tune`: the best of many ways to compile a launch, measured, or predicted without a GPU.

The space is what the caller's configurations and the options that the choice leaves open make
together. A model of a few terms orders it; the best of its order are compiled, by several
processes, and replayed in the timing model. On a GPU the best of those are measured in turn. What
was found is kept in a file, under what the launch is: whoever tunes the same launch with that file
gets the same answer, on every run and every rank, and the file can be shipped.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tawa.base.errors import TawaError
from tawa.base.locks import locked
from tawa.base.user_frames import entries, entry
from tawa.driver.choice.profile import Sizes
from tawa.driver.compile_processes import compile_variants
from tawa.driver.progress import progress
from tawa.runtime.arguments import classify
from tawa.runtime.arrays import HOST, is_array
from tawa.runtime.autotune import Config
from tawa.runtime.launch import grid_sizes
from tawa.runtime.streams import current_stream
from tawa.runtime.timing import Stopwatch, interleaved

if TYPE_CHECKING:
    from tawa.driver.jit import Kernel

REPLAYED = 8
"""Candidates that are compiled and replayed in the timing model."""

MEASURED = 4
"""Candidates that are measured where there is a GPU."""

Options = dict[str, Any]


class NothingToTune(TawaError):
    """None of the ways to compile a launch works."""

    explanation = (
        "`tawa.tune` tried the configurations that it was given, and each failed to compile. The "
        "message has each one's error."
    )
    example = """
import numpy as np
import tawa
import tawa.language as tl


@tawa.jit
def double(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * 2)


tawa.tune(double, np.zeros(3, np.float32), grid=(1,), configs=[tawa.Config({"BLOCK": 3})])
"""


class BadTuningFile(TawaError):
    """A file of tuning results can't be read."""

    explanation = (
        "The file that `tawa.tune(..., file=)` reads is JSON that it has written itself. If the "
        "file is something else, move it away and tune again."
    )
    example = """
from pathlib import Path

from tawa.driver.tuning import read_results

Path("results.json").write_text("not JSON")
read_results(Path("results.json"))
"""


@dataclass(frozen=True)
class Trial:
    """One way to compile a launch: constants and options, and its times in microseconds."""

    options: Options
    predicted: float | None = None
    """By the timing model; None for what was left out before."""
    measured: float | None = None
    """The median on a GPU; None without one."""
    error: str = ""

    @property
    def time(self) -> tuple[int, float, str]:
        """What the best has least of: the measured time, else the predicted one."""
        best = self.measured if self.measured is not None else self.predicted
        rank = 0 if self.measured is not None else 1 if self.predicted is not None else 2
        return rank, best or 0.0, self.text

    @property
    def text(self) -> str:
        """The constants and options as one writes them."""
        return ", ".join(f"{n}={v!r}" for n, v in self.options.items()) or "as written"


@dataclass(frozen=True)
class Tuned:
    """What was found for one launch: `kernel[grid](*arguments, **tuned.options)` is the best."""

    kernel: str
    chip: str
    trials: tuple[Trial, ...]
    """The best first."""

    @property
    def options(self) -> Options:
        """The constants and options of the best."""
        return self.trials[0].options

    def render(self) -> str:
        """A table: the best first."""
        rows = [("", "predicted us", "measured us", "")]
        for trial in self.trials:
            error = trial.error.splitlines()[0] if trial.error else ""
            rows.append((trial.text, _shown(trial.predicted), _shown(trial.measured), error))
        widths = [max(len(row[c]) for row in rows) for c in range(3)]
        lines = (
            f"  {a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}  {d}" for a, b, c, d in rows
        )
        return "\n".join([f"{self.kernel} on {self.chip}", *(line.rstrip() for line in lines)])


def _shown(microseconds: float | None) -> str:
    return "" if microseconds is None else f"{microseconds:.1f}"


@entry
def tune(
    kernel: Kernel,
    *args: Any,
    grid: Any,
    configs: Sequence[Config] | None = None,
    file: str | os.PathLike[str] | None = None,
    measured: int = MEASURED,
    **kwargs: Any,
) -> Tuned:
    """The best way to compile `kernel[grid](*args, **kwargs)`.

    - `configs`: values of `constexpr` parameters and options to choose among, beside the options
      that a launch chooses by itself. Arguments and options that are given stay as they are.
    - `file`: where results are kept (JSON). A launch that is there already is not tuned again.
    - `measured`: how many candidates are timed where the arrays lie on a GPU. They are run with
      these arguments, so a kernel that changes its input changes it. On NumPy arrays, and tensors
      in the CPU's memory, the order is that of the timing model, and nothing runs.

    Raises `NothingToTune`, `BadTuningFile`.
    """
    launch = _Launch(kernel, args, kwargs, grid)
    chosen = _keywords(configs)
    key = launch.key(chosen)
    path = None if file is None else Path(file)
    scope: AbstractContextManager[Any] = nullcontext() if path is None else locked(path)
    with scope:
        kept = {} if path is None else read_results(path)
        if key in kept:
            return kept[key]
        found = _tuned(launch, chosen, measured)
        if path is not None:
            write_results(path, {**kept, key: found})
    return found


@entries
class Tuner:
    """A kernel whose launches are tuned: what `@tawa.jit(tune=...)` makes.

    The first launch of a kind is tuned (or looked up in the file), and later ones take what was
    found. Launches are of one kind where types, constants and the two leading bits of all sizes
    are the same.
    """

    def __init__(
        self, fn: Kernel, file: Path | None = None, configs: Sequence[Config] | None = None
    ) -> None:
        self.fn, self.file, self.configs = fn, file, configs
        self.arg_names: list[str] = list(fn.arg_names)
        self.found: dict[str, Tuned] = {}
        """What was found, by kind."""

    def __repr__(self) -> str:
        return f"<tuner of {self.fn!r}: {len(self.found)} kind(s) of launch>"

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """The kernel with its grid, ready to be called."""
        return partial(self.run, grid=grid)

    def run(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """Launch with the best constants and options for these arguments."""
        options = self.tuned(*args, grid=grid, **kwargs).options
        return self.fn.run(*args, grid=grid, **{**kwargs, **options})

    def tuned(self, *args: Any, grid: Any, **kwargs: Any) -> Tuned:
        """What was found for such a launch; it is tuned if it is new."""
        configs = _keywords(self.configs)
        key = _Launch(self.fn, args, kwargs, grid).key(configs)
        if key not in self.found:
            given = {"configs": self.configs, "file": self.file}
            self.found[key] = tune(self.fn, *args, grid=grid, **given, **kwargs)
        return self.found[key]

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        """Compile the kernel itself; what is tuned is given like any other constant or option."""
        return self.fn.compile(*args, **kwargs)

    def predict(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """The predicted time of a launch as it is tuned."""
        options = self.tuned(*args, grid=grid, **kwargs).options
        return self.fn.predict(*args, grid=grid, **{**kwargs, **options})


def _keywords(configs: Sequence[Config] | None) -> list[Options]:
    return [config.all_kwargs() for config in configs or [Config({})]]


@dataclass(frozen=True)
class _Launch:
    """A launch that is tuned."""

    kernel: Kernel
    args: tuple[Any, ...]
    kwargs: Options
    grid: Any

    def request(self, options: Options) -> Any:
        """What is compiled with some options."""
        return self.kernel.request(*self.args, **{**self.kwargs, **options})

    def texts(self, options: Options) -> Options:
        """The same as keywords of `Kernel.compile` that can be written down."""
        request = self.request(options)
        own = {*request.types, *request.constants}
        return {
            **request.types,
            **request.constants,
            **{n: v for n, v in {**self.kwargs, **options}.items() if n not in own},
        }

    def key(self, configs: Sequence[Options]) -> str:
        """What the launch is: kernel, types, constants, sizes, chip, and what it may become.

        Sizes count by their two leading bits.
        """
        request = self.request(configs[0])
        named = self.kernel.arguments(self.args, {**self.kwargs, **configs[0]})
        programs = grid_sizes(self.grid(named) if callable(self.grid) else self.grid)
        numbers = [(n, v) for n, v in named.items() if type(v) is int and n in request.types]
        numbers += [(f"grid {axis}", n) for axis, n in enumerate(programs)]
        sizes = Sizes((), tuple(numbers)).rounded.numbers
        constants = sorted(map(repr, request.constants.items()))
        space = sorted(map(repr, configs))
        parts = (
            self.kernel.constant_key[1],
            request.types,
            sizes,
            constants,
            request.options,
            space,
        )
        digest = hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
        return f"{self.kernel.__name__}-{digest}"

    def watch(self) -> Stopwatch | None:
        """A stopwatch on the stream that the launch goes to; None where nothing is on a GPU."""
        for value in (*self.args, *self.kwargs.values()):
            if is_array(value) or hasattr(value, "block_shape"):
                kind, _ = classify(value)
                if kind.device is None or kind.device == HOST:
                    return None
                return Stopwatch(kind.device, current_stream(kind.library, kind.device)())
        return None

    def work(self, options: Options) -> Callable[[], Any]:
        """The launch with some options."""
        return partial(self.kernel.run, *self.args, grid=self.grid, **{**self.kwargs, **options})


def _tuned(launch: _Launch, configs: Sequence[Options], measured: int) -> Tuned:
    """Order the space, replay the best of it, and measure the best of those."""
    space, errors = _space(launch, configs)
    first = space[:REPLAYED]
    compile_variants(launch.kernel, [launch.texts(options) for options in first])
    trials = [*_replayed(launch, first), *errors]
    works = sorted((t for t in trials if not t.error), key=lambda trial: trial.time)
    if not works:
        raise NothingToTune(
            f"no way to compile this launch of {launch.kernel.__name__} works",
            found=f"{len(trials)} that fail",
            notes=[f"{trial.text}: {trial.error}" for trial in trials],
        )
    watch = launch.watch()
    if watch is not None:
        works = [*_measured(launch, works[:measured], watch), *works[measured:]]
    failed = [trial for trial in trials if trial.error]
    chip = launch.request(works[0].options).options.chip or launch.kernel.chip.name
    return Tuned(launch.kernel.__name__, chip, (*sorted(works, key=lambda t: t.time), *failed))


def _space(launch: _Launch, configs: Sequence[Options]) -> tuple[list[Options], list[Trial]]:
    """All that may be tried, what the model says is fastest first; and what cannot be."""
    found: list[tuple[float, int, Options]] = []
    errors: list[Trial] = []
    for config in configs:
        try:
            given = {**launch.kwargs, **config}
            ranked = launch.kernel.candidates(*launch.args, grid=launch.grid, **given)
        except TawaError as error:
            errors.append(Trial(config, error=str(error)))
            continue
        for candidate in ranked:
            options = {**config, **dict(candidate.candidate.options)}
            found.append((candidate.microseconds, len(found), options))
        if not ranked:
            found.append((0.0, len(found), config))
    return [options for _, _, options in sorted(found, key=lambda f: f[:2])], errors


def _replayed(launch: _Launch, space: Sequence[Options]) -> list[Trial]:
    """Trials with the times of the timing model."""
    trials: list[Trial] = []
    with progress(f"predicting {launch.kernel.__name__}") as report:
        for number, options in enumerate(space, 1):
            report(f"{number} of {len(space)}")
            given = {**launch.kwargs, **options}
            try:
                found = launch.kernel.predict(*launch.args, grid=launch.grid, **given)
            except TawaError as error:
                trials.append(Trial(options, error=str(error)))
            else:
                trials.append(Trial(options, predicted=round(found.us, 2)))
    return trials


def _measured(launch: _Launch, trials: Sequence[Trial], watch: Stopwatch) -> list[Trial]:
    """The same trials with measured times, in turn."""
    works = {str(n): launch.work(trial.options) for n, trial in enumerate(trials)}
    with progress(f"measuring {launch.kernel.__name__}"):
        times = interleaved(works, watch=watch)
    return [
        Trial(trial.options, trial.predicted, round(times[str(n)].median * 1e3, 2))
        for n, trial in enumerate(trials)
    ]


def read_results(path: Path) -> dict[str, Tuned]:
    """What a file of results holds; nothing if there is none. Raises `BadTuningFile`."""
    if not path.exists():
        return {}
    try:
        found = cast("Mapping[str, Any]", json.loads(path.read_text()))
        return {
            key: Tuned(one["kernel"], one["chip"], tuple(Trial(**t) for t in one["trials"]))
            for key, one in found.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadTuningFile(
            f"{path} holds no results of `tawa.tune`",
            expected="JSON that `tawa.tune` has written",
            found=str(error),
        ) from None


def write_results(path: Path, results: Mapping[str, Tuned]) -> None:
    """Write a file of results in one step: who reads it sees all of it, or the one before."""
    text = json.dumps({key: asdict(one) for key, one in sorted(results.items())}, indent=1)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(text + "\n")
    new.replace(path)
