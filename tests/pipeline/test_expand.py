"""Expanded loops compute what the loop did, for any legal schedule and number of iterations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from tawa.driver.compiled import read_module
from tawa.ir.elementwise import Map
from tawa.pipeline.expand import Schedule, expand
from tawa.tile.dialect.ops import Store

LOOP = """
func.func @f(%n: i32, %p: !tawa.ptr<i32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %r, %r2, %r3 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c1, %b = %c0, %d = %c7)
      -> (i32, i32, i32) : i32 {
    %x = ew.map muli(%i, %i) : (i32, i32) -> i32
    %y = ew.map addi(%x, %b) : (i32, i32) -> i32
    %z = ew.map addi(%y, %a) : (i32, i32) -> i32
    %w = ew.map xori(%z, %d) : (i32, i32) -> i32
    scf.yield %w, %x, %b : i32, i32, i32
  }
  tile.store %p, %r : !tawa.ptr<i32>, i32
  tile.store %p, %r3 : !tawa.ptr<i32>, i32
  func.return
}
"""

UNREAD = """
func.func @f(%n: i32, %p: !tawa.ptr<i32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %r, %r2, %r3, %r4 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c1, %b = %c0, %d = %c7, %e = %c1)
      -> (i32, i32, i32, i32) : i32 {
    %x = ew.map muli(%i, %i) : (i32, i32) -> i32
    %y = ew.map addi(%x, %c7) : (i32, i32) -> i32
    %z = ew.map addi(%y, %x) : (i32, i32) -> i32
    %w = ew.map xori(%z, %c7) : (i32, i32) -> i32
    scf.yield %x, %y, %b, %d : i32, i32, i32, i32
  }
  tile.store %p, %r : !tawa.ptr<i32>, i32
  tile.store %p, %r2 : !tawa.ptr<i32>, i32
  tile.store %p, %r3 : !tawa.ptr<i32>, i32
  tile.store %p, %r4 : !tawa.ptr<i32>, i32
  func.return
}
"""
"""What the loop gives is read by none of its own iterations, at once or after one or two more."""


def run(module: ModuleOp, n: int) -> list[int]:
    """What the module stores, in order."""
    kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
    values: dict[SSAValue, int] = {kernel.args[0]: n}
    stored: list[int] = []

    def loop(op: scf.ForOp) -> None:
        carried, i = [values[v] for v in op.iter_args], values[op.lb]
        while i < values[op.ub]:
            values[op.body.block.args[0]] = i
            values.update(zip(op.body.block.args[1:], carried, strict=True))
            block(op.body.block)
            carried = [values[v] for v in op.body.block.last_op.operands]
            i += values[op.step]
        values.update(zip(op.results, carried, strict=True))

    def block(source: Block) -> None:
        for op in source.ops:
            if isinstance(op, arith.ConstantOp):
                values[op.result] = op.value.value.data
            elif isinstance(op, Map):
                values[op.result] = int(op.evaluate(*(np.int32(values[v]) for v in op.arguments)))
            elif isinstance(op, scf.ForOp):
                loop(op)
            elif isinstance(op, scf.IfOp):
                chosen = (op.true_region if values[op.cond] else op.false_region).block
                block(chosen)
                passed = [values[v] for v in chosen.last_op.operands]
                values.update(zip(op.results, passed, strict=True))
            elif isinstance(op, Store):
                stored.append(values[op.value])

    block(kernel.body.block)
    return stored


STAGES = [(0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 1, 1), (0, 0, 0, 1), (0, 1, 2, 2), (0, 1, 2, 3)]


@pytest.mark.parametrize("stages", STAGES, ids=str)
@pytest.mark.parametrize("text", [LOOP, UNREAD], ids=["read", "unread"])
def test_expansion_keeps_the_meaning(text: str, stages: Sequence[int]):
    """Every number of iterations, too few to fill the pipeline included."""
    module, expected = read_module(text, "tile"), read_module(text, "tile")
    loop = next(op for op in module.walk() if isinstance(op, scf.ForOp))
    ops = list(loop.body.block.ops)[:-1]
    order = sorted(ops, key=lambda op: -stages[ops.index(op)])
    expand(loop, Schedule(order, dict(zip(ops, stages, strict=True))))
    module.verify()
    for n in range(8):
        assert run(module, n) == run(expected, n), f"{n} iterations"


def test_a_wrong_order_is_noticed():
    """The check above can fail: an op before what it needs of its own turn gives another answer."""
    module = read_module(LOOP, "tile")
    loop = next(op for op in module.walk() if isinstance(op, scf.ForOp))
    ops = list(loop.body.block.ops)[:-1]
    stages = dict(zip(ops, (0, 0, 1, 1), strict=True))
    order = [ops[0], ops[1], ops[3], ops[2]]
    try:
        expand(loop, Schedule(order, stages))
        module.verify()
        found = run(module, 5)
    except (AssertionError, KeyError, ValueError):
        return
    assert found != run(read_module(LOOP, "tile"), 5)
