"""Sums carried through a loop stay spread over lanes until the loop is over.

An online softmax adds, at every block, the sums of its rows to a carried total, scaled by a factor
of the row. The lanes that share a row need not add up their parts each time: the parts are carried
(and scaled) instead, and added up once, after the loop. As everywhere, the order of a reduction's
additions is not specified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tawa.aref.analysis.products import from_products
from tawa.aref.dialect.ops import LanePartials, WarpGroup
from tawa.base.spans import copy_span
from tawa.base.types import element_of, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map
from tawa.ir.loops import terminator
from tawa.ir.properties import DOTS, ROLES, SPREAD_SUMS, TIDY
from tawa.ir.walking import all_of
from tawa.tile.analysis.zero import is_zero
from tawa.tile.dialect.ops import Broadcast, ExpandDims, Reduce, Splat


@dataclass(frozen=True)
class PartialSums:
    """Carry parts of sums instead of sums."""

    name: ClassVar[str] = "partial-sums"
    contract: ClassVar[Contract] = Contract(
        requires=(ROLES, DOTS), establishes=(SPREAD_SUMS,), invalidates=(TIDY,)
    )

    def apply(self, module: ModuleOp) -> None:
        """Rewrite the loops of every computing warp group."""
        for group in all_of(module, WarpGroup):
            if group.computes and group.split_columns is None:
                for loop in all_of(group, scf.ForOp):
                    for argument in loop.body.block.args[1:]:
                        if found := _find(loop, argument):
                            _rewrite(loop, argument, found)


@dataclass(frozen=True)
class _Sum:
    """`argument * factor + sum(terms)`, passed on to the next iteration."""

    add: Map
    reduce: Reduce
    scale: Map | None
    factor: SSAValue | None


def _find(loop: scf.ForOp, argument: BlockArgument) -> _Sum | None:
    """The carried sum that an argument is, if it is one from zero on and used for nothing else."""
    place = argument.index - 1
    passed = terminator(loop.body.block).operands[place]
    add = passed.owner
    if not isinstance(add, Map) or add.function.data != "addf" or not passed.has_one_use():
        return None
    start = loop.iter_args[place]
    if len(shape_of(argument.type)) != 1 or not (is_zero(start) or _parts(start) is not None):
        return None
    for old, new in (add.arguments, reversed(add.arguments)):
        reduce = new.owner
        if isinstance(reduce, Reduce) and _spread(reduce) and argument.has_one_use():
            if old is argument:
                return _Sum(add, reduce, None, None)
            scale = old.owner
            if isinstance(scale, Map) and scale.function.data == "mulf" and old.has_one_use():
                a, b = scale.arguments
                if argument in (a, b) and a is not b:
                    return _Sum(add, reduce, scale, b if a is argument else a)
    return None


def _spread(reduce: Reduce) -> bool:
    """Whether the lanes of a warp hold parts of the rows that are added up."""
    rank = len(shape_of(reduce.value.type))
    last = rank == 2 and reduce.axis.value.data == 1
    alone = reduce.result.has_one_use() and reduce.kind.data == "addf"
    wide = shape_of(reduce.value.type)[-1] % (2 * LanePartials.LANES) == 0
    return last and alone and wide and from_products(reduce.value)


def _parts(start: SSAValue) -> SSAValue | None:
    """The parts that a sum was added up from, if this loop alone goes on with it."""
    whole = start.owner
    if not isinstance(whole, Reduce) or whole.kind.data != "addf" or not start.has_one_use():
        return None
    columns = shape_of(whole.value.type)[1:]
    return whole.value if columns == (LanePartials.LANES,) and whole.axis.value.data == 1 else None


def _start(loop: scf.ForOp, start: SSAValue, shape: tuple[int, int]) -> SSAValue:
    """The parts that a loop begins with: zeros, or those of the loop before."""
    parts, op, outer = _parts(start), start.owner, loop.parent
    assert isinstance(op, Operation)
    assert outer is not None
    if parts is not None:
        loop.operands[3 + loop.iter_args.index(start)] = parts
        op.detach()
        op.erase()
        return parts
    assert isinstance(op, Splat)
    zeros = Splat(op.value, shape)
    outer.insert_op_before(zeros, loop)
    return zeros.result


def _rewrite(loop: scf.ForOp, argument: BlockArgument, found: _Sum) -> None:
    place = argument.index - 1
    body, outer = loop.body.block, loop.parent
    assert outer is not None
    element, (rows,) = element_of(argument.type), shape_of(argument.type)
    shape = (rows, LanePartials.LANES)
    loop.operands[3 + place] = _start(loop, loop.iter_args[place], shape)
    result, parts = loop.results[place], TensorType(element, shape)
    old: SSAValue = Rewriter.replace_value_with_new_type(argument, parts)
    result = Rewriter.replace_value_with_new_type(result, parts)
    local = LanePartials(found.reduce.value)
    new: list[Operation] = [local]
    if found.factor is not None:
        column = ExpandDims(found.factor, 1)
        spread = Broadcast(column.result, shape)
        scaled = Map("mulf", [old, spread.result])
        new += [column, spread, scaled]
        old = scaled.result
    added = Map("addf", [old, local.result])
    new.append(added)
    copy_span(found.add, new)
    body.insert_ops_before(new, found.add)
    terminator(body).operands[place] = added.result
    for op in (found.add, found.scale, found.reduce):
        if op is not None:
            op.detach()
            op.erase()
    uses = list(result.uses)
    whole = Reduce(result, 1, "addf")
    whole.result.name_hint = result.name_hint
    copy_span(loop, [whole])
    outer.insert_op_after(whole, loop)
    for use in uses:
        use.operation.operands[use.index] = whole.result
