"""Memory that is used again, of a driver that counts what it has given."""

from __future__ import annotations

import ctypes
import gc
from dataclasses import dataclass, field

import numpy as np
import pytest

from tawa.cuppl.gpu import blocks
from tawa.cuppl.gpu.blocks import Blocks, locked_words
from tawa.runtime.driver import DriverFailure


@dataclass
class Memory:
    """So many bytes; addresses are those of the host's."""

    room: int
    given: dict[int, ctypes.Array[ctypes.c_char]] = field(default_factory=dict)
    made: int = 0

    def make(self, size: int) -> int:
        if size + sum(map(len, self.given.values())) > self.room:
            raise DriverFailure("no room")
        block = ctypes.create_string_buffer(size)
        self.given[ctypes.addressof(block)] = block
        self.made += 1
        return ctypes.addressof(block)

    def free(self, address: int) -> None:
        del self.given[address]


def blocks_of(room: int) -> tuple[Blocks, Memory]:
    memory = Memory(room)
    return Blocks(memory.make, memory.free), memory


def test_a_block_is_used_again_by_whom_it_fits() -> None:
    found, memory = blocks_of(1 << 20)
    large, small = found.take(100_000), found.take(20_000)
    found.give(large)
    found.give(small)
    assert found.take(19_000) == small
    assert found.take(19_000) not in (large, small)
    assert found.take(60_000) == large
    assert memory.made == 3


def test_two_owners_never_have_the_same_block() -> None:
    found, _ = blocks_of(1 << 20)
    random, owned = np.random.default_rng(1), dict[int, int]()
    for size in random.integers(1, 30_000, 300).tolist():
        if owned and random.random() < 0.5:
            found.give(owned.popitem()[0])
        address = found.take(size)
        assert address not in owned
        assert found.used[address] >= size
        owned[address] = size
        if len(owned) > 20:
            found.give(owned.popitem()[0])
    assert set(found.used) == set(owned)


def test_what_is_kept_makes_room() -> None:
    found, memory = blocks_of(10_000)
    found.give(found.take(9000))
    assert found.size == 9000
    found.take(100)
    assert list(found.used.values()) == [100]
    with pytest.raises(DriverFailure):
        found.take(9950)
    assert len(memory.given) == 1


def test_no_more_is_kept_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MOST_KEPT", 500)
    found, memory = blocks_of(10_000)
    for address in [found.take(200) for _ in range(4)]:
        found.give(address)
    assert (found.size, len(memory.given)) == (400, 2)


def test_locked_words_are_given_back_with_the_last_array(monkeypatch: pytest.MonkeyPatch) -> None:
    found, memory = blocks_of(1 << 20)
    monkeypatch.setattr(blocks, "locked", lambda: found)
    whole = locked_words(100)
    whole[:] = 7
    part = whole.reshape(10, 10)[3].view(np.float64)
    del whole
    gc.collect()
    assert found.used
    assert part.view(np.int64).tolist() == [7] * 10
    del part
    gc.collect()
    assert not found.used
    assert len(locked_words(100)) == 100
    assert memory.made == 1


def test_other_words_are_given_where_many_are_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    found, memory = blocks_of(1 << 20)
    monkeypatch.setattr(blocks, "locked", lambda: found)
    monkeypatch.setattr(blocks, "MOST_LOCKED", 1000)
    one, other = locked_words(100), locked_words(100)
    other[:] = 1
    assert (len(one), len(other), memory.made) == (100, 100, 1)
