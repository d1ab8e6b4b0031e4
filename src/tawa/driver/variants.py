"""A kernel compiled several ways, each for launches of some sizes.

A launch of a size that was not seen before runs what is at hand. If another choice of options is
predicted to gain enough, it is compiled beside and taken from then on, unless it spills where what
was asked for does not: no launch waits for it. A kernel has at most `MOST` variants.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from tawa.base.indices import leading
from tawa.driver.choice.choose import Ranking
from tawa.driver.choice.profile import Sizes
from tawa.driver.choosing import MOST_SHOWN, Key, Rejected, loses
from tawa.driver.host_launch import Launch
from tawa.runtime.launch import grid_sizes

if TYPE_CHECKING:
    from tawa.driver.compiled import Compiled

MOST = 3
"""Variants of one kernel, for one set of argument types and options."""

IN_USE = 1.0
"""Seconds for which a kernel is launched before a better variant is compiled beside it.

What a tuner tries and drops is launched for less, and compiling takes time from its launches.
"""


class Loaded(NamedTuple):
    """A variant, and how to launch it."""

    compiled: Compiled
    launch: Launch


@dataclass(eq=False)
class Variants:
    """The variants of one kernel; `launch` is how to launch it."""

    names: tuple[str, ...]
    """The whole numbers among the launch's values."""
    places: tuple[int, ...]
    """Which of the values they are."""
    rank: Callable[[Sizes], Ranking]
    build: Callable[[Key], Compiled]
    """Compile a variant, beside the launches. Raises what the compiler raises."""
    load: Callable[[Key], Loaded]
    """A variant that was compiled, ready to be launched."""
    captures: Callable[[Any], bool]
    """Whether launches to a stream are captured in a graph: then nothing may be loaded."""
    current: Loaded
    found: dict[Key, Loaded]
    gain: float
    """Part of the time that a further variant has to save."""
    _wanted: dict[Key, float] = field(default_factory=dict[Key, float])
    """What is compiled if launches go on, and when it was asked for."""
    _coming: dict[Key, threading.Thread] = field(default_factory=dict[Key, threading.Thread])
    _arrived: list[Key] = field(default_factory=list[Key])
    """What was compiled beside and has not been loaded."""
    _rejected: Rejected = field(default_factory=Rejected)
    _known: dict[Sizes, Ranking] = field(default_factory=dict[Sizes, Ranking])
    _taken: dict[Any, Loaded] = field(default_factory=dict[Any, Loaded])
    """What launches took, by their sizes as they are, until something else is at hand."""
    _last: Any = None

    def __post_init__(self) -> None:
        """Make the function that picks the numbers."""
        self.first = self.current
        self._pick: Callable[[Sequence[Any]], Any] = (
            itemgetter(*self.places) if self.places else lambda values: None
        )

    def launch(self, grid: Any, values: Sequence[Any], stream: Any) -> None:
        """Launch what suits these sizes, of what there is."""
        sizes = grid if grid.__class__ is tuple else grid_sizes(grid), self._pick(values)
        if self._arrived and not self.captures(stream):
            self._load_arrived()
        if sizes != self._last:
            self._turn(sizes)
        if self._wanted:
            self._begin(time.monotonic() - IN_USE)
        self.current.launch(grid, values, stream)

    def settle(self) -> None:
        """Compile the variants that launches asked for, and wait for them."""
        self._begin(math.inf)
        for thread in list(self._coming.values()):
            thread.join()

    def _turn(self, sizes: Any) -> None:
        """Take what suits sizes other than those of the launch before."""
        found = self._taken.get(sizes)
        if found is None:
            grid, picked = sizes
            numbers = picked if len(self.places) > 1 else (picked,)[: len(self.places)]
            rounded = grid, tuple(map(leading, numbers))
            found = self._taken.get(rounded)
            if found is None:
                found = self._suited(*rounded)
            if len(self._taken) >= MOST_SIZES:
                self._taken.clear()
            self._taken[sizes] = self._taken[rounded] = found
        self.current, self._last = found, sizes

    def _suited(self, grid: Any, numbers: tuple[int, ...]) -> Loaded:
        """What suits a launch, of what is at hand; what would suit it better is asked for."""
        ranked = self._ranked(Sizes(grid_sizes(grid), tuple(zip(self.names, numbers, strict=True))))
        times = ranked.times
        at_hand = [key for key in self.found if key in times]
        if not at_hand:
            return self.current  # all are alike for so few programs
        nearest = min(at_hand, key=times.__getitem__)
        better = ranked.better[:MOST_SHOWN]
        able = (p for p in better if p.candidate.options not in self._rejected)
        first = next(able, ranked.written)
        if first.microseconds <= (1 - self.gain) * times[nearest]:
            self._ask(first.candidate.options)
        return self.found[nearest]

    def _ranked(self, sizes: Sizes) -> Ranking:
        """The candidates for launches of about these sizes."""
        found = self._known.get(sizes)
        if found is None:
            if len(self._known) >= MOST_SIZES:
                self._known.clear()
            found = self._known[sizes] = self.rank(sizes)
        return found

    def _ask(self, key: Key) -> None:
        """Have a variant compiled beside the launches, if they go on."""
        asked = self._coming.keys() | self._wanted.keys()
        if key not in asked and len(self.found) + len(asked) < MOST:
            self._wanted[key] = time.monotonic()
            WAITING.add(self)

    def _begin(self, before: float) -> None:
        """Begin to compile what was asked for before a time."""
        for key in [key for key, asked in self._wanted.items() if asked <= before]:
            del self._wanted[key]
            self._compile(key)

    def _compile(self, key: Key) -> None:
        """Compile a variant beside the launches."""

        def work() -> None:
            try:
                if loses(self.build(key), self.build):
                    self._rejected.add(key)
            except Exception:  # a choice never makes an error of what runs without it
                self._rejected.add(key)
            self._arrived.append(key)

        thread = self._coming[key] = threading.Thread(target=work, daemon=True)
        thread.start()

    def _load_arrived(self) -> None:
        """Load what has been compiled meanwhile, and let all sizes choose anew."""
        while self._arrived:
            key = self._arrived.pop()
            del self._coming[key]
            if key not in self._rejected:
                self._add(key)
        self._taken.clear()
        self._last = None

    def _add(self, key: Key) -> None:
        """Load a variant, unless more of its arrays may not overlap than was looked at."""
        loaded = self.load(key)
        if set(loaded.compiled.spec.apart) <= set(self.first.compiled.spec.apart):
            self.found[key] = loaded
        else:
            self._rejected.add(key, crowded=False)


WAITING: weakref.WeakSet[Variants] = weakref.WeakSet()
"""Kernels whose launches have asked for variants."""


def settle() -> None:
    """Compile all that launches asked for, as if they had gone on, and wait for it: to measure."""
    for variants in list(WAITING):
        variants.settle()


MOST_SIZES = 1024
"""Sizes that are remembered, as they are and rounded."""
