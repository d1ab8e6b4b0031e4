"""Whether arrays of a call are apart: what a task writes to one must not be seen in another.

How far each array reaches from its first element follows from how it lies, so that a call which
lies like one before only compares addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tawa.base.source import Span
from tawa.runtime.arrays import is_array, pointer_of
from tawa.runtime.overlaps import meet, reach
from tawa.tasks.language.errors import AliasingArguments
from tawa.tasks.language.task import Task


@dataclass(frozen=True)
class Clashes:
    """Pairs of arguments of which one is written, and where their bytes begin and end."""

    names: tuple[str, ...]
    spans: tuple[tuple[int, int, int], ...]
    """Position of an argument, and its first and last bytes counted from its address."""
    pairs: tuple[tuple[int, int], ...]
    """Places in `spans`."""

    @staticmethod
    def of(task: Task, args: Sequence[Any]) -> Clashes:
        """Those of calls whose arguments lie like these."""
        spans, written = list[tuple[int, int, int]](), list[bool]()
        for place, (name, arg) in enumerate(zip(task.parameters, args, strict=True)):
            found = reach(arg) if name in task.privileges and is_array(arg) else None
            if found is not None:
                at = pointer_of(arg)
                spans.append((place, found.begin - at, found.end - at))
                written.append(task.privileges[name].writes)
        pairs = [(i, j) for i, j in combinations(range(len(spans)), 2) if written[i] or written[j]]
        return Clashes(task.parameters, tuple(spans), tuple(pairs))

    def check(self, args: Sequence[Any], span: Span | None = None) -> None:
        """Raises `AliasingArguments`."""
        at = [pointer_of(args[place]) for place, _, _ in self.spans]
        for i, j in self.pairs:
            (one, low1, high1), (other, low2, high2) = self.spans[i], self.spans[j]
            if at[i] + low1 < at[j] + high2 and at[j] + low2 < at[i] + high1:
                self._compare(args, one, other, span)

    def _compare(self, args: Sequence[Any], one: int, other: int, span: Span | None) -> None:
        first, second = reach(args[one]), reach(args[other])
        if first is None or second is None or not meet(first, second):
            return
        raise AliasingArguments(
            f"`{self.names[one]}` and `{self.names[other]}` overlap, and one is written",
            span=span,
            expected="arrays that are apart, or all only read",
            found="one array" if first == second else "bytes that both reach",
            hint="pass a copy, or make it one argument with READ_WRITE",
        )
