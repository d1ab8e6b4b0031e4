"""Products that no warp-group instruction does are done by warps, from shared memory, at once.

Rows that do not fill 64 for each warp group, fewer than four warps, batches, exact f32, f64: what
a kernel may write and `wgmma` does not have. Tiles in slots are read where they lie, computed ones
are copied to shared memory first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tawa.aref.analysis.product_check import product_obstacle
from tawa.aref.analysis.products import (
    is_window,
    view_of,
)
from tawa.aref.analysis.register_operands import held_operands
from tawa.aref.analysis.staging import drop_unread, staged
from tawa.aref.dialect.ops import DotIssue, ViewTrans, WarpDot, WarpGroup
from tawa.base.options import Options
from tawa.base.spans import copy_span, span_of
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.roles import MultipliedByWarps
from tawa.ir.properties import DOTS, GROUP_PRODUCTS, OPEN_SLOTS, ROLES, TIDY
from tawa.ir.walking import all_of, every
from tawa.tile.dialect.ops import Dot, Trans


@dataclass(frozen=True)
class WarpProducts:
    """`tile.dot` -> `aref.warp_dot` where it must be."""

    options: Options
    decided: Decisions
    name: ClassVar[str] = "warp-products"
    contract: ClassVar[Contract] = Contract(
        requires=(ROLES, DOTS, OPEN_SLOTS), establishes=(GROUP_PRODUCTS,), invalidates=(TIDY,)
    )

    def apply(self, module: ModuleOp) -> None:
        """Replace the products of every warp group that have no warp-group instruction."""
        target = self.options.machine
        for group in all_of(module, WarpGroup):
            found = all_of(group, Dot)
            warps, by_columns = group.warps.value.data, group.split_columns is not None
            reasons = {
                dot: product_obstacle(dot, warps, target, by_columns=by_columns) for dot in found
            }
            for dot, why in reasons.items():
                if why is not None:
                    self._replace(dot, warps)
                    self.decided.add(MultipliedByWarps(why, span=span_of(dot)))
            if any(reasons.values()):
                drop_unread(group)

    def _replace(self, dot: Dot, warps: int) -> None:
        block = dot.parent
        assert block is not None
        *held, run = held_operands(dot, warps)
        a, b = (
            v if stays else _view(v, dot) for v, stays in zip((dot.a, dot.b), held, strict=True)
        )
        new = WarpDot(a, b, dot.acc, dot.precision.data if dot.precision else "tf32", run)
        new.result.name_hint = dot.result.name_hint
        copy_span(dot, [new])
        block.insert_op_before(new, dot)
        dot.result.replace_all_uses_with(new.result)
        dot.detach()
        dot.erase()


def multiplies_by_warps(group: WarpGroup) -> bool:
    """Whether a region has products, and warps do all of them by themselves."""
    products = [op for op in every(group.body) if isinstance(op, DotIssue | WarpDot)]
    return bool(products) and all(isinstance(op, WarpDot) for op in products)


def _view(value: SSAValue, before: Operation) -> SSAValue:
    """An operand in shared memory: in its slot, or copied there."""
    found = None if is_window(value) else view_of(value, before)
    if found is not None:
        return found
    block, owner = before.parent, value.owner
    assert block is not None
    turned = isinstance(owner, Trans) and owner.permutation == (1, 0)
    copy = staged(
        owner.value if isinstance(owner, Trans) and turned else value, before, shared=True
    )
    if not turned:
        return copy
    view = ViewTrans(copy)
    block.insert_op_before(view, before)
    return view.result
