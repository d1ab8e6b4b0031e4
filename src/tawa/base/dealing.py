"""Which CTA of a persistent kernel runs which programs, where their work differs (`deal="even"`).

The work of a program is a `Work`: integer arithmetic on program ids, grid sizes and scalar
arguments, which the compiler takes from the kernel's loop bounds. Before a launch it is evaluated
for all programs at once, and `plan` hands them out in the order of the grid, each to the CTA that
is free first, as a counter in the device's memory would; of the last programs the longest go first.
The plan is a kernel parameter: a launch waits for nothing, needs no memory of the device and can be
captured in a graph.

A plan is `ENTRIES` numbers of 16 bits:

    [0]                        turns in the order of the grid, of all CTAs, before what is planned
    [1 + cta]                  planned turns of a CTA
    [1 + ctas + t * ctas + cta]  the program of its planned turn t, less those handed out in order
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tawa.base.errors import TawaError
from tawa.base.target import SM90A

ENTRIES = 8192
"""Numbers of a plan: 16 KB of a kernel's parameters."""

MOST_TURNS = 2**16 - 1

TAILS = (1, 2, 4, 8)
"""For each CTA, how many of the last programs are handed out longest first.

Each CTA runs its own in the order of the grid. The more there are, the farther apart in time are
programs that share data: so many are not taken that together they touch more than L2 holds.
"""

L2_BYTES = SM90A.l2_bytes

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
from tawa.base.dealing import plan

plan(np.ones(10_000_000, np.int64), ctas=132)
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


def plan(work: Integers, ctas: int, program_bytes: float = 0.0) -> NDArray[np.uint16]:
    """The plan of a launch of `ctas` CTAs for programs of this `work`.

    `program_bytes` is how much of a launch's data there is for each program. Raises
    TooManyPrograms.
    """
    most = L2_BYTES / max(1.0, program_bytes * ctas)
    tails = [tail for tail in TAILS if tail <= max(most, TAILS[0])]
    rows, whole = (ENTRIES - 1) // ctas - 1, len(work) // ctas
    ordered = min(whole, max(0, -(-len(work) // ctas) - rows * 2 // 3))
    while True:
        before, rest = work[: ordered * ctas], work[ordered * ctas :]
        lists = _handed_out(rest, before.reshape(ordered, ctas).sum(axis=0), tails)
        if max(map(len, lists)) <= rows:
            break
        if ordered == whole:  # no more than one for each
            lists = [[i] if i < len(rest) else [] for i in range(ctas)]
            break
        ordered += 1
    if ordered > MOST_TURNS or rows < 1:
        raise TooManyPrograms(
            f"a plan for {len(work)} programs on {ctas} CTAs",
            expected=f"at most {(MOST_TURNS + rows // 2) * ctas} programs",
            hint="leave `deal` at 1",
        )
    table = np.zeros(ENTRIES, np.uint16)
    table[0] = ordered
    table[1 : 1 + ctas] = [len(programs) for programs in lists]
    for cta, programs in enumerate(lists):
        start = 1 + ctas + cta
        table[start : start + ctas * len(programs) : ctas] = programs
    return table


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
    order = np.arange(len(work))
    first = len(work) - tail
    order[first:] = first + np.argsort(-work[first:], kind="stable")
    free = [(time, cta) for cta, time in enumerate(busy.tolist())]
    heapify(free)
    lists: list[list[int]] = [[] for _ in free]
    for program, length in zip(order.tolist(), work[order].tolist(), strict=True):
        time, cta = free[0]
        lists[cta].append(program)
        heapreplace(free, (time + length, cta))
    return [sorted(programs) for programs in lists], np.array([time for time, _ in free])


def programs_of(table: NDArray[np.uint16], ctas: int, cta: int) -> list[int]:
    """The programs that a plan gives a CTA, in order."""
    ordered, start = int(table[0]), 1 + ctas + cta
    planned = table[start : start + ctas * int(table[1 + cta]) : ctas]
    return [t * ctas + cta for t in range(ordered)] + [ordered * ctas + int(p) for p in planned]
