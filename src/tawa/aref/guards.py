"""Skip what changes nothing: scaling by one, and reductions whose result would not be used.

An online softmax scales its accumulator at every block, mostly by one, and looks for a new maximum
that it mostly does not find. A warp can see both at little cost, and then do neither. The rewrites
ask only for the shape of the arithmetic, and the values are the same with and without them:

- a carried tile times a factor of its rows: only if some factor is not one;
- `where(max(x) > t, max(x), y)`, the maximum used for nothing else: lanes exchange their parts of
  the maximum only if some element is above its row's `t`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import Float32Type, FloatAttr, ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tawa.aref.async_dots import from_products
from tawa.aref.ops import Any, AnyAbove, WarpGroup
from tawa.base.elementwise import Map
from tawa.base.spans import copy_span
from tawa.base.types import element_of, shape_of
from tawa.tile.ops import Broadcast, ExpandDims, Reduce, Splat

LEAST = 64 * 32
"""Elements of a tile for which a warp's question costs less than the scaling."""


@dataclass(frozen=True)
class Guards:
    """Put work that mostly changes nothing behind a warp's question."""

    name: ClassVar[str] = "guards"

    def apply(self, module: ModuleOp) -> None:
        """Rewrite the loops of every computing warp group."""
        for group in [op for op in module.walk() if isinstance(op, WarpGroup)]:
            if group.single is not None or group.split_columns is not None:
                continue
            for loop in [op for op in group.walk() if isinstance(op, scf.ForOp)]:
                for op in [op for op in loop.body.block.ops if isinstance(op, Map)]:
                    _guard_scaling(op)
                    _guard_maximum(op)


def _guard_scaling(op: Map) -> None:
    """`x * factor[:, None]` -> `x` where all factors that a warp holds are one."""
    if op.function.data != "mulf" or not isinstance(element_of(op.result.type), Float32Type):
        return
    for carried, scale in (op.arguments, reversed(op.arguments)):
        factor = _row_factor(scale)
        if isinstance(carried, BlockArgument) and factor is not None:
            break
    else:
        return
    rows, columns = shape_of(op.result.type)
    if rows * columns < LEAST:
        return
    one = arith.ConstantOp(FloatAttr(1.0, Float32Type()))
    ones = Splat(one.result, shape_of(factor.type))
    differs = Map("cmpf_une", [factor, ones.result])
    question = Any(differs.result)
    then = Block()
    spread = _copy_chain(scale, factor, then)
    scaled = Map("mulf", [carried, spread])
    then.add_ops([scaled, scf.YieldOp(scaled.result)])
    _replace(op, [one, ones, differs, question], then, carried)


def _row_factor(scale: SSAValue) -> SSAValue | None:
    """The value for each row that a tile repeats along its columns, if it is computed."""
    value = scale
    while isinstance(value.owner, Broadcast | ExpandDims):
        value = value.owner.operands[0]
    computed = isinstance(value.owner, Map) or isinstance(value, BlockArgument)
    return value if computed and value is not scale and len(shape_of(value.type)) == 1 else None


def _copy_chain(value: SSAValue, root: SSAValue, into: Block) -> SSAValue:
    """Copies of the ops that lead from `root` to `value`."""
    if value is root:
        return root
    op = value.owner
    assert isinstance(op, Operation)
    new = op.clone({op.operands[0]: _copy_chain(op.operands[0], root, into)})
    into.add_op(new)
    return new.results[0]


def _guard_maximum(op: Map) -> None:
    """`where(max(x) > t, max(x), y)` -> `y` where no element that a warp holds is above `t`."""
    if op.function.data != "select":
        return
    condition, yes, no = op.arguments
    compare, reduce = condition.owner, yes.owner
    if not isinstance(reduce, Reduce) or reduce.kind.data != "maxnumf":
        return
    if not isinstance(compare, Map) or not condition.has_one_use():
        return
    bound = _bound_of(compare, yes)
    uses = {use.operation for use in yes.uses}
    if bound is None or uses != {compare, op} or not _held_by_warps(reduce):
        return
    question = AnyAbove(reduce.value, bound, reduce.axis.value.data)
    then = Block()
    largest = reduce.clone()
    above = compare.clone({yes: largest.result})
    chosen = op.clone({condition: above.result, yes: largest.result})
    then.add_ops([largest, above, chosen, scf.YieldOp(chosen.result)])
    _replace(op, [question], then, no)
    for old in (compare, reduce):
        old.detach()
        old.erase()


def _bound_of(compare: Map, value: SSAValue) -> SSAValue | None:
    """`t` of a comparison that says `value > t`."""
    left, right = compare.arguments
    if compare.function.data == "cmpf_ogt" and left is value:
        return right
    if compare.function.data == "cmpf_olt" and right is value:
        return left
    return None


def _held_by_warps(reduce: Reduce) -> bool:
    """Whether a warp holds whole rows, so that a row's maximum needs no other warp."""
    last = len(shape_of(reduce.value.type)) - 1 == 1 == reduce.axis.value.data
    return last and from_products(reduce.value)


def _replace(op: Map, before: list[Operation], then: Block, unchanged: SSAValue) -> None:
    """Put `if question then ... else unchanged` in the place of an op."""
    question = before[-1].results[0]
    otherwise = Block([scf.YieldOp(unchanged)])
    branch = scf.IfOp(question, [op.result.type], Region(then), Region(otherwise))
    block = op.parent
    assert block is not None
    copy_span(op, [*before, branch, *then.ops])
    block.insert_ops_before([*before, branch], op)
    branch.results[0].name_hint = op.result.name_hint
    op.result.replace_all_uses_with(branch.results[0])
    op.detach()
    op.erase()
