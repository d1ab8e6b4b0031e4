"""Registers read and written by instructions, and which are live where."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar

from tawa.cuppl.core.builder import targets
from tawa.cuppl.core.ir import (
    Branch,
    Const,
    Function,
    Get,
    Instruction,
    Program,
    Reg,
    Return,
    Set,
    Switch,
    Terminator,
)

__all__ = [
    "defined",
    "in_memory",
    "live_at_entry",
    "predecessors",
    "rename",
    "touches",
    "used",
    "used_by_terminator",
]

Item = TypeVar("Item", bound=Instruction | Terminator)
_WRITTEN = ("dst", "dsts")


def predecessors(function: Function) -> defaultdict[str, list[str]]:
    """For each block, by name, the blocks that go on to it."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for block in function.blocks.values():
        for target in targets(block.terminator):
            found[target].append(block.name)
    return found


@cache
def _field_names(kind: type[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields of a kind of instruction that it writes, and the others."""
    names = [f.name for f in fields(kind)]
    return (
        tuple(n for n in names if n in _WRITTEN), tuple(n for n in names if n not in _WRITTEN)
    )  # fmt: skip


def _registers(item: Instruction, names: tuple[str, ...]) -> tuple[Reg, ...]:
    found: list[Reg] = []
    for name in names:
        value: Any = getattr(item, name)
        if type(value) is Reg:
            found.append(value)
        elif type(value) is tuple:
            found += [v for v in value if type(v) is Reg]  # pyright: ignore
    return tuple(found)


def defined(item: Instruction) -> tuple[Reg, ...]:
    """Registers that an instruction sets."""
    return _registers(item, _field_names(type(item))[0])


def used(item: Instruction) -> tuple[Reg, ...]:
    """Registers that an instruction reads."""
    return _registers(item, _field_names(type(item))[1])


def used_by_terminator(item: Terminator | None) -> tuple[Reg, ...]:
    """Registers that a terminator reads."""
    match item:
        case Branch(condition, _, _):
            return (condition,)
        case Switch(value, _, _):
            return (value,)
        case Return(values):
            return values
        case _:
            return ()


def live_before(items: list[Instruction], live: set[Reg]) -> set[Reg]:
    """Live registers before some instructions, given those after."""
    live = set(live)
    for item in reversed(items):
        live.difference_update(defined(item))
        live.update(used(item))
    return live


def live_at_entry(function: Function) -> dict[str, set[Reg]]:
    """For each block, the registers whose values it or its successors read."""
    live: dict[str, set[Reg]] = {name: set() for name in function.blocks}
    changed = True
    while changed:
        changed = False
        for name in reversed(list(function.blocks)):
            block = function.blocks[name]
            after = set(used_by_terminator(block.terminator))
            for target in targets(block.terminator):
                after |= live[target]
            before = live_before(block.instructions, after)
            if before != live[name]:
                live[name] = before
                changed = True
    return live


def rename(item: Item, prefix: str) -> Item:
    """A copy of an instruction or terminator with prefixed registers and blocks."""
    changes: dict[str, Any] = {}
    for field in fields(item):
        value: Any = getattr(item, field.name)
        if isinstance(value, Reg):
            changes[field.name] = Reg(prefix + value.name, value.type)
        elif isinstance(value, tuple):
            items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
            changes[field.name] = tuple(
                Reg(prefix + v.name, v.type) if isinstance(v, Reg) else v for v in items
            )
        elif isinstance(value, dict):
            changes[field.name] = {k: prefix + v for k, v in value.items()}  # pyright: ignore
        elif isinstance(value, str) and field.name in ("target", "then", "other", "default"):
            changes[field.name] = prefix + value
    return replace(item, **changes)


def touches(program: Program, names: tuple[str, ...]) -> bool:
    """Whether any function reads or writes one of these fields of the context."""
    return any(
        isinstance(item, Get | Set) and item.field in names
        for function in program.functions.values()
        for block in function.blocks.values()
        for item in block.instructions
    )


def in_memory(function: Function) -> list[Reg]:
    """The registers that need a place in memory where there are no phis.

    Not those that are set once, if they are parameters or constants, or are read only after that
    in the same block.
    """
    sets: dict[Reg, int] = dict.fromkeys(function.params, 1)
    anywhere = set(function.params)
    home: dict[Reg, str] = {}
    abroad: set[Reg] = set()
    for block in function.blocks.values():
        for item in block.instructions:
            for reg in used(item):
                if home.get(reg) != block.name:
                    abroad.add(reg)
            for reg in defined(item):
                sets[reg] = sets.get(reg, 0) + 1
                home[reg] = block.name
                if isinstance(item, Const):
                    anywhere.add(reg)
        read = used_by_terminator(block.terminator)
        abroad.update(r for r in read if home.get(r) != block.name)
    return [r for r in sets if sets[r] > 1 or (r in abroad and r not in anywhere)]
