"""What keeps a role from running the loads ahead, and through which arguments a kernel writes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import FunctionType, TensorType, f32, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tawa.base.types import DescType, PtrType
from tawa.ir.elementwise import Map
from tawa.partition.obstacles import producer_obstacle, written_arguments
from tawa.tile.dialect.ops import (
    Arange,
    AtomicRmw,
    Broadcast,
    DescLoad,
    ExpandDims,
    Load,
    Reduce,
    Splat,
    Store,
)

TYPES: list[Attribute] = [PtrType(f32), PtrType(f32), i32, DescType(TensorType(f32, (8,)))]
TILE = TensorType(f32, (8,))


class Program:
    """A kernel of two pointers, a number and a descriptor."""

    def __init__(self) -> None:
        self.kernel = func.FuncOp("kernel", FunctionType.from_lists(TYPES, []))
        self.block = self.kernel.body.block
        self.x, self.y, self.n, self.desc = self.block.args
        self.body = self.block

    def add(self, op: Operation) -> SSAValue:
        self.body.add_op(op)
        return op.results[0] if op.results else self.n

    def tile(self, pointer: SSAValue) -> SSAValue:
        """Addresses of a tile."""
        return self.add(Map("addptr", [self.add(Splat(pointer, (8,))), self.add(Arange(0, 8))]))


def number(p: Program) -> None:
    p.add(Map("addi", [p.n, p.n]))


def loaded_number(p: Program) -> None:
    p.add(Load(p.x))


def loaded_number_of_y(p: Program) -> None:
    p.add(Load(p.y))


def computed_tile(p: Program) -> None:
    p.add(Arange(0, 8))


def loaded_tile(p: Program) -> None:
    p.add(Load(p.tile(p.x)))


def reduced_tile(p: Program) -> None:
    row = p.add(ExpandDims(p.tile(p.x), 0))
    square = p.add(Broadcast(row, (8, 8)))
    p.add(Reduce(p.add(Load(square)), 0, "addf"))


def atomic(p: Program) -> None:
    p.add(AtomicRmw("addf", p.x, p.add(Load(p.x))))


def block_of_a_descriptor(p: Program) -> None:
    p.add(DescLoad(p.desc, [p.n]))


def branch(p: Program) -> None:
    condition = p.add(Map("cmpi_slt", [p.n, p.n]))
    yes, no = Block(), Block()
    for side, pointer in ((yes, p.x), (no, p.x)):
        load = Load(pointer)
        side.add_ops([load, scf.YieldOp(load.result)])
    p.add(scf.IfOp(condition, [f32], Region(yes), Region(no)))


def branch_of_tiles(p: Program) -> None:
    where = p.tile(p.x)
    yes, no = Block(), Block()
    for side in (yes, no):
        load = Load(where)
        side.add_ops([load, scf.YieldOp(load.result)])
    p.add(scf.IfOp(p.add(Map("cmpi_slt", [p.n, p.n])), [TILE], Region(yes), Region(no)))


CASES: dict[str, tuple[Callable[[Program], None], str | None, str | None]] = {
    "a number": (number, None, None),
    "a number from memory": (loaded_number, None, None),
    "a number from memory that is written": (loaded_number_of_y, "memory that", "memory that"),
    "a computed tile": (computed_tile, "a computed tile", None),
    "a loaded tile": (loaded_tile, "a computed tile", None),
    "a reduced tile": (reduced_tile, "a computed tile", "a computed tile"),
    "an update": (atomic, "has an effect", "has an effect"),
    "a block": (block_of_a_descriptor, "a tile that is loaded", "a tile that is loaded"),
    "a choice of numbers": (branch, None, None),
    "a choice of tiles": (branch_of_tiles, "a computed tile", None),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_in_the_way(case: str) -> None:
    """Of one thread, and of a role with threads for tiles of addresses."""
    make, of_one, of_many = CASES[case]
    p = Program()
    make(p)
    for tiles, expected in ((False, of_one), (True, of_many)):
        found = producer_obstacle(p.block, {p.y}, tiles=tiles)
        assert (found is None) == (expected is None), (tiles, found)
        if found is not None and expected is not None:
            assert expected in found[0]
            assert found[1] in list(p.block.walk())


def test_arguments_that_are_written() -> None:
    p = Program()
    assert written_arguments(p.kernel) == set()
    p.add(Store(p.y, p.add(Load(p.x))))
    assert written_arguments(p.kernel) == {1}
    anywhere = Made(result_types=[PtrType(f32)])
    p.add(Store(anywhere.results[0], p.add(Load(p.x))))
    assert written_arguments(p.kernel) == {1, None}
