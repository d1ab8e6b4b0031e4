"""Loops whose iterations teams may share: those that add up products of loaded tiles, no more."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import Float32Type, i32
from xdsl.ir import BlockArgument, Operation, SSAValue

from tawa.aref.dialect.ops import GetEnter, WarpGroup
from tawa.base.options import RequestUnmet
from tawa.base.spans import span_of
from tawa.base.types import element_of, shape_of
from tawa.ir.effects import SLOT, TAKEN, is_pure, is_terminator, only_on, only_reads
from tawa.ir.elementwise import Map
from tawa.ir.loops import terminator
from tawa.ir.walking import every, has
from tawa.machine.chips import SM_90A
from tawa.tile.dialect.ops import Dot


class SlicesNotPossible(RequestUnmet):
    """Teams cannot share the iterations of this kernel's loop."""

    explanation = (
        "`slice_k` deals the iterations of a loop over K to teams of warps. The loop has to be one "
        "that a loading role loads for, that carries nothing but sums of products in f32 or i32, "
        "and around which there is no other loop."
    )
    example = """
import tawa
import tawa.language as tl


@tawa.jit
def largest(a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    best = tl.full((M, N), -float("inf"), tl.float32)
    for k in range(0, K, 64):
        best = tl.maximum(best, tl.dot(a.load([0, k]), b.load([0, k]).T))
    c.store([0, 0], best.to(tl.float16))


tile = "desc<f16,{}x{}>".format
largest.compile(tile(64, 64), tile(64, 64), tile(64, 64), "i32", 64, 64, slice_k=2)
"""


def loop_to_deal(consumer: WarpGroup, groups: Sequence[WarpGroup], slices: int) -> scf.ForOp:
    """The loop whose iterations so many teams may share. Raises `SlicesNotPossible`."""
    with_products = [op for op in consumer.body.block.ops if has(op, Dot)]
    loop = next((op for op in with_products if isinstance(op, scf.ForOp)), None)
    if len(groups) == 1:
        raise _refusal(consumer, "one role does everything: nothing is loaded ahead")
    if loop is None or len(with_products) > 1:
        raise _refusal(consumer, "no single loop has all products")
    if consumer.teams.value.data > 1:
        raise _refusal(loop, "teams take turns on its tiles already")
    warps = sum(g.warps.value.data for g in groups)
    warps += (slices - 1) * consumer.warps.value.data
    why = obstacle(loop)
    if why is None and warps > SM_90A.cta_warps:
        why = f"{warps} warps are more than a CTA has"
    if why is not None:
        raise _refusal(loop, why)
    return loop


def most_slices(consumer: WarpGroup, groups: Sequence[WarpGroup]) -> int:
    """How many teams may share the iterations of a role's loop, at most; 1 if none may."""
    for slices in (4, 3, 2):
        try:
            loop_to_deal(consumer, groups, slices)
        except SlicesNotPossible:
            continue
        return slices
    return 1


def _refusal(op: Operation, why: str) -> SlicesNotPossible:
    return SlicesNotPossible(
        f"the iterations of this kernel's loop cannot be dealt to teams: {why}",
        span=span_of(op),
        expected="a loop over K that adds up products of loaded tiles, and nothing else",
        found=why,
        hint="leave `slice_k` unset",
    )


def obstacle(loop: scf.ForOp) -> str | None:
    """Why a computing role's loop has no slices; None if it has."""
    body, block = loop.body.block, loop.parent
    assert block is not None
    inside = [o for op in body.ops for o in every(op)]
    gets = [op for op in inside if isinstance(op, GetEnter)]
    if loop.lb.type != i32:
        return "its counter has more than 32 bits"
    if any(op.parent is not body for op in gets) or len({op.ref for op in gets}) < len(gets):
        return "an iteration does not take one slot of each ring"
    if not all(_repeats(op) or only_on(op, (TAKEN, SLOT)) for op in inside):
        return "it does more than add up products"
    if not loop.iter_args or not all(_is_sum(loop, a) for a in body.args[1:]):
        return "it carries more than sums of products in f32 or i32"
    before = [o for op in block.ops if op.is_before_in_block(loop) for o in every(op)]
    if not all(map(_repeats, before)):
        return "the program does something before it"
    refs = {op.ref for op in gets}
    others = (op for op in every(block) if isinstance(op, GetEnter) and op not in gets)
    return "its rings serve other code, too" if any(o.ref in refs for o in others) else None


def _repeats(op: Operation) -> bool:
    """Whether several teams may do what one did: it computes, or reads what nobody writes."""
    return bool(op.regions) or is_terminator(op) or is_pure(op) or only_reads(op)


def _is_sum(loop: scf.ForOp, argument: BlockArgument) -> bool:
    """Whether products and terms are added to an argument, and it is used for nothing else."""
    value: SSAValue = argument
    passed = terminator(loop.body.block).operands[argument.index - 1]
    if element_of(argument.type) not in (Float32Type(), i32) or len(shape_of(argument.type)) != 2:
        return False
    while value is not passed or value is argument:
        uses = list(value.uses)
        if len(uses) != 1:
            return False
        op = uses[0].operation
        adds = isinstance(op, Dot) and op.acc is value
        if isinstance(op, Map) and op.function.data in ("addf", "addi"):
            adds = len(op.arguments) == 2
        if not adds or op.parent is not loop.body.block:
            return False
        value = op.results[0]
    return value.has_one_use()
