"""Short loops that run a known number of times, written out.

A derivative is added up in registers only where control is straight (`linear_forms.py`): so a sum
of five products costs no entries of the tape once its loop is written out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from tawa.cuppl.core.builder import targets
from tawa.cuppl.core.ir import (
    Block,
    Branch,
    Call,
    Const,
    Copy,
    Function,
    Instruction,
    Jump,
    Op,
    Reg,
    Return,
)
from tawa.cuppl.lowering.dataflow import defined, live_at_entry, predecessors
from tawa.cuppl.lowering.invariants import loop_blocks

__all__ = ["unroll_loops"]

MOST_TURNS = 8
"""Loops that run more often stay: a form has no more places than that."""
BLOCKS = ("target", "then", "other", "default")
"""Fields of terminators that name a block."""
MOST_INSTRUCTIONS = 400
"""Of all turns of a loop together."""


def unroll_loops(function: Function) -> None:
    """Write out a function's innermost loops that are short and run a known number of times."""
    for head in list(function.blocks):
        before = predecessors(function)
        place = {name: index for index, name in enumerate(function.blocks)}
        latches = [other for other in before[head] if place[other] >= place[head]]
        inside = loop_blocks(head, latches, before)
        outside = [other for other in before[head] if other not in inside]
        if len(latches) != 1 or len(outside) != 1 or _handles_failures(function, inside):
            continue
        if not _nested(function, head, inside, place):
            turns = _turns(function, head, inside, outside[0], latches[0])
            size = sum(len(function.blocks[name].instructions) for name in inside)
            if turns is not None and turns <= MOST_TURNS and turns * size <= MOST_INSTRUCTIONS:
                _write_out(function, head, inside, turns)


def _nested(function: Function, head: str, inside: set[str], place: dict[str, int]) -> bool:
    """Whether there is another loop in a loop."""
    return any(
        place[target] <= place[name] and target != head
        for name in inside
        for target in targets(function.blocks[name].terminator)
        if target in inside
    )


def _handles_failures(function: Function, inside: set[str]) -> bool:
    """Whether a call in a loop says where to go if it fails."""
    return any(
        isinstance(item, Call) and item.on_fail is not None
        for name in inside
        for item in function.blocks[name].instructions
    )


def _definitions(function: Function, names: Iterable[str], reg: Reg) -> list[Instruction]:
    """What sets a register in some blocks."""
    items = [item for name in names for item in function.blocks[name].instructions]
    return [item for item in items if reg in defined(item)]


def _constant(function: Function, reg: Reg) -> int | None:
    """The number that a register always holds, if that is known."""
    if reg in function.params:
        return None
    match _definitions(function, function.blocks, reg):
        case [Const(_, value)] if isinstance(value, int):
            return int(value)
        case [Copy(_, src)]:
            return _constant(function, src)
        case _:
            return None


def _turns(function: Function, head: str, inside: set[str], ahead: str, latch: str) -> int | None:
    """How often a loop runs that counts from 0 by 1; None if that is not known."""
    first = function.blocks[head]
    end = first.terminator
    if not isinstance(end, Branch) or end.then not in inside or end.other in inside:
        return None
    if len(first.instructions) != 1 or not isinstance(function.blocks[latch].terminator, Jump):
        return None
    match first.instructions[0]:
        case Op(dst, "lti", (count, limit)) if dst == end.condition:
            most = _constant(function, limit)
        case _:
            return None
    starts = [i for i in function.blocks[ahead].instructions if count in defined(i)]
    everywhere = _definitions(function, function.blocks, count)
    again = [i for i in function.blocks[latch].instructions if count in defined(i)]
    if most is None or len(starts) != 1 or len(again) != 1 or len(everywhere) != 2:
        return None
    match starts[0], again[0]:
        case Copy(_, zero), Copy(_, after) if _constant(function, zero) == 0:
            steps = _definitions(function, function.blocks, after)
        case _:
            return None
    if steps != _definitions(function, [latch], after):
        return None
    match steps:
        case [Op(_, "addi", (a, one))] if a == count and _constant(function, one) == 1:
            return max(0, most)
        case _:
            return None


def _write_out(function: Function, head: str, inside: set[str], turns: int) -> None:
    """The blocks of a loop once for each turn; the last one's end goes to the loop's exit."""
    live = live_at_entry(function)
    first = function.blocks[head]
    assert isinstance(first.terminator, Branch)
    after = {
        reg
        for name in inside
        for target in targets(function.blocks[name].terminator)
        if target not in inside
        for reg in live.get(target, ())
    }
    own = {
        reg for name in inside for item in function.blocks[name].instructions
        for reg in defined(item)
    } - live[head] - after  # fmt: skip
    order = [name for name in function.blocks if name in inside and name != head]
    blocks: dict[str, Block] = {}
    for name, block in function.blocks.items():
        if name == head:
            heads = [head, *(f"{head}_turn{turn}" for turn in range(1, turns + 1))]
            for turn, start in enumerate(heads):
                if turn == turns:
                    blocks[start] = Block(start, [], Jump(first.terminator.other))
                    continue
                names = {old: f"{old}_turn{turn}" for old in order} | {head: heads[turn + 1]}
                regs = {reg: Reg(f"{reg.name}_turn{turn}", reg.type) for reg in own}
                blocks[start] = Block(start, [], Jump(names[first.terminator.then]))
                for old in order:
                    blocks[names[old]] = _copy(function.blocks[old], names, regs)
        elif name not in inside:
            blocks[name] = block
    function.blocks = blocks


def _copy(block: Block, names: dict[str, str], regs: dict[Reg, Reg]) -> Block:
    assert block.terminator is not None
    items: list[Instruction] = [_replaced(i, names, regs) for i in block.instructions]
    return Block(names[block.name], items, _replaced(block.terminator, names, regs))


def _replaced(item: Any, names: dict[str, str], regs: dict[Reg, Reg]) -> Any:
    """An instruction or terminator with other registers and blocks."""
    if isinstance(item, Return):
        return Return(tuple(regs.get(v, v) for v in item.values))
    changes: dict[str, Any] = {}
    for each in fields(item):
        value: Any = getattr(item, each.name)
        if isinstance(value, Reg):
            changes[each.name] = regs.get(value, value)
        elif isinstance(value, tuple):
            changes[each.name] = tuple(
                regs.get(v, v) if isinstance(v, Reg) else v for v in value  # pyright: ignore
            )  # fmt: skip
        elif isinstance(value, dict):
            changes[each.name] = {k: names.get(v, v) for k, v in value.items()}  # pyright: ignore
        elif isinstance(value, str) and each.name in BLOCKS:
            changes[each.name] = names.get(value, value)
    return replace(item, **changes)
