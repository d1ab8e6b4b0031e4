"""Numbers that values reach: constants, promises, arithmetic, and loops that are known to run."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, IntegerAttr, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.aref.analysis.ranges import at_least, iterations_around, runs
from tawa.aref.dialect.ops import CtaCount, CtaIndex
from tawa.ir.elementwise import Map
from tawa.ir.kernels import AT_LEAST
from tawa.tile.dialect.ops import NumPrograms, ProgramId


def unknown(promised: int | None = None) -> SSAValue:
    facts: dict[str, Any] = {} if promised is None else {AT_LEAST: IntegerAttr(promised, i32)}
    return Made(result_types=[i32], attributes=facts).results[0]


def number(value: int) -> SSAValue:
    return arith.ConstantOp(IntegerAttr(value, i32)).result


def of(function: str, *values: SSAValue) -> SSAValue:
    return Map(function, values).result


def loop(first: SSAValue, end: SSAValue, step: SSAValue, *inside: Operation) -> scf.ForOp:
    return scf.ForOp(first, end, step, [], Block([*inside, scf.YieldOp()], arg_types=[i32]))


N = unknown()


@pytest.mark.parametrize(
    ("value", "least"),
    [
        (number(-7), -7), (N, None), (unknown(3), 3), (unknown(-3), -3),
        (ProgramId(0).result, 0), (NumPrograms(0).result, 1),
        (CtaIndex().result, 0), (CtaCount().result, 1),
        (of("maxsi", N, number(4)), 4), (of("maxsi", unknown(9), number(4)), 9),
        (of("maxsi", N, N), None), (of("minsi", unknown(9), number(4)), 4),
        (of("minsi", N, number(4)), None), (of("addi", unknown(9), number(4)), 13),
        (of("addi", N, number(4)), None), (of("addi", number(4), N), None),
        (of("muli", unknown(3), number(4)), 12), (of("muli", unknown(0), unknown(5)), 0),
        (of("muli", unknown(5), unknown(0)), 0), (of("muli", unknown(-1), number(4)), None),
        (of("muli", number(4), unknown(-1)), None), (of("divsi", unknown(9), number(4)), 2),
        (of("divsi", unknown(0), number(4)), 0), (of("divsi", unknown(9), number(1)), 9),
        (of("divsi", unknown(9), number(-4)), None), (of("divsi", unknown(9), number(0)), None),
        (of("divsi", unknown(-9), number(4)), None), (of("divsi", unknown(9), unknown(1)), 0),
        (of("divsi", unknown(0), unknown(1)), 0), (of("divsi", unknown(9), unknown(0)), None),
        (of("remsi", unknown(9), number(4)), 0), (of("remsi", unknown(0), unknown(1)), 0),
        (of("remsi", unknown(9), unknown(0)), None), (of("remsi", unknown(-1), number(4)), None),
        (of("subi", number(9), number(4)), None), (of("xori", number(9), number(4)), None),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_number_reaches(value: SSAValue, least: int | None) -> None:
    assert at_least(value) == least


@pytest.mark.parametrize(("promised", "least"), [(5, 4), (3, 4), (4, 4)])
def test_of_a_promise_and_what_is_computed_the_greater_counts(promised: int, least: int) -> None:
    value = of("addi", unknown(1), number(3))
    value.owner.attributes[AT_LEAST] = IntegerAttr(promised, i32)  # type: ignore[union-attr]
    assert at_least(value) == max(promised, least)


def test_promises_of_arguments() -> None:
    """Each argument has its own; that of another function or of a loop counts for nothing."""
    facts = [DictionaryAttr({}), DictionaryAttr({AT_LEAST: IntegerAttr(6, i32)})]
    body = Region(Block(arg_types=[i32, i32]))
    kernel = func.FuncOp(
        "k", FunctionType.from_lists([i32, i32], []), body, arg_attrs=ArrayAttr(facts)
    )
    assert [at_least(arg) for arg in kernel.body.block.args] == [None, 6]
    bare = func.FuncOp("b", FunctionType.from_lists([i32], []), Region(Block(arg_types=[i32])))
    assert at_least(bare.body.block.args[0]) is None


@pytest.mark.parametrize(
    ("first", "step", "least"),
    [(3, 2, 3), (0, 1, 0), (3, -1, None), (3, 0, None), (3, None, None), (None, 1, None)],
)
def test_counters_of_loops(first: int | None, step: int | None, least: int | None) -> None:
    """One that grows is never less than its first; nothing is known of what the loop carries."""
    begin, by = (N if n is None else number(n) for n in (first, step))
    body = Block(arg_types=[i32, i32])
    body.add_op(scf.YieldOp(body.args[1]))
    made = scf.ForOp(begin, N, by, [number(7)], body)
    assert at_least(made.body.block.args[0]) == least
    assert at_least(made.body.block.args[1]) is None


@pytest.mark.parametrize(
    ("first", "end", "known"),
    [
        (number(0), number(1), True), (number(0), number(0), False), (number(1), number(0), False),
        (number(0), unknown(1), True), (number(0), unknown(0), False), (number(3), N, False),
        (unknown(0), number(4), False), (number(-1), unknown(0), True), (N, N, False),
    ],
)  # fmt: skip
def test_loops_that_run(first: SSAValue, end: SSAValue, known: bool) -> None:
    assert runs(loop(first, end, number(1))) is known


@pytest.mark.parametrize(
    ("bounds", "times"),
    [
        ([], 1), ([(0, 4, 1)], 4), ([(1, 4, 1)], 3), ([(0, 7, 3)], 3), ([(0, 6, 3)], 2),
        ([(4, 4, 1)], 0), ([(5, 4, 1)], 0), ([(0, 4, 1), (0, 6, 2)], 12), ([(0, None, 1)], None),
        ([(None, 4, 1)], None), ([(0, 4, None)], None), ([(0, 4, 0)], None),
        ([(0, 4, 1), (0, None, 1)], None), ([(0, None, 1), (0, 4, 1)], None), (["while"], None),
        ([(0, 4, 1), "while"], None), (["if", (0, 4, 1)], 4), ([(0, 4, 1), "if"], 4),
    ],
    ids=str,
)  # fmt: skip
def test_how_often_loops_run_an_op(bounds: list[Any], times: int | None) -> None:
    """All around it count; branches do not, of other loops nobody knows."""
    op = inside = Made()
    for bound in reversed(bounds):
        if bound == "if":
            inside = scf.IfOp(Made(result_types=[i32]).results[0], [], [inside, scf.YieldOp()])
        elif bound == "while":
            inside = scf.WhileOp([], [], Region(Block()), Region(Block([inside])))
        else:
            first, end, step = (N if n is None else number(n) for n in bound)
            inside = loop(first, end, step, inside)
    assert iterations_around(op) == times
