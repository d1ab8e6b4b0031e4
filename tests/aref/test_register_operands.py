"""Operands that are computed stay in registers where each thread can make what it multiplies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulation import Arrays, check, stored, values

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import Stage, ViewType, WarpDot
from tawa.base.layout import Layout, Mode
from tawa.base.types import bf16, f16, f32, i8
from tawa.base.warp_matrix import Product
from tawa.driver.compiled import Compiled
from tawa.hopper.dialect.warp_matrix import WarpProduct

LEVELS = ["aref", "hopper", "ptx"]


@tawa.jit
def converted(
    x, w, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, TURNED: tl.constexpr
):
    """Weights of one byte become what rows of `x` are."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for at in range(0, K, BK):
        xt = tl.load(x + m[:, None] * K + at + k[None, :])
        if TURNED:
            wt = tl.load(w + n[None, :] * K + at + k[:, None])
        else:
            wt = tl.load(w + (at + k)[:, None] * N + n[None, :])
        acc = tl.dot(xt, wt.to(xt.dtype), acc)
    tl.store(out + m[:, None] * N + n[None, :], acc)


@tawa.jit
def unpacked(
    x, words, scales, out, K, N: tl.constexpr, BK: tl.constexpr, PACK: tl.constexpr
):  # fmt: skip
    """`PACK` weights of a word along K, scaled by columns."""
    m, n, k = tl.arange(0, 16), tl.arange(0, N), tl.arange(0, BK)
    bits: tl.constexpr = 32 // PACK
    shift = (k % PACK) * bits
    acc = tl.zeros((16, N), tl.float32)
    for at in range(0, K, BK):
        xt = tl.load(x + m[:, None] * K + at + k[None, :])
        word = tl.load(words + ((at + k) // PACK)[:, None] * N + n[None, :])
        s = tl.load(scales + (at // BK) * N + n)
        w = ((word >> shift[:, None]) & ((1 << bits) - 1)).to(tl.float32) * s[None, :]
        acc = tl.dot(xt, w.to(tl.float16), acc)
    tl.store(out + m[:, None] * N + n[None, :], acc)


@tawa.jit
def chained(q, k, v, out, T, D: tl.constexpr, BT: tl.constexpr):
    """Products whose results, changed, are multiplied again."""
    m, d, t = tl.arange(0, 16), tl.arange(0, D), tl.arange(0, BT)
    qt = tl.load(q + m[:, None] * D + d[None, :])
    acc = tl.zeros((16, D), tl.float32)
    for at in range(0, T, BT):
        kt = tl.load(k + (at + t)[:, None] * D + d[None, :])
        vt = tl.load(v + (at + t)[:, None] * D + d[None, :])
        s = tl.dot(qt, kt.T)
        acc = tl.dot((s * 0.125 + m[:, None]).to(tl.float16), vt, acc)
    tl.store(out + m[:, None] * D + d[None, :], acc)


def products(compiled: Compiled) -> list[WarpDot]:
    return [op for op in compiled.module("aref").walk() if isinstance(op, WarpDot)]


def held(compiled: Compiled) -> list[str]:
    """Which operands of each product are in registers."""
    found = list[str]()
    for op in products(compiled):
        names = zip("ab", (op.a, op.b), strict=True)
        run = op.run.value.data if op.run else 0
        kept = "".join(n for n, v in names if not isinstance(v.type, ViewType))
        found.append(f"{kept} {run}" if kept else "")
    return found


def stages(compiled: Compiled) -> int:
    return sum(isinstance(op, Stage) for op in compiled.module("aref").walk())


@pytest.mark.parametrize(
    ("element", "shape", "warps", "turned", "expected"),
    [
        ("bf16", (16, 64, 64), 4, True, "ab 16"),
        ("f16", (16, 32, 32), 2, True, "ab 8"),
        ("f16", (16, 32, 16), 4, True, "ab 4"),
        ("bf16", (32, 64, 64), 4, False, "ab 16"),
        ("f16", (16, 24, 48), 1, True, "ab 4"),
        ("f16", (32, 32, 64), 8, True, ""),  # rows are shared out: warps would convert alike
        ("f16", (16, 16, 32), 4, True, ""),  # fewer parts than warps
    ],
)
def test_converted_bytes(
    element: str, shape: tuple[int, int, int], warps: int, turned: bool, expected: str
) -> None:
    (m, n, bk), a = shape, Arrays()
    k = 3 * bk
    x, w = a.random(element, m, k), a.random("i8", *((n, k) if turned else (k, n)))
    out = a.output("f32", m, n)
    wanted = values(x) @ (values(w).T if turned else values(w))
    constants = {"M": m, "N": n, "BK": bk, "TURNED": turned, "num_warps": warps}
    compiled = check(converted, (1,), [x, w, out, k], {2: wanted}, 2e-3, levels=LEVELS, **constants)
    assert held(compiled) == [expected]
    assert stages(compiled) == (not expected)


@pytest.mark.parametrize(
    ("block_k", "expected"), [(16, "ab 4"), (32, "ab 8"), (64, "ab 16"), (128, "b 0")]
)
def test_rows_beside_computed_ones_take_half_of_the_registers(block_k: int, expected: str) -> None:
    sizes = {"M": 32, "N": 16, "BK": block_k, "TURNED": True, "num_warps": 1}
    compiled = converted.compile("*f16:16", "*i8:16", "*f32:16", "i32:16", **sizes)
    assert held(compiled) == [expected]


@pytest.mark.parametrize(("pack", "bk"), [(8, 64), (4, 64), (8, 32), (2, 16)])
def test_words_that_several_rows_share(pack: int, bk: int) -> None:
    a, rng, (n, k) = Arrays(), np.random.default_rng(1), (64, 2 * bk)
    bits = 32 // pack
    q = rng.integers(0, 1 << min(bits, 8), (k, n)).astype(np.uint32)
    words = np.zeros((k // pack, n), np.uint32)
    for i in range(pack):
        words |= q[i::pack] << np.uint32(bits * i)
    x, s, out = a.random("f16", 16, k), a.random("f32", 2, n), a.output("f32", 16, n)
    scaled = (q * np.repeat(values(s), bk, 0)).astype(np.float16).astype(float)
    args = [x, stored(words.view(np.int32), "i32"), s, out, k]
    constants = {"N": n, "BK": bk, "PACK": pack, "num_warps": 4}
    compiled = check(
        unpacked, (1,), args, {3: values(x) @ scaled}, 3e-3, levels=LEVELS, **constants
    )
    assert held(compiled) == [f"ab {min(16, bk // 4)}"]
    assert "shared_store" not in compiled.stages["hopper"]


@pytest.mark.parametrize(("warps", "kept"), [(1, ["", "a 0"]), (4, ["", ""])])
def test_results_of_products(warps: int, kept: list[str]) -> None:
    """One warp has all columns of its rows; of four each has some."""
    a, (t, d) = Arrays(), (96, 32)
    q, k, v, out = (
        a.random("f16", 16, d),
        a.random("f16", t, d),
        a.random("f16", t, d),
        a.output("f32", 16, d),
    )
    s = values(q) @ values(k).T * 0.125 + np.arange(16)[:, None]
    wanted = s.astype(np.float16).astype(float) @ values(v)
    constants: dict[str, Any] = {"D": d, "BT": 32, "num_warps": warps}
    compiled = check(
        chained, (1,), [q, k, v, out, t], {3: wanted}, 3e-3, levels=LEVELS, **constants
    )
    assert held(compiled) == kept


@tawa.jit
def looked_up(x, w, table, out):
    m, n, k = tl.arange(0, 16), tl.arange(0, 64), tl.arange(0, 64)
    xt = tl.load(x + m[:, None] * 64 + k[None, :])
    code = tl.load(w + n[None, :] * 64 + k[:, None]).to(tl.int32)
    acc = tl.dot(xt, tl.load(table + code) * 2)
    tl.store(out + m[:, None] * 64 + n[None, :], acc)


def test_what_threads_load_by_themselves_is_copied() -> None:
    """Threads share what they load: each element is loaded once, wherever products want it."""
    a = Arrays()
    x, w, table = a.random("f16", 16, 64), a.random("i8", 64, 64), a.random("f16", 256)
    codes = np.abs(values(w).astype(int))
    w = stored(codes, "i8")
    wanted = {3: values(x) @ (values(table)[codes].T * 2)}
    out = a.output("f32", 16, 64)
    compiled = check(looked_up, (1,), [x, w, table, out], wanted, 2e-3, num_warps=4)
    assert (held(compiled), stages(compiled)) == ([""], 2)


def test_an_edited_layout_is_refused() -> None:
    a = Arrays()
    x, w, out = a.random("bf16", 16, 64), a.random("i8", 64, 64), a.output("f32", 16, 64)
    constants = {"M": 16, "N": 64, "BK": 64, "TURNED": True, "num_warps": 4}
    compiled = check(converted, (1,), [x, w, out, 64], {2: values(x) @ values(w).T}, **constants)
    (op,) = [op for op in compiled.module("hopper").walk() if isinstance(op, WarpProduct)]
    op.run_along = None
    with pytest.raises(Exception, match="an operand in registers has the product's layout"):
        op.verify()


@pytest.mark.parametrize("element", [f16, bf16, f32, i8])
@pytest.mark.parametrize("inner", [16, 48, 64, 128])
def test_runs_hold_what_one_instruction_takes_in_the_same_places(element: Any, inner: int) -> None:
    """Lanes that multiply with each other hold the same elements of K, in the same order."""
    product = Product.of((32, inner), (inner, 64), element, None)
    if not product.run:
        assert inner % (8 * product.packed * product.registers[1]) or inner < 32
        return
    a, b = (product.operand(4, side, product.run).coordinates for side in (0, 1))
    assert all(product.operand(4, side, product.run).verify() is None for side in (0, 1))
    steps = inner // product.step
    each = product.packed * product.registers[1] * steps
    along = a[:, :each, 1], b[:, :each, 0]
    assert (along[0] == along[1]).all()
    for lane in range(4):
        assert len({*along[0][lane]}) == each
    assert len({*along[0][:4].flat}) == inner


def test_groups_of_rows() -> None:
    """The layout of words, of which each row of a group has a part."""
    whole = Product.of((16, 64), (64, 64), f16, None).operand(4, 1, 16)
    words = whole.grouped(0, 8)
    assert words is not None
    assert words.verify() is None
    assert (np.unique(whole.coordinates[:, :16, 0] // 8, axis=1) ==
            np.unique(words.coordinates[:, :2, 0], axis=1)).all()  # fmt: skip
    uneven = Layout((24, 8), (Mode(24, 0, 1),), (Mode(8, 1, 1), Mode(4, -1, 0)), ())
    assert uneven.grouped(0, 16) is None
    assert Layout((24,), (Mode(2, 0, 12),), (Mode(4, 0, 3),), ()).grouped(0, 8) is None
