"""`kernel.explain`: which lines a launch's time goes to, what binds it, and what would gain most.

All of it is predicted by the timing model. What a line would gain is found by replaying the launch
with the line's work taking no time: no change of that line can gain more. What an option would gain
is found by compiling with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tawa.base.errors import TawaError
from tawa.base.source import source_line
from tawa.driver.prediction.launches import predict
from tawa.simulate.timing.lines import NOWHERE, Place, busiest, place_of

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from tawa.driver.compiled import Compiled
    from tawa.machine.chips import Chip
    from tawa.simulate import LaunchPrediction
    from tawa.simulate.timing.lines import Spent

TRIED_LINES = 5
"""Lines that are replayed without their work: those that take most."""
LEAST_SHARE = 0.03
"""Of the time, below which a line is not."""
LEAST_GAIN = 0.01
"""Of the time, below which a change is not named."""
TOLD = 4
"""Changes that are named: the first two are those to begin with."""
SHOWN_LINES = 12
LEAST_SHOWN = 0.005
"""Of the time, below which a line is not shown."""

ADVICE = {
    "products": "fewer or cheaper products, such as larger tiles or 8-bit operands",
    "waits for data or room": "its data sooner: more stages, larger tiles or fewer bytes",
    "warps meet": "fewer exchanges between warps",
    "copies": "fewer and larger copies",
    "device memory": "loads that are earlier (an iteration ahead, or before the loop) or fewer",
    "shared memory": "fewer exchanges through shared memory, such as transposes and layouts",
    "lanes exchange values": "fewer reductions over lanes, such as one after the loop",
    "special functions": "fewer exponentials, roots and divisions",
    "arithmetic": "less arithmetic, such as what is the same in each iteration",
    "done before others": "a more even share of the work",
}
"""What a line's main cause leaves to do about it."""


@dataclass(frozen=True)
class LineTime:
    """A line of the source: its text, its microseconds, its share, and what these go to."""

    place: Place
    text: str
    us: float
    share: float
    causes: tuple[tuple[str, float], ...]
    """Shares of the line's time, the most first."""


@dataclass(frozen=True)
class Change:
    """Something to change, and the predicted microseconds of the launch after it.

    With `at_most`, no change of that kind can gain more.
    """

    what: str
    us: float
    gain: float
    """Part of the launch's time."""
    at_most: bool

    def __str__(self) -> str:
        most = "at most " if self.at_most else ""
        return f"{self.what}: {most}{self.gain:.0%} less, {self.us:.1f} us"


@dataclass(frozen=True)
class Explanation:
    """Why a launch takes what it takes, as the timing model has it; `str` gives the text."""

    name: str
    file: str
    """Where the kernel stands."""
    prediction: LaunchPrediction
    actor: str
    """The role whose time it is: the one that waits least for others."""
    lines: tuple[LineTime, ...]
    """The most first; they add up to the kernel's time."""
    changes: tuple[Change, ...]
    """What is predicted to gain most, the most first."""

    @property
    def bound(self) -> str:
        """What binds, in a sentence."""
        found = self.prediction
        busy = sorted(found.shares.items(), key=lambda item: -item[1])
        most = ", ".join(f"{name} {share:.0%}" for name, share in busy[:3])
        if found.bound != "latency":
            return f"bound by {found.bound}; busy: {most}"
        return f"bound by latency, for nothing is busy more than 70% of the time: {most}"

    def __str__(self) -> str:
        return "\n".join(self._text())

    def _text(self) -> Iterator[str]:
        found = self.prediction
        yield (
            f"{self.name}: predicted {found.us:.1f} us at {found.clock_ghz:.3f} GHz "
            f"({found.ctas} CTAs, {found.waves:.2g} waves)"
        )
        yield f"  {self.bound}"
        yield ""
        yield f"time of `{self.actor}` by line, {found.kernel_seconds * 1e6:.1f} us in all:"
        shown = [line for line in self.lines[:SHOWN_LINES] if line.share >= LEAST_SHOWN]
        for line in shown:
            at = where(line.place, self.file)
            yield f"  {line.us:8.2f} us {line.share:4.0%}  {at:>12}  {line.text}"
            yield f"{'':29}  {causes_text(line)}"
        rest = sum(line.share for line in self.lines) - sum(line.share for line in shown)
        if rest > LEAST_SHOWN:
            yield f"  {rest * found.kernel_seconds * 1e6:8.2f} us {rest:4.0%}  all other lines"
        yield ""
        if self.changes:
            yield "predicted to gain most:"
            yield from (f"  {n}. {change}" for n, change in enumerate(self.changes, 1))
        else:
            yield "no change of a line or of an option is predicted to gain 1%"


def where(place: Place, file: str) -> str:
    """What a line is called beside those of a file: by its number, elsewhere by its file, too."""
    if place == NOWHERE:
        return "no line"
    own, number = Path(place[0]).name, place[1]
    return f"line {number}" if own == Path(file).name else f"{own}:{number}"


def causes_text(line: LineTime) -> str:
    """What a line's time goes to, with shares."""
    return ", ".join(f"{cause} {share:.0%}" for cause, share in line.causes if share >= 0.05)


def explain(
    name: str,
    file: str,
    launched: Launched,
    beside: Iterable[tuple[str, Mapping[str, Any]]],
    others: Callable[[Mapping[str, Any]], LaunchPrediction],
    report: Callable[[str], None],
) -> Explanation:
    """Explain a launch of a kernel that stands in `file`.

    `others` predicts it with other options, of which `beside` are to try. `report` is told what is
    being tried.
    """
    prediction = launched.predicted(accounts=True)
    spent = busiest(prediction.accounts)
    changes = [*_by_lines(launched, file, prediction, spent, report)]
    changes += _by_options(prediction, beside, others, report)
    changes.sort(key=lambda change: change.us)
    worth = [change for change in changes if change.gain >= LEAST_GAIN]
    times = tuple(line_times(prediction, spent))
    return Explanation(name, file, prediction, spent.actor, times, tuple(worth[:TOLD]))


@dataclass(frozen=True)
class Launched:
    """A compiled kernel, the sizes of a grid, and the values of the compiled kernel's arguments."""

    compiled: Compiled
    grid: Sequence[int]
    values: Sequence[Any]
    clock_ghz: float | None
    chip: Chip

    def predicted(self, **more: Any) -> LaunchPrediction:
        """The model's time of it."""
        return predict(self.compiled, self.grid, self.values, self.clock_ghz, self.chip, **more)


def line_times(prediction: LaunchPrediction, spent: Spent) -> Iterator[LineTime]:
    """The kernel's time by line."""
    for line in spent.lines:
        share = line.cycles / spent.cycles
        causes = tuple((cause, cycles / line.cycles) for cause, cycles in line.causes if cycles)
        us = share * prediction.kernel_seconds * 1e6
        yield LineTime(line.place, _text_of(line.place), us, share, causes)


def _text_of(place: Place) -> str:
    if place == NOWHERE:
        return "(what no line asks for)"
    return (source_line(*place) or "").strip()


def _by_lines(
    launched: Launched,
    file: str,
    prediction: LaunchPrediction,
    spent: Spent,
    report: Callable[[str], None],
) -> Iterator[Change]:
    """What there is to gain from the lines that take most."""
    least = LEAST_SHARE * spent.cycles
    large = (line for line in spent.lines if line.place != NOWHERE and line.cycles >= least)
    for line in islice(large, TRIED_LINES):
        report(f"without line {line.place[1]}")
        found = launched.predicted(free=partial(_stands_at, line.place))
        what = f"{where(line.place, file)}, {ADVICE[line.causes[0][0]]}"
        yield Change(what, found.us, 1 - found.us / prediction.us, at_most=True)


def _stands_at(place: Place, op: Operation) -> bool:
    return place_of(op) == place


def _by_options(
    prediction: LaunchPrediction,
    beside: Iterable[tuple[str, Mapping[str, Any]]],
    others: Callable[[Mapping[str, Any]], LaunchPrediction],
    report: Callable[[str], None],
) -> Iterator[Change]:
    """What other options gain; those that can't be compiled gain nothing."""
    for text, options in beside:
        report(f"with {text}")
        try:
            found = others(options)
        except TawaError:
            continue
        yield Change(text, found.us, 1 - found.us / prediction.us, at_most=False)
