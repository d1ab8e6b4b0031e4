"""Which loads a role may copy iterations ahead: what their addresses and masks follow from."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType, f16, f32, i1, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, SSAValue

from tawa.base.types import PtrType
from tawa.ir.elementwise import Map
from tawa.partition.own_copies import _bytes, _come_first, _known_ahead
from tawa.tile.dialect.ops import Dot, Load, Splat, Store

SHAPE = (16, 16)
POINTERS = TensorType(PtrType(f16), SHAPE)


def made(kind: Any) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def tile(kind: Any = i32) -> SSAValue:
    return made(TensorType(kind, SHAPE))


class Loop:
    """A loop that carries a tile of numbers, and loads through pointers that follow from `ops`."""

    def __init__(self, kind: str) -> None:
        body = Block(arg_types=[i32, TensorType(i32, SHAPE)])
        counter, carried = body.args
        flag, gives, mask = made(TensorType(i1, SHAPE)), carried, None
        ops: list[Operation] = []
        offset: SSAValue = tile()
        product = Dot(tile(f16), tile(f16), tile(f32))
        if kind in ("counter", "mask of the counter"):
            ops.append(spread := Splat(counter, SHAPE))
            offset = spread.result
        if kind == "mask of the counter":
            ops.append(asked := Map("cmpi_slt", [offset, tile()]))
            mask, offset = asked.result, tile()
        if kind.startswith("carried"):
            offset = carried
            ops.append(more := Map("addi", [carried, tile()]))
            gives = more.result
        if kind == "carried, of a product" or kind == "a product":
            ops += [product, rounded := Map("fptosi", [product.result], i32)]
            gives = rounded.result if kind.startswith("carried") else gives
            offset = offset if kind.startswith("carried") else rounded.result
        if kind == "a loaded number":
            ops += [number := Load(made(PtrType(i32))), spread := Splat(number.result, SHAPE)]
            offset = spread.result
        if kind == "a loaded tile":
            ops.append(loaded := Load(made(TensorType(PtrType(i32), SHAPE))))
            offset = loaded.result
        if kind == "a branch":
            ops.append(branch := scf.IfOp(made(i1), [TensorType(i32, SHAPE)], [scf.YieldOp(offset)],
                                          [scf.YieldOp(offset)]))  # fmt: skip
            offset = branch.results[0]
        if kind == "a stored number":
            place = made(PtrType(i32))
            ops += [
                Store(place, made(i32)),
                number := Load(place),
                spread := Splat(number.result, SHAPE),
            ]
            offset = spread.result
        if kind == "unknown":
            ops.append(what := Made(result_types=[TensorType(i32, SHAPE)]))
            offset = what.results[0]
        pointers = Map("addptr", [made(POINTERS), offset])
        self.load = Load(pointers.result, mask if mask is not None else flag)
        self.first: Operation = Map("addi", [made(i32), made(i32)])
        body.add_ops([self.first, *ops, pointers, self.load, scf.YieldOp(gives)])
        bound = made(i32)
        self.loop = scf.ForOp(bound, bound, bound, [tile()], body)


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        ("outside", True), ("counter", True), ("mask of the counter", True), ("carried", True),
        ("carried, of a product", False), ("a product", False), ("a loaded number", True),
        ("a loaded tile", False), ("a branch", False), ("a stored number", False), ("unknown", False),
    ],
)  # fmt: skip
def test_addresses_that_are_known_ahead(kind: str, known: bool) -> None:
    made = Loop(kind)
    assert _known_ahead(made.load, made.loop) is known


@pytest.mark.parametrize("kind", ["outside", "counter", "mask of the counter", "carried"])
def test_loads_come_first_with_what_they_need(kind: str) -> None:
    """In their order; all else follows."""
    made = Loop(kind)
    before = list(made.loop.body.block.ops)
    _come_first(made.loop, [made.load])
    after = list(made.loop.body.block.ops)
    needed = [op for op in before if op not in (made.first, before[-1]) and not (
        kind == "carried" and isinstance(op, Map) and op.function.data == "addi")]  # fmt: skip
    assert after[: len(needed)] == needed
    assert after[len(needed) :] == [op for op in before if op not in needed]


@pytest.mark.parametrize(("element", "size"), [(f16, 512), (f32, 1024)])
def test_bytes_of_a_tile(element: Any, size: int) -> None:
    assert _bytes(Load(made(TensorType(PtrType(element), SHAPE)))) == size
