"""Which programs each CTA of a persistent kernel runs: together all, each once, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import i32, i64
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Operation, SSAValue

from tawa.aref.dialect.ops import PlanEntry
from tawa.base.types import PlanType
from tawa.ir.elementwise import Map
from tawa.partition import persistent


def given(kind: Any = i32) -> SSAValue:
    return Made(result_types=[kind]).results[0]


FUNCTIONS = {
    "addi": lambda a, b: a + b, "subi": lambda a, b: a - b, "muli": lambda a, b: a * b,
    "divsi": lambda a, b: a // b, "remsi": lambda a, b: a % b, "minsi": min, "maxsi": max,
    "cmpi_slt": lambda a, b: a < b, "select": lambda c, a, b: a if c else b,
    "quotient": lambda a, size: a // size,
}  # fmt: skip
"""Of what is never negative; the launch's reciprocals stand for the sizes themselves."""


def computed(
    ops: Sequence[Operation], known: dict[SSAValue, int], plan: Sequence[int] = ()
) -> dict[SSAValue, int]:
    """The values of ops."""
    known = dict(known)
    for op in ops:
        match op:
            case arith.ConstantOp():
                known[op.result] = op.value.value.data  # pyright: ignore
            case PlanEntry():
                known[op.results[0]] = plan[known[op.operands[1]]]
            case Map():
                found = FUNCTIONS[op.function.data](*(known[v] for v in op.arguments))
                known[op.results[0]] = found
            case _:
                raise AssertionError(op)
    return known


@pytest.mark.parametrize("deal", [1, 2, 3, 8])
def test_programs_are_dealt_to_all_ctas(deal: int):
    """So many consecutive ones at a time; no CTA has more than `deal` more than another."""
    cta, ctas, total, iteration = (given() for _ in range(4))
    bounds, count = persistent._programs_of(cta, ctas, total, deal)
    ops, program = persistent._dealt(iteration, cta, ctas, deal)
    for programs, together in product((0, 1, 5, 12, 13, 31), (1, 2, 5, 12)):
        taken: list[list[int]] = []
        for number in range(together):
            known = {cta: number, ctas: together, total: programs}
            turns = computed(bounds, known)[count]
            taken.append([computed(ops, {**known, iteration: i})[program] for i in range(turns)])
        assert sorted(p for mine in taken for p in mine) == list(range(programs))
        for number, mine in enumerate(taken):
            assert mine == [p for p in range(programs) if p // deal % together == number]


def test_a_plan_names_what_is_not_taken_in_order():
    """Two CTAs take two programs each in order; the other programs are those of the plan.

    A third CTA of the launch has none in order.
    """
    plan_, cta, iteration = given(PlanType()), given(), given()
    bounds, turns, shared = persistent._planned(plan_, cta)
    ops, program = persistent._planned_program(iteration, shared)
    # Iterations in order, CTAs, where the entries of each CTA begin, and what they are beyond 2 * 2.
    plan = [2, 2, 6, 9, 10, 12, 4, 0, 3, 2, 1, 5]
    expected = [[0, 2, 8, 4, 7], [1, 3, 6], [5, 9]]
    for number, programs in enumerate(expected):
        known = computed(bounds, {cta: number}, plan)
        assert known[turns] == len(programs)
        found = [computed(ops, {**known, iteration: i}, plan)[program]
                 for i in range(len(programs))]  # fmt: skip
        assert found == programs


@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 1, 1), (3, 5, 2), (1, 4, 3), (2, 1, 6)])
def test_a_program_has_its_place_in_the_grid(sizes: tuple[int, int, int]):
    program, reciprocals = given(), [given(i64) for _ in range(2)]
    extents = [given() for _ in range(3)]
    ops, ids = persistent._placed(program, reciprocals, extents)
    known = dict(zip([*extents, *reciprocals], [*sizes, *sizes[:2]], strict=True))
    numbers = [(x, y, z) for z in range(sizes[2]) for y in range(sizes[1]) for x in range(sizes[0])]
    for number, place in enumerate(numbers):
        values = computed(ops, {**known, program: number})
        assert tuple(values[v] for v in ids) == place
