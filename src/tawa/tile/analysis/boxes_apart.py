"""Whether a program on a larger tile does on each part what it does on that part alone.

Warp groups that each run a leaf on a box are one team that runs it on all boxes at once. That is
the same if the leaf treats the boxes apart: its program on one box and that on all of them have the
same ops, and each op, given values of which the large one is made of the small ones along one
dimension (or both are equal), yields such values again. Which of the two it is, and along which
dimension, types show; so there is one rule for each kind of op, and no state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tawa.base.types import DescType, shape_of
from tawa.ir.effects import GLOBAL, is_pure, is_terminator, through
from tawa.ir.elementwise import Map
from tawa.tile.dialect import compute_ops as compute
from tawa.tile.dialect import value_ops as values

EQUAL = -1
"""In place of a dimension: both values are the same."""


class Apart(Exception):
    """An op that does not treat boxes apart: the one of the large tile, and why."""

    def __init__(self, op: Operation, why: str) -> None:
        super().__init__(why)
        self.op, self.why = op, why


def check_apart(one: ModuleOp, all_of_them: ModuleOp) -> None:
    """Raises `Apart` unless a leaf's program on all boxes does to each what that on one does."""
    _blocks(one.body.block, all_of_them.body.block)


def _blocks(one: Block, other: Block) -> None:
    for small, large in zip(one.ops, other.ops, strict=False):
        if small.name != large.name or len(small.regions) != len(large.regions):
            raise Apart(large, "the leaf's code depends on how many elements its tiles have")
        _op(small, large)
        for region, other_region in zip(small.regions, large.regions, strict=True):
            for block, other_block in zip(region.blocks, other_region.blocks, strict=True):
                _blocks(block, other_block)
    if len(list(one.ops)) != len(list(other.ops)):
        raise Apart(list(other.ops)[-1], "the leaf's code depends on how many elements there are")


def _op(small: Operation, large: Operation) -> None:
    if hands_boxes(small) or is_terminator(large) or isinstance(large, func.FuncOp):
        return
    if small.properties != large.properties:
        raise Apart(large, "a number follows from how many elements the tiles have")
    given = [_dim(a, b, large) for a, b in zip(small.operands, large.operands, strict=True)]
    made = [_dim(a, b, large) for a, b in zip(small.results, large.results, strict=True)]
    if isinstance(large, scf.ForOp | scf.IfOp | scf.WhileOp):
        return  # values are handed on as they are: what makes them is looked at
    if not is_pure(large):
        raise Apart(large, f"`{large.name}` does more than make a value")
    if all(d == EQUAL for d in (*given, *made)):
        return
    rule = _RULES.get(type(large))
    if rule is None or not all(rule(small, large, given, d) for d in made):
        raise Apart(large, f"`{large.name}` combines elements of different boxes")


def hands_boxes(op: Operation) -> bool:
    """Whether a leaf's own program gets or gives a tile by an op: a whole one."""
    return any(v is not None and isinstance(v.type, DescType) for v in through(op, GLOBAL))


def _dim(small: SSAValue, large: SSAValue, op: Operation) -> int:
    """The dimension along which a value is made of those of boxes; `EQUAL` if there is none."""
    one, other = shape_of(small.type), shape_of(large.type)
    if one == other:
        return EQUAL
    found = [d for d, (a, b) in enumerate(zip(one, other, strict=False)) if a != b]
    if len(one) != len(other) or len(found) != 1 or other[found[0]] % one[found[0]]:
        raise Apart(op, f"a tile of {one} elements becomes one of {other}")
    return found[0]


def _elementwise(small: Operation, large: Operation, given: Sequence[int], made: int) -> bool:
    shapes = [bool(shape_of(operand.type)) for operand in large.operands]
    return all(d == made for d, tile in zip(given, shapes, strict=True) if tile)


def _splat(small: Operation, large: Operation, given: Sequence[int], made: int) -> bool:
    return given[0] == EQUAL


def _broadcast(small: Operation, large: Operation, given: Sequence[int], made: int) -> bool:
    if given[0] != EQUAL:
        return given[0] == made
    return shape_of(large.operands[0].type)[made] == 1


def _expand(small: Operation, large: Operation, given: Sequence[int], made: int) -> bool:
    assert isinstance(large, values.ExpandDims)
    return made == given[0] + (large.axis.value.data <= given[0])


def _trans(small: Operation, large: Operation, given: Sequence[int], made: int) -> bool:
    assert isinstance(large, values.Trans)
    return large.permutation[made] == given[0]


def _reshape(small: Operation, large: Operation, given: Sequence[int], made: int) -> bool:
    """The dimension stays what it is, and so does what lies before it."""
    before, after = shape_of(small.operands[0].type), shape_of(small.results[0].type)
    return (
        prod(before[: given[0]]) == prod(after[:made])
        and before[given[0]] == after[made]
        and given[0] != EQUAL
    )


def _reduce(small: Operation, large: Operation, given: Sequence[int], made: int) -> bool:
    assert isinstance(large, compute.Reduce | compute.ArgReduce)
    axis = large.axis.value.data
    return axis != given[0] and made == given[0] - (axis < given[0])


def _scan(small: Operation, large: Operation, given: Sequence[int], made: int) -> bool:
    assert isinstance(large, compute.Scan)
    return large.axis.value.data != given[0] == made


def _dot(small: Operation, large: Operation, given: Sequence[int], made: int) -> bool:
    """Rows of A give rows, columns of B columns, and matrices of a batch matrices."""
    a, b, acc = given
    rank = len(shape_of(large.results[0].type))
    rows, columns = made == rank - 2, made == rank - 1
    return acc == made and a == (EQUAL if columns else made) and b == (EQUAL if rows else made)


_Rule = Callable[[Operation, Operation, Sequence[int], int], bool]
_RULES: dict[type[Operation], _Rule] = {
    Map: _elementwise,
    values.Splat: _splat,
    values.Broadcast: _broadcast,
    values.ExpandDims: _expand,
    values.Trans: _trans,
    values.Reshape: _reshape,
    compute.Reduce: _reduce,
    compute.ArgReduce: _reduce,
    compute.Scan: _scan,
    compute.Dot: _dot,
}
"""Whether an op's result is made of its results for boxes, if its operands are."""
