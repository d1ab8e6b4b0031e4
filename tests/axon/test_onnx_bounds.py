"""Models made to take long, or to be read in several ways: unknown, or refused, and soon."""

from __future__ import annotations

import time

import onnx
import pytest
from onnx import helper
from tests.axon.test_onnx_sound import BOOL, INT64, OPSETS, branch, model_of, node, shapes_of, value

from tawa.axon.onnx import context
from tawa.axon.onnx.graph import ModelInference
from tawa.axon.typing.errors import UnsupportedModel


def symbols_added(count: int) -> onnx.ModelProto:
    inputs = [value(f"x{i}", [f"D{i}"]) for i in range(count)]
    return model_of([node("Sum", [entry.name for entry in inputs], ["y"])], inputs)


def number_computed(*steps: tuple[str, str, str]) -> onnx.ModelProto:
    """`y` has the size that a number is after some steps: each an operator on it, or sizes a, b."""
    nodes = [node("Shape", ["x"], ["a"], end=1), node("Shape", ["x"], ["b"], start=1, end=2)]
    last = "a"
    for i, (op, *others) in enumerate(steps):
        given = [last if other == "it" else other for other in others]
        nodes.append(node(op, given, [f"n{i}"]))
        last = f"n{i}"
    nodes.append(node("ConstantOfShape", [last], ["y"]))
    return model_of(nodes, [value("x", ["N", "M"])])


@pytest.mark.parametrize(
    "model",
    [
        symbols_added(140),
        number_computed(("Add", "a", "b"), *[("Mul", "it", "it")] * 30),
        number_computed(*[("Mul", "it", "it")] * 40),
        number_computed(*[("Max", "it", "b"), ("Add", "it", "it"), ("Min", "it", "a")] * 20),
        number_computed(("Add", "a", "b"), *[("Div", "it", "b"), ("Mul", "it", "it")] * 12),
    ],
    ids=["symbols", "squares", "powers", "choices", "quotients"],
)
def test_sizes_that_grow_without_bounds_are_unknown(
    model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(context, "MAX_WEIGHT", 64)
    start = time.process_time()
    shapes = shapes_of(model)
    assert len(shapes.dims("y") or ()) == 1
    assert len(shapes.text("y")) < 6000
    assert time.process_time() - start < 5


def test_what_takes_too_long_is_given_up_at_its_place():
    def twice(of: int) -> onnx.FunctionProto:
        nodes = [
            node(f"f{of}", ["a"], ["b"], domain="my"),
            node(f"f{of}", ["b"], ["c"], domain="my"),
        ]
        return helper.make_function("my", f"f{of + 1}", ["a"], ["c"], nodes, OPSETS)

    first = helper.make_function("my", "f0", ["a"], ["b"], [node("Relu", ["a"], ["b"])], OPSETS)
    functions = (first, *(twice(i) for i in range(29)))
    model = model_of([node("f29", ["x"], ["y"], domain="my")], [value("x", ["N"])], (), functions)
    with pytest.raises(UnsupportedModel, match=r"given up at .*takes too long"):
        ModelInference(model, strict=True, seconds=0.2).run()


@pytest.mark.parametrize("keep", [2, -(2**63), 2**31])
def test_flags_that_are_neither_0_nor_1_leave_a_result_unknown(keep: int):
    model = model_of([node("ReduceSum", ["x"], ["y"], keepdims=keep)], [value("x", [2, 3])])
    assert shapes_of(model).dims("y") is None


def test_graphs_inside_take_and_give_what_they_need():
    body = helper.make_graph(
        [node("Identity", ["going"], ["on"])], "body",
        [value("i", [], INT64), value("going", [], BOOL)], [value("on", [], BOOL)],
    )  # fmt: skip
    loop = node("Loop", ["", "", "x"], ["y"], body=body)
    with pytest.raises(UnsupportedModel, match="has 2 inputs, not 3"):
        shapes_of(model_of([loop], [value("x", [2])]))
    one = branch(node("Relu", ["x"], ["r"]))
    choice = node("If", ["c"], ["y", "z"], then_branch=one, else_branch=one)
    with pytest.raises(UnsupportedModel, match="has only 1 outputs"):
        shapes_of(model_of([choice], [value("x", [2]), value("c", [], BOOL)]))
