"""Which accesses may come to bytes that others came to before, beside programs that are run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType, f16, i1, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, SSAValue

from tawa.base.types import DescType, PtrType
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant
from tawa.tile.analysis.masks import is_choice, spread_from
from tawa.tile.analysis.order import may_meet
from tawa.tile.analysis.scaling import scaled
from tawa.tile.dialect.ops import Broadcast, DescLoad, DescStore, ExpandDims, Splat, Store


class Loop(NamedTuple):
    """A counter from 0, and what is done with each number."""

    count: int
    step: int
    body: tuple[Any, ...]


class Access(NamedTuple):
    """A block of elements from `first` plus a multiple of each counter around it, outermost first."""

    name: str
    size: int
    first: int
    factors: tuple[int, ...] = ()
    stores: bool = True


class Branch(NamedTuple):
    body: tuple[Any, ...]


def made(kind: Any) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def built(body: tuple[Any, ...]) -> dict[str, Operation]:
    """The accesses of a program by name; all through descriptors of one size of blocks each."""
    found: dict[str, Operation] = {}
    tiles = {s: made(DescType(TensorType(f16, (s,)))) for s in {a.size for a in _all(body)}}
    _fill(Block(), body, (), tiles, found)
    return found


def _all(body: tuple[Any, ...]) -> Iterator[Access]:
    for one in body:
        if isinstance(one, Access):
            yield one
        else:
            yield from _all(one.body)


def _fill(
    block: Block,
    body: tuple[Any, ...],
    counters: tuple[SSAValue, ...],
    tiles: dict[int, SSAValue],
    found: dict[str, Operation],
) -> Block:
    def number(value: int) -> SSAValue:
        op = integer_constant(value, i32)
        block.add_op(op)
        return op.result

    def mapped(name: str, *values: SSAValue) -> SSAValue:
        op = Map(name, values)
        block.add_op(op)
        return op.result

    for one in body:
        if isinstance(one, Loop):
            inner = Block(arg_types=[i32])
            _fill(inner, one.body, (*counters, inner.args[0]), tiles, found)
            inner.add_op(scf.YieldOp())
            bounds = number(0), number(one.count * one.step), number(one.step)
            block.add_op(scf.ForOp(*bounds, [], inner))
        elif isinstance(one, Branch):
            inner = _fill(Block(), one.body, counters, tiles, found)
            inner.add_op(scf.YieldOp())
            block.add_op(scf.IfOp(made(i1), [], [*_taken(inner)]))
        else:
            at = number(one.first)
            for factor, counter in zip(one.factors, counters, strict=False):
                at = mapped("addi", at, mapped("muli", counter, number(factor)))
            value = made(TensorType(f16, (one.size,)))
            desc = tiles[one.size]
            op = DescStore(desc, [at], value) if one.stores else DescLoad(desc, [at])
            block.add_op(op)
            found[one.name] = op
    return block


def _taken(block: Block) -> list[Operation]:
    ops = list(block.ops)
    for op in ops:
        op.detach()
    return ops


def trace(body: tuple[Any, ...], counters: tuple[int, ...] = ()) -> Iterator[tuple[str, range]]:
    """What is come to, one access after the other; branches are taken."""
    for one in body:
        if isinstance(one, Loop):
            for turn in range(one.count):
                yield from trace(one.body, (*counters, turn * one.step))
        elif isinstance(one, Branch):
            yield from trace(one.body, counters)
        else:
            first = one.first + sum(f * c for f, c in zip(one.factors, counters, strict=False))
            yield one.name, range(first, first + one.size)


def meets(body: tuple[Any, ...], earlier: str, later: str) -> bool:
    """Whether a program's access comes, after another, to its elements."""
    seen: list[range] = []
    for name, block in trace(body):
        if name == later and any(max(a.start, block.start) < min(a.stop, block.stop) for a in seen):
            return True
        if name == earlier:
            seen.append(block)
    return False


EXACT: dict[str, tuple[Any, ...]] = {
    "one after the other": (Access("a", 8, 0), Access("b", 8, 8)),
    "one element in common": (Access("a", 8, 0), Access("b", 8, 7)),
    "from below": (Access("a", 8, 8), Access("b", 8, 0)),
    "from below, one in common": (Access("a", 8, 7), Access("b", 8, 0)),
    "of one element": (Access("a", 1, 3), Access("b", 1, 3)),
    "loads": (Access("a", 8, 0, stores=False), Access("b", 8, 4)),
    "block by block": (Loop(4, 1, (Access("a", 8, 0, (16,)), Access("b", 8, 8, (16,)))),),
    "a step that is a block": (Loop(4, 8, (Access("a", 8, 0, (1,)), Access("b", 8, 8, (1,)))),),
    "too short steps": (Loop(4, 7, (Access("a", 8, 0, (1,)),)),),
    "the same block": (Loop(4, 1, (Access("a", 8, 0),)), Access("b", 8, 8)),
    "behind the last": (Loop(4, 1, (Access("a", 8, 0, (8,)),)), Access("b", 8, 32)),
    "the last": (Loop(4, 1, (Access("a", 8, 0, (8,)),)), Access("b", 8, 31)),
    "before it in a loop": (Loop(3, 1, (Access("b", 8, 8, (8,)), Access("a", 8, 8, (8,)))),),
    "the next one's": (Loop(3, 1, (Access("b", 8, 8, (8,)), Access("a", 8, 16, (8,)))),),
    "two loops": (Loop(3, 1, (Loop(3, 1, (Access("a", 8, 0, (24, 8)),)), Access("b", 8, 72, (8,)))),),
    "again in the outer one": (Loop(3, 1, (Loop(3, 1, (Access("a", 8, 0, (0, 8)),)),)),
                               Access("b", 8, 24)),
    "behind a branch": (Branch((Access("a", 8, 0),)), Access("b", 8, 0)),
    "a branch behind": (Access("a", 8, 0), Branch((Access("b", 8, 0),))),
    "a branch in a loop": (Loop(3, 1, (Branch((Access("a", 8, 0, (8,)),)), Access("b", 8, 64))),),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_what_is_said_is_what_happens(name: str) -> None:
    body = EXACT[name]
    ops = built(body)
    for earlier in ops:
        for later in ops:
            said = may_meet(ops[earlier], ops[later])
            assert said == meets(body, earlier, later), (earlier, later)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_meets_that_is_said_not_to(seed: int) -> None:
    random = np.random.default_rng(seed)

    def some(depth: int, names: Iterator[str]) -> tuple[Any, ...]:
        found: list[Any] = []
        for _ in range(random.integers(1, 3)):
            kind = random.integers(0, 4) if depth < 2 else 0
            if kind == 1:
                count, step = map(int, random.integers(1, 4, 2))
                found.append(Loop(count, step, some(depth + 1, names)))
            elif kind == 2:
                found.append(Branch(some(depth + 1, names)))
            else:
                factors = tuple(int(n) for n in random.integers(-3, 6, 2))
                size = int(random.integers(1, 5))
                found.append(Access(next(names), size, int(random.integers(0, 20)), factors))
        return tuple(found)

    said = 0
    for _ in range(60):
        body = some(0, iter("abcdefghijklmnopqrstuvwxyz"))
        ops = built(body)
        sizes = {one.name: one.size for one in _all(body)}
        for earlier in ops:
            for later in ops:
                if sizes[earlier] == sizes[later] and not may_meet(ops[earlier], ops[later]):
                    said += 1
                    assert not meets(body, earlier, later), (body, earlier, later)
    assert said > 50


def test_what_is_not_told_apart() -> None:
    """Other descriptors, other ops, and coordinates that nothing is known of."""
    kind = DescType(TensorType(f16, (8,)))
    value = made(TensorType(f16, (8,)))
    at = [integer_constant(n, i32) for n in (0, 64)]
    one, other = made(kind), made(kind)
    pointer = Store(made(PtrType(f16)), made(f16))
    ops = [DescStore(one, [at[0]], value), DescStore(other, [at[1]], value), pointer,
           DescStore(one, [made(i32)], value), DescStore(one, [at[1]], value)]  # fmt: skip
    Block([*at, *ops])
    for later in ops[1:4]:
        assert may_meet(ops[0], later)
        assert not may_meet(later, ops[0]), "which comes first, and once"
    assert not may_meet(ops[0], ops[4])


def test_rows_and_columns_are_told_apart_each_by_itself() -> None:
    kind, value = DescType(TensorType(f16, (8, 4))), made(TensorType(f16, (8, 4)))
    desc = made(kind)
    zero, four, eight = (integer_constant(n, i32) for n in (0, 4, 8))
    first = DescStore(desc, [zero, zero], value)
    later = {
        name: DescStore(desc, [row, column], value)
        for name, row, column in (("below", eight, zero), ("beside", zero, four),
                                  ("half below", four, zero), ("both", eight, four))
    }  # fmt: skip
    Block([zero, four, eight, first, *later.values()])
    assert {name: may_meet(first, op) for name, op in later.items()} == {
        "below": False, "beside": False, "half below": True, "both": False}  # fmt: skip


def test_what_is_a_tile_times_a_number() -> None:
    tile = made(TensorType(f16, (8,)))
    factor, other = (Splat(made(f16), (8,)) for _ in range(2))
    for operands in ([tile, factor.result], [factor.result, tile]):
        assert scaled(Map("mulf", operands).result) == (tile, factor.value)
        assert scaled(Map("addf", operands).result) is None
    assert scaled(Map("mulf", [factor.result, other.result]).result) is None
    assert scaled(Map("mulf", [tile, tile]).result) is None
    assert scaled(tile) is None


def test_what_a_tile_repeats() -> None:
    """Through rows and columns to what they are made of; a number's tile is none of a tile's."""
    row = made(TensorType(f16, (8,)))
    tall = ExpandDims(row, 1).result
    assert spread_from(Broadcast(tall, (8, 4)).result) is row
    assert spread_from(tall) is row
    assert spread_from(row) is row
    number = Splat(made(f16), (8, 4)).result
    assert spread_from(number) is number
    both = Map("addf", [row, row])
    assert spread_from(both.result) is both.result
    choice = Map("select", [made(TensorType(i1, (8,))), row, row])
    assert is_choice(choice)
    assert not is_choice(both)
    assert not is_choice(Block())
