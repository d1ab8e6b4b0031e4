"""What a store of a chunk computes for its columns alone: what is the same in every row."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, TensorType, f16, f32, i1, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, SSAValue

from tawa.base.layout import accumulator
from tawa.base.types import DescType, PtrType
from tawa.codegen import epilogue_subtiles
from tawa.codegen.epilogue_subtiles import (
    _columns,
    _from_columns,
    _nothing_written,
    _same_in_rows,
    window,
)
from tawa.hopper.dialect.fragment import Coordinate, Fill, Window
from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import Arange, Broadcast, DescStore, ExpandDims, Load, Splat, Store

N = 64


def made(kind: Any) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def number(value: int = 0) -> SSAValue:
    return arith.ConstantOp(IntegerAttr(value, i32)).result


def of(function: str, *values: SSAValue) -> SSAValue:
    return Map(function, values).result


def columns() -> SSAValue:
    return Arange(0, N).result


def row(value: SSAValue) -> SSAValue:
    return ExpandDims(value, 0).result


def load(
    mask: SSAValue | None = None, other: SSAValue | None = None, at: SSAValue | None = None
) -> Load:
    pointers = of("addptr", Splat(made(PtrType(f32)), (N,)).result, columns() if at is None else at)
    return Load(pointers, mask, other)


class Program:
    """A load, what comes behind it, and the store of a tile."""

    def __init__(self, value: SSAValue | None, *between: Operation) -> None:
        ops: list[Operation] = []
        if value is not None:
            collect(ops, value)
        tile = Splat(made(f32), (64, N))
        self.store = DescStore(
            made(DescType(TensorType(f32, (64, N)))), [number(), number()], tile.results[0]
        )
        Block([*ops, *between, tile, self.store])


def collect(found: list[Operation], value: SSAValue) -> None:
    """Ops that make a value, in order."""
    op = value.owner
    if isinstance(op, Operation) and op not in found:
        for operand in op.operands:
            collect(found, operand)
        found.append(op)


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored through the descriptor lies apart; pointers may meet."""
    monkeypatch.setattr(epilogue_subtiles, "may_alias", lambda *of: not any(
        isinstance(value.type, DescType) for value in of if value is not None))  # fmt: skip


G: Any = SimpleNamespace(layouts=SimpleNamespace(columns=False))


@pytest.mark.parametrize(
    ("make", "known"),
    [
        (columns, True), (lambda: Splat(made(f32), (N,)).result, True),
        (lambda: row(columns()), True), (lambda: of("addi", columns(), columns()), True),
        (lambda: load().result, True), (lambda: row(load().result), True),
        (lambda: load(of("cmpi_slt", columns(), columns())).result, True),
        (lambda: load(made(TensorType(i1, (N,)))).result, False),
        (lambda: load(of("cmpi_slt", columns(), columns()), made(TensorType(f32, (N,)))).result, False),
        (lambda: load(at=made(TensorType(i32, (N,)))).result, False),
        (lambda: made(TensorType(f32, (N,))), False),
        (lambda: of("addi", columns(), made(TensorType(i32, (N,)))), False),
        (lambda: Load(made(PtrType(f32))).result, False),
    ],
)  # fmt: skip
def test_what_follows_from_column_numbers(make: Any, known: bool) -> None:
    value = make()
    program = Program(value)
    assert _from_columns(G, value, program.store) is known


@pytest.mark.parametrize("written", [True, False])
def test_loads_are_done_late_where_nothing_is_written_in_between(written: bool) -> None:
    found = load()
    pointers = made(TensorType(PtrType(f32), (N,)))
    between = Store(pointers, made(TensorType(f32, (N,)))) if written else Arange(0, 4)
    program = Program(found.result, between)
    assert _nothing_written(found, program.store) is not written
    assert _from_columns(G, found.result, program.store) is not written


def test_loads_behind_a_store_or_elsewhere_stay() -> None:
    program, found = Program(None), load()
    assert not _nothing_written(found, program.store)
    block = program.store.parent
    assert block is not None
    ops: list[Operation] = []
    collect(ops, found.result)
    block.add_ops(ops)
    assert not _nothing_written(found, program.store)


@pytest.mark.parametrize(
    ("value", "same"),
    [
        (Broadcast(made(TensorType(f32, (1, N))), (64, N)).result, True),
        (Broadcast(made(TensorType(f32, (64, 1))), (64, N)).result, False),
        (Broadcast(made(TensorType(f32, (1, 1))), (64, N)).result, True),
        (made(TensorType(f32, (64, N))), False),
    ],
)
def test_what_is_the_same_in_every_row(value: SSAValue, same: bool) -> None:
    assert _same_in_rows(value) is same


class Lowering:
    """Collects ops; values that are not known have fragments of their own."""

    def __init__(self, *, columns: bool = False, lazy: Any = ()) -> None:
        self.ops: list[Operation] = []
        self.layouts = SimpleNamespace(columns=columns, lazy=lambda value: value in lazy)

    def add(self, op: Operation, hint: str | None = None) -> SSAValue:
        self.ops.append(op)
        return op.results[0]

    def scalar(self, value: SSAValue) -> SSAValue:
        return value


PART, WHOLE = accumulator((64, 32), 4), accumulator((64, N), 4)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is taken from whole fragments, loaded, and given another order."""
    done: list[str] = []

    def fragment(g: Any, value: SSAValue, layout: Any) -> SSAValue:
        done.append("whole")
        return made_fragment(value, layout)

    monkeypatch.setattr(epilogue_subtiles, "fragment", fragment)
    monkeypatch.setattr(
        epilogue_subtiles,
        "rearrange",
        lambda g, inner, layout, order: (done.append(str(order)), inner)[1],
    )
    monkeypatch.setattr(epilogue_subtiles, "load_fragment", lambda g, op, given, layout: (
        done.append(f"load {sum(v is not None for v in given)}"), made_fragment(op.result, layout))[1])  # fmt: skip
    return done


def made_fragment(value: SSAValue, layout: Any) -> SSAValue:
    from tawa.base.types import element_of
    from tawa.hopper.dialect.types import FragType

    return made(FragType.of(element_of(value.type), layout))


def test_column_numbers_begin_with_the_chunk(parts: list[str]) -> None:
    g: Any = Lowering()
    found = _columns(g, Arange(16, 16 + N).result, PART.without(0), 32)
    (op,) = g.ops
    assert isinstance(op, Coordinate)
    assert (op.dim.value.data, op.start.value.data, found) == (0, 48, op.value)
    filled = Splat(made(f32), (N,))
    _columns(g, filled.result, PART.without(0), 32)
    assert isinstance(g.ops[-1], Fill)
    assert g.ops[-1].scalar is filled.value
    assert parts == []


@pytest.mark.parametrize("sides", [False, True])
def test_a_bias_is_loaded_for_the_chunk_alone(sides: bool, parts: list[str]) -> None:
    """Unless warp groups share the columns; its sum with a tile is made in the chunk."""
    tile = Splat(made(f32), (64, N))
    bias = Broadcast(row(load().result), (64, N)).result
    total = of("addf", tile.results[0], bias)
    program = Program(total)
    Made(operands=[total])
    g: Any = Lowering(columns=sides)
    window(g, total, (32, 16), (PART, WHOLE), program.store)
    assert isinstance(g.ops[-1], Map)
    windows = [op for op in g.ops if isinstance(op, Window)]
    assert parts.count("whole") == len(windows) == (2 if sides else 1)
    assert ("load 1" in parts) is not sides
    if not sides:
        assert parts[-2:] == ["(1,)", "(None, 1)"]


def test_what_others_need_too_is_taken_from_the_whole(parts: list[str]) -> None:
    tile = Made(result_types=[TensorType(f16, (64, N))]).results[0]
    twice = of("addf", tile, tile)
    Made(operands=[twice, twice])
    g: Any = Lowering()
    window(g, twice, (32, 16), (PART, WHOLE), Program(twice).store)
    assert parts == ["whole"]
    once = of("addf", tile, tile)
    Made(operands=[once])
    g = Lowering(lazy=[once])
    window(g, once, (32, 16), (PART, WHOLE), Program(None).store)
    assert parts == ["whole"] * 2
