"""Loops over data whose turns only add to the weight and to adjoints: lanes may share them.

A turn may compute what it likes, read memory, and fail. It has effects of three kinds: a term is
added to the weight, a partial derivative to an adjoint, and fuel is used. So each lane runs a turn
of its own, and then the terms are added up in the order of the turns (`lanes.cuh`): the sums have
the bits of the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tawa.cuppl.core.builder import targets
from tawa.cuppl.core.ir import (
    Alloc,
    AtomicAdd,
    Block,
    Branch,
    Call,
    Const,
    Copy,
    Draw,
    Factor,
    Function,
    Get,
    Instruction,
    Load,
    Op,
    Pause,
    Program,
    Reg,
    Reset,
    Resume,
    Set,
    Shift,
    Store,
    Wake,
)
from tawa.cuppl.lowering.dataflow import defined, live_at_entry, predecessors, used
from tawa.cuppl.lowering.invariants import loop_blocks

__all__ = ["MOST_SLOTS", "Gathered", "gathered_loops", "touches_memory", "with_fills"]

MOST_SLOTS = 32
"""Terms and partial derivatives of a turn: each is added up by a lane."""
WEIGH = "tape_weigh"
EFFECTS = (AtomicAdd, Alloc, Draw, Factor, Pause, Reset, Resume, Shift, Store, Wake)


@dataclass(frozen=True, slots=True)
class Gathered:
    """A loop that lanes may share."""

    head: str
    first: str
    """The block that a turn begins with."""
    blocks: tuple[str, ...]
    """Those of a turn, in the order of the function."""
    counter: Reg
    limit: Reg
    given: tuple[Reg, ...]
    """What turns read that is set before the loop, but for the counter."""
    weights: tuple[tuple[str, int], ...]
    """Blocks and positions of the instructions that set the weight, in order."""
    partials: tuple[tuple[str, int], ...]
    """The same of those that add to an adjoint."""

    @property
    def slots(self) -> dict[tuple[str, int], int]:
        """The slot of each term and each partial derivative."""
        return {site: slot for slot, site in enumerate((*self.weights, *self.partials))}


def gathered_loops(function: Function, program: Program) -> dict[str, Gathered]:
    """The loops of a function that lanes may share, by their heads."""
    live = live_at_entry(function)
    found = {h: _gathered(function, program, h, inside, live) for h, inside in _loops(function)}
    return {head: loop for head, loop in found.items() if loop is not None}


def with_fills(function: Function, program: Program) -> Function:
    """The function, where loops that only fill a vector that it has made count as `apart`."""
    live = live_at_entry(function)
    heads = [h for h, inside in _loops(function) if _fills(function, program, h, inside, live)]
    return replace(function, apart=tuple(dict.fromkeys((*function.apart, *heads))))


def _loops(function: Function) -> Iterator[tuple[str, set[str]]]:
    """Loops that are entered at one place and go back from one: their heads and blocks."""
    before = predecessors(function)
    order = {name: index for index, name in enumerate(function.blocks)}
    for head in function.blocks:
        latches = [other for other in before[head] if order[other] >= order[head]]
        inside = loop_blocks(head, latches, before)
        if len(latches) == 1 and inside:
            yield head, inside


def _fills(
    function: Function, program: Program, head: str, inside: set[str], live: dict[str, set[Reg]]
) -> bool:
    blocks = [b for n, b in function.blocks.items() if n in inside and n != head]
    counted = _counter(function, function.blocks[head], blocks)
    if counted is None or any(t not in inside for b in blocks for t in targets(b.terminator)):
        return False
    counter, limit, _ = counted
    items = [item for b in blocks for item in b.instructions]
    written = {reg for item in items for reg in defined(item)}
    places = {counter, *(i.dst for i in items if isinstance(i, Copy) and i.src == counter)}
    places -= {reg for reg in places - {counter} if sum(reg in defined(i) for i in items) > 1}
    everywhere = [i for b in function.blocks.values() for i in b.instructions]
    fresh = {item.dst for item in everywhere if isinstance(item, Alloc)}
    stores = [item for item in items if isinstance(item, Store)]
    filled = {item.base for item in stores}
    (after,) = set(targets(function.blocks[head].terminator)) - inside
    return (
        len(filled) == 1
        and filled <= fresh - written
        and _defined_once(function, *filled)
        and not _escapes(function, head, inside, _derived(function, *filled))
        and len({item.offset for item in stores}) == 1
        and all(item.index in places for item in stores)
        and not (live[head] & written) - {counter}
        and limit not in written
        and counter not in live[after]
        and all(isinstance(item, Store) or _computes(item, program) for item in items)
    )


def _derived(function: Function, reg: Reg) -> set[Reg]:
    """A register, and those that are computed of it."""
    found, before = {reg}, 0
    while len(found) > before:
        before = len(found)
        for block in function.blocks.values():
            for item in block.instructions:
                if isinstance(item, Copy | Op) and found & {*used(item)}:
                    found.update(defined(item))
    return found


def _escapes(function: Function, head: str, inside: set[str], fresh: set[Reg]) -> bool:
    """Whether anything but a store may get at a fresh object before a loop has ended."""
    order = {name: index for index, name in enumerate(function.blocks)}
    return any(
        item.src in fresh if isinstance(item, Store) else fresh & {*used(item)}
        for name, block in function.blocks.items()
        if name in inside or order[name] < order[head]
        for item in block.instructions
        if not isinstance(item, Copy | Op)
    )


def _defined_once(function: Function, reg: Reg) -> bool:
    items = [item for block in function.blocks.values() for item in block.instructions]
    return reg not in function.params and sum(reg in defined(item) for item in items) == 1


def _computes(item: Instruction, program: Program) -> bool:
    """Whether an instruction changes nothing and can't fail."""
    match item:
        case Set():
            return False
        case Call(_, name, _, on_fail):
            return on_fail is None and _only_computes(program.functions[name], program)
        case _:
            return not isinstance(item, EFFECTS)


def _gathered(
    function: Function, program: Program, head: str, inside: set[str], live: dict[str, set[Reg]]
) -> Gathered | None:
    blocks = [b for n, b in function.blocks.items() if n in inside and n != head]
    counted = _counter(function, function.blocks[head], blocks)
    items = [item for b in blocks for item in b.instructions]
    if counted is None or not all(_allowed(item, program) for item in items):
        return None
    counter, limit, first = counted
    written = {reg for item in items for reg in defined(item)}
    if limit in written or (live[head] & written) - {counter}:
        return None
    weights = [(b.name, k) for b in blocks for k, i in enumerate(b.instructions) if _weighs(i)]
    partials = [(b.name, k) for b in blocks for k, i in enumerate(b.instructions) if _adds(i)]
    again = _repeated(blocks)
    if not weights or len(weights) + len(partials) > MOST_SLOTS:
        return None
    if any(name in again for name, _ in (*weights, *partials)) or not _terms(blocks):
        return None
    names = tuple(b.name for b in blocks)
    given = sorted((live[first] - {counter}), key=lambda reg: reg.name)
    return Gathered(
        head, first, names, counter, limit, tuple(given), tuple(weights), tuple(partials)
    )


def _counter(function: Function, head: Block, blocks: list[Block]) -> tuple[Reg, Reg, str] | None:
    """The counter of a loop from somewhere to a limit by 1, the limit, and the first block."""
    match head.instructions, head.terminator:
        case [Op(test, "lti", (counter, limit))], Branch(condition, then, _) if condition == test:
            pass
        case _:
            return None
    items = [item for block in blocks for item in block.instructions]
    steps = [item for item in items if counter in defined(item)]
    if then not in {b.name for b in blocks} or len(steps) != 1:
        return None
    match steps[0]:
        case Copy(_, after):
            added = [item for item in items if after in defined(item)]
        case _:
            return None
    match added:
        case [Op(_, "addi", (old, step))]:
            known = old == counter and _is_one(step, function)
            return (counter, limit, then) if known and _ends(blocks, steps[0], head) else None
        case _:
            return None


def _is_one(reg: Reg, function: Function) -> bool:
    items = [item for block in function.blocks.values() for item in block.instructions]
    return [item for item in items if reg in defined(item)] == [Const(reg, 1)]


def _ends(blocks: list[Block], step: Instruction, head: Block) -> bool:
    """Whether the last thing that a turn does is to count."""
    last = [b for b in blocks if head.name in targets(b.terminator)]
    return len(last) == 1 and last[0].instructions[-1:] == [step]


def _allowed(item: Instruction, program: Program) -> bool:
    match item:
        case Get(_, field):
            return field not in ("draw", "status", "site")
        case Set(field, _):
            return field in ("weight", "fuel")
        case Call(_, name, _, on_fail):
            callee = program.functions[name]
            return name == WEIGH or (on_fail is None and _only_computes(callee, program))
        case _:
            return not isinstance(item, EFFECTS)


def _only_computes(function: Function, program: Program) -> bool:
    """Whether a function changes nothing and can't fail."""
    items = _items(function, program, set())
    return not function.may_fail and not any(isinstance(item, (*EFFECTS, Set)) for item in items)


def _items(function: Function, program: Program, seen: set[str]) -> Iterator[Instruction]:
    """The instructions of a function, and of all that it calls."""
    seen.add(function.name)
    for block in function.blocks.values():
        for item in block.instructions:
            yield item
            if isinstance(item, Call) and item.function not in seen:
                yield from _items(program.functions[item.function], program, seen)


def touches_memory(function: Function, program: Program) -> bool:
    """Whether a function reads or writes memory."""
    kinds = (AtomicAdd, Load, Store)
    return any(isinstance(item, kinds) for item in _items(function, program, set()))


def _weighs(item: Instruction) -> bool:
    return isinstance(item, Set) and item.field == "weight"


def _adds(item: Instruction) -> bool:
    return isinstance(item, Call) and item.function == WEIGH


def _terms(blocks: list[Block]) -> bool:
    """Whether all new weights are the old one and a term."""
    return all(
        _is_term(block.instructions, place, item)
        for block in blocks
        for place, item in enumerate(block.instructions)
        if isinstance(item, Set) and item.field == "weight"
    )


def _is_term(items: list[Instruction], place: int, item: Set) -> bool:
    sums = [one for one in items[:place] if item.src in defined(one)]
    match sums:
        case [Op(_, "addf", (old, term))] if old != term:
            got = [one for one in items[:place] if old in defined(one)]
            uses = [one for one in items if old in used(one)]
            return len(uses) == 1 and len(got) == 1 and got == [Get(old, "weight")]
        case _:
            return False


def _repeated(blocks: list[Block]) -> set[str]:
    """The blocks of a turn that it may run more than once."""
    follow = {b.name: list(targets(b.terminator)) for b in blocks}
    found: set[str] = set()
    for name in follow:
        pending, seen = [name], set[str]()
        while pending:
            for target in follow.get(pending.pop(), ()):
                if target == name:
                    found.add(name)
                elif target in follow and target not in seen:
                    seen.add(target)
                    pending.append(target)
    return found
