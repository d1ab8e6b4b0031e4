"""Tail calls: found, and turned into loops where a function calls itself."""

from __future__ import annotations

from tawa.cuppl.core.builder import targets
from tawa.cuppl.core.ir import Block, Call, Copy, Function, Instruction, Jump, Reg, Return

__all__ = ["LOOP_HEAD", "expose_tail_calls", "is_tail_call", "loop_self_calls"]


LOOP_HEAD = "again"
"""The block at which a function that calls itself last goes on."""


def expose_tail_calls(function: Function) -> None:
    """Give every block that only goes on to return its own copy of the return."""
    changed = True
    while changed:
        changed = False
        for block in function.blocks.values():
            if not isinstance(block.terminator, Jump):
                continue
            target = function.blocks[block.terminator.target]
            short = all(isinstance(i, Copy) for i in target.instructions)
            if short and isinstance(target.terminator, Return):
                block.instructions = [*block.instructions, *target.instructions]
                block.terminator = Return(target.terminator.values)
                changed = True
    for block in function.blocks.values():
        _forward(block)
    _drop_unreachable(function)


def _forward(block: Block) -> None:
    """Return the source of a copy that is only made to be returned."""
    if not isinstance(block.terminator, Return):
        return
    values = list(block.terminator.values)
    items = list(block.instructions)
    while items and isinstance(items[-1], Copy):
        last = items[-1]
        if last.dst.type is not last.src.type:
            break
        values = [last.src if v == last.dst else v for v in values]
        items.pop()
    if len(items) < len(block.instructions):
        block.instructions = items
        block.terminator = Return(tuple(values))


def _drop_unreachable(function: Function) -> None:
    reached: set[str] = set()
    stack = [next(iter(function.blocks))]
    while stack:
        name = stack.pop()
        if name not in reached:
            reached.add(name)
            stack.extend(targets(function.blocks[name].terminator))
    function.blocks = {n: b for n, b in function.blocks.items() if n in reached}


def is_tail_call(block: Block, index: int) -> bool:
    """Whether the instruction is a call whose results are returned at once."""
    item = block.instructions[index]
    last = index == len(block.instructions) - 1
    return (
        isinstance(item, Call)
        and last
        and isinstance(block.terminator, Return)
        and block.terminator.values == item.dsts
    )


def loop_self_calls(function: Function) -> bool:
    """Replace tail calls of a function to itself by jumps to a loop head; say if there were any.

    The head is the block `LOOP_HEAD`.
    """
    found = False
    entry = next(iter(function.blocks))
    count = 0
    for block in list(function.blocks.values()):
        index = len(block.instructions) - 1
        if index < 0 or not is_tail_call(block, index):
            continue
        call = block.instructions[index]
        assert isinstance(call, Call)
        if call.function != function.name:
            continue
        pairs = [(p, a) for p, a in zip(function.params, call.args, strict=True) if p != a]
        held = [Reg(f"again{count}_{k}", p.type) for k, (p, _) in enumerate(pairs)]
        count += 1
        moves: list[Instruction] = [Copy(h, a) for h, (_, a) in zip(held, pairs, strict=True)]
        moves += [Copy(p, h) for h, (p, _) in zip(held, pairs, strict=True)]
        block.instructions[index:] = moves
        block.terminator = Jump(LOOP_HEAD)
        found = True
    if found:
        first = Block("start", [], Jump(LOOP_HEAD))
        head = Block(LOOP_HEAD, [], Jump(entry))
        function.blocks = {"start": first, LOOP_HEAD: head, **function.blocks}
    return found
