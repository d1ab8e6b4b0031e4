"""Vector clocks: which accesses of shared memory are ordered, whatever the schedule.

A clock has a component for every warp, for every actor's matrix instructions and bulk stores, and
for every mbarrier (what the TMA engine writes is published by the phase of the mbarrier that counts
its bytes). It is an array `[4, components]`: row `SEEN` is ordinary happens-before, row `FENCED`
what of it a proxy fence has ordered before the asynchronous engines as well (PTX ISA, "async
proxy"): writes that they may read and overwrite. Row `LOADED` is what warps have done up to fences
of their own: reads that engines may overwrite. A barrier alone orders neither: on an H100 a load
still in flight has been seen to return what the TMA engine wrote after the slot was given back, and
no fence of another thread waits for it. Row `TIMED` is what has happened before in time: whoever
waits for a copy comes after what its issuer had waited for, though the copy publishes no other
writes than its own. Times start at 1, so that 0 means "nothing yet".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tawa.base.numerics import Array

SEEN, FENCED, TIMED, LOADED = 0, 1, 2, 3
ROWS = 4
WORD = 4
"""Bytes of shared memory that share one record of accesses, unless a kernel accesses less."""


@dataclass
class Components:
    """The names of a clock's components."""

    names: list[str] = field(default_factory=list[str])
    threads: list[bool] = field(default_factory=list[bool])
    """Which of them are warps: they access shared memory through the generic proxy."""

    def add(self, name: str, *, threads: bool = False) -> int:
        """A new component."""
        self.names.append(name)
        self.threads.append(threads)
        return len(self.names) - 1

    def clock(self) -> Array:
        """A clock that has seen nothing."""
        return np.zeros((ROWS, len(self.names)), np.int32)


class Conflict(NamedTuple):
    """Two accesses that nothing orders."""

    granule: int
    component: int
    """Who made the earlier access; -1 if nobody ever wrote."""
    record: int
    """Number of the op that made it, in the machine's list; -1 if there is none."""
    fence_missing: bool
    """They are ordered, but no proxy fence lies between."""
    was_write: bool


class Shadow:
    """Who last wrote and who last read each granule of one CTA's shared memory.

    Exact if every access takes whole granules: `granule` (bytes) is at most the narrowest access.
    """

    def __init__(self, size: int, components: Components, granule: int = WORD) -> None:
        self.granule = granule
        self.threads: Array = np.array(components.threads)
        granules = -(-size // granule)
        self.writer = np.full(granules, -1, np.int32)
        self.written = np.zeros(granules, np.int32)
        self.write_record = np.full(granules, -1, np.int32)
        accesses = granules, len(components.names)
        self.read = np.zeros(accesses, np.int32)
        self.read_record = np.full(accesses, -1, np.int32)

    def granule_of(self, record: int) -> int:
        """The first granule that one of the records is of."""
        return record

    def check_read(self, where: slice | Array, clock: Array, asynchronous: bool) -> Conflict | None:
        """The first granule whose last write this reader may not have seen."""
        writer, written = self.writer[where], self.written[where]
        visible = clock[FENCED if asynchronous else SEEN]
        bad = (visible[writer] < written) | (writer < 0)
        if not bad.any():
            return None
        return self._write_conflict(where, int(bad.argmax()), clock)

    def check_write(
        self, where: slice | Array, clock: Array, asynchronous: bool
    ) -> Conflict | None:
        """The first granule that somebody may still read, or whose last write is unordered."""
        over: Array = clock[SEEN]
        if asynchronous:
            over = np.where(self.threads, clock[LOADED], over)
        reads: Array = self.read[where] > over
        if reads.any():
            index, component = divmod(int(reads.argmax()), reads.shape[1])
            granule = _granule(where, index)
            record = int(self.read_record[granule, component])
            ordered = bool(self.read[granule, component] <= clock[SEEN, component])
            return Conflict(granule, component, record, ordered, was_write=False)
        writer, written = self.writer[where], self.written[where]
        visible = clock[FENCED if asynchronous else SEEN]
        bad = (visible[writer] < written) & (writer >= 0)
        return self._write_conflict(where, int(bad.argmax()), clock) if bad.any() else None

    def _write_conflict(self, where: slice | Array, index: int, clock: Array) -> Conflict:
        granule = _granule(where, index)
        component, record = int(self.writer[granule]), int(self.write_record[granule])
        ordered = component >= 0 and clock[SEEN, component] >= self.written[granule]
        return Conflict(granule, component, record, bool(ordered), was_write=True)

    def note_read(self, where: slice | Array, component: int, time: int, record: int) -> None:
        """Record a read."""
        self.read[where, component] = time
        self.read_record[where, component] = record

    def note_write(self, where: slice | Array, component: int, time: int, record: int) -> None:
        """Record a write; it was ordered after all earlier accesses, which can be forgotten."""
        self.writer[where] = component
        self.written[where] = time
        self.write_record[where] = record
        self.read[where] = 0


def _granule(where: slice | Array, index: int) -> int:
    return where.start + index if isinstance(where, slice) else int(where[index])


def granules_of(addresses: Array, size: int, granule: int) -> Array:
    """The granules that elements of `size` bytes at `addresses` touch, each once."""
    first = addresses.reshape(-1) // granule
    if size > granule:
        first = first[:, None] + np.arange(size // granule)
    return np.unique(first)


def region(first: int, size: int, granule: int) -> slice:
    """The granules of contiguous bytes."""
    return slice(first // granule, -(-(first + size) // granule))
