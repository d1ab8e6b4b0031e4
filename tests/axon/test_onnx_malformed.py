"""ONNX models that can't be right are refused by name: names, versions, stored tensors, types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper
from tests.axon.onnx_made import BOOL, FLOAT, INT64, OPSETS, constant, node, value

from tawa import axon
from tawa.axon.typing.errors import ShapeMismatch, UnsupportedModel


def stored(element: int, sizes: list[int], data: bytes = b"", **more: object) -> TensorProto:
    return TensorProto(name="w", data_type=element, dims=sizes, raw_data=data, **more)


INPUTS = [value("x", ["N", 4]), value("yes", [], BOOL), value("image", [1, 4, 8, 8]),
          value("words", [3], TensorProto.STRING), value("filters", [4, 4, 3, 3]),
          value("time", [5, 2, 3]), value("fifteen", [1, 15, 3]), value("square", [1, 16, 4])]  # fmt: skip


def model_of(*nodes: NodeProto, weights: tuple[TensorProto, ...] = ()) -> ModelProto:
    outputs = [onnx.ValueInfoProto(name=name) for name in nodes[-1].output]
    graph = helper.make_graph(list(nodes), "g", INPUTS, outputs, list(weights))
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=10)


def graph_of(
    *nodes: NodeProto, takes: tuple[str, ...] = (), gives: tuple[str, ...] | None = None
) -> GraphProto:
    gives = tuple(nodes[-1].output) if gives is None else gives
    return helper.make_graph(
        list(nodes), "inner", [value(n, None) for n in takes], [value(n, None) for n in gives]
    )


def chosen(then: GraphProto, otherwise: GraphProto, condition: str = "yes") -> NodeProto:
    return node("If", [condition], ["y"], then_branch=then, else_branch=otherwise)


def looped(body: GraphProto, turns: str = "", condition: str = "") -> NodeProto:
    return node("Loop", [turns, condition, "x"], ["y"], body=body)


ONE = graph_of(node("Relu", ["x"], ["a"]))
TWO = graph_of(node("Relu", ["x"], ["a"]), node("Neg", ["x"], ["b"]), gives=("a", "b"))
SIZES = graph_of(node("Shape", ["x"], ["a"]))
BODY = graph_of(node("Identity", ["k"], ["d"]), node("Relu", ["s"], ["t"]), takes=("i", "k", "s"),
                gives=("d", "t"))  # fmt: skip
BY_STATE = graph_of(node("Relu", ["s"], ["t"]), takes=("i", "k", "s"), gives=("t", "s"))
SCANNED = graph_of(node("Relu", ["s"], ["t"]), takes=("s",), gives=())

NODES: dict[str, tuple[NodeProto, str]] = {
    "several conditions": (chosen(ONE, ONE, "both"), "condition is not a single number"),
    "branches of other counts": (chosen(TWO, ONE), "its graphs have 2 and 1 outputs"),
    "branches of other types": (chosen(ONE, SIZES), "consists of float and of int64"),
    "going on is a float": (looped(BY_STATE), "says by float whether to go on"),
    "several lengths": (looped(BODY, "two"), "number of iterations is not a single"),
    "a scan gives nothing": (
        node("Scan", ["x"], ["y"], body=SCANNED, num_scan_inputs=1), "only 0 outputs"),
    "a scan takes more": (
        node("Scan", ["x", "x"], ["y"], body=ONE, num_scan_inputs=2), "has 0 inputs, not 2"),
    "a sequence is no tensor": (node("Relu", ["s"], ["y"]), "input 1 is a sequence"),
    "a tensor is no sequence": (node("SequenceLength", ["x"], ["y"]), "input 1 is a tensor"),
    "no such type": (node("Cast", ["x"], ["y"], to=12345), "`to` is 12345"),
    "another window": (
        node("Conv", ["image", "filters"], ["y"], kernel_shape=[5, 5]), "5 does not fit 3"),
    "a gate too few": (
        node("LSTM", ["time", "fifteen", "square"], ["y"], hidden_size=4), "16 does not fit 15"),
    "scales and sizes": (node("Resize", ["x", "", "scales", "two"], ["y"]), "both scales and sizes"),
    "no scale": (node("Resize", ["x", "", "nowhere"], ["y"]), "no number above 0"),
    "it makes its input": (node("Relu", ["x"], ["x"]), "`x` is made twice"),
    "it makes a weight": (node("Relu", ["x"], ["two"]), "`two` is made twice"),
    "an ellipsis of one and of none": (
        node("Einsum", ["x", "one"], ["y"], equation="i...,...->..."), "stands for 1 and for 0"),
    "inputs that nobody takes": (node("F", ["x", "x"], ["y"], domain="my"), "it has 2 inputs"),
    "a result that nobody makes": (node("G", ["x"], ["y"], domain="my"), "nothing .* makes `b`"),
}  # fmt: skip


@pytest.mark.parametrize("name", NODES)
def test_a_node_that_can_not_be_right_is_named(name: str):
    bad, message = NODES[name]
    weights = (constant("two", [2, 2]), constant("both", [True, False], np.bool_),
               constant("scales", [1, 1], np.float32), constant("one", 1, np.float32),
               constant("nowhere", [np.nan, 1], np.float32))  # fmt: skip
    model = model_of(node("SequenceConstruct", ["x"], ["s"]), bad, weights=weights)
    for function, made in (("F", "y"), ("G", "b")):
        part = node("Relu", ["a"], ["y"])
        model.functions.append(helper.make_function("my", function, ["a"], [made], [part], OPSETS))
    with pytest.raises((UnsupportedModel, ShapeMismatch), match=message):
        axon.from_onnx(model).shapes()


@pytest.mark.parametrize(
    "passed",
    [
        chosen(ONE, ONE, "x"),
        node("Relu", ["words"], ["y"]),
        node("Where", ["x", "x", "x"], ["y"]),
    ],
    ids=lambda passed: passed.op_type,
)
def test_other_elements_than_are_allowed_are_let_pass(passed: NodeProto):
    """As by onnx's own inference, whose tests have such models."""
    assert axon.from_onnx(model_of(passed)).shapes()


SPARSE = onnx.SparseTensorProto(
    values=helper.make_tensor("w", FLOAT, [1], [1.0]), dims=[-3, 4],
    indices=helper.make_tensor("i", INT64, [1], [0]),
)  # fmt: skip


def add_version(model: ModelProto, domain: str, version: int) -> None:
    model.opset_import.append(helper.make_opsetid(domain, version))


def two_of_a_name(model: ModelProto) -> None:
    for op_type in ("Relu", "Neg"):
        part = node(op_type, ["a"], ["y"])
        model.functions.append(helper.make_function("my", "F", ["a"], ["y"], [part], OPSETS))


def refer(model: ModelProto) -> None:
    attribute = model.graph.node[0].attribute.add()
    attribute.name, attribute.ref_attr_name, attribute.type = "axis", "of", AttributeProto.INT


MODELS: dict[str, tuple[Callable[[ModelProto], object], str]] = {
    "no versions": (lambda m: m.ClearField("opset_import"), "says no version"),
    "a version to come": (lambda m: add_version(m, "new", 0), "demands version 0 of `new`"),
    "two versions": (lambda m: add_version(m, "ai.onnx", 7), "two versions of `ai.onnx`: 18, 7"),
    "an unknown version": (lambda m: setattr(m.opset_import[0], "version", 999), "version 999"),
    "functions of one name": (two_of_a_name, "the function `F` is there twice"),
    "inputs of one name": (
        lambda m: m.graph.input.append(value("x", [3])), "input `x` is there twice"),
    "an input without a name": (lambda m: m.graph.input.append(value("", [3])), "has no name"),
    "an input of no type": (
        lambda m: m.graph.input.append(value("z", [3], 77)), "`z` has no element type: .* 77"),
    "an attribute of no function": (refer, "refers to an attribute of a function"),
    "sizes below 0": (lambda m: m.graph.sparse_initializer.append(SPARSE), "`w` .* negative"),
    "a wrong rank": (
        lambda m: m.graph.output[0].CopyFrom(value("y", ["N", 4, 1])), "a wrong shape of `y`"),
    "no graph": (lambda m: m.ClearField("graph"), "no graph"),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_can_not_be_right_is_refused(name: str):
    change, message = MODELS[name]
    model = model_of(node("Softmax", ["x"], ["y"]))
    assert axon.from_onnx(model).shapes().text("y") == "[N, 4]"
    change(model)
    with pytest.raises((UnsupportedModel, ShapeMismatch), match=message):
        axon.from_onnx(model).shapes()


TENSORS: dict[str, tuple[list[TensorProto], str]] = {
    "too few bytes": ([stored(FLOAT, [4, 5000], b"abcd")], "4 bytes, .* demands 80000"),
    "more bytes than 4 bits need": (
        [stored(TensorProto.INT4, [7], b"abcde")], "5 bytes, .* demands 4"),
    "two places": ([stored(FLOAT, [1], b"abcd", float_data=[1.0])], "`raw_data` and as"),
    "two fields": ([stored(FLOAT, [1], float_data=[1.0], int32_data=[1])], "and as `int32_data`"),
    "no such type": ([stored(99, [5000])], "no element type 99"),
    "no place outside": (
        [stored(FLOAT, [4], data_location=TensorProto.EXTERNAL)], "it isn't said where"),
    "one name": ([constant("w", [1, 2]), constant("w", [3])], "`w` is there twice"),
    "no name": ([constant("", [1, 2])], "has no name"),
}  # fmt: skip


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_that_is_not_all_there_is_refused(name: str):
    weights, message = TENSORS[name]
    with pytest.raises(UnsupportedModel, match=f"(?s)initializer.*{message}"):
        axon.from_onnx(model_of(node("Relu", ["x"], ["y"]), weights=tuple(weights))).shapes()


def test_names_that_are_no_text_are_refused(tmp_path: Path):
    path = tmp_path / "model.onnx"
    for name in (b"Relu", b"out", b"symbol"):
        model = model_of(node("Relu", ["x"], ["out"]))
        model.graph.input[0].CopyFrom(value("x", ["symbol", 4]))
        data = model.SerializeToString().replace(name, b"\xff" * len(name))
        path.write_bytes(data)
        with pytest.raises(UnsupportedModel, match="no text"):
            axon.from_onnx(path).shapes()


def test_a_function_is_found_by_which_of_its_name_it_is():
    model = model_of(node("F", ["x"], ["y"], domain="my", overload="turned"))
    for op_type, overload in (("Transpose", "turned"), ("Relu", "")):
        part = node(op_type, ["a"], ["y"])
        made = helper.make_function("my", "F", ["a"], ["y"], [part], OPSETS, overload=overload)
        model.functions.append(made)
    assert axon.from_onnx(model).shapes().text("y") == "[4, N]"


def test_more_bits_than_a_version_allows_are_no_error():
    model = model_of(node("Relu", ["image"], ["y"]))
    model.graph.input[2].CopyFrom(value("image", [1, 4, 8, 8], TensorProto.BFLOAT16))
    model.opset_import[0].version = 6
    assert axon.from_onnx(model).shapes().text("y") == "[1, 4, 8, 8]"
