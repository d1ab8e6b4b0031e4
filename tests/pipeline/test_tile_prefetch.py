"""A tile's own loads are issued after the first iteration of the tile before, each once."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp, TensorType, f16, i1, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.aref.dialect.ops import Create, LoadInto, PutEnter, PutExit, WarpGroup
from tawa.base.types import DescType
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant
from tawa.pipeline.tile_prefetch import load_ahead

TILE = TensorType(f16, (64, 64))


def made(kind: Any) -> SSAValue:
    return Made(result_types=[kind]).results[0]


DESC, FIRST, END = made(DescType(TILE)), made(i32), made(i32)


def load(ring: Create, at: SSAValue, shared: SSAValue | None = None) -> list[Operation]:
    enter = PutEnter(ring.ref)
    into = LoadInto(DESC, [at], enter.views[0], ring.ref, enter.token, shared)
    return [enter, into, PutExit(ring.ref, enter.token, "tma")]


class Program:
    """A loading role: tiles of a range, each with a load of its own and a loop of others."""

    def __init__(self, **changed: Any) -> None:
        self.own, self.other = Create(1, [TILE]), Create(2, [TILE])
        body = Block(arg_types=[i32])
        place = Map("muli", [body.args[0], (ten := integer_constant(10, i32)).result])
        shared = made(i1) if changed.get("shared") else None
        own = load(self.own, place.result, shared) if changed.get("own", True) else []
        if changed.get("branch"):
            own = [scf.IfOp(made(i1), [], [*own, scf.YieldOp()])]
        if changed.get("pure"):
            own.append(scf.IfOp(made(i1), [], [Map("addi", [FIRST, FIRST]), scf.YieldOp()]))
        inner = self.inner(place.result, changed.get("turns", 2), changed.get("carries", False))
        body.add_ops([ten, place, *inner[:-1], *own, *([] if changed.get("bare") else inner[-1:])])
        body.add_op(Made()) if changed.get("after") else None
        carried = [integer_constant(0, i32)] if changed.get("carried") else []
        if carried:
            body.insert_arg(i32, 1)
        body.add_op(scf.YieldOp(*body.args[1:]))
        step = integer_constant(changed.get("step", 1), i32)
        self.loop = scf.ForOp(FIRST, END, step.result, [c.result for c in carried], body)
        ops = [*carried, step, self.loop]
        self.group = WarpGroup("load", 1, 1, Region(Block(ops)), single=changed.get("single", True))
        self.module = ModuleOp([self.own, self.other, self.group])

    def inner(self, place: SSAValue, turns: int, carries: bool) -> list[Operation]:
        zero, end, one = (integer_constant(n, i32) for n in (0, turns, 1))
        body = Block(arg_types=[i32, i32] if carries else [i32])
        at = Map("addi", [place, body.args[0]])
        body.add_ops([at, *load(self.other, at.result), scf.YieldOp(*body.args[1:])])
        starts = [zero.result] if carries else []
        return [zero, end, one, scf.ForOp(zero.result, end.result, one.result, starts, body)]

    def loads(self, first: int, end: int) -> list[tuple[str, int]]:
        """What is loaded, in order: of a tile itself, or of its loop."""
        run = Run({FIRST: first, END: end}, self)
        run.block(self.group.body.block)
        return run.found


FUNCTIONS: dict[str, Any] = {
    "addi": lambda a, b: a + b, "muli": lambda a, b: a * b, "andi": lambda a, b: a and b,
    "cmpi_slt": lambda a, b: a < b, "cmpi_eq": lambda a, b: a == b,
}  # fmt: skip


class Run:
    """Runs a role's scalars and notes its loads."""

    def __init__(self, values: dict[SSAValue, Any], program: Program) -> None:
        self.values, self.program = values, program
        self.found: list[tuple[str, int]] = []

    def block(self, block: Block) -> None:
        values = self.values
        for op in block.ops:
            if isinstance(op, arith.ConstantOp):
                values[op.result] = op.value.value.data  # type: ignore[union-attr]
            elif isinstance(op, Map):
                values[op.result] = FUNCTIONS[op.function.data](*(values[v] for v in op.arguments))
            elif isinstance(op, LoadInto):
                kind = "own" if op.ref is self.program.own.ref else "other"
                self.found.append((kind, values[op.coordinates[0]]))
            elif isinstance(op, scf.IfOp) and values[op.cond]:
                self.block(op.true_region.block)
            elif isinstance(op, scf.ForOp):
                for turn in range(*(values[v] for v in op.operands[:3])):
                    values[op.body.block.args[0]] = turn
                    self.block(op.body.block)


@pytest.mark.parametrize(
    ("first", "end", "step"), [(0, 3, 1), (2, 9, 3), (0, 1, 1), (4, 4, 1), (5, 2, 1)]
)
@pytest.mark.parametrize("turns", [1, 3])
def test_loads_of_the_next_tile_come_behind_the_first_of_this_one(
    first: int, end: int, step: int, turns: int
) -> None:
    program = Program(turns=turns, step=step)
    before = program.loads(first, end)
    tiles = list(range(first, end, step))
    assert before == [
        entry for t in tiles
        for entry in (("own", 10 * t), *(("other", 10 * t + n) for n in range(turns)))
    ]  # fmt: skip
    load_ahead(program.module)
    after = program.loads(first, end)
    expected = [("own", 10 * t) for t in tiles[:1]]
    for t in tiles:
        following = [("own", 10 * (t + step))] if t + step < end else []
        expected += [("other", 10 * t), *following]
        expected += [("other", 10 * t + n) for n in range(1, turns)]
    assert after == expected
    assert sorted(after) == sorted(before)
    names = [op.name for op in program.module.walk()]
    assert names.count("aref.put_enter") == names.count("aref.put_exit")


@pytest.mark.parametrize(
    "changed",
    [
        {"single": False}, {"turns": 0}, {"carried": True}, {"carries": True}, {"after": True},
        {"own": False}, {"shared": True}, {"branch": True}, {"bare": True},
    ],
    ids=str,
)  # fmt: skip
def test_other_tiles_stay_as_they_are(changed: dict[str, Any]) -> None:
    """Of other roles, whose loop may not run, with other work around it, or shared loads."""
    program = Program(**changed)
    before = [op.name for op in program.module.walk()]
    load_ahead(program.module)
    assert [op.name for op in program.module.walk()] == before


def test_branches_that_compute_are_no_obstacle() -> None:
    program = Program(pure=True)
    before = [op.name for op in program.module.walk()]
    load_ahead(program.module)
    assert [op.name for op in program.module.walk()] != before
