"""The interpreter of inline assembly, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tawa.ir.scalars.ptx import UnknownInstruction, evaluate

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
