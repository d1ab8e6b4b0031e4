"""What a kernel is compiled for: notations, numbers, names, and what is noted of each argument."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import func
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerAttr, StringAttr, f32, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block

import tawa.language as tl
from tawa.base.spans import LOC, Span, attribute_of
from tawa.frontend.lower import lower_to_tile, require_whole_rows
from tawa.frontend.source.arguments import (
    Constant,
    DescriptorArg,
    PointerArg,
    ScalarArg,
    missing_constants,
    parse_argument,
    run_time_parameters,
    specialize_number,
)
from tawa.frontend.source.errors import LaunchMismatch, TypeMismatch
from tawa.frontend.values.builder import Builder, Defaults, hint, name_values
from tawa.ir.kernels import AT_LEAST, DISJOINT, MULTIPLE, NAME, RELEASES

NOTATIONS: dict[str, Any] = {
    "*f16": PointerArg(tl.float16),
    "*fp16:16": PointerArg(tl.float16, 16),
    " *i8 ": PointerArg(tl.int8),
    "i32": ScalarArg(tl.int32),
    "i64:16": ScalarArg(tl.int64, 16),
    "f32": ScalarArg(tl.float32),
    "f32:+": ScalarArg(tl.float32, positive=True),
    "i32:=1": ScalarArg(tl.int32, unit=True),
    "desc<f16, 128x64>": DescriptorArg(tl.float16, (128, 64)),
    "desc<f32,8>": DescriptorArg(tl.float32, (8,)),
}


@pytest.mark.parametrize("text", NOTATIONS)
def test_notations(text: str) -> None:
    assert parse_argument(text) == NOTATIONS[text]


@pytest.mark.parametrize(
    ("value", "kind", "divisible"),
    [(0, tl.int32, 16), (2, tl.int32, 1), (15, tl.int32, 1), (16, tl.int32, 16), (-16, tl.int32, 16),
     (2**31 - 1, tl.int32, 1), (2**31, tl.int64, 16), (-(2**31), tl.int32, 16),
     (-(2**31) - 1, tl.int64, 1), (2**63 - 1, tl.int64, 1), (2**63, tl.uint64, 16),
     (2**64 - 1, tl.uint64, 1), (1.0, tl.float32, 1), (16.0, tl.float32, 1), (True, tl.int1, 1),
     (False, tl.int1, 1)],
)  # fmt: skip
def test_numbers(value: float, kind: Any, divisible: int) -> None:
    assert specialize_number(value) == ScalarArg(kind, divisible)
    for options in ({"specialize": False}, {"align": False}):
        assert specialize_number(value, **options) == ScalarArg(kind)


def test_numbers_that_are_compiled_in() -> None:
    assert specialize_number(1) == Constant(1)
    assert specialize_number(1, align=False) == Constant(1)
    assert specialize_number(1, specialize=False) == ScalarArg(tl.int32)
    assert specialize_number(None, specialize=False) == Constant(None)


def test_parameters_that_are_left(define: Any) -> None:
    kernel = define("def kernel(x, n, m: tl.constexpr, k: tl.constexpr = 3):\n    pass\n")
    assert [p.name for p in run_time_parameters(kernel, {})] == ["x", "n"]
    assert [p.name for p in run_time_parameters(kernel, {"n": 1})] == ["x"]
    assert missing_constants(kernel, {}) == ["m"]
    assert missing_constants(kernel, {"m": 1}) == []


TEXT = """
def kernel(x, n, d, N: tl.constexpr):
    PROMISE
    tl.store(x + tl.arange(0, N), tl.zeros((N,), x.dtype.element_ty))
"""


def facts(define: Any, promise: str, *types: str, **constants: Any) -> dict[str, dict[str, Any]]:
    """What is noted of each argument, by its name in the text."""
    kernel = define(TEXT.replace("PROMISE", promise))
    kinds = [parse_argument(text) for text in types or ("*f16", "i32", "i32")]
    module = lower_to_tile(kernel, kinds, {"N": 16, **constants})
    (op,) = (op for op in module.ops if isinstance(op, func.FuncOp))
    noted = op.arg_attrs.data if op.arg_attrs is not None else [None] * len(op.body.block.args)
    found: dict[str, dict[str, Any]] = {}
    for argument, attributes in zip(op.body.block.args, noted, strict=True):
        assert argument.name_hint is not None
        found[argument.name_hint] = {
            name.removeprefix("tawa."): getattr(value, "value", value)
            for name, value in (attributes.data if attributes is not None else {}).items()
        }
    return {name: {key: getattr(v, "data", True) for key, v in of.items()}
            for name, of in found.items()}  # fmt: skip


@pytest.mark.parametrize(
    ("promise", "types", "noted"),
    [("pass", ("*f16", "i32", "i32"), {}),
     ("pass", ("*f16:16", "i32:4", "i32:1"), {"x": {"divisible": 16}, "n": {"divisible": 4}}),
     ("pass", ("*f16", "f32:+", "f32"), {"n": {"positive": True}}),
     ("tl.multiple_of(n, 8)", (), {"n": {"divisible": 8}}),
     ("tl.multiple_of(n, 8); tl.multiple_of(n, 12)", (), {"n": {"divisible": 24}}),
     ("tl.multiple_of(n, 8)", ("*f16", "i32:12", "i32"), {"n": {"divisible": 24}}),
     ("tl.multiple_of(d, 3)", (), {"d": {"divisible": 3}}),
     ("tl.multiple_of(n, 1)", (), {}),
     ("tl.assume(n >= 5)", (), {"n": {"at_least": 5}}),
     ("tl.assume(n > 5)", (), {"n": {"at_least": 6}}),
     ("tl.assume(n >= 5); tl.assume(n >= 3)", (), {"n": {"at_least": 5}}),
     ("tl.assume(n >= 3); tl.assume(n >= 5)", (), {"n": {"at_least": 5}}),
     ("tl.assume(n >= -2)", (), {"n": {"at_least": -2}})],
)  # fmt: skip
def test_what_is_noted_of_arguments(
    define: Any, promise: str, types: tuple[str, ...], noted: dict[str, Any]
) -> None:
    found = facts(define, promise, *types)
    assert {name: of for name, of in found.items() if of} == noted


def test_the_larger_of_two_bounds_and_the_product_of_factors() -> None:
    block = Block(arg_types=[i32, i32])
    b = Builder(block)
    own, other = block.args
    for bound in (3, 7, 5):
        b.promise_at_least(own, bound)
    assert b.promised == {own: 7}
    b.promise_runs(own, MULTIPLE, [4])
    b.promise_runs(own, MULTIPLE, [6])
    b.promise_runs(other, MULTIPLE, [4, 8])
    b.promise_runs(other, "tawa.other", [4])
    assert b.divisors == {own: 12}
    made = Made(result_types=[i32])
    b.promise_at_least(made.results[0], 4)
    b.promise_runs(made.results[0], MULTIPLE, [2, 4])
    assert made.attributes[AT_LEAST] == IntegerAttr(4, i32)
    assert made.attributes[MULTIPLE].get_values() == (2, 4)
    assert b.argument(own) is own
    assert b.argument(made.results[0]) is None


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [(None, "x", "x"), ("a", "x", "a"), (None, "_x", None), ("a", "_x", "a")],
)
def test_values_are_named_once(before: str | None, name: str, after: str | None) -> None:
    value = Made(result_types=[i32]).results[0]
    value.name_hint = before
    name_values([value], name)
    assert value.name_hint == after


def test_numbers_in_the_text_wrap_and_are_rounded() -> None:
    b = Builder(Block())
    assert b.constant(2**32 - 1, i32).owner.value.value.data == -1
    assert b.constant(0.1, f32).owner.value.value.data == pytest.approx(0.1, abs=1e-8)
    assert b.constant(0.1, f32).owner.value.value.data != 0.1


def test_names_that_the_text_can_not_have_are_kept(define: Any) -> None:
    kernel = define("def kernel(size, x_0):\n    tl.store(x_0, size)\n")
    module = lower_to_tile(kernel, [parse_argument("i32"), parse_argument("*i32")], {})
    (op,) = (op for op in module.ops if isinstance(op, func.FuncOp))
    assert op.arg_attrs is not None
    assert [of.data.get(NAME) for of in op.arg_attrs.data] == [None, StringAttr("x_0")]


@pytest.mark.parametrize(
    ("element", "shape", "whole"),
    [(tl.float16, (8, 8), True), (tl.float16, (8, 4), False), (tl.float32, (4,), True),
     (tl.float32, (16, 2), False), (tl.int8, (1, 16), True), (tl.int8, (16, 24), False),
     (tl.float64, (2,), True)],
)  # fmt: skip
def test_rows_of_blocks_are_whole_pieces(element: Any, shape: tuple[int, ...], whole: bool) -> None:
    if whole:
        require_whole_rows(DescriptorArg(element, shape))
    else:
        with pytest.raises(LaunchMismatch, match="a row of a descriptor's block"):
            require_whole_rows(DescriptorArg(element, shape))
    require_whole_rows(PointerArg(element))


WRONG: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "one too few": (["*f16", "i32"], {"N": 16}, "2 argument types"),
    "one too many": (["*f16", "i32", "i32", "i32"], {"N": 16}, "4 argument types"),
    "no such parameter": (["*f16", "i32", "i32"], {"N": 16, "Q": 1}, "no parameter Q"),
    "no value": (["*f16", "i32", "i32"], {}, "no value of N"),
}


@pytest.mark.parametrize("case", WRONG)
def test_arguments_that_do_not_match(define: Any, case: str) -> None:
    types, constants, found = WRONG[case]
    kernel = define(TEXT.replace("PROMISE", "pass"))
    with pytest.raises(LaunchMismatch, match="do not match") as caught:
        lower_to_tile(kernel, [parse_argument(t) for t in types], constants)
    assert caught.value.found == found


def constants_of(module: Any) -> list[int]:
    return [op.value.value.data for op in module.walk() if isinstance(op, ConstantOp)]


def test_arguments_by_name_and_parts_of_tuples(define: Any) -> None:
    kernel = define("def kernel(p, n):\n    tl.store(p[0] + p[1][0], p[1][1] + n)\n")
    kinds = {
        "p.0": parse_argument("*i32"),
        "p.1.0": parse_argument("i32"),
        "n": parse_argument("i32"),
    }
    module = lower_to_tile(kernel, kinds, {"p.1.1": 7})
    (op,) = (op for op in module.ops if isinstance(op, func.FuncOp))
    assert [a.name_hint for a in op.body.block.args] == ["p", "p_1", "n"]
    assert 7 in constants_of(module)
    for wrong in (["n", "p.0", "p.1.0"], ["p.0", "p.1.0"]):
        with pytest.raises(LaunchMismatch):
            lower_to_tile(kernel, {name: kinds[name] for name in wrong}, {"p.1.1": 7})


def test_a_number_that_is_one_is_written_as_one(define: Any) -> None:
    kernel = define("def kernel(x, n):\n    tl.store(x, n + 5)\n")
    module = lower_to_tile(kernel, [parse_argument("*i32"), parse_argument("i32:=1")], {})
    assert 1 in constants_of(module)


def test_factors_of_two_and_promises_of_the_whole_kernel(define: Any) -> None:
    assert facts(define, "pass", "*f16:2", "i32:2", "desc<f16,8x8>")["n"] == {"divisible": 2}
    kernel = define(
        "def kernel(x, y):\n    tl.assume_disjoint(x, y)\n    tl.store(x, tl.load(y))\n"
    )
    kinds = [parse_argument("*i32")] * 2
    (op,) = lower_to_tile(kernel, kinds, {}).ops
    assert op.attributes[DISJOINT] == StringAttr('[["x", "y"]]')
    plain = define("def kernel(x, y):\n    tl.store(x, tl.load(y))\n    return\n")
    (op,) = lower_to_tile(plain, kinds, {}).ops
    assert DISJOINT not in op.attributes
    assert RELEASES not in op.attributes
    (op,) = lower_to_tile(plain.fn, kinds, {}).ops
    assert op.sym_name.data == "kernel"


def test_a_kernel_returns_nothing(define: Any) -> None:
    kernel = define("def kernel(x):\n    return x\n")
    with pytest.raises(TypeMismatch, match="a kernel returns nothing"):
        lower_to_tile(kernel, [parse_argument("i32")], {})


def test_names_of_values_are_ones_that_the_text_can_have() -> None:
    for name, hinted in (("x", "x"), ("x_0", "x"), ("_0", None), ("x y", None), ("3x", None)):
        value = Made(result_types=[i32]).results[0]
        hint(value, name)
        assert value.name_hint == hinted, name


def test_spans_and_defaults() -> None:
    b = Builder(Block(), Defaults(num_warps=8))
    assert b.defaults.num_warps == 8
    assert Builder(Block()).defaults == Defaults()
    assert b.span is None
    one, other = (Span("f", n, 0, n, 5) for n in (1, 2))
    with b.at(one), b.at(other):
        assert b.span == other
        assert b.add(Made()).attributes[LOC] == attribute_of(other)
    assert b.span is None
    assert LOC not in b.add(Made()).attributes
