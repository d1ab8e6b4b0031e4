"""What constants, the demands of nodes, and the graphs inside of nodes decide in ONNX models."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tests.axon.test_onnx_sound import (
    BOOL,
    INT64,
    at,
    constant,
    model_of,
    node,
    shapes_of,
    value,
)

from tawa import axon
from tawa.axon.typing.errors import ShapeMismatch, UnsupportedModel


def test_below_version_4_of_the_format_weights_of_inner_graphs_are_inputs_too():
    body = helper.make_graph(
        [node("Add", ["w", "k"], ["after"])], "body",
        [value("i", [], INT64), value("go", [], BOOL), value("w", None), value("k", [1])],
        [value("go", [], BOOL), value("after", None)], [constant("k", [1.0], np.float32)],
    )  # fmt: skip
    model = model_of(
        [node("Loop", ["n", "", "x"], ["y"], body=body)], [value("x", ["N"]), value("n", [], INT64)]
    )
    model.ir_version = 3
    assert at(shapes_of(model), "y", N=5) == (5,)


def test_types_that_are_no_tensors_are_unknown():
    entry = onnx.ValueInfoProto(name="x")
    entry.type.opaque_type.domain, entry.type.opaque_type.name = "my", "Thing"
    foreign = helper.make_node("Read", ["x"], ["y"], domain="my")
    assert shapes_of(model_of([foreign], [entry])).dims("y") is None


def test_without_indices_anything_is_gathered_from():
    """onnxruntime asks of batches only that one is a multiple of the other."""
    gather = node("GatherND", ["x", "i"], ["y"], batch_dims=1)
    shapes = shapes_of(model_of([gather], [value("x", ["N", "M"]), value("i", [2, 0, 1], INT64)]))
    assert at(shapes, "x", N=3, M=4) == (3, 4)
    shapes = shapes_of(model_of([gather], [value("x", ["N", "M"]), value("i", [2, 1, 1], INT64)]))
    assert at(shapes, "x", N=1, M=4) == (1, 4)
    with pytest.raises(ShapeMismatch):
        shapes_of(model_of([gather], [value("x", [3, "M"]), value("i", [2, 1, 1], INT64)]))


def test_stacked_results_consist_of_what_the_body_makes():
    """Not of what the state consists of: a scan's types may differ from one another."""
    body = helper.make_graph(
        [node("Identity", ["s"], ["t"]), node("CastLike", ["s", "row"], ["each"])], "body",
        [value("s", [2]), value("row", [2], TensorProto.FLOAT16)],
        [value("t", [2]), value("each", [2], TensorProto.FLOAT16)],
    )  # fmt: skip
    scan = node("Scan", ["s", "x"], ["last", "y"], num_scan_inputs=1, body=body)
    model = model_of([scan], [value("s", [2]), value("x", ["T", 2], TensorProto.FLOAT16)])
    model.graph.output[1].CopyFrom(value("y", ["T", 2], TensorProto.FLOAT16))
    assert shapes_of(model).values["y"].element == TensorProto.FLOAT16


@pytest.mark.parametrize(
    ("nodes", "constants", "sizes", "said"),
    [
        ([node("Split", ["c"], ["a", "b"], num_outputs=2), node("Expand", ["x", "b"], ["y"])],
         [constant("c", [4, 1, 5, 1])], {"N": 3}, (5, 3)),
        ([node("Unique", ["c"], ["u", "", "", ""]), node("Shape", ["u"], ["s"]),
          node("Expand", ["x", "s"], ["y"])], [constant("c", [4, 1, 4, 1])], {"N": 2}, (2,)),
        ([node("Relu", ["c"], ["r"]), node("Cast", ["r"], ["i"], to=INT64),
          node("ConstantOfShape", ["i"], ["y"])],
         [constant("c", [2.5, -1.0], np.float32)], {"N": 2}, (2, 0)),
        ([node("Unsqueeze", ["x", "axes"], ["i"]),
          node("ConvTranspose", ["i", "i"], ["y"], strides=[2], auto_pad="SAME_UPPER")],
         [constant("axes", [0, 1])], {"N": 3}, (1, 1, 6)),
        ([node("Reshape", ["x", "rows"], ["r"]), node("Shape", ["r"], ["s"]),
          node("Reshape", ["x", "s"], ["y"])],
         [constant("rows", [4, -1])], {"N": 8}, (4, 2)),
    ],
    ids=["parts", "different numbers", "floats", "same padding", "what divides"],
)  # fmt: skip
def test_what_constants_and_demands_decide(
    nodes: list[onnx.NodeProto], constants: list[TensorProto], sizes: dict[str, int],
    said: tuple[int, ...],
):  # fmt: skip
    shapes = shapes_of(model_of(nodes, [value("x", ["N"])], tuple(constants)))
    assert at(shapes, "y", **sizes) == said


def test_what_a_window_needs_decides_a_slice_behind_it():
    """As a causal convolution keeps its state: the last inputs, of which there are enough."""
    nodes = [node("Concat", ["past", "x"], ["all"], axis=2), node("Conv", ["all", "w"], ["c"]),
             node("Shape", ["all"], ["length"], start=2, end=3),
             node("Sub", ["length", "three"], ["first"]),
             node("Slice", ["all", "first", "length", "two"], ["y"])]  # fmt: skip
    inputs = [value("past", [1, 2, "P"]), value("x", [1, 2, "T"]), value("w", [5, 2, 4])]
    known = (constant("three", [3]), constant("two", [2]))
    shapes = shapes_of(model_of(nodes, inputs, known))
    assert at(shapes, "y", P=3, T=9) == (1, 2, 3)


def test_a_loop_that_starts_or_not_keeps_what_both_have():
    body = helper.make_graph(
        [node("Identity", ["go"], ["on"]), node("Neg", ["s"], ["t"]),
         node("Concat", ["u", "u"], ["v"], axis=0)], "body",
        [value("i", [], INT64), value("go", [], BOOL), value("s", None), value("u", None)],
        [value("on", [], BOOL), value("t", None), value("v", None), value("t", None)],
    )  # fmt: skip
    loop = node("Loop", ["three", "go", "x", "x"], ["a", "b", "c"], body=body)
    shapes = shapes_of(
        model_of([loop], [value("x", ["N"]), value("go", [], BOOL)], (constant("three", 3),))
    )
    assert at(shapes, "a", N=2) == (2,)
    assert at(shapes, "b", N=2) == (None,)
    assert shapes.dims("c") is None


def test_what_is_pooled_from_a_window_that_may_not_fit_is_unknown_where_it_does_not():
    """Also behind another pooling: a quotient of a quotient is one quotient."""
    attributes = {"kernel_shape": [2], "strides": [2]}
    nodes = [node("AveragePool", ["x"], ["p"], **attributes),
             node("AveragePool", ["p"], ["y"], ceil_mode=1, **attributes)]  # fmt: skip
    shapes = shapes_of(model_of(nodes, [value("x", ["B", 3, "W"])]))
    assert [at(shapes, "y", B=2, W=w) for w in (2, 3, 6, 9)] == [
        (2, 3, 1), (2, 3, 1), (2, 3, 2), (2, 3, 2)]  # fmt: skip
    assert at(shapes, "y", B=2, W=1) == (2, 3, None)


@pytest.mark.parametrize(("size", "expected"), [(6, 3), (7, None)])
def test_a_valid_pooling_rounded_up_is_known_where_nothing_is_rounded(
    size: int, expected: int | None
):
    """The specification's formula rounds down, and onnxruntime up."""
    pool = node("MaxPool", ["x"], ["y"], kernel_shape=[2], strides=[2], ceil_mode=1,
                auto_pad="VALID")  # fmt: skip
    shapes = shapes_of(model_of([pool], [value("x", ["B", 3, size])]))
    assert at(shapes, "y", B=2) == (2, 3, expected)


def test_the_contents_of_a_one_hot_tensor_decide_shapes():
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["b"]),
             node("Concat", ["one", "b"], ["off_on"], axis=0),
             node("OneHot", ["at", "three", "off_on"], ["times"]),
             node("Reshape", ["times", "flat"], ["repeats"]),
             node("Tile", ["y", "repeats"], ["z"])]  # fmt: skip
    inputs = [value("x", ["B", "C"]), value("y", ["N", "M", 2])]
    constants = (constant("zero", [0]), constant("one", [1]), constant("at", [-2]),
                 constant("three", 3), constant("flat", [-1]))  # fmt: skip
    shapes = shapes_of(model_of(nodes, inputs, constants))
    assert at(shapes, "z", B=5, C=2, N=3, M=4) == (3, 20, 2)


def nested(depth: int, trips: int) -> str:
    """Loops in each other: the body of the innermost joins what it is given with itself."""
    if not depth:
        return "r0 = Concat<axis = 1>(s0, s0)"
    return f"""
      m{depth} = Constant<value = int64 {{{trips}}}>()
      c{depth} = Constant<value = bool {{1}}>()
      r{depth} = Loop(m{depth}, c{depth}, s{depth})
        <body = b{depth} (int64 i{depth}, bool g{depth}, float[A{depth}, B{depth}] s{depth - 1})
            => (bool o{depth}, float[D{depth}, E{depth}] r{depth - 1}) {{
          o{depth} = Identity(g{depth})
          {nested(depth - 1, trips)}
        }}>"""


@pytest.mark.parametrize(("depth", "trips", "expected"), [(2, 2, "[N, 16*C]"), (4, 30, "[N, a]")])
def test_loops_in_each_other_are_inferred_once_they_are_many(depth: int, trips: int, expected: str):
    text = (
        f"g (float[N, C] s{depth}) => (float y) {{{nested(depth, trips)} y = Identity(r{depth}) }}"
    )
    head = '<ir_version: 9, opset_import: ["" : 18]>\n'
    model = onnx.parser.parse_model(head + text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert axon.from_onnx(model).shapes().text("y") == expected


def test_batches_of_different_sizes_are_taken_where_nothing_is_gathered():
    head = '<ir_version: 9, opset_import: ["" : 18]>\n'
    text = (
        "g (float[1, 6, N] x, int64[8, 2, 1] i) => (float y) { y = GatherND<batch_dims = 1>(x, i) }"
    )
    model = onnx.parser.parse_model(head + text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    shapes = axon.from_onnx(model).shapes()
    assert shapes.text("y") == "[8, 2, N]"
    session = onnxruntime.InferenceSession(model.SerializeToString())
    feeds = {"x": np.ones((1, 6, 0), np.float32), "i": np.zeros((8, 2, 1), np.int64)}
    results = session.run(None, feeds)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    assert np.asarray(results[0]).shape == (8, 2, 0)


def test_a_body_may_join_what_is_empty_with_any_rank():
    """onnxruntime doesn't know the ranks of a loop's state, and skips parts without elements."""
    body = helper.make_graph(
        [node("Identity", ["go"], ["still"]), node("Concat", ["s", "w"], ["t"], axis=1)], "body",
        [value("i", [], INT64), value("go", [], BOOL), value("s", None)],
        [value("still", [], BOOL), value("t", None)],
    )  # fmt: skip
    model = model_of(
        [node("Loop", ["n", "", "x"], ["y"], body=body)],
        [value("n", [], INT64), value("x", ["N", 4, "M"]), value("w", [3, "K"])],
    )
    shapes = shapes_of(model)
    assert at(shapes, "y", N=0, M=2, K=3) is None
    top = model_of([node("Concat", ["x", "w"], ["y"], axis=1)], list(model.graph.input)[1:])
    with pytest.raises(UnsupportedModel, match="different numbers of dimensions"):
        shapes_of(top)
