"""Picks, counts, assembly, joined tiles and last steps of products: small kernels at each level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulation import Arrays, block, check, stored, values

import tawa
import tawa.language as tl
from tawa.base.layout import Layout, Mode
from tawa.codegen.gathers import exchange_of_lanes
from tawa.hopper.dialect.access_text import Manner

LEVELS = ("tile", "hopper", "ptx")


@tawa.jit
def picked(x, at, y, ROWS: tl.constexpr, COLUMNS: tl.constexpr, PICKED: tl.constexpr,
           AXIS: tl.constexpr):  # fmt: skip
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    tile = tl.load(x + rows * COLUMNS + columns)
    if AXIS == 0:
        own = tl.arange(0, PICKED)[:, None] * COLUMNS + columns
    else:
        own = rows * PICKED + tl.arange(0, PICKED)[None, :]
    tl.store(y + own, tl.gather(tile, tl.load(at + own), AXIS))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("shape", "count"), [((8, 16), 4), ((4, 8), 16)])
def test_elements_by_their_index(axis: int, shape: tuple[int, int], count: int) -> None:
    a = Arrays()
    x = a.random("f32", *shape)
    out = (count, shape[1]) if axis == 0 else (shape[0], count)
    where = np.random.default_rng(5).integers(0, shape[axis], out)
    y = a.output("f32", *out)
    check(picked, (1,), [x, stored(where, "i32"), y],
          {2: np.take_along_axis(values(x), where, axis)}, 1e-7, LEVELS,
          ROWS=shape[0], COLUMNS=shape[1], PICKED=count, AXIS=axis, num_warps=2)  # fmt: skip


@tawa.jit
def turned(x, y, COUNT: tl.constexpr, MASK: tl.constexpr):
    at = tl.arange(0, COUNT)
    tl.store(y + at, tl.gather(tl.load(x + at), at ^ MASK, 0))


@pytest.mark.parametrize("mask", [0, 1, 4, 16, 31, 64, 97])
def test_elements_that_other_lanes_hold(mask: int) -> None:
    a = Arrays()
    x, y = a.random("f32", 256), a.output("f32", 256)
    compiled = check(turned, (1,), [x, y], {1: values(x)[np.arange(256) ^ mask]}, 1e-7,
                     LEVELS, COUNT=256, MASK=mask, num_warps=1)  # fmt: skip
    assert "shared_gather" not in compiled.stages["hopper"]


def test_lanes_exchange_what_one_partner_has() -> None:
    lanes = Layout((128,), (Mode(4, 0, 1),), (Mode(32, 0, 4),), ())
    at = np.arange(128)
    assert exchange_of_lanes(lanes, at ^ 5, 0) == ([1, 0, 3, 2], 1)
    assert exchange_of_lanes(lanes, at ^ 2, 0) == ([2, 3, 0, 1], 0)
    assert exchange_of_lanes(lanes, at - at % 4, 0) == ([0, 0, 0, 0], 0)
    assert exchange_of_lanes(lanes, at[::-1], 0) == ([3, 2, 1, 0], 31)
    assert exchange_of_lanes(lanes, (at + 4) % 128, 0) is None
    assert exchange_of_lanes(lanes, at * 0, 0) is None
    warps = Layout((128,), (Mode(2, 0, 1),), (Mode(32, 0, 2),), (Mode(2, 0, 64),))
    assert exchange_of_lanes(warps, at ^ 64, 0) is None
    assert exchange_of_lanes(warps, at ^ 6, 0) == ([0, 1], 3)


@tawa.jit
def counted(x, y, COUNT: tl.constexpr, BINS: tl.constexpr):
    found = tl.histogram(tl.load(x + tl.arange(0, COUNT)), BINS)
    tl.store(y + tl.arange(0, BINS), found)


@pytest.mark.parametrize(("count", "bins", "warps"), [(512, 64, 4), (64, 16, 4), (256, 128, 2)])
def test_numbers_are_counted(count: int, bins: int, warps: int) -> None:
    x = np.random.default_rng(1).integers(-2, bins + 3, count)
    inside = x[(x >= 0) & (x < bins)]
    check(counted, (1,), [stored(x, "i32"), Arrays().output("i32", bins)],
          {1: np.bincount(inside, minlength=bins)}, 1e-9, LEVELS,
          COUNT=count, BINS=bins, num_warps=warps)  # fmt: skip


@tawa.jit
def assembled(x, y, z, s, COUNT: tl.constexpr):
    at = tl.arange(0, COUNT)
    a, n = tl.load(x + at), tl.load(s)
    first, second = tl.inline_asm_elementwise(
        "sub.s32 $0, $2, $3; add.s32 $1, $2, $3;", "=r,=r,r,r", [a, n],
        dtype=(tl.int32, tl.int32), is_pure=True, pack=1)  # fmt: skip
    alone = tl.inline_asm_elementwise("mul.lo.s32 $0, $1, 3;", "=r,r", [n],
                                      dtype=tl.int32, is_pure=False, pack=1)  # fmt: skip
    tl.store(y + at, first)
    tl.store(z + at, second * alone)


@pytest.mark.parametrize("count", [64, 512])
def test_assembly_of_tiles_and_of_scalars(count: int) -> None:
    x, s = np.arange(count) * 7 - 100, np.array([5])
    out = Arrays().output
    check(assembled, (1,), [stored(x, "i32"), out("i32", count), out("i32", count),
                            stored(s, "i32")],
          {1: x - 5, 2: (x + 5) * 15}, 1e-9, LEVELS, COUNT=count)  # fmt: skip


@tawa.jit
def narrow_words(x, bits, same, COUNT: tl.constexpr):
    at = tl.arange(0, COUNT)
    a = tl.load(x + at)
    word = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,f", [a],
                                     dtype=tl.int32, is_pure=True, pack=1)  # fmt: skip
    tl.store(bits + at, word)
    tl.store(same + at, tl.inline_asm_elementwise("mov.b32 $0, $1;", "=f,f", [a],
                                                  dtype=a.dtype, is_pure=True, pack=1))  # fmt: skip


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_assembly_finds_narrow_floats_in_the_lowest_bits(element: str) -> None:
    arrays = Arrays()
    x = arrays.random(element, 64)
    raw = values(x).astype(np.float16).view(np.uint16) if element == "f16" else (
        values(x).astype(np.float32).view(np.uint32) >> 16)  # fmt: skip
    check(narrow_words, (1,), [x, arrays.output("i32", 64), arrays.output(element, 64)],
          {1: raw.astype(np.int64), 2: values(x)}, 1e-9, LEVELS, COUNT=64)  # fmt: skip


@tawa.jit
def biased(a_desc, b_desc, c_desc, bias, scale, n, k, MASKED: tl.constexpr):
    total = tl.zeros((128, 128), tl.float32)
    for start in range(0, k, 64):
        total = tl.dot(a_desc.load([0, start]), b_desc.load([0, start]).T, total)
    columns = tl.arange(0, 128)
    if MASKED:
        added = tl.load(bias + columns, mask=columns < n, other=2.0)
    else:
        added = tl.load(bias + columns)
    rows = tl.load(scale + tl.arange(0, 128))
    total = (total + added[None, :]) * rows[:, None] + (columns * 0.5 + 1)[None, :]
    c_desc.store([0, 0], total.to(tl.float16))


@pytest.mark.parametrize(
    ("masked", "options"), [(True, {}), (False, {"consumers": 2}), (True, {"specialize": False})]
)
def test_what_follows_a_product(masked: bool, options: dict[str, Any]) -> None:
    a = Arrays()
    x, y, bias, scale = (a.random(e, *s) for e, s in (
        ("f16", (128, 128)), ("f16", (128, 128)), ("f32", (128,)), ("f32", (128,))))  # fmt: skip
    added = np.where(np.arange(128) < 100, values(bias), 2.0) if masked else values(bias)
    exact = (values(x) @ values(y).T + added) * values(scale)[:, None] + np.arange(128) * 0.5 + 1
    out = a.output("f16", 128, 128)
    check(biased, (1,), [block(x, 128, 64), block(y, 128, 64), block(out, 128, 128), bias, scale,
                         100, 128], {2: exact}, 2e-3, MASKED=masked, **options)  # fmt: skip


@tawa.jit
def late_bias(a_desc, b_desc, c_desc, bias, changed):
    total = tl.dot(a_desc.load([0, 0]), b_desc.load([0, 0]).T)
    columns = tl.arange(0, 128)
    added = tl.load(bias + columns)
    tl.store(changed + columns, added * 0.0 - 3.0)  # may be the same array
    c_desc.store([0, 0], (total + added[None, :]).to(tl.float16))


@pytest.mark.parametrize("same", [False, True])
def test_what_is_written_over_was_loaded_before(same: bool) -> None:
    a = Arrays()
    x, y, bias = (a.random(e, *s) for e, s in (
        ("f16", (128, 64)), ("f16", (128, 64)), ("f32", (128,))))  # fmt: skip
    changed = bias if same else a.output("f32", 128)
    exact = values(x) @ values(y).T + values(bias)
    check(late_bias, (1,), [block(x, 128, 64), block(y, 128, 64),
                            block(a.output("f16", 128, 128), 128, 128), bias, changed],
          {2: exact, 4: np.full(128, -3.0)}, 2e-3,
          may_overlap=(("bias", "changed"),) if same else ())  # fmt: skip


@tawa.jit
def joined(x, y, z, COUNT: tl.constexpr):
    at = tl.arange(0, COUNT)
    both = tl.join(tl.load(x + at), tl.load(x + COUNT + at))
    flat = tl.reshape(both, (2 * COUNT,))
    tl.store(y + tl.arange(0, 2 * COUNT), flat)
    first, second = tl.split(tl.trans(tl.reshape(flat, (2, COUNT)), (1, 0)))
    wide = tl.cat(first, second, can_reorder=False)
    tl.store(z + tl.arange(0, 2 * COUNT), wide)


@pytest.mark.parametrize(("count", "warps"), [(16, 1), (64, 4), (512, 4)])
def test_joined_and_split(count: int, warps: int) -> None:
    a = Arrays()
    x = a.random("f32", 2 * count)
    mixed = values(x).reshape(2, count).T.ravel()
    check(joined, (1,), [x, a.output("f32", 2 * count), a.output("f32", 2 * count)],
          {1: mixed, 2: mixed}, 1e-7, LEVELS, COUNT=count, num_warps=warps)  # fmt: skip


MANNERS = {
    "ld.volatile.global.b32 %0, [%1];": Manner(volatile=True),
    "ld.global.cg.b32 %0, [%1];": Manner(cache="cg"),
    "ld.global.cv.b32 %0, [%1];": Manner(cache="cv", eviction="evict_last"),
    "ld.global.L1::evict_first.L2::cache_hint.b32 %0, [%1], %2;": Manner(eviction="evict_first"),
}


@pytest.mark.parametrize("text", MANNERS)
def test_texts_of_accesses(text: str) -> None:
    manner = MANNERS[text]
    assert manner
    name, load = manner.function("load")
    assert name.startswith("load_")
    policy = ' "l"(0x12f0000000000000ull)' if "hint" in text else ""
    comma = "," if policy else ""
    assert f'asm volatile("{text}" : "=r"(bits) : "l"(pointer){comma}{policy} : "memory");' in load
    byte = text.replace("b32", "u8").replace("bits", "bits")
    assert f'"{byte}" : "=r"(bits)' in load
    pair = text.replace("b32 %0, [%1]", "v2.b64 {%0, %1}, [%2]").replace(", %2;", ", %3;")
    assert f'"{pair}" : "=l"(bits.values[0]), "=l"(bits.values[1])' in load
    _, store = manner.function("store")
    stored_text = text.replace("ld.", "st.").replace("%0, [%1]", "[%0], %1")
    assert (f'"{stored_text}" : : "l"(pointer), "r"(u32(bit_cast<u32>(value))){comma}{policy}'
            in store.replace("  :", " :"))  # fmt: skip
    assert stored_text.replace("b32 [%0], %1", "v2.b64 [%0], {%1, %2}").replace(
        ", %2;", ", %3;") in store  # fmt: skip
    for size, kind in ((8, "b64"), (2, "b16")):
        assert f"sizeof(T) == {size}" in load
        assert text.replace("b32", kind) in load


def test_plain_accesses_have_no_text() -> None:
    assert not Manner()
    assert not Manner(eviction="evict_normal")


@tawa.jit
def one_behind_the_other(x, y, z, FIRST: tl.constexpr, SECOND: tl.constexpr, WIDE: tl.constexpr):
    """Rows of `WIDE` columns, or numbers if it is 0."""
    if WIDE:
        c = tl.arange(0, WIDE)[None, :]
        first = tl.load(x + tl.arange(0, FIRST)[:, None] * WIDE + c)
        second = tl.load(y + tl.arange(0, SECOND)[:, None] * WIDE + c)
        both = tl.cat(first, second, dim=0)
        at = tl.arange(0, FIRST + SECOND)[:, None] * WIDE + c
    else:
        both = tl.cat(tl.load(x + tl.arange(0, FIRST)), tl.load(y + tl.arange(0, SECOND)), dim=0)
        at = tl.arange(0, FIRST + SECOND)
    tl.store(z + at, both * 2)


@pytest.mark.parametrize("wide", [0, 16])
@pytest.mark.parametrize("sizes", [(32, 32), (64, 32), (32, 96), (16, 48)])
def test_tiles_one_behind_the_other(sizes: tuple[int, int], wide: int) -> None:
    a = Arrays()
    shapes = [(n, wide) if wide else (n,) for n in (*sizes, sum(sizes))]
    x, y, z = a.random("f32", *shapes[0]), a.random("f32", *shapes[1]), a.output("f32", *shapes[2])
    exact = 2 * np.concatenate([values(x), values(y)])
    check(one_behind_the_other, (1,), [x, y, z], {2: exact}, 1e-7, LEVELS,
          FIRST=sizes[0], SECOND=sizes[1], WIDE=wide, num_warps=2)  # fmt: skip
