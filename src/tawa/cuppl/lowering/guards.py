"""Limits on recursion and on steps, and which functions may fail."""

from __future__ import annotations

from tawa.cuppl.core.ir import (
    Alloc,
    Block,
    Call,
    Fail,
    Function,
    Get,
    Jump,
    Program,
    Return,
    Set,
    Terminator,
    Type,
)
from tawa.cuppl.lowering.effects import Splitter
from tawa.cuppl.lowering.tail import LOOP_HEAD
from tawa.cuppl.typing.failures import DEPTH, FUEL

__all__ = ["guard_loop", "guard_recursion", "guard_steps", "mark_fallible"]


INSTRUCTIONS_A_LEVEL = 64
"""A level has `BYTES_A_LEVEL` of native stack: 32 bytes an instruction, more than one needs.

The frame of a function with more instructions counts as several levels.
"""


class _Guard(Splitter):
    """Counts depth at the entry and restores it at each return."""

    prefix = "guard"

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.depth = self.reg(Type.I64)

    def run(self) -> None:
        entry = next(iter(self.function.blocks))
        super().run()
        rest = self.blocks
        self.blocks = {}
        self.here = self.blocks["guarded"] = Block("guarded")
        self.emit(Get(self.depth, "depth"))
        limit = self.reg(Type.I64)
        self.emit(Get(limit, "depth_limit"))
        levels = self.const(1 + self.function.size() // INSTRUCTIONS_A_LEVEL, Type.I64)
        deeper = self.op("addi", Type.I64, self.depth, levels)
        too_deep = self.op("gti", Type.BOOL, deeper, limit)
        self.fail_if(too_deep, DEPTH, self.function.site)
        burn(self, self.function.site)
        self.emit(Set("depth", deeper))
        self.here.terminator = Jump(entry)
        self.function.blocks = {**self.blocks, **rest}

    def end(self, terminator: Terminator | None) -> Terminator | None:
        if isinstance(terminator, Return):
            self.emit(Set("depth", self.depth))
        return terminator


def burn(splitter: Splitter, site: int) -> None:
    """Use one unit of fuel; fail when there is none."""
    fuel = splitter.reg(Type.I64)
    splitter.emit(Get(fuel, "fuel"))
    left = splitter.op("subi", Type.I64, fuel, splitter.const(1, Type.I64))
    splitter.emit(Set("fuel", left))
    empty = splitter.op("lti", Type.BOOL, left, splitter.const(0, Type.I64))
    splitter.fail_if(empty, FUEL, site)


def guard_recursion(function: Function) -> None:
    """Fail beyond the depth that the native stack has room for."""
    _Guard(function).run()


class _Entry(Splitter):
    prefix = "entry"

    def run(self) -> None:
        function = self.function
        self.here = self.blocks["counted"] = Block("counted")
        burn(self, function.site)
        self.here.terminator = Jump(next(iter(function.blocks)))
        function.blocks = {**self.blocks, **function.blocks}


def guard_steps(function: Function) -> None:
    """Use fuel at each call of a function whose depth only memory bounds."""
    _Entry(function).run()


class _Loop(Splitter):
    prefix = "turn"

    def end(self, terminator: Terminator | None) -> Terminator | None:
        if self.here.name == LOOP_HEAD:  # the head has no instructions of its own
            burn(self, self.function.site)
        return terminator


def guard_loop(function: Function) -> None:
    """Use fuel at each turn of a loop that was a tail call."""
    _Loop(function).run()


def mark_fallible(program: Program) -> None:
    """Set `may_fail` on the functions that can end with a failure."""
    changed = True
    while changed:
        changed = False
        for function in program.functions.values():
            if not function.may_fail and _can_fail(function, program):
                function.may_fail = changed = True


def _can_fail(function: Function, program: Program) -> bool:
    for block in function.blocks.values():
        if isinstance(block.terminator, Fail):
            return True
        for item in block.instructions:
            if isinstance(item, Alloc):
                return True
            if isinstance(item, Call) and item.on_fail is None:
                callee = program.functions.get(item.function)
                if callee is not None and callee.may_fail:
                    return True
    return False
