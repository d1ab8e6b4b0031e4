"""ONNX's own node cases as a test of shape inference.

A case is a model of one operator (or its expansion into others) with input data. Its inputs are
made symbolic, every size n > 1 becoming the symbol `s<n>` (1 stays 1), except for small integer
inputs, which become constants. What a tool infers is compared with the executed shapes at up to
three valuations of the symbols: the data that comes with the case, and larger data.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

SMALL = 16
"""Integer inputs of at most this many numbers are constants."""

GROWTH: tuple[Callable[[int], int], ...] = (
    lambda n: 2 * n, lambda n: n + 1, lambda n: 3 * n, lambda n: n + 2,
)  # fmt: skip
"""How sizes are changed; the first two valuations that execute are used."""

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Valuation:
    """Sizes of the symbols, and the shapes that execution gives."""

    sizes: dict[str, int]
    outputs: Shapes


@dataclass(frozen=True)
class Case:
    """A model with symbolic inputs."""

    name: str
    model: ModelProto
    inputs: dict[str, tuple[int | str, ...] | None]
    constants: dict[str, np.ndarray]
    valuations: tuple[Valuation, ...]


def cases(pattern: str = "", grow: bool = True) -> Iterator[Case]:
    """The node cases of the installed onnx whose name contains `pattern`.

    Without `grow`, only at the sizes that they come with: nothing is executed.
    """
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    from onnx.backend.test.loader import load_model_tests

    for case in load_model_tests(kind="node"):
        if pattern in case.name and case.model is not None and case.data_sets:
            inputs, outputs = case.data_sets[0]
            yield prepared(case.name, case.model, inputs, outputs, grow)


def prepared(
    name: str, model: ModelProto, inputs: list[Any], outputs: list[Any], grow: bool
) -> Case:
    """The symbolic case of a model with data."""
    declared: dict[str, tuple[int | str, ...] | None] = {}
    constants: dict[str, np.ndarray] = {}
    given: dict[str, Any] = {}
    for entry, raw in zip(model.graph.input, inputs, strict=False):
        value = numpy_helper.to_array(raw) if isinstance(raw, onnx.TensorProto) else raw
        value = np.asarray(value) if isinstance(value, np.generic) else value
        given[entry.name] = value
        if not isinstance(value, np.ndarray):
            declared[entry.name] = None
        elif np.issubdtype(value.dtype, np.integer) and value.size <= SMALL:
            constants[entry.name] = value
        else:
            declared[entry.name] = tuple(n if n <= 1 else f"s{n}" for n in value.shape)
    names = [entry.name for entry in model.graph.output]
    first = {
        n: tuple(value.dims) if isinstance(value, onnx.TensorProto) else np.shape(value)
        for n, value in zip(names, outputs, strict=False)
        if isinstance(value, np.ndarray | np.generic | onnx.TensorProto)
    }
    symbols = {size for sizes in declared.values() for size in sizes or () if isinstance(size, str)}
    valuations = [Valuation({symbol: int(symbol[1:]) for symbol in symbols}, first)]
    if symbols and grow:
        oracle = Oracle(model, {**given, **constants})
        for sizes in grown(valuations[0].sizes):
            if len(valuations) < 3:
                valuations += executed(oracle, declared, constants, given, sizes, first)
    return Case(name, model, declared, constants, tuple(valuations))


def grown(sizes: dict[str, int]) -> Iterator[dict[str, int]]:
    """Other sizes of the symbols: all of them grown, then one at a time."""
    for grow in GROWTH:
        yield {symbol: grow(size) for symbol, size in sizes.items()}
    for symbol, size in sizes.items() if len(sizes) > 1 else ():
        for grow in GROWTH[:2]:
            yield {**sizes, symbol: grow(size)}


def executed(
    oracle: Oracle,
    declared: dict[str, tuple[int | str, ...] | None],
    constants: dict[str, np.ndarray],
    given: dict[str, Any],
    sizes: dict[str, int],
    first: Shapes,
) -> list[Valuation]:
    """The model run on data of other sizes: one valuation, or none if it doesn't run."""
    feeds: dict[str, Any] = dict(constants)
    for name, dims in declared.items():
        if dims is None:
            feeds[name] = given[name]
            continue
        shape = [sizes[dim] if isinstance(dim, str) else dim for dim in dims]
        feeds[name] = np.resize(given[name], shape)
    results = oracle.run(feeds)
    if results is None:
        return []
    outputs = {
        name: np.shape(value)
        for name, value in zip(oracle.outputs, results, strict=True)
        if name in first and isinstance(value, np.ndarray | np.generic)
    }
    return [Valuation(sizes, outputs)]


class Oracle:
    """Executes a model on data of any size.

    Runs onnx's reference evaluator. It doesn't check all that an operator's specification demands,
    so onnxruntime, where it knows the operators, and the rules in `SPECIFIED` have a veto.
    """

    def __init__(self, model: ModelProto, given: dict[str, Any]) -> None:
        self.model = model
        self.outputs = [entry.name for entry in model.graph.output]
        self._session = self._onnxruntime()
        if self._session is not None and self._refused(given):
            self._session = None

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

    def _refused(self, feeds: dict[str, Any]) -> bool:
        if self._session is None:
            return False
        try:
            self._session.run(None, feeds)
        except Exception:  # onnxruntime has many ways to refuse
            return True
        return False

    def run(self, feeds: dict[str, Any]) -> list[Any] | None:
        """The outputs, or None if the model can't be run on this data."""
        for node in self.model.graph.node:
            rule = SPECIFIED.get(node.op_type)
            if rule is None:
                continue
            given = [feeds.get(name) for name in node.input]
            if not rule(node, [getattr(value, "shape", None) for value in given]):
                return None
        try:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = ReferenceEvaluator(self.model).run(None, feeds)
        except Exception:  # a model that doesn't run at these sizes says nothing
            return None
        return None if self._refused(feeds) else results


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


def symbolic_model(case: Case) -> ModelProto:
    """The case as a model, for tools that read models."""
    model = ModelProto()
    model.CopyFrom(case.model)
    kept = []
    for entry in model.graph.input:
        if entry.name in case.constants:
            array = case.constants[entry.name]
            model.graph.initializer.append(numpy_helper.from_array(array, entry.name))
            continue
        dims = case.inputs.get(entry.name)
        if dims is not None and entry.type.HasField("tensor_type"):
            element = entry.type.tensor_type.elem_type
            entry = helper.make_tensor_value_info(entry.name, element, list(dims))
        kept.append(entry)
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for entry in model.graph.output:
        if entry.type.HasField("tensor_type"):
            entry.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return model


Inferred = dict[str, "tuple[int | None, ...] | None"]
Tool = Callable[[Case], Callable[[dict[str, int]], Inferred]]
"""A tool infers a case once, and then gives the outputs' shapes for sizes of the symbols."""


@dataclass
class Score:
    """How many outputs are fully right, partly known, wrong, or without a rank."""

    right: int = 0
    partial: int = 0
    wrong: int = 0
    unranked: int = 0
    failed: int = 0

    @property
    def outputs(self) -> int:
        """All outputs scored."""
        return self.right + self.partial + self.wrong + self.unranked


def score(case: Case, tool: Tool, total: Score) -> dict[str, str]:
    """Add a tool's result on a case to `total`; the verdict on each output."""
    names = case.valuations[0].outputs
    try:
        evaluate = tool(case)
        found = [evaluate(valuation.sizes) for valuation in case.valuations]
    except Exception:  # a tool that raises knows nothing of the outputs
        total.failed += 1
        found = [{} for _ in case.valuations]
    verdicts: dict[str, str] = {}
    for name in names:
        marks = [
            verdict(inferred.get(name), valuation.outputs.get(name))
            for inferred, valuation in zip(found, case.valuations, strict=True)
        ]
        worst = next(m for m in ("wrong", "unranked", "partial", "right") if m in marks)
        setattr(total, worst, getattr(total, worst) + 1)
        verdicts[name] = worst
    return verdicts


def verdict(inferred: tuple[int | None, ...] | None, truth: tuple[int, ...] | None) -> str:
    """How an inferred shape compares with the executed one."""
    if truth is None:
        return "right"
    if inferred is None:
        return "unranked"
    if len(inferred) != len(truth):
        return "wrong"
    pairs = list(zip(inferred, truth, strict=True))
    if any(mine is not None and mine != theirs for mine, theirs in pairs):
        return "wrong"
    return "right" if all(mine is not None for mine, _ in pairs) else "partial"


def version() -> str:
    """The installed onnx."""
    return onnx.__version__
