"""One candidate for a launch: the one that is predicted fastest, if it gains enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tawa.driver.choice.candidates import Candidate, candidates
from tawa.driver.choice.model import Prediction, predicted
from tawa.driver.choice.profile import Profile, Sizes
from tawa.machine.chips import Chip


@dataclass(frozen=True)
class Ranking:
    """The candidates of a launch: as written first, then all that gain enough, the best first."""

    written: Prediction
    better: tuple[Prediction, ...] = ()
    others: tuple[Prediction, ...] = ()
    """Those that do not, the best first."""

    @property
    def first(self) -> Prediction:
        """What is tried first."""
        return self.better[0] if self.better else self.written

    @property
    def all(self) -> tuple[Prediction, ...]:
        """All of them, the best first."""
        return tuple(sorted((self.written, *self.better, *self.others), key=_order))

    @cached_property
    def times(self) -> dict[tuple[tuple[str, Any], ...], float]:
        """Predicted microseconds by a candidate's options."""
        found = (self.written, *self.better, *self.others)
        return {p.candidate.options: p.microseconds for p in found}


def ranking(profile: Profile, sizes: Sizes, asked: Mapping[str, Any], chip: Chip) -> Ranking:
    """The candidates for the sizes of a launch, given the options that its caller asked for."""
    found = [predicted(profile, sizes, c, chip) for c in candidates(profile, sizes, asked, chip)]
    written, rest = found[0], sorted(found[1:], key=_order)
    enough = (1 - chip.choice.gain) * written.microseconds
    better = [p for p in rest if p.microseconds <= enough and not unproven(profile, p)]
    better += [p for p in rest if p not in better and _deeper(p.candidate)]
    return Ranking(written, tuple(better), tuple(p for p in rest if p not in better))


def unproven(profile: Profile, prediction: Prediction) -> bool:
    """Whether no measurement speaks for a candidate, which is then ranked and not taken.

    None compares two CTAs with one where no ordinary code waits for products or for what it loads
    itself, or one computing group with two where nothing but ends would gain, or beside another
    option. Of what threads load themselves one group has less to do at once: it lost 6% with tiles
    of 128 x 128.
    """
    options = dict(prediction.candidate.options)
    waited_for = any(loop.feeds for loop in profile.loops)
    if options.get("consumers") == 1:
        waits = any(loop.makes or loop.body.turned for loop in profile.loops) or waited_for
        return not waits or len(options) > 1
    gathers = any(loop.gathers for loop in profile.loops)
    return "ctas_per_sm" in options and not waited_for and not gathers


def _deeper(candidate: Candidate) -> bool:
    """Whether a candidate differs from what was written in nothing but more slots."""
    return [name for name, _ in candidate.options] == ["num_stages"]


def _order(prediction: Prediction) -> tuple[float, int, str]:
    """The time, and among equals what differs least from what was written."""
    candidate = prediction.candidate
    return round(prediction.microseconds, 3), len(candidate.options), str(candidate)
