"""What of a loop's body is copied to fill slots ahead: puts, and what they are computed from."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType, f16, f32, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, SSAValue

from tawa.aref.dialect.ops import Create, DotIssue, GetEnter, LoadInto, PutEnter, PutExit, ViewType
from tawa.aref.passes.async_dots import AsyncDots
from tawa.aref.passes.prefetch import find_slice
from tawa.base.options import Options
from tawa.base.types import DescType
from tawa.ir.decisions.decision import Decisions
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant
from tawa.machine.chips import H100
from tawa.pipeline.dependence_graph import _cost_of_staging

TILE = TensorType(f16, (64, 64))


def made(kind: Any) -> SSAValue:
    return Made(result_types=[kind]).results[0]


class Loop:
    """Fills a slot at a place that it carries, beside a sum that it carries, too."""

    def __init__(self, kind: str = "plain") -> None:
        self.ring = Create(3, [TILE])
        body = Block(arg_types=[i32, TensorType(f32, (64, 64)), i32, i32])
        index, sums, place, unused = body.args
        step = integer_constant(64, i32)
        row = Map("addi", [place, index])
        at: SSAValue = row.result
        extra: list[Operation] = []
        if kind == "a product":
            view = made(ViewType(TILE))
            issue = DotIssue((view, view, sums))
            extra = [issue, what := Made(operands=[issue.result], result_types=[i32])]
            at = what.results[0]
        if kind == "a branch":
            extra = [
                chosen := scf.IfOp(
                    made(TensorType(f32, ())), [i32], [scf.YieldOp(at)], [scf.YieldOp(at)]
                )
            ]
            at = chosen.results[0]
        put = PutEnter(self.ring.ref)
        load = LoadInto(made(DescType(TILE)), [at, at], put.views[0], self.ring.ref, put.token)
        exit_ = PutExit(self.ring.ref, put.token, "tma")
        following = Map("addi", [place, step.result])
        other = Map("addi", [unused, step.result])
        get = GetEnter(self.ring.ref)
        total = Map("addf", [sums, sums])
        self.wanted = [row, put, load, exit_, following]
        body.add_ops([row, *extra, put, load, exit_, following, other, get, total,
                      scf.YieldOp(total.result, following.result, other.result)])  # fmt: skip
        bound = made(i32)
        starts = [made(TensorType(f32, (64, 64))), made(i32), made(i32)]
        self.loop = scf.ForOp(bound, bound, bound, starts, body)
        self.step = step


def test_what_a_put_needs() -> None:
    """And the carried values that those are computed from, no others."""
    made_ = Loop()
    found = find_slice(made_.loop)
    assert found is not None
    assert (found.ops, found.carried) == (made_.wanted, [1])


@pytest.mark.parametrize("kind", ["a product", "a branch"])
def test_what_is_not_known_ahead(kind: str) -> None:
    assert find_slice(Loop(kind).loop) is None


def test_a_copy_is_of_another_iteration() -> None:
    """With that one's index, and what is carried to it; it gives what is carried on."""
    made_ = Loop()
    found = find_slice(made_.loop)
    assert found is not None
    into, index, place = Block(), made(i32), made(i32)
    (after,) = found.copy(into, index, [place])
    row, put, load, exit_, following = into.ops
    assert list(row.operands) == [place, index]
    assert isinstance(load, LoadInto)
    assert list(load.coordinates) == [row.results[0]] * 2
    assert load.view is put.results[1]
    assert exit_.operands[1] is put.results[0]
    assert list(following.operands) == [place, made_.step.result]
    assert after is following.results[0]


def depth(slots: int, room: int, **options: Any) -> int:
    """Products in flight of a body that takes so many slots of 8 KB."""
    rings = [Create(2, [TILE]) for _ in range(slots)]
    block = Block([GetEnter(ring.ref) for ring in rings])
    chosen = Options(**options)
    passes = AsyncDots(chosen, Decisions())
    limit = type("Machine", (), {"shared_bytes": room})
    object.__setattr__(passes, "options", type("O", (), {
        "mma_depth": chosen.mma_depth, "num_stages": chosen.num_stages, "machine": limit})())  # fmt: skip
    return passes._depth(block)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("slots", "room", "options", "expected"),
    [
        (2, 4 * 8192, {}, 1), (2, 4 * 8192 - 1, {}, 0), (1, 2 * 8192, {}, 1), (0, 0, {}, 1),
        (2, 0, {"mma_depth": 3}, 3), (2, 1 << 20, {"mma_depth": 0}, 0), (2, 0, {"num_stages": 1}, 0),
        (2, 0, {"num_stages": 2}, 1), (2, 0, {"num_stages": 5}, 1),
    ],
)  # fmt: skip
def test_a_product_is_in_flight_where_two_iterations_have_room(
    slots: int, room: int, options: dict[str, Any], expected: int
) -> None:
    assert depth(slots, room, **options) == expected


@pytest.mark.parametrize(("shape", "warps"), [((64, 64), 4), ((128, 64), 8), ((128, 64), 4)])
def test_a_copy_to_shared_memory_is_between_two_barriers(
    shape: tuple[int, int], warps: int
) -> None:
    """And takes a cycle for each register of a thread."""
    registers = shape[0] * shape[1] * 2 // 4 // (32 * warps)
    found = _cost_of_staging(made(TensorType(f16, shape)), warps, H100.costs)
    assert found == 2 * H100.costs.barrier + registers
