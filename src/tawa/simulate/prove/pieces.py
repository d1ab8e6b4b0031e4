"""Shared memory in the largest pieces that every access takes whole or not, instead of granules."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tawa.base.numerics import Array
from tawa.simulate.interpret.clocks import Components, Conflict, Shadow
from tawa.simulate.prove.wheels import Wheel, Wheels

SETTLED = 40
"""Visited states without a new region after which shared memory is cut into pieces."""


class NewRegion(Exception):
    """Shared memory has to be cut into smaller pieces for an access that was not known."""


@dataclass
class Regions:
    """Shared memory cut into the largest pieces that every known access takes whole or not."""

    granules: int
    granule: int
    wheels: Wheels
    """What is accessed in one of their slots may be accessed in each."""
    known: dict[object, Array] = field(default_factory=dict[object, Array])

    def __post_init__(self) -> None:
        self.piece = np.zeros(self.granules, np.int64)
        self.pieces = 1
        self.found: dict[object, Array] = {}
        self.open = True
        """Whether regions that are not known are still collected."""
        self._hasty = True
        self._count = self._last = 0

    def note(self, visits: int) -> None:
        """Say how many states have been visited."""
        if len(self.known) != self._count:
            self._count, self._last = len(self.known), visits

    def is_settled(self, visits: int) -> bool:
        """Whether so long nothing was collected that memory can be cut: what is missing is seen."""
        return self.open and self._hasty and visits > self._last + SETTLED

    def reopen(self) -> bool:
        """Collect all, once, if memory was cut before all had been visited."""
        if self._hasty:
            self.open, self._hasty, self.found = True, False, {}
        return self.open

    def add(self, key: object, where: slice | Array) -> None:
        """A region of granules."""
        self._mark(key, where)
        first = (where.start if isinstance(where, slice) else int(where.min())) * self.granule
        for wheel in self.wheels.all:
            if wheel.slot_at(first) is not None:
                for by in range(1, wheel.depth):
                    shift = (wheel.turned(first, by) - first) // self.granule
                    if isinstance(where, slice):
                        moved = slice(where.start + shift, where.stop + shift)
                        self._mark((moved.start, moved.stop), moved)
                    else:
                        self._mark((where + shift).tobytes(), where + shift)

    def _mark(self, key: object, where: slice | Array) -> None:
        mask = np.zeros(self.granules, bool)
        mask[where] = True
        self.known[key] = mask

    def turned(self, wheel: Wheel) -> Array | None:
        """Where each piece is once a wheel has been turned by a slot; None if slots differ."""
        to = np.arange(self.granules)
        for base, stride in wheel.tiles:
            first, size = base // self.granule, stride // self.granule
            slots = first + np.arange(wheel.depth * size).reshape(wheel.depth, size)
            to[slots] = np.roll(slots, 1, axis=0)
        new = np.full(self.pieces, -1)
        new[self.piece] = self.piece[to]
        same = bool((new[self.piece] == self.piece[to]).all())
        return new if same and len(np.unique(new)) == self.pieces else None

    def cut(self) -> None:
        """Number the pieces."""
        random = np.random.default_rng(0)
        signature = np.zeros(self.granules, np.uint64)
        for mask in self.known.values():
            signature[mask] += random.integers(1, 2**62, dtype=np.uint64)
        kinds, first, self.piece = np.unique(signature, return_index=True, return_inverse=True)
        self.pieces, self.first = len(kinds), first
        self.turns = {w.number: self.turned(w) for w in self.wheels.all}
        self.found = {key: np.unique(self.piece[mask]) for key, mask in self.known.items()}
        self.open = False


class PieceShadow(Shadow):
    """A shadow with a record for each piece instead of each granule."""

    def __init__(self, size: int, components: Components, granule: int, regions: Regions) -> None:
        super().__init__(granule * regions.pieces, components, granule)
        self.size = size
        self.regions = regions
        self._held: dict[int, tuple[object, Array]] = {}

    def granule_of(self, record: int) -> int:
        """Where a piece begins."""
        return int(self.regions.first[record])

    def within(self, first: int, last: int) -> Array:
        """The pieces that lie in some bytes; none while regions are collected."""
        if self.regions.open:
            return np.zeros(0, np.int64)
        begin = self.regions.first * self.granule
        return np.flatnonzero((begin >= first) & (begin < last))

    def pieces(self, where: slice | Array) -> Array | None:
        """The pieces of a region; None while regions are collected."""
        if isinstance(where, slice):
            key: object = (where.start, where.stop)
        else:
            held = self._held.get(id(where))
            if held is not None:
                return held[1]
            key = where.tobytes()
        found = self.regions.found.get(key)
        if found is None:
            if key not in self.regions.known:
                self.regions.add(key, where)
                if not self.regions.open:
                    raise NewRegion
            return None
        if not isinstance(where, slice):
            self._held[id(where)] = where, found
        return found

    def check_read(self, where: slice | Array, clock: Array, asynchronous: bool) -> Conflict | None:
        """As for granules."""
        found = self.pieces(where)
        return (
            None if found is None else self._placed(super().check_read(found, clock, asynchronous))
        )

    def _placed(self, found: Conflict | None) -> Conflict | None:
        """A conflict with the granule where its piece begins."""
        return found and found._replace(granule=self.granule_of(found.granule))

    def check_write(
        self, where: slice | Array, clock: Array, asynchronous: bool
    ) -> Conflict | None:
        """As for granules."""
        found = self.pieces(where)
        return (
            None if found is None else self._placed(super().check_write(found, clock, asynchronous))
        )

    def note_read(self, where: slice | Array, component: int, time: int, record: int) -> None:
        """As for granules."""
        found = self.pieces(where)
        if found is not None:
            super().note_read(found, component, time, record)

    def note_write(self, where: slice | Array, component: int, time: int, record: int) -> None:
        """As for granules."""
        found = self.pieces(where)
        if found is not None:
            super().note_write(found, component, time, record)

    def turn(self, wheel: Wheel, by: int, columns: Array, more: Array) -> None:
        """What is known of slots, where they are once a wheel has been turned.

        `columns` are the new places of clock components, `more` what is added to their times.
        """
        if self.regions.open:
            return
        one = self.regions.turns[wheel.number]
        assert one is not None
        to = np.arange(self.regions.pieces)
        for _ in range(by % wheel.depth):
            to = one[to]
        named = self.writer >= 0
        writer, written = np.empty_like(self.writer), np.empty_like(self.written)
        writer[to] = np.where(named, columns[self.writer], -1)
        written[to] = np.where(named, self.written + more[self.writer], 0)
        read = np.zeros_like(self.read)
        read[np.ix_(to, columns)] = np.where(self.read > 0, self.read + more, 0)
        self.writer, self.written, self.read = writer, written, read
