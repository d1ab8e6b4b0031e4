"""Zeros times a factor that is known to be finite are zeros, and need not be computed.

A tile's accumulator starts as zeros, and an online softmax scales it before the first product adds
to it. Where the start of a pipeline is laid out apart from its steady state, that scaling is of
constants: without it, a register that is not known to be zero would be copied to all others of the
accumulator. Zero times infinity is not zero, so this asks for factors with a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tawa.aref.dialect.ops import WarpGroup
from tawa.base.spans import copy_span
from tawa.base.types import shape_of
from tawa.ir.contracts import Contract
from tawa.ir.effects import may_drop
from tawa.ir.elementwise import Map
from tawa.ir.loops import terminator
from tawa.ir.properties import DOTS, SCHEDULED, TIDY
from tawa.ir.walking import all_of, every
from tawa.tile.analysis.zero import NOT_NEGATIVE, constant_of
from tawa.tile.dialect.ops import Splat, spreads


@dataclass(frozen=True)
class ZeroProducts:
    """Replace scaled zeros by zeros."""

    name: ClassVar[str] = "zero-products"
    contract: ClassVar[Contract] = Contract(requires=(DOTS, SCHEDULED), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Rewrite every computing warp group."""
        for group in all_of(module, WarpGroup):
            if group.computes:
                for op in every(group):
                    if isinstance(op, Map):
                        _scaled(op)
                for op in every(group):
                    if isinstance(op, scf.IfOp):
                        _chosen(op)


def _scaled(op: Map) -> None:
    """`zeros * factor` -> zeros."""
    if op.function.data != "mulf" or not shape_of(op.result.type):
        return
    for zeros, factor in (op.arguments, reversed(op.arguments)):
        if _is_zero(zeros) and _is_bounded(factor):
            op.result.replace_all_uses_with(zeros)
            op.detach()
            op.erase()
            return


def _chosen(op: scf.IfOp) -> None:
    """A tile that is zeros in both branches -> zeros; a branch without results -> none."""
    if not op.results or not all(region.blocks for region in op.regions):
        return
    branches = [terminator(region.block).operands for region in op.regions]
    block = op.parent
    assert block is not None
    for i, result in enumerate(op.results):
        if all(shape_of(b[i].type) and _is_zero(b[i]) for b in branches):
            zeros = branches[0][i].owner
            assert isinstance(zeros, Splat)
            scalar = zeros.value.owner
            assert isinstance(scalar, arith.ConstantOp)
            constant = scalar.clone()
            splat = Splat(constant.result, shape_of(result.type))
            copy_span(op, [constant, splat])
            block.insert_ops_before([constant, splat], op)
            result.replace_all_uses_with(splat.result)
    used = any(True for result in op.results for _ in result.uses)
    if not used and may_drop(op):
        op.detach()
        op.erase()


def _is_zero(value: SSAValue) -> bool:
    constant = constant_of(value)
    return constant == 0 and math.copysign(1, constant) > 0


def _is_bounded(value: SSAValue) -> bool:
    """Whether all elements are known to be at least zero, finite, and no NaN."""
    op = value.owner
    constant = constant_of(value)
    if constant is not None:
        return 0 <= constant < math.inf
    if spreads(op):
        return _is_bounded(op.operands[0])
    if isinstance(op, scf.IfOp):
        at = op.results.index(value)
        return all(_is_bounded(terminator(r.block).operands[at]) for r in op.regions)
    if not isinstance(op, Map):
        return False
    if op.function.data == "select":
        return _is_bounded(op.arguments[1]) and _is_bounded(op.arguments[2])
    if op.function.data == "minnumf":
        # The lesser of a number and NaN is the number.
        for bound, other in (op.arguments, reversed(op.arguments)):
            made = other.owner
            positive = isinstance(made, Map) and made.function.data in NOT_NEGATIVE
            if positive and _is_bounded(bound):
                return True
    return False
