"""Executes ONNX models at sizes of one's choice: the truth that shape inference is scored by."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from typing import Any

import onnxruntime
from onnx import ModelProto, NodeProto
from onnx.reference import ReferenceEvaluator


class Oracle:
    """Executes a model on data of any size.

    Runs onnx's reference evaluator, or onnxruntime where that doesn't know the model. It doesn't
    check all that an operator's specification demands, so onnxruntime and the rules in `SPECIFIED`
    have a veto.
    """

    def __init__(self, model: ModelProto, given: dict[str, Any]) -> None:
        self.model = model
        self.outputs = [entry.name for entry in model.graph.output]
        self._session = self._onnxruntime()
        if self._session is not None and self._by_onnxruntime(given) is None:
            self._session = None
        self._is_known = self._by_reference(given) is not None

    def _onnxruntime(self) -> onnxruntime.InferenceSession | None:
        free = ModelProto()
        free.CopyFrom(self.model)
        for entry in (*free.graph.input, *free.graph.output):
            for dim in entry.type.tensor_type.shape.dim:
                dim.Clear()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        try:
            return onnxruntime.InferenceSession(free.SerializeToString(), options)
        except Exception:  # it doesn't know all operators
            return None

    def _by_onnxruntime(self, feeds: dict[str, Any]) -> list[Any] | None:
        if self._session is None:
            return None
        try:
            return list(self._session.run(None, feeds))
        except Exception:  # onnxruntime has many ways to refuse
            return None

    def _by_reference(self, feeds: dict[str, Any]) -> list[Any] | None:
        try:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return list(ReferenceEvaluator(self.model).run(None, feeds))
        except Exception:  # a model that doesn't run at these sizes says nothing
            return None

    def run(self, feeds: dict[str, Any]) -> list[Any] | None:
        """The outputs, or None if the model can't be run on this data."""
        for node in self.model.graph.node:
            rule = SPECIFIED.get(node.op_type)
            given = [feeds.get(name) for name in node.input]
            if rule and not rule(node, [getattr(value, "shape", None) for value in given]):
                return None
        if not self._is_known:
            return self._by_onnxruntime(feeds)
        results = self._by_reference(feeds)
        refused = self._session is not None and results and self._by_onnxruntime(feeds) is None
        return None if refused else results


def _hidden_size(node: NodeProto, shapes: list[Any]) -> bool:
    hidden = [a.i for a in node.attribute if a.name == "hidden_size"]
    return not hidden or shapes[2] is None or shapes[2][2] == hidden[0]


SPECIFIED: dict[str, Callable[[NodeProto, list[Any]], bool]] = {
    "CausalConvWithState": lambda _, shapes: (
        len(shapes) < 4 or shapes[3] is None or shapes[3][2] == shapes[1][2] - 1
    ),
    "RNN": _hidden_size,
    "GRU": _hidden_size,
    "LSTM": _hidden_size,
    "RoiAlign": lambda _, shapes: shapes[1][0] == shapes[2][0],
}
"""What the specification says of an operator's input shapes and the evaluator doesn't check."""
