"""Kernel specs: expressions, validation and the JSON round trip."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tawa.base.kernel_spec import (
    Expr,
    GridParam,
    InvalidSpec,
    KernelSpec,
    PointerParam,
    ScalarParam,
    TensorMapParam,
    evaluate,
    expr_text,
    quotient,
)

ARGUMENTS = (7, 12, SimpleNamespace(shape=(128, 64), strides=(72, 1)))

leaves = st.one_of(
    st.integers(-50, 50),
    st.sampled_from([("arg", 0), ("arg", 1), ("dim", 2, 0), ("stride", 2, 0), ("dim", 2, 1)]),
)
operators = st.sampled_from(["add", "sub", "mul", "quotient", "cdiv", "min", "max"])
expressions = st.recursive(leaves, lambda sub: st.tuples(operators, sub, sub), max_leaves=12)


def reference(expr: Expr) -> int:
    """The meaning of an expression, written a second time and in real arithmetic."""
    if isinstance(expr, int):
        return expr
    if expr[0] == "arg":
        return (7, 12)[expr[1]]
    if expr[0] in ("dim", "stride"):
        return {("dim", 2, 0): 128, ("dim", 2, 1): 64, ("stride", 2, 0): 72}[expr]
    a, b = reference(expr[1]), reference(expr[2])
    match expr[0]:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "quotient":
            return math.trunc(a / b)
        case "cdiv":
            return math.ceil(a / b)
        case "min":
            return a if a < b else b
        case _:
            return a if a > b else b


@given(expressions)
def test_both_evaluations_agree_with_the_meaning(expr: Expr) -> None:
    try:
        expected = reference(expr)
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            evaluate(expr, ARGUMENTS)
        return
    if abs(expected) < 2**50:
        a0, a1, a2 = ARGUMENTS
        assert evaluate(expr, ARGUMENTS) == expected
        assert (
            eval(expr_text(expr), {"a0": a0, "a1": a1, "a2": a2, "quotient": quotient}) == expected
        )


def a_spec() -> KernelSpec:
    return KernelSpec(
        entry="matmul",
        threads=384,
        shared_bytes=200000,
        arguments=("a", "b", "m", "n"),
        parameters=(
            TensorMapParam(0, "f16", (128, 64), (128, 128), swizzle=128),
            TensorMapParam(
                1,
                "f16",
                (64, 64),
                shape=(("arg", 2), ("mul", 2, ("arg", 3))),
                strides=(("arg", 3), 1),
                fill="nan",
            ),
            PointerParam(1),
            ScalarParam(("cdiv", ("arg", 2), 128), "i32"),
            GridParam(0),
        ),
        cluster=(2, 1, 1),
        grid="persistent",
    )


def test_json_round_trip_keeps_everything() -> None:
    spec = a_spec()
    assert KernelSpec.from_json(spec.to_json()) == spec
    assert hash(KernelSpec.from_json(spec.to_json())) == hash(spec)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"parameters": [{"kind": "Nothing"}]}'])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec):
        KernelSpec.from_json(text)


def test_a_parameter_of_an_unknown_argument_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="argument 3 of add"):
        KernelSpec("add", 128, 0, (PointerParam(3),), arguments=("x",))


@pytest.mark.parametrize(
    "change",
    [{"swizzle": 16}, {"l2_promotion": 1}, {"fill": "one"}, {"box": ()}, {"shape": (1, 1)}],
)
def test_an_impossible_tensor_map_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidSpec):
        TensorMapParam(**{"arg": 0, "element_type": "f16", "box": (8, 8), **change})  # pyright: ignore[reportArgumentType]  # wrong on purpose
