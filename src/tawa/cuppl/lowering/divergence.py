"""Which values differ between particles that run side by side, and what control depends on them.

A *lane* is one of some particles that go through a function together. A register is *varying* if
lanes may hold different values in it. A branch on a varying value starts a *region*: the blocks
from there to where all ways meet again. Lanes can't part, so a region's blocks all run, in an order
in which each comes after those that lead to it, every one for the lanes that go there; and again,
as long as lanes go back. All other control is the same for all lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tawa.cuppl.core.builder import targets
from tawa.cuppl.core.ir import (
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
from tawa.cuppl.lowering.dataflow import defined, used, used_by_terminator
from tawa.cuppl.lowering.tail import LOOP_HEAD

__all__ = ["APART", "TOGETHER", "Divergence", "Region", "Unsuitable", "analyse", "varies"]

TOGETHER = frozenset(("weight", "spare", "particle"))
"""Fields of the context that vary where all lanes draw at the same time."""
APART = frozenset(("weight", "draw", "particle"))
"""Those that vary where some lanes may draw while others don't."""
SHARED_FIELDS = frozenset(("draw", "key0", "key1", "step", "stream", "fuel", "inputs"))
Flags = tuple[bool, ...]


class Unsuitable(Exception):
    """The function does something that lanes can't do together."""


@dataclass(slots=True)
class Region:
    """What a varying branch starts: its blocks in order, and where lanes meet (None: the end)."""

    blocks: list[str]
    join: str | None
    loops: bool
    """Whether lanes may come to a block again."""


@dataclass(slots=True)
class Divergence:
    """What was found out about a function, for given parameters that vary."""

    varying: set[Reg]
    fields: frozenset[str]
    """The fields of the context that vary."""
    stacks: Reg | None = None
    """The address at which the words of all lanes' stacks lie side by side."""
    results: Flags = ()
    regions: dict[str, Region] = field(default_factory=dict[str, Region])
    """By the block that ends in the branch; only those that lanes come to together."""
    together: list[str] = field(default_factory=list[str])
    """The blocks that all lanes come to together; they may be in regions too."""


def varies(found: Divergence, regs: tuple[Reg, ...]) -> Flags:
    """Which of some registers vary."""
    return tuple(reg in found.varying for reg in regs)


def analyse(
    function: Function,
    given: Flags,
    partial: bool,
    fields: frozenset[str],
    results: Callable[[Call, Flags, bool], Flags],
    stacks: Reg | None = None,
) -> Divergence:
    """Find what varies, besides some fields of the context; `results` says it of a call's results.

    `partial`: not all lanes may have come here. What is loaded from `stacks` varies only if what is
    stored from the same register does; a lane in which it differs all the same is to be lost.
    Raises Unsuitable.
    """
    varying = {p for p, flag in zip(function.params, given, strict=True) if flag}
    found = Divergence(varying, fields, stacks)
    graph = _Graph(function)
    size = -1
    while len(found.varying) + len(found.regions) != size:
        size = len(found.varying) + len(found.regions)
        _spread(function, found, partial, results)
        found.together, found.regions = graph.regions(found.varying)
    inside = _inside(found)
    for block in function.blocks.values():
        for item in block.instructions:
            _check(item, found, partial or block.name in inside, block.name == LOOP_HEAD)
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
            elif (isinstance(item, Get) and item.field in found.fields) or any(
                r in varying for r in used(item)
            ):
                varying.update(defined(item))


def _check(item: Instruction, found: Divergence, divergent: bool, head: bool) -> None:
    """Raise Unsuitable for what only all lanes together, or only one alone, could do.

    `head`: at the start of a loop that was a tail call. Lanes that leave such loops one by one gain
    nothing on average.
    """
    if isinstance(item, Load | Store) and item.base == found.stacks:
        _check_stack(item, found, divergent)
        return
    match item:
        case Const() | Copy() | Op() | Load() | Table():
            return
        case Call(on_fail=None):
            return
        case Get(field=name) if name in found.fields | SHARED_FIELDS:
            return
        case Set(field="fuel", src=src) if src not in found.varying or not head:
            return
        case Set(field="draw", src=src) if not divergent and src not in found.varying:
            return
        case Set(field="weight" | "draw" | "spare" as name) if name in found.fields:
            return
        case Store() | Alloc() if not divergent and not any(r in found.varying for r in used(item)):
            return
        case _:
            raise Unsuitable(type(item).__name__)


def _check_stack(item: Load | Store, found: Divergence, divergent: bool) -> None:
    """Lanes can't part where they store to their stacks, which are equally high."""
    if item.index in found.varying or (divergent and isinstance(item, Store)):
        raise Unsuitable("stacks of several heights")


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

    def regions(self, varying: set[Reg]) -> tuple[list[str], dict[str, Region]]:
        """The blocks that all lanes come to together, and the regions that start there."""
        together, found = [next(iter(self.next))], dict[str, Region]()
        for name in together:  # which grows meanwhile
            terminator = self.function.blocks[name].terminator
            following = self.next[name]
            if isinstance(terminator, Branch | Switch):
                if used_by_terminator(terminator)[0] in varying:
                    region = found[name] = self.region(name)
                    following = () if region.join is None else (region.join,)
            together += [n for n in dict.fromkeys(following) if n not in together]
        return together, found

    def region(self, start: str) -> Region:
        """The blocks from a branch to its join."""
        join = self.join(start)
        done: list[str] = []
        seen: set[str] = set()
        path = [(name, False) for name in self.next[start]]
        while path:
            name, leaving = path.pop()
            if leaving:
                done.append(name)
            elif name != join and name not in seen:
                seen.add(name)
                path.append((name, True))
                path.extend((n, False) for n in self.next[name])
        blocks = done[::-1]
        place = {name: index for index, name in enumerate(blocks)}
        loops = any(place.get(t, len(blocks)) <= place[n] for n in blocks for t in self.next[n])
        return Region(blocks, join, loops)
