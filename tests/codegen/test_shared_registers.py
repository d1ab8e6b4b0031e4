"""Whose registers are shared out by addresses: only of roles that copy through pointers."""

from __future__ import annotations

from typing import Any

import pytest

import tawa
import tawa.language as tl
from tawa.ir.decisions.memory import RegistersShared


@tawa.jit
def product(a, b, c, k, M: tl.constexpr, N: tl.constexpr):
    rows, columns, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, 64)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, 64):
        x = tl.load(a + rows[:, None] * k + (start + depth)[None, :])
        y = tl.load(b + (start + depth)[:, None] * N + columns[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))


@tawa.jit
def described(a, b, c, k, M: tl.constexpr, N: tl.constexpr):
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, 64):
        total = tl.dot(a.load([0, start]), b.load([start, 0]), total)
    c.store([0, 0], total.to(tl.float16))


def shared(*types: str, kernel: tawa.Kernel = product, **options: Any) -> list[RegistersShared]:
    return list(kernel.compile(*types, "i32:16", 128, 128, **options).decided(RegistersShared))


@pytest.mark.parametrize(("options", "count"), [({"specialize": True, "bulk_copies": False}, 1),
                                                ({"specialize": False}, 0)])  # fmt: skip
def test_a_role_that_copies_through_pointers(options: dict[str, Any], count: int) -> None:
    found = shared(*["*f16:16"] * 3, num_warps=8, **options)
    assert len(found) == count
    assert all(decision.loading < decision.computing for decision in found)


def test_the_copy_engine_has_no_addresses_in_registers() -> None:
    types = "desc<f16,128x64>", "desc<f16,64x128>", "desc<f16,128x128>"
    assert not shared(*types, kernel=described, num_warps=8)
