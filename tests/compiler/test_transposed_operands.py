"""Products whose operands lie in memory with K not contiguous, of every element size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulation import Arrays, Stored, block, check, values

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import Create, Restage, TransposeInto, WarpGroup
from tawa.hopper.dialect.matrix import RoundOperand
from tawa.hopper.dialect.structure import SharedWarpGroup
from tawa.hopper.dialect.transpose import TransposeTile
from tawa.simulate.check.protocol import check as check_schedules
from tawa.simulate.interpret.aref import run as run_aref


@tawa.jit
def product(
    a, b, c, N, K, M_BLOCK: tl.constexpr, N_BLOCK: tl.constexpr, K_BLOCK: tl.constexpr,
    TURN_A: tl.constexpr, TURN_B: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) // tl.cdiv(N, N_BLOCK) * M_BLOCK
    n = tl.program_id(0) % tl.cdiv(N, N_BLOCK) * N_BLOCK
    acc = tl.zeros((M_BLOCK, N_BLOCK), ACC)
    for k in range(0, K, K_BLOCK):
        x = a.load([k, m]).T if TURN_A else a.load([m, k])
        y = b.load([k, n]) if TURN_B else b.load([n, k]).T
        acc = tl.dot(x, y, acc)
    c.store([m, n], acc)


def launch(
    arrays: Arrays, element: str, sizes: tuple[int, int, int], blocks: tuple[int, int, int],
    turn_a: bool, turn_b: bool, **options: Any,
) -> Any:  # fmt: skip
    """Check one product at the tile and the hopper level."""
    (m, n, k), (bm, bn, bk) = sizes, blocks
    a = arrays.random(element, *((k, m) if turn_a else (m, k)))
    b = arrays.random(element, *((k, n) if turn_b else (n, k)))
    kind = "i32" if element == "i8" else "f32"
    c = arrays.output(kind, m, n)
    x, y = values(a), values(b)
    expected = (x.T if turn_a else x) @ (y if turn_b else y.T)
    described = [
        block(a, *((bk, bm) if turn_a else (bm, bk))),
        block(b, *((bk, bn) if turn_b else (bn, bk))),
        block(c, bm, bn),
    ]
    constants = {
        "M_BLOCK": bm, "N_BLOCK": bn, "K_BLOCK": bk, "TURN_A": turn_a, "TURN_B": turn_b,
        "ACC": tl.int32 if element == "i8" else tl.float32,
    }  # fmt: skip
    grid = (-(-m // bm) * -(-n // bn),)
    tolerance = 2e-3 if element == "f32" else 1e-5
    return check(
        product, grid, [*described, n, k], {2: expected}, tolerance, **constants, **options
    )


NN, TT, TN = (False, True), (True, False), (True, True)


@pytest.mark.parametrize(
    ("element", "turn_a", "turn_b"), [("e4m3", *NN), ("i8", *TT), ("e5m2", *TN), ("f32", *TN)]
)
def test_loaded_operands(arrays: Arrays, element: str, turn_a: bool, turn_b: bool) -> None:
    compiled = launch(arrays, element, (112, 80, 144), (64, 64, 64), turn_a, turn_b)
    count = turn_a + turn_b
    aref, hopper = compiled.module("aref"), compiled.module("hopper")
    assert sum(isinstance(op, TransposeInto) for op in aref.walk()) == count
    assert sum(isinstance(op, TransposeTile) for op in hopper.walk()) == count
    roles = [op.role.data for op in aref.walk() if isinstance(op, WarpGroup)]
    assert sorted(roles) == ["load", "math", "transpose"]
    assert sum(isinstance(op, SharedWarpGroup) for op in hopper.walk()) == 1
    assert not any(isinstance(op, Create) and op.interleaved for op in aref.walk())


def test_halves_need_no_transposition(arrays: Arrays) -> None:
    compiled = launch(arrays, "bf16", (64, 64, 64), (64, 64, 64), True, True)
    assert not any(isinstance(op, TransposeTile) for op in compiled.module("hopper").walk())


OPTIONS = [
    {"specialize": False, "num_warps": 8},
    {"persistent": True, "ping_pong": True},
    {"consumers": 1, "num_stages": 1},
    {"persistent": True, "cluster": 2},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(arrays: Arrays, options: dict[str, Any]) -> None:
    compiled = launch(arrays, "e4m3", (256, 96, 160), (128, 48, 32), True, True, **options)
    alone = "specialize" in options
    restaged = [op for op in compiled.module("aref").walk() if isinstance(op, Restage)]
    assert len(restaged) == 2 * alone


@pytest.mark.parametrize(("element", "columns"), [("e4m3", 16), ("e4m3", 160), ("f32", 24)])
def test_narrow_and_wide_tiles(arrays: Arrays, element: str, columns: int) -> None:
    launch(arrays, element, (64, columns, 64), (64, columns, 32), False, True)


def test_every_schedule_is_safe(arrays: Arrays) -> None:
    """Two rings of loads, two of transposes, three roles: no schedule deadlocks or races."""
    compiled = launch(arrays, "e4m3", (64, 32, 96), (64, 32, 32), True, True)
    a, b, c = (
        arrays.random("e4m3", 96, 64),
        arrays.random("e4m3", 96, 32),
        arrays.output("f32", 64, 32),
    )
    described = [block(a, 32, 64), block(b, 32, 32), block(c, 64, 32), 32, 96]
    report = check_schedules(compiled.module("hopper"), (1,), described, schedules=1)
    assert report.proved
    np.testing.assert_allclose(c.view(np.ndarray), values(a).T @ values(b), rtol=1e-5, atol=1e-5)
    c[...] = 0
    run_aref(compiled.module("aref"), (1,), described)
    np.testing.assert_allclose(c.view(np.ndarray), values(a).T @ values(b), rtol=1e-5, atol=1e-5)


@tawa.jit
def read_twice(a, b, c, K):
    """A tile that a product and ordinary code read keeps its place; consumers transpose it."""
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        y = b.load([k, 0])
        acc = tl.dot(a.load([0, k]), y, acc)
        acc += tl.sum(y.to(tl.float32), axis=0)[None, :]
    c.store([0, 0], acc)


def test_tile_that_ordinary_code_reads_too(arrays: Arrays) -> None:
    a, b, c = (
        arrays.random("e4m3", 64, 128),
        arrays.random("e4m3", 128, 64),
        arrays.output("f32", 64, 64),
    )
    expected = values(a) @ values(b) + values(b).sum(axis=0)
    arguments = [block(x, 64, 64) for x in (a, b, c)]
    compiled = check(read_twice, (1,), [*arguments, 128], {2: expected}, tolerance=1e-5)
    assert any(isinstance(op, Restage) for op in compiled.module("aref").walk())


@tawa.jit
def chained(a, b, v, c, K):
    """The weights of the second product are 8-bit, in the registers that the first one left."""
    x = a.load([0, 0])
    acc = tl.zeros((64, 128), tl.float32)
    for k in range(0, K, 64):
        p = tl.maximum(tl.dot(x, b.load([k, 0]).T), 0).to(v.dtype)
        acc = tl.dot(p, v.load([k, 0]), acc)
    c.store([0, 0], acc)


def chained_case(arrays: Arrays, element: str) -> tuple[list[Any], Stored, np.ndarray]:
    """Arguments, output and the exact result; sums of halves, so that weights are exact in e4m3."""
    a, b = arrays.random("e4m3", 64, 64), arrays.random("e4m3", 192, 64)
    v, c = arrays.random(element, 192, 128), arrays.output("f32", 64, 128)
    a[...], b[...] = (a & 0x80) | 0x38, (b & 0x80) | 0x30  # +-1 and +-0.5
    b[:, 8:] = 0
    arguments = [block(a, 64, 64), block(b, 64, 64), block(v, 64, 128), block(c, 64, 128)]
    p = np.maximum(values(a) @ values(b).T, 0)
    return [*arguments, 192], c, p @ values(v)


@pytest.mark.parametrize(
    ("element", "options"), [("e5m2", {"specialize": False}), ("e4m3", {"overlap": False})]
)
def test_operands_in_registers(arrays: Arrays, element: str, options: dict[str, Any]) -> None:
    arguments, _, expected = chained_case(arrays, element)
    compiled = check(chained, (1,), arguments, {3: expected}, tolerance=1e-5, **options)
    made = [op for op in compiled.module("aref").walk() if isinstance(op, Create | Restage)]
    assert sum(op.interleaved is not None for op in made) == 1
    assert any(isinstance(op, RoundOperand) for op in compiled.module("hopper").walk())
    assert not compiled.findings


def test_operands_in_registers_in_every_schedule(arrays: Arrays) -> None:
    arguments, c, expected = chained_case(arrays, "e4m3")
    compiled = check(chained, (1,), arguments, {3: expected}, tolerance=1e-5)
    assert check_schedules(compiled.module("hopper"), (1,), arguments, schedules=2).proved
    np.testing.assert_allclose(c.view(np.ndarray), expected, rtol=1e-5, atol=1e-5)


@tawa.jit
def widened(
    a, b, c, N, K, M_BLOCK: tl.constexpr, N_BLOCK: tl.constexpr, K_BLOCK: tl.constexpr,
    LEFT: tl.constexpr,
):  # fmt: skip
    m, n, k = tl.arange(0, M_BLOCK), tl.arange(0, N_BLOCK), tl.arange(0, K_BLOCK)
    acc = tl.zeros((M_BLOCK, N_BLOCK), tl.float32)
    for start in range(0, K, K_BLOCK):
        if LEFT:  # [K, M] bytes, and [K, N] halves
            x = tl.load(a + (start + k)[None, :] * M_BLOCK + m[:, None]).to(tl.bfloat16)
            y = tl.load(b + (start + k)[:, None] * N + n[None, :])
        else:  # [M, K] halves, and [N, K] bytes
            x = tl.load(a + m[:, None] * K + start + k[None, :])
            y = tl.load(b + n[None, :] * K + start + k[:, None]).to(tl.bfloat16)
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize(
    ("rows", "left"), [(16, False), (64, False), (128, False), (16, True), (64, True)]
)
def test_converted_operands_are_staged_as_their_registers_run(
    arrays: Arrays, rows: int, left: bool
) -> None:
    """Neighbours in a thread stay neighbours: no store of a single half."""
    n, k = 64, 128
    a = arrays.random("i8", k, rows) if left else arrays.random("bf16", rows, k)
    b = arrays.random("bf16", k, n) if left else arrays.random("i8", n, k)
    c = arrays.output("f32", rows, n)
    expected = (values(a).T if left else values(a)) @ (values(b) if left else values(b).T)
    constants = {"M_BLOCK": rows, "N_BLOCK": n, "K_BLOCK": 64, "LEFT": left}
    compiled = check(
        widened, (1,), [a, b, c, n, k], {2: expected}, 1e-5, ("tile", "hopper", "ptx"), **constants
    )
    assert "st.shared.u16" not in compiled.stages["ptx"]


@tawa.jit
def across(a, b, c, K: tl.constexpr, COLUMNS: tl.constexpr, DOWN: tl.constexpr):
    """B's neighbours lie along its columns, or along K; nothing is loaded ahead."""
    m, n, k = tl.arange(0, 64), tl.arange(0, COLUMNS), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    at = n[:, None] + k[None, :] * COLUMNS if DOWN else n[:, None] * K + k[None, :]
    y = tl.load(b + at)
    tl.store(c + m[:, None] * COLUMNS + n[None, :], tl.dot(x, y.T))


@pytest.mark.parametrize("down", [True, False])
@pytest.mark.parametrize(("columns", "k"), [(24, 32), (16, 64), (64, 32), (8, 16)])
def test_narrow_operands_lie_where_their_rows_have_a_swizzle(
    arrays: Arrays, columns: int, k: int, down: bool
) -> None:
    a, b = (
        arrays.random("f16", 64, k),
        arrays.random("f16", *((k, columns), (columns, k))[not down]),
    )
    expected = values(a) @ (values(b) if down else values(b).T)
    given = [a, b, arrays.output("f32", 64, columns)]
    constants = {"K": k, "COLUMNS": columns, "DOWN": down}
    check(across, (1,), given, {2: expected}, 1e-5, levels=["hopper", "ptx"], **constants)
