"""Loads before meetings: what a thread will need is on its way before it waits for others.

Where threads exchange a row through shared memory, or reduce one, they meet, and the assembler
starts no load before the meeting that comes after it in the text. A program that loads, meets and
loads again waits for memory each time. So loads move up to the first of their run, as long as a
thread then has no more on its way than its registers are good for.

A run ends where memory is written, or where accesses are ordered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tawa.base.types import byte_size, element_of
from tawa.hopper.dialect.fragment import layout_of
from tawa.hopper.dialect.global_memory import GlobalLoad
from tawa.hopper.dialect.sync import ORDERS_MEMORY
from tawa.hopper.passes.strips import AHEAD_BYTES, of_one_role
from tawa.ir.contracts import Contract
from tawa.ir.effects import (
    GLOBAL,
    GLOBAL_PROXY,
    MEETING,
    ORDER,
    WRITE,
    effects_of,
    is_pure,
    only_reads,
    touches,
)
from tawa.ir.properties import LOWERED
from tawa.ir.walking import every


@dataclass(frozen=True)
class LoadsAhead:
    """Move loads of ordinary code before the meetings that they need not wait for."""

    name: ClassVar[str] = "loads-ahead"
    contract: ClassVar[Contract] = Contract(requires=(LOWERED,))

    def apply(self, module: ModuleOp) -> None:
        """Look at every block of a kernel of one role."""
        blocks = [op.parent for op in every(module) if isinstance(op, GlobalLoad)]
        for block in dict.fromkeys(blocks) if of_one_role(module) else ():
            assert block is not None
            _move(block)


@dataclass
class _Run:
    """Ops of a block between two that no load may pass."""

    first: Operation | None = None
    """Its first load."""
    met: bool = False
    """Whether threads have met since."""
    bytes: int = 0
    """What its loads that come before a meeting bring a thread."""
    after: dict[Operation, None] = field(default_factory=dict[Operation, None])
    """Its ops after the first load, in order."""


def _move(block: Block) -> None:
    run = _Run()
    for op in list(block.ops):
        if _bounds(op):
            run = _Run()
            continue
        if isinstance(op, GlobalLoad) and only_reads(op):
            size = _bytes_of_a_thread(op)
            if run.first is None:
                run.first = op
            elif run.met:
                needed = _computed_from(op, run.after)
                if needed is None or run.bytes + size > AHEAD_BYTES:
                    run.after[op] = None
                    continue
                _put_after(run, [*needed, op])
            run.bytes += size
        run.met |= run.first is not None and touches(op, MEETING)
        if run.first is not None and op is not run.first and op.parent is block:
            run.after.setdefault(op)


def _put_after(run: _Run, ops: list[Operation]) -> None:
    """Put ops behind the first load, and behind those that were put there before."""
    assert run.first is not None and run.first.parent is not None
    block = run.first.parent
    for op in ops:
        run.after.pop(op, None)
        op.detach()
        block.insert_op_after(op, run.first)
        run.first = op


def _bounds(op: Operation) -> bool:
    """Whether no load may move from behind an op to before it."""
    unknown = effects_of(op) is None or bool(op.regions) or ORDERS_MEMORY in op.attributes
    return unknown or any(
        touches(op, resource, WRITE) for resource in (GLOBAL, GLOBAL_PROXY, ORDER)
    )


def _bytes_of_a_thread(load: GlobalLoad) -> int:
    return layout_of(load.value).registers * byte_size(element_of(load.value.type))


def _computed_from(load: GlobalLoad, after: dict[Operation, None]) -> list[Operation] | None:
    """What a load's operands are computed by, of some ops, in order; None if not by itself."""
    found: set[Operation] = set()
    work: list[SSAValue] = list(load.operands)
    while work:
        owner = work.pop().owner
        if isinstance(owner, Operation) and owner in after and owner not in found:
            if not is_pure(owner):
                return None
            found.add(owner)
            work += owner.operands
    return [op for op in after if op in found]
