"""Devices that do work in streams: those of the host, and NumPy arrays that stand for them.

Each device has a stream that computes and one that copies what comes to it. Work waits for the
events that it names, and for what was given to its stream before; nothing else orders it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tawa.runtime.arrays import view
from tawa.runtime.peers import Peers, Rows, rows_of
from tawa.tasks.devices.recipe import Make, Recipe, Region, Work
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


class Place(NamedTuple):
    """A region in any call: its array's number, bytes from there, and what a `Part` is made of."""

    array: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    device: int
    packed: bool


class Part:
    """A part of an array of a call, as launches look at PyTorch's tensors; none is made for it."""

    __slots__ = ("place", "pointer")

    def __init__(self, place: Place, base: int) -> None:
        self.place, self.pointer = place, base + place.offset

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self.place.shape

    @property
    def dtype(self) -> Any:
        """PyTorch's type of its elements."""
        return self.place.dtype

    @property
    def nbytes(self) -> int:
        """How much memory its elements take."""
        return prod(self.place.shape) * self.place.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of its first element."""
        return self.pointer

    def stride(self) -> tuple[int, ...]:
        """Elements from one to the next, in each dimension."""
        return self.place.strides

    def get_device(self) -> int:
        """The number of its device."""
        return self.place.device

    def is_contiguous(self) -> bool:
        """Whether its elements lie one behind the other, in order."""
        return self.place.packed

    def new_empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """A tensor of PyTorch on its device."""
        return sys.modules["torch"].empty(shape, dtype=dtype, device=f"cuda:{self.place.device}")


class Gpus:
    """Does a call's work on the host's GPUs, with PyTorch's tensors.

    A device computes in PyTorch's current stream, and copies in one of its own. All memory of the
    call is there before its first work, so that no copy waits for memory; at the end all devices'
    streams wait for all copies, so that it is free in their order. Regions are looked at in the
    first call, which others are like: from then on, giving a work to a stream is a launch and
    little else.
    """

    def __init__(self, recipe: Recipe, count: int) -> None:
        self.recipe, self.count = recipe, count
        self.given: list[list[Any]] = []
        """Of each work: what it is given, a `Place` for each region."""
        self.rows: list[list[tuple[Rows, Rows]]] = []
        """What each copy moves, from where its arrays begin; nothing for launches."""
        self.bases: list[int] = []
        self.parts: list[tuple[Any, ...]] = []
        """What works are given where arrays begin there: kept for calls with the same arrays."""

    def run(self, arrays: Sequence[Any]) -> None:
        """Give the work to the devices' streams; waits for none."""
        recipe = self.recipe
        pool = [*arrays, *(_tensor(make) for make in recipe.makes)]
        if not self.given:
            self.given = [[_place(arg, pool) for arg in work.given] for work in recipe.works]
            self.rows = [_moved(work, pool) for work in recipe.works]
        bases = [array.data_ptr() for array in pool]
        if bases != self.bases:
            self.bases = bases
            self.parts = [tuple(_part(arg, bases) for arg in given) for given in self.given]
        events: dict[int, int] = {}
        with Peers(self.count) as peers:
            for number, work in enumerate(recipe.works):
                stream = peers.use(work.device, copies=work.copies)
                for event in recipe.waits[number]:
                    peers.wait(stream, events[event])
                if work.call is None:
                    one, other = (bases[place.array] for place in self.given[number])
                    peers.copy(self.rows[number], (one, other), stream)
                else:
                    work.call(self.parts[number])
                if number in recipe.waited:
                    events[number] = peers.mark(work.device, stream)


def _place(arg: Any, pool: Sequence[Any]) -> Any:
    """What a region is in any call, or another argument as it is."""
    if not isinstance(arg, Region):
        return arg
    whole, part = pool[arg.array], arg.of(pool)
    offset = part.data_ptr() - whole.data_ptr()
    shape = tuple(int(size) for size in part.shape)
    lie = shape, tuple(part.stride()), part.dtype, part.get_device(), part.is_contiguous()
    return Place(arg.array, offset, *lie)


def _part(arg: Any, bases: Sequence[int]) -> Any:
    """What a launch is given in this call."""
    return Part(arg, bases[arg.array]) if isinstance(arg, Place) else arg


def _moved(work: Work, pool: Sequence[Any]) -> list[tuple[Rows, Rows]]:
    """The rows of a copy, counted from where its arrays begin."""
    if not work.copies:
        return []
    return rows_of(
        *(
            (seen := view(region.of(pool)))._replace(
                pointer=seen.pointer - pool[region.array].data_ptr()
            )
            for region in work.given
        )
    )


def _tensor(make: Make) -> Any:
    torch: Any = sys.modules["torch"]
    create = torch.zeros if make.zero else torch.empty
    return create(make.shape, dtype=torch_type(make.dtype), device=f"cuda:{make.device}")
