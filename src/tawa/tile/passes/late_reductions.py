"""Sums and extremes that a loop carries are combined element by element, and reduced behind it.

`total += sum(x)` meets all threads in every iteration. The order of a reduction is not specified:
the elements of `x` are added to those of the iterations before, and what is left is reduced once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType, ModuleOp
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.rewriter import Rewriter

from tawa.base.layout import LANES
from tawa.base.numerics import constant_attribute
from tawa.base.options import Options
from tawa.base.spans import copy_span
from tawa.base.types import element_of, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map
from tawa.ir.loops import terminator
from tawa.ir.properties import TIDY
from tawa.ir.walking import all_of, has
from tawa.tile.dialect.ops import Dot, Reduce, Splat

NEUTRAL = {"addf": 0.0, "addi": 0, "maxnumf": math.nan, "minnumf": math.nan,
           "maximumf": -math.inf, "minimumf": math.inf}  # fmt: skip
"""What changes no element, by the functions that are put off; of those that pass over NaN, NaN
itself: an infinity would replace it where all others are NaN too."""
MOST_REGISTERS = 32
"""Elements of a thread that are carried for all sums of a loop: as many words as strips load ahead
(`hopper/passes/strips.py`), since each element that an iteration loads is carried once."""


@dataclass(frozen=True)
class LateReductions:
    """Put reductions off to behind the loop that carries them."""

    options: Options
    name: ClassVar[str] = "late-reductions"
    contract: ClassVar[Contract] = Contract(invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Rewrite the loops that multiply nothing."""
        loops = all_of(module, scf.ForOp)
        for loop in reversed(loops):  # inner ones first: what they leave, an outer one may carry
            if has(loop, Dot):
                continue
            left = MOST_REGISTERS * LANES * self.options.num_warps
            for argument in loop.body.block.args[1:]:
                reduce = _carried(loop, argument)
                size = math.prod(shape_of(reduce.value.type)) if reduce is not None else 0
                if reduce is not None and size <= left:
                    _put_off(loop, argument, reduce)
                    left -= size


def _carried(loop: scf.ForOp, argument: BlockArgument) -> Reduce | None:
    """What is combined into a carried value in each iteration, and is used for nothing else."""
    combine = terminator(loop.body.block).operands[argument.index - 1].owner
    if not isinstance(combine, Map) or combine.parent is not loop.body.block:
        return None
    if combine.function.data not in NEUTRAL or len(combine.arguments) != 2:
        return None
    one, other = combine.arguments
    term = other if one is argument else one
    reduce = term.owner
    alone = argument.has_one_use() and combine.result.has_one_use() and term.has_one_use()
    if argument not in (one, other) or not alone or not isinstance(reduce, Reduce):
        return None
    if reduce.kind.data != combine.function.data or reduce.parent is not loop.body.block:
        return None
    return reduce if _is_exact_enough(element_of(reduce.value.type)) else None


def _is_exact_enough(element: Attribute) -> bool:
    """Whether many numbers of a type may be added one after the other."""
    return isinstance(element, Float32Type | Float64Type | IntegerType)


def _put_off(loop: scf.ForOp, argument: BlockArgument, reduce: Reduce) -> None:
    place, body, outer = argument.index - 1, loop.body.block, loop.parent
    assert outer is not None
    kind, axis, tile = reduce.kind.data, reduce.axis.value.data, reduce.value.type
    start, combine = loop.iter_args[place], terminator(body).operands[place].owner
    assert isinstance(combine, Map)
    begin = ConstantOp(constant_attribute(np.asarray(NEUTRAL[kind]), element_of(tile)))
    parts = Splat(begin.result, shape_of(tile))
    outer.insert_ops_before([begin, parts], loop)
    loop.operands[3 + place] = parts.result
    result = Rewriter.replace_value_with_new_type(loop.results[place], tile)
    old: SSAValue = Rewriter.replace_value_with_new_type(argument, tile)
    value = reduce.value
    together = Map(kind, [old, value])
    copy_span(combine, [together])
    body.insert_op_before(together, combine)
    terminator(body).operands[place] = together.result
    for op in (combine, reduce):
        op.detach()
        op.erase()
    uses = list(result.uses)
    whole = Reduce(result, axis, kind)
    total = Map(kind, [start, whole.result])
    total.result.name_hint = result.name_hint
    copy_span(loop, [begin, parts, whole, total])
    outer.insert_ops_after([whole, total], loop)
    for use in uses:
        use.operation.operands[use.index] = total.result
