"""Compile-time values, loops, branches and returns.

Point by point what is easy to get wrong in Triton's semantics of control flow.
"""

from __future__ import annotations

import numpy as np
import pytest

from tawa.base.errors import TawaError
from tawa.frontend import Constant, ScalarArg, lower_to_tile, parse_argument, specialize_number
from tawa.frontend.source.errors import BranchTypeMismatch, LoopTypeChange, MisplacedReturn
from tawa.language.dtypes import int32, int64


def same(actual, expected):
    np.testing.assert_array_equal(actual, expected)


def test_specialisation_of_arguments():
    assert specialize_number(1) == Constant(1)
    assert specialize_number(1, specialize=False) == ScalarArg(int32)
    assert specialize_number(None) == Constant(None)
    assert specialize_number(48) == ScalarArg(int32, 16)
    assert specialize_number(48, align=False) == ScalarArg(int32)
    assert specialize_number(7) == ScalarArg(int32)
    assert specialize_number(2**31) == ScalarArg(int64, 16)
    assert specialize_number(2**63).type.name == "uint64"
    assert specialize_number(True).type.name == "int1"
    assert specialize_number(1.0).type.name == "fp32"
    assert parse_argument("*bf16:16").divisible == 16


def test_none_and_one_are_compile_time_values(launch, define):
    kernel = define(
        "def kernel(xp, bias, op, stride):\n    i = tl.arange(0, 16)\n"
        "    x = tl.load(xp + i * stride)\n"
        "    if bias is not None:\n        x += tl.load(bias + i)\n"
        "    if stride == 1:\n        x += 100\n"
        "    tl.store(op + i, x)\n"
    )
    x, out = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    launch(kernel, (1,), x, None, out, 1)
    same(out, x + 100)
    launch(kernel, (1,), np.arange(32, dtype=np.int32), x, out, 2)
    same(out, 3 * x)


def test_a_constant_if_compiles_its_taken_side_only(launch, define):
    kernel = define(
        "def kernel(op, FLAG: tl.constexpr):\n"
        "    if FLAG == 'a':\n        v = 1\n"
        "    elif FLAG == 'b':\n        v = undefined_name + 1\n"
        "    else:\n        return\n"
        "    tl.store(op, v)\n"
    )
    out = np.zeros(1, np.int32)
    launch(kernel, (1,), out, FLAG="a")
    same(out, [1])
    launch(kernel, (1,), out, FLAG="c")
    with pytest.raises(TawaError, match="undefined_name"):
        launch(kernel, (1,), out, FLAG="b")


def test_an_annotated_assignment_stays_constant(launch, define):
    kernel = define(
        "def kernel(op, N: tl.constexpr):\n"
        "    H: tl.constexpr = N // 2\n"
        "    i = tl.arange(0, H)\n"
        "    tl.store(op + i, i + H)\n"
    )
    out = np.zeros(8, np.int32)
    launch(kernel, (1,), out, N=16)
    same(out, np.arange(8, 16))


def test_an_annotation_of_a_value_that_the_program_computes_says_nothing(launch, define):
    kernel = define(
        "def kernel(op, n):\n    m: tl.constexpr = n * 2\n    tl.store(op + tl.arange(0, 8), m)\n"
    )
    out = np.zeros(8, np.int32)
    launch(kernel, (1,), out, 5)
    same(out, np.full(8, 10))
    shape = define("def kernel(op, n):\n    m: tl.constexpr = n\n    tl.zeros((m,), tl.int32)\n")
    with pytest.raises(TawaError, match="compile"):
        launch(shape, (1,), out, 5)


@pytest.mark.parametrize(
    ("start", "change", "fine"),
    [("0.0", "acc + tl.load(p).to(tl.float16)", True), ("0", "acc + tl.load(p).to(tl.int64)", False),
     ("0", "acc + 1.5", False), ("tl.zeros((4,), tl.float32)", "acc.to(tl.float16)", False)],
)  # fmt: skip
def test_loop_variables_keep_their_type(define, start, change, fine):
    kernel = define(
        f"def kernel(p, n):\n    acc = {start}\n    for i in range(n):\n        acc = {change}\n"
    )
    types = [parse_argument("*f16"), parse_argument("i32")]
    if fine:
        assert lower_to_tile(kernel, types, {})
        return
    with pytest.raises(LoopTypeChange) as caught:
        lower_to_tile(kernel, types, {})
    assert caught.value.span.line == 4
    assert caught.value.notes[0].span.line == 2


def test_both_sides_of_an_if_agree(define):
    kernel = define("def kernel(n):\n    if n > 1:\n        x = 1\n    else:\n        x = 1.5\n")
    with pytest.raises(BranchTypeMismatch) as caught:
        lower_to_tile(kernel, [parse_argument("i32")], {})
    assert {caught.value.span.line, caught.value.notes[0].span.line} == {3, 5}


def test_early_return(launch, define):
    kernel = define(
        "def kernel(op, n, m):\n"
        "    i = tl.program_id(0)\n"
        "    if i >= n:\n        return\n"
        "    if i % 2 == 0:\n"
        "        if i == m:\n            return\n"
        "        tl.store(op + i, 5)\n"
        "    else:\n        tl.store(op + i, 7)\n"
        "    tl.store(op + 8 + i, i)\n"
    )
    out = np.zeros(16, np.int32)
    launch(kernel, (8,), out, 6, 2)
    same(out[:8], [5, 7, 0, 7, 5, 7, 0, 0])
    same(out[8:], [0, 1, 0, 3, 4, 5, 0, 0])
    looping = define(
        "def kernel(n):\n    for i in range(n):\n        if i > 2:\n            return\n"
    )
    with pytest.raises(MisplacedReturn):
        lower_to_tile(looping, [parse_argument("i32")], {})


def test_helpers_return_early_and_several_values(launch, define):
    kernel = define(
        "@jit\ndef sign(x):\n    if x > 0:\n        return 1, x\n    if x < 0:\n"
        "        return -1, -x\n    return 0, x\n\n"
        "def kernel(op):\n    i = tl.program_id(0)\n    s, a = sign(i - 2)\n"
        "    tl.store(op + i, s * 10 + a)\n"
    )
    out = np.zeros(5, np.int32)
    launch(kernel, (5,), out)
    same(out, [-8, -9, 0, 11, 12])


@pytest.mark.parametrize(("start", "stop", "step"), [(0, 7, 2), (5, 0, -1), (9, -1, -4), (3, 3, 1)])
def test_ranges(launch, define, start, stop, step):
    """Constant negative steps count down; all forms agree with Python's range."""
    text = (
        "def kernel(op, a, b, STEP: tl.constexpr, STATIC: tl.constexpr):\n    n = 0\n"
        f"    if STATIC:\n        for i in tl.static_range({start}, {stop}, STEP):\n"
        "            tl.store(op + n, i)\n            n += 1\n"
        "    else:\n        for i in range(a, b, STEP):\n"
        "            tl.store(op + n, i)\n            n += 1\n"
        "    tl.store(op + 15, n)\n"
    )
    expected = np.full(16, -99, np.int32)
    counters = list(range(start, stop, step))
    expected[: len(counters)] = counters
    expected[15] = len(counters)
    for static in (False, True):
        out = np.full(16, -99, np.int32)
        launch(define(text), (1,), out, start, stop, STEP=step, STATIC=static)
        same(out, expected)


def test_while_loops(launch, define):
    kernel = define(
        "def kernel(op, n):\n    steps = 0\n    while n != 1:\n"
        "        if n % 2 == 0:\n            n = n // 2\n        else:\n            n = 3 * n + 1\n"
        "        steps += 1\n    tl.store(op, steps)\n"
    )
    out = np.zeros(1, np.int32)
    launch(kernel, (1,), out, 27)
    same(out, [111])


def test_ternaries_are_lazy(launch, define):
    kernel = define(
        "def kernel(xp, op, n):\n    i = tl.program_id(0)\n"
        "    v = tl.load(xp + i) if i < n else -1\n    tl.store(op + i, v)\n"
    )
    x, out = np.arange(3, dtype=np.int32), np.zeros(6, np.int32)
    launch(kernel, (6,), x, out, 3)
    same(out, [0, 1, 2, -1, -1, -1])
