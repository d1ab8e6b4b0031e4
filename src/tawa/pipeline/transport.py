"""The least of a weighted sum of variables that differences bound, as a transport of weights.

A sum that takes some variables with weights below zero and others with weights above zero is at
least what a transport of these weights gains: a weight carried from variable `a` to `b` is worth
what `b` is at least above `a`. The best transport gives the least sum (the two problems are duals),
and the variables between which it carries anything are no further apart there than they must be.
"""

from __future__ import annotations

import numpy as np

from tawa.pipeline.differences import NEVER, Differences, Numbers


class Transport:
    """Weights that are carried from `sources` to `sinks`, as much from and to each as at first."""

    def __init__(self, sources: list[int], sinks: list[int], carried: Numbers) -> None:
        self.sources, self.sinks = np.array(sources, dtype=int), np.array(sinks, dtype=int)
        self.carried = carried

    def gain(self, known: Differences) -> int:
        """What the weighted sum is at least; it need not be the most that can be said."""
        return int((self.carried * self._worth(known)).sum())

    def improved(self, known: Differences) -> Transport:
        """The best transport: what it gains is the least sum."""
        made = object.__new__(Transport)
        made.sources, made.sinks, made.carried = self.sources, self.sinks, self.carried
        worth = self._worth(known)
        while (change := _better(worth, made.carried)) is not None:
            made.carried = change
        return made

    def tightened(self, known: Differences) -> Differences:
        """The differences where the sum is least; this is the best transport of those given."""
        tight = known.copy()
        for i, j in np.argwhere(self.carried):
            source, sink = int(self.sources[i]), int(self.sinks[j])
            tight.raises(sink, source, -int(known.above[source, sink]))
        return tight

    def _worth(self, known: Differences) -> Numbers:
        return known.above[self.sources[:, None], self.sinks]


def _better(worth: Numbers, carried: Numbers) -> Numbers | None:
    """A transport that gains more, in which sources take over sinks in a cycle; None if none is."""
    if not carried.size:
        return None
    taken = worth[:, None, :] + np.where(carried > 0, -worth, NEVER)[None]
    sink, gains = taken.argmax(2), taken.max(2)
    cycle = _gaining_cycle(gains)
    if cycle is None:
        return None
    moves = [(a, b, int(sink[a, b])) for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True)]
    amount = min(carried[b, j] for _, b, j in moves)
    made = carried.copy()
    for a, b, j in moves:
        made[b, j] -= amount
        made[a, j] += amount
    return made


def _gaining_cycle(gains: Numbers) -> list[int] | None:
    """A cycle of positive sum, by longest paths of more and more steps (Bellman and Ford)."""
    count = len(gains)
    every = np.arange(count)
    longest = np.zeros(count, dtype=np.int64)
    before, longer = np.full(count, -1), np.zeros(count, dtype=bool)
    for _ in range(count):
        through = longest[:, None] + gains
        last = through.argmax(0)
        longer = through[last, every] > longest
        if not longer.any():
            return None
        before = np.where(longer, last, before)
        longest = np.where(longer, through[last, every], longest)
    vertex = int(longer.argmax())
    for _ in range(count):
        vertex = int(before[vertex])
    cycle = [vertex]
    while (vertex := int(before[vertex])) != cycle[0]:
        cycle.append(vertex)
    return cycle[::-1]
