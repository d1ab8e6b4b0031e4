"""What the timing machine knows of actors, barriers and the tensor core while it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from tawa.simulate.timing.code import Steps
from tawa.simulate.timing.memory import Misses

DONE = 1e-6
"""Cycles that count as none left."""


@dataclass(frozen=True)
class Rates:
    """What a multiprocessor gets of what all share, at a clock."""

    load_bytes: float
    """Bytes a cycle that L2 gives it."""
    store_bytes: float
    """Bytes a cycle that it can write."""
    load_latency: float = 260.0
    """Cycles from a load's iteration to its first byte from L2, beyond its transfer."""
    miss_latency: float = 0.0
    """Further cycles if it comes from device memory."""
    memory_bytes: float = math.inf
    """Bytes a cycle that device memory has for it, loads and stores together."""
    misses: Misses = Misses()
    """Which loads come from there."""
    cold: float = 0.0
    """Further cycles until its first load arrives."""


@dataclass(eq=False)
class Actor:
    """A program under way."""

    name: str
    cta: int
    steps: Steps
    now: float = 0.0
    issued: float = 0.0
    """Cycles of all matrix instructions so far."""
    last: float = 0.0
    """Of the last of them."""
    groups: list[float] = field(default_factory=list[float])
    """What `issued` was at the end of each group."""
    waits_for: float = 0.0
    """How much of `issued` must have run before the actor goes on, while it is `waiting`."""
    waiting: bool = False
    favour: float = 1.0
    """What it gets of the tensor core beside others, relative to theirs."""
    share: float = 1.0
    """What its ordinary code gets of a pipe that others want too, relative to theirs."""
    latency: float = 0.0
    """From then on to its next instruction."""
    begun: float = 0.0
    """When the tensor core can begin with the group that is, or was last, open."""
    since: float = 0.0
    """When what it does, or waits for, began."""
    fresh: bool = False
    """Whether a group of matrix instructions is open."""
    stores: list[float] = field(default_factory=list[float])
    """When each committed group of stores has read its tiles."""
    open_store: float = 0.0
    copied: float = 0.0
    """When the copies that its threads have started will have landed."""
    loads: int = 0
    """Copies that it has asked for."""
    iterations: list[float] = field(default_factory=list[float])
    """When each iteration of the outermost loop began."""
    stamps: list[tuple[float, int, int]] = field(default_factory=list[tuple[float, int, int]])
    """Of a recording kernel: time, segment and point of each timestamp."""
    done: bool = False


@dataclass(eq=False)
class Piece:
    """Work that an actor does, how much is left of it, and how fast it goes."""

    actor: Actor
    wants: tuple[float, ...]
    """Of each pipe, cycles a cycle at full speed."""
    left: float
    speed: float = 1.0
    version: int = 0


@dataclass(eq=False)
class Core:
    """The tensor core of a multiprocessor: warp groups take turns, instruction by instruction."""

    streams: dict[Actor, float] = field(default_factory=dict["Actor", float])
    """Of each actor with instructions left: how many of its cycles have run."""
    finished: dict[Actor, float] = field(default_factory=dict["Actor", float])
    """Of the others, the same."""
    updated: float = 0.0
    version: int = 0


class Look(NamedTuple):
    """An event: look at the tensor core of a multiprocessor."""

    place: int


@dataclass(eq=False)
class Barrier:
    """An mbarrier: what its running phase lacks, and who waits."""

    arrivals: int
    left: int = 0
    bytes: int = 0
    phase: int = 0
    time: float = 0.0
    waiting: list[Actor] = field(default_factory=list[Actor])


@dataclass(eq=False)
class Meeting:
    """A named barrier."""

    left: int = 0
    time: float = 0.0
    waiting: list[Actor] = field(default_factory=list[Actor])


def left_of(actor: Actor, done: float, later: int) -> float:
    """Cycles of an actor's instructions until it goes on, or until none are left.

    Where it waits for a group's end, the last instruction ends before those of the `later` actors
    that come after it in their iteration, though all have run equally far.
    """
    if not actor.waiting or actor.waits_for <= done + DONE:
        return actor.issued - done if not actor.waiting else 0.0
    ahead = later * actor.last / (later + 1) if actor.latency else 0.0
    return actor.waits_for - done - ahead
