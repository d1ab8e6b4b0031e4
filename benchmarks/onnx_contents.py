"""Random ONNX graphs that compute with sizes: what Axon says of their numbers, against a runtime.

    python benchmarks/onnx_contents.py --graphs 2000 --first 1

A graph takes the sizes of its input and makes ranges, slices, casts and the like of them, in
integers and in floats of all lengths. Whatever Axon says that a tensor contains (each number, or
how they progress) and what shape it has is compared with what onnxruntime gives, at sizes of 0,
of 1, and of so many that small floats don't hold them.
"""

from __future__ import annotations

import argparse
import collections
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx_random import Tally, campaign, contradicts, stated

from tawa.axon.onnx.graph import ModelInference
from tawa.axon.onnx.shapes import ModelShapes
from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.shapes import evaluate
from tawa.base.errors import TawaError

INTEGER, TRUTH = TensorProto.INT64, TensorProto.BOOL
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
SIZES = ({"N": 5, "M": 3}, {"N": 0, "M": 1}, {"N": 1, "M": 0}, {"N": 2, "M": 8}, {"N": 9, "M": 2})
MANY = {"N": 2051, "M": 4}


@dataclass
class Graph:
    """A graph that grows: its nodes, constants, and what is known of each value."""

    random: random.Random
    nodes: list[NodeProto] = field(default_factory=list[NodeProto])
    constants: list[TensorProto] = field(default_factory=list[TensorProto])
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict[str, "tuple[int, int]"])
    """The element type and the rank of each value."""

    def constant(self, numbers: Any, element: int = INTEGER) -> str:
        """The name of a constant."""
        name = f"c{len(self.constants)}"
        array = np.array(numbers, helper.tensor_dtype_to_np_dtype(element))
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op: str, inputs: list[str], element: int, rank: int, **attributes: Any) -> str:
        """The name of what a new node makes."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        self.kinds[name] = element, rank
        return name

    def of(self, elements: tuple[int, ...], ranks: tuple[int, ...]) -> str | None:
        """A value of one of these types and ranks."""
        found = [n for n, (e, r) in self.kinds.items() if e in elements and r in ranks]
        return self.random.choice(found[-8:] + found) if found else None

    def number(self, element: int = INTEGER) -> str:
        """A scalar: one of the graph, or a constant."""
        found = self.of((element,), (0,))
        if found is not None and self.random.random() < 0.75:
            return found
        return self.constant(self.random.choice([-3, -1, 0, 1, 2, 4, 7]), element)

    def vector(self) -> str:
        """A short vector of integers."""
        one = self.node("Unsqueeze", [self.number(), self.constant([0])], INTEGER, 1)
        return one if self.random.random() < 0.7 else self.constant([self.random.randint(-4, 6)])


def grow(graph: Graph) -> None:
    """Add an operator of a random kind."""
    graph.random.choice(GROWTHS)(graph)


def add_range(graph: Graph) -> None:
    """Numbers from a start to a limit."""
    element = graph.random.choice((INTEGER, INTEGER, INTEGER, TensorProto.FLOAT))
    start = graph.number(element) if graph.random.random() < 0.5 else graph.constant(0, element)
    step = graph.constant(graph.random.choice([1, 1, 1, 2, 3, -1, -2]), element)
    graph.node("Range", [start, graph.number(element), step], element, 1)


def add_cast(graph: Graph) -> None:
    """The same numbers in another element type."""
    to = graph.random.choice((INTEGER, INTEGER, TensorProto.INT32, *FLOATS, *FLOATS))
    source = graph.of((INTEGER, TensorProto.INT32, *FLOATS), (0, 1, 2))
    if source is not None:
        name = graph.node("Cast", [source], to, graph.kinds[source][1], to=to)
        if to == TensorProto.INT32:
            graph.node("Cast", [name], INTEGER, graph.kinds[source][1], to=INTEGER)


def add_binary(graph: Graph) -> None:
    """Two tensors of one type number by number."""
    one = graph.of((INTEGER, *FLOATS), (0, 1, 2))
    if one is None:
        return
    element, rank = graph.kinds[one]
    other = graph.of((element,), (0, 0, 1, 2)) if graph.random.random() < 0.6 else None
    other = other or graph.number(element)
    ops = ("Add", "Sub", "Mul", "Add", "Sub", "Div", "Max", "Min", "Less", "Greater", "Equal")
    op = graph.random.choice(ops)
    if op == "Div" and element == INTEGER:
        other = graph.constant(graph.random.choice([1, 2, 3, -2]))
    pair = [one, other] if graph.random.random() < 0.7 or op == "Div" else [other, one]
    truth = op in ("Less", "Greater", "Equal")
    rank = max(rank, graph.kinds.get(other, (0, 0))[1])
    graph.node(op, pair, TRUTH if truth else element, rank)


def add_where(graph: Graph) -> None:
    """Chosen number by number."""
    condition, one = graph.of((TRUTH,), (0, 1, 2)), graph.of((INTEGER, *FLOATS), (0, 1))
    if condition is None or one is None:
        return
    element, rank = graph.kinds[one]
    other = graph.of((element,), (0, 1)) or graph.number(element)
    rank = max(rank, graph.kinds[condition][1], graph.kinds.get(other, (0, 0))[1])
    graph.node("Where", [condition, one, other], element, rank)


def add_unary(graph: Graph) -> None:
    """Number by number."""
    one = graph.of((INTEGER, *FLOATS), (0, 1, 2))
    if one is None:
        return
    element, rank = graph.kinds[one]
    ops = ["Neg", "Abs", "Identity", "Neg"] + ["Floor", "Ceil"] * (element != INTEGER)
    graph.node(graph.random.choice(ops), [one], element, rank)


def add_gather(graph: Graph) -> None:
    """What stands at an index, or at some."""
    one = graph.of((INTEGER, *FLOATS), (1, 1, 2))
    if one is None:
        return
    element, rank = graph.kinds[one]
    indices = graph.random.choice([0, -1, 1, -2, [0], [-1, 0], [1], [[0, 1]], 2])
    axis = graph.random.randrange(rank)
    new = rank - 1 + np.ndim(indices)
    if new <= 2:
        graph.node("Gather", [one, graph.constant(indices)], element, new, axis=axis)


def add_slice(graph: Graph) -> None:
    """A part along one axis."""
    one = graph.of((INTEGER, *FLOATS), (1, 1, 2))
    if one is None:
        return
    element, rank = graph.kinds[one]
    step = graph.random.choice([1, 1, 1, 2, 3, -1, -2])
    ends = [2**63 - 1, -1, 3, 5, -2] if step > 0 else [-(2**63), 0, 1, -3]
    start = graph.constant([graph.random.choice([0, 1, 2, -1, -3, 7])])
    start = start if graph.random.random() < 0.75 else graph.vector()
    end = graph.constant([graph.random.choice(ends)])
    end = end if graph.random.random() < 0.75 else graph.vector()
    axis = graph.constant([graph.random.randrange(rank)])
    graph.node("Slice", [one, start, end, axis, graph.constant([step])], element, rank)


def add_concat(graph: Graph) -> None:
    """Vectors behind each other."""
    one = graph.of((INTEGER, *FLOATS), (1,))
    if one is None:
        return
    element = graph.kinds[one][0]
    other = graph.of((element,), (1,)) if graph.random.random() < 0.5 else None
    other = other or graph.constant(graph.random.choice([[-1], [0, 4], [3]]), element)
    pair = [one, other] if graph.random.random() < 0.5 else [other, one]
    graph.node("Concat", pair, element, 1, axis=0)


def add_moved(graph: Graph) -> None:
    """The same numbers along other axes."""
    one = graph.of((INTEGER, *FLOATS), (0, 1, 1, 2))
    if one is None:
        return
    element, rank = graph.kinds[one]
    if rank == 2:
        graph.node("Transpose", [one], element, 2)
    else:
        axis = graph.random.randrange(rank + 1)
        graph.node("Unsqueeze", [one, graph.constant([axis])], element, rank + 1)


def add_spread(graph: Graph) -> None:
    """A number, or a vector, repeated."""
    one = graph.of((INTEGER, *FLOATS), (0, 1))
    if one is None:
        return
    element, rank = graph.kinds[one]
    shape = graph.vector()
    kind = graph.random.choice(["Expand", "Expand", "ConstantOfShape", "squeezed"])
    if kind == "Expand":
        graph.node("Expand", [one, shape], element, max(rank, 1))
    elif kind == "ConstantOfShape":
        value = numpy_helper.from_array(np.array([graph.random.choice([0, 1, 3])], np.int64))
        graph.node("ConstantOfShape", [shape], INTEGER, 1, value=value)
    elif rank == 1:
        graph.node("Squeeze", [one, graph.constant([0])], element, 0)


def add_reduced(graph: Graph) -> None:
    """The sum, or the largest number."""
    one = graph.of((INTEGER, *FLOATS), (1, 2))
    if one is None:
        return
    element, rank = graph.kinds[one]
    op = graph.random.choice(["ReduceMax", "ReduceMin", "ReduceSum", "ReduceMax"])
    if graph.random.random() < 0.7:
        graph.node(op, [one], element, 0, keepdims=0)
    else:
        axis = graph.constant([graph.random.randrange(rank)])
        graph.node(op, [one, axis], element, rank, keepdims=1)


def add_places(graph: Graph) -> None:
    """Where a tensor isn't 0."""
    one = graph.of((INTEGER, TRUTH), (1,))
    if one is not None:
        graph.node("NonZero", [one], INTEGER, 2)


GROWTHS = (
    add_range, add_range, add_cast, add_cast, add_binary, add_binary, add_where, add_unary,
    add_gather, add_gather, add_slice, add_slice, add_concat, add_moved, add_spread, add_reduced,
    add_places,
)  # fmt: skip


def random_graph(seed: int) -> ModelProto:
    """A graph on the sizes of its input."""
    graph = Graph(random.Random(seed))
    shape = graph.node("Shape", ["x"], INTEGER, 1)
    for index in (0, 1):
        graph.node("Gather", [shape, graph.constant(index)], INTEGER, 0)
    for _ in range(graph.random.randint(5, 14)):
        grow(graph)
    outputs = [onnx.ValueInfoProto(name=name) for name in graph.kinds]
    entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "M"])
    made = helper.make_graph(graph.nodes, "sizes", [entry], outputs, graph.constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def numbers_of(shapes: ModelShapes, name: str, sizes: dict[str, int], real: np.ndarray) -> Any:
    """The numbers that Axon says a tensor has, NaN for unknown ones; None if it says nothing."""
    found = shapes.contents(name)
    if found is None:
        return None
    names = {v: s for s, dim in shapes.symbols.items() for v in dim.variables()}

    def number(dim: Any) -> float:
        known = evaluate(Dim.of(dim), lambda v: sizes.get(names.get(v, "")))
        return np.nan if known is None else known

    if found.numbers is not None:
        plain = found.numbers.dtype != object
        items = [item if plain else number(item) for item in found.numbers.ravel()]
        return np.array(items, np.float64).reshape(found.numbers.shape)
    if found.progression is None:
        return np.full(real.shape, found.fill, np.float64)
    parts: list[np.ndarray] = []
    for block in found.progression:
        if any(not number(size) >= 1 for size in block.sizes):
            return None
        count = number(block.size) if len(found.progression) > 1 else (real.shape or (1,))[0]
        if np.isnan(count):
            return None
        places = np.indices((int(count), *real.shape[1:]) if real.ndim else ())
        moves = [number(s) * at for s, at in zip(block.steps, places, strict=True) if s.terms]
        parts.append(number(block.first) + sum(moves, np.zeros(places.shape[1:])))
    return np.concatenate(parts) if real.ndim else parts[0]


def wrong(shapes: ModelShapes, name: str, sizes: dict[str, int], real: np.ndarray) -> str | None:
    """What Axon says of a tensor and isn't so."""
    said = stated(shapes, name, sizes)
    if contradicts(said, real.shape):
        return f"{name} at {sizes}: {said}, really {real.shape}"
    positive = shapes.positive if min(sizes.values()) >= 1 else None
    expected = real.astype(np.float64)
    for found in (shapes, positive):
        numbers = None if found is None else numbers_of(found, name, sizes, real)
        if numbers is not None and (
            numbers.shape != real.shape or not np.all(np.isnan(numbers) | (numbers == expected))
        ):
            return f"{name} at {sizes}: contains {numbers}, really {real}"
    return None


def tried(seed: int, counts: collections.Counter[str]) -> str | None:
    """Try one graph: what is wrong, if anything is."""
    model = random_graph(seed)
    names = [entry.name for entry in model.graph.output]
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    except Exception:  # it has no kernel for some element type
        counts["not there"] += 1
        return None
    try:
        shapes = ModelInference(model, strict=True).run()
    except TawaError as error:
        shapes, refusal = None, str(error).split("\n")[0]
    for sizes in (*SIZES, MANY) if seed % 4 == 0 else SIZES:
        try:
            results = session.run(names, {"x": np.zeros((sizes["N"], sizes["M"]), np.float32)})
        except Exception:  # it doesn't run at these sizes
            continue
        counts["runs"] += 1
        if shapes is None:
            return f"refused at {sizes}: {refusal}"
        for name, real in zip(names, results, strict=True):
            found = wrong(shapes, name, sizes, np.asarray(real))
            if found is not None:
                return found
            counts["contents known" if shapes.contents(name) else "contents unknown"] += 1
            said = stated(shapes, name, sizes)
            counts["shape known" if said and None not in said else "shape unknown"] += 1
    return None


def tally_of_graphs(seeds: range) -> Tally:
    """What comes out for the graphs of some seeds."""
    tally = Tally()
    for seed in seeds:
        found = tried(seed, tally.counts)
        tally.counts["graphs"] += 1
        if found is not None:
            tally.note("wrong", seed, len(random_graph(seed).graph.node), random_graph(seed), found)
    return tally


def main() -> None:
    """Try graphs and print what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--show", type=int, default=5)
    options = parser.parse_args()
    tally = campaign(options.first, options.graphs, tally_of_graphs)
    print(dict(sorted(tally.counts.items())))
    for example in tally.examples[: options.show]:
        print(example)


if __name__ == "__main__":
    main()
