"""Loops split where a mask of a whole tile holds for every element: there it is left out.

A loop over blocks of keys or columns masks a tile in every iteration, though only the blocks at an
edge (a diagonal, a window's side, the end of a row) have something to mask. Where the mask compares
sums of indices, the iterations in which it holds for all elements follow from the loop's counter:
the first ones, the last ones, or some in between. They become a loop of their own without the mask,
between loops that keep it; the iterations and their order are the same.

A loop that may run on from tile to tile stays whole: several would each fill and drain a pipeline
in every tile. `guarded_masks` puts its masks behind a branch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp, i1
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tawa.base.options import Options
from tawa.base.spans import copy_span, span_of
from tawa.base.types import shape_of
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.loops import MasksLeftOut
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant
from tawa.ir.properties import ONE_PROGRAM, TIDY
from tawa.ir.walking import all_of
from tawa.tile.analysis.linear import Linear, margin
from tawa.tile.analysis.masks import is_choice
from tawa.tile.analysis.zero import scalar_constant
from tawa.tile.dialect.ops import Dot, Splat, spreads
from tawa.tile.passes.simplify import simplify

MOST_PRODUCTS = 2
"""Products beside each mask: with more of them it is a small part of an iteration (measured on
attention forward, which has two; chosen for more, whose loops are long to compile twice)."""


@dataclass(frozen=True)
class SplitLoops:
    """Loops over masked tiles become loops with and without the mask."""

    options: Options
    decided: Decisions
    name: ClassVar[str] = "split-loops"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Split the innermost loop of every such mask, once."""
        loops = all_of(module, scf.ForOp)
        least = self.options.machine.branch_elements
        apart = [loop for loop in loops if not runs_on(loop, self.options)]
        found = [split for loop in apart if (split := MaskedLoop.of(loop, least)) is not None]
        inner = [split for split in found if not any(split.is_around(other) for other in found)]
        for split in inner:
            split.apply()
            self.decided.add(MasksLeftOut(len(split.masks), span=span_of(split.loop)))
        if found:
            simplify(module)


@dataclass(frozen=True)
class MaskedLoop:
    """A loop, its masks, and sums that are at least zero in iterations without a mask."""

    loop: scf.ForOp
    masks: list[SSAValue]
    early: list[Linear]
    """Those that fall with the counter: they hold in the first iterations."""
    late: list[Linear]

    @staticmethod
    def of(loop: scf.ForOp, least: int) -> MaskedLoop | None:
        """What a loop splits into, if its tiles have at least so many elements."""
        step, counter = scalar_constant(loop.step), loop.body.block.args[0]
        if step is None or step <= 0:
            return None
        masks: list[SSAValue] = []
        early: list[Linear] = []
        late: list[Linear] = []
        for op in loop.body.block.ops:
            found = margin(op.results[0]) if isinstance(op, Map) and _is_costly(op, least) else None
            if found is None or counter not in found.terms or not _is_known_before(found, loop):
                continue
            masks.append(op.results[0])
            (early if found.terms[counter] < 0 else late).append(found)
        products = sum(isinstance(op, Dot) for op in loop.body.block.ops)
        worth = len(masks) > 0 and products <= MOST_PRODUCTS * len(masks)
        return MaskedLoop(loop, masks, early, late) if worth else None

    def is_around(self, other: MaskedLoop) -> bool:
        """Whether the other's loop stands in this one's, of which it would be copied thrice."""
        return self is not other and self.loop.is_ancestor(other.loop)

    def apply(self) -> None:
        """Put up to three loops in the place of the loop."""
        loop, builder = self.loop, Before(self.loop)
        first = self.first(builder)
        end = self.end(builder)
        starts = list(loop.iter_args)
        if first is not None:
            starts = builder.loop(loop.lb, builder.least(first, loop.ub), starts, [])
        begin = loop.lb if first is None else first
        if end is not None and first is not None:
            end = builder.greatest(end, first)
        stop = loop.ub if end is None else builder.least(end, loop.ub)
        starts = builder.loop(begin, stop, starts, self.masks)
        if end is not None:
            starts = builder.loop(end, loop.ub, starts, [])
        for result, value in zip(loop.results, starts, strict=True):
            value.name_hint = result.name_hint
            result.replace_all_uses_with(value)
        loop.detach()
        loop.erase()

    def end(self, b: Before) -> SSAValue | None:
        """The first counter for which some early mask does not hold everywhere."""
        found: SSAValue | None = None
        for sum_ in self.early:
            past = b.add("addi", self._last(b, sum_), b.loop_step)
            end = self._counter_after(b, past)
            found = end if found is None else b.least(found, end)
        return found

    def first(self, b: Before) -> SSAValue | None:
        """The first counter for which all late masks hold everywhere."""
        found: SSAValue | None = None
        for sum_ in self.late:
            # It holds for counters above `last` of the negative sum less one.
            below = sum_.times(-1).plus(Linear(-1, -1))
            past = b.add("addi", self._last(b, Linear(below.most, below.most, below.terms)),
                         b.loop_step)  # fmt: skip
            first = self._counter_after(b, past)
            found = first if found is None else b.greatest(found, first)
        return found

    def _last(self, b: Before, sum_: Linear) -> SSAValue:
        """The greatest whole number that may stand for the counter and leave the sum at zero."""
        counter = self.loop.body.block.args[0]
        rest = {v: c for v, c in sum_.terms.items() if v is not counter}
        return b.floor(b.sum(Linear(sum_.least, sum_.least, rest)), -sum_.terms[counter])

    def _counter_after(self, b: Before, past: SSAValue) -> SSAValue:
        """The first counter that is at least as far behind `past` as a step: lb + k * step."""
        distance = b.greatest(b.add("subi", past, self.loop.lb), b.constant(0))
        return b.add(
            "addi", self.loop.lb, b.add("muli", b.add("divsi", distance, b.loop_step), b.loop_step)
        )


def runs_on(loop: scf.ForOp, options: Options) -> bool:
    """Whether a loop's pipeline may run on from tile to tile: a tile has no other products."""
    kernel = loop.parent_op()
    if not options.persistent or options.ping_pong or not isinstance(kernel, func.FuncOp):
        return False
    products = all_of(kernel, Dot)
    return len(products) > 0 and all(op.parent_op() is loop for op in products)


def _is_costly(op: Map, least: int) -> bool:
    """Whether a comparison is a mask of so many elements, which are chosen or added one by one."""
    if shape_of(op.result.type) and math.prod(shape_of(op.result.type)) == 1:
        return False
    work, seen = [op.result], set[SSAValue]()
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            user = use.operation
            if is_choice(user) and use.index == 0:
                if _elements(user.results[0]) >= least or _is_spread_over(user.results[0], least):
                    return True
            elif spreads(user) or (isinstance(user, Map) and user.function.data in ("andi", "ori")):
                work.append(user.results[0])
    return False


def _elements(value: SSAValue) -> int:
    return math.prod(shape_of(value.type))


def _is_spread_over(value: SSAValue, least: int) -> bool:
    """Whether a choice by row or column is repeated over a tile of so many elements."""
    users = (use.operation for use in value.uses)
    return any(
        _elements(user.results[0]) >= least or _is_spread_over(user.results[0], least)
        for user in users
        if spreads(user)
    )


def _is_known_before(found: Linear, loop: scf.ForOp) -> bool:
    """Whether all scalars of a sum, but the loop's counter, are there before the loop."""
    counter = loop.body.block.args[0]
    kinds = {value.type for value in found.terms}
    return kinds == {counter.type} and all(
        value is counter or not _is_inside(value, loop) for value in found.terms
    )


def _is_inside(value: SSAValue, loop: scf.ForOp) -> bool:
    block: Block | None = value.owner if isinstance(value, BlockArgument) else value.owner.parent  # pyright: ignore
    while block is not None:
        parent = block.parent_op()
        if parent is loop:
            return True
        block = parent.parent if parent is not None else None
    return False


class Before:
    """Puts ops before a loop."""

    def __init__(self, loop: scf.ForOp) -> None:
        self.old = loop
        self.type = loop.lb.type
        self.loop_step = loop.step

    def insert(self, op: Operation) -> SSAValue:
        """Put an op before the loop; its first result."""
        copy_span(self.old, [op])
        assert self.old.parent is not None
        self.old.parent.insert_op_before(op, self.old)
        return op.results[0]

    def constant(self, number: int) -> SSAValue:
        """A number of the counter's type."""
        return self.insert(integer_constant(number, self.type))

    def add(self, function: str, left: SSAValue, right: SSAValue) -> SSAValue:
        """What a function of two scalars gives."""
        return self.insert(Map(function, [left, right]))

    def least(self, left: SSAValue, right: SSAValue) -> SSAValue:
        """The smaller of two."""
        return self.add("minsi", left, right)

    def greatest(self, left: SSAValue, right: SSAValue) -> SSAValue:
        """The larger of two."""
        return self.add("maxsi", left, right)

    def sum(self, wanted: Linear) -> SSAValue:
        """A sum as ops."""
        found = self.constant(wanted.least)
        for value, count in wanted.terms.items():
            product = value if count == 1 else self.add("muli", value, self.constant(count))
            found = self.add("addi", product, found)
        return found

    def floor(self, dividend: SSAValue, divisor: int) -> SSAValue:
        """A quotient, rounded down also below zero."""
        if divisor == 1:
            return dividend
        by = self.constant(divisor)
        quotient, rest = self.add("divsi", dividend, by), self.add("remsi", dividend, by)
        below = self.insert(Map("cmpi_slt", [rest, self.constant(0)]))
        one_less = self.add("subi", quotient, self.constant(1))
        return self.insert(Map("select", [below, one_less, quotient]))

    def loop(
        self, begin: SSAValue, end: SSAValue, starts: list[SSAValue], left_out: list[SSAValue]
    ) -> list[SSAValue]:
        """A copy of the loop for some counters, where some conditions hold; what it gives."""
        old = self.old
        values = dict[SSAValue, SSAValue]()
        old_operands = (old.lb, old.ub, old.step, *old.iter_args)
        assert isinstance(self.type, IntegerType)
        new = old.clone(values)
        for i, value in enumerate((begin, end, old.step, *starts)):
            new.operands[i] = value
        assert len(old_operands) == len(new.operands)
        for condition in left_out:
            inside = values[condition]
            owner = inside.owner
            assert isinstance(owner, Operation)
            block = owner.parent
            assert block is not None
            true = arith.ConstantOp(IntegerAttr(1, i1))
            made: list[Operation] = [true]
            if shape_of(condition.type):
                made.append(Splat(true.result, shape_of(condition.type)))
            block.insert_ops_before(made, owner)
            inside.replace_all_uses_with(made[-1].results[0])
        self.insert(new) if new.results else old.parent.insert_op_before(new, old)  # pyright: ignore
        return list(new.results)
