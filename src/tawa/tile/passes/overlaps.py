"""Which arguments' arrays may overlap, and for which pairs it matters that they don't.

A program's accesses have to look as if they were done one after the other. Where two arguments are
known to be apart, accesses through them need no order: loads run ahead of stores. That is taken for
granted, noted (`APART`) and looked at by each launch; for arrays that do overlap the kernel is
compiled once more, with the pair in the option `may_overlap`.

It matters where a write comes before another access, in the text or round a loop that both are in.
A read that comes before every write is taken to be apart from them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from tawa.base.options import BadOption, Options
from tawa.base.spans import span_of
from tawa.ir.contracts import Contract
from tawa.ir.effects import GLOBAL, WRITE, through
from tawa.ir.kernels import argument_names
from tawa.ir.properties import ARGUMENT_DESCRIPTORS
from tawa.tile.analysis.alias import APART, OVERLAPS, origins


@dataclass(frozen=True)
class Overlaps:
    """Note what may overlap, and what has to be apart."""

    options: Options
    name: ClassVar[str] = "overlaps"
    contract: ClassVar[Contract] = Contract(requires=(ARGUMENT_DESCRIPTORS,))

    def apply(self, module: ModuleOp) -> None:
        """Give the kernel its attributes."""
        kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
        given = sorted(self._numbers(kernel))
        if given:
            kernel.attributes[OVERLAPS] = StringAttr(json.dumps(given))
        apart = sorted(pair for pair in _ordered(kernel) if list(pair) not in given)
        if apart:
            kernel.attributes[APART] = StringAttr(json.dumps(apart))

    def _numbers(self, kernel: func.FuncOp) -> Iterator[list[int]]:
        names = argument_names(kernel)
        for pair in self.options.may_overlap:
            for name in pair:
                if name not in names:
                    raise BadOption(
                        f"`may_overlap` names no argument `{name}`",
                        span=span_of(kernel),
                        expected=f"pairs of {', '.join(names)}",
                        found=f"may_overlap={self.options.may_overlap!r}",
                    )
            yield sorted(map(names.index, pair))


def _ordered(kernel: func.FuncOp) -> set[tuple[int, int]]:
    """Pairs of arguments through which accesses have to keep an order, if they are not apart."""
    writes: dict[tuple[BlockArgument, Operation | None], int] = {}
    accesses: dict[tuple[BlockArgument, Operation | None], int] = {}
    for number, op in enumerate(kernel.walk()):
        if op.regions:
            continue
        loop = _outermost_loop(op)
        for value in through(op, GLOBAL):
            for argument in _arguments(value):
                accesses[argument, loop] = number
        for value in through(op, GLOBAL, WRITE):
            for argument in _arguments(value):
                writes.setdefault((argument, loop), number)
    return {
        (min(a.index, b.index), max(a.index, b.index))
        for (a, loop), first in writes.items()
        for (b, other), last in accesses.items()
        if a is not b and (first < last or (loop is not None and loop is other))
    }


def _arguments(value: SSAValue | None) -> list[BlockArgument]:
    found = () if value is None else origins(value)
    return [argument for argument in found if isinstance(argument, BlockArgument)]


def _outermost_loop(op: Operation) -> Operation | None:
    found, parent = None, op.parent_op()
    while parent is not None:
        found = parent if isinstance(parent, scf.ForOp | scf.WhileOp) else found
        parent = parent.parent_op()
    return found
