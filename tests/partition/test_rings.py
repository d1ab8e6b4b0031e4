"""Which loads share a ring: of one product, of one turn, and of loops that follow each other."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType, f16, f32, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, SSAValue

from tawa.base.types import DescType, PtrType
from tawa.ir.loops import integer_constant
from tawa.partition.rings import (
    RingPlan,
    _follows,
    apart,
    dot_uses,
    needed_before,
    plan_rings,
    share_rings,
)
from tawa.tile.dialect.ops import DescLoad, Dot, Load, Reshape, Trans

ZERO = integer_constant(0, i32).result


def made(kind: Any) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def load(*shape: int, of: Any = f16) -> DescLoad:
    return DescLoad(made(DescType(TensorType(of, shape or (64, 64)))), [ZERO] * (len(shape) or 2))


def pointers(*shape: int) -> Load:
    return Load(made(TensorType(PtrType(f16), shape or (64, 64))))


def product(a: Operation, b: Operation) -> Dot:
    return Dot(a.results[0], b.results[0], made(TensorType(f32, (64, 64))))


def loop(*ops: Operation) -> scf.ForOp:
    bound = made(i32)
    return scf.ForOp(bound, bound, bound, [], Block([*ops, scf.YieldOp()], arg_types=[i32]))


def planned(block: Block, given: Any = (), **more: Any) -> list[list[Operation]]:
    return [list(ring.loads) for ring in plan_rings(block.walk(), given, **more)]


def test_operands_of_a_product_fill_a_slot() -> None:
    a, b, c, d = (load() for _ in range(4))
    block = Block([a, b, c, d, product(a, b), product(b, c)])
    assert planned(block) == [[a, b, c], [d]]
    a, b, c, d = (load() for _ in range(4))
    block = Block([a, d, b, c, product(a, b), product(d, c), product(b, c)])
    assert planned(block) == [[a, b, d, c]]


def test_operands_of_different_places_have_rings_of_their_own() -> None:
    a, b = load(), load()
    body = loop(b, product(a, b))
    assert planned(Block([a, body])) == [[a], [b]]


@pytest.mark.parametrize("given", [True, False])
def test_loads_through_pointers_that_are_to(given: bool) -> None:
    a, b, other = load(), pointers(), pointers()
    block = Block([a, b, other, product(a, b)])
    assert planned(block, [b] if given else []) == ([[a, b]] if given else [[a]])


def test_transposed_and_reshaped_operands() -> None:
    a, b = load(), load()
    turned, flat = Trans(b.result), Reshape(b.result, (4096,))
    again = Reshape(flat.result, (64, 64))
    one, two = product(a, turned), product(a, again)
    scaled = Dot(made(TensorType(f16, (64, 64))), made(TensorType(f16, (64, 64))), a.result)
    assert dot_uses(b.result) == [one, two] or dot_uses(b.result) == [two, one]
    assert scaled not in dot_uses(a.result)  # what a product adds to
    assert planned(Block([a, b, turned, flat, again, one, two])) == [[a, b]]


@pytest.mark.parametrize("order", ["behind", "before", "alone"])
def test_rows_fill_the_slots_of_tiles_beside_them(order: str) -> None:
    """Of the last tile that threads copy before, or the first behind; else their own."""
    first, second, row, far = pointers(), pointers(), pointers(64), load()
    ops: dict[str, list[Operation]] = {
        "behind": [first, second, row, far], "before": [row, first, second, far], "alone": [far, row],
    }  # fmt: skip
    expected = {"behind": [[first], [second, row], [far]], "before": [[first, row], [second], [far]],
                "alone": [[far], [row]]}  # fmt: skip
    found = planned(Block(ops[order]), [op for op in ops[order] if isinstance(op, Load)])
    assert [set(ring) for ring in found] == [set(ring) for ring in expected[order]]
    assert sorted(map(len, found)) == sorted(map(len, expected[order]))


def test_a_turn_s_loads_share_a_ring_for_each_way_to_load() -> None:
    a, b, c, d = load(), load(), pointers(), pointers()
    outside = [load(), load()]
    body = loop(a, b, c, d)
    block = Block([*outside, body])
    assert planned(block, [c, d], together=True) == [[outside[0]], [outside[1]], [a, b], [c, d]]
    assert len(planned(block, [c, d])) == 6


def test_loops_that_follow_each_other() -> None:
    """They load tiles of the same types through the same rings; inner loops and others do not."""
    a, b, c, other = load(), load(), load(), load(64, 32)
    first, second, third = loop(a), loop(b), loop(c, other)
    Block([first, second, third])
    assert _follows(a, b)
    assert _follows(b, a)
    assert not _follows(c, other)
    rings = [RingPlan([op]) for op in (a, b, c, other)]
    shared = share_rings(rings)
    assert [ring.loads for ring in shared] == [[a], [other]]
    assert shared[0].later == [[b], [c]]
    assert shared[1].later == []
    inner, outer, plain = load(), load(), load()
    nest = loop(outer, loop(inner))
    Block([plain, nest])
    assert not _follows(inner, outer)
    assert not _follows(plain, outer)
    assert not _follows(outer, plain)
    assert len(share_rings([RingPlan([op]) for op in (plain, outer, inner)])) == 3


@pytest.mark.parametrize("between", [True, False])
def test_slots_whose_tiles_are_needed_before_they_are_all_loaded(between: bool) -> None:
    """A role that fills a slot and waits for it in turn can't wait for all of them at once."""
    a, b = load(), load()
    use = Made(operands=[a.result])
    Block([a, use, b] if between else [a, b, use])
    assert needed_before([a, b]) is between
    ring = RingPlan([a, b])
    found = apart([ring])
    assert [r.loads for r in found] == ([[a], [b]] if between else [[a, b]])
    assert between or found == [ring]


def test_what_a_slot_holds() -> None:
    ring = RingPlan([load(64, 32), pointers(16, 64)])
    assert ring.kinds == [DescLoad, Load]
    assert [tuple(tile.get_shape()) for tile in ring.tiles] == [(64, 32), (16, 64)]
