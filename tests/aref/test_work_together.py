"""What warp groups that share a tile's rows do together, and what each may leave out by itself."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, UnitAttr, f16, f32, i1, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.aref.dialect.ops import (
    AnyAbove,
    Create,
    EdgeRow,
    GetEnter,
    PutEnter,
    Stage,
    ViewRead,
    WarpGroup,
)
from tawa.aref.passes.last_iteration_peeling import (
    LEFT_OUT,
    _end_early,  # pyright: ignore[reportPrivateUsage]
    obstacle,
    ring_of,
    shared_work,
)
from tawa.aref.passes.own_masks import OwnMasks
from tawa.base.types import PtrType
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.loops import OwnRowsMasked
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant
from tawa.tile.dialect.ops import (
    Arange,
    Broadcast,
    Dot,
    ExpandDims,
    Reduce,
    Splat,
    Store,
    Trans,
)

ROWS = 128
TILE, SUMS = TensorType(f16, (64, 64)), TensorType(f32, (ROWS, 64))
RING, WIDE = Create(2, [TILE]), Create(2, [TILE], multicast=True)


def made(kind: Any) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def product(b: SSAValue | None = None) -> Dot:
    view = GetEnter(RING.ref).views[0]
    return Dot(
        made(TensorType(f16, (ROWS, 64))), ViewRead(view).result if b is None else b, made(SUMS)
    )


def loop(*inside: Operation, step: Any = 1, starts: Any = (), gives: Any = ()) -> scf.ForOp:
    zero, end = integer_constant(0, i32), made(i32)
    by = integer_constant(step, i32).result if isinstance(step, int) else step
    body = Block(inside, arg_types=[i32, *(v.type for v in starts)])
    body.add_op(scf.YieldOp(*gives))
    return scf.ForOp(zero.result, end, by, list(starts), body)


def tile(*shape: int, element: Any = f32) -> SSAValue:
    return made(TensorType(element, shape))


def pointers() -> SSAValue:
    return made(TensorType(PtrType(f32), (ROWS,)))


def read() -> SSAValue:
    return ViewRead(GetEnter(RING.ref).views[0]).result


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Map("addf", [tile(ROWS), tile(ROWS)]), None),
        (lambda: Reduce(tile(ROWS, 64), 1, "addf"), None),
        (lambda: Reduce(tile(ROWS, 64), 0, "addf"), "they reduce along the rows together"),
        (lambda: product(), None),
        (lambda: product(Trans(read()).result), None),
        (lambda: product(tile(64, 64, element=f16)), "they store an operand"),
        (lambda: product(Trans(tile(64, 64, element=f16)).result), "they store an operand"),
        (lambda: GetEnter(RING.ref), None), (lambda: GetEnter(WIDE.ref), "a cluster, or a branch"),
        (lambda: PutEnter(RING.ref), "they do aref.put_enter together"),
        (lambda: Store(pointers(), tile(ROWS)), "they do tile.store together"),
        (lambda: Stage(tile(ROWS, 64)), "they do aref.stage together"),
        (lambda: AnyAbove(tile(ROWS, 64), tile(ROWS), 1), None),
    ],
)  # fmt: skip
def test_what_groups_do_together(make: Any, why: str | None) -> None:
    op = make()
    around = loop(op)
    found = shared_work(op, around)
    assert found is None if why is None else found is not None and found.startswith(why)


def test_slots_that_a_branch_takes() -> None:
    get = GetEnter(RING.ref)
    branch = scf.IfOp(made(i1), [], [get, scf.YieldOp()])
    around = loop(branch)
    assert shared_work(get, around) == "a cluster, or a branch, shares its slots"
    assert shared_work(branch, around) is None
    unknown = GetEnter(made(RING.ref.type))
    assert shared_work(unknown, loop(unknown)) == "a cluster, or a branch, shares its slots"


def of_products() -> tuple[list[Operation], SSAValue]:
    dot = product()
    return [dot], dot.result


@pytest.mark.parametrize(
    ("warps", "teams", "columns", "rows", "step", "why"),
    [
        (8, 1, False, 128, 1, None), (8, 2, False, 128, 1, "they do not share"),
        (8, 1, True, 128, 1, "they do not share"), (8, 1, False, 64, 1, "they do not share"),
        (12, 1, False, 128, 1, "they do not share"), (4, 1, False, 128, 1, None),
        (8, 1, False, 128, 2, "its step"), (8, 1, False, 128, "unknown", "its step"),
    ],
)  # fmt: skip
def test_groups_that_may_end_apart(
    warps: int, teams: int, columns: bool, rows: int, step: Any, why: str | None
) -> None:
    ops, result = of_products()
    by = made(i32) if step == "unknown" else step
    around = loop(*ops, step=by, starts=[made(SUMS)], gives=[result])
    group = WarpGroup("math", warps, teams, Region(Block([around])), split_columns=columns)
    if rows == ROWS:
        found = obstacle(group, around, rows)
    else:
        found = obstacle(group, loop(step=1), rows)
    assert found is None if why is None else found is not None and found.startswith(why)


@pytest.mark.parametrize(
    ("gives", "why"),
    [
        ("products", None),
        ("rows of products", None),
        ("a number", "it carries more"),
        ("another tile", "it carries more"),
        ("columns", "it carries more"),
        ("products and work", "they reduce along the rows"),
    ],
)
def test_what_a_loop_carries(gives: str, why: str | None) -> None:
    ops, result = of_products()
    rows = Reduce(result, 1, "addf")
    value = {"products": result, "rows of products": rows.result, "a number": made(i32),
             "another tile": tile(ROWS, 64), "columns": Reduce(result, 0, "addf").result,
             "products and work": result}[gives]  # fmt: skip
    more = [Reduce(result, 0, "addf")] if gives == "products and work" else []
    around = loop(*ops, rows, *more, starts=[made(value.type)], gives=[value])
    group = WarpGroup("math", 8, 1, Region(Block([around])))
    found = obstacle(group, around, ROWS)
    assert found is None if why is None else found is not None and found.startswith(why)


FUNCTIONS: dict[str, Any] = {"addi": lambda a, b: a + b, "subi": lambda a, b: a - b,
                             "maxsi": max, "minsi": min}  # fmt: skip


@pytest.mark.parametrize("lower", [0, 3])
@pytest.mark.parametrize("turns", [1, 2, 5])
def test_a_group_leaves_out_one_turn_at_most(lower: int, turns: int) -> None:
    """Never the first; and takes and returns the slots of what it leaves out."""
    upper = lower + turns
    lb, ub, end = integer_constant(lower, i32), made(i32), made(i32)
    one = integer_constant(1, i32)
    gets = [GetEnter(RING.ref), GetEnter(WIDE.ref)]
    body = Block([*gets, scf.YieldOp()], arg_types=[i32])
    around = scf.ForOp(lb.result, ub, one.result, [], body)
    block = Block([lb, one, around])
    _end_early(around, end)
    for own in range(lower - 2, upper + 3):
        values: dict[SSAValue, int] = {ub: upper, end: own}
        for op in block.ops:
            if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
                values[op.result] = op.value.value.data
            elif isinstance(op, Map):
                values[op.result] = FUNCTIONS[op.function.data](*(values[v] for v in op.arguments))
        first, last = values[around.lb], values[around.ub]
        assert first == lower
        assert last == max(min(max(own, upper - 1), upper), lower + 1)
    returning = [op for op in block.ops if isinstance(op, scf.ForOp) and op is not around]
    assert [ring_of(op) for op in returning] == [RING.ref, WIDE.ref]
    for op in returning:
        assert (op.lb, op.ub, op.step) == (around.ub, ub, one.result)
        assert LEFT_OUT in op.attributes
        assert [inner.name for inner in op.body.block.ops] == [
            "aref.get_enter", "aref.consumed", "scf.yield"
        ]  # fmt: skip


def spread(vector: SSAValue, axis: int) -> SSAValue:
    return Broadcast(ExpandDims(vector, axis).result, (ROWS, 64)).result


class Masked:
    """A group's loop with a branch that masks a tile of products."""

    def __init__(self, **changed: Any) -> None:
        self.last = made(i32)
        ends = Map("addi", [Arange(0, ROWS).result, Splat(self.last, (ROWS,)).result]).result
        if changed.get("falls"):
            ends = Map("subi", [Splat(self.last, (ROWS,)).result, Arange(0, ROWS).result]).result
        columns = Map("addi", [Arange(0, 64).result, Splat(made(i32), (64,)).result]).result
        sides = [spread(columns, 0), spread(ends, 1)]
        if changed.get("other way"):
            sides.reverse()
        dot = product()
        scores = dot.result if changed.get("products", True) else made(SUMS)
        kept = made(SUMS) if changed.get("kept") else scores
        mask = Map(changed.get("function", "cmpi_sle"), sides)
        chosen = Map(changed.get("choice", "select"), [mask.result, kept, made(SUMS)]
                     if changed.get("choice", "select") == "select" else [kept, kept])  # fmt: skip
        self.cond = made(i1)
        self.branch = scf.IfOp(
            self.cond, [SUMS], [scf.YieldOp(chosen.result)], [scf.YieldOp(scores)]
        )
        around = loop(dot, self.branch)
        after = loop()
        if changed.get("early", True):
            after.attributes[LEFT_OUT] = UnitAttr()
        self.block = Block([around, after])
        group = WarpGroup(changed.get("role", "math"), changed.get("warps", 8), 1,
                          Region(self.block), single=changed.get("single", False),
                          split_columns=changed.get("columns", False))  # fmt: skip
        self.decided = Decisions()
        OwnMasks(self.decided).apply(ModuleOp([group]))

    @property
    def asked(self) -> bool:
        assert (self.branch.cond is self.cond) is (not self.decided.of(OwnRowsMasked))
        return self.branch.cond is not self.cond


@pytest.mark.parametrize(
    ("function", "opposite", "edges"),
    [("cmpi_sle", "cmpi_sgt", "first"), ("cmpi_slt", "cmpi_sge", "first")],
)
def test_a_group_asks_for_its_own_rows(function: str, opposite: str, edges: str) -> None:
    """Whether its largest column is behind the least end of its rows."""
    masked = Masked(function=function)
    assert masked.asked
    both = masked.branch.cond.owner
    assert isinstance(both, Map)
    assert both.function.data == "andi"
    assert both.arguments[0] is masked.cond
    fails = both.arguments[1].owner
    assert isinstance(fails, Map)
    assert fails.function.data == opposite
    column, end = (v.owner for v in fails.arguments)
    assert isinstance(column, Map)
    assert isinstance(end, Map)
    at = column.arguments[0].owner.arguments[0].owner  # type: ignore[union-attr]
    assert at.value.value.data == 63
    row = end.arguments[0].owner.arguments[0].owner  # type: ignore[union-attr]
    assert isinstance(row, EdgeRow)
    assert (row.edge.data, row.rows.value.data) == (edges, ROWS)


@pytest.mark.parametrize("function", ["cmpi_sge", "cmpi_sgt"])
def test_the_other_way_round(function: str) -> None:
    masked = Masked(function=function, **{"other way": True})
    assert masked.asked
    fails = masked.branch.cond.owner.arguments[1].owner  # type: ignore[union-attr]
    end, column = (v.owner for v in fails.arguments)
    assert end.arguments[0].owner.arguments[0].owner.edge.data == "first"
    assert column.arguments[0].owner.arguments[0].owner.value.value.data == 63


@pytest.mark.parametrize(
    "changed",
    [
        {"warps": 4}, {"columns": True}, {"single": True}, {"early": False}, {"products": False},
        {"falls": True}, {"function": "cmpi_eq"}, {"kept": True}, {"choice": "addf"},
        {"warps": 12},
    ],
    ids=str,
)  # fmt: skip
def test_others_are_not_asked(changed: dict[str, Any]) -> None:
    assert not Masked(**changed).asked
