"""What instructions of PTX compute, beside Python's integers and rounded exact numbers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tawa.simulate.ptx.arithmetic import ARITHMETIC, Unsupported, convert, dtype_of, saturated

EDGES = [0, 1, 2, 3, 5, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF,
         0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x123456789ABCDEF0, 0x7FFFFFFFFFFFFFFF,
         0x8000000000000000, 0xFFFFFFFFFFFFFFFF]  # fmt: skip


def operands(kinds: list[str], seed: int) -> list[np.ndarray]:
    """Edges and random bits of some types."""
    random = np.random.default_rng(seed)
    found: list[np.ndarray] = []
    for kind in kinds:
        size = 200
        if kind == "pred":
            found.append(random.integers(0, 2, size).astype(bool))
            continue
        dtype = dtype_of(kind)
        raw = random.integers(0, 1 << 63, size, np.uint64) * 2 + random.integers(
            0, 2, size, np.uint64
        )
        chosen = random.integers(0, len(EDGES), size)
        raw = np.where(random.random(size) < 0.5, np.array(EDGES, np.uint64)[chosen], raw)
        found.append(raw.astype(f"u{dtype.itemsize}").view(dtype))
    return found


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def width(kind: str) -> int:
    return 8 * dtype_of(kind).itemsize


def extracted(kind: str, a: int, first: int, count: int) -> int:
    """As the manual has it, bit by bit."""
    bits, first, count = width(kind), first & 255, count & 255
    sign = 0 if kind[0] == "u" or not count else a >> min(first + count - 1, bits - 1) & 1
    return sum(
        ((a >> (first + i) & 1) if i < count and first + i < bits else sign) << i
        for i in range(bits)
    )


def inserted(kind: str, a: int, b: int, first: int, count: int) -> int:
    bits, first, count = width(kind), first & 255, count & 255
    for i in range(count):
        if first + i < bits:
            b = b & ~(1 << (first + i)) | (a >> i & 1) << (first + i)
    return b


def permuted(a: int, b: int, chosen: int) -> int:
    both, found = (b << 32 | a).to_bytes(8, "little"), 0
    for byte in range(4):
        digit = chosen >> 4 * byte & 15
        value = both[digit & 7]
        found |= ((255 if value >> 7 else 0) if digit & 8 else value) << 8 * byte
    return found


def funnel(low: int, high: int, by: int, *, left: bool, wrap: bool) -> int:
    by = by & 31 if wrap else min(by, 32)
    both = high << 32 | low
    return (both << by >> 32 if left else both >> by) & 0xFFFFFFFF


def shifted(kind: str, a: int, by: int) -> int:
    return a >> min(by, 200)


def highest(kind: str, a: int) -> int:
    a = ~a if a < 0 else a
    return a.bit_length() - 1


def quotient(a: int, b: int) -> int:
    return -1 if not b else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


LOGIC = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}

Meaning = Callable[..., int]


def integers() -> dict[str, Meaning]:
    """The meaning of each opcode over Python's integers."""
    found: dict[str, Meaning] = {}
    for bits in (16, 32, 64):
        for sign in "us":
            kind = f"{sign}{bits}"
            found |= {
                f"add.{kind}": lambda a, b: a + b,
                f"sub.{kind}": lambda a, b: a - b,
                f"mul.lo.{kind}": lambda a, b: a * b,
                f"mul.hi.{kind}": lambda a, b, n=bits: a * b >> n,
                f"mad.lo.{kind}": lambda a, b, c: a * b + c,
                f"min.{kind}": min,
                f"max.{kind}": max,
                f"shr.{kind}": lambda a, by: a >> min(by, 200),
                f"div.{kind}": quotient,
                f"rem.{kind}": lambda a, b: a - b * quotient(a, b),
            }
            if bits < 64:
                found[f"mul.wide.{kind}"] = lambda a, b: a * b
                found[f"mad.wide.{kind}"] = lambda a, b, c: a * b + c
            if bits > 16:
                found[f"bfe.{kind}"] = lambda a, f, c, k=kind: extracted(k, a, f, c)
                found[f"bfind.{kind}"] = lambda a, k=kind: highest(k, a)
                found[f"bfind.shiftamt.{kind}"] = lambda a, k=kind, n=bits: (
                    -1 if highest(k, a) < 0 else n - 1 - highest(k, a))  # fmt: skip
        found |= {
            f"neg.s{bits}": lambda a: -a,
            f"abs.s{bits}": abs,
            f"not.b{bits}": lambda a: ~a,
            f"shl.b{bits}": lambda a, by: a << min(by, 200),
            **{f"{name}.b{bits}": meaning for name, meaning in LOGIC.items()},
        }
        if bits > 16:
            found |= {
                f"popc.b{bits}": lambda a: a.bit_count(),
                f"clz.b{bits}": lambda a, n=bits: n - a.bit_length(),
                f"brev.b{bits}": lambda a, n=bits: int(f"{a:0{n}b}"[::-1], 2),
                f"bfi.b{bits}": lambda a, b, f, c, n=bits: inserted(f"b{n}", a, b, f, c),
                f"selp.b{bits}": lambda a, b, p: a if p else b,
            }
    found["prmt.b32"] = permuted
    for way in "lr":
        for mode in ("wrap", "clamp"):
            found[f"shf.{way}.{mode}.b32"] = lambda low, high, by, w=way, m=mode: funnel(
                low, high, by, left=w == "l", wrap=m == "wrap")  # fmt: skip
    return found


INTEGERS = integers()


@pytest.mark.parametrize("opcode", INTEGERS)
def test_integers(opcode: str):
    parts = tuple(opcode.split("."))
    kinds, function = ARITHMETIC[parts[0]](parts)
    count = {"mad": 3, "bfi": 4, "bfe": 3, "selp": 3, "prmt": 3, "shf": 3}.get(parts[0], len(kinds))
    count = 2 if parts[0] == "mul" else count
    given = operands(kinds[:count], sum(map(ord, opcode)))
    with np.errstate(all="ignore"):
        found = np.asarray(function(*given))
    bits = 8 * found.dtype.itemsize
    for at, values in enumerate(zip(*(v.tolist() for v in given), strict=True)):
        expected = INTEGERS[opcode](*values)
        assert int(found[at]) & (1 << bits) - 1 == expected & (1 << bits) - 1, values


COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
FLOATS = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("name", [*COMPARED, *UNSIGNED])
def test_integers_are_compared(name: str, kind: str):
    if name in UNSIGNED and kind[0] == "s":
        return
    kinds, function = ARITHMETIC["setp"](("setp", name, kind))
    a, b = operands(kinds, 1)
    b[::3] = a[::3]
    expected = [
        COMPARED[UNSIGNED.get(name, name)](*v) for v in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert function(a, b).tolist() == expected
    for join, meaning in LOGIC.items():
        kinds, joined = ARITHMETIC["setp"](("setp", name, join, kind))
        p = operands(kinds, 2)[2]
        assert joined(a, b, p).tolist() == [
            bool(meaning(x, y)) for x, y in zip(expected, p, strict=True)
        ]


@pytest.mark.parametrize("name", [*COMPARED, "num", "nan", *(f"{n}u" for n in COMPARED)])
def test_floats_are_compared(name: str):
    """Those that end in `u` hold of what is not ordered, the others do not."""
    _, function = ARITHMETIC["setp"](("setp", name, "f32"))
    for a in FLOATS:
        for b in FLOATS:
            unordered = bool(np.isnan(a) or np.isnan(b))
            if name in ("num", "nan"):
                expected = unordered == (name == "nan")
            elif name in COMPARED:
                expected = not unordered and COMPARED[name](a, b)
            else:
                expected = unordered or COMPARED[name[:-1]](a, b)
            assert bool(function(np.float32([a]), np.float32([b]))[0]) == expected, (a, b)


def test_every_function_of_three_words():
    a, b, c = operands(["b32"] * 3, 3)
    for table in range(256):
        _, function = ARITHMETIC["lop3"](("lop3", "b32"))
        found = function(a, b, c, np.full(len(a), table, np.uint32))
        expected = np.zeros(len(a), np.uint64)
        for bit in range(32):
            row = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | c >> bit & 1
            expected |= (table >> row.astype(np.uint64) & 1).astype(np.uint64) << np.uint64(bit)
        np.testing.assert_array_equal(found, expected.astype(np.uint32))


HALVES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: a * b + c, "min": min, "max": max,
    "neg": lambda a: -a, "abs": abs,
}  # fmt: skip


def nearest(value: Fraction, type_: Any) -> float:
    """The number of a type that is nearest, of two the even one."""
    guess = np.array([float(value)]).astype(type_)
    bits = guess.view(np.uint16)
    near = np.unique(np.concatenate([bits - 1, bits, bits + 1])).astype(np.uint16).view(type_)
    finite = [n for n in near if np.isfinite(n)]
    ordered = sorted(
        finite,
        key=lambda n: (
            abs(Fraction(float(n)) - value),
            np.array([n]).astype(type_).view(np.uint16)[0] & 1,
        ),
    )
    return float(ordered[0])


@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize("name", EXACT)
def test_two_halves_are_each_computed_and_rounded_once(name: str, kind: str):
    random = np.random.default_rng(5)
    opcode = (name, *(("rn",) if name in ("add", "sub", "mul", "fma") else ()), f"{kind}x2")
    kinds, function = ARITHMETIC[name](opcode)
    count = {"fma": 3, "neg": 1, "abs": 1}.get(name, 2)
    assert set(kinds) == {"b32"}
    values = [(random.standard_normal((64, 2)) * 4.0 ** random.integers(-3, 4, (64, 2)))
              .astype(HALVES[kind]) for _ in range(count)]  # fmt: skip
    words = [np.ascontiguousarray(v).view(np.uint32)[:, 0] for v in values]
    found = np.ascontiguousarray(function(*words)).view(HALVES[kind]).reshape(-1, 2)
    for at in np.ndindex(64, 2):
        exact = EXACT[name](*(Fraction(float(v[at])) for v in values))
        assert float(found[at]) == nearest(exact, HALVES[kind]), at


@pytest.mark.parametrize(
    "opcode", ["ex2.approx.f16x2", "div.rn.bf16x2", "rem.bf16", "tanh.approx.bf16x2", "rcp.bf16"]
)
def test_what_is_not_known_of_halves_is_refused(opcode: str):
    parts = tuple(opcode.split("."))
    with pytest.raises(Unsupported):
        ARITHMETIC[parts[0]](parts)


def test_products_of_floats_are_rounded_once():
    _, function = ARITHMETIC["fma"](("fma", "rn", "f32"))
    a = np.float32([1 + 2.0**-12])
    assert float(function(a, a, np.float32([-1]))[0]) == 2.0**-11 + 2.0**-24


@pytest.mark.parametrize(
    ("name", "nan"), [("max", False), ("max", True), ("min", False), ("min", True)]
)
def test_extremes_and_what_is_no_number(name: str, nan: bool):
    opcode = (name, "NaN", "f32") if nan else (name, "f32")
    _, function = ARITHMETIC[name](opcode)
    found = function(np.float32([1, np.nan, 2]), np.float32([3, 1, np.nan]))
    assert float(found[0]) == (3 if name == "max" else 1)
    assert np.isnan(found[1:]).tolist() == [nan, nan]


CONVERTED = {
    ("cvt", "rni", "s32", "f32"): ([1.5, 2.5, -1.5, -0.4], [2, 2, -2, 0]),
    ("cvt", "rzi", "s32", "f32"): ([1.9, -1.9, 3e9, -3e9], [1, -1, 2**31 - 1, -(2**31)]),
    ("cvt", "rmi", "s32", "f32"): ([1.9, -1.1, 0.0, -0.5], [1, -2, 0, -1]),
    ("cvt", "rpi", "s32", "f32"): ([1.1, -1.9, 0.0, 0.5], [2, -1, 0, 1]),
    ("cvt", "rzi", "u32", "f32"): ([1.9, -1.9, 5e9, 0.0], [1, 0, 2**32 - 1, 0]),
    ("cvt", "rzi", "u8", "f32"): ([255.5, 256.0, -1.0, 7.0], [255, 255, 0, 7]),
    ("cvt", "rmi", "f32", "f32"): ([1.9, -1.1, 0.0, -0.5], [1, -2, 0, -1]),
    ("cvt", "rzi", "s64", "f32"): ([1e19, -1e19, np.inf, -(2.0**63), 2.0**62, np.nan],
                                   [2**63 - 1, -(2**63), 2**63 - 1, -(2**63), 2**62, -(2**63)]),
    ("cvt", "rzi", "u64", "f32"): ([2e19, -1.0, 2.0**63, np.nan], [2**64 - 1, 0, 2**63, 2**63]),
    ("cvt", "rzi", "s32", "f32", "nan"): ([np.nan], [0]),
}  # fmt: skip


@pytest.mark.parametrize("opcode", CONVERTED, ids=".".join)
def test_floats_become_integers(opcode: tuple[str, ...]):
    given, expected = CONVERTED[opcode]
    assert convert(opcode, [np.float32(given)]).tolist() == expected


def test_doubles_that_are_no_number_become_the_top_bit():
    given = np.array([np.nan, 2.0**31 - 0.5, -(2.0**31) - 0.5, 2.0**31])
    found = [-(2**31), 2**31 - 1, -(2**31), 2**31 - 1]
    assert convert(("cvt", "rzi", "s32", "f64"), [given]).tolist() == found


@pytest.mark.parametrize(
    ("way", "up"), [("rn", [0, 1, 0, 1]), ("rz", [0, 0, 1, 1]), ("rm", [0] * 4), ("rp", [1] * 4)]
)
def test_doubles_become_floats_on_the_side_that_is_asked_for(way: str, up: list[int]):
    """A quarter and three quarters of the way from one float to the next."""
    low = np.float32([0.5, 1.0, -0.5, -2.0])
    high = np.nextafter(low, np.float32(np.inf))
    share = np.array([0.25, 0.75, 0.25, 0.75])
    given = low.astype(np.float64) * (1 - share) + high.astype(np.float64) * share
    found = convert(("cvt", way, "f32", "f64"), [given])
    assert found.tolist() == np.where(up, high, low).tolist()
    exact = np.array([0.0, 1.5, -3.0, np.inf, -np.inf])
    assert convert(("cvt", way, "f32", "f64"), [exact]).tolist() == exact.tolist()
    with np.errstate(over="ignore"):
        large = convert(("cvt", way, "f32", "f64"), [np.array([1e300, -1e300])])
    most = float(np.finfo(np.float32).max)
    assert large.tolist() == {"rn": [np.inf, -np.inf], "rz": [most, -most],
                              "rm": [most, -np.inf], "rp": [np.inf, -most]}[way]  # fmt: skip


def test_other_ways_of_rounding_are_refused():
    with pytest.raises(Unsupported):
        convert(("cvt", "rz", "f32", "s32"), [np.array([1], np.int32)])
    with pytest.raises(Unsupported):
        convert(("cvt", "rz", "bf16", "f32"), [np.float32([1.0])])


def test_integers_become_others():
    a = np.array([-1, 300, -129, 65536], np.int32)
    assert convert(("cvt", "s8", "s32"), [a]).tolist() == [-1, 44, 127, 0]
    assert convert(("cvt", "u16", "s32"), [a]).tolist() == [65535, 300, 65407, 0]
    assert convert(("cvt", "s64", "s32"), [a]).tolist() == a.tolist()
    assert convert(("cvt", "rn", "f32", "s32"), [a]).tolist() == a.tolist()


def test_what_is_limited():
    """`.sat` keeps floats from 0 to 1, and integers in the range of their type."""
    x = np.float32([-1.0, 0.25, 3.0, np.nan, -0.0, np.inf])
    opcode = ("add", "sat", "f32")
    kinds, function = ARITHMETIC["add"](opcode)
    assert kinds == ["f32", "f32"]
    half = [0.0, 0.5, 1.0, 0.0, 0.25, 1.0]
    assert saturated(opcode, function)(x, np.float32([0.25] * 6)).tolist() == half
    assert convert(("cvt", "sat", "f32", "f32"), [x]).tolist() == [0.0, 0.25, 1.0, 0.0, 0.0, 1.0]
    wide = np.array([-1, 300, -129, 100], np.int32)
    assert convert(("cvt", "sat", "u8", "s32"), [wide]).tolist() == [0, 255, 0, 100]
    assert convert(("cvt", "sat", "s8", "s32"), [wide]).tolist() == [-1, 127, -128, 100]
    with pytest.raises(Unsupported):
        saturated(("add", "sat", "s32"), function)
    with pytest.raises(Unsupported):
        convert(("cvt", "rn", "sat", "f16", "f32"), [x])


@pytest.mark.parametrize("kind", HALVES)
def test_two_floats_become_halves_of_a_word(kind: str):
    high, low = np.float32([1.0, 3.14159, 70000.0]), np.float32([-2.0, 1e-5, -0.0])
    words = convert(("cvt", "rn", f"{kind}x2", "f32"), [high, low])
    assert words.dtype == np.uint32
    halves = words.view(HALVES[kind]).reshape(-1, 2)
    with np.errstate(over="ignore"):
        expected = np.stack([low, high], axis=1).astype(HALVES[kind])
    np.testing.assert_array_equal(halves.view(np.uint16), expected.view(np.uint16))
