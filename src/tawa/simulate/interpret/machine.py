"""What the actors of one cluster share, and the asynchronous tasks that they have started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.ir import Operation

from tawa.simulate.interpret.barriers import NamedBarrier
from tawa.simulate.interpret.clocks import Components
from tawa.simulate.interpret.cta import Cta
from tawa.simulate.interpret.global_memory import GlobalMemory
from tawa.simulate.interpret.limits import Limits


@dataclass(frozen=True)
class Warps:
    """Which warps of the CTA an actor is, and its component numbers."""

    name: str
    first: int
    count: int
    components: tuple[int, ...]
    """Clock components of the warps."""
    matrix: int
    """Clock component of its matrix instructions."""
    bulk: int
    """Clock component of its bulk stores."""
    copies: int
    """Clock component of the copies that its threads start."""


class Record(NamedTuple):
    """An access of shared memory, for messages."""

    op: Operation | None
    text: str


class Event(NamedTuple):
    """One step of an actor's communication; what the explorer replays."""

    kind: str
    operands: tuple[object, ...]
    op: Operation | None
    text: str
    rank: int
    """The actor's CTA."""


@dataclass(eq=False)
class Task:
    """A copy that the TMA engine has been given, or an arrival that waits for threads' copies."""

    name: str
    op: Operation | None
    execute: Callable[[], None]
    done: bool = False


class Switch:
    """A point where another actor may go first."""

    def ready(self) -> bool:
        """Always."""
        return True


SWITCH = Switch()


@dataclass
class Machine:
    """One cluster on its way through a kernel."""

    memory: GlobalMemory
    grid: tuple[int, int, int]
    cta_threads: int
    components: Components
    meeting: NamedBarrier
    """The barrier of the whole cluster."""
    ctas: list[Cta] = field(default_factory=list[Cta])
    tasks: list[Task] = field(default_factory=list[Task])
    records: list[Record] = field(default_factory=list[Record])
    traces: dict[str, list[Event]] | None = None
    """Each actor's communication, if somebody wants it."""
    checking: bool = True
    """Report unordered accesses; without it, only what stops the run is found."""
    limits: Limits | None = None
    """When to give up."""

    def record(self, op: Operation | None, text: str) -> int:
        """A number that stands for an access."""
        self.records.append(Record(op, text))
        return len(self.records) - 1

    def start(self, task: Task) -> Task:
        """Hand a copy to the TMA engine."""
        self.tasks.append(task)
        return task
