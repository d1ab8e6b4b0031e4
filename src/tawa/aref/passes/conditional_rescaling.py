"""Conditional rescaling: skip scaling by one, and reductions whose result would not be used.

An online softmax scales its accumulator at every block, mostly by one, and looks for a new maximum
that it mostly does not find. A warp can see both at little cost, and then do neither. The rewrites
ask only for the shape of the arithmetic, and the values are the same with and without them:

- a carried tile times a factor of its rows: only if some factor is not one;
- `where(max(x) > t, max(x), y)`, the maximum, perhaps scaled, used for nothing else: lanes exchange
  their parts of it only if some element is above its row's `t`. Other choices by the same
  comparison are made there, too, with what only they need; a factor that is one otherwise needs no
  question;
- `maximum(t, max(x))`, however it is spelled (`running_maximum`): likewise, and with it what is
  `exp(t - maximum)`, one where t is the maximum. Rows of which nothing can be said (t is infinite
  or NaN) answer yes, and are computed as they stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeGuard

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import Float32Type, FloatAttr, ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tawa.aref.analysis.products import from_products
from tawa.aref.dialect.ops import Any, AnyAbove, WarpGroup
from tawa.base.spans import copy_span
from tawa.base.types import element_of, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map
from tawa.ir.loops import terminator
from tawa.ir.properties import DOTS, ROLES, SKIPPED_WORK, TIDY
from tawa.ir.walking import all_of
from tawa.machine.chips import DEFAULT
from tawa.tile.analysis.magnitude import is_ordinary
from tawa.tile.analysis.scaling import scaled
from tawa.tile.analysis.zero import constant_of
from tawa.tile.dialect.ops import Broadcast, Dot, ExpandDims, Reduce, Splat

LEAST = DEFAULT.branch_elements
"""Elements of a tile for which a warp's question costs less than the scaling."""


@dataclass(frozen=True)
class ConditionalRescaling:
    """Put work that mostly changes nothing behind a warp's question."""

    name: ClassVar[str] = "conditional-rescaling"
    contract: ClassVar[Contract] = Contract(
        requires=(ROLES, DOTS), establishes=(SKIPPED_WORK,), invalidates=(TIDY,)
    )

    def apply(self, module: ModuleOp) -> None:
        """Rewrite the loops of every computing warp group."""
        for group in all_of(module, WarpGroup):
            if not group.computes or group.split_columns is not None:
                continue
            for loop in all_of(group, scf.ForOp):
                for op in [op for op in loop.body.block.ops if isinstance(op, Map)]:
                    if op.parent is not None:
                        _guard_scaling(op)
                    if op.parent is not None and not _guard_maximum(op):
                        _guard_running_maximum(op)


def _guard_scaling(op: Map) -> None:
    """`x * factor[:, None]` -> `x` where all factors that a warp holds are one.

    The factor comes of warp groups' products and the next `x` is one, so that each warp has the
    same rows of both: no lane has to wait for another warp behind the question.
    """
    if op.function.data != "mulf" or not isinstance(element_of(op.result.type), Float32Type):
        return
    for carried, scale in (op.arguments, reversed(op.arguments)):
        factor = _row_factor(scale)
        if factor is not None and from_products(factor) and _by_products(carried):
            break
    else:
        return
    rows, columns = shape_of(op.result.type)
    if rows * columns < LEAST:
        return
    before, question = _differs_from_one(factor)
    then = Block()
    spread = _copy_chain(scale, factor, then)
    scaled = Map("mulf", [carried, spread])
    then.add_ops([scaled, scf.YieldOp(scaled.result)])
    _branch([op], [*before], question, then, [carried])


def _by_products(carried: SSAValue) -> bool:
    """Whether a warp group's product makes what a loop carries to its next iteration."""
    loop = carried.owner.parent_op() if isinstance(carried, BlockArgument) else None
    if not isinstance(loop, scf.ForOp) or not isinstance(carried, BlockArgument):
        return False
    return isinstance(terminator(loop.body.block).operands[carried.index - 1].owner, Dot)


def _differs_from_one(factor: SSAValue) -> tuple[list[Operation], SSAValue]:
    """Ops that ask whether a warp has a factor other than one, and the answer."""
    made = factor.owner
    if isinstance(made, scf.IfOp) and isinstance(made.cond.owner, AnyAbove):
        otherwise = made.false_region.block.last_op
        assert otherwise is not None
        if constant_of(otherwise.operands[made.results.index(factor)]) == 1:
            return [], made.cond
    one = arith.ConstantOp(FloatAttr(1.0, Float32Type()))
    ones = Splat(one.result, shape_of(factor.type))
    differs = Map("cmpf_une", [factor, ones.result])
    question = Any(differs.result)
    return [one, ones, differs, question], question.results[0]


def _row_factor(scale: SSAValue) -> SSAValue | None:
    """The value for each row that a tile repeats along its columns, if it is computed."""
    value = scale
    while isinstance(value.owner, Broadcast | ExpandDims):
        value = value.owner.operands[0]
    computed = isinstance(value.owner, Map | scf.IfOp) or isinstance(value, BlockArgument)
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


def _guard_maximum(op: Map) -> bool:
    """`where(max(x) > t, max(x), y)` -> `y` where no element that a warp holds is above `t`."""
    if op.function.data != "select":
        return False
    condition, yes, _ = op.arguments
    compare, of_rows = condition.owner, _maximum_of_rows(yes)
    if of_rows is None or not isinstance(compare, Map):
        return False
    reduce, scales, made = of_rows
    bound = _bound_of(compare, yes)
    uses = {use.operation for use in yes.uses}
    if bound is None or uses != {compare, op} or not _held_by_warps(reduce):
        return False
    others = _choices(condition, op)
    if others is None:
        return False
    chosen = [op, *others]
    unchanged = [c.arguments[2] for c in chosen]
    question = AnyAbove(reduce.value, bound, reduce.axis.value.data, scales=scales)
    return _put_behind(question, chosen, unchanged, [*made, compare])


def _guard_running_maximum(op: Map) -> bool:
    """`maximum(t, max(x))` -> `t` where no element that a warp holds is above `t`."""
    found = running_maximum(op)
    if found is None or not _held_by_warps(found.reduce):
        return False
    shape = shape_of(op.result.type)
    factors = list(_factors(op, found.bound))
    one = arith.ConstantOp(FloatAttr(1.0, Float32Type()))
    ones = Splat(one.result, shape)
    question = AnyAbove(
        *(found.reduce.value, found.bound, found.reduce.axis.value.data),
        unsure=True,
        scales=found.scales,
    )
    unchanged = [found.bound, *(ones.result for _ in factors)]
    before = [one, ones] if factors else []
    return _put_behind(question, [op, *factors], unchanged, found.made, before)


def _put_behind(
    question: AnyAbove,
    chosen: list[Map],
    unchanged: list[SSAValue],
    known: list[Operation],
    before: Sequence[Operation] = (),
) -> bool:
    """Compute `chosen`, and what is for them alone, only if a question is answered by yes."""
    first = chosen[0]
    made = {op for op in before if not isinstance(op, arith.ConstantOp)}
    kept = {question.bound.owner, *(v.owner for v in unchanged)} - made
    own = _needed_by(chosen, known, kept)
    if not _known_before(first, own, [v for v in unchanged if v.owner not in made]):
        return False
    then, values = Block(), dict[SSAValue, SSAValue]()
    for inner in own:
        new = inner.clone(values)
        then.add_op(new)
        values |= dict(zip(inner.results, new.results, strict=True))
    then.add_op(scf.YieldOp(*(values[c.result] for c in chosen)))
    _branch(chosen, [*before, question], question.results[0], then, unchanged)
    for old in reversed([inner for inner in own if inner not in chosen]):
        old.detach()
        old.erase()
    return True


@dataclass(frozen=True)
class RunningMaximum:
    """The greater of a bound of each row and the maximum of a tile's rows, perhaps scaled."""

    bound: SSAValue
    reduce: Reduce
    scales: list[SSAValue]
    """Positive numbers."""
    made: list[Operation]
    """What makes the maximum of the rows, and the comparison: used for nothing else."""


TAKES_LEFT = {"cmpf_ogt": True, "cmpf_oge": True, "cmpf_olt": False, "cmpf_ole": False}
"""Comparisons of a and b, and whether a is the greater (or an equal) one if they hold."""


def running_maximum(op: Map) -> RunningMaximum | None:
    """What an op is the running maximum of: a maximum, or a choice by any comparison of the two."""
    name = op.function.data
    compare = op.arguments[0].owner if name == "select" else None
    if name in ("maxnumf", "maximumf"):
        pair = op.arguments
    elif isinstance(compare, Map) and compare.function.data in TAKES_LEFT:
        pair = compare.arguments
        greater = pair if TAKES_LEFT[compare.function.data] else list(reversed(pair))
        if list(op.arguments[1:]) != list(greater) or not compare.result.has_one_use():
            return None
    else:
        return None
    for bound, maximum in (pair, reversed(pair)):
        of_rows = _maximum_of_rows(maximum)
        if of_rows is None or bound is maximum:
            continue
        compared = [compare] if isinstance(compare, Map) else []
        if {use.operation for use in maximum.uses} == {op, *compared}:
            reduce, scales, made = of_rows
            return RunningMaximum(bound, reduce, scales, [*made, *compared])
    return None


def _maximum_of_rows(value: SSAValue) -> tuple[Reduce, list[SSAValue], list[Operation]] | None:
    """The reduction that a value is a positive multiple of, the numbers, and the ops."""
    scales: list[SSAValue] = []
    made: list[Operation] = []
    while (found := scaled(value)) is not None:
        source, scale = found
        if not is_ordinary(scale) or not source.has_one_use():
            return None
        assert isinstance(value.owner, Operation)
        made.append(value.owner)
        scales.append(scale)
        value = source
    if not _is_maximum(value.owner):
        return None
    return value.owner, scales[::-1], [value.owner, *made[::-1]]


def _is_maximum(op: Operation | Block) -> TypeGuard[Reduce]:
    return isinstance(op, Reduce) and op.kind.data == "maxnumf"


def _factors(op: Map, bound: SSAValue) -> Iterator[Map]:
    """Exponentials of `bound - op`, scaled or not: one where both are the same finite number."""
    for use in op.result.uses:
        difference = use.operation
        if not isinstance(difference, Map) or difference.function.data != "subf":
            continue
        if difference.arguments[0] is not bound or difference.parent is not op.parent:
            continue
        last = difference
        while (scaled := _only_scaling(last)) is not None:
            last = scaled
        if last.function.data in ("exp", "exp2"):
            yield last


def _only_scaling(op: Map) -> Map | None:
    """The op that alone uses a result: a product with a finite number, or an exponential."""
    if op.function.data in ("exp", "exp2") or not op.result.has_one_use():
        return None
    (user,) = (use.operation for use in op.result.uses)
    if not isinstance(user, Map) or user.parent is not op.parent:
        return None
    if user.function.data in ("exp", "exp2"):
        return user
    if user.function.data != "mulf":
        return None
    other = user.arguments[1 if user.arguments[0] is op.result else 0]
    return user if is_ordinary(other) else None


def _choices(condition: SSAValue, first: Map) -> list[Map] | None:
    """The other selects by a condition that is used for nothing else; None if it is."""
    found: list[Map] = []
    for use in condition.uses:
        op = use.operation
        if op is first:
            continue
        if not isinstance(op, Map) or op.function.data != "select" or use.index:
            return None
        if op.parent is not first.parent:
            return None
        found.append(op)
    return found


def _needed_by(
    chosen: list[Map], known: list[Operation], kept: set[Operation | Block]
) -> list[Operation]:
    """`known`, `chosen` and what computes for these alone, in the order of their block."""
    block = chosen[0].parent
    assert block is not None
    wanted: set[Operation] = {*known, *chosen}
    for op in reversed(list(block.ops)):
        users = {use.operation for r in op.results for use in r.uses}
        if isinstance(op, Map | Splat) and users and users <= wanted and op not in kept:
            wanted.add(op)
    return [op for op in block.ops if op in wanted]


def _known_before(first: Map, own: list[Operation], others: list[SSAValue]) -> bool:
    """Move splats that `own` and others need before `first`; whether all else is there."""
    inside = {r for op in own for r in op.results}
    needed = [v for op in own for v in op.operands if v not in inside] + others
    moved: dict[Operation, None] = {}
    if not all(_before(first, value, moved) for value in needed):
        return False
    assert first.parent is not None
    for op in moved:
        op.detach()
        first.parent.insert_op_before(op, first)
    return True


def _before(first: Map, value: SSAValue, moved: dict[Operation, None]) -> bool:
    """Whether a value is known before `first`, or is if what is added to `moved` goes there."""
    op, block = value.owner, first.parent
    if not isinstance(op, Operation) or op.parent is not block or op in moved:
        return True
    if op.is_before_in_block(first):
        return True
    if not isinstance(op, Splat | arith.ConstantOp):
        return False
    if not all(_before(first, v, moved) for v in op.operands):
        return False
    moved[op] = None
    return True


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


def _branch(
    chosen: list[Map],
    before: list[Operation],
    question: SSAValue,
    then: Block,
    unchanged: list[SSAValue],
) -> None:
    """Put `if question then ... else unchanged` in the place of what is chosen."""
    otherwise = Block([scf.YieldOp(*unchanged)])
    types = [op.result.type for op in chosen]
    branch = scf.IfOp(question, types, Region(then), Region(otherwise))
    block = chosen[0].parent
    assert block is not None
    place = min(chosen, key=block.get_operation_index)
    copy_span(chosen[0], [*before, branch, *then.ops])
    block.insert_ops_before([*before, branch], place)
    for op, result in zip(chosen, branch.results, strict=True):
        result.name_hint = op.result.name_hint
        op.result.replace_all_uses_with(result)
        op.detach()
        op.erase()
