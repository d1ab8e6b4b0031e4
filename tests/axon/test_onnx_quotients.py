"""Lengths that ONNX models divide as floats: right as far as floats are, and unknown beyond."""

from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator
from tests.axon.onnx_made import BOOL, FLOAT, INT64, constant, node, value

from tawa import axon
from tawa.axon.onnx.shapes import ModelShapes
from tawa.axon.sizes.shapes import evaluate

OPSETS = [helper.make_opsetid("", 18)]
HALF, DOUBLE = TensorProto.FLOAT16, TensorProto.DOUBLE
TYPES: dict[int, type] = {HALF: np.float16, FLOAT: np.float32, DOUBLE: np.float64}
BITS = {HALF: 11, FLOAT: 24, DOUBLE: 53}

Step = tuple[str, float | None]
"""An operator, and the number that is its second operand."""


def steps_of(steps: list[Step], element: int) -> tuple[list[NodeProto], list[TensorProto]]:
    """From the integer `n` through floats to the integer `i`."""
    nodes, weights = [node("Cast", ["n"], ["f0"], to=element)], list[TensorProto]()
    for k, (op, number) in enumerate(steps):
        operands = [f"f{k}"] if number is None else [f"f{k}", f"c{k}"]
        if number is not None:
            weights.append(constant(f"c{k}", number, TYPES[element]))
        nodes.append(node(op, operands, [f"f{k + 1}"]))
    return [*nodes, node("Cast", [f"f{len(steps)}"], ["i"], to=INT64)], weights


def inferred(
    steps: list[Step], element: int = FLOAT, more: tuple[NodeProto, ...] = ()
) -> ModelShapes:
    """What is inferred where `n` is the length `T` of the input `x`."""
    nodes, weights = steps_of(steps, element)
    first = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"])]
    weights.append(constant("zero", 0))
    outputs = [onnx.ValueInfoProto(name="i")]
    inputs = [value("x", ["T"]), value("p", [], BOOL)]
    graph = helper.make_graph([*first, *nodes, *more], "g", inputs, outputs, weights)
    return axon.from_onnx(helper.make_model(graph, opset_imports=OPSETS)).shapes()


def said(shapes: ModelShapes, length: int, name: str = "i") -> int | None:
    """The number in a tensor that is inferred for a length."""
    contents = shapes.contents(name)
    if contents is None or contents.numbers is None:
        return None
    (size,) = contents.numbers.ravel()
    symbol = shapes.symbols["T"].sole_variable
    return evaluate(size, lambda variable: length if variable is symbol else None)


class Run:
    """What onnx's reference computes."""

    def __init__(self, steps: list[Step], element: int) -> None:
        nodes, weights = steps_of(steps, element)
        outputs = [value(f"f{len(steps)}", [], element), value("i", [], INT64)]
        graph = helper.make_graph(nodes, "g", [value("n", [], INT64)], outputs, weights)
        self.evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=OPSETS))

    def at(self, length: int) -> int | None:
        """The integer for a length; None if the float is infinite."""
        with np.errstate(all="ignore"):
            last, found = self.evaluator.run(None, {"n": np.array(length)})
        return int(found) if np.isfinite(last) else None


KNOWN: dict[str, tuple[list[Step], str]] = {
    "up": ([("Div", 2), ("Ceil", None)], "((T + 1)//2)"),
    "down": ([("Div", 3), ("Floor", None)], "(T//3)"),
    "towards 0": ([("Div", 3)], "(T//3)"),
    "a scale": ([("Mul", 0.5), ("Floor", None)], "(T//2)"),
    "a ratio": ([("Div", 1.5), ("Floor", None)], "((2*T)//3)"),
    "frames": ([("Sub", 7), ("Div", 3), ("Add", 1), ("Ceil", None)], "((T + 1)//3) - 1"),
    "twice": ([("Div", 2), ("Div", 2), ("Ceil", None)], "((T + 3)//4)"),
    "padded": ([("Div", 4), ("Ceil", None), ("Mul", 4)], "4*((T + 3)//4)"),
    "nearest": ([("Add", 0.5), ("Floor", None)], "T"),
}


@pytest.mark.parametrize("element", TYPES, ids=lambda element: TYPES[element].__name__)
@pytest.mark.parametrize("name", KNOWN)
def test_a_size_that_is_divided_and_rounded_is_known(name: str, element: int):
    steps, expected = KNOWN[name]
    to = node("Unsqueeze", ["i", "axes"], ["sizes"])
    last = node("ConstantOfShape", ["sizes"], ["y"])
    axes = node("Constant", [], ["axes"], value_ints=[0])
    shapes = inferred(steps, element, (axes, to, last))
    assert shapes.text("y") == f"[({expected})]"  # in parentheses, as it has a condition
    run = Run(steps, element)
    for length in range(7, 40):
        assert said(shapes, length) == run.at(length)


@pytest.mark.parametrize(
    "steps",
    [
        [("Mul", 0.1), ("Floor", None)],
        [("Div", 3), ("Mul", 3), ("Floor", None)],
        [("Div", 3), ("Add", 0.25), ("Add", 0.25), ("Ceil", None)],
        [("Div", 3), ("Div", 0.5), ("Ceil", None)],
        [("Div", 0), ("Floor", None)],
        [("Div", 3), ("Sqrt", None), ("Floor", None)],
        [("Div", 3), ("Round", None)],
    ],
    ids=str,
)
def test_what_an_error_may_change_is_unknown(steps: list[Step]):
    shapes = inferred(steps)
    assert all(said(shapes, length) is None for length in (0, 1, 5, 100))


@pytest.mark.parametrize("element", TYPES, ids=lambda element: TYPES[element].__name__)
def test_what_is_known_is_as_floats_compute(element: int):
    """Random steps, at lengths around all powers of 2 up to where floats hold no integers."""
    draw, known, bits = random.Random(element), 0, BITS[element]
    factors = [1, 2, 3, 5, 7, 49, 100, 0.5, 0.25, 1.5, 2.5, -2, -3]
    for _ in range(80):
        steps: list[Step] = []
        for _ in range(draw.randint(1, 4)):
            op = draw.choice(["Div", "Div", "Mul", "Add", "Sub", "Ceil", "Floor", "Neg"])
            number = draw.choice(factors) if op in ("Div", "Mul") else draw.choice([1, 7, -1, 0.5])
            steps.append((op, number if op in ("Div", "Mul", "Add", "Sub") else None))
        shapes, run = inferred(steps, element), Run(steps, element)
        powers = [2**k + draw.randint(-4, 4) for k in range(3, bits + 2)]
        parts = [2**bits // draw.randint(1, 9) + draw.randint(-3, 3) for _ in range(20)]
        for length in [0, 1, 2, 3, *powers, *parts]:
            number = said(shapes, length)
            if number is not None:
                assert number == run.at(length), (steps, length)
                known += 1
    assert known > 1000


def test_beyond_what_floats_hold_nothing_is_said():
    steps: list[Step] = [("Div", 3), ("Add", 1), ("Ceil", None)]
    shapes = inferred(steps)
    assert said(shapes, 2**22) == 2**22 // 3 + 2
    assert said(shapes, 2**24) is None
    halves = inferred(steps, HALF)
    assert (said(halves, 300), said(halves, 2000)) == (101, None)


def test_a_fraction_in_another_float_is_followed():
    shapes = inferred([("Div", 3)], FLOAT, (
        node("Cast", ["f1"], ["d"], to=DOUBLE), node("Ceil", ["d"], ["e"]),
        node("Cast", ["e"], ["sizes"], to=INT64), node("Cast", ["f1"], ["h"], to=HALF),
        node("Ceil", ["h"], ["k"]), node("Cast", ["k"], ["shorter"], to=INT64),
    ))  # fmt: skip
    for name, limit in (("sizes", 2**22), ("shorter", 2**8)):
        assert said(shapes, limit - 1, name) == (limit + 1) // 3
        assert said(shapes, 2**25, name) is None


def test_a_fraction_of_a_branch_stays_in_it():
    def branch(number: float) -> onnx.GraphProto:
        part = node("Div", ["f0", "by"], ["part"])
        return helper.make_graph([part], "b", [], [value("part", None)],
                                 [constant("by", number, np.float32)])  # fmt: skip

    choice = node("If", ["p"], ["q"], then_branch=branch(2), else_branch=branch(3))
    shapes = inferred([], FLOAT, (choice, node("Floor", ["q"], ["r"]),
                                  node("Cast", ["r"], ["j"], to=INT64)))  # fmt: skip
    assert [said(shapes, length, "j") for length in (0, 1, 6)] == [None] * 3
