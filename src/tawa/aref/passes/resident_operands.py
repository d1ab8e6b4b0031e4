"""Operands that a loop's products read again and again stay in registers where that saves most.

An instruction of 64 rows and n columns multiplies for n / 2 cycles. In that time shared memory
delivers n / 4 cycles' worth of B and, unless A comes from registers, 16 of A: with 64 columns it is
as busy as the tensor core, and has copies and other roles to serve besides. An 8-bit operand that
a loop does not change takes a quarter of the registers that accumulators of its shape do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Operation, SSAValue

from tawa.aref.dialect.ops import DotIssue, ViewRead, ViewReshape, ViewSlice, ViewType, WarpGroup
from tawa.base.spans import copy_span, span_of
from tawa.base.types import byte_size, element_of, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.loops import OperandResident
from tawa.ir.properties import ASYNCHRONOUS, TIDY
from tawa.ir.walking import all_of, every
from tawa.machine.chips import DEFAULT

MOST_COLUMNS = DEFAULT.fetched_columns
"""Of products that wait for shared memory as long as they multiply."""

MOST_WORDS = DEFAULT.resident_registers
"""Registers of a thread that an operand may take."""


@dataclass(frozen=True)
class ResidentOperands:
    """Read loop-invariant A operands of narrow 8-bit products into registers before the loop.

    `enabled` is false where an attempt with them found too few registers.
    """

    decided: Decisions
    enabled: bool = True
    name: ClassVar[str] = "resident-operands"
    contract: ClassVar[Contract] = Contract(requires=(ASYNCHRONOUS,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Rewrite the products of every computing warp group."""
        if not self.enabled:
            return
        for group in [op for op in every(module) if isinstance(op, WarpGroup) and op.computes]:
            for dot in all_of(group, DotIssue):
                loop = dot.parent_op()
                if isinstance(loop, scf.ForOp) and _fits(dot, group):
                    self._hold(dot, loop)

    def _hold(self, dot: DotIssue, loop: scf.ForOp) -> None:
        """Give the product the operand as a value that is read before the loop."""
        reshapes: list[ViewReshape] = []
        view: SSAValue = dot.a
        while isinstance(view.owner, ViewReshape) and view.owner.parent is loop.body.block:
            reshapes.append(view.owner)
            view = view.owner.view
        if _inside(view, loop) or isinstance(view.owner, ViewSlice):
            return
        before: list[Operation] = []
        for reshape in reversed(reshapes):
            again = reshape.clone({reshape.view: view})
            before.append(again)
            view = again.results[0]
        read = ViewRead(view)
        read.result.name_hint = dot.a.name_hint
        # A slot that products read is returned when they are done: by then all have read it.
        read.meets = UnitAttr()
        copy_span(dot, [read])
        assert loop.parent is not None
        loop.parent.insert_ops_before([*before, read], loop)
        dot.operands[0] = read.result
        for reshape in reshapes:
            if not reshape.result.first_use:
                reshape.detach()
                reshape.erase()
        self.decided.add(OperandResident(span=span_of(dot)))


def _fits(dot: DotIssue, group: WarpGroup) -> bool:
    """Whether the A operand is of 8 bits, short in registers, and read for few columns."""
    if not isinstance(dot.a.type, ViewType) or group.split_columns is not None:
        return False
    tile = dot.a.type.tile
    rows, inner = shape_of(tile)
    words = rows * inner // 4 // (32 * group.warps.value.data)
    narrow = shape_of(dot.result.type)[1] <= MOST_COLUMNS
    return narrow and byte_size(element_of(tile)) == 1 and words <= MOST_WORDS


def _inside(view: SSAValue, loop: scf.ForOp) -> bool:
    """Whether a view is made in the loop."""
    op: Operation | None = view.owner if isinstance(view.owner, Operation) else None
    while op is not None and op is not loop:
        op = op.parent_op()
    return op is loop or view.owner is loop.body.block
