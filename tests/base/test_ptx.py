"""The interpreter of inline assembly, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tawa.base.numerics import decode, storage_dtype
from tawa.base.types import NAMES
from tawa.ir.scalars.ptx import UnknownInstruction, evaluate
from tawa.simulate.ptx.arithmetic import ARITHMETIC, convert, dtype_of, saturated

WORDS = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=8)


def words(values):
    return np.array(values, np.uint64)


def bits(values):
    return np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)


def floats(values):
    return values.astype(np.uint32).view(np.float32)


@given(WORDS)
def test_logic_and_shifts(values):
    x = np.array(values, np.uint32)
    text = "{ .reg .b32 t; shr.u32 t, $1, 3; xor.b32 $0, t, 0xF0F0; }"
    assert (evaluate(text, [words(values)], 1)[0] == (x >> 3) ^ 0xF0F0).all()
    (found,) = evaluate("shr.s32 $0, $1, 40;", [words(values)], 1)
    assert (found.astype(np.uint32).view(np.int32) == x.view(np.int32) >> 31).all()


@given(WORDS, st.integers(0, 255))
def test_lop3_is_its_table(values, table):
    a, b = words(values), words(values[::-1])
    c = a ^ (b >> np.uint64(7))
    (found,) = evaluate(f"lop3.b32 $0, $1, $2, $3, {table};", [a, b, c], 1)
    for bit in range(32):
        row = [(v >> np.uint64(bit)) & np.uint64(1) for v in (a, b, c)]
        index = row[0] * 4 + row[1] * 2 + row[2]
        assert (
            ((found >> np.uint64(bit)) & np.uint64(1)) == (table >> index.astype(int)) & 1
        ).all()


def test_floats_and_predicates():
    x = np.array([1.5, -2.25, 3.0, 0.0])
    text = "{ .reg .pred p; setp.gt.f32 p, $1, 0f00000000; @p mov.b32 $0, $1; @!p mov.b32 $0, 0; }"
    assert (floats(evaluate(text, [bits(x)], 1)[0]) == np.maximum(x, 0)).all()
    (found,) = evaluate("fma.rn.f32 $0, $1, $1, 0f3F800000;", [bits(x)], 1)
    assert (floats(found) == x * x + 1).all()
    (found,) = evaluate("cvt.rni.s32.f32 $0, $1;", [bits(x)], 1)
    assert found.astype(np.uint32).view(np.int32).tolist() == [2, -2, 3, 0]


def test_pairs_and_bytes():
    x = np.array([1.5, -2.0])
    (pair,) = evaluate("cvt.rn.f16x2.f32 $0, $1, $2;", [bits(x), bits(-x)], 1)
    halves = pair.astype(np.uint32).view(np.float16).reshape(-1, 2)
    assert (halves == np.stack([-x, x], 1)).all()
    (found,) = evaluate("prmt.b32 $0, $1, $1, 0x0123;", [words([0x11223344])], 1)
    assert found[0] == 0x44332211


@pytest.mark.parametrize("text", ["mov.u32 $0, %clock;", "shfl.sync.bfly.b32 $0, $1, 1, 31, -1;"])
def test_what_is_not_known_is_named(text):
    with pytest.raises(UnknownInstruction, match="does not know"):
        evaluate(text, [words([1])], 1)


KINDS = [f"{sign}{width}" for sign in "us" for width in (16, 32, 64)]
BITS = ["b16", "b32", "b64"]
INSTRUCTIONS = [
    *(f"{name}.{kind}" for name in ("add", "sub", "mul.lo", "mad.lo", "min", "max", "shr")
      for kind in KINDS),
    *(f"{name}.{kind}" for name in ("mul.hi", "mul.wide", "mad.wide")
      for kind in KINDS if "64" not in kind),
    *(f"bfe.{kind}" for kind in KINDS if "16" not in kind),
    *(f"{name}.{kind}" for name in ("and", "or", "xor", "not", "shl") for kind in BITS),
    *(f"neg.s{width}" for width in (16, 32, 64)), *(f"abs.s{width}" for width in (16, 32, 64)),
    "popc.b32", "popc.b64", "prmt.b32", "shf.l.wrap.b32", "shf.r.wrap.b32", "shf.l.clamp.b32",
    "shf.r.clamp.b32", *(f"{name}.rn.{kind}" for name in ("add", "sub", "mul", "fma") for kind in
                         ("f32", "f64")),
    *(f"{name}.{kind}" for name in ("min", "max") for kind in ("f32", "f64")),
    "add.f16x2", "mul.bf16x2", "fma.rn.f16x2", "max.bf16x2", "add.sat.f32", "add.f16", "sub.bf16",
    "rcp.approx.ftz.f32", "ex2.approx.ftz.f32", "rcp.rn.f32",
]  # fmt: skip
COUNTS = {"mad": 3, "fma": 3, "bfe": 3, "prmt": 3, "shf": 3}
EDGES = [0, 1, 2, 3, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x3F800000,
         0xBF000000, 0x40490FDB, 0x7F800000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x3C003800,
         0x3FF0000000000000, 0xC000000000000001, 0x7FFFFFFFFFFFFFFF, 1 << 63, (1 << 64) - 1]  # fmt: skip


def pairs_of_edges(count):
    """Each edge beside each other, as registers of 64 bits."""
    rows = np.array(EDGES, np.uint64)
    both = [rows.repeat(len(rows)), np.tile(rows, len(rows))]
    return [*both, np.roll(both[0], 7) ^ both[1]][:count]


@pytest.mark.parametrize("opcode", INSTRUCTIONS)
def test_inline_instructions_compute_as_those_of_kernels(opcode):
    """Two interpreters, of what users write and of what NVRTC makes, agree on edges."""
    parts = tuple(opcode.split("."))
    kinds, function = ARITHMETIC[parts[0]](parts)
    count = COUNTS.get(parts[0], 2 if parts[0] == "mul" else len(kinds))
    given = pairs_of_edges(count)
    arrays = [v.astype(f"u{dtype_of(kind).itemsize}").view(dtype_of(kind))
              for v, kind in zip(given, kinds, strict=False)]  # fmt: skip
    with np.errstate(all="ignore"):
        expected = np.ascontiguousarray(saturated(parts, function)(*arrays))
    names = ", ".join(f"${i}" for i in range(count + 1))
    (found,) = evaluate(f"{opcode} {names};", given, 1)
    same_bits(parts[-1], expected, found)


def same_bits(kind, expected, found):
    width = expected.dtype.itemsize
    stored = found.astype(f"u{width}")
    if kind in ("f32", "f64"):
        np.testing.assert_array_equal(stored.view(expected.dtype), expected)
    elif "f" in kind:
        element = NAMES[kind.removesuffix("x2")]
        two = [decode(np.ascontiguousarray(a).view(storage_dtype(element)), element)
               for a in (stored, expected)]  # fmt: skip
        np.testing.assert_array_equal(*two)
    else:
        np.testing.assert_array_equal(stored, expected.view(f"u{width}"))


CONVERSIONS = [
    *(f"cvt.{way}.{to}.{of}" for way in ("rni", "rzi", "rmi", "rpi") for to in ("s32", "u32")
      for of in ("f32", "f64")),
    *(f"cvt.rzi.{to}.{of}" for to in ("s64", "u64", "u16", "s16") for of in ("f32", "f64")),
    *(f"cvt.rn.{to}.{of}" for to in ("f32", "f64") for of in ("s32", "u32", "s16", "u16")),
    *(f"cvt.{to}.{of}" for to in ("s64", "u64", "u16") for of in ("s32", "u32", "s16", "u16")),
    "cvt.rn.f16.f32", "cvt.rn.bf16.f32", "cvt.rz.f32.f64", "cvt.rn.f32.f64", "cvt.f64.f32",
    "cvt.f32.bf16", "cvt.f32.f16", "cvt.rn.f16x2.f32", "cvt.rn.bf16x2.f32",
]  # fmt: skip


@pytest.mark.parametrize("opcode", CONVERSIONS)
def test_inline_conversions_compute_as_those_of_kernels(opcode):
    parts = tuple(opcode.split("."))
    to, of = parts[-2:]
    kind = np.dtype(np.uint16) if of == "bf16" else dtype_of(of)
    given = pairs_of_edges(2 if to.endswith("x2") else 1)
    arrays = [v.astype(f"u{kind.itemsize}").view(kind) for v in given]
    with np.errstate(all="ignore"):
        expected = np.ascontiguousarray(convert(parts, arrays))
    names = ", ".join(f"${i}" for i in range(len(given) + 1))
    (found,) = evaluate(f"{opcode} {names};", given, 1)
    same_bits(to, expected, found)


@pytest.mark.parametrize("kind", ["u16", "s32", "u32", "s64", "f32", "f64"])
@pytest.mark.parametrize("way", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_inline_comparisons_choose_as_those_of_kernels(way, kind):
    given = pairs_of_edges(2)
    arrays = [v.astype(f"u{dtype_of(kind).itemsize}").view(dtype_of(kind)) for v in given]
    _, function = ARITHMETIC["setp"](("setp", way, kind))
    text = f"{{ .reg .pred p; setp.{way}.{kind} p, $1, $2; selp.b64 $0, $1, $2, p; }}"
    (found,) = evaluate(text, given, 1)
    with np.errstate(all="ignore"):
        chosen = function(*arrays)
    if way == "ne" and kind[0] == "f":
        chosen = chosen & (arrays[0] == arrays[0]) & (arrays[1] == arrays[1])
    np.testing.assert_array_equal(found, np.where(chosen, *given))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("mov.b64 $0, {$1, $2};", 0x22222222_11111111), ("mov.b32 $0, {$1, $2};", 0x2222_1111),
     ("{ .reg .b16 a, b; mov.b32 {a, b}, $1; mov.b32 $0, {b, a}; }", 0x11111111),
     ("cvt.rna.tf32.f32 $0, 0f3F801000;", 0x3F802000),
     ("cvt.rna.tf32.f32 $0, 0f3F800FFF;", 0x3F800000),
     ("mov.b32 $0, 0x10U;", 16), ("mov.f32 $0, 1.5;", 0x3FC00000), ("mov.f64 $0, 0d4000000000000000;", 2 << 61),
     ("max.relu.f16x2 $0, $3, $3;", 0x3C00 << 16), ("mov.b32 $0, 7; // a remark", 7),
     ("{ .reg .pred p; setp.eq.u32 p, $1, $1; @p mov.b32 $0, 1; @!p mov.b32 $0, 2; }", 1),
     ("{ .reg .pred p; setp.ne.u32 p, $1, $1; @p mov.b32 $0, 1; @!p mov.b32 $0, 2; }", 2)],
)  # fmt: skip
def test_words_that_instructions_leave(text, expected):
    given = [words([0x11111111]), words([0x22222222]), words([0x3C00 << 16 | 0xBC00])]
    assert int(evaluate(text, given, 1)[0][0]) == expected


@pytest.mark.parametrize(
    "text",
    ["setp.foo.u32 $0, $1, $1;", "mul.hi.u64 $0, $1, $1;", "mad.wide.u64 $0, $1, $1, $1;",
     "tanh.b32 $0, $1;", "brk.f32 $0, $1;", "mov.b32 $0, what;"],
)  # fmt: skip
def test_instructions_without_a_meaning_are_named(text):
    with pytest.raises(UnknownInstruction):
        evaluate(text, [words([1])], 1)
