"""Which functions may suspend, and which call themselves."""

from __future__ import annotations

from ..ir import Call, Factor, Program, Reset, Resume, Shift

__all__ = ["choose_variants", "recursive_functions", "suspending_functions"]


def suspending_functions(program: Program, more: set[str]) -> set[str]:
    """Functions that contain a point of suspension or are in `more`, or call one that is."""
    found: set[str] = set(more)
    for function in program.functions.values():
        for block in function.blocks.values():
            if any(isinstance(i, Factor | Reset | Resume | Shift) for i in block.instructions):
                found.add(function.name)
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
            for item in block.instructions:
                if isinstance(item, Call) and item.suspending is not None:
                    if item.function in suspending:
                        item.function = item.suspending
                    item.suspending = None


def recursive_functions(program: Program) -> set[str]:
    """Functions that may call themselves, directly or not (Tarjan's components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: set[str] = set()

    def close(name: str) -> None:
        component: list[str] = []
        while True:
            member = stack.pop()
            component.append(member)
            if member == name:
                break
        if len(component) > 1 or name in program.functions[name].callees():
            found.update(component)

    def visit(root: str) -> None:
        work = [(root, iter(sorted(program.functions[root].callees())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            name, rest = work[-1]
            for callee in rest:
                if callee not in program.functions:
                    continue
                if callee not in index:
                    index[callee] = low[callee] = len(index)
                    stack.append(callee)
                    work.append((callee, iter(sorted(program.functions[callee].callees()))))
                    break
                if callee in stack:
                    low[name] = min(low[name], index[callee])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    close(name)

    for name in program.functions:
        if name not in index:
            visit(name)
    return found
