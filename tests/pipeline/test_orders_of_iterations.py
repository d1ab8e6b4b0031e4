"""Orders of a loop's ops: whether rings have slots enough for them, and what comes first."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType, f16, f32, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, SSAValue

from tawa.aref.dialect.ops import Consumed, Create, GetEnter, ViewRead
from tawa.machine.chips import H100
from tawa.pipeline.dependence_graph import _slots  # pyright: ignore[reportPrivateUsage]
from tawa.pipeline.expand import Schedule
from tawa.pipeline.schedule import (
    SMALL,
    TILE_REGISTERS,
    _is_small,
    _too_few,
    in_order,
)
from tawa.tile.dialect.ops import Dot

TILE = TensorType(f16, (64, 64))
TURNS = 9


class Loop:
    """A loop that takes and returns a slot of each ring, in some order, over some iterations."""

    def __init__(self, draw: random.Random, rings: int) -> None:
        self.rings = [Create(2, [TILE]) for _ in range(rings)]
        gets = [GetEnter(ring.ref) for ring in self.rings]
        backs = [Consumed(get.ref, get.token, "none") for get in gets]
        draw.shuffle(gets)
        body = Block([*gets, *backs, scf.YieldOp()], arg_types=[i32])
        bound = Made(result_types=[i32]).results[0]
        self.loop = scf.ForOp(bound, bound, bound, [], body)
        ops: list[Operation] = [*gets, *backs]
        draw.shuffle(ops)
        self.stage: dict[Operation, int] = {get: draw.randrange(3) for get in gets}
        for back in backs:
            get = back.token.owner
            assert isinstance(get, GetEnter)
            earlier = ops.index(back) < ops.index(get)
            self.stage[back] = self.stage[get] + earlier + draw.randrange(2)
        self.order = Schedule(ops, self.stage)
        self.filling = [op for op in body.ops if isinstance(op, GetEnter)]

    def ends(self, depths: dict[SSAValue, int]) -> bool:
        """Whether it comes to its end: rings are filled one slot after the other, in the body's
        order, as soon as they have room."""
        filled, taken, returned = ({r.ref: 0 for r in self.rings} for _ in range(3))
        fills = [get.ref for _ in range(TURNS) for get in self.filling]
        for turn in range(TURNS + 5):
            for op in self.order.order:
                if not 0 <= turn - self.stage[op] < TURNS:
                    continue
                ref = op.operands[0]
                if isinstance(op, Consumed):
                    returned[ref] += 1
                    continue
                while filled[ref] == taken[ref]:
                    following = fills[0]
                    if filled[following] - returned[following] >= depths.get(following, 99):
                        return False
                    filled[following] += 1
                    fills.pop(0)
                taken[ref] += 1
        return True


@pytest.mark.parametrize("rings", [1, 2, 3])
def test_slots_are_too_few_where_the_loop_would_never_end(rings: int) -> None:
    draw, seen = random.Random(rings), set[bool]()
    for _ in range(150):
        made = Loop(draw, rings)
        depths = {ring.ref: draw.randrange(1, 4) for ring in made.rings if draw.random() < 0.9}
        found = _too_few(made.loop, made.order, depths)
        assert (found is None) is made.ends(depths), found
        seen.add(found is None)
    assert seen == {True, False}


def test_what_is_said_of_too_few_slots() -> None:
    made = Loop(random.Random(1), 1)
    get = made.filling[0]
    (back,) = (op for op in made.order.order if isinstance(op, Consumed))
    order = Schedule([get, back], {get: 0, back: 2})
    depths = {get.ref: 2}
    assert _too_few(made.loop, order, depths) == "iterations would hold 3 slots of a ring of 2"
    assert _too_few(made.loop, order, {get.ref: 3}) is None
    outside = Schedule([back], {back: 2})  # its slot is taken before the loop
    assert _too_few(made.loop, outside, depths) is None


@pytest.mark.parametrize(
    ("order", "held"),
    [
        ("get multiply back other read", 2),
        ("get multiply back read other", 1),
        ("other get multiply back read", 2),
        ("other get multiply add back read", 2),
        ("get multiply add back read other", 1),
        ("get multiply add back other read", 2),
    ],
)
def test_a_product_returns_a_slot_where_its_value_is_read(order: str, held: int) -> None:
    """Its iteration fills another ring before the next product's slot."""
    first, second = Create(2, [TILE]), Create(2, [TILE])
    get, other = GetEnter(first.ref), GetEnter(second.ref)
    operand = ViewRead(get.views[0])
    acc = Made(result_types=[TensorType(f32, (64, 64))]).results[0]
    multiply = Dot(operand.result, operand.result, acc)
    add = Dot(operand.result, operand.result, multiply.result)
    last = add if "add" in order else multiply
    ops: dict[str, Operation] = {
        "get": get, "multiply": multiply, "add": add, "back": Consumed(get.ref, get.token, "none"),
        "other": other, "read": Made(operands=[last.result]),
    }  # fmt: skip
    back = Consumed(other.ref, other.token, "none")
    named = order.split()
    body = [get, operand, *(ops[n] for n in ("multiply", "add") if n in named), ops["back"], other]
    bound = Made(result_types=[i32]).results[0]
    block = Block([*body, back, ops["read"], scf.YieldOp()], arg_types=[i32])
    loop = scf.ForOp(bound, bound, bound, [], block)
    placed = [each for n in named for each in ((ops[n], operand) if n == "get" else (ops[n],))]
    placed.insert(placed.index(other) + 1, back)
    late = {op: int(op not in (other, back)) for op in placed}
    found = _too_few(loop, Schedule(placed, late), {first.ref: 1})
    expected = f"iterations would hold {held} slots of a ring of 1" if held > 1 else None
    assert found == expected


def node(number: int, **of: Any) -> Any:
    given = {"thread": 1, "tensor": 0, "registers": 1, "ops": [Made()], **of}
    return SimpleNamespace(number=number, is_dot=given["tensor"] > 0, **given)


def graph(nodes: list[Any], *edges: tuple[int, int, int]) -> Any:
    made = [SimpleNamespace(source=nodes[a], target=nodes[b], distance=d) for a, b, d in edges]
    return SimpleNamespace(nodes=nodes, edges=made)


@pytest.mark.parametrize(
    ("of", "small"),
    [
        ({}, True),
        ({"thread": SMALL}, True),
        ({"thread": SMALL + 1}, False),
        ({"registers": TILE_REGISTERS - 1}, True),
        ({"registers": TILE_REGISTERS}, False),
        ({"tensor": 8}, False),
        ({"ops": [GetEnter(Create(2, [TILE]).ref)]}, False),
    ],
)
def test_statistics_of_rows(of: dict[str, Any], small: bool) -> None:
    """Few registers, little work, and no waiting: for loads or for products."""
    nodes = [node(0, tensor=8), node(1, **of), node(2)]
    assert _is_small(graph(nodes), nodes[1]) is small
    assert _is_small(graph(nodes, (2, 1, 0), (1, 0, 0)), nodes[1]) is small
    assert not _is_small(graph(nodes, (2, 1, 0), (0, 1, 0)), nodes[1])


def test_values_come_before_their_readers() -> None:
    """By their places, and statistics of rows as soon as they can be computed."""
    draw = random.Random(3)
    for _ in range(200):
        count = draw.randrange(2, 7)
        nodes = [node(n, thread=draw.choice([1, SMALL + 1])) for n in range(count)]
        offsets = [draw.randrange(4) for _ in nodes]
        stages = [draw.randrange(2) for _ in nodes]
        edges: list[tuple[int, int, int]] = []
        for a in range(count):
            for b in range(a + 1, count):
                if draw.random() < 0.4:
                    distance = max(0, stages[a] - stages[b]) + draw.randrange(2)
                    edges.append((a, b, distance))
        whole = graph(nodes, *edges)
        placed = {
            n: SimpleNamespace(offset=o, stage=s)
            for n, (o, s) in enumerate(zip(offsets, stages, strict=True))
        }
        found = [n.number for n in in_order(whole, placed)]  # type: ignore[arg-type]
        assert sorted(found) == list(range(count))
        waits = [(a, b) for a, b, d in edges if stages[a] == stages[b] + d]
        assert all(found.index(a) < found.index(b) for a, b in waits)
        key = [(-1 if _is_small(whole, n) else offsets[n.number], n.number) for n in nodes]
        left = list(range(count))
        for number in found:  # each is the first of those that may come
            may = [n for n in left if not any(b == n and a in left for a, b in waits)]
            assert number == min(may, key=key.__getitem__)
            left.remove(number)


def test_slots_that_an_iteration_holds() -> None:
    """From the issue of its copies, which take their latency and their bytes, to the last reader."""
    rings = [Create(2, [TILE]), Create(3, [TILE, TILE]), Create(2, [TILE])]
    gets = [GetEnter(ring.ref) for ring in rings]
    reads = [ViewRead(get.views[0]) for get in gets]
    uses = [Made(operands=[read.result]) for read in reads]
    backs = [Consumed(get.ref, get.token, "none") for get in gets]
    nodes = {op: node(n) for n, op in enumerate((*gets[:2], *reads[:2], *uses, *backs))}
    found = _slots(nodes, {rings[0].ref: 2, rings[1].ref: 3}, H100)  # type: ignore[arg-type]
    assert [(slot.get, slot.depth) for slot in found] == [(nodes[gets[0]], 2), (nodes[gets[1]], 3)]
    for slot, back, read, use, tiles in zip(found, backs, reads, uses, (1, 2), strict=False):
        assert set(map(id, slot.readers)) == {id(nodes[op]) for op in (back, read, use)}
        assert slot.load == H100.copy_latency + round(tiles * 8192 / H100.l2_share)
    assert _slots(nodes, {}, H100) == []  # type: ignore[arg-type]
    assert _slots(nodes, {rings[2].ref: 2}, H100) == []  # its get is no node  # type: ignore[arg-type]
