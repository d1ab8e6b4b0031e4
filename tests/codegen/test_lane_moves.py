"""What threads get from other lanes of their warp: tiles in other layouts, and rows by number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation import Arrays, check, stored, values

import tawa
import tawa.language as tl
from tawa.base.layout import REPLICA, Layout, Mode, Modes, register_map
from tawa.codegen.lane_swaps import MOST_MOVES, Moves, lane_moves
from tawa.driver.compiled import read_module
from tawa.runtime import sass


def modes(bits: list[int | None]) -> Modes:
    """A mode for each bit: what it adds to the coordinate, or None for copies."""
    return tuple(Mode(2, REPLICA, 0) if bit is None else Mode(2, 0, 1 << bit) for bit in bits)


def drawn(random, count: int, warp: list[int | None]) -> Layout:
    """A 1-D layout whose lanes and registers share the bits that its two warps' bits leave."""
    left: list[int | None] = [bit for bit in range(count) if bit not in warp]
    random.shuffle(left)
    inside = random.randint(max(0, len(left) - 3), min(5, len(left)))
    lanes = [*left[:inside], *[None] * (5 - inside)]
    random.shuffle(lanes)
    return Layout((1 << count,), modes(left[inside:]), modes(lanes), modes(warp))


def after(held: np.ndarray, moves: Moves) -> np.ndarray:
    """What registers hold after the moves."""
    thread = np.arange(len(held))
    for register, bit in moves.kept:
        low = [r for r in range(held.shape[1]) if not r & register]
        high = [r | register for r in low]
        held = np.where((thread >> bit & 1)[:, None] == 1, held[:, high], held[:, low])
    held = held[:, list(moves.registers)]
    lane = sum((thread >> bit & 1) * number for bit, number in enumerate(moves.threads))
    asked = thread[:, None] // 32 * 32 + lane[:, None] + np.array(moves.lanes)
    return held[asked, np.arange(held.shape[1])]


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 7), st.randoms(use_true_random=False))
def test_elements_arrive(count: int, random) -> None:
    warp = [random.choice([None, bit]) for bit in random.sample(range(8), 2)]
    warp = [bit if bit is not None and bit < count else None for bit in warp]
    source = drawn(random, count, warp)
    free = [b for b in range(count) if b not in warp]
    asked = [random.choice([None, *free]) if bit is None else bit for bit in warp]
    asked = asked if asked[0] != asked[1] else [asked[0], warp[1]]
    result = drawn(random, count, asked)
    found = lane_moves(source, result, 4)
    if found is None:  # too many registers, or no lanes that could keep the other half
        copies = sum(bit.dim == REPLICA for bit in source.lane)
        assert result.registers > MOST_MOVES or len({*source.reg} & {*result.lane}) > copies
        return
    np.testing.assert_array_equal(after(source.coordinates[..., 0], found),
                                  result.coordinates[..., 0])  # fmt: skip
    here = register_map(source, result, (0,)) is not None
    assert not found.stays or found.kept or here


@tawa.jit
def solve(a, o, n, BC: tl.constexpr):
    """Rows of a triangular solve one by one: each is picked, and is wanted along both axes."""
    r = tl.arange(0, BC)
    A = tl.load(a + r[:, None] * BC + r[None, :])
    for i in range(2, n):
        row = tl.sum(tl.where((r == i)[:, None], A, 0.0), 0)
        row = row + tl.sum(row[:, None] * A, 0)
        A = tl.where((r == i)[:, None], row, A)
    tl.store(o + r[:, None] * BC + r[None, :], A)


@pytest.mark.parametrize(("size", "warps"), [(16, 1), (16, 4), (32, 2), (64, 4)])
def test_rows_of_a_solve(size: int, warps: int) -> None:
    arrays = Arrays()
    a, o = arrays.random("f32", size, size), arrays.output("f32", size, size)
    a[...] = a / 16
    expected, limit = values(a), min(size, 9)
    for i in range(2, limit):
        expected[i] = expected[i] + expected[i] @ expected
    check(solve, (1,), (a, o, limit), {1: expected}, BC=size, num_warps=warps,
          levels=("tile", "hopper", "ptx"))  # fmt: skip


def test_a_row_is_one_shuffle_a_register() -> None:
    compiled = solve.compile("*f32:16", "*f32:16", "i32", BC=16, num_warps=1)
    again = read_module(compiled.stages["hopper"], "hopper")  # as from the cache
    assert str(again) == str(compiled.module("hopper"))
    code = sass.disassemble(compiled.cubin)[compiled.spec.entry]
    # Of 4 columns a thread: one of a row, 3 of a sum over 8 lanes, and half of them for 2 rows.
    assert code.count("SHFL") == 4 + 3 * 4 + 2
    assert code.count("STS") == code.count("LDS") == 0


@tawa.jit
def pick(a, at, o, wide, AXIS: tl.constexpr, N: tl.constexpr):
    r = tl.arange(0, N)
    x = tl.load(a + r[:, None] * N + r[None, :])
    for i in range(6):
        where = tl.load(at + i)
        along = (tl.arange(0, N) == where) & (r < wide)
        chosen = along[:, None] if AXIS == 0 else along[None, :]
        tl.store(o + i * N + r, tl.sum(tl.where(chosen, x, 0), AXIS))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("element", "index"), [("f32", "i32"), ("i32", "i64"), ("f16", "i32")])
def test_picks_are_zero_outside(axis: int, element: str, index: str) -> None:
    arrays = Arrays()
    a, o = arrays.random(element, 32, 32), arrays.output(element, 6, 32)
    if element == "f32":
        a[3, :] = a[:, 3] = -0.0
    at = arrays.random(index, 6)
    at[...] = [0, 3, 31, -1, 32, 20]
    table = values(a) if axis == 0 else values(a).T
    expected = np.stack([table[i] if 0 <= i < 25 else np.zeros(32) for i in at.tolist()])
    compiled = check(pick, (1,), (a, at, o, 25), {2: expected}, AXIS=axis, N=32, num_warps=1,
                     levels=("tile", "hopper", "ptx"))  # fmt: skip
    assert not np.signbit(values(o)).any() or (expected < 0).any()
    assert "shuffle_from" in compiled.stages["cu"]


@tawa.jit
def turned_addresses(x, y, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    at = r[:, None] * C + c[None, :]
    tl.store(tl.flip(y + at, 1), tl.load(tl.flip(x + at, 1)))


@tawa.jit
def addresses_from_an_update(count, x, y, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    row = tl.atomic_add(count + r[:, None], r[:, None], sem="relaxed")
    tl.store(y + row.to(tl.uint32) * C + c[None, :], 5.0)


@pytest.mark.parametrize("shape", [(4, 4), (16, 4), (2, 32)])
def test_addresses_change_lanes(shape: tuple[int, int]) -> None:
    arrays = Arrays()
    x, y = arrays.random("f16", *shape), arrays.output("f16", *shape)
    levels = ["tile", "hopper", "ptx"]
    named = {"R": shape[0], "C": shape[1]}
    check(turned_addresses, (1,), (x, y), {1: values(x)}, 1e-6, levels, **named)
    count = stored(np.arange(shape[0]), "i32")
    given = count, x, arrays.output("f32", *shape)
    check(addresses_from_an_update, (1,), given, {2: np.full(shape, 5.0)}, 1e-6, levels, **named)
