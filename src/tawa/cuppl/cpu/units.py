"""A program's code cut into units that are compiled apart: its own functions, and long natives.

Short natives are compiled into whatever calls them. A long native is a unit by itself, whose text
is the same in every program; so is a native that drives an inference method. Their machine code
can be kept.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

from tawa.cuppl.core.ir import Call, Function, Program
from tawa.cuppl.translation.registry import EXTERNAL, NATIVES, OUTLINED

__all__ = ["Unit", "copied_functions", "cut", "worth_copying"]

K = TypeVar("K", bound=Hashable)

LONG = 160
"""Instructions, with those of what is compiled into it, from which a native is a unit."""


FEW = 60
"""Instructions that are worth a copy in each caller."""

MOST_COPIED = 8000
"""Instructions that all copies of one function may be in a unit: what LLVM does with a function
takes more than twice as long for twice the length."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The functions that a unit defines, and those of them that others may call."""

    functions: list[Function]
    public: frozenset[str]
    native: str = ""
    """The native that it is made for; empty for the program's own functions."""


def cut(program: Program, entries: list[str]) -> list[Unit]:
    """The units: the program's own functions first, then natives."""
    cutter = _Cutter(program)
    own = [name for name in program.functions if not _is_native(program, name)]
    shared = frozenset(name for name in own if name in EXTERNAL or name in entries)
    units = [cutter.unit(own, shared)] if own else []
    pending = [name for name in entries if name not in own]
    pending.extend(cutter.called)
    done = set(own)
    while pending:
        name = pending.pop()
        if name not in done:
            done.add(name)
            cutter.called.clear()
            units.append(cutter.unit([name], frozenset((name,)), name))
            pending.extend(sorted(cutter.called))
    return units


def _is_native(program: Program, name: str) -> bool:
    return name in NATIVES and name not in EXTERNAL and name in program.functions


class _Cutter:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.sizes: dict[str, int] = {}
        self.called: set[str] = set()
        """Functions that the units so far call but do not define."""

    def unit(self, roots: list[str], public: frozenset[str], native: str = "") -> Unit:
        """The unit of some functions that belong together."""
        functions = self.program.functions
        found = dict.fromkeys(roots)
        pending = list(roots)
        while pending:
            for callee in sorted(functions[pending.pop()].callees()):
                if callee in found:
                    continue
                if self.apart(callee, roots[0]):
                    self.called.add(callee)
                else:
                    found[callee] = None
                    pending.append(callee)
        return Unit([f for name, f in functions.items() if name in found], public, native)

    def apart(self, name: str, root: str) -> bool:
        """Whether a function is not compiled into the unit of `root`."""
        if not _is_native(self.program, name):
            return True
        if _is_native(self.program, root) and _home(name) == _home(root):
            return False
        return self.is_long(name)

    def is_long(self, name: str) -> bool:
        """Whether a native is a unit of its own."""
        return name in OUTLINED or self.size(name) > LONG

    def size(self, name: str) -> int:
        """Instructions of a native and of the short ones that it calls."""
        if name not in self.sizes:
            self.sizes[name] = 0  # of a recursive call
            function = self.program.functions[name]
            own = sum(len(b.instructions) + 1 for b in function.blocks.values())
            callees = [c for c in function.callees() if _is_native(self.program, c)]
            self.sizes[name] = own + sum(self.size(c) for c in callees if not self.is_long(c))
        return self.sizes[name]


def _home(name: str) -> str:
    return NATIVES[name].__module__


def copied_functions(part: Program) -> set[str]:
    """Functions to compile into their callers: those asked for, and short ones."""
    sizes = {name: f.size() + len(f.blocks) for name, f in part.functions.items()}
    calls = {
        name: [
            item.function
            for block in function.blocks.values()
            for item in block.instructions
            if isinstance(item, Call)
        ]
        for name, function in part.functions.items()
    }
    asked = {name for name, function in part.functions.items() if function.inline}
    kept = {name for name, function in part.functions.items() if function.outlined}
    return worth_copying(sizes, calls, asked, kept)


def worth_copying(
    sizes: Mapping[K, int],
    calls: Mapping[K, Sequence[K]],
    asked: Set[K] = frozenset(),
    kept: Set[K] = frozenset(),
) -> set[K]:
    """Which functions have a copy in each caller: those `asked` for, and short ones not `kept`.

    `sizes` are their own instructions, `calls` what each calls, once for each call. A function
    counts with what is copied into it, so that chains of calls don't grow without bound.
    """
    times = Counter(callee for callees in calls.values() for callee in callees)
    whole: dict[K, float] = {}

    def size(name: K) -> float:
        if name not in whole:
            whole[name] = math.inf  # of a recursive call
            own = sizes[name]
            if own < FEW:
                whole[name] = own + sum(size(c) for c in calls[name] if c in sizes)
        return whole[name]

    return {
        name
        for name in sizes
        if (name in asked or (name not in kept and size(name) < FEW))
        and times[name] * min(size(name), LONG) <= MOST_COPIED
    }
