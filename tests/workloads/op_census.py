"""How many of each op a module has, as one line: what a kernel became, so that a change of it is seen.

An op whose properties have numbers (a vector's width, an offset, a count of bytes) also has their
sum. Op counts say what has changed where a whole text would only say that something has; an order
or a name may change without a word. The lines of all kernels are one file, so `--update` shows in
its difference which kernels a change of the compiler meets.
"""

from __future__ import annotations

import fcntl
from collections import defaultdict
from pathlib import Path

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation

from tawa.ir.elementwise import Map


def census(module: ModuleOp) -> str:
    """Each op's name, how many there are and, behind a plus, the sum of their numbers."""
    counts: defaultdict[str, int] = defaultdict(int)
    sums: defaultdict[str, int] = defaultdict(int)
    for op in module.walk():
        name = op.function.data if isinstance(op, Map) else op.name
        counts[name] += 1
        sums[name] += _numbers(op)
    parts = (f"{n} {counts[n]}+{sums[n]}" if sums[n] else f"{n} {counts[n]}" for n in counts)
    return ", ".join(sorted(parts))


def _numbers(op: Operation) -> int:
    """The sum of the numbers among an op's properties; a constant's value is none."""
    found = op.properties.items()
    return sum(a.value.data for key, a in found if isinstance(a, IntegerAttr) and key != "value")


class Lines:
    """A file of lines that begin with a key and a colon."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def line(self, key: str) -> str:
        """What stands behind a key; nothing if there is no such line."""
        start = f"{key}: "
        found = (text for text in self._read() if text.startswith(start))
        return next(found, start).removeprefix(start)

    def put(self, key: str, text: str) -> None:
        """Write a line, among those of other processes."""
        self.path.touch()
        with self.path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            lines = {old.partition(":")[0]: old for old in self._read()}
            lines[key] = f"{key}: {text}"
            file.write("".join(f"{lines[name]}\n" for name in sorted(lines)))
            file.truncate()

    def _read(self) -> list[str]:
        return self.path.read_text().splitlines()


def difference(old: str, new: str) -> str:
    """The entries of two lines that are not the same."""
    before, after = (dict(p.rsplit(" ", 1) for p in text.split(", ") if p) for text in (old, new))
    return "\n".join(
        f"  {name}: {before.get(name, 'none')} -> {after.get(name, 'none')}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    )
