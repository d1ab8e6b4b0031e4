"""Devices that do work in streams: those of the host, and NumPy arrays that stand for them.

Each device has a stream that computes and one that copies what comes to it. Work waits for the
events that it names, and for what was given to its stream before; nothing else orders it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tawa.runtime.arrays import view
from tawa.runtime.peers import Peers, Rows, rows_of
from tawa.tasks.devices.recipe import Make, Recipe, Work
from tawa.tasks.language.element_types import numpy_type, torch_type


def simulate(recipe: Recipe, arrays: Sequence[Any], seed: int) -> None:
    """Do a call's work on NumPy arrays, in any order that events and streams allow.

    So an event that is missing shows: arrays begin full of bits that are NaN.
    """
    pool = [*arrays, *(_numbers(make) for make in recipe.makes)]
    chance, done, left = random.Random(seed), set[int](), list(recipe.works)
    while left:
        heads = {work.stream: work for work in reversed(left)}
        ready = [work for work in heads.values() if done.issuperset(recipe.waits[work.number])]
        work = chance.choice(sorted(ready, key=lambda one: one.number))
        given = work.arguments(pool)
        if work.call is None:
            given[1][...] = given[0]
        else:
            work.call(given)
        done.add(work.number)
        left.remove(work)


def _numbers(make: Make) -> Any:
    data: Any = np.zeros(make.shape, numpy_type(make.dtype))
    if not make.zero:
        data.reshape(-1).view(np.uint8)[:] = 0xFF
    return data


class Gpus:
    """Does a call's work on the host's GPUs, with PyTorch's tensors.

    A device computes in PyTorch's current stream, and copies in one of its own. All memory of the
    call is there before its first work, so that no copy waits for memory; at the end all devices'
    streams wait for all copies, so that it is free in their order.
    """

    def __init__(self, recipe: Recipe, count: int) -> None:
        self.recipe, self.count = recipe, count
        self.rows: dict[int, list[tuple[Rows, Rows]]] = {}
        """What each copy moves, from where its arrays begin."""

    def run(self, arrays: Sequence[Any]) -> None:
        """Give the work to the devices' streams; waits for none."""
        recipe = self.recipe
        pool = [*arrays, *(_tensor(make) for make in recipe.makes)]
        peers, events = Peers(self.count), dict[int, Any]()
        for work, waits in zip(recipe.works, recipe.waits, strict=True):
            with peers.stream(work.device, work.copies, [events[n] for n in waits]) as stream:
                if work.call is None:
                    peers.copy(self._moved(work, pool), stream)
                else:
                    work.call(work.arguments(pool))
                if work.number in recipe.waited:
                    events[work.number] = peers.mark(work.device, stream)
        peers.join()

    def _moved(self, work: Work, pool: Sequence[Any]) -> list[tuple[Rows, Rows]]:
        """The rows of a copy, where they are in this call."""
        bases = [pool[region.array].data_ptr() for region in work.given]
        found = self.rows.get(work.number)
        if found is None:
            views = [view(region.of(pool)) for region in work.given]
            parts = [v._replace(pointer=v.pointer - b) for v, b in zip(views, bases, strict=True)]
            found = self.rows[work.number] = rows_of(*parts)
        return [
            ((one[0] + bases[0], *one[1:]), (other[0] + bases[1], *other[1:]))
            for one, other in found
        ]


def _tensor(make: Make) -> Any:
    torch: Any = sys.modules["torch"]
    create = torch.zeros if make.zero else torch.empty
    return create(make.shape, dtype=torch_type(make.dtype), device=f"cuda:{make.device}")
