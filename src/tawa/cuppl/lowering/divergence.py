"""Which values differ between particles that run side by side, and what control depends on them.

A *lane* is one of some particles that go through a function together. A register is *varying* if
lanes may hold different values in it. A branch on a varying value starts a *region*: the blocks
from there to where all ways meet again. Lanes can't part, so a region's blocks all run, in an order
in which each comes after those that lead to it, every one for the lanes that go there. All other
control is the same for all lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..builder import targets
from ..ir import (
    Alloc,
    Branch,
    Call,
    Const,
    Copy,
    Fail,
    Function,
    Get,
    Instruction,
    Load,
    Op,
    Reg,
    Return,
    Set,
    Store,
    Switch,
    Table,
)
from .dataflow import defined, used, used_by_terminator

__all__ = ["Divergence", "Region", "Unsuitable", "analyse", "varies"]

VARYING_FIELDS = frozenset(("weight", "spare", "particle"))
SHARED_FIELDS = frozenset(("draw", "key0", "key1", "step", "stream", "fuel", "inputs"))
Flags = tuple[bool, ...]


class Unsuitable(Exception):
    """The function does something that lanes can't do together."""


@dataclass(slots=True)
class Region:
    """What a varying branch starts: its blocks in order, and where lanes meet (None: the end)."""

    blocks: list[str]
    join: str | None


@dataclass(slots=True)
class Divergence:
    """What was found out about a function, for given parameters that vary."""

    varying: set[Reg]
    results: Flags = ()
    regions: dict[str, Region] = field(default_factory=dict[str, Region])
    """By the block that ends in the branch; only those that no other region contains."""


def varies(found: Divergence, regs: tuple[Reg, ...]) -> Flags:
    """Which of some registers vary."""
    return tuple(reg in found.varying for reg in regs)


def analyse(
    function: Function, given: Flags, partial: bool, results: Callable[[Call, Flags, bool], Flags]
) -> Divergence:
    """Find what varies; `results` says it of a call's results.

    `partial`: not all lanes may have come here. Raises Unsuitable.
    """
    found = Divergence({p for p, flag in zip(function.params, given, strict=True) if flag})
    graph = _Graph(function)
    size = -1
    while len(found.varying) + len(found.regions) != size:
        size = len(found.varying) + len(found.regions)
        _spread(function, found, partial, results)
        found.regions = graph.regions(found.varying)
    inside = _inside(found)
    for block in function.blocks.values():
        for item in block.instructions:
            _check(item, found, partial or block.name in inside)
    returned = [
        tuple(v in found.varying or block.name in inside for v in block.terminator.values)
        for block in function.blocks.values()
        if isinstance(block.terminator, Return)
    ]
    flags = zip(*returned, strict=True) if returned else ((True,) for _ in function.results)
    found.results = tuple(any(of_one) for of_one in flags)
    return found


def _inside(found: Divergence) -> set[str]:
    return {name for region in found.regions.values() for name in region.blocks}


def _spread(
    function: Function,
    found: Divergence,
    partial: bool,
    results: Callable[[Call, Flags, bool], Flags],
) -> None:
    """Mark what instructions make of varying values."""
    varying, inside = found.varying, _inside(found)
    for block in function.blocks.values():
        for item in block.instructions:
            if block.name in inside:
                varying.update(defined(item))
            if isinstance(item, Call):
                flags = results(item, varies(found, item.args), partial or block.name in inside)
                varying.update(d for d, flag in zip(item.dsts, flags, strict=True) if flag)
            elif (isinstance(item, Get) and item.field in VARYING_FIELDS) or any(
                r in varying for r in used(item)
            ):
                varying.update(defined(item))


def _check(item: Instruction, found: Divergence, divergent: bool) -> None:
    """Raise Unsuitable for what only all lanes together, or only one alone, could do."""
    match item:
        case Const() | Copy() | Op() | Load() | Table():
            return
        case Call(on_fail=None):
            return
        case Get(field=name) if name in VARYING_FIELDS | SHARED_FIELDS:
            return
        case Set(field="fuel", src=src) if src not in found.varying:
            return
        case Set(field="draw", src=src) if not divergent and src not in found.varying:
            return
        case Set(field="weight"):
            return
        case Set(field="spare") if not divergent:
            return
        case Store() | Alloc() if not divergent and not any(r in found.varying for r in used(item)):
            return
        case _:
            raise Unsuitable(type(item).__name__)


class _Graph:
    """Which blocks lead where."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.next = {n: targets(b.terminator) for n, b in function.blocks.items()}
        self.after = self._after()

    def _after(self) -> dict[str, frozenset[str]]:
        """The blocks through which each way out leads; a failure is no way out."""
        everything = frozenset(self.next)
        after = dict.fromkeys(self.next, everything)
        changed = True
        while changed:
            changed = False
            for name in reversed(list(self.next)):
                terminator = self.function.blocks[name].terminator
                if isinstance(terminator, Fail):
                    continue
                ways = [after[t] for t in self.next[name]]
                common = frozenset[str]().union(ways[0]).intersection(*ways) if ways else set[str]()
                new = frozenset((name, *common))
                if new != after[name]:
                    after[name] = new
                    changed = True
        return after

    def join(self, name: str) -> str | None:
        """The first block at which all ways from a block meet again."""
        ways = [self.after[t] for t in self.next[name]]
        common = ways[0].intersection(*ways) - {name}
        for one in common:
            if all(other == one or other in self.after[one] for other in common):
                return one
        return None

    def regions(self, varying: set[Reg]) -> dict[str, Region]:
        """The regions of the branches that vary, without those inside of others."""
        starts = [
            name
            for name, block in self.function.blocks.items()
            if isinstance(block.terminator, Branch | Switch)
            and used_by_terminator(block.terminator)[0] in varying
        ]
        found = {name: self.region(name) for name in starts}
        inner = {b for region in found.values() for b in region.blocks}
        return {name: region for name, region in found.items() if name not in inner}

    def region(self, start: str) -> Region:
        """The blocks from a branch to its join. Raises Unsuitable if there is a loop."""
        join = self.join(start)
        order: list[str] = []
        open_: set[str] = {start}

        def visit(name: str) -> None:
            if name == join or name in order:
                return
            if name in open_:
                raise Unsuitable("a loop that some lanes leave sooner than others")
            open_.add(name)
            for target in self.next[name]:
                visit(target)
            open_.discard(name)
            order.append(name)

        for target in self.next[start]:
            visit(target)
        return Region(order[::-1], join)
