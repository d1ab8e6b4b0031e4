"""What is taken apart by columns is computed in parts: products by parts of their weights.

A model's weights are often joined, as those of a layer's gates are, and what comes of the product
is taken apart again. That copies all of it. Where nobody needs the whole, weights that are constant
are taken apart instead, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from tawa.axon.cpu.graph import Graph, Symbol
from tawa.axon.cpu.rules import BINARY, UNARY

POINTWISE = frozenset((*BINARY.values(), *UNARY.values()))
PRODUCTS = frozenset(("MatMul", "Gemm"))

LEAST_COLUMNS = 64
"""Columns of a part: products with fewer take longer than a copy."""

Sizes = tuple[int, ...]


def divide_columns(graph: Graph, results: list[Symbol]) -> None:
    """Compute in parts what nodes take apart by columns, if all of it can be. Drops dead nodes."""
    names = {value.name for value in results}
    graph.nodes = graph.needed(set(names))
    columns = Columns(graph, names)
    columns.find()
    if any(columns.products(node) for node in graph.nodes):
        columns.rewrite()


@dataclass
class Columns:
    """Which values are divided, into parts of how many columns."""

    graph: Graph
    whole: set[str]
    """Values that can't be divided: results of the model, and what is found."""
    divided: dict[str, Sizes] = field(default_factory=dict[str, Sizes])

    def __post_init__(self) -> None:
        self.constants = {value.name: value for value in self.graph.constants}
        self.maker = {name: node for node in self.graph.nodes for name in node.output}

    def products(self, node: NodeProto) -> bool:
        """Whether a node is a product in parts."""
        return node.op_type in PRODUCTS and node.output[0] in self.divided

    def find(self) -> None:
        """Divide all that can be; once something can't, what it is computed of may not either."""
        while True:
            self._ask()
            refused = {name for name in self.divided if not self._can(self.maker[name])}
            if not refused:
                return
            self.whole |= refused

    def _ask(self) -> None:
        """A value is divided if all that read it want it so; what made it reads parts then."""
        wants: dict[str, set[Sizes | None]] = {}
        self.divided = {}
        for node in reversed(self.graph.nodes):
            asked = {sizes for name in node.output for sizes in wants.get(name, {None})}
            sizes = asked.pop() if len(asked) == 1 else None
            if sizes is not None and self.whole.isdisjoint(node.output):
                self.divided.update(dict.fromkeys(node.output, sizes))
            else:
                sizes = self._taken_apart(node)
            for name in node.input:
                wanted = sizes if name in self._columns(node) else None
                wants.setdefault(name, set()).add(wanted if self._has_parts(name, wanted) else None)
        self.divided = {n: s for n, s in self.divided.items() if n in self.maker}

    @staticmethod
    def _columns(node: NodeProto) -> Sequence[str]:
        """The operands whose columns are those of the results: all but a product's rows."""
        return node.input[1:] if node.op_type in PRODUCTS else node.input

    def _taken_apart(self, node: NodeProto) -> Sizes | None:
        """The columns of the parts that a node makes of its operand."""
        if not self._splits(node, last=True):
            return None
        sizes = tuple(int(n) for n in numpy_helper.to_array(self.constants[node.input[1]]))
        return sizes if min(sizes) >= LEAST_COLUMNS else None

    def _splits(self, node: NodeProto, *, last: bool) -> bool:
        if node.op_type != "Split" or node.input[1] not in self.constants:
            return False
        axis = next(a.i for a in node.attribute if a.name == "axis")
        return (axis == len(self.graph.shapes[node.input[0]]) - 1) == last

    def _has_parts(self, name: str, sizes: Sizes | None) -> bool:
        """Whether a value has as many columns as the parts together."""
        return sizes is not None and self.graph.shapes[name][-1:] == (sum(sizes),)

    def _can(self, node: NodeProto) -> bool:
        """Whether a node's results can be computed in parts of its operands."""
        sizes = self.divided[node.output[0]]
        if node.op_type in PRODUCTS:
            rows, weights = node.input[0], self._columns(node)
            return not node.attribute and all(
                name in self.constants and name != rows and self._has_parts(name, sizes)
                for name in weights
            )
        if node.op_type in POINTWISE:
            return all(
                name in self.divided or name in self.constants or not self._has_parts(name, sizes)
                for name in node.input
            )
        return self._splits(node, last=False) and node.input[0] in self.divided

    def rewrite(self) -> None:
        """Put parts of what is divided in its place."""
        nodes: list[NodeProto] = []
        for node in self.graph.nodes:
            sizes = self.divided.get(node.output[0])
            of = self.divided.get(node.input[0]) if node.input else None
            if sizes is not None:
                nodes += [self._part(node, number, sizes) for number in range(len(sizes))]
            elif of is not None and self._splits(node, last=True):
                parts = enumerate(node.output)
                nodes += [helper.make_node("Identity", [f"{node.input[0]}.{n}"], [name])
                          for n, name in parts]  # fmt: skip
            else:
                nodes.append(node)
        self.graph.nodes = nodes

    def _part(self, node: NodeProto, number: int, sizes: Sizes) -> NodeProto:
        """A node that computes one part."""
        found = NodeProto()
        found.CopyFrom(node)
        del found.input[:], found.output[:]
        rows = node.input[: len(node.input) - len(self._columns(node))]
        columns = (self._part_of(name, number, sizes) for name in self._columns(node))
        found.input.extend((*rows, *columns))
        found.output.extend(f"{name}.{number}" for name in node.output)
        return found

    def _part_of(self, name: str, number: int, sizes: Sizes) -> str:
        """The name of a value's part; of a constant's, which is made once."""
        if name in self.divided:
            return f"{name}.{number}"
        if name not in self.constants or not self._has_parts(name, sizes):
            return name
        part = f"{name}.{number} of {sizes}"
        if part not in self.constants:
            array = numpy_helper.to_array(self.constants[name])
            columns = np.split(array, np.cumsum(sizes)[:-1], axis=-1)[number]
            self.constants[part] = numpy_helper.from_array(np.ascontiguousarray(columns), part)
            self.graph.constants.append(self.constants[part])
        return part
