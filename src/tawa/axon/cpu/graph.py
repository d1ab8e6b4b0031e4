"""An ONNX graph in the making: symbols for its values, and nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

Shape = tuple[int, ...]

OPSET = 20
IR_VERSION = 9

MOST_COMPARED = 64
"""Numbers of a constant up to which it is compared with others by its contents."""


@dataclass(frozen=True, eq=False, slots=True)
class Symbol:
    """A value of the graph."""

    name: str
    shape: Shape
    dtype: np.dtype[Any]
    number: int = 0
    """How many values the graph had before; 0 for constants, which were always there."""

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)


@dataclass(eq=False)
class Graph:
    """Nodes, constants and inputs so far."""

    nodes: list[NodeProto] = field(default_factory=list[NodeProto])
    constants: list[TensorProto] = field(default_factory=list[TensorProto])
    inputs: list[Symbol] = field(default_factory=list[Symbol])
    reshaped: dict[Symbol, Symbol] = field(default_factory=dict[Symbol, Symbol])
    """What was given another shape, by the result."""
    shapes: dict[str, Shape] = field(default_factory=dict[str, Shape])
    """Of each value, by its name."""
    _known: dict[Any, tuple[Symbol, Any]] = field(default_factory=dict[Any, "tuple[Symbol, Any]"])
    _count: int = 0

    @property
    def size(self) -> int:
        """How many values there are."""
        return self._count

    def was_there(self, value: Symbol, since: int) -> bool:
        """Whether a value is a constant, or was made when the graph had `since` values."""
        return value.number <= since

    def _name(self, shape: Shape) -> str:
        self._count += 1
        name = f"v{self._count}"
        self.shapes[name] = shape
        return name

    def input(self, shape: Shape, dtype: Any) -> Symbol:
        """A new input."""
        found = Symbol(self._name(shape), shape, np.dtype(dtype), self._count)
        self.inputs.append(found)
        return found

    def constant(self, array: Any) -> Symbol:
        """An array as a value; equal small ones are the same, and one large one used again."""
        array = np.asarray(array)
        small = array.size <= MOST_COMPARED
        key = (array.dtype.str, array.shape, array.tobytes()) if small else id(array)
        if key not in self._known:
            found = Symbol(self._name(array.shape), array.shape, array.dtype)
            plain = np.ascontiguousarray(array).reshape(array.shape)
            self.constants.append(numpy_helper.from_array(plain, found.name))
            self._known[key] = (found, array)
        return self._known[key][0]

    def integers(self, *numbers: int) -> Symbol:
        """A vector of 64-bit integers, as operators take axes and shapes."""
        return self.constant(np.array(numbers, np.int64))

    def node(
        self, op: str, inputs: list[Symbol], shapes: list[Shape], dtype: Any = None,
        **attributes: Any,
    ) -> list[Symbol]:  # fmt: skip
        """Add a node with outputs of these shapes, of the first input's element type if none.

        An attribute called as a parameter here has an underscore behind its name.
        """
        of = inputs[0].dtype if dtype is None else np.dtype(dtype)
        results = [Symbol(self._name(shape), shape, of, self._count) for shape in shapes]
        names = [value.name for value in inputs]
        outputs = [value.name for value in results]
        plain = {key.rstrip("_"): value for key, value in attributes.items()}
        self.nodes.append(helper.make_node(op, names, outputs, **plain))
        return results

    def add(
        self, op: str, *inputs: Symbol, to: Shape, dtype: Any = None, **attributes: Any
    ) -> Symbol:
        """Add a node with one output."""
        return self.node(op, list(inputs), [to], dtype, **attributes)[0]

    def model(self, name: str, outputs: list[Symbol]) -> ModelProto:
        """The finished model. An output that is an input or constant is copied."""
        results = [self.add("Identity", value, to=value.shape) for value in outputs]
        nodes = self.needed({value.name for value in results})
        read = {operand for node in nodes for operand in node.input}
        graph = helper.make_graph(
            nodes, name,
            [_info(value) for value in self.inputs],
            [_info(value) for value in results],
            [constant for constant in self.constants if constant.name in read],
        )  # fmt: skip
        opset = helper.make_opsetid("", OPSET)
        return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION,
                                 producer_name="tawa")  # fmt: skip

    def needed(self, names: set[str]) -> list[NodeProto]:
        """The nodes that values of these names are computed by, in order."""
        kept: list[NodeProto] = []
        for node in reversed(self.nodes):
            if not names.isdisjoint(node.output):
                names.update(node.input)
                kept.append(node)
        return kept[::-1]


def _info(value: Symbol) -> Any:
    element = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(value.name, element, value.shape)
