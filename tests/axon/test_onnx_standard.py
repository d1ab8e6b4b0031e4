"""Where tools differ about an ONNX model, Axon says what the standard says, as a run of it shows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, checker, helper
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import InferenceError, infer_shapes
from tests.axon.onnx_made import FLOAT, constant, node, value

from tawa import axon
from tawa.axon.typing.errors import ShapeMismatch, UnsupportedModel

OPSETS = [helper.make_opsetid("", 21)]


def model_of(
    made: NodeProto, *inputs: ValueInfoProto, weights: tuple[TensorProto, ...] = ()
) -> ModelProto:
    outputs = [value(name, None) for name in made.output]
    graph = helper.make_graph([made], "g", list(inputs), outputs, list(weights))
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=10)


def run(model: ModelProto) -> list[str]:
    """The shapes of the results that onnx's reference gives for inputs of ones."""
    given = {
        entry.name: np.ones(
            [dim.dim_value for dim in entry.type.tensor_type.shape.dim],
            helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type),
        )
        for entry in model.graph.input
    }
    return [str(list(np.shape(found))) for found in ReferenceEvaluator(model).run(None, given)]


def inferred(model: ModelProto) -> list[str]:
    shapes = axon.from_onnx(model).shapes()
    return [shapes.text(entry.name) for entry in model.graph.output]


@pytest.mark.parametrize("given", [{}, {"onesided": 1}, {"onesided": 0}], ids=str)
@pytest.mark.parametrize("window", [5, 6])
def test_a_fourier_transform_gives_one_side_unless_it_is_told(given: dict[str, int], window: int):
    """onnx's own inference takes both sides as the default."""
    made = node("STFT", ["signal", "step", "window"], ["y"], **given)
    model = model_of(made, value("signal", [2, 10, 1]), value("window", [window]),
                     weights=(constant("step", 2),))  # fmt: skip
    assert onnx.defs.get_schema("STFT", 21).attributes["onesided"].default_value.i == 1
    assert inferred(model) == run(model)


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
def test_a_recurrence_in_both_directions_has_weights_for_both(operator: str):
    """onnx's own inference lets weights of one direction pass."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[operator] * 4

    def model(directions: int) -> ModelProto:
        made = node(operator, ["x", "w", "r"], ["y", "h"], hidden_size=4, direction="bidirectional")
        return model_of(made, value("x", [6, 3, 10]), value("w", [directions, gates, 10]),
                        value("r", [directions, gates, 4]))  # fmt: skip

    assert inferred(model(2)) == ["[6, 2, 3, 4]", "[2, 3, 4]"]
    with pytest.raises(ShapeMismatch, match="2 does not fit 1"):
        inferred(model(1))


@pytest.mark.parametrize("layout", [0, 1])
def test_the_reference_agrees_about_the_weights_of_both_directions(layout: int):
    def model(directions: int) -> ModelProto:
        made = node("RNN", ["x", "w", "r"], ["y", "h"], hidden_size=4, layout=layout,
                    direction="bidirectional")  # fmt: skip
        return model_of(made, value("x", [6, 3, 10]), value("w", [directions, 4, 10]),
                        value("r", [directions, 4, 4]))  # fmt: skip

    assert inferred(model(2)) == run(model(2))
    with pytest.raises(RuntimeError, match="requires num_directions=2"):
        run(model(1))


def test_the_sizes_of_a_constant_have_64_bits():
    def model(type_: type) -> ModelProto:
        return model_of(
            node("ConstantOfShape", ["s"], ["y"]), weights=(constant("s", [4, 3], type_),)
        )

    assert inferred(model(np.int64)) == run(model(np.int64)) == ["[4, 3]"]
    assert {str(t) for t in onnx.defs.get_schema("ConstantOfShape", 21).inputs[0].types} == {
        "tensor(int64)"}  # fmt: skip
    with pytest.raises(InferenceError, match="Expected:int64"):
        infer_shapes(model(np.int32), strict_mode=True)
    with pytest.raises(UnsupportedModel, match="its sizes are no 64-bit integers"):
        inferred(model(np.int32))


def test_a_weight_has_an_element_type():
    weight = constant("s", [4, 3])
    weight.data_type = TensorProto.UNDEFINED
    model = model_of(node("ConstantOfShape", ["s"], ["y"]), weights=(weight,))
    with pytest.raises(TypeError, match="UNDEFINED"):
        run(model)
    with pytest.raises(UnsupportedModel, match="there is no element type 0"):
        inferred(model)


def test_the_default_domain_has_onnx_s_operators_alone():
    made = node("CustomOp", ["x"], ["y"])
    model = model_of(made, value("x", [3]))
    model.graph.output[0].CopyFrom(value("y", [3]))
    with pytest.raises(checker.ValidationError, match="No Op registered for CustomOp"):
        checker.check_model(model)
    with pytest.raises(UnsupportedModel, match="`CustomOp`"):
        inferred(model)


def test_a_call_may_leave_the_last_results_of_a_function():
    """As the checker and the reference let it; onnx's own inference doesn't."""
    part = [node("Identity", ["x"], ["a"]), node("Shape", ["x"], ["b"])]
    made = node("F", ["x"], ["y"], domain="my")
    model = model_of(made, value("x", [3, 2]))
    model.opset_import.append(helper.make_opsetid("my", 1))
    model.functions.append(helper.make_function("my", "F", ["x"], ["a", "b"], part, OPSETS))
    model.graph.output[0].CopyFrom(value("y", [3, 2], FLOAT))
    checker.check_model(model)
    assert inferred(model) == run(model) == ["[3, 2]"]


@pytest.mark.parametrize("given", [["x", "low", "high"], ["x", "", "high"], ["x", "low", ""],
                                   ["x", "low"]], ids=",".join)  # fmt: skip
def test_a_function_is_called_without_optional_inputs(given: list[str]):
    """Left out by an empty name or at the end: what its body takes optionally is left out, too."""
    model = model_of(node("Bounded", given, ["y"], domain="my"), value("x", ["n", 3]),
                     weights=(constant("low", 0, np.float32), constant("high", 1, np.float32)))  # fmt: skip
    body = [node("Clip", ["a", "b", "c"], ["d"])]
    model.functions.append(
        helper.make_function("my", "Bounded", ["a", "b", "c"], ["d"], body, OPSETS)
    )
    model.opset_import.append(helper.make_opsetid("my", 1))
    assert inferred(model) == ["[n, 3]"]
