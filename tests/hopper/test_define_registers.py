"""Accumulators are defined where a loop would keep them: inside loops, and nowhere else."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, f32, i1, i32
from xdsl.ir import Block, Operation, Region

from tawa.base.layout import accumulator
from tawa.hopper.dialect.fragment import Fill, Undefined
from tawa.hopper.dialect.structure import Role
from tawa.hopper.dialect.types import FragType
from tawa.hopper.passes.define import DefineRegisters
from tawa.ir.decisions.assembling import RegistersDefined
from tawa.ir.decisions.decision import Decisions

FRAG = FragType.of(f32, accumulator((64, 32), 4))


def repeated(*ops: Operation) -> list[Operation]:
    """A loop of four turns around ops."""
    numbers = [arith.ConstantOp(IntegerAttr(n, i32)) for n in (0, 4, 1)]
    body = Block([*ops, scf.YieldOp()], arg_types=[i32])
    return [*numbers, scf.ForOp(*numbers, [], body)]


def asked(*ops: Operation) -> list[Operation]:
    """A loop while something holds."""
    holds = arith.ConstantOp(IntegerAttr(1, i1))
    before = Block([holds, scf.ConditionOp(holds.result)])
    return [scf.WhileOp([], [], Region(before), Region(Block([*ops, scf.YieldOp()])))]


def chosen(*ops: Operation) -> list[Operation]:
    """A branch."""
    holds = arith.ConstantOp(IntegerAttr(1, i1))
    return [holds, scf.IfOp(holds.result, [], Region(Block([*ops, scf.YieldOp()])))]


CASES = {
    "in a loop": (lambda op: repeated(op), True),
    "in a loop that asks": (lambda op: asked(op), True),
    "in a branch of a loop": (lambda op: repeated(*chosen(op)), True),
    "in a loop of a branch": (lambda op: chosen(*repeated(op)), True),
    "outside": (lambda op: [op], False),
    "in a branch": (lambda op: chosen(op), False),
    "before a loop": (lambda op: [op, *repeated()], False),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_defined(name: str):
    around, expected = CASES[name]
    role = Role("math", 0, 4, 1, Region(Block(around(Undefined(FRAG)))))
    module, decided = ModuleOp([role]), Decisions()
    DefineRegisters(decided, "8 bytes").apply(module)
    fills = [op for op in module.walk() if isinstance(op, Fill)]
    left = [op for op in module.walk() if isinstance(op, Undefined)]
    assert (len(fills), len(left)) == ((1, 0) if expected else (0, 1))
    assert decided.made == ([RegistersDefined("8 bytes")] if expected else [])
