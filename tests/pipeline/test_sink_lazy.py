"""Lazy tiles get a copy for every user: one for each, though an op uses them twice."""

from __future__ import annotations

from xdsl.dialects import test as plain
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Region

from tawa.ir.elementwise import Map
from tawa.pipeline.dependence_graph import sink_lazy
from tawa.tile.dialect.ops import Arange, Broadcast, ExpandDims


def test_an_operand_that_is_used_twice_is_copied_once() -> None:
    lanes = Arange(0, 64)
    row = ExpandDims(lanes.result, 0)
    same = Map("cmpi_eq", [row.result, row.result])
    seen = Broadcast(same.results[0], (16, 64))
    user, other = plain.TestOp([seen.result]), plain.TestOp([row.result], [i32])
    block = Block([lanes, row, same, seen, user, other, plain.TestTermOp()])
    outer = plain.TestOp(regions=[Region(block)])
    own = sink_lazy(block)
    outer.verify()
    copies = [op for found in own.values() for op in found]
    assert all(op.parent is block for op in copies)  # none was left behind, or erased
    assert [op.name for op in own[user]].count("tile.arange") == 1
    assert len(own[other]) == 2
