"""The text of an actor's timing program while it is written, and what its steps are called."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from xdsl.ir import Operation, SSAValue

from tawa.hopper.dialect.memory import TmaLoad
from tawa.hopper.dialect.structure import Barriers
from tawa.ir.effects import COPYING, OPERANDS, PHASE, PRODUCTS, touches
from tawa.ir.elementwise import Map
from tawa.machine.chips import Chip
from tawa.machine.costs import DIVISIONS, REMAINDER
from tawa.simulate.interpret.global_memory import GlobalMemory
from tawa.simulate.interpret.hopper import Span
from tawa.simulate.timing.trace import About, heaviest
from tawa.simulate.timing.work import NO_WORK, Work

(
    WORK,
    MATRIX,
    COMMIT,
    MATRIX_WAIT,
    LOAD,
    STORE,
    BULK_COMMIT,
    BULK_WAIT,
    INIT,
    EXPECT,
    ARRIVE,
    WAIT,
    MEET,
    ITERATION,
    STAMP,
    NOTE,
    COPY,
    COPY_ARRIVE,
) = range(18)
"""First items of the tuples that programs yield; `Machine` says what follows each."""

Steps = Generator[tuple[Any, ...]]
Program = Callable[..., Steps]
"""Called with the kernel's arguments and the place of the CTA: `(values, rank, block, grid)`, and,
if its outermost loop is to end early, with its most iterations. Each iteration of that loop begins
with `(ITERATION,)`; a program with several outermost loops has no such iterations."""

Count = Callable[..., tuple[float, ...]]
"""Called in the same way: the items of an `Amounts`."""


Box = tuple[Any, ...]
"""A box that is loaded: its tensor, its bytes, and where it lies."""

Places = Callable[..., list[Box]]
"""Called in the same way, with at most how many to list: the boxes that a program loads."""


class Amounts(NamedTuple):
    """What an actor, a CTA or a launch moves and multiplies."""

    loads: float = 0
    """Copies from device memory."""
    loaded: float = 0
    """Their bytes."""
    stored: float = 0
    """Bytes of copies to device memory."""
    flops: float = 0
    """Of matrix instructions."""
    tensor_cycles: float = 0
    """That they take of a multiprocessor's tensor core."""
    read: float = 0
    """Bytes read through pointers."""
    written: float = 0
    """Bytes written through pointers."""

    def plus(self, other: Sequence[float]) -> Amounts:
        """The sum, item by item."""
        return Amounts(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, factor: float) -> Amounts:
        """So many times this."""
        return Amounts(*(factor * a for a in self))


Part = tuple[Work, Operation | None]
"""Work, and the op that it is of."""

COMMUNICATION = (PHASE, OPERANDS, PRODUCTS, COPYING)
"""Resources whose use makes a loop one whose iterations matter."""


def never(_op: Operation) -> bool:
    """No op."""
    return False


@dataclass
class Code:
    """Python text of one actor's program, and the tables that it names."""

    target: Chip
    warps: Span
    kernel_warps: int
    memory: GlobalMemory | None = None
    """Of the launch, as it is before it."""
    lines: list[str] = field(default_factory=list[str])
    depth: int = 1
    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    table: dict[str, Any] = field(default_factory=dict[str, Any])
    pending: list[Part] = field(default_factory=list[Part])
    """Straight-line work not yet written, and the ops that it is of."""
    team: int = 0
    first_thread: int = 0
    threads: int = 0
    """Threads that run here: 1 inside `one_thread`."""
    counter: Iterable[int] = field(default_factory=itertools.count)
    counting: bool = False
    """Amounts are counted, and nothing else is done."""
    loads_only: bool = True
    """Only loads and stores are, which is quicker."""
    places: bool = False
    """What is loaded is listed instead."""
    notes: bool = False
    """Each step is preceded by what it is about, for a timeline."""
    free: Callable[[Operation], bool] = never
    """Ops that take no time, to see what that would gain."""
    op: Operation | None = None
    """The op that is being written."""
    loops: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Loops that what is written now lies in: what each is called, and its variable."""
    outermost: int = 0
    """Outermost loops with communication so far."""
    sizes: dict[str, str] = field(default_factory=dict[str, str])
    """Of maps: the name of their boxes' bytes."""
    ready: dict[SSAValue, float] = field(default_factory=dict[SSAValue, float])
    """Cycles until a scalar of the straight-line work is there."""
    counters: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    """Of counters in memory that numbers are drawn from: how often that was."""
    divided: set[tuple[SSAValue, ...]] = field(default_factory=set[tuple[SSAValue, ...]])
    """Operands of integer divisions so far."""

    def line(self, text: str) -> None:
        """Write a line."""
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        """A new name."""
        return f"{stem}{next(iter(self.counter))}"

    def constant(self, stem: str, value: Any) -> str:
        """The name of a value that the text can refer to."""
        name = self.fresh(stem)
        self.table[name] = value
        return name

    def name(self, value: SSAValue) -> str:
        """A scalar's expression."""
        return self.names[value]

    def bytes(self, tensor_map: SSAValue) -> str:
        """The bytes of a map's box."""
        name = self.name(tensor_map)
        return self.sizes.setdefault(name, f"size{len(self.sizes)}")

    def add(self, work: Work) -> None:
        """Work of the op that is being written."""
        if not self.is_free:
            self.pending.append((work, self.op))

    @property
    def is_free(self) -> bool:
        """Whether the op that is being written takes no time."""
        return self.op is not None and self.free(self.op)

    def flush(self) -> None:
        """Write the work that has come together."""
        for work, parts in () if self.counting else pieces(self.pending):
            self.note(parts)
            self.line(f"yield {self.constant('w', (WORK, work))}")
        self.pending.clear()
        self.ready.clear()

    def note(self, parts: tuple[tuple[Work, Operation], ...] | None = None) -> None:
        """Write what the next step is about, if somebody wants to know: the op at hand."""
        if not self.notes:
            return
        if parts is not None:
            ops = heaviest(parts)
        else:
            ops = (self.op,) if self.op is not None else ()
        at = cast(Any, ops[0] if len(ops) == 1 else None)
        ring = _ring(at)
        slot = self.name(at.slot) if ring else "None"
        about = About(ops, tuple(name for name, _ in self.loops), ring, parts or ())
        iterations = "".join(f"{variable}, " for _, variable in self.loops)
        self.line(f"yield ({NOTE}, {self.constant('n', about)}, ({iterations}), {slot})")

    def scalar(self, op: Map) -> None:
        """Index arithmetic: each op waits for its operands, all of it runs beside other work."""
        operands, count = tuple(op.arguments), DIVISIONS.get(op.function.data, 1)
        if count > 1:
            count = REMAINDER if operands in self.divided else count
            self.divided.add(operands)
        begin = max((self.ready.get(v, 0.0) for v in operands), default=0.0)
        count = 0 if self.is_free else count
        end = self.ready[op.result] = begin + count * self.target.timing.scalar
        self.add(Work(float(count), chain=end))

    def event(self, text: str) -> None:
        """Write the work so far, then an event."""
        self.flush()
        if not self.counting:
            self.note()
            self.line(f"yield ({text})")

    def iteration(self, op: Operation) -> bool:
        """Whether a loop's iterations are those that a program may be given fewer of."""
        found = not self.loops and any(touches(op, what) for what in COMMUNICATION)
        self.outermost += found
        return found


def pieces(
    parts: Sequence[Part],
) -> list[tuple[Work, tuple[tuple[Work, Operation], ...]]]:
    """Straight-line work in as few pieces as its order allows, and what each is made of.

    Independent instructions overlap, so pieces run together; what waits for a lane exchange, or
    makes others wait for it, ends a piece.
    """
    found: list[tuple[Work, tuple[tuple[Work, Operation], ...]]] = []
    now, own = NO_WORK, list[tuple[Work, Operation]]()
    for work, op in (*parts, (NO_WORK, None)):
        now = now + work
        if op is not None:
            own.append((work, op))
        if work.ordered or (work is NO_WORK and (now.issue or now.latency)):
            found.append((now, tuple(own)))
            now, own = NO_WORK, []
    return found


def merged(works: Sequence[Work]) -> list[Work]:
    """The pieces of work without ops."""
    return [work for work, _ in pieces([(work, None) for work in works])]


def _ring(op: Operation | None) -> str:
    """The name of the ring whose barrier an op uses."""
    owner = getattr(getattr(op, "barrier", None), "owner", None)
    if not isinstance(owner, Barriers) or getattr(op, "slot", None) is None:
        return ""
    name = owner.barrier.name_hint or "barrier"
    return name.removesuffix("_full") if isinstance(op, TmaLoad) else name
