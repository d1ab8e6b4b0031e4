"""What a loop computes anew each time though it is always the same: moved before the loop.

Only what has no effect is moved: operations, copies, constants, and calls of functions that touch
neither memory nor the context. A register that is set in one place alone has one value; if all
that it is computed from is set outside of the loop, so can it be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tawa.cuppl.core.builder import targets
from tawa.cuppl.core.ir import (
    Block,
    Call,
    Const,
    Copy,
    Function,
    Instruction,
    Jump,
    Op,
    Reg,
    Return,
    Table,
)
from tawa.cuppl.lowering.dataflow import defined, predecessors, used

__all__ = ["hoist_invariants", "is_pure", "loop_blocks"]

STOPS = ("divi", "modi")
"""Operations that stop the processor where an operand is 0."""


def hoist_invariants(function: Function, source: Callable[[str], Function]) -> None:
    """Move what each loop need not compute again before it, from the innermost loop outwards."""
    before = predecessors(function)
    times = Counter(
        reg
        for block in function.blocks.values()
        for item in block.instructions
        for reg in defined(item)
    )
    times.update(function.params)
    place = {name: index for index, name in enumerate(function.blocks)}
    for name in reversed(function.blocks):
        latches = [other for other in before[name] if place[other] >= place[name]]
        loop = loop_blocks(name, latches, before)
        outside = [other for other in before[name] if other not in loop]
        if loop and len(outside) == 1:
            ahead = function.blocks[outside[0]]
            if isinstance(ahead.terminator, Jump):
                _hoist([b for n, b in function.blocks.items() if n in loop], ahead, times, source)


def loop_blocks(head: str, latches: list[str], before: dict[str, list[str]]) -> set[str]:
    """The blocks from a head to those that go back to it; none if it is entered elsewhere too."""
    inside, order = {head, *latches}, [name for name in latches if name != head]
    while order:
        more = [name for name in before[order.pop()] if name not in inside]
        inside.update(more)
        order.extend(more)
    entered = any(p not in inside for name in inside - {head} for p in before[name])
    return set() if entered or not latches else inside


def _hoist(
    blocks: list[Block], ahead: Block, times: Counter[Reg], source: Callable[[str], Function]
) -> None:
    inside = {reg for block in blocks for item in block.instructions for reg in defined(item)}
    moved = True
    while moved:
        moved = False
        for block in blocks:
            kept: list[Instruction] = []
            for item in block.instructions:
                if (
                    all(times[reg] == 1 for reg in defined(item))
                    and not any(reg in inside for reg in used(item))
                    and _moves(item, source)
                ):
                    ahead.instructions.append(item)
                    inside.difference_update(defined(item))
                    moved = True
                else:
                    kept.append(item)
            block.instructions[:] = kept


def _moves(item: Instruction, source: Callable[[str], Function]) -> bool:
    match item:
        case Op(name=name):
            return name not in STOPS
        case Const() | Copy() | Table():
            return True
        case Call(dsts=(_, *_), function=name, on_fail=None):
            return is_pure(source(name), source)
        case _:
            return False


def is_pure(function: Function, source: Callable[[str], Function]) -> bool:
    """Whether a function only computes: it always ends, and touches nothing."""
    for block in function.blocks.values():
        if not isinstance(block.terminator, Return) and any(
            target not in function.blocks for target in targets(block.terminator)
        ):
            return False
    return _forward(function) and all(
        _moves(item, source) for block in function.blocks.values() for item in block.instructions
    )


def _forward(function: Function) -> bool:
    """Whether control goes forward alone, to a return."""
    place = {name: index for index, name in enumerate(function.blocks)}
    return all(
        all(place[t] > place[name] for t in targets(block.terminator))
        and (targets(block.terminator) or isinstance(block.terminator, Return))
        for name, block in function.blocks.items()
    )
