"""What a module shows of the properties that passes promise: each op that breaks one is found."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, TensorType, f16, f32, i1
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.aref.dialect.ops import Create, DotIssue, GetEnter, PutEnter, Start, WarpGroup
from tawa.driver.property_checks import CHECKS, broken
from tawa.ir import properties as of
from tawa.machine.chips import H100
from tawa.tile.dialect.ops import Dot, ProgramId


def made(kind: Any) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def tile(*shape: int, element: Any = f16) -> SSAValue:
    return made(TensorType(element, shape))


def product(rows: int = 64, columns: int = 64, sums: Any = f32) -> Dot:
    return Dot(tile(rows, 64), tile(64, columns), tile(rows, columns, element=sums))


def group(*ops: Operation, warps: int = 4, columns: bool = False) -> WarpGroup:
    return WarpGroup("math", warps, 1, Region(Block(ops)), split_columns=columns)


RING = Create(2, [TensorType(f16, (64, 64))])


def get(cursor: bool = False) -> GetEnter:
    return GetEnter(RING.ref, Start().cursor if cursor else None)


def put(cursor: bool = False) -> PutEnter:
    return PutEnter(RING.ref, Start().cursor if cursor else None)


def inside(op: Operation) -> Operation:
    return scf.IfOp(made(i1), [], [op, scf.YieldOp()])


def issue() -> DotIssue:
    return DotIssue((tile(64, 64), tile(64, 64), tile(64, 64, element=f32)))


@pytest.mark.parametrize(
    ("ops", "seen", "found"),
    [
        (lambda: [ProgramId(0)], of.ROLES, "tile.program_id"),
        (lambda: [inside(ProgramId(0))], of.ROLES, "tile.program_id"),
        (lambda: [group(ProgramId(0))], of.ROLES, None),
        (lambda: [group(inside(ProgramId(0)))], of.ROLES, None),
        (lambda: [group(), inside(ProgramId(0))], of.ROLES, "tile.program_id"),
        (lambda: [product()], of.WIDE_SUMS, None),
        (lambda: [product(sums=f16)], of.WIDE_SUMS, None),
        (lambda: [product(rows=8, sums=f16)], of.WIDE_SUMS, "tile.dot"),
        (lambda: [product(), inside(product(rows=8, sums=f16))], of.WIDE_SUMS, "tile.dot"),
        (lambda: [group(product())], of.GROUP_PRODUCTS, None),
        (lambda: [group(product(rows=32))], of.GROUP_PRODUCTS, "tile.dot"),
        (lambda: [group(product(), warps=8)], of.GROUP_PRODUCTS, "tile.dot"),
        (lambda: [group(product(rows=128), warps=8)], of.GROUP_PRODUCTS, None),
        (lambda: [group(product(columns=128), warps=8, columns=True)], of.GROUP_PRODUCTS, None),
        (lambda: [group(inside(product(rows=32)))], of.GROUP_PRODUCTS, "tile.dot"),
        (lambda: [product(rows=32)], of.GROUP_PRODUCTS, None),
        (lambda: [group(product())], of.ASYNCHRONOUS, "tile.dot"),
        (lambda: [group(issue())], of.ASYNCHRONOUS, None),
        (lambda: [group(issue())], of.DOTS, "aref.dot_issue"),
        (lambda: [group(product())], of.DOTS, None),
        (lambda: [group(get(), put())], of.OPEN_SLOTS, None),
        (lambda: [group(get(), put(True))], of.OPEN_SLOTS, "aref.put_enter"),
        (lambda: [group(inside(get(True)))], of.OPEN_SLOTS, "aref.get_enter"),
        (lambda: [group(get(True), put(True))], of.SLOTS, None),
        (lambda: [group(get(True), put())], of.SLOTS, "aref.put_enter"),
        (lambda: [group(get())], of.SLOTS, "aref.get_enter"),
        (lambda: [ProgramId(0)], of.ONE_PROGRAM, None), (lambda: [group()], of.ONE_PROGRAM,
                                                         "aref.warp_group"),
        (lambda: [ProgramId(0)], of.LOWERED, "tile.program_id"),
        (lambda: [get()], of.LOWERED, "aref.get_enter"), (lambda: [Made()], of.LOWERED, None),
        (lambda: [ProgramId(0)], of.TIDY, "builtin.module"),
        (lambda: [Made(operands=[made(f32)])], of.TIDY, None),
    ],
)  # fmt: skip
def test_what_a_module_shows(ops: Any, seen: Any, found: str | None) -> None:
    module = ModuleOp(ops())
    assert broken(module, {seen}, H100) == ([] if found is None else [f"{seen}: {found}"])


def test_all_that_is_broken_is_said_in_order() -> None:
    module = ModuleOp([ProgramId(0), group(get())])
    every = broken(module, set(CHECKS), H100)
    assert every == sorted(every)
    assert {text.partition(":")[0] for text in every} == {
        str(seen) for seen in (of.ROLES, of.SLOTS, of.ONE_PROGRAM, of.LOWERED, of.TIDY)
    }
    unseen = {seen for seen in vars(of).values() if isinstance(seen, of.ROLES.__class__)}
    assert broken(module, unseen - set(CHECKS), H100) == []
