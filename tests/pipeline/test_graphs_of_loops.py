"""Graphs of small loops: which nodes need each other, and what they cost beside each other."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import Float8E4M3FNType, StringAttr, TensorType, f16, f32, i1, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tawa.aref.dialect.ops import Consumed, Create, GetEnter, ViewRead
from tawa.base.types import DescType, PtrType
from tawa.ir.elementwise import Map
from tawa.machine.chips import H100
from tawa.pipeline.dependence_graph import DependenceGraph, Node, build, is_lazy, is_movable
from tawa.tile.dialect.ops import Arange, AtomicRmw, DescStore, Dot, Reduce, Splat, Store

FP8 = Float8E4M3FNType()
COSTS, SCHEDULING = H100.costs, H100.scheduling


def made(kind: Attribute) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def tile(*shape: int, element: Attribute = f32) -> SSAValue:
    return made(TensorType(element, shape))


class Loop:
    """A loop that carries some tiles; ops are added one after the other."""

    def __init__(self, *carried: Attribute) -> None:
        self.body = Block(arg_types=[i32, *carried])
        self.counter, *self.carried = self.body.args
        self.starts = [made(kind) for kind in carried]

    def add(self, op: Operation) -> SSAValue:
        self.body.add_op(op)
        return op.results[0] if op.results else self.counter

    def graph(self, *passed: SSAValue, warps: int = 4, **more: Any) -> DependenceGraph:
        self.body.add_op(scf.YieldOp(*passed))
        bound = made(i32)
        self.loop = scf.ForOp(bound, bound, bound, self.starts, self.body)
        found = build(self.loop, warps, more.pop("teams", 1), H100, more.pop("depths", {}))
        assert isinstance(found, DependenceGraph), found
        return found


def node_of(make: Any, warps: int = 4) -> Node:
    """The node of an op by itself."""
    loop = Loop()
    loop.add(make)
    (node,) = loop.graph(warps=warps).nodes
    return node


def product(m: int, n: int, k: int, element: Attribute = f16) -> Dot:
    acc = tile(m, n)
    return Dot(tile(m, k, element=element), tile(k, n, element=element), acc)


def computed(function: str, *shape: int, element: Attribute = f32) -> Map:
    two = function in ("addf", "mulf", "maxnumf")
    return Map(function, [tile(*shape, element=element)] * (2 if two else 1))


@pytest.mark.parametrize("warps", [4, 8])
def test_what_ordinary_code_costs(warps: int) -> None:
    """An instruction for each element that a thread holds; of a row four threads hold each."""
    held = 64 * 128 // (32 * warps)
    node = node_of(computed("addf", 64, 128), warps)
    assert node.thread == round(held * COSTS.alu * SCHEDULING.stretch)
    assert (node.tensor, node.special, node.registers) == (0, 0, held)
    assert node_of(computed("addf", 64, 128, element=f16), warps).registers == held // 2
    row = node_of(computed("addf", 64), warps)
    assert row.thread == max(1, round(4 * 64 / (32 * warps) * COSTS.alu * SCHEDULING.stretch))
    assert row.registers == 4 * 64 // (32 * warps)


def test_special_functions_have_a_unit_of_their_own() -> None:
    node = node_of(computed("exp2", 64, 128))
    assert node.special == 64 * COSTS.special
    assert node.thread == node.special
    assert node_of(Map("addi", [made(i32)] * 2)).thread == 1
    small = node_of(computed("addf", 2))
    assert (small.thread, small.registers) == (max(1, round(COSTS.alu * SCHEDULING.stretch)), 1)


def test_reductions_exchange_between_lanes() -> None:
    plain, reduced = computed("addf", 64, 128), Reduce(tile(64, 128), 1, "addf")
    more = 2 * (COSTS.shuffle + SCHEDULING.combine)
    assert node_of(reduced).thread == node_of(plain).thread + more
    assert node_of(Reduce(tile(64, 128), 1, "addf")).registers == 4 * 64 // 128


def test_stores_go_by_panels() -> None:
    def store(columns: int) -> Node:
        value = tile(64, columns, element=f16)
        desc = made(DescType(TensorType(f16, (64, columns))))
        return node_of(DescStore(desc, [made(i32)] * 2, value))

    registers = 64 * 64 // 128 // 2
    assert store(64).thread == 2 * COSTS.barrier + registers
    assert store(128).thread == 4 * COSTS.barrier + 2 * registers
    assert store(32).thread == 2 * COSTS.barrier + registers // 2


@pytest.mark.parametrize(
    ("shape", "element", "warps", "steps"),
    [((64, 128, 64), f16, 4, 4), ((64, 128, 128), f16, 4, 8), ((128, 128, 64), f16, 4, 8),
     ((128, 128, 64), f16, 8, 8), ((64, 128, 64), FP8, 4, 2), ((64, 128, 16), f16, 4, 1)],
)  # fmt: skip
def test_products_take_their_instructions(
    shape: tuple[int, int, int], element: Attribute, warps: int, steps: int
) -> None:
    """One for each 64 rows and 32 bytes along K, whichever warp group's they are."""
    node = node_of(product(*shape, element=element), warps)
    assert node.is_dot
    assert node.tensor == steps * H100.matrix_cycles(shape[1])
    a, b = shape[0] * shape[2], shape[1] * shape[2]
    size = 1 if element is FP8 else 2
    copied = [max(1, elements // (32 * warps) * size // 4) for elements in (a, b)]
    staged = sum(2 * COSTS.barrier + c for c in copied)
    issued = SCHEDULING.group + SCHEDULING.issue * steps * 4 // warps
    assert node.thread in (issued + staged, issued + 2 * COSTS.barrier + copied[1])
    assert node.registers == shape[0] * shape[1] // (32 * warps)


def names(graph: DependenceGraph) -> set[tuple[str, str, int, bool]]:
    """Edges by the names of their ends' last ops, distance, and whether they accumulate."""

    def name(node: Node) -> str:
        return node.ops[-1].attributes["n"].data  # type: ignore[attr-defined]

    return {(name(e.source), name(e.target), e.distance, e.accumulates) for e in graph.edges}


def named(name: str, op: Operation) -> Operation:
    op.attributes["n"] = StringAttr(name)
    return op


def test_edges_of_an_iteration_and_of_those_before() -> None:
    """A value that is carried is of the iteration before; one that is passed on, of two."""
    kind = TensorType(f32, (64, 64))
    loop = Loop(kind, kind)
    one, two = loop.carried
    a = loop.add(named("a", Map("addf", [one, two])))
    b = loop.add(named("b", Map("mulf", [a, one])))
    loop.add(named("c", Map("addf", [b, b])))
    found = names(loop.graph(b, one))
    assert found == {("b", "a", 1, False), ("b", "a", 2, False), ("a", "b", 0, False),
                     ("b", "b", 1, False), ("b", "c", 0, False)}  # fmt: skip


def test_products_that_add_to_each_other() -> None:
    kind = TensorType(f32, (64, 64))
    loop = Loop(kind)
    halves = [tile(64, 64, element=f16) for _ in range(2)]
    first = loop.add(named("first", Dot(*halves, loop.carried[0])))
    second = loop.add(named("second", Dot(*halves, first)))
    assert names(loop.graph(second)) == {
        ("second", "first", 1, True), ("first", "second", 0, True)}  # fmt: skip


def test_a_product_that_also_multiplies_what_it_adds_to_needs_it_whole() -> None:
    kind = TensorType(f16, (64, 64))
    loop = Loop(kind)
    value = loop.add(named("value", Map("addf", [loop.carried[0]] * 2)))
    both = Dot(value, value, tile(64, 64))
    loop.add(named("both", both))
    assert names(loop.graph(value)) == {("value", "both", 0, False), ("value", "value", 1, False)}


def test_stores_keep_their_order() -> None:
    """Through one descriptor in an iteration and from one to the next; through two they need not."""
    kind = DescType(TensorType(f16, (64, 64)))
    loop = Loop()
    one, value, at = made(kind), tile(64, 64, element=f16), [made(i32)] * 2
    loop.add(named("a", DescStore(one, at, value)))
    loop.add(named("b", DescStore(one, at, value)))
    loop.add(named("c", computed("addf", 64, 64)))
    assert names(loop.graph()) == {("a", "b", 0, False), ("b", "a", 1, False)}


def read_slot(loop: Loop, ring: Create) -> tuple[GetEnter, ViewRead]:
    """A slot that the loop gets, and what it reads of it."""
    get = GetEnter(ring.ref)
    loop.add(get)
    view = ViewRead(get.views[0])
    loop.add(view)
    return get, view


def test_slots_and_who_reads_them() -> None:
    """The get of a slot that one product reads goes with it, and so does its return."""
    ring, loop = Create(2, [TensorType(f16, (64, 64))]), Loop()
    get, view = read_slot(loop, ring)
    dot = loop.add(Dot(view.result, tile(64, 64, element=f16), tile(64, 64)))
    loop.add(Consumed(get.ref, get.token, "none"))
    loop.add(Map("addf", [dot, dot]))
    graph = loop.graph(depths={ring.ref: 3})
    assert [len(n.ops) for n in graph.nodes] == [4, 1]
    (slot,) = graph.slots
    load = H100.copy_latency + round(64 * 64 * 2 / H100.l2_share)
    assert (slot.depth, slot.load, slot.get) == (3, load, graph.nodes[0])
    assert not graph.shares_slots


def test_slots_that_two_read_are_returned_apart() -> None:
    ring, loop = Create(2, [TensorType(f16, (64, 64))]), Loop()
    get, view = read_slot(loop, ring)
    loop.add(Dot(view.result, tile(64, 64, element=f16), tile(64, 64)))
    loop.add(Map("addf", [view.result] * 2))
    loop.add(Consumed(get.ref, get.token, "none"))
    graph = loop.graph()
    assert graph.slots == [], "of rings whose depth is known"
    back = next(n for n in graph.nodes if isinstance(n.ops[-1], Consumed))
    readers = {e.source.number for e in graph.edges if e.target is back and e.returns}
    assert len(readers) == 2
    assert graph.shares_slots
    dot = graph.dots[0]
    assert back in graph.readers(dot)
    assert back not in graph.keeping_slots().readers(dot)


@pytest.mark.parametrize(("warps", "teams", "apart"), [(4, 1, 1), (8, 1, 1), (4, 2, 2), (8, 2, 2)])
def test_groups_that_write_an_operand_together_count_as_one(
    warps: int, teams: int, apart: int
) -> None:
    loop = Loop()
    loop.add(product(128, 64, 64))
    loop.add(computed("exp2", 128, 64))
    graph = loop.graph(warps=warps, teams=teams)
    dot, special = graph.nodes
    groups = warps // 4
    alone = node_of(product(128, 64, 64), warps)
    assert graph.groups == apart
    assert dot.tensor == groups * (128 // groups // 64) * 4 * H100.matrix_cycles(64)
    assert special.special == groups * (128 * 64 // (32 * warps)) * COSTS.special
    assert special.thread >= special.special
    assert alone.is_dot


MOVES: dict[str, tuple[Operation, bool]] = {
    "a sum": (Map("addf", [tile(4), tile(4)]), True),
    "a store of a block": (DescStore(made(DescType(TensorType(f16, (8, 8)))), [made(i32)] * 2,
                                     tile(8, 8, element=f16)), True),
    "a store": (Store(made(PtrType(f32)), made(f32)), False),
    "an update": (AtomicRmw("addf", made(PtrType(f32)), made(f32)), False),
    "a choice": (scf.IfOp(made(i1), [], [scf.YieldOp()]), True),
    "a choice that stores": (
        scf.IfOp(made(i1), [], [Store(made(PtrType(f32)), made(f32)), scf.YieldOp()]), False),
    "a loop": (scf.ForOp(made(i32), made(i32), made(i32), [],
                         Block([scf.YieldOp()], arg_types=[i32])), False),
    "anything": (Made(), False),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_what_may_change_places(name: str) -> None:
    op, moves = MOVES[name]
    assert is_movable(op) is moves
    if not moves:
        loop = Loop()
        loop.add(op)
        loop.body.add_op(scf.YieldOp())
        bound = made(i32)
        whole = scf.ForOp(bound, bound, bound, [], loop.body)
        assert build(whole, 4, 1, H100) == f"it contains {op.name}, which keeps its place"


def test_tiles_that_every_user_may_make() -> None:
    row, number = Arange(0, 8), Splat(made(f32), (8,))
    both = Map("addi", [row.result, row.result])
    assert is_lazy(row.result)
    assert is_lazy(number.result)
    assert is_lazy(both.result)
    assert not is_lazy(tile(8))
    assert not is_lazy(Map("addi", [tile(8, element=i32), row.result]).result)
    assert not is_lazy(made(i32))
    assert not is_lazy(Block(arg_types=[TensorType(f32, (8,))]).args[0])
