"""Iterations that are done together: how many, which ones, and that they do what they did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import SSAValue

import tawa.language as tl
from tawa.base.options import Options
from tawa.base.types import DescType
from tawa.frontend import JITFunction, PointerArg, lower_to_tile, specialize_number
from tawa.ir.decisions.decision import Decisions
from tawa.ir.loops import integer_constant
from tawa.ir.walking import all_of
from tawa.simulate.interpret.tile import run
from tawa.tile.analysis.host_expressions import host_expression
from tawa.tile.dialect.ops import DescLoad, Load
from tawa.tile.passes.loads.batched_loads import MOST_OPS, BatchedLoads
from tawa.tile.passes.simplify import simplify


def doubled(x, y, first, last, N: tl.constexpr, STEP: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for k in range(first, last, STEP):
        total += tl.load(x + k * N + i)
        tl.store(y + k * N + i, total * 2)
    tl.store(y + 64 * N + i, total)


def added_up(x, y, first, last, N: tl.constexpr, STEP: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for k in range(first, last, STEP):
        total += tl.load(x + k * N + i)
    tl.store(y + i, total)


def set_to_numbers(x, y, first, last, N: tl.constexpr, STEP: tl.constexpr):
    i = tl.arange(0, N)
    for k in range(first, last, STEP):
        tl.store(y + k * N + i, i + k)
    tl.store(y + 64 * N + i, tl.load(x + i))


def carried(x, y, first, last, N: tl.constexpr, STEP: tl.constexpr):
    i = tl.arange(0, N)
    total, odd, turns = tl.zeros((N,), tl.float32), tl.zeros((N,), tl.float32), first - first
    for k in range(first, last, STEP):
        total, odd, turns = odd + tl.load(x + k * N + i), total, turns + 1
        tl.store(y + k * N + i, total + turns)
    tl.store(y + 64 * N + i, odd - turns)


def choosing(x, y, first, last, N: tl.constexpr, STEP: tl.constexpr):
    i = tl.arange(0, N)
    for k in range(first, last, STEP):
        if k % 3 != 1:
            more = 1
        else:
            more = 5
        tl.store(y + k * N + i, tl.load(x + k * N + i) + more)


def in_place(x, y, first, last, N: tl.constexpr, STEP: tl.constexpr):
    i = tl.arange(0, N)
    for k in range(first, last, STEP):
        tl.store(x + (k + 1) * N + i, tl.load(x + k * N + i) + 1)
    tl.store(y + i, tl.load(x + last * N + i))


def watching(x, y, first, last, N: tl.constexpr, STEP: tl.constexpr):
    i = tl.arange(0, N)
    for k in range(first, last, STEP):
        tl.store(y + k * N + i, tl.load(x + k * N + i, volatile=True))


def branching(x, y, first, last, N: tl.constexpr, STEP: tl.constexpr):
    i = tl.arange(0, N)
    for k in range(first, last, STEP):
        v = tl.load(x + k * N + i)
        if k % 3 != 1:
            tl.store(y + k * N + i, v)


def drawing(x, y, first, last, N: tl.constexpr, STEP: tl.constexpr):
    i = tl.arange(0, N)
    for k in range(first, last, STEP):
        tl.store(y + k * N + i, tl.load(x + k * N + i))
        tl.atomic_add(y + 64 * N + i, 1.0)


def indirect(x, y, first, last, N: tl.constexpr, STEP: tl.constexpr):
    i = tl.arange(0, N)
    for k in range(first, last, STEP):
        at = tl.load(x + k * N + i).to(tl.int32)
        tl.store(y + k * N + i, tl.load(x + at * N + i, mask=at < 60, other=-1.0))


def lowered(
    fn: Any, bounds: tuple[Any, Any], element: Any = tl.float32, **constants: Any
) -> ModuleOp:
    """The kernel's module; bounds that are None are arguments of the launch."""
    fixed: dict[str, Any] = {"N": 128, "STEP": 1, **constants}
    types: list[Any] = [PointerArg(element, 16)] * 2
    for name, value in zip(("first", "last"), bounds, strict=True):
        if value is None:
            types.append(specialize_number(1 << 20))
        else:
            fixed[name] = value
    module = lower_to_tile(JITFunction(fn), types, fixed)
    simplify(module)
    return module


def batched(module: ModuleOp, **options: Any) -> int:
    """Let the pass have a module; how many iterations became one."""
    decided = Decisions()
    BatchedLoads(Options(**options), decided).apply(module)
    module.verify()
    return decided.made[0].count if decided.made else 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fn", "first", "last", "step"),
    [(doubled, 0, 0, 1), (doubled, 0, 3, 1),
     (doubled, 2, 11, 1), (doubled, 1, 15, 2), (doubled, 7, 3, 1),
     (indirect, 3, 8, 2), (carried, 1, 8, 1)],
)  # fmt: skip
@pytest.mark.parametrize("known", [False, True])
def test_they_do_what_they_did(fn: Any, first: int, last: int, step: int, known: bool) -> None:
    """The same loads and stores, whether the bounds are known or come with a launch."""
    x = np.arange(64 * 128, dtype=np.float32) % 61
    results = []
    for together in (False, True):
        module = lowered(fn, (first, last) if known else (None, None), STEP=step)
        if together:
            count = batched(module)
            turns = max(1, len(range(first, last, step))) if known else 64
            assert count == min(2 if fn is indirect else 4, turns)
        y = np.full(65 * 128, -7, np.float32)
        run(module, (1,), [x, y, *([] if known else [first, last])])
        results.append(y)
    np.testing.assert_array_equal(*results)


def test_loads_come_first() -> None:
    module = lowered(doubled, (None, None))
    assert batched(module) == 4
    wide, rest = all_of(module, scf.ForOp)
    names = [op.name for op in wide.body.block.ops]
    loads = [i for i, name in enumerate(names) if name == Load.name]
    assert len(loads) == 4
    assert names.index("tile.store") > max(loads)
    assert len([op for op in rest.body.block.ops if isinstance(op, Load)]) == 1


@pytest.mark.parametrize(
    ("element", "n", "warps", "count"),
    [(tl.float32, 128, 4, 4), (tl.float32, 64, 4, 4), (tl.float32, 256, 4, 2), (tl.float32, 512, 4, 1),
     (tl.float32, 1024, 4, 1), (tl.float16, 128, 4, 8), (tl.int8, 128, 4, 8), (tl.float64, 128, 4, 2),
     (tl.float32, 256, 8, 4), (tl.float16, 256, 4, 4), (tl.float32, 128, 1, 1)],
)  # fmt: skip
def test_a_thread_asks_for_sixteen_bytes(element: Any, n: int, warps: int, count: int) -> None:
    module = lowered(copied, (None, None), element, N=n)
    assert batched(module, num_warps=warps) == count


def copied(x, y, first, last, N: tl.constexpr, STEP: tl.constexpr):
    i = tl.arange(0, N)
    for k in range(first, last, STEP):
        tl.store(y + k * N + i, tl.load(x + k * N + i))


@pytest.mark.parametrize(
    ("fn", "count"),
    [(copied, 4), (added_up, 1), (set_to_numbers, 1), (in_place, 1), (watching, 1), (branching, 1),
     (drawing, 1), (indirect, 2), (choosing, 1), (carried, 4)],
)  # fmt: skip
def test_which_loops_stay(fn: Any, count: int) -> None:
    """Those that store nothing or load nothing, read what they write, wait, branch or draw."""
    assert batched(lowered(fn, (None, None))) == count


@pytest.mark.parametrize("bounds", [(0, 0), (0, 1), (2, 4), (1, 4), (0, 5)])
def test_no_more_iterations_than_there_are(bounds: tuple[int, int]) -> None:
    first, last = bounds
    assert batched(lowered(copied, bounds)) == max(1, min(4, last - first))
    for step in (2, 3):
        turns = len(range(first, last, step))
        assert batched(lowered(copied, bounds, STEP=step)) == max(1, min(4, turns))


@pytest.mark.parametrize("bounds", [(0, None), (None, 8)])
def test_one_bound_says_nothing(bounds: tuple[Any, Any]) -> None:
    assert batched(lowered(copied, bounds)) == 4


@pytest.mark.parametrize("last", [8, 9, 11, 12])
def test_all_whole_groups_are_done_together(last: int) -> None:
    """What is left over is less than a group."""
    module = lowered(copied, (0, last))
    assert batched(module) == 4
    simplify(module)
    wide = all_of(module, scf.ForOp)[0]
    assert host_expression(wide.ub) == last - last % 4


def _before(loop: scf.ForOp, number: int) -> SSAValue:
    op = integer_constant(number, loop.step.type)
    assert loop.parent is not None
    loop.parent.insert_op_before(op, loop)
    return op.result


def test_steps_that_are_not_known_and_long_bodies_stay() -> None:
    for step in (None, 0, -1):
        module = lowered(copied, (None, None))
        (loop,) = all_of(module, scf.ForOp)
        loop.operands[2] = loop.operands[1] if step is None else _before(loop, step)
        assert batched(module) == 1
    for more in (0, 1):
        module = lowered(copied, (None, None))
        (loop,) = all_of(module, scf.ForOp)
        body = loop.body.block
        store = next(op for op in body.ops if op.name == "tile.store")
        while len(list(body.ops)) - 1 < MOST_OPS + more:
            body.insert_op_before(store.clone(), store)
        assert batched(module) == (1 if more else 4)


def test_loops_that_load_blocks_stay() -> None:
    """What descriptors reach is not looked at."""
    module = lowered(copied, (None, None))
    (loop,) = all_of(module, scf.ForOp)
    desc = Made(result_types=[DescType(TensorType(f32, (16,)))])
    assert loop.parent is not None
    loop.parent.insert_op_before(desc, loop)
    body = loop.body.block
    assert body.first_op is not None
    body.insert_op_before(DescLoad(desc.results[0], [body.args[0]]), body.first_op)
    assert batched(module) == 1
