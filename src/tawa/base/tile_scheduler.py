"""The tile scheduler of persistent kernels: which CTA runs which programs (`deal="even"`).

The work of a program is a `Work`: integer arithmetic on program ids, grid sizes and scalar
arguments, which the compiler takes from the kernel's loop bounds. Before a launch it is evaluated
for all programs at once, and `plan` hands them out in the order of the grid, each to the CTA that
is free first, as a counter in the device's memory would; of the last programs the longest go first.
The plan is a kernel parameter: a launch waits for nothing, needs no memory of the device and can be
captured in a graph.

CTAs that share a multiprocessor don't get on alike: the one that came first is 20 to 30% ahead.
There the last quarter of the programs is planned for CTAs of its own, which the device starts as
others end: it hands them out as such a counter would.

A plan is `ENTRIES` numbers of 16 bits:

    [0]          iterations in the order of the grid, of each of the CTAs that start first
    [1]          how many start first
    [2 + cta]    where the planned programs of a CTA begin in the plan; they end where the next's do
    ...          planned programs, less those handed out in order
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tawa.base.errors import TawaError
from tawa.machine.chips import DEFAULT

ENTRIES = 8192
"""Numbers of a plan: 16 KB of a kernel's parameters."""

MOST_ITERATIONS = 2**16 - 1

HEAD = 3
"""Numbers of a plan besides one for each CTA and each planned program."""

LATER = 2
"""Where CTAs share a multiprocessor: at most so many more for each that starts first."""

LATER_SHARE = 4
"""One in so many programs is for CTAs that start later."""

MOST_CTAS = 2048
"""CTAs of a plan that has some which start later."""

TAILS = (1, 2, 4, 8)
"""For each CTA, how many of the last programs are handed out longest first.

Each CTA runs its own in the order of the grid. The more there are, the farther apart in time are
programs that share data: so many are not taken that together they touch more than L2 holds.
"""

EVEN = 0.985
"""Mean over largest work of the CTAs at which a plan is good enough."""

Integers: TypeAlias = NDArray[np.int64]
Step: TypeAlias = tuple[Any, ...]


class TooManyPrograms(TawaError):
    """A plan of a kernel's programs can't have so many."""

    explanation = (
        'With `deal="even"` a CTA runs at most 65,535 programs in the order of the grid before '
        "those that are planned. Larger tiles or a smaller grid have fewer."
    )
    example = """
import numpy as np
from tawa.base.tile_scheduler import plan

plan(np.ones(10_000_000, np.int64), first=132)
"""


@dataclass(frozen=True)
class Work:
    """How much work a program is, in any unit: `steps` of integer arithmetic, the last the result.

    A step is `("program", axis)`, `("grid", axis)`, `("argument", index)`, `("constant", value)`
    or a function of `FUNCTIONS` and the numbers of the steps that it takes.
    """

    steps: tuple[Step, ...]

    @property
    def arguments(self) -> tuple[int, ...]:
        """The run-time arguments that matter, by index."""
        return tuple(sorted({step[1] for step in self.steps if step[0] == "argument"}))

    @property
    def differs(self) -> bool:
        """Whether programs may differ in work."""
        needed, differs = {len(self.steps) - 1}, False
        for number in sorted(range(len(self.steps)), reverse=True):
            if number in needed:
                name, *operands = self.steps[number]
                differs = differs or name == "program"
                needed |= set(operands) if name in FUNCTIONS else set()
        return differs

    def evaluate(self, grid: Sequence[int], arguments: Sequence[Any]) -> Integers:
        """The work of every program of a grid, x fastest."""
        sizes: list[int] = [int(n) for n in (*grid, 1, 1)[:3]]
        x, y, z = sizes
        number = np.arange(x * y * z, dtype=np.int64)
        ids: list[Integers] = [number % x, number // x % y, number // (x * y)]
        values: list[Any] = []
        for name, *operands in self.steps:
            match name:
                case "program":
                    values.append(ids[int(operands[0])])
                case "grid":
                    values.append(np.int64(sizes[int(operands[0])]))
                case "argument":
                    values.append(np.int64(arguments[operands[0]]))
                case "constant":
                    values.append(np.int64(operands[0]))
                case _:
                    values.append(FUNCTIONS[name](*(values[i] for i in operands)))
        return np.broadcast_to(np.asarray(values[-1], np.int64), number.shape)


_select: Callable[..., Any] = np.where


def _quotient(a: Any, b: Any) -> Any:
    """Rounded towards zero; -1 for a divisor of zero, as NVIDIA hardware has it."""
    safe = _select(b == 0, 1, b)
    whole: Any = np.abs(a) // np.abs(safe) * np.sign(a) * np.sign(safe)
    return _select(b == 0, -1, whole)


def _rest(a: Any, b: Any) -> Any:
    return _select(b == 0, a, a - b * _quotient(a, b))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "divsi": _quotient,
    "remsi": _rest,
    "minsi": np.minimum,
    "maxsi": np.maximum,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "cmpi_eq": lambda a, b: a == b,
    "cmpi_ne": lambda a, b: a != b,
    "cmpi_slt": lambda a, b: a < b,
    "cmpi_sle": lambda a, b: a <= b,
    "cmpi_sgt": lambda a, b: a > b,
    "cmpi_sge": lambda a, b: a >= b,
    "select": _select,
    "extsi": np.int64,
    "extui": np.int64,
}
"""The functions of a `Work`, on NumPy integers; by their names as scalar functions."""


def launched_ctas(programs: int, resident: int, shared: int = 1) -> int:
    """CTAs of a launch: those that are `resident`, `shared` to a multiprocessor, and later ones."""
    if shared == 1 or programs < LATER_SHARE * resident:
        return min(programs, resident)
    most = max(1, min(LATER * resident, MOST_CTAS - resident))
    later = programs // LATER_SHARE
    return resident + later // -(-later // most)


def plan(
    work: Integers,
    first: int,
    ctas: int | None = None,
    program_bytes: float = 0.0,
    l2_bytes: int = DEFAULT.l2_bytes,
) -> NDArray[np.uint16]:
    """The plan of a launch of `ctas` CTAs, of which `first` start at once (by default all).

    `work` is that of each program, `program_bytes` how much of the launch's data there is for each,
    `l2_bytes` what L2 holds.
    Raises TooManyPrograms.
    """
    ctas = first if ctas is None else ctas
    room = ENTRIES - HEAD - ctas
    most = l2_bytes / max(1.0, program_bytes * first)
    tails = [tail for tail in TAILS if tail <= max(most, TAILS[0])]
    count = len(work) - _later(len(work), ctas - first, room)
    room -= len(work) - count
    ordered = max(0, -(-(count - room) // first))
    if ordered > MOST_ITERATIONS or room < first:
        raise TooManyPrograms(
            f"a plan for {len(work)} programs on {first} CTAs",
            expected=f"at most {MOST_ITERATIONS * first} programs",
            hint="leave `deal` at 1",
        )
    busy = work[: ordered * first].reshape(ordered, first).sum(axis=0)
    lists = _handed_out(work[ordered * first : count], busy, tails)
    lists += _chunks(work[count:], ctas - first, round(most * first), count - ordered * first)
    table = np.zeros(ENTRIES, np.uint16)
    table[:2] = ordered, first
    table[2 : HEAD + ctas] = HEAD + ctas + np.cumsum([0, *map(len, lists)])
    planned = [program for programs in lists for program in programs]
    table[HEAD + ctas : HEAD + ctas + len(planned)] = planned
    return table


def _later(programs: int, ctas: int, room: int) -> int:
    """How many of the last programs go to CTAs that start later: as many to each."""
    return min(programs // LATER_SHARE, room // 2) // ctas * ctas if ctas else 0


def _chunks(work: Integers, ctas: int, together: int, first: int) -> list[list[int]]:
    """As many consecutive programs for each CTA, the last `together` of them longest first."""
    order = _tail_first(work, max(ctas, together)) + first
    return order.reshape(ctas, -1).tolist() if ctas else []


def _handed_out(work: Integers, busy: Integers, tails: Sequence[int]) -> list[list[int]]:
    """The programs of each CTA; `busy` is the work that it has before."""
    best: list[list[int]] = []
    evenness = -1.0
    for tail in tails:
        lists, times = _listed(work, busy, min(len(work), tail * len(busy)))
        found = float(times.mean() / max(1, times.max()))
        if found > evenness:
            best, evenness = lists, found
        if found >= EVEN or tail * len(busy) >= len(work):
            break
    return best


def _listed(work: Integers, busy: Integers, tail: int) -> tuple[list[list[int]], Integers]:
    """Each CTA takes the next program when it is done with those it has; also when it ends.

    The last `tail` programs are handed out longest first.
    """
    order = _tail_first(work, tail)
    free = [(time, cta) for cta, time in enumerate(busy.tolist())]
    heapify(free)
    lists: list[list[int]] = [[] for _ in free]
    for program, length in zip(order.tolist(), work[order].tolist(), strict=True):
        time, cta = free[0]
        lists[cta].append(program)
        heapreplace(free, (time + length, cta))
    return [sorted(programs) for programs in lists], np.array([time for time, _ in free])


def _tail_first(work: Integers, tail: int) -> Integers:
    """Programs in the order of the grid, but the last `tail` ones with the longest first."""
    order = np.arange(len(work))
    first = max(0, len(work) - tail)
    order[first:] = first + np.argsort(-work[first:], kind="stable")
    return order


def programs_of(table: NDArray[np.uint16], cta: int) -> list[int]:
    """The programs that a plan gives a CTA, in order."""
    ordered, first, begin, end = (int(n) for n in (*table[:2], *table[2 + cta : 4 + cta]))
    in_order = [iteration * first + cta for iteration in range(ordered)] if cta < first else []
    return in_order + [ordered * first + int(program) for program in table[begin:end]]
