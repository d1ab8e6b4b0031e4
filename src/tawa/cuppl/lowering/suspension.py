"""Which functions may suspend, and which call themselves."""

from __future__ import annotations

from dataclasses import replace

from tawa.cuppl.core.ir import Call, Factor, Program, Reset, Resume, Shift

__all__ = ["choose_variants", "recursive_functions", "suspending_functions"]


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
    changed = True
    while changed:
        changed = False
        for function in program.functions.values():
            if function.name not in found and _calls(function.callees(), found):
                found.add(function.name)
                changed = True
    return found


def _calls(callees: set[str], found: set[str]) -> bool:
    return bool(callees & found)


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
