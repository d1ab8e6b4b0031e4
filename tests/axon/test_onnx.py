"""ONNX models: node cases against executed shapes, requirements of the light models, errors."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tawa import axon
from tawa.axon.onnx.graph import ModelInference
from tawa.axon.typing.errors import ShapeMismatch, UnsupportedModel

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import onnx_cases as oc

from axon import tawa

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
FREE = {"light_densenet121", "light_squeezenet"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("pattern", "at_least"),
    [
        ("test_reshape", 1.0), ("test_concat", 1.0), ("test_conv", 0.94), ("test_slice", 1.0),
        ("test_gather", 1.0), ("test_einsum", 1.0), ("test_averagepool", 1.0), ("test_scan", 1.0),
        ("test_matmul", 1.0), ("test_split_", 1.0), ("test_attention_3d_gqa", 1.0),
        ("test_loop13", 1.0), ("test_reduce_sum", 1.0), ("test_sequence", 0.9), ("test_if", 0.9),
    ],
)  # fmt: skip
def test_node_cases(pattern: str, at_least: float, node_cases: list[oc.Case]):
    chosen = [case for case in node_cases if pattern in case.name]
    total = oc.Score()
    for case in chosen:
        oc.score(case, tawa, total)
    assert total.wrong == 0
    assert total.failed == 0
    assert total.right >= at_least * total.outputs, total


@pytest.fixture(scope="module")
def node_cases() -> list[oc.Case]:
    """All node cases, at the sizes that they come with."""
    return list(oc.cases(grow=False))


@pytest.mark.filterwarnings("ignore")
def test_all_node_cases_at_their_own_sizes(node_cases: list[oc.Case]):
    total = oc.Score()
    for case in node_cases:
        oc.score(case, tawa, total)
    assert total.wrong == 0
    assert total.failed == 0
    assert total.right >= 0.94 * total.outputs, total


EXPORTED = ("pytorch-converted", "pytorch-operator", "simple")


def exported() -> list[oc.Case]:
    """The small models that come with onnx and their data."""
    found: list[oc.Case] = []
    for folder in sorted(p for kind in EXPORTED for p in (LIGHT.parent / kind).iterdir()):
        model = onnx.load(folder / "model.onnx")
        data = folder / "test_data_set_0"
        tensors = [
            [tensor_in(data / f"{kind}_{index}.pb") for index in range(len(entries))]
            for kind, entries in (("input", model.graph.input), ("output", model.graph.output))
        ]
        known = {"ai.onnx.preview.training:Gradient"}.isdisjoint(
            f"{node.domain}:{node.op_type}" for node in model.graph.node
        )
        weights = {initializer.name for initializer in model.graph.initializer}
        given = [
            tensor is not None or entry.name in weights
            for tensor, entry in zip(tensors[0], model.graph.input, strict=True)
        ]
        if known and all(given):
            found.append(oc.prepared(folder.name, model, *tensors, False))
    return found


def tensor_in(path: Path) -> np.ndarray | None:
    """The tensor in a file; None for a sequence, or if there is no such file."""
    if not path.exists():
        return None
    proto = onnx.TensorProto()
    try:
        proto.ParseFromString(path.read_bytes())
        return onnx.numpy_helper.to_array(proto)
    except Exception:  # protobuf's and numpy's errors: it holds something else
        return None


@pytest.mark.filterwarnings("ignore")
def test_exported_models():
    total = oc.Score()
    for case in exported():
        oc.score(case, tawa, total)
    assert total.wrong == 0
    assert total.failed == 0
    assert total.outputs >= 130
    assert total.right >= 0.95 * total.outputs, total


@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx")), ids=lambda path: path.stem)
def test_light_model(path: Path):
    model = onnx.load(path)
    weights = {initializer.name for initializer in model.graph.initializer}
    name = next(e.name for e in model.graph.input if e.name not in weights)
    found = ModelInference(model, strict=True).run({name: ["N", 3, 224, 224]})
    required = [str(requirement) for requirement in found.requirements()]
    if path.stem in FREE:
        assert required == []
        assert found.text(model.graph.output[0].name).startswith("[N, ")
    else:
        assert len(required) == 1
        assert required[0].startswith("`N` must be 1, because Reshape `")
    assert all(found.dims(node.output[0]) is not None for node in model.graph.node)


def model_of(*nodes: onnx.NodeProto, **inputs: list[int | str]) -> onnx.ModelProto:
    """A model of float inputs."""
    entries = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)
        for name, sizes in inputs.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(nodes[-1].output[0])]
    return helper.make_model(helper.make_graph(list(nodes), "g", entries, outputs))


def test_backward_facts_join_two_operators():
    model = model_of(
        helper.make_node("Constant", [], ["shape"], value_ints=[1, -1]),
        helper.make_node("Reshape", ["x", "shape"], ["flat"], name="flatten"),
        helper.make_node("MatMul", ["flat", "w"], ["y"], name="classify"),
        x=["N", 256, 6, 6], w=[9216, 10],
    )  # fmt: skip
    shapes = axon.from_onnx(model).shapes()
    (requirement,) = shapes.requirements()
    assert requirement.text == "`N` must be 1"
    assert requirement.places() == ["Reshape `flatten`", "MatMul `classify`"]
    assert shapes.text("y") == "[1, 10]"


def test_sizes_in_tensors_are_followed():
    model = model_of(
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Constant", [], ["i"], value_ints=[0]),
        helper.make_node("Gather", ["s", "i"], ["n"]),
        helper.make_node("Constant", [], ["rest"], value_ints=[-1]),
        helper.make_node("Concat", ["n", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["y"]),
        x=["n", "c", 4],
    )
    assert axon.from_onnx(model).shapes().text("y") == "[n, 4*c]"


def test_a_wrong_model_names_both_shapes_and_the_node():
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    with pytest.raises(ShapeMismatch, match="MatMul `product`: 3 does not fit 4"):
        axon.from_onnx(model_of(node, x=["N", 3], w=[4, 5])).shapes()


def test_what_cant_be_read_is_an_error(tmp_path: Path):
    with pytest.raises(UnsupportedModel, match="Quux"):
        axon.from_onnx(model_of(helper.make_node("Quux", ["x"], ["y"]), x=[1])).shapes()
    (tmp_path / "a.onnx").write_bytes(b"no model")
    with pytest.raises(UnsupportedModel, match="not an ONNX model"):
        axon.from_onnx(tmp_path / "a.onnx")


def test_loop_that_changes_a_shape_says_nothing_wrong():
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["cond"], ["cond_out"]),
            helper.make_node("Concat", ["v", "v"], ["v_out"], axis=0),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("cond", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("cond_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v_out", TensorProto.FLOAT, None),
        ],
    )
    loop = helper.make_node("Loop", ["m", "", "x"], ["y"], body=body)
    graph = helper.make_graph(
        [loop], "g",
        [helper.make_tensor_value_info("m", TensorProto.INT64, []),
         helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_empty_tensor_value_info("y")],
    )  # fmt: skip
    model = helper.make_model(graph)
    dims = ModelInference(model).run().dims("y")
    assert dims is not None
    assert dims[0].sole_variable is not None
    assert dims[1].constant == 3
    turns = {"m": np.array(2)}
    assert ModelInference(model).run(constants=turns).text("y") == "[4*n, 3]"
