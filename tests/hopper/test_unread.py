"""Registers that nobody reads are not computed, and all others are."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import Arrays, check, values
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, bf16, f32, i1, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Attribute, Operation, SSAValue

import tawa
import tawa.language as tl
from tawa.base.layout import blocked
from tawa.base.types import PtrType
from tawa.hopper.dialect.fragment import Anchored, Fill, Rearrange, Relabel, Window
from tawa.hopper.dialect.global_memory import GlobalLoad, GlobalStore
from tawa.hopper.dialect.text import EVERY
from tawa.hopper.dialect.types import FragType
from tawa.hopper.passes.unread import UnreadRegisters
from tawa.ir.elementwise import Map


def every(op: Operation) -> int:
    """What the pass says of an op."""
    found = op.attributes.get(EVERY)
    return found.value.data if isinstance(found, IntegerAttr) else 1


@tawa.jit
def scaled(x, y, s, rows, M: tl.constexpr, N: tl.constexpr):
    """Rows under a mask of their own, and a second use of what tells them apart."""
    i, j = tl.arange(0, M), tl.arange(0, N)
    inside = (i < rows)[:, None] & (j < N - 8)[None, :]
    at = i[:, None] * N + j[None, :]
    v = tl.load(x + at, mask=inside, other=0).to(tl.float32)
    tl.store(y + at, v * (at % 7), mask=inside)
    tl.store(s + i, tl.sum(v, 1), mask=i < rows)


@pytest.mark.parametrize(("kind", "rows"), [("bf16", 32), ("f16", 29), ("f32", 13)])
def test_masked_rows_are_right_at_all_levels(kind: str, rows: int) -> None:
    arrays, m, n = Arrays(), 32, 64
    x = arrays.random(kind, m * n)
    y, s = arrays.random("f32", m * n), arrays.random("f32", m)
    at = np.arange(m * n).reshape(m, n)
    inside = (at // n < rows) & (at % n < n - 8)
    v = np.where(inside, values(x).reshape(m, n), 0)
    wanted = np.where(inside, v * (at % 7), values(y).reshape(m, n)).reshape(-1)
    sums = np.where(np.arange(m) < rows, v.sum(1), values(s))
    compiled = check(
        scaled, (1,), [x, y, s, rows], {1: wanted, 2: sums}, 1e-2, ("tile", "hopper", "ptx"),
        M=m, N=n, num_warps=2,
    )  # fmt: skip
    ops = list(compiled.module("hopper").walk())
    (load,) = (op for op in ops if isinstance(op, GlobalLoad))
    vector = load.vector.value.data
    assert load.mask is not None
    assert isinstance(load.mask.owner, Operation)
    assert every(load.mask.owner) == vector > 1
    assert f"i += {vector}" in str(compiled.stages["cu"])


POINTERS = PtrType(bf16)


def of(element: Attribute, registers: int) -> FragType:
    """The fragment of one warp's registers."""
    return FragType.of(element, blocked((32 * registers,), 1, registers))


def made(element: Attribute, registers: int = 16) -> SSAValue:
    """A fragment that an unknown op makes."""
    return Made(result_types=[of(element, registers)]).results[0]


def moved() -> Map:
    """Addresses that numbers are added to."""
    return Map("addptr", [made(POINTERS), made(i32)])


def after(*ops: Operation) -> list[int]:
    """What the pass says of ops that stand in this order."""
    UnreadRegisters().apply(ModuleOp(list(ops)))
    return [every(op) for op in ops]


@pytest.mark.parametrize(("run", "expected"), [(None, 8), (4, 4), (1, 1)])
def test_a_load_reads_as_many_addresses_as_it_has_masks(run: int | None, expected: int) -> None:
    at, mask = moved(), Map("andi", [made(i1), made(i1)])
    load = GlobalLoad(at.result, mask.result, None, 8, run)
    assert after(at, mask, load) == [expected, expected, 1]


def test_all_readers_count() -> None:
    at, odd, other = moved(), moved(), moved()
    wide, narrow = GlobalLoad(at.result, None, None, 8), GlobalLoad(at.result, None, None, 4)
    kept = GlobalLoad(odd.result, None, None, 8)
    unknown = Made(operands=[odd.result], result_types=[])
    assert after(at, wide, narrow) == [4, 1, 1]
    assert after(odd, kept, unknown) == [1, 1, 1]
    assert after(other) == [1]


def test_what_is_stored_is_read_whole() -> None:
    at, value = moved(), Map("negf", [made(bf16)])
    assert after(at, value, GlobalStore(at.result, value.result, None, 8)) == [8, 1, 1]


def test_a_replacement_that_is_the_mask_too_is_read_whole() -> None:
    mask = Map("andi", [made(i1), made(i1)])
    pointers = Made(result_types=[of(PtrType(i1), 16)])
    load = GlobalLoad(pointers.results[0], mask.result, mask.result, 8)
    assert after(pointers, mask, load) == [1, 1, 1]


def test_what_is_rearranged_is_read_where_it_comes_from() -> None:
    def read(source: list[int], registers: int) -> list[int]:
        few = Map("addptr", [made(POINTERS, registers), made(i32, registers)])
        many = Rearrange(few.result, source, of(POINTERS, 16).layout)
        return after(few, many, GlobalLoad(many.value, None, None, 8))[:2]

    assert read([i // 8 for i in range(16)], 2) == [1, 8]
    assert read([i % 8 for i in range(16)], 8) == [8, 8]
    assert read(list(range(16)), 16) == [8, 8]
    assert read([4 * (i // 8) for i in range(16)], 8) == [4, 8]


def test_windows_and_labels_are_seen_through() -> None:
    at = moved()
    window = Window(at.result, 4, of(POINTERS, 8).layout)
    label = Relabel(window.value, of(POINTERS, 8).layout)
    assert after(at, window, label, GlobalLoad(label.value, None, None, 8)) == [4, 8, 8, 1]


def test_what_is_known_from_others_is_read_from_them() -> None:
    at = moved()
    known = Anchored(at.result, [0] * 16, list(range(16)))
    fill = Fill(Made(result_types=[f32]).results[0], of(f32, 16))
    unknown = Made(operands=[known.value, fill.value], result_types=[])
    assert after(at, known, fill, unknown) == [16, 1, 1, 1]
