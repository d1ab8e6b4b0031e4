"""Layouts that differ within warps: registers change lanes by shuffles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation import Arrays, check, values

import tawa
import tawa.language as tl
from tawa.base.layout import REPLICA, Layout, Mode, accumulator
from tawa.codegen.coalesce import gathered, lines, sectors
from tawa.codegen.exchanges import layouts_of_exchange, wavefronts
from tawa.codegen.lane_swaps import MOST_SWAPS, lane_swaps
from tawa.runtime import sass


def layout_of_bits(bits: list[int], registers: int, warps: int = 1) -> Layout:
    """1-D: the first bits are those of registers, then five of lanes, then those of warps."""
    modes = [Mode(2, 0, 1 << bit) for bit in bits]
    lane = registers + 5
    warp = tuple(modes[lane:]) or (Mode(1, REPLICA, 0),)
    return Layout((1 << len(bits),), tuple(modes[:registers]), tuple(modes[registers:lane]), warp)


def after(elements: np.ndarray, bits: tuple[tuple[int, int], ...]) -> np.ndarray:
    """What the registers hold after exchanges of bits."""
    thread, register = np.indices(elements.shape)
    for lanes, bit in bits:
        differ = ((thread & lanes) != 0) != ((register & bit) != 0)
        elements = np.where(differ, elements[thread ^ lanes, register ^ bit], elements)
    return elements


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 4), st.randoms(use_true_random=False), st.booleans(), st.sampled_from([2, 4]))
def test_elements_arrive(registers: int, random, few: bool, size: int) -> None:
    bits = list(range(registers + 7))
    inner = bits[: registers + 5]
    if few:  # one bit of a lane and one of a register
        a, b = random.randrange(registers), registers + random.randrange(5)
        inner[a], inner[b] = inner[b], inner[a]
    else:
        random.shuffle(inner)
    source = layout_of_bits(bits, registers, 2)
    result = layout_of_bits([*inner, *bits[registers + 5 :]], registers, 2)
    found = lane_swaps(source, result, size)
    if found is None:
        assert not few or size == 2  # where words of two elements would be taken apart
        return
    assert 1 <= len(found.bits) <= MOST_SWAPS
    held = after(source.coordinates[..., 0], found.bits)[:, list(found.registers)]
    np.testing.assert_array_equal(held, result.coordinates[..., 0])


def test_what_goes_through_memory() -> None:
    bits = list(range(8))
    plain = layout_of_bits(bits, 2)
    other_warp = layout_of_bits([7, 1, 2, 3, 4, 5, 6, 0], 2)
    same = layout_of_bits([1, 0, *bits[2:]], 2)
    halves = layout_of_bits([1, 2, 0, *bits[3:]], 2)
    assert lane_swaps(plain, other_warp, 4) is None
    assert lane_swaps(plain, same, 4) is None  # a matter of registers alone
    assert lane_swaps(plain, halves, 2) is None
    assert lane_swaps(plain, halves, 4) is not None


def test_halves_of_words_change_lanes() -> None:
    bits = list(range(8))
    swaps = lane_swaps(layout_of_bits(bits, 2), layout_of_bits([2, 1, 0, *bits[3:]], 2), 2)
    assert swaps is not None
    assert swaps.bits == ((1, 1),)


@tawa.jit
def walsh(x, y, N: tl.constexpr, LOG: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i).to(tl.float32)
    for s in tl.static_range(LOG):
        pairs = tl.reshape(v, (N // (2 << s), 2, 1 << s))
        a, b = tl.split(tl.permute(pairs, (0, 2, 1)))
        v = tl.reshape(tl.permute(tl.join(a + b, a - b), (0, 2, 1)), (N,))
    tl.store(y + i, v)


def test_a_transform_shuffles_half_of_its_registers_a_step() -> None:
    compiled = walsh.compile("*f16:16", "*f32:16", N=4096, LOG=12)
    code = sass.disassemble(compiled.cubin)[compiled.spec.entry]
    # Of 32 numbers a thread: five bits are of lanes, two of warps.
    assert code.count("SHFL") == 5 * 16
    assert code.count("BAR") == 3
    assert code.count("STS.128") == code.count("STS") == 2 * 8


def test_an_exchange_takes_the_banks_no_longer_than_its_bytes() -> None:
    # A bit of the warps becomes one of the registers: of pairs, 256 apart.
    source = Layout((2, 512, 2), (Mode(4, 1, 1), Mode(4, 1, 128)), (Mode(32, 1, 4),),
                    (Mode(2, 0, 1), Mode(2, 2, 1)))  # fmt: skip
    result = Layout((2, 512, 2), (Mode(2, 2, 1), Mode(4, 1, 1), Mode(2, 1, 256)),
                    (Mode(32, 1, 4),), (Mode(2, 0, 1), Mode(2, 1, 128)))  # fmt: skip
    order, write, read = layouts_of_exchange(source, result, 4)
    assert order[-1] == 1
    assert wavefronts(write, 4) == wavefronts(read, 4) == source.registers
    assert wavefronts(source, 4) > 2 * wavefronts(write, 4)


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 4), st.randoms(use_true_random=False))
def test_halves_change_lanes_in_pairs(registers: int, random) -> None:
    bits = list(range(registers + 5))
    inner = bits[1:]
    a, b = random.randrange(registers - 1), registers - 1 + random.randrange(5)
    inner[a], inner[b] = inner[b], inner[a]
    source = layout_of_bits(bits, registers)
    result = layout_of_bits([0, *inner], registers)
    found = lane_swaps(source, result, 2)
    assert found is not None
    assert all(register > 1 for _, register in found.bits)
    held = after(source.coordinates[..., 0], found.bits)[:, list(found.registers)]
    np.testing.assert_array_equal(held, result.coordinates[..., 0])


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("shape", [(64, 32), (64, 256), (128, 128), (256, 64)])
def test_accumulators_of_halves_gather_eight_neighbours(shape: tuple[int, int], dim: int) -> None:
    """Of a column, the halves of words first change lanes: they are of two columns."""
    layout = accumulator(shape, 4)
    near = gathered(layout, dim, 8, 2)
    assert near is not None
    assert near.vector(dim) == 8
    swaps = lane_swaps(layout, near, 2)
    assert swaps is not None
    assert len(swaps.bits) == (2 if dim else 3)
    held = layout.coordinates[..., 0] * 1000 + layout.coordinates[..., 1]
    held = after(held, swaps.bits)[:, list(swaps.registers)]
    wanted = near.coordinates[..., 0] * 1000 + near.coordinates[..., 1]
    np.testing.assert_array_equal(held, wanted)
    assert sectors(layout, dim, 8, 2) == 2 * sectors(near, dim, 8, 2)


def test_rows_are_given_for_columns_where_those_are_few() -> None:
    layout = accumulator((64, 16), 4)
    near = gathered(layout, 1, 8, 2)
    assert near is not None
    assert near.verify() is None
    assert near.vector(1) == 8
    assert sectors(layout, 1, 8, 2) == 2 * sectors(near, 1, 8, 2)
    assert lane_swaps(layout, near, 2) is not None


def test_sums_of_f32_are_gathered_for_fewer_lines() -> None:
    layout = accumulator((64, 64), 4)
    for dim in (0, 1):
        near = gathered(layout, dim, 4, 4)
        assert near is not None
        assert sectors(layout, dim, 4, 4) == sectors(near, dim, 4, 4)
        assert lines(layout, dim, 4, 4) == 2 * lines(near, dim, 4, 4)


def test_too_few_columns_are_not_gathered() -> None:
    assert gathered(accumulator((64, 8), 4), 1, 8, 2) is None
    assert gathered(accumulator((64, 24), 4), 1, 8, 2) is None


def test_warps_of_few_columns_gather_what_fills_a_sector() -> None:
    layout = accumulator((64, 16), 4)
    near = gathered(layout, 1, 4, 2)
    assert near is not None
    assert near.vector(1) == 4
    assert sectors(layout, 1, 4, 2) == 2 * sectors(near, 1, 4, 2)


@tawa.jit
def stored_together(x, y, Q, C: tl.constexpr, RUNS: tl.constexpr):
    """Four neighbours of a row of pixels, joined, by one store of all of them."""
    q = tl.arange(0, RUNS) * 4
    c = tl.arange(0, C)
    at = (tl.program_id(0) * Q + q)[:, None] * C + c[None, :]
    left = tl.join(tl.load(x + at), tl.load(x + at + 2 * C))
    right = tl.join(tl.load(x + at + C), tl.load(x + at + 3 * C))
    pixels = tl.join(left, right).reshape([RUNS, C, 4]).permute(0, 2, 1)
    k = q[:, None] + tl.arange(0, 4)[None, :]
    to = (tl.program_id(0) * Q + k) * C
    tl.store(y + to[:, :, None] + c[None, None, :], pixels, mask=(k < Q)[:, :, None])


def test_registers_are_stored_in_the_order_of_memory():
    """Joined tiles have another tile's element in each next register: none of them is exchanged."""
    x, y = np.zeros((3, 64, 32), np.float16), np.zeros((3, 64, 32), np.float16)
    x[:] = np.random.default_rng(0).standard_normal(x.shape)
    compiled = stored_together.compile(x, y, 64, 32, 16)
    assert len(compiled.sass.split("STG.E.64")) == 5
    assert not {"STG.E.U16", "STS", "SHFL", "BAR"} & set(compiled.sass.split())
    stored_together[(3,)](x, y, 64, 32, 16)
    np.testing.assert_array_equal(x, y)


@tawa.jit
def by_columns(a, b, y, m, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """A product whose columns lie in memory one after the other."""
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    found = tl.dot(tl.load(a + i[:, None] * K + k), tl.load(b + k[:, None] * N + j))
    to = y + tl.program_id(0) * m * N + i[:, None] + j[None, :] * m
    tl.store(to, found.to(y.dtype.element_ty), mask=(i < m)[:, None])


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize(("rows", "tile", "warps"), [
    (64, (64, 64), 4), (48, (64, 32), 4), (128, (128, 64), 8), (32, (32, 32), 4), (16, (16, 16), 1),
])  # fmt: skip
def test_columns_of_products(rows: int, tile: tuple[int, int], warps: int, element: str) -> None:
    (m, n), a = tile, Arrays()
    x, w, y = a.random("f16", m, 32), a.random("f16", 32, n), a.output(element, 1, n, rows)
    exact = (values(x) @ values(w)).T[None, :, :rows]
    check(by_columns, (1,), [x, w, y, rows], {2: exact}, 2e-2, levels=["tile", "hopper", "ptx"],
          M=m, N=n, K=32, num_warps=warps)  # fmt: skip


def test_columns_of_halves_are_stored_by_eight() -> None:
    signature = ["*f16:16", "*f16:16", "*f16:16", "i32:16"]
    compiled = by_columns.compile(*signature, M=128, N=128, K=64, num_warps=4)
    stores = [line for line in compiled.sass.splitlines() if "STG" in line]
    assert len(stores) == 16
    assert all(".128" in line for line in stores)
