"""Classifiers and regressors of the domain ai.onnx.ml: as many rows as onnxruntime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tawa import axon

TREE: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
}  # fmt: skip
"""Two leaves, 1 and 2."""

CLASSES: dict[str, Any] = {
    "class_treeids": [0, 0],
    "class_nodeids": [1, 2],
    "class_weights": [1.0, 2.0],
}
TARGETS: dict[str, Any] = {
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_weights": [1.0, 2.0],
}
SUPPORT: dict[str, Any] = {
    "coefficients": [1.0, 2.0], "kernel_params": [0.1, 0.1, 3.0], "kernel_type": "RBF",
    "rho": [0.1], "support_vectors": [1.0, 2.0, 3.0, 4.0],
}  # fmt: skip

NODES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "three classes": ("LinearClassifier", 2, {
        "coefficients": [1.0] * 6, "intercepts": [0.1] * 3, "classlabels_ints": [0, 1, 2]}),
    "two classes": ("LinearClassifier", 2, {
        "coefficients": [1.0] * 2, "intercepts": [0.1], "classlabels_ints": [5, 7]}),
    "targets": ("LinearRegressor", 1, {
        "coefficients": [1.0] * 6, "intercepts": [0.1] * 3, "targets": 3}),
    "classes of a tree": ("TreeEnsembleClassifier", 2, {
        **TREE, **CLASSES, "class_ids": [0, 2], "classlabels_int64s": [0, 1, 2]}),
    "targets of a tree": ("TreeEnsembleRegressor", 1, {
        **TREE, **TARGETS, "target_ids": [0, 1], "n_targets": 2}),
    "support vectors": ("SVMRegressor", 1, {**SUPPORT, "n_supports": 2}),
    "classes by support vectors": ("SVMClassifier", 2, {
        **SUPPORT, "classlabels_ints": [0, 1], "vectors_per_class": [1, 1]}),
}  # fmt: skip
"""Nodes on rows of two numbers: the operator, how many outputs it has, its attributes."""

UNKNOWN = {("classes by support vectors", 1)}
"""Outputs whose second size isn't known."""


@pytest.mark.parametrize("name", NODES)
def test_rows(name: str):
    operator, count, attributes = NODES[name]
    outputs = ["label", "scores"][-count:]
    given = helper.make_node(operator, ["x"], outputs, domain="ai.onnx.ml", **attributes)
    kinds = [TensorProto.INT64 if o == "label" else TensorProto.FLOAT for o in outputs]
    graph = helper.make_graph(
        [given], "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2])],
        [helper.make_tensor_value_info(*pair, None) for pair in zip(outputs, kinds, strict=True)],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    shapes = axon.from_onnx(model).shapes()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    feeds = {"x": np.zeros((3, 2), np.float32)}
    results = session.run(None, feeds)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    for index, output in enumerate(outputs):
        result = np.asarray(results[index])
        real = ["N", *map(str, result.shape[1:])]
        if (name, index) in UNKNOWN:
            real[1] = "a"
        assert len(result) == 3
        assert shapes.text(output) == f"[{', '.join(real)}]"
