"""Consumers that take turns on the products of a tile: where, why that is right, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from fused import WORKLOADS
from simulation import Arrays, Recorded, block, recorded, values
from xdsl.dialects import scf

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import DotIssue, GroupTurn
from tawa.aref.passes.named_barrier_ping_pong import NothingToAlternate
from tawa.driver.compiled import Compiled
from tawa.hopper.dialect.sync import NamedBarrierArrive
from tawa.simulate import check
from tawa.simulate.interpret.aref import run
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


@tawa.jit
def with_bias(a, b, bias, c, K, TILES: tl.constexpr):
    """Of each tile, a load that no loop repeats, and others that one or two loops do."""
    tile = tl.program_id(0)
    acc = tl.zeros((64, 64), tl.float32)
    for part in range(2 if TILES == "two loops" else 1):
        for k in range(0, K, 64):
            acc = tl.dot(a.load([tile * 64, k]), b.load([part * 64, k]).T, acc)
    c.store([tile * 64, 0], (acc + bias.load([tile * 64, 0]).to(tl.float32)).to(tl.float16))


@pytest.mark.parametrize("tiles", ["one loop", "two loops"])
def test_teams_know_how_often_a_tile_is_loaded(tiles: str) -> None:
    """Each team begins at the slot and the phase where the other's tile ends."""
    arrays = Arrays()
    a, b, bias = (arrays.random("f16", n, k) for n, k in ((320, 192), (128, 192), (320, 64)))
    c = arrays.output("f16", 320, 64)
    described = [block(x, 64, 64) for x in (a, b, bias, c)]
    launch = Recorded(with_bias, (5,), (*described, 192, tiles),
                      {"persistent": True, "ping_pong": True, "num_stages": 3})  # fmt: skip
    compiled = launch.compile()
    run(compiled.module("aref"), (5,), launch.values(compiled), multiprocessors=1)
    parts = 2 if tiles == "two loops" else 1
    exact = sum(values(a) @ values(b)[p * 64 : p * 64 + 64].T for p in range(parts)) + values(bias)
    np.testing.assert_allclose(values(c), exact, atol=0.1, rtol=0.01)


@tawa.jit
def made_between_products(a_desc, b_desc, w_desc, c_desc, n, M: tl.constexpr, N: tl.constexpr):
    b, w = b_desc.load([0, 0]), w_desc.load([0, 0]).to(tl.float32)
    acc = tl.zeros((M, N), tl.float32)
    for i in range(n):
        a = a_desc.load([i * M, 0])
        acc = tl.dot(a, b, tl.minimum(acc, 3.0))
        acc = tl.dot(a, (w + i).to(tl.float16), acc)
    c_desc.store([0, 0], acc.to(tl.float16))


def test_groups_do_not_meet_while_one_has_its_turn() -> None:
    random, m, n, k = np.random.default_rng(0), 128, 64, 64
    a = random.integers(-1, 2, (3 * m, k)).astype(np.float16)
    b, w = (random.integers(-1, 2, (k, n)).astype(np.float16) for _ in range(2))
    c = np.zeros((m, n), np.float16)
    tile = tawa.TensorDescriptor.from_tensor
    described = tile(a, [m, k]), tile(b, [k, n]), tile(w, [k, n]), tile(c, [m, n])
    kernel = made_between_products
    compiled = kernel.compile(*described, 3, M=m, N=n, alternate=True)
    named = dict(zip(kernel.arg_names, (*described, 3), strict=False))
    arguments = [named[name] for name in compiled.spec.arguments]
    assert check(compiled.module("hopper"), (1,), arguments).proved
    acc = np.zeros((m, n))
    for i in range(3):
        rows = a[i * m : i * m + m].astype(float)
        acc = np.minimum(acc, 3) + rows @ b + rows @ (w + i)
    np.testing.assert_array_equal(c, acc)
