"""What the products of straight-line code need later is on its way before the first of them.

A program without loops loads two tiles, multiplies them, loads a third and multiplies again. If
that load is asked for after the first product, the program waits for memory twice, and a program of
a few products is little more than such waits. In loops, loads are made iterations ahead by rings
and registers instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation

from tawa.base.layout import LANES
from tawa.base.options import Options
from tawa.base.types import byte_size, element_of, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.effects import ORDER, is_pure, only_reads, touches
from tawa.ir.properties import ONE_PROGRAM, TIDY
from tawa.ir.walking import all_of, every, has
from tawa.tile.analysis.alias import may_be_written, written
from tawa.tile.dialect.ops import Dot, Load

HELD = 80
"""Registers of a thread that loaded tiles may take at once: the rest of its 255 are the products'
accumulators and operands, and addresses."""


@dataclass(frozen=True)
class LoadsBeforeProducts:
    """Move loads of straight-line code before its first product."""

    options: Options
    name: ClassVar[str] = "loads-before-products"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Look at all code that is outside loops."""
        blocks = {dot.parent: None for dot in all_of(module, Dot) if not _in_a_loop(dot)}
        for block in blocks:
            assert block is not None
            for ops in _straight(block):
                self._gather(ops)

    def _gather(self, ops: list[Operation]) -> None:
        """Move the loads among some ops in a row before the first product of theirs."""
        first = next((place for place, op in enumerate(ops) if isinstance(op, Dot)), None)
        if first is None:
            return
        start = ops[first]
        held = sum(self._registers(op) for op in ops[:first] if isinstance(op, Load))
        moved = set[Operation]()
        for place in range(first + 1, len(ops)):
            load = ops[place]
            if not isinstance(load, Load) or held + self._registers(load) > HELD:
                continue
            needed = _movable(load, [op for op in ops[first:place] if op not in moved])
            if needed is None:
                continue
            held += self._registers(load)
            moved |= {*needed, load}
            for op in [*needed, load]:
                op.detach()
                assert start.parent is not None
                start.parent.insert_op_before(op, start)

    def _registers(self, load: Load) -> float:
        """Registers of a thread that a tile takes."""
        size = byte_size(element_of(load.result.type)) * prod(shape_of(load.result.type))
        return size / self.options.machine.word / (LANES * self.options.num_warps)


def _in_a_loop(op: Operation) -> bool:
    """Whether an op is repeated."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, func.FuncOp):
        if not isinstance(parent, scf.IfOp):
            return True
        parent = parent.parent_op()
    return False


def _straight(block: Block) -> Iterator[list[Operation]]:
    """The ops of a block between its loops."""
    ops: list[Operation] = []
    for op in list(block.ops):
        if has(op, scf.ForOp) or has(op, scf.WhileOp):
            yield ops
            ops = []
        else:
            ops.append(op)
    yield ops


def _movable(load: Load, passed: list[Operation]) -> list[Operation] | None:
    """What is moved with a load past some ops; None if it has to stay behind them."""
    memory = written(passed)
    ordered = any(touches(inner, ORDER) for op in passed for inner in every(op))
    if not only_reads(load) or ordered or may_be_written(load, memory):
        return None
    wanted, moved = set(load.operands), list[Operation]()
    for op in reversed(passed):
        if wanted.isdisjoint(op.results):
            continue
        if isinstance(op, Dot) or op.regions or not is_pure(op):
            return None
        wanted.update(op.operands)
        moved.insert(0, op)
    return moved
