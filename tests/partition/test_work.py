"""The work of programs, as a kernel's loops tell it."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.func import FuncOp

import tawa
import tawa.language as tl
from tawa.frontend import lower_to_tile, parse_argument
from tawa.partition.work import iterations_of, work_of


@tawa.jit
def triangle(x: Any, n: Any, BLOCK: tl.constexpr):
    """Row blocks of a triangular product: program i has i + 1 turns, capped by n."""
    row = tl.program_id(0)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for column in range(0, min(row + 1, n)):
        at = x + (column + tl.program_id(1)) * BLOCK * BLOCK
        tile = tl.load(at + tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :])
        total = tl.dot(tile, tile, total)
    tl.store(x + tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :], total)


@tawa.jit
def branches(x: Any, n: Any):
    """Odd programs loop; how often even ones do is in memory."""
    if tl.program_id(0) % 2 == 1:
        for i in range(0, n, 2):
            tl.store(x + i, 1.0)
    else:
        for i in range(0, tl.load(x).to(tl.int32)):
            tl.store(x + i, 2.0)


def work(kernel: Any, types: list[str], constants: dict[str, Any]) -> Any:
    module = lower_to_tile(kernel, [parse_argument(t) for t in types], constants)
    return work_of(next(op for op in module.ops if isinstance(op, FuncOp)))


def test_turns_count() -> None:
    found = work(triangle, ["*f16", "i32"], {"BLOCK": 64})
    assert found.differs
    cycles = found.evaluate((5, 2), [None, 3])
    assert len(cycles) == 10
    turns = np.array([1, 2, 3, 3, 3] * 2)
    each = int(cycles[1] - cycles[0])
    assert 64 * 64 * 64 // 2048 <= each < 200
    assert (cycles - cycles[0] == (turns - 1) * each).all()


def test_branches_count_as_they_are_taken() -> None:
    found = work(branches, ["*f32", "i32"], {})
    assert found.arguments == (1,)
    even, odd = found.evaluate((2,), [None, 100])
    assert odd - even == 50 - 1


@tawa.jit
def told_by_data(x: Any):
    """How long a program is, is in memory."""
    for i in range(0, tl.load(x + tl.program_id(0)).to(tl.int32)):
        tl.store(x + i, 2.0)


def test_what_data_decides_counts_as_equal() -> None:
    found = work(told_by_data, ["*f32"], {})
    assert not found.differs
    assert len(set(found.evaluate((7,), [None]).tolist())) == 1


@tawa.jit
def straight(x: Any):
    tl.store(x + tl.program_id(0), 1.0)


def test_a_program_without_loops_takes_a_cycle_and_one_that_fills_and_drains() -> None:
    found = work(straight, ["*f32"], {})
    assert not found.differs
    assert list(found.evaluate((3,), [None])) == [2, 2, 2]


@tawa.jit
def counted(x: Any, first: Any, last: Any, STEP: tl.constexpr):
    for i in range(first, last, STEP):
        tl.store(x + i, 1.0)
    for j in range(0, tl.load(x).to(tl.int32)):
        tl.store(x + j, 2.0)


def test_how_many_iterations_a_loop_makes() -> None:
    """As many as Python's range has; not known where memory says it."""
    for step in (1, 2, 3):
        kinds = [parse_argument(t) for t in ("*f32", "i32", "i32")]
        module = lower_to_tile(counted, kinds, {"STEP": step})
        kernel = next(op for op in module.ops if isinstance(op, FuncOp))
        known, unknown = iterations_of(kernel).values()
        assert unknown is None
        assert known is not None
        for first, last in ((0, 6), (0, 7), (1, 9), (5, 5), (7, 3)):
            (found,) = known.evaluate((1,), [None, first, last])
            assert found == len(range(first, last, step)), (first, last, step)
