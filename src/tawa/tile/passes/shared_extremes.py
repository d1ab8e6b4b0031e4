"""The maximum of a tile and its position are found together, as are the minimum and its own.

Programs that pick elements ask for both (`tl.max` and `tl.argmax` of the same tile). What finds a
position finds the extreme first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tawa.base.spans import copy_span
from tawa.base.types import element_of, is_float
from tawa.ir.contracts import Contract
from tawa.ir.properties import TIDY
from tawa.ir.walking import all_of
from tawa.tile.dialect.ops import ArgReduce, Reduce


@dataclass(frozen=True)
class SharedExtremes:
    """One `arg_reduce` for a tile's extreme and its position where a block computes both."""

    name: ClassVar[str] = "shared-extremes"
    contract: ClassVar[Contract] = Contract(invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Replace reductions whose block also asks for the position."""
        for op in all_of(module, ArgReduce):
            if op.parent is None:
                continue
            for use in list(op.value.uses):
                other = use.operation
                if other is not op and other.parent is op.parent and _same(op, other):
                    op = _joined(op, other)


def _kind(op: ArgReduce) -> str:
    """The reduction that gives the extreme of an `arg_reduce`."""
    word = "max" if op.kind.data == "argmax" else "min"
    if is_float(element_of(op.value.type)):
        return f"{word}numf"
    return f"{word}si" if op.unsigned is None else f"{word}ui"


def _same(op: ArgReduce, other: Operation) -> bool:
    """Whether another op finds the same extreme."""
    if isinstance(other, Reduce):
        return other.axis == op.axis and other.kind.data == _kind(op)
    return isinstance(other, ArgReduce) and other.properties == op.properties


def _joined(op: ArgReduce, other: Operation) -> ArgReduce:
    """Let the first of two ops find what both do; both have the same operand."""
    block = op.parent
    assert block is not None
    first: Operation = op if op.is_before_in_block(other) else other
    new = ArgReduce(op.value, op.axis.value.data, op.kind.data, unsigned=op.unsigned is not None)
    copy_span(op, [new])
    block.insert_op_before(new, first)
    for old in (op, other):
        found: tuple[SSAValue, ...] = (new.extreme, new.index)
        for result, value in zip(old.results, found, strict=False):
            value.name_hint = value.name_hint or result.name_hint
            result.replace_all_uses_with(value)
        old.detach()
        old.erase()
    return new
