"""Persistent kernels: one CTA runs several programs of a plain grid, one after the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32, i64
from xdsl.ir import Block, Operation, SSAValue

from tawa.aref.dialect import ops as aref
from tawa.base.tile_scheduler import Work
from tawa.base.types import PlanType
from tawa.ir.elementwise import Map
from tawa.ir.kernels import add_arguments
from tawa.ir.walking import every
from tawa.partition.work import work_of
from tawa.tile.dialect.ops import NumPrograms, ProgramId


class _Arithmetic:
    """Integer ops, collected in order."""

    def __init__(self) -> None:
        self.ops: list[Operation] = []

    def add(self, op: Operation) -> SSAValue:
        """Collect an op; returns its result."""
        self.ops.append(op)
        return op.results[0]

    def number(self, value: int) -> SSAValue:
        """A constant."""
        return self.add(arith.ConstantOp(IntegerAttr(value, i32)))

    def __call__(self, function: str, *operands: SSAValue) -> SSAValue:
        """A function of values."""
        return self.add(Map(function, operands))


def _programs_of(
    cta: SSAValue, ctas: SSAValue, total: SSAValue, deal: int
) -> tuple[list[Operation], SSAValue]:
    """How many programs a CTA has that takes `deal` consecutive ones at a time."""
    a = _Arithmetic()
    each = a.number(deal)
    round_ = a("muli", each, ctas)
    whole = a("muli", a("divsi", total, round_), each)
    rest = a("subi", a("remsi", total, round_), a("muli", each, cta))
    count = a("addi", whole, a("minsi", a("maxsi", rest, a.number(0)), each))
    return a.ops, count


def _dealt(
    iteration: SSAValue, cta: SSAValue, ctas: SSAValue, deal: int
) -> tuple[list[Operation], SSAValue]:
    """The program that a CTA runs in an iteration of its loop."""
    a = _Arithmetic()
    each = a.number(deal)
    hand = a("addi", a("muli", a("divsi", iteration, each), ctas), cta)
    program = a("addi", a("muli", hand, each), a("remsi", iteration, each))
    return a.ops, program


@dataclass(frozen=True)
class _Planned:
    """What a CTA's iterations share: those in the grid's order, of how many CTAs, and the rest."""

    plan: SSAValue
    cta: SSAValue
    ctas: SSAValue
    ordered: SSAValue
    base: SSAValue
    """The first program that is planned."""
    entries: SSAValue
    """Where in the plan the entry of iteration 0 were, if all iterations had one."""


def _planned(plan: SSAValue, cta: SSAValue) -> tuple[list[Operation], SSAValue, _Planned]:
    """Of a CTA of a plan (`base.tile_scheduler`): its iterations, and what they share."""
    a = _Arithmetic()
    ordered, ctas = (a.add(aref.PlanEntry(plan, a.number(n))) for n in (0, 1))
    begin, end = (a.add(aref.PlanEntry(plan, a("addi", a.number(n), cta))) for n in (2, 3))
    base = a("muli", ordered, ctas)
    mine = a("select", a("cmpi_slt", cta, ctas), ordered, a.number(0))
    entries = a("subi", begin, mine)
    iterations = a("subi", end, entries)
    return a.ops, iterations, _Planned(plan, cta, ctas, mine, base, entries)


def _planned_program(iteration: SSAValue, of: _Planned) -> tuple[list[Operation], SSAValue]:
    """The program that a CTA of a plan runs in an iteration of its loop."""
    a = _Arithmetic()
    late = a("addi", of.entries, a("maxsi", iteration, of.ordered))
    planned = a("addi", of.base, a.add(aref.PlanEntry(of.plan, late)))
    in_order = a("addi", a("muli", iteration, of.ctas), of.cta)
    return a.ops, a("select", a("cmpi_slt", iteration, of.ordered), in_order, planned)


def _placed(
    program: SSAValue, reciprocals: Sequence[SSAValue], sizes: Sequence[SSAValue]
) -> tuple[list[Operation], list[SSAValue]]:
    """A program's place in the grid, of which it is the so manyth program.

    The launch gives the sizes' reciprocals: a division takes long, and every tile begins with it.
    """
    a, ids, rest = _Arithmetic(), list[SSAValue](), program
    for by, size in zip(reciprocals, sizes, strict=False):
        whole = a("quotient", rest, by)
        ids.append(a("subi", rest, a("muli", whole, size)))
        rest = whole
    return a.ops, [*ids, rest]


def _replace_ids(body: Block, ids: Sequence[SSAValue], sizes: Sequence[SSAValue]) -> None:
    """Let a program read its place in the grid, and the grid's sizes, from these values."""
    for op in every(body):
        if isinstance(op, ProgramId | NumPrograms):
            values = ids if isinstance(op, ProgramId) else sizes
            op.result.replace_all_uses_with(values[op.axis.value.data])
            op.detach()
            op.erase()


def make_persistent(kernel: func.FuncOp, deal: int | str = 1) -> Work | None:
    """Wrap a plain grid's program into a loop over the programs of one CTA.

    The logical grid's sizes, and the reciprocals of two of them, become new arguments; `program_id`
    is computed from the loop's counter. A CTA takes `deal` consecutive programs, then the next ones
    that no CTA before it takes: with 1, the counter starts at the CTA's index and steps by the
    number of CTAs. With "even", a plan says which programs it takes, an argument before the grid's
    sizes; then the programs' work is returned.
    """
    block = kernel.body.block
    plan = work = None
    if deal == "even":
        work = work_of(kernel)
        kernel.attributes["tawa.work"] = StringAttr(json.dumps(work.steps))
        (plan,) = add_arguments(kernel, [PlanType()])
        plan.name_hint = "plan"
    *reciprocals, x_size, y_size, z_size = add_arguments(kernel, [i64] * 2 + [i32] * 3)
    sizes = x_size, y_size, z_size
    for axis, size in enumerate(sizes):
        size.name_hint = f"grid_{'xyz'[axis]}"
    for axis, value in enumerate(reciprocals):
        value.name_hint = f"reciprocal_{'xyz'[axis]}"
    inner = [op for op in block.ops if not isinstance(op, func.ReturnOp)]
    start, count = aref.CtaIndex(), aref.CtaCount()
    area = Map("muli", [sizes[0], sizes[1]])
    total = Map("muli", [area.result, sizes[2]])
    body = Block(arg_types=[i32])
    program: SSAValue = body.args[0]
    bounds: list[Operation] = []
    first, end, step = start.result, total.result, count.result
    for op in inner:
        op.detach()
    if plan is not None:
        zero, one = (arith.ConstantOp(IntegerAttr(n, i32)) for n in (0, 1))
        bounds, end, shared = _planned(plan, start.result)
        bounds, first, step = [zero, one, *bounds], zero.result, one.result
        found, program = _planned_program(body.args[0], shared)
        body.add_ops(found)
    elif isinstance(deal, int) and deal > 1:
        zero, one = (arith.ConstantOp(IntegerAttr(n, i32)) for n in (0, 1))
        bounds, end = _programs_of(start.result, count.result, total.result, deal)
        bounds, first, step = [zero, one, *bounds], zero.result, one.result
        found, program = _dealt(body.args[0], start.result, count.result, deal)
        body.add_ops(found)
    program.name_hint = "program"
    places, ids = _placed(program, reciprocals, sizes)
    body.add_ops([*places, *inner, scf.YieldOp()])
    loop = scf.ForOp(first, end, step, [], body)
    loop.attributes["tawa.tile_loop"] = IntegerAttr(1, i32)
    last = block.last_op
    assert last is not None
    block.insert_ops_before([start, count, area, total, *bounds, loop], last)
    _replace_ids(body, ids, sizes)
    kernel.attributes["tawa.persistent"] = IntegerAttr(1, i32)
    return work
