"""libdevice's functions that round one way, its conversions, words and lengths."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.language import libdevice

N = 64


@tawa.jit
def one(x, y, F: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, getattr(libdevice, F)(tl.load(x + i)))


@tawa.jit
def two(x, y, z, F: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(z + i, getattr(libdevice, F)(tl.load(x + i), tl.load(y + i)))


@tawa.jit
def three(x, y, w, z, F: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(z + i, getattr(libdevice, F)(tl.load(x + i), tl.load(y + i), tl.load(w + i)))


@tawa.jit
def four(x, z, F: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(z + i, getattr(libdevice, F)(v, v * 2, v * 3, v * 4))


@tawa.jit
def everything(x, d, w, o, p, q, UNARY: tl.constexpr, BINARY: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c = tl.load(x + i), tl.load(d + i), tl.load(w + i)
    for n in tl.static_range(len(UNARY)):
        tl.store(o + i, getattr(libdevice, UNARY[n])(a))
        tl.store(p + i, getattr(libdevice, UNARY[n])(b))
    for n in tl.static_range(len(BINARY)):
        tl.store(o + i, getattr(libdevice, BINARY[n])(a, a))
        tl.store(p + i, getattr(libdevice, BINARY[n])(b, b))
    tl.store(o + i, libdevice.fma_rz(a, a, a))
    tl.store(p + i, libdevice.fma_ru(b, b, b))
    tl.store(q + i, libdevice.byte_perm(c, c, 0x3210))
    tl.store(q + i, libdevice.float2int_ru(a))
    tl.store(o + i, libdevice.ll2float_rz(c.to(tl.int64)))


def floats(kind: Any, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    found = random.standard_normal(N) * 10.0 ** random.integers(-6, 7, N)
    found[:4] = [0, -0.0, 1, -2]
    return found.astype(kind)


def run(kernel: tawa.Kernel, name: str, kind: Any, *arrays: Any) -> np.ndarray:
    out = np.zeros(N, kind)
    kernel[(1,)](*arrays, out, F=name, N=N)
    return out


def rightly_rounded(found: Any, exact: Fraction, way: str) -> bool:
    """Whether a float is the exact number, or its neighbour on the side that it is rounded to."""
    near = Fraction(float(found))
    if near == exact:
        return True
    down = way == "rd" or (way == "rz" and exact > 0)
    other = Fraction(float(np.nextafter(found, np.inf if down else -np.inf, dtype=found.dtype)))
    return near < exact < other if down else other < exact < near


@pytest.mark.parametrize(
    ("kind", "way"), [(np.float32, "rd"), (np.float64, "ru"), (np.float32, "rz")]
)
def test_arithmetic_rounds_one_way(kind: Any, way: str) -> None:
    x, y, w = (floats(kind, seed) for seed in range(3))
    y[y == 0] = 3
    exact = [[Fraction(float(v)) for v in a] for a in (x, y, w)]
    sums = run(two, f"add_{way}", kind, x, y)
    quotients = run(two, f"div_{way}", kind, x, y)
    fused = run(three, f"fma_{way}", kind, x, y, w)
    roots = run(one, f"sqrt_{way}", kind, np.abs(x))
    for i, (a, b, c) in enumerate(zip(*exact, strict=True)):
        assert rightly_rounded(sums[i], a + b, way)
        assert rightly_rounded(quotients[i], a / b, way)
        assert rightly_rounded(fused[i], a * b + c, way)
        below, above = (Fraction(float(np.nextafter(roots[i], kind(e)))) for e in (-np.inf, np.inf))
        square = Fraction(float(roots[i])) ** 2
        assert square == abs(a) or (
            square > abs(a) > below**2 if way == "ru" else square < abs(a) < above**2
        )


def test_sums_that_vanish_and_results_beyond_the_largest() -> None:
    big = np.full(N, 3e38, np.float32)
    assert run(two, "add_rd", np.float32, big, big)[0] == np.finfo(np.float32).max
    assert run(two, "add_ru", np.float32, big, big)[0] == np.inf
    zeros = run(two, "add_rd", np.float32, big, -big)
    assert (zeros == 0).all()
    assert np.signbit(zeros).all()
    assert not np.signbit(run(two, "add_ru", np.float32, big, -big)).any()


@pytest.mark.parametrize(("way", "function"), [("rn", np.rint), ("ru", np.ceil)])
def test_floats_become_whole_numbers(way: str, function: Any) -> None:
    x = np.linspace(-20, 20, N).astype(np.float32)
    np.testing.assert_array_equal(run(one, f"float2int_{way}", np.int32, x), function(x))
    np.testing.assert_array_equal(
        run(one, f"double2ull_{way}", np.uint64, np.abs(x).astype(np.float64)), function(np.abs(x))
    )


@pytest.mark.parametrize("way", ["rd", "rz"])
@pytest.mark.parametrize(
    ("source", "target", "kinds"),
    [
        ("int", "float", (np.int32, np.float32)),
        ("ull", "float", (np.uint64, np.float32)),
        ("ll", "double", (np.int64, np.float64)),
        ("double", "float", (np.float64, np.float32)),
    ],
)
def test_numbers_become_floats_of_fewer_digits(
    source: str, target: str, kinds: Any, way: str
) -> None:
    if source == "double":
        x = floats(np.float64, 4)
    else:
        x = np.random.default_rng(5).integers(0, np.iinfo(kinds[0]).max, N, kinds[0])
        x[:2] = np.iinfo(kinds[0]).max, np.iinfo(kinds[0]).min
    found = run(one, f"{source}2{target}_{way}", kinds[1], x)
    for value, result in zip(x.tolist(), found, strict=True):
        assert rightly_rounded(result, Fraction(value), way)


def test_words() -> None:
    x = floats(np.float64, 6)
    high, low = (run(one, f"double2{part}int", np.int32, x) for part in ("hi", "lo"))
    np.testing.assert_array_equal(run(two, "hiloint2double", np.float64, high, low), x)
    a, b = (np.random.default_rng(s).integers(-(2**31), 2**31, N).astype(np.int32) for s in (7, 8))
    wide = a.astype(np.int64) + b
    np.testing.assert_array_equal(run(two, "hadd", np.int32, a, b), wide >> 1)
    np.testing.assert_array_equal(run(two, "rhadd", np.int32, a, b), (wide + 1) >> 1)
    whole = run(three, "byte_perm", np.int32, a, b, np.full(N, 0x7610, np.int32))
    np.testing.assert_array_equal(
        whole.view(np.uint32), (a.view(np.uint32) & 0xFFFF) | (b.view(np.uint32) & 0xFFFF0000)
    )
    x, y = a % 1000, b % 1000
    np.testing.assert_array_equal(run(two, "mul24", np.int32, x, y), x * y)
    z = np.arange(N, dtype=np.uint32)
    np.testing.assert_array_equal(run(three, "sad", np.uint32, x, y, z), np.abs(x - y) + z)


def test_lengths() -> None:
    x = np.linspace(0.5, 3e37, N).astype(np.float32)
    expected = np.sqrt(30.0) * x.astype(np.float64)
    np.testing.assert_allclose(run(four, "norm4d", np.float32, x), expected, rtol=1e-6)
    np.testing.assert_allclose(run(four, "rnorm4d", np.float32, x / 4), 4 / expected, rtol=1e-6)
    assert (run(four, "norm4d", np.float32, np.zeros(N, np.float32)) == 0).all()


def test_all_names_are_there_and_the_assembler_takes_them() -> None:
    ways = ("rd", "ru", "rz")
    unary = tuple(f"{n}_{w}" for n in ("rcp", "sqrt") for w in ways)
    unary += ("y0", "y1", "erfcx", "erfcinv", "normcdfinv")
    binary = tuple(f"{n}_{w}" for n in ("add", "sub", "mul", "div") for w in ways)
    compiled = everything.compile(
        "*f32", "*f64", "*i32", "*f32", "*f64", "*i32", UNARY=unary, BINARY=binary, N=32
    )
    text = str(compiled.asm["cu"])
    assert all(f"__f{n}(" in text and f"__d{n}(" in text for n in binary)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_signs(kind: Any):
    x = np.zeros(N, kind)
    x[:9] = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324]
    x[9] = np.copysign(np.nan, -1)
    found = run(one, "signbit", np.int32, x)
    np.testing.assert_array_equal(found, np.signbit(x))


EXACT: dict[str, tuple[Any, Any]] = {
    "rcp_rn": (np.float32, lambda x: np.float32(1) / x),
    "rsqrt_rn": (np.float32, lambda x: np.float32(1) / np.sqrt(np.abs(x))),
    "saturatef": (np.float32, lambda x: np.clip(x, 0, 1)),
    "isnan": (np.int32, np.isnan),
    "isinf": (np.int32, np.isinf),
    "finitef": (np.int32, np.isfinite),
    "llrint": (np.int64, np.rint),
    "llround": (np.int64, lambda x: np.trunc(x + np.copysign(0.5, x))),
    "float_as_int": (np.int32, lambda x: x.view(np.int32)),
    "fabs": (np.float32, np.abs),
    "nearbyint": (np.float32, np.rint),
}


@pytest.mark.parametrize("name", EXACT)
def test_functions_that_are_exact(name: str) -> None:
    kind, function = EXACT[name]
    x = np.float32(np.linspace(-3.75, 4, N))
    if name == "rsqrt_rn":
        x = np.abs(x) + np.float32(0.25)
    if name in ("isnan", "isinf", "finitef", "fabs"):
        x[:3] = [np.nan, np.inf, -np.inf]
    np.testing.assert_array_equal(run(one, name, kind, x), function(x).astype(kind))
