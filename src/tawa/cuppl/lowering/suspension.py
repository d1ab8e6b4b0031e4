"""Which functions may suspend, and which call themselves."""

from __future__ import annotations

from dataclasses import replace

from tawa.cuppl.core.ir import Alloc, Call, Factor, Fail, Program, Reset, Resume, Set, Shift
from tawa.cuppl.typing.failures import STACK_FULL

__all__ = [
    "choose_variants",
    "recursive_functions",
    "suspending_functions",
    "waiting_functions",
    "weighing_functions",
]


def suspending_functions(program: Program, more: set[str]) -> set[str]:
    """Functions that contain a point of suspension or are in `more`, or call one that is.

    Bodies of `reset` and handlers of `shift` are too: when they are entered, the stack has changed
    already, so a failure inside (a full heap) must leave a particle that can go on from there.
    """
    found: set[str] = set(more)
    for function in program.functions.values():
        for block in function.blocks.values():
            for item in block.instructions:
                if isinstance(item, Factor | Reset | Resume | Shift):
                    found.add(function.name)
                if isinstance(item, Reset | Shift):
                    found.add(item.function)
    return _callers_too(program, found)


def waiting_functions(program: Program) -> set[str]:
    """Functions that may run out of heap or native stack, so that a particle has to wait in them.

    All other failures are the end of a run.
    """
    found = {
        function.name
        for function in program.functions.values()
        for block in function.blocks.values()
        if any(isinstance(item, Alloc) for item in block.instructions)
        or (isinstance(block.terminator, Fail) and block.terminator.code <= STACK_FULL)
    }
    return _callers_too(program, found)


def weighing_functions(program: Program) -> set[str]:
    """Functions that may change the weight: one that is run again has to find the old one."""
    found = {
        function.name
        for function in program.functions.values()
        for block in function.blocks.values()
        if any(isinstance(item, Set) and item.field == "weight" for item in block.instructions)
    }
    return _callers_too(program, found)


def _callers_too(program: Program, found: set[str]) -> set[str]:
    callees = {name: function.callees() for name, function in program.functions.items()}
    changed = True
    while changed:
        more = {name for name, called in callees.items() if name not in found and called & found}
        found |= more
        changed = bool(more)
    return found


def choose_variants(program: Program, suspending: set[str]) -> None:
    """Settle the calls that have a variant for callees that may suspend."""
    for function in program.functions.values():
        for block in function.blocks.values():
            for index, item in enumerate(block.instructions):
                if isinstance(item, Call) and item.suspending is not None:
                    name = item.suspending if item.function in suspending else item.function
                    block.instructions[index] = replace(item, function=name, suspending=None)


def recursive_functions(program: Program) -> set[str]:
    """Functions that may call themselves, directly or not."""
    reached = {name: set(f.callees()) for name, f in program.functions.items()}
    changed = True
    while changed:
        changed = False
        for callees in reached.values():
            further: set[str] = set()
            for name in callees:
                further |= reached.get(name, set())
            if not further <= callees:
                callees |= further
                changed = True
    return {name for name, callees in reached.items() if name in callees}
