"""Loads that come before meetings, those that may not, and what a kernel then computes."""

from __future__ import annotations

from typing import Any

import pytest
from simulation import Arrays, check, values
from xdsl.ir import Operation

import tawa
import tawa.language as tl
from tawa.hopper.dialect.global_memory import GlobalLoad, GlobalStore
from tawa.hopper.dialect.sync import CtaSync
from tawa.ir.walking import every


@tawa.jit
def normalised(x, w, y, HOW: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at).to(tl.float32)
    if HOW == "stores first":
        tl.store(y + at, v)
    total = tl.sum(v, 0)
    if HOW == "waits for the sum":
        weight = tl.load(w + tl.arange(0, BLOCK) + (total > 1e30).to(tl.int32))
    else:
        weight = tl.load(w + tl.arange(0, BLOCK), volatile=HOW == "volatile")
    tl.store(y + at, v * weight + total)


def order(compiled: Any) -> str:
    """The loads (l), meetings (m) and stores (s) of a kernel, in order."""
    letters: dict[type[Operation], str] = {GlobalLoad: "l", CtaSync: "m", GlobalStore: "s"}
    return "".join(letters.get(type(op), "") for op in every(compiled.module("hopper")))


def launched(how: str, block: int, warps: int = 4) -> Any:
    a = Arrays()
    x, w, y = a.random("f16", 2 * block), a.random("f32", block + 1), a.output("f32", 2 * block)
    rows = values(x).reshape(2, block)
    exact = rows * values(w)[:block] + rows.sum(1, keepdims=True)
    return check(
        normalised, (2,), [x, w, y], {2: exact.reshape(-1)}, 1e-3, ("tile", "hopper", "ptx"),
        HOW=how, BLOCK=block, num_warps=warps,
    )  # fmt: skip


def test_a_weight_is_on_its_way_before_warps_meet() -> None:
    assert order(launched("plain", 1024)).startswith("llm")


def test_a_thread_has_no_more_on_its_way_than_it_has_registers_for() -> None:
    assert order(launched("plain", 4096)).startswith("lm")


@pytest.mark.parametrize("how", ["waits for the sum", "volatile"])
def test_what_has_to_wait_waits(how: str) -> None:
    assert order(launched(how, 1024)).startswith("lm")


def test_no_load_passes_what_the_program_writes() -> None:
    assert order(launched("stores first", 1024)) == "lsmls"


@tawa.jit
def of_columns(x, y, n, BM: tl.constexpr, BN: tl.constexpr):
    columns = tl.arange(0, BN)
    best = tl.full((BM, BN), -1e30, tl.float32)
    for i in range(0, n, BM):
        at = (i + tl.arange(0, BM))[:, None] * BN + columns[None, :]
        best = tl.maximum(best, tl.load(x + at).to(tl.float32))
    top = tl.max(best, axis=0)
    for i in range(0, n, BM):
        at = (i + tl.arange(0, BM))[:, None] * BN + columns[None, :]
        tl.store(y + at, tl.load(x + at).to(tl.float32) - top)


def test_a_row_is_exchanged_once_before_the_loop_that_needs_it() -> None:
    a = Arrays()
    x, y = a.random("bf16", 64, 128), a.output("f32", 64, 128)
    compiled = check(
        of_columns, (1,), [x, y, 64], {1: values(x) - values(x).max(0)}, 1e-6,
        ("tile", "hopper", "ptx"), BM=16, BN=128, num_warps=4,
    )  # fmt: skip
    text = str(compiled.module("hopper"))
    assert "hopper.shared_load" not in text[text.rindex("scf.for") :]
