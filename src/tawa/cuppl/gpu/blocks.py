"""Blocks of memory that are used again: a driver may take a millisecond for each that it gives.

So a GPU's memory is kept from one run to the next, and so is page-locked memory of the host, which
is copied several times as fast as other memory.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from tawa.runtime import driver

__all__ = ["Blocks", "locked_words", "memory"]

MOST_KEPT = 256 << 20
"""Bytes of each kind of memory that are kept."""
MOST_LOCKED = 1 << 30
"""Bytes of page-locked memory that results hold at most; more of them have other memory."""
ROOM = 4096
"""Bytes by which a block may always be larger than what is asked for."""


@dataclass(slots=True)
class Blocks:
    """Blocks of one kind of memory. Their owners wait before they give them back."""

    make: Callable[[int], int]
    """So many bytes of the driver's; their address."""
    free: Callable[[int], object]
    used: dict[int, int] = field(default_factory=dict[int, int])
    """Bytes of each block that has an owner, by address."""
    kept: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Bytes and addresses of the others."""

    def take(self, size: int) -> int:
        """The smallest block that fits, or a new one."""
        found, others = (0, 0), list[tuple[int, int]]()
        while self.kept:
            one = self.kept.pop()  # nobody else gets it then, on whatever thread
            fits = size <= one[0] <= 2 * size + ROOM and (not found[1] or one < found)
            if fits:
                found, one = one, found
            others += [one] if one[1] else []
        self.kept.extend(others)
        if not found[1]:
            found = size, self.new(size)
        self.used[found[1]] = found[0]
        return found[1]

    def new(self, size: int) -> int:
        """A block of the driver's, which may need the room of those that are kept."""
        try:
            return self.make(size)
        except driver.DriverFailure:
            if not self.kept:
                raise
            self.drop()
            return self.make(size)

    def give(self, address: int) -> None:
        """Keep a block, or free it."""
        if self.used[address] + self.size > MOST_KEPT:
            del self.used[address]
            self.free(address)
        else:
            self.keep(address)

    def keep(self, address: int) -> None:
        """Keep a block. The driver isn't called, as it can't be from every thread."""
        self.kept.append((self.used.pop(address), address))

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return sum(size for size, _ in self.kept)

    def drop(self) -> None:
        """Free what nobody uses."""
        while self.kept:
            self.free(self.kept.pop()[1])


@cache
def memory(index: int) -> Blocks:
    """Of a GPU; it is the current one when blocks are taken and given back."""
    del index
    return Blocks(
        lambda size: int(driver.checked("cuMemAlloc", size)), partial(driver.checked, "cuMemFree")
    )


@cache
def locked() -> Blocks:
    """Page-locked memory of the host."""
    return Blocks(
        lambda size: int(driver.checked("cuMemHostAlloc", size, 1)),
        partial(driver.checked, "cuMemFreeHost"),
    )


def locked_words(words: int) -> npt.NDArray[np.int64]:
    """Page-locked words, until no array has any of them; other words where many are in use."""
    blocks, size = locked(), max(8, 8 * words)
    if blocks.size > MOST_KEPT:
        blocks.drop()
    if size + sum(blocks.used.values()) > MOST_LOCKED:
        return np.empty(words, dtype=np.int64)
    address = blocks.take(size)
    owner = (ctypes.c_int64 * words).from_address(address)
    weakref.finalize(owner, blocks.keep, address).atexit = False
    return np.frombuffer(memoryview(owner), dtype=np.int64)
