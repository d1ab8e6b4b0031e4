"""What ops of the tile level compute, against NumPy; and loops that wait for other programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from tawa.base.numerics import round_to, value_dtype
from tawa.base.types import bf16, f16, f32, f64, i8, i32
from tawa.tile.analysis.waits import polls, waiting_loop
from tawa.tile.dialect import arithmetic
from tawa.tile.dialect.combine_ops import ReduceWith, ScanWith
from tawa.tile.dialect.ops import tile_context

ARGUMENTS = """%a : tensor<6x4xf32>, %b : tensor<6x4xf32>, %n : tensor<6x4xi32>, %r : tensor<6xi32>,
  %h : tensor<6x2xf16>, %i : i32, %j : i32, %p : !tawa.ptr<i32>, %t : i1"""


def module(body: str) -> Any:
    text = f"func.func @f({ARGUMENTS}) {{\n{body}\nfunc.return\n}}"
    parsed = Parser(tile_context(), text).parse_module()
    parsed.verify()
    return parsed


def op(line: str) -> Any:
    """The first op of a body."""
    return next(iter(next(iter(module(line).ops)).body.block.ops))


def floats(*shape: int) -> Any:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


A, B = floats(6, 4), floats(6, 4)[::-1].copy()
N = np.arange(24, dtype=np.int32).reshape(6, 4) % 7 - 1

PAIR = """{{
  ^bb0(%x : f32, %k : f32, %y : f32, %l : f32):
    %less = ew.map cmpf_olt(%x, %y) : (f32, f32) -> i1
    %m, %o = scf.if %less -> (f32, f32) {{
      scf.yield %x, %k : f32, f32
    }} else {{
      scf.yield %y, %l : f32, f32
    }}
    tile.yield %m, %o : f32, f32
}}"""
MATRIX = "tensor<6x4xf32>"


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("rows", [6, 5, 1])
def test_a_reduction_by_a_function(axis: int, rows: int) -> None:
    out = "tensor<4xf32>" if axis == 0 else "tensor<6xf32>"
    made = op(f"%u, %v = tile.reduce_with %a, %b axis {axis} : {MATRIX}, {MATRIX} -> {out}, {out} "
              + PAIR.format())  # fmt: skip
    a, b = (np.moveaxis(np.moveaxis(m, axis, 0)[:rows], 0, axis) for m in (A, B))
    least, beside = made.evaluate(a, b)
    where = np.expand_dims(a.argmin(axis), axis)
    assert np.array_equal(least, a.min(axis))
    assert np.array_equal(beside, np.take_along_axis(b, where, axis).squeeze(axis))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_by_a_function(axis: int, reverse: bool) -> None:
    made = op(f"%u = tile.scan_with %n axis {axis} {'reverse ' * reverse}: tensor<6x4xi32> -> tensor<6x4xi32> "
              """{
  ^bb0(%x : i32, %y : i32):
    %two = arith.constant 2 : i32
    %d = ew.map muli(%x, %two) : (i32, i32) -> i32
    %s = ew.map addi(%d, %y) : (i32, i32) -> i32
    tile.yield %s : i32
}""")  # fmt: skip
    rows = np.moveaxis(N, axis, 0)[:: -1 if reverse else 1]
    expected = [rows[0]]
    for row in rows[1:]:
        expected.append(2 * expected[-1] + row)
    expected = np.moveaxis(np.stack(expected)[:: -1 if reverse else 1], 0, axis)
    assert np.array_equal(made.evaluate(N)[0], expected)


def test_elements_are_picked_and_counted() -> None:
    gather = op(
        "%g = tile.gather %a, %n axis 0 : tensor<6x4xf32>, tensor<6x4xi32> -> tensor<6x4xf32>"
    )
    where = N % 6
    assert np.array_equal(gather.evaluate(A, where), np.take_along_axis(A, where, 0))
    assert np.array_equal(gather.evaluate(A, where + 6), gather.evaluate(A, where))
    count = op("%h2 = tile.histogram %r : tensor<6xi32> -> tensor<4xi32>")
    found = count.evaluate(np.array([0, 3, 3, 4, -1, 0], np.int32))
    assert found.tolist() == [2, 0, 0, 2]
    assert found.dtype == np.int32


def test_assembly_computes_each_element() -> None:
    one = op('%o = "tile.asm"(%n, %n) <{text = "sub.s32 $0, $1, $2;", constraints = "=r,r,r", '
             "pack = 1 : i32}> : (tensor<6x4xi32>, tensor<6x4xi32>) -> tensor<6x4xi32>")  # fmt: skip
    found = one.evaluate(N, 3 * N)
    assert found.shape == (6, 4)
    assert np.array_equal(found, -2 * N)
    two = op('%o, %o2 = "tile.asm"(%i) <{text = "add.s32 $0, $2, 1; add.s32 $1, $2, 2;", '
             'constraints = "=r,=r,r", pack = 1 : i32}> : (i32) -> (i32, i32)')  # fmt: skip
    first, second = two.evaluate(np.asarray(5, np.int32))
    assert (first.shape, int(first), int(second)) == ((), 6, 7)
    none = op('%o = "tile.asm"() <{text = "mov.b32 $0, 7;", constraints = "=r", pack = 1 : i32}> '
              ": () -> i32")  # fmt: skip
    assert none.evaluate().tolist() == 7


def test_windows_stay_inside() -> None:
    made = op("%w = tile.extract_slice %a[%i, %j] : tensor<6x4xf32> -> tensor<2x3xf32>")
    assert np.array_equal(made.evaluate(A, np.int32(4), np.int32(1)), A[4:6, 1:4])
    assert np.array_equal(made.evaluate(A, np.int32(0), np.int32(0)), A[:2, :3])
    for start in ((5, 0), (0, 2), (-1, 0)):
        with pytest.raises(IndexError, match=r"a window from -?\d to \d of \d elements"):
            made.evaluate(A, *map(np.int32, start))


def test_shapes_change() -> None:
    split = op("%x, %y = tile.split %h : tensor<6x2xf16> -> tensor<6xf16>, tensor<6xf16>")
    pair = A[:, :2]
    first, second = split.evaluate(pair)
    assert np.array_equal(first, pair[:, 0])
    assert np.array_equal(second, pair[:, 1])
    join = op("%q = tile.join %r, %r : tensor<6xi32> -> tensor<6x2xi32>")
    assert np.array_equal(join.evaluate(first, second), pair)
    repeat = op("%q = tile.repeat %a axis 1 times 3 : tensor<6x4xf32> -> tensor<6x12xf32>")
    assert np.array_equal(repeat.evaluate(A), np.repeat(A, 3, 1))
    arange = op("%q = tile.arange 3 to 7 : tensor<4xi32>")
    assert arange.evaluate().tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize("rows", [1, 2, 3, 6])
def test_halves_are_added_as_a_tree(rows: int) -> None:
    value = np.array([2048.0, 1.0, 1.0, 1.0, 1.0, 1.0][:rows], np.float16)
    found, line = arithmetic.reduce(value, 0, "addf", f16), list(value)
    while len(line) > 1:
        half = len(line) // 2
        line = [x + y for x, y in zip(line[:half], line[half : 2 * half], strict=True)] + line[
            2 * half :
        ]
    assert float(found) == float(line[0])


@pytest.mark.parametrize("element", [f16, bf16, f32])
def test_a_running_sum_rounds_each_step(element: Any) -> None:
    value = np.array([[256.0, 1.0, 1.0, 2048.0], [1.0, 3.0, 5.0, 1.0]], value_dtype(element))
    total, expected = np.zeros(2), []
    for column in value.T:
        total = round_to(np.asarray(total + column, np.float32), element)
        expected.append(total)
    assert np.array_equal(arithmetic.scan(value, 1, "addf", element), np.stack(expected, 1))


def test_unsigned_extremes() -> None:
    value = np.array([[1, -1, 2], [3, 4, -5]], np.int8)
    assert arithmetic.reduce(value, 1, "maxui", i8).tolist() == [-1, -5]
    assert arithmetic.reduce(value, 1, "maxsi", i8).tolist() == [2, 4]
    assert arithmetic.scan(value, 1, "minui", i8).tolist() == [[1, 1, 1], [3, 3, 3]]
    assert arithmetic.scan(value, 1, "minsi", i8).tolist() == [[1, -1, -1], [3, 3, -5]]


@pytest.mark.parametrize("largest", [False, True])
def test_the_place_of_an_extreme(largest: bool) -> None:
    value = np.array([[2.0, np.nan, 5.0, 5.0, 2.0], [np.nan, 1.0, 1.0, np.nan, 0.5]], np.float32)
    extreme, place = arithmetic.arg_reduce(value, 1, largest=largest, unsigned=False)
    assert extreme.tolist() == ([5.0, 1.0] if largest else [2.0, 0.5])
    assert place.tolist() == ([2, 1] if largest else [0, 4])
    assert place.dtype == np.int32
    nothing = np.full((1, 3), np.nan, np.float32)
    assert arithmetic.arg_reduce(nothing, 1, largest=largest, unsigned=False)[1].tolist() == [0]
    signs = np.array([[3, -2, 3, -7]], np.int32)
    for unsigned in (False, True):
        seen = signs.view(np.uint32) if unsigned else signs
        extreme, place = arithmetic.arg_reduce(signs, 1, largest=largest, unsigned=unsigned)
        expected = seen.argmax(1) if largest else seen.argmin(1)
        assert place.tolist() == expected.tolist()
        assert extreme.tolist() == signs[0, expected].tolist()


def test_products() -> None:
    a, b, acc = floats(3, 5), floats(5, 2), floats(3, 2)
    exact = acc + a.astype(np.float64) @ b.astype(np.float64)
    assert np.allclose(arithmetic.dot(a, b, acc, f32, "ieee"), exact, rtol=1e-6)
    wide = arithmetic.dot(*(v.astype(np.float64) for v in (a, b, acc)), f64, "tf32")
    assert wide.dtype == np.float64
    assert np.array_equal(wide, exact)
    short = (a.view(np.uint32) & 0xFFFFE000).view(np.float32)
    other = (b.view(np.uint32) & 0xFFFFE000).view(np.float32)
    expected = acc + (short.astype(np.float64) @ other).astype(np.float32)
    assert np.array_equal(arithmetic.dot(a, b, acc, f32, "tf32"), expected)
    assert not np.array_equal(arithmetic.dot(a, b, acc, f32, "ieee"), expected)
    small = np.array([[127, -128]], np.int8)
    found = arithmetic.dot(small, small.T, np.array([[5]], np.int32), i32, "ieee")
    assert found.tolist() == [[127**2 + 128**2 + 5]]
    assert found.dtype == np.int32


SPIN = """
%w = scf.while (%c = %i) : (i32) -> i32 {{
  {before}
  scf.condition(%go) %c : i32
}} do {{
^bb0(%d : i32):
  {after}
  scf.yield %d2 : i32
}}"""
LOAD = "%s = tile.load {pointer} volatile : !tawa.ptr<i32> -> i32\n"
ATOMIC = ('%s = tile.atomic_rmw "addi" {pointer}, %j order "acquire" scope "gpu" '
          ": !tawa.ptr<i32>, i32 -> i32\n")  # fmt: skip
TEST = "%go = ew.map cmpi_slt({value}, %j) : (i32, i32) -> i1"
MOVED = "%q = ew.map addptr(%p, {by}) : (!tawa.ptr<i32>, i32) -> !tawa.ptr<i32>\n"
STEP = "%d2 = ew.map addi(%d, %j) : (i32, i32) -> i32"


def spin(before: str, after: str = STEP) -> tuple[Operation, Any]:
    made = module(SPIN.format(before=before, after=after))
    return made, next(o for o in made.walk() if isinstance(o, scf.WhileOp))


def test_a_loop_that_counts_waits_for_nobody() -> None:
    kernel, loop = spin(TEST.format(value="%c"))
    assert waiting_loop(kernel) is None
    assert polls(loop) == []
    kernel, loop = spin(LOAD.format(pointer="%p") + TEST.format(value="%c"))
    assert waiting_loop(kernel) is None
    assert polls(loop) == []


@pytest.mark.parametrize(
    ("before", "found"),
    [
        (LOAD.format(pointer="%p"), 1),
        (MOVED.format(by="%j") + LOAD.format(pointer="%q"), 1),
        (MOVED.format(by="%c") + LOAD.format(pointer="%q"), 0),
    ],
)
def test_a_loop_polls_what_stays(before: str, found: int) -> None:
    kernel, loop = spin(before + TEST.format(value="%s"))
    assert waiting_loop(kernel) is loop
    assert len(polls(loop)) == found


def test_an_atomic_asks_others_but_polls_nothing() -> None:
    kernel, loop = spin(ATOMIC.format(pointer="%p") + TEST.format(value="%s"))
    assert waiting_loop(kernel) is loop
    assert polls(loop) == []


def test_a_pointer_that_was_loaded_stays_as_others_leave_it() -> None:
    before = LOAD.format(pointer="%p") + MOVED.format(by="%s") + (
        "%s2 = tile.load %q : !tawa.ptr<i32> -> i32\n") + TEST.format(value="%s2")  # fmt: skip
    _, loop = spin(before)
    assert len(polls(loop)) == 2


def test_what_an_atomic_gives_does_not_stay() -> None:
    before = ATOMIC.format(pointer="%p") + MOVED.format(by="%s") + (
        "%s2 = tile.load %q : !tawa.ptr<i32> -> i32\n") + TEST.format(value="%s2")  # fmt: skip
    kernel, loop = spin(before)
    assert waiting_loop(kernel) is loop
    assert polls(loop) == []


@pytest.mark.parametrize("axis", [0, 1])
def test_ops_made_in_python_are_those_of_the_text(axis: int) -> None:
    a, b = Made(result_types=[TensorType(f32, (6, 4))] * 2).results
    source = op("%u, %v = tile.reduce_with %a, %b axis 0 : "
                f"{MATRIX}, {MATRIX} -> tensor<4xf32>, tensor<4xf32> {PAIR.format()}")  # fmt: skip
    reduced = ReduceWith([a, b], axis, source.body.clone())
    reduced.verify()
    shape = (4,) if axis == 0 else (6,)
    assert [r.type for r in reduced.results] == [TensorType(f32, shape)] * 2
    for reverse in (False, True):
        scanned = ScanWith([a, b], axis, source.body.clone(), reverse=reverse)
        scanned.verify()
        assert (scanned.reverse is not None) is reverse
        assert str(scanned.axis.type) == str(reduced.axis.type) == "i32"


def test_wrong_constraints_are_told() -> None:
    line = '%o = "tile.asm"(%n) <{text = "t", constraints = "=r", pack = 1 : i32}> : '
    with pytest.raises(VerifyException, match="1 constraints for 2 registers"):
        op(line + "(tensor<6x4xi32>) -> tensor<6x4xi32>")
    with pytest.raises(VerifyException, match="tensors of one shape expected"):
        op(line.replace('"=r"', '"=r,r"') + "(tensor<6x4xi32>) -> tensor<6xi32>")


@pytest.mark.parametrize("count", range(1, 10))
@pytest.mark.parametrize("axis", [0, 1])
def test_combinations_take_every_element_once(count: int, axis: int) -> None:
    """However many there are: sums and products of small whole numbers are exact."""
    both = ("{{\n^bb0(%x : f32, %y : f32, %z : f32, %w : f32):\n  %s = ew.map addf(%x, %z) : (f32, f32) -> f32\n"
            "  %q = ew.map mulf(%y, %w) : (f32, f32) -> f32\n  tile.yield %s, %q : f32, f32\n}}")  # fmt: skip
    source = op("%u, %v = tile.reduce_with %a, %b axis 0 : "
                f"{MATRIX}, {MATRIX} -> tensor<4xf32>, tensor<4xf32> {both.format()}")  # fmt: skip
    shape = (count, 3) if axis == 0 else (3, count)
    value = np.random.default_rng(count).integers(1, 4, shape).astype(np.float32)
    of = Made(result_types=[TensorType(f32, shape)] * 2).results
    total, whole = ReduceWith(list(of), axis, source.body.clone()).evaluate(value, value)
    np.testing.assert_array_equal(total, value.sum(axis))
    np.testing.assert_array_equal(whole, value.prod(axis))
    for reverse in (False, True):
        scan = ScanWith(list(of), axis, source.body.clone(), reverse=reverse)
        running, products = scan.evaluate(value, value)
        turned = np.flip(value, axis) if reverse else value
        expected = [np.cumsum(turned, axis), np.cumprod(turned, axis)]
        expected = [np.flip(e, axis) for e in expected] if reverse else expected
        np.testing.assert_array_equal(running, expected[0])
        np.testing.assert_array_equal(products, expected[1])
