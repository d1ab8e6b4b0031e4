"""Walks a model and applies the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto, numpy_helper

from tawa.axon.onnx import elementwise, neural, reductions, sequences, structure
from tawa.axon.onnx.context import RULES, Context
from tawa.axon.onnx.values import MAX_CONTENTS, UNKNOWN, Value, known
from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.requirements import Requirement, requirements
from tawa.axon.sizes.shapes import Shape
from tawa.axon.sizes.show import AxonPrinter
from tawa.axon.sizes.solver import AxonSolver
from tawa.axon.typing.errors import ShapeMismatch, UnsupportedModel
from tawa.functional.solver import Clash
from tawa.functional.terms import Origin
from tawa.ir.spans import Span

RULE_MODULES = (elementwise, neural, reductions, sequences, structure)
"""Importing them registers the rules."""


@dataclass
class ModelShapes:
    """All that inference found out about a model."""

    solver: AxonSolver
    symbols: dict[str, Dim]
    values: dict[str, Value]
    unsupported: set[str] = field(default_factory=set[str])

    def dims(self, name: str) -> tuple[Dim, ...] | None:
        """The sizes of a value; None if their number isn't known."""
        value = self.values.get(name, UNKNOWN)
        if value.dims is None:
            return None
        return tuple(self.solver.dim(dim) for dim in value.dims)

    def requirements(self) -> list[Requirement]:
        """What the model requires of its symbolic input sizes, and why."""
        sizes = {name: next(dim.variables()) for name, dim in self.symbols.items()}
        return requirements(self.solver, sizes)

    def text(self, name: str, printer: AxonPrinter | None = None) -> str:
        """The shape of a value as text."""
        dims = self.dims(name)
        if dims is None:
            return "[..?]"
        return (printer or AxonPrinter()).shape(Shape(dims))


def _refuse_other_rank(entry: ValueInfoProto, given: Sequence[int | str] | None) -> None:
    tensor_type = entry.type.tensor_type
    sizes = len(tensor_type.shape.dim)
    if given is not None and tensor_type.HasField("shape") and len(given) != sizes:
        raise UnsupportedModel(
            f"the input `{entry.name}` has {sizes} sizes", found=f"{len(given)} sizes"
        )


class ModelInference:
    """The inference of one model. Inputs have the model's sizes, or `overrides`.

    Named sizes of the inputs are symbols that the solver may have to constrain: what it finds out
    about them are requirements of the model. Raises ShapeMismatch if the model can't be right, and
    UnsupportedModel for an unknown operator if `strict`.
    """

    def __init__(self, model: ModelProto, strict: bool = False) -> None:
        self.model = model
        self.strict = strict
        self.solver = AxonSolver()
        self.symbols: dict[str, Dim] = {}
        self.values: dict[str, Value] = {}
        self.unsupported: set[str] = set()
        self.opsets = {entry.domain: entry.version for entry in model.opset_import}
        self.functions = {(f.domain, f.name): f for f in model.functions}

    def symbol(self, name: str) -> Dim:
        """The size that a name stands for throughout the model."""
        if name not in self.symbols:
            self.symbols[name] = self.solver.fresh_dim(name)
            self.solver.declared.update(self.symbols[name].variables())
        return self.symbols[name]

    def run(
        self,
        overrides: dict[str, Sequence[int | str] | None] | None = None,
        constants: dict[str, np.ndarray] | None = None,
    ) -> ModelShapes:
        """Infer all values. `constants` are inputs whose contents are known."""
        graph = self.model.graph
        scope: dict[str, Value] = {}
        unknown = (overrides or {}).keys() - {entry.name for entry in graph.input}
        if unknown:
            raise UnsupportedModel(
                f"the model has no input `{min(unknown)}`",
                expected=", ".join(f"`{entry.name}`" for entry in graph.input),
            )
        for initializer in graph.initializer:
            scope[initializer.name] = known(
                numpy_helper.to_array(initializer), initializer.data_type
            )
        for entry in graph.input:
            if entry.name in scope:
                continue
            given = (overrides or {}).get(entry.name)
            _refuse_other_rank(entry, given)
            scope[entry.name] = self._input(entry.type, given)
        for name, array in (constants or {}).items():
            element = scope[name].element if name in scope else 0
            scope[name] = known(array, element)
        self.walk(graph, scope)
        self.values = scope
        return ModelShapes(self.solver, self.symbols, scope, self.unsupported)

    def _input(self, type_: TypeProto, given: Sequence[int | str] | None) -> Value:
        if type_.HasField("sequence_type"):
            item = self._input(type_.sequence_type.elem_type, None)
            return Value((), item=item, is_sequence=True)
        if type_.HasField("optional_type"):
            return self._input(type_.optional_type.elem_type, given)
        tensor_type = type_.tensor_type
        element = tensor_type.elem_type
        if given is not None:
            return Value(tuple(self._size(size) for size in given), None, element)
        if not tensor_type.HasField("shape"):
            return Value(None, None, element)
        sizes: list[Dim] = []
        for dim in tensor_type.shape.dim:
            if dim.HasField("dim_value"):
                sizes.append(Dim.of(dim.dim_value))
            else:
                sizes.append(self.symbol(dim.dim_param) if dim.dim_param else self._unnamed())
        return Value(tuple(sizes), None, element)

    def _size(self, size: int | str) -> Dim:
        return Dim.of(size) if isinstance(size, int) else self.symbol(size)

    def _unnamed(self) -> Dim:
        return self.symbol(f"d{len(self.symbols)}")

    def walk(self, graph: GraphProto, scope: dict[str, Value]) -> None:
        """Infer the nodes of a graph in order, into `scope`."""
        for index, node in enumerate(graph.node):
            self._node(node, scope, index)

    def _node(self, node: NodeProto, scope: dict[str, Value], index: int) -> None:
        function = self.functions.get((node.domain, node.op_type))
        if function is not None:
            self._function(node, function, scope)
            return
        label = node.name or (node.output[0] if node.output else str(index))
        origin = Origin(Span(f"{node.op_type} {label}", index + 1), f"{node.op_type} `{label}`")
        inputs = [scope.get(name, UNKNOWN) if name else None for name in node.input]
        opset = self.opsets.get(node.domain, self.opsets.get("ai.onnx", 1))

        def subgraph(graph: GraphProto, given: list[Value]) -> list[Value]:
            inner = dict(scope)
            for initializer in graph.initializer:
                array = numpy_helper.to_array(initializer)
                inner[initializer.name] = known(array, initializer.data_type)
            inner.update(zip((entry.name for entry in graph.input), given, strict=False))
            self.walk(graph, inner)
            return [inner.get(entry.name, UNKNOWN) for entry in graph.output]

        context = Context(node, inputs, self.solver, origin, opset, subgraph)
        outputs = self._outputs(context)
        for name, value in zip(node.output, outputs, strict=False):
            if name:
                scope[name] = self._bounded(value)

    @staticmethod
    def _bounded(value: Value) -> Value:
        if value.contents is not None and value.contents.size > MAX_CONTENTS:
            return Value(value.dims, None, value.element)
        return value

    def _outputs(self, context: Context) -> list[Value]:
        node = context.node
        key = (
            f"{node.domain}:{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        )
        rule = RULES.get(key)
        if rule is None:
            if self.strict:
                raise UnsupportedModel(f"there is no rule for the operator `{key}`")
            self.unsupported.add(key)
            return [UNKNOWN] * len(node.output)
        try:
            found = rule(context)
        except Clash as clash:
            raise self._mismatch(clash, context) from None
        outputs = found if isinstance(found, list) else [found or UNKNOWN]
        return outputs + [UNKNOWN] * (len(node.output) - len(outputs))

    def _mismatch(self, clash: Clash, context: Context) -> ShapeMismatch:
        printer = AxonPrinter()
        left, right = (printer.term(self.solver.resolve(t)) for t in (clash.left, clash.right))
        shapes = [
            printer.shape(Shape(dims)) if (dims := context.dims(index)) is not None else "[..?]"
            for index in range(len(context.inputs))
        ]
        reason = f": {clash.reason}" if clash.reason else ""
        return ShapeMismatch(
            f"{clash.origin.what}: {left} does not fit {right}{reason}",
            found=f"inputs of shapes {', '.join(shapes)} at {context.origin.what}",
        )

    def _function(
        self, node: NodeProto, function: onnx.FunctionProto, scope: dict[str, Value]
    ) -> None:
        given = [scope.get(name, UNKNOWN) for name in node.input]
        inner = dict(zip(function.input, given, strict=False))
        for index, part in enumerate(function.node):
            self._node(part, inner, index)
        for mine, theirs in zip(node.output, function.output, strict=False):
            scope[mine] = inner.get(theirs, UNKNOWN)
