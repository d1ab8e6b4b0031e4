"""Consumers that take turns on the products of a tile: where, why that is right, and errors."""

from __future__ import annotations

import pytest
from fused import WORKLOADS
from simulation import Recorded, recorded
from xdsl.dialects import scf

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import DotIssue, GroupTurn
from tawa.aref.passes.named_barrier_ping_pong import NothingToAlternate
from tawa.driver.compiled import Compiled
from tawa.hopper.dialect.sync import NamedBarrierArrive
from tawa.simulate import check
from tawa.simulate.interpret.errors import ProtocolError


@pytest.fixture(scope="module")
def launch() -> Recorded:
    """Two consumers of one tile, in a loop of three turns with two products each."""
    return recorded(next(w for w in WORKLOADS if w.name == "fused_mlp-alternate"))[0]


@pytest.fixture(scope="module")
def compiled(launch: Recorded) -> Compiled:
    return launch.compile()


def test_a_turn_holds_the_products_that_follow_each_other(compiled: Compiled) -> None:
    loops = [op for op in compiled.module("aref").walk() if isinstance(op, scf.ForOp)]
    (loop,) = [op for op in loops if any(isinstance(o, GroupTurn) for o in op.body.block.ops)]
    found = [
        op.step.data if isinstance(op, GroupTurn) else "product"
        for op in loop.body.block.ops
        if isinstance(op, GroupTurn | DotIssue)
    ]
    assert found[:2] == ["wait", "product"]
    assert sorted(found) == ["pass", "product", "product", "wait"]


def test_turns_are_proved_to_go_round(launch: Recorded, compiled: Compiled) -> None:
    check(compiled.module("hopper"), launch.grid, launch.values(compiled))


def test_a_turn_that_is_not_passed_on_is_caught(launch: Recorded, compiled: Compiled) -> None:
    module = compiled.module("hopper")
    passed = [op for op in module.walk() if isinstance(op, NamedBarrierArrive)][-1]
    passed.detach()
    passed.erase()
    with pytest.raises(ProtocolError):
        check(module, launch.grid, launch.values(compiled))


def test_a_kernel_without_loops_is_refused() -> None:
    @tawa.jit
    def square(a, c, M: tl.constexpr):
        x = a.load([0, 0])
        c.store([0, 0], tl.dot(x, x.T).to(tl.float16))

    block = "desc<f16,128x128>"
    with pytest.raises(NothingToAlternate):
        square.compile(block, block, 128, alternate=True)
