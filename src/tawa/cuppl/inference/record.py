"""Memory of recorded runs: the arrays that `trace_natives` names."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tawa.cuppl.natives import trace as k

__all__ = ["Record"]

Words = npt.NDArray[np.int64]


class Record:
    """Room for the choices of two runs, and the tables that find them."""

    def __init__(self, capacity: int = 1 << 10, pool: int = 1 << 12) -> None:
        self.words = np.zeros(k.RECORD_WORDS, dtype=np.int64)
        self.words[k.RUN] = 1
        self.arrays: dict[int, Words] = {}
        self.words[k.TOLERANCE] = _bits(-np.inf)
        self.resize(capacity, pool)

    def resize(self, capacity: int, pool: int) -> None:
        """Other sizes; what is recorded is kept."""
        slots = 1 << (4 * capacity).bit_length()
        for first in (k.NEW_KEYS, k.OLD_KEYS):
            for word in range(first, first + 3):
                self._place(word, capacity)
        self._place(k.NEW_POOL, pool)
        self._place(k.OLD_POOL, pool)
        self.arrays.pop(k.TABLE, None)
        self._place(k.TABLE, 2 * slots)
        self.arrays.pop(k.SEEN, None)
        self._place(k.SEEN, 3 * slots)
        self.words[k.CAPACITY], self.words[k.POOL_SIZE] = capacity, pool
        self.words[k.TABLE_MASK] = slots - 1
        self._index()

    def grow(self) -> None:
        """Twice the room."""
        self.adopt()
        self.resize(2 * int(self.words[k.CAPACITY]), 2 * int(self.words[k.POOL_SIZE]))

    def take(self, other: Record) -> None:
        """Have the same accepted run as another record."""
        for one in (self, other):
            one.adopt()
        sizes = [int(other.words[word]) for word in (k.CAPACITY, k.POOL_SIZE)]
        if sizes != [int(self.words[word]) for word in (k.CAPACITY, k.POOL_SIZE)]:
            self.words[k.OLD_COUNT] = 0
            self.resize(*sizes)
        for word in (k.OLD_KEYS, k.OLD_WORDS, k.OLD_DENSITY, k.OLD_POOL, k.TABLE):
            self.arrays[word][:] = other.arrays[word]
        self.words[k.OLD_COUNT] = other.words[k.OLD_COUNT]

    def walk_by(self, scales: Words) -> None:
        """Let floats walk by these distances."""
        self.words[k.SCALES], self.words[k.SCALES_MASK] = scales.ctypes.data, len(scales) // 2 - 1

    def old(self, word: int) -> Words:
        """An array of the accepted run, as long as that has choices."""
        self.adopt()
        return self.arrays[word][: int(self.words[k.OLD_COUNT])]

    def adopt(self) -> None:
        """Sort the arrays by the roles that they have now (natives swap their addresses)."""
        by_address = {a.ctypes.data: a for a in self.arrays.values()}
        self.arrays = {word: by_address[int(self.words[word])] for word in self.arrays}

    def _place(self, word: int, size: int) -> None:
        array = np.zeros(size, dtype=np.int64)
        old = self.arrays.get(word)
        if old is not None:
            array[: len(old)] = old[:size]
        self.arrays[word] = array
        self.words[word] = array.ctypes.data

    def _index(self) -> None:
        """Fill the table of the old choices."""
        keys, table = self.arrays[k.OLD_KEYS], self.arrays[k.TABLE]
        mask = int(self.words[k.TABLE_MASK])
        for index in range(int(self.words[k.OLD_COUNT])):
            at = int(keys[index]) & mask
            while table[2 * at + 1]:
                at = (at + 1) & mask
            table[2 * at], table[2 * at + 1] = keys[index], index + 1


def _bits(value: float) -> int:
    return int(np.array([value]).view(np.int64)[0])
