"""Which accesses through two arguments break a promise: of a byte that another has written."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region

from tawa.simulate.interpret import disjoint
from tawa.simulate.interpret.disjoint import NotDisjoint, Promises
from tawa.simulate.interpret.memory import Access, Buffer

MEMORY = np.zeros(64, np.uint8)
READ, WRITE = Access("reads", (0, 0, 0), None), Access("writes", (1, 0, 0), None)


def watched(monkeypatch: pytest.MonkeyPatch, first: slice, second: slice) -> tuple[Any, Any, Any]:
    """Two arguments that are promised to be apart, of parts of one memory."""
    monkeypatch.setattr(disjoint, "disjoint_pairs", lambda kernel: [("x", "y")])
    monkeypatch.setattr(disjoint, "argument_names", lambda kernel: ["x", "y"])
    monkeypatch.setattr(disjoint, "made_by_host", lambda kernel: (2, []))
    kernel = FuncOp("k", ((), ()), Region(Block()))
    found = Promises(kernel, None)
    buffers = [
        Buffer(name, 1 << 30, MEMORY[part], MEMORY[part], (0, len(MEMORY[part])))
        for name, part in (("x", first), ("y", second))
    ]
    found.begin(buffers)
    return found, *buffers


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(("begin", "end"), [(8, 40), (20, 28), (0, 64), (31, 33)])
def test_bytes_that_both_have(
    size: int, begin: int, end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one writes the other neither reads nor writes; what both read is no matter."""
    first, second = slice(4, 36), slice(begin, end)
    for one, other in product(range(0, 32 - size + 1, 5), range(0, end - begin - size + 1, 5)):
        own = set(range(4 + one, 4 + one + size))
        theirs = set(range(begin + other, begin + other + size))
        for kinds in product(("read", "write"), repeat=2):
            found, x, y = watched(monkeypatch, first, second)
            accesses = [READ if kind == "read" else WRITE for kind in kinds]
            getattr(found, kinds[0])(x, np.array([one]), size, accesses[0])
            step = getattr(found, kinds[1])
            if own & theirs and "write" in kinds:
                with pytest.raises(NotDisjoint):
                    step(y, np.array([other]), size, accesses[1])
            else:
                step(y, np.array([other]), size, accesses[1])


def test_one_argument_may_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found, x, y = watched(monkeypatch, slice(0, 32), slice(16, 48))
    for _ in range(2):
        found.write(x, np.array([[16, 20], [24, 28]]), 4, WRITE)
        found.read(x, np.array([16]), 4, READ)
    with pytest.raises(NotDisjoint):
        found.read(y, np.array([12]), 4, READ)
    found.read(y, np.array([16]), 4, READ)


def test_memory_that_does_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    found, x, y = watched(monkeypatch, slice(0, 16), slice(16, 48))
    found.write(x, np.arange(16), 1, WRITE)
    found.write(y, np.arange(32), 1, WRITE)
