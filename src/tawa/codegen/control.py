"""Lowering of control flow and scalars; values carried through loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.aref.dialect import ops as aref
from tawa.base.layout import Layout
from tawa.codegen.fragments import fragment
from tawa.codegen.group_lowering import GroupLowering
from tawa.hopper.dialect.structure import BlockId, NumBlocks, PlanEntry
from tawa.ir.elementwise import scalar_constant
from tawa.ir.loops import terminator
from tawa.tile.dialect.ops import NumPrograms, ProgramId


def expand(g: GroupLowering, value: SSAValue, layout: Layout | None) -> list[SSAValue]:
    """The new values that stand for an old one; a tile's is a fragment in the layout."""
    if isinstance(value.type, aref.CursorType):
        cursor = g.cursors[value]
        return [cursor.slot, cursor.phase]
    return [g.scalar(value) if layout is None else fragment(g, value, layout)]


def expand_all(
    g: GroupLowering, values: Sequence[SSAValue], like: Sequence[SSAValue]
) -> list[SSAValue]:
    """Expand values in the layouts of the values they are carried to."""
    found: list[SSAValue] = []
    for value, target in zip(values, like, strict=True):
        found += expand(g, value, g.layouts.of.get(target))
    return found


def lower_for(g: GroupLowering, op: scf.ForOp) -> None:
    """A loop; its carried values are expanded."""
    body = op.body.block
    inits = expand_all(g, op.iter_args, body.args[1:])
    types = [t for a in body.args[1:] for t in g.carried_types(a)]
    block = Block(arg_types=[body.args[0].type, *types])
    block.args[0].name_hint = body.args[0].name_hint
    g.scalars[body.args[0]] = block.args[0]
    g.bind_all(body.args[1:], block.args[1:])
    bounds = [g.scalar(v) for v in (op.lb, op.ub, op.step)]

    def inner() -> None:
        g.ops(body)
        g.do(scf.YieldOp(*expand_all(g, terminator(body).operands, body.args[1:])))

    g.inside(block, inner)
    loop = scf.ForOp(bounds[0], bounds[1], bounds[2], inits, block)
    g.do(loop)
    g.bind_all(op.results, loop.results)


def lower_if(g: GroupLowering, op: scf.IfOp) -> None:
    """A branch; its results are expanded."""
    types = [t for r in op.results for t in g.carried_types(r)]
    regions: list[Region] = []
    for region in op.regions:
        if not region.blocks:
            regions.append(Region())
            continue
        block, source = Block(), region.block

        def inner(source: Block = source) -> None:
            g.ops(source)
            g.do(scf.YieldOp(*expand_all(g, terminator(source).operands, op.results)))

        g.inside(block, inner)
        regions.append(Region(block))
    branch = scf.IfOp(g.scalar(op.cond), types, regions[0], regions[1])
    g.do(branch)
    g.bind_all(op.results, branch.results)


def lower_while(g: GroupLowering, op: scf.WhileOp) -> None:
    """A while loop; its carried values are expanded."""
    before, after = op.before_region.block, op.after_region.block
    inits = expand_all(g, op.arguments, before.args)
    first = Block(arg_types=[t for a in before.args for t in g.carried_types(a)])
    second = Block(arg_types=[t for a in after.args for t in g.carried_types(a)])
    g.bind_all(before.args, first.args)
    g.bind_all(after.args, second.args)

    def check() -> None:
        g.ops(before)
        condition, *passed = terminator(before).operands
        g.do(scf.ConditionOp(g.scalar(condition), *expand_all(g, passed, after.args)))

    def step() -> None:
        g.ops(after)
        g.do(scf.YieldOp(*expand_all(g, terminator(after).operands, before.args)))

    g.inside(first, check)
    g.inside(second, step)
    types = [a.type for a in second.args]
    loop = scf.WhileOp(inits, types, Region(first), Region(second))
    g.do(loop)
    g.bind_all(op.results, loop.results)


def lower_constant(g: GroupLowering, op: arith.ConstantOp) -> None:
    """A scalar constant."""
    assert isinstance(op.value, IntegerAttr | FloatAttr)
    g.scalars[op.result] = g.add(scalar_constant(op.value), op.result.name_hint)


def lower_program(g: GroupLowering, op: ProgramId | NumPrograms) -> None:
    """The CTA's place in the grid, or the grid's size."""
    kind = BlockId if isinstance(op, ProgramId) else NumBlocks
    g.scalars[op.result] = g.add(kind(op.axis.value.data), op.result.name_hint)


def lower_cta(g: GroupLowering, op: aref.CtaIndex | aref.CtaCount) -> None:
    """Start and step of a persistent kernel's loop."""
    kind = BlockId if isinstance(op, aref.CtaIndex) else NumBlocks
    g.scalars[op.result] = g.add(kind(0), op.result.name_hint)


def lower_plan_entry(g: GroupLowering, op: aref.PlanEntry) -> None:
    """A number of the launch's plan."""
    entry = PlanEntry(g.scalar(op.plan), g.scalar(op.index))
    g.scalars[op.result] = g.add(entry, op.result.name_hint)


def lower_team(g: GroupLowering, op: aref.TeamIndex) -> None:
    """Which team this is."""
    g.scalars[op.result] = g.team_index()


def lower_edge_row(g: GroupLowering, op: aref.EdgeRow) -> None:
    """The first or last of the rows that the warp group has."""
    own = op.rows.value.data // g.groups
    above = g.constant(0)
    if g.groups > 1:
        above = g.map("muli", g.group_index(), g.constant(own))
    g.scalars[op.result] = g.plus(above, own - 1 if op.edge.data == "last" else 0)


CONTROL: dict[type[Operation], Callable[..., None]] = {
    scf.ForOp: lower_for,
    scf.IfOp: lower_if,
    scf.WhileOp: lower_while,
    arith.ConstantOp: lower_constant,
    ProgramId: lower_program,
    NumPrograms: lower_program,
    aref.CtaIndex: lower_cta,
    aref.CtaCount: lower_cta,
    aref.PlanEntry: lower_plan_entry,
    aref.TeamIndex: lower_team,
    aref.EdgeRow: lower_edge_row,
}
"""Lowering of control flow and scalars."""
