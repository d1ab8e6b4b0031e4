"""Tiles that pointers address and the copy engine copies: the same results, at every level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulation import Arrays, Stored, check, values
from xdsl.dialects.builtin import TensorType, f16, i1, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Operation, SSAValue

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import CopyInto
from tawa.base.types import PtrType
from tawa.driver.compiled import Compiled
from tawa.hopper.dialect.copies import CopyAsync
from tawa.hopper.dialect.memory import TmaLoad
from tawa.hopper.dialect.structure import OneThread
from tawa.ir.decisions.roles import CopiedInBulk, NotCopiedInBulk
from tawa.ir.elementwise import Map
from tawa.partition.bulk_copies import _steps
from tawa.simulate.check.protocol import check as check_schedules
from tawa.simulate.interpret.aref import run as run_aref
from tawa.tile.dialect.ops import Arange, Splat

BLOCKS = {"BM": 64, "BN": 64, "BK": 64}


@tawa.jit
def product(
    a, b, c, M, N, K, am, ak, bk, bn,
    HOW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """A product whose addresses and masks are spelled in several ways."""
    tile_m, tile_n = tl.program_id(0), tl.program_id(1)
    rows, columns = tile_m * BM + tl.arange(0, BM), tile_n * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    if HOW == "wrapped" or HOW == "clamped" or HOW == "chosen":
        if HOW == "wrapped":
            m, n = rows % M, columns % N
        elif HOW == "clamped":
            m, n = tl.minimum(rows, M - 1), tl.minimum(columns, N - 1)
        else:
            m, n = tl.where(rows < M, rows, 0), tl.where(columns <= N - 1, columns, 0)
        at, bt = a + m[:, None] * am + k[None, :] * ak, b + (k[:, None] * bk + n[None, :] * bn)
        for i in range(tl.cdiv(K, BK)):
            x = tl.load(at, mask=k[None, :] < K - i * BK, other=0.0)
            y = tl.load(bt, mask=K - i * BK > k[:, None], other=0.0)
            acc = tl.dot(x, y, acc)
            at += BK * ak
            bt += BK * bk
    elif HOW == "masked" or HOW == "scalar":
        for i in range(0, K, BK):
            inside = (i + k) < K
            if HOW == "masked":
                at = a + rows[:, None] * am + (i + k)[None, :] * ak
            else:
                at = a + (tile_m * BM).to(tl.int64) * am + i * ak
                at += tl.arange(0, BM)[:, None] * am + k[None, :] * ak
            x = tl.load(at, mask=(rows < M)[:, None] & inside[None, :], other=0.0)
            bt = b + (i + k)[:, None] * bk + columns[None, :] * bn
            y = tl.load(bt, mask=inside[:, None] & (columns[None, :] < N), other=0.0)
            acc = tl.dot(x, y, acc)
    else:
        x_at = tl.make_block_ptr(a, (M, K), (am, ak), (tile_m * BM, 0), (BM, BK), (1, 0))
        y_at = tl.make_block_ptr(b, (K, N), (bk, bn), (0, tile_n * BN), (BK, BN), (1, 0))
        for _ in range(0, K, BK):
            x = tl.load(x_at, boundary_check=(0, 1), padding_option="zero")
            y = tl.load(y_at, boundary_check=(0, 1))
            acc = tl.dot(x, y, acc)
            x_at, y_at = tl.advance(x_at, (0, BK)), tl.advance(y_at, (BK, 0))
    at = c + rows[:, None] * N + columns[None, :]
    tl.store(at, acc, mask=(rows[:, None] < M) & (columns[None, :] < N))


def launched(
    how: str, sizes: tuple[int, int, int], turned: str = "", element: str = "f16", **more: Any
) -> Compiled:
    """Check one product at all levels."""
    (m, n, k), arrays = sizes, Arrays()
    a = arrays.random(element, *((k, m) if "a" in turned else (m, k)))
    b = arrays.random(element, *((n, k) if "b" in turned else (k, n)))
    c = arrays.output("f32", m, n)
    x = values(a).T if "a" in turned else values(a)
    y = values(b).T if "b" in turned else values(b)
    am = (1, m) if "a" in turned else (k, 1)
    bk = (1, k) if "b" in turned else (n, 1)
    constants = {**BLOCKS, "HOW": how, "bulk_copies": True, **more}
    grid = (-(-m // constants["BM"]), -(-n // constants["BN"]))
    args = [a, b, c, m, n, k, *am, *bk]
    tolerance = 2e-3 if element == "f32" else 1e-5
    compiled = check(product, grid, args, {2: x @ y}, tolerance, **constants)
    again(compiled, grid, dict(zip(("a", "b", "c"), (a, b, c), strict=True)), args)
    error = np.abs(c.view(np.ndarray) - x @ y).max(initial=0)
    assert error <= tolerance * max(1, np.abs(x @ y).max(initial=0))
    return compiled


def again(
    compiled: Compiled, grid: tuple[int, ...], arrays: dict[str, Stored], args: list[Any]
) -> None:
    """Run the aref level on the launch's own arrays, outputs poisoned."""
    arrays["c"][...] = np.nan
    names = ["a", "b", "c", "M", "N", "K", "am", "ak", "bk", "bn"]
    given = dict(zip(names, args, strict=True))
    picked = [given[name] for name in compiled.spec.arguments]
    plain = [v.view(np.ndarray) if isinstance(v, Stored) else v for v in picked]
    run_aref(compiled.module("aref"), grid, plain)


def in_bulk(compiled: Compiled) -> list[str]:
    return [name for d in compiled.decided(CopiedInBulk) for name in d.tiles]


def count(compiled: Compiled, kind: type[Operation]) -> int:
    return sum(isinstance(op, kind) for op in compiled.module("hopper").walk())


SPELLINGS = ("wrapped", "clamped", "chosen", "masked", "scalar", "blocks")


@pytest.mark.parametrize(
    ("how", "sizes"),
    [*((how, (80, 80, 176)) for how in SPELLINGS), ("masked", (16, 96, 48)), ("wrapped", (64, 64, 128))],
)  # fmt: skip
def test_all_spellings_are_boxes(how: str, sizes: tuple[int, int, int]) -> None:
    # Neighbours along N are not known to be neighbours where they are clamped or chosen.
    compiled = launched(how, sizes, "b" if how in ("clamped", "chosen") else "")
    assert in_bulk(compiled) == ["x", "y"]
    assert count(compiled, TmaLoad) >= 2
    assert count(compiled, CopyAsync) == 2, "what is no box is copied by threads"


@pytest.mark.parametrize(("how", "turned"), [("wrapped", "ab"), ("masked", "a")])
def test_operands_of_either_order(how: str, turned: str) -> None:
    assert in_bulk(launched(how, (80, 80, 80), turned)) == ["x", "y"]


@pytest.mark.parametrize(
    ("element", "turned", "more"),
    [("f32", "b", {"BK": 32}), ("e4m3", "b", {}), ("f16", "", {"BM": 128, "BN": 128}),
     ("f16", "", {"BM": 16, "BN": 32}), ("f16", "", {"num_stages": 1}), ("bf16", "", {"persistent": True}),
     ("f16", "", {"num_warps": 8, "BM": 128})],
)  # fmt: skip
def test_elements_tiles_and_options(element: str, turned: str, more: dict[str, Any]) -> None:
    assert in_bulk(launched("masked", (80, 80, 144), turned, element, **more)) == ["x", "y"]


@pytest.mark.parametrize("m", [64, 80])
def test_all_schedules_agree_on_boxes_and_on_what_begins_again(m: int) -> None:
    """Programs of the second kind copy through threads, in the rings of the first."""
    compiled = launched("wrapped", (m, 64, 144), num_stages=2)
    arrays = Arrays()
    a, b = (arrays.random("f16", *shape).view(np.ndarray) for shape in ((m, 144), (144, 64)))
    given = {"a": a, "b": b, "c": np.zeros((m, 64), np.float32), "M": m, "N": 64, "K": 144,
             "am": 144, "bk": 64}  # fmt: skip
    arguments = [given[name] for name in compiled.spec.arguments]
    grid = (-(-m // 64), 1, 1)
    assert check_schedules(compiled.module("hopper"), grid, arguments, schedules=2).proved


@tawa.jit
def rows_of_heads(q, a, c, m, k, HEADS: tl.constexpr, K: tl.constexpr, KNOWN: tl.constexpr):
    """Rows of a head that lie between those of others, and end inside of a tile's."""
    end = K if KNOWN else 4 * k
    head = tl.program_id(0)
    rows, columns = tl.arange(0, 64), tl.arange(0, 128)
    x = tl.load(q + rows[:, None] * 128 + columns[None, :])
    acc = tl.zeros((64, 64), tl.float32)
    at = a + head * K + rows[:, None] * (HEADS * K) + columns[None, :]
    for i in range(0, m, 64):
        y = tl.load(at + i * (HEADS * K), mask=columns[None, :] < end, other=0.0)
        acc = tl.dot(x, y.T, acc)
    tl.store(c + head * 4096 + rows[:, None] * 64 + rows[None, :], acc)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("k", [40, 60, 68, 96, 100])
def test_rows_that_end_inside_of_16_bytes(k: int, known: bool) -> None:
    """The engine stops where a box begins inside of 16 bytes, though what is before it does not."""
    arrays, m, heads = Arrays(), 128, 4
    q, a = arrays.random("f16", 64, 128), arrays.random("f16", m, heads, k)
    c = arrays.output("f32", heads, 64, 64)
    rows = np.zeros((heads, m, 128))
    rows[:, :, :k] = values(a).transpose(1, 0, 2)
    summed = rows.reshape(heads, m // 64, 64, 128).sum(1)
    expected = np.einsum("ik,hjk->hij", values(q), summed)
    given = {"HEADS": heads, "K": k, "KNOWN": known, "bulk_copies": True}
    compiled = check(rows_of_heads, (heads,), [q, a, c, m, k // 4], {2: expected}, 1e-5, **given)
    assert ("y" in in_bulk(compiled)) == (k % 8 == 0 or not known)


def test_no_iteration_at_all() -> None:
    launched("wrapped", (64, 64, 0))


@tawa.jit
def rows_backwards(a, b, c, K, start, stride, BM: tl.constexpr, BK: tl.constexpr):
    m, k = tl.arange(0, BM), tl.arange(0, BK)
    acc = tl.zeros((BM, BM), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(a + start + m[:, None] * stride + (i + k)[None, :])
        y = tl.load(b + m[None, :] * K + (i + k)[:, None])
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * BM + m[None, :], acc)


@pytest.mark.parametrize("stride", [-64, 0, 64])
def test_a_stride_that_no_tensor_map_has(stride: int) -> None:
    """Which strides it has is known when the kernel runs."""
    arrays = Arrays()
    a, b, c = (arrays.random("f16", 64, 64), arrays.random("f16", 64, 64),
               arrays.output("f32", 64, 64))  # fmt: skip
    start = 63 * 64 if stride < 0 else 0
    x = values(a)[(start + stride * np.arange(64)) // 64]
    found = check(rows_backwards, (1,), [a, b, c, 64, start, stride],
                  {2: x @ values(b).T}, 1e-5, BM=64, BK=64, bulk_copies=True)  # fmt: skip
    assert "x" in in_bulk(found)


@tawa.jit
def limited(a, b, c, K, moved, LOW: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    """Rows that are moved, but not out of `a`'s 128."""
    m, k = tl.arange(0, BM), tl.arange(0, BK)
    row = tl.maximum(m + moved, 0) if LOW else tl.minimum(m + moved, 127)
    acc = tl.zeros((BM, BM), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(a + row[:, None] * K + (i + k)[None, :])
        y = tl.load(b + m[:, None] * K + (i + k)[None, :])
        acc = tl.dot(x, y.T, acc)
    tl.store(c + m[:, None] * BM + m[None, :], acc)


@pytest.mark.parametrize("moved", [0, 3, 37])
@pytest.mark.parametrize("low", [True, False])
@pytest.mark.parametrize("far", ["inside", "at the end", "beyond it"])
def test_limits_are_kept_where_they_cut(low: bool, far: str, moved: int) -> None:
    arrays = Arrays()
    a, b, c = (arrays.random("f16", 128, 128), arrays.random("f16", 64, 128),
               arrays.output("f32", 64, 64))  # fmt: skip
    start = {"inside": 0, "at the end": 27, "beyond it": 100}[far]
    moved = -moved - start if low else 64 + moved + start
    row = np.clip(np.arange(64) + moved, 0, 127)
    found = check(limited, (1,), [a, b, c, 128, moved],
                  {2: values(a)[row] @ values(b).T}, 1e-5, LOW=low, BM=64, BK=64,
                  bulk_copies=True)  # fmt: skip
    assert "x" in in_bulk(found)


@tawa.jit
def elsewhere(a, b, m, k, K, stride, MODE: tl.constexpr):
    """Rows `m` and columns `k` of a tile."""
    if MODE == "steps":
        x = tl.load(a + m * stride + k, mask=2 * m < K)
    elif MODE == "divisors":
        x = tl.load(a + (m % (m + K)) * stride + k)
    elif MODE == "two tiles":
        x = tl.load(a + tl.minimum(m, 2 * m - K) * stride + k)
    elif MODE == "sums of strides":
        x = tl.load(a + m * stride + m * K + k)
    elif MODE == "overlap":
        x = tl.load(a + m * 8 + k)
    elif MODE == "backwards":
        x = tl.load(a + K * stride - m * 64 + k)
    elif MODE == "unaligned":
        x = tl.load(a + m * 100 + k)
    elif MODE == "chosen":
        x = tl.load(tl.where(K > 64, a, b) + m * stride + k)
    return x


@tawa.jit
def gathered(a, b, c, rows, K, stride, MODE: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    m, k = tl.arange(0, BM), tl.arange(0, BK)
    acc = tl.zeros((BM, BM), tl.float32)
    for i in range(0, K, BK):
        if MODE == "loaded":
            x = tl.load(a + tl.load(rows + m)[:, None] * stride + (i + k)[None, :])
        elif MODE == "mask":
            test = (m[:, None] < K) | (k[None, :] < 8)
            x = tl.load(a + m[:, None] * stride + (i + k)[None, :], mask=test, other=0.0)
        elif MODE == "stride":
            x = tl.load(a + m[:, None] * (stride * tl.load(rows) * 8) + (i + k)[None, :])
        elif MODE == "squares":
            x = tl.load(a + m[:, None] * m[:, None] * 8 + (i + k)[None, :])
        else:
            x = elsewhere(a, b, m[:, None], (i + k)[None, :], K, stride, MODE)
        y = tl.load(b + m[None, :] * K + (i + k)[:, None])
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * BM + m[None, :], acc)


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("loaded", "its addresses depend on a tile that tile.load gives"),
        ("mask", "its mask is not made of bounds alone"),
        ("stride", "the stride of its rows is not computed from arguments alone"),
        ("squares", "its addresses are products of places"),
        ("steps", "its mask compares more than the places along one dimension"),
        ("divisors", "its addresses are remainders of several divisors"),
        ("two tiles", "its addresses are minsi of two tiles"),
        ("sums of strides", "a stride is a sum of several"),
        ("overlap", "its rows overlap"),
        ("backwards", "the stride of its rows is no known multiple of 16 bytes"),
        ("unaligned", "the stride of its rows is no known multiple of 16 bytes"),
        ("chosen", "it starts from no argument: from a pointer that is loaded or chosen"),
    ],
)
def test_a_remark_says_why_a_tile_is_no_box(mode: str, why: str) -> None:
    types = ["*f16:16", "*f16:16", "*f32:16", "*i32:16", "i32:16", "i32:16"]
    found = gathered.compile(*types, MODE=mode, BM=64, BK=64, bulk_copies=True)
    assert [(d.tile, d.why) for d in found.decided(NotCopiedInBulk)] == [("x", why)]
    assert in_bulk(found) == ["y"]
    boxes = [op.box is not None for op in found.module("aref").walk() if isinstance(op, CopyInto)]
    assert sorted(boxes) == [False, True]


def test_it_can_be_turned_off() -> None:
    found = product.compile(
        *["*f16:16"] * 2, "*f32:16", *["i32:16"] * 4, "i32:1", "i32:16", "i32:1",
        HOW="masked", bulk_copies=False, **BLOCKS,
    )  # fmt: skip
    assert not in_bulk(found)
    assert count(found, CopyAsync) == 2
    assert count(found, TmaLoad) == 0


@tawa.jit
def moving(a, b, c, K, SUM: tl.constexpr):
    """Pointers that a loop carries beside a sum, or alone."""
    m, k = tl.arange(0, 64), tl.arange(0, 32)
    at, bt = a + m[:, None] * K + k[None, :], b + m[None, :] * K + k[:, None]
    out = c + m[:, None] * 64 + m[None, :]
    acc = tl.zeros((64, 64), tl.float32)
    for i in range(0, K, 32):
        found = tl.dot(tl.load(at), tl.load(bt), acc)
        if SUM:
            acc = found
        else:
            tl.store(out + i * 128, found)
        at += 32
        bt += 32
    if SUM:
        tl.store(out, acc)


@pytest.mark.parametrize("sums", [True, False])
def test_pointers_are_moved_beside_a_sum_and_alone(sums: bool) -> None:
    types = "*f16:16", "*f16:16", "*f32:16", "i32:16"
    found = moving.compile(*types, SUM=sums, bulk_copies=True)
    assert not found.decided(NotCopiedInBulk)
    assert len(in_bulk(found)) == 2


def made(kind: Any = i32) -> SSAValue:
    return Made(result_types=[kind]).results[0]


POINTERS = TensorType(PtrType(f16), [8])


def test_what_an_iteration_adds_to_pointers() -> None:
    """Scalars, one or several; nothing else is a step."""
    start, first, second = made(POINTERS), made(), made()

    def moved(pointers: SSAValue, by: SSAValue) -> SSAValue:
        return Map("addptr", [pointers, by]).results[0]

    once = moved(start, Splat(first, (8,)).result)
    assert _steps(start, start) == []
    assert _steps(once, start) == [first]
    assert _steps(moved(once, Splat(second, (8,)).result), start) == [second, first]
    assert _steps(moved(start, Arange(0, 8).result), start) is None
    condition = made(TensorType(i1, [8]))
    chosen = Map("select", [condition, once, start]).results[0]
    assert _steps(chosen, start) is None
    other = Made(operands=[start], result_types=[POINTERS]).results[0]
    assert _steps(moved(other, Splat(first, (8,)).result), start) is None


def test_one_thread_copies_all_boxes_of_a_slot_after_one_test() -> None:
    compiled = launched("masked", (64, 64, 128))
    together, *one_by_one = [op for op in compiled.module("hopper").walk() if _copies(op)]
    assert [len(list(filter(_is_copy, op.walk()))) for op in (together, *one_by_one)] == [2, 1, 1]
    assert compiled.asm["cu"].count("elected()) {") == 3, "no loop over threads that copy"
    functions = {op.function.data for op in compiled.module("aref").walk() if isinstance(op, Map)}
    assert "divsi" not in functions, "what is known to be whole pieces is not tested"


def _is_copy(op: Operation) -> bool:
    return isinstance(op, TmaLoad)


def _copies(op: Operation) -> bool:
    return isinstance(op, OneThread) and any(map(_is_copy, op.walk()))
