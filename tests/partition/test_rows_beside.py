"""Which rows and numbers are copied into the slots of the tiles beside them."""

from __future__ import annotations

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import CopyInto
from tawa.driver.compiled import Compiled
from tawa.ir.decisions.loops import LoadedIntoRegistersAhead
from tawa.ir.decisions.roles import CopiedAhead, CopiedThroughPointers

TYPES = ["*f16:16", "*f16:16", "*f32:16", "*f32:16", "i32:16"]


@tawa.jit
def state(k, v, gates, out, T, D: tl.constexpr, C: tl.constexpr, MODE: tl.constexpr):
    i, d, j = tl.arange(0, C), tl.arange(0, D), tl.arange(0, 32)
    s = tl.zeros((D, 32), tl.float32)
    for start in range(0, T, C):
        rows = start + i
        tl.store(out + start // C * D * 32 + d[:, None] * 32 + j[None, :], s)
        x = tl.load(k + rows[None, :] * D + d[:, None], mask=rows[None, :] < T, other=0.0)
        y = tl.load(v + rows[:, None] * 32 + j[None, :], mask=rows[:, None] < T, other=0.0)
        last = tl.load(gates + 3 * (tl.minimum(start + C, T) - 1)).to(tl.float32)
        if MODE == "other":
            gate = tl.load(gates + 3 * rows, mask=rows < T, other=1.0)
        else:
            gate = tl.load(gates + 3 * rows, mask=rows < T, other=0.0)
        gate = gate.to(tl.float32)
        y = (y * tl.exp2(last - gate)[:, None]).to(v.dtype.element_ty)
        if MODE == "written":
            tl.store(gates + 3 * (start + T) + i, gate.to(gates.dtype.element_ty))
        s = tl.dot(x, y, s * tl.exp2(last))


def compiled(mode: str = "", types: list[str] = TYPES, **more: object) -> Compiled:
    return state.compile(*types, D=64, C=64, MODE=mode, **{"num_warps": 4, **more})


def copied(found: Compiled) -> list[tuple[str, ...]]:
    decided = [*found.decided(CopiedAhead), *found.decided(CopiedThroughPointers)]
    return [d.tiles for d in decided]


@pytest.mark.parametrize("role", ["own", "loading"])
def test_rows_and_numbers_fill_the_slots_of_the_tiles(role: str):
    found = compiled(num_warps=4, **({"specialize": False} if role == "own" else {}))
    assert copied(found) == [("x", "y", "last", "gate")]
    assert not found.decided(LoadedIntoRegistersAhead)
    filled = [op for op in found.module("aref").walk() if isinstance(op, CopyInto)]
    rows = {op.ref for op in filled if len(op.pointers.type.get_shape()) == 1}
    tiles = {op.ref for op in filled} - rows
    assert len(rows) == 1  # of a tile beside them
    assert len(tiles) == (0 if role == "own" else 1)


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        ("other", ("x", "y", "last")),
        ("written", ("x", "y")),
    ],
)
def test_what_copies_cannot_do_is_loaded_into_registers(mode: str, names: tuple[str, ...]):
    assert copied(compiled(mode)) == [names]


def test_two_computing_groups_load_rows_into_registers():
    found = state.compile(*TYPES, D=128, C=64, MODE="", num_warps=8)
    assert copied(found) == [("x", "y")]
    assert found.decided(LoadedIntoRegistersAhead)


def test_rows_of_two_bytes_that_lie_apart_stay():
    types = [*TYPES[:2], "*f16:16", *TYPES[3:]]
    found = compiled(types=types)
    assert copied(found) == [("x", "y")]
    assert found.decided(LoadedIntoRegistersAhead)
    # A number that is not copied is no row.
    assert not [op for op in found.module("aref").walk() if op.name == "tile.reduce"]


def expected(k: np.ndarray, v: np.ndarray, g: np.ndarray, chunks: int) -> np.ndarray:
    k, v, g = (x.astype(np.float64) for x in (k, v, g))
    s, states = np.zeros((k.shape[1], v.shape[1])), []
    for c in range(chunks):
        states.append(s)
        x, y, gate = (a[c * 64 : c * 64 + 64] for a in (k, v, g))
        s = s * np.exp2(gate[-1]) + x.T @ (y * np.exp2(gate[-1] - gate)[:, None])
    return np.stack(states)


@pytest.mark.parametrize(("D", "warps"), [(32, 1), (32, 2), (32, 4), (64, 4)])
@pytest.mark.parametrize("T", [64, 200])
def test_the_state_is_right(D: int, warps: int, T: int):
    rng = np.random.default_rng(T + warps)
    k = (rng.standard_normal((T, D)) * 0.2).astype(np.float16)
    v = (rng.standard_normal((T, 32)) * 0.2).astype(np.float16)
    gates = -rng.uniform(0, 0.1, (T, 3)).astype(np.float32)
    chunks = -(-T // 64)
    out = np.zeros((chunks, D, 32), np.float32)
    state[(1,)](k, v, gates, out, T, D=D, C=64, MODE="", num_warps=warps)
    right = expected(k, v, gates[:, 0], chunks)
    assert np.abs(out - right).max() <= 2e-3 * max(1.0, np.abs(right).max())


@tawa.jit
def gathered(a, b, index, out, K, M: tl.constexpr, N: tl.constexpr, C: tl.constexpr):
    m, n, c = tl.arange(0, M), tl.arange(0, N), tl.arange(0, C)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, C):
        rows = tl.load(index + k + c)
        x = tl.load(a + m[:, None] * K + (k + c)[None, :])
        acc = tl.dot(x, tl.load(b + rows[:, None] * N + n[None, :]), acc)
    tl.store(out + m[:, None] * N + n[None, :], acc)


def test_rows_of_addresses_are_no_rows_beside():
    types = ["*f16:16", "*f16:16", "*i32:16", "*f32:16", "i32:16"]
    found = gathered.compile(*types, M=64, N=64, C=64)
    assert copied(found) == [("x", "a tile")]
