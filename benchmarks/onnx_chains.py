"""Processor time of shape inference over long ONNX models: chains of one operator or a few.

    python benchmarks/onnx_chains.py                       # every kind, 1,000 and 10,000 operators
    python benchmarks/onnx_chains.py Conv --lengths 1000   # the kinds with this in their name

The sizes of the first input are symbols, so each operator makes sizes that no other has. What is
printed is microseconds an operator, the best of some repetitions, and the last size.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from tawa.axon.onnx.graph import ModelInference

OPSET = 20


@dataclass(frozen=True)
class Step:
    """An operator.

    `@` is the result before it, `^` that before the round, `%2` that of the third in the round, and
    `%2.1` its second output.
    """

    op: str
    inputs: tuple[str, ...] = ("@",)
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    outputs: int = 1


def step(op: str, *others: str, outputs: int = 1, **attributes: Any) -> tuple[Step, ...]:
    """A round of one operator, on the result before it and `others`."""
    return (Step(op, ("@", *others), attributes, outputs),)


WINDOW: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
SAME: dict[str, Any] = {"pads": [1, 1, 1, 1]}

KINDS: dict[str, tuple[Step, ...]] = {
    "Relu": step("Relu"),
    "Add, a symbol each": step("Add", "w{}"),
    "Where": (Step("Where", ("mask", "@", "^")),),
    "Conv, valid": step("Conv", "w", auto_pad="VALID"),
    "Conv, strides": step("Conv", "w", strides=[2, 2], **SAME),
    "Conv, strides of 3 and 2": step("Conv", "w", strides=[3, 2], **SAME),
    "Conv, valid, strides of 3 and 2": step("Conv", "w", strides=[3, 2]),
    "ConvTranspose": step("ConvTranspose", "w", **SAME),
    "MaxPool": step("MaxPool", **WINDOW, dilations=[1, 1], storage_order=0),
    "MaxPool, ceil_mode": step("MaxPool", **WINDOW, ceil_mode=1),
    "MaxPool, dilations, ceil_mode": step("MaxPool", **WINDOW | {"pads": [0] * 4},
                                          dilations=[2, 2], ceil_mode=1),
    "AveragePool": step("AveragePool", **WINDOW, count_include_pad=1, ceil_mode=0),
    "Slice, from 1": step("Slice", "one", "most", "row"),
    "Slice, to a number": step("Slice", "one", "far", "row"),
    "Slice, to the last": step("Slice", "zero", "last", "row"),
    "Slice, within": step("Slice", "one", "last", "row"),
    "Slice, within, steps": step("Slice", "one", "last", "row", "two"),
    "Slice, steps": step("Slice", "zero", "most", "row", "two"),
    "Slice, backward": step("Slice", "last", "front", "row", "last"),
    "Slice, backward to 1": step("Slice", "last", "zero", "row", "last"),
    "Slice, backward, within": step("Slice", "before", "zero", "row", "last"),
    "Slice, backward, steps": step("Slice", "last", "front", "row", "before"),
    "Slice, backward from -2": step("Slice", "before", "front", "row", "last"),
    "Slice, backward from -2, steps": step("Slice", "before", "front", "row", "before"),
    "Slice, backward, five by two": step("Slice", "last", "fifth", "row", "before"),
    "Slice, within, two axes": step("Slice", "ones2", "lasts2", "axes2"),
    "Slice, steps, two axes": step("Slice", "ones2", "mosts2", "axes2", "twos2"),
    "Split": step("Split", outputs=2, axis=2, num_outputs=2),
    "Split in 3": step("Split", outputs=3, axis=2, num_outputs=3),
    "Split in 4": step("Split", outputs=4, axis=2, num_outputs=4),
    "Split in 7": step("Split", outputs=7, axis=2, num_outputs=7),
    "Split in 12": step("Split", outputs=12, axis=2, num_outputs=12),
    "Split in 2, the second": (Step("Split", ("@",), {"axis": 2, "num_outputs": 2}, 2),
                               Step("Relu", ("%0.1",))),
    "Split in 3, the second": (Step("Split", ("@",), {"axis": 2, "num_outputs": 3}, 3),
                               Step("Relu", ("%0.1",))),
    "Split in 4, the last": (Step("Split", ("@",), {"axis": 2, "num_outputs": 4}, 4),
                             Step("Relu", ("%0.3",))),
    "Split in 4, joined": (Step("Split", ("@",), {"axis": 2, "num_outputs": 4}, 4),
                           Step("Concat", ("%0", "%0.1", "%0.2", "%0.3"), {"axis": 2})),
    "Split in 4, added up": (Step("Split", ("@",), {"axis": 2, "num_outputs": 4}, 4),
                             Step("Sum", ("%0", "%0.1", "%0.2", "%0.3"))),
    "Concat": step("Concat", "x", axis=2),
    "Concat, a symbol each": step("Concat", "v{}", axis=2),
    "Gather": step("Gather", "places", axis=2),
    "Pad": step("Pad", "around"),
    "Resize, twice": step("Resize", "", "double"),
    "Resize, 0.7": step("Resize", "", "less"),
    "Expand": step("Expand", "ones"),
    "Reshape": step("Reshape", "to"),
    "ReduceSum": (Step("ReduceSum", ("@", "row"), {"keepdims": 0}),
                  Step("Unsqueeze", ("@", "row"))),
    "Einsum": step("Einsum", "square", equation="bchw,wk->bchk"),
    "SpaceToDepth and back": (Step("SpaceToDepth", ("@",), {"blocksize": 2}),
                              Step("DepthToSpace", ("@",), {"blocksize": 2})),
    "Transpose": step("Transpose", perm=[0, 1, 3, 2]),
    "MatMul": step("MatMul", "square"),
    "Cast": step("Cast", to=TensorProto.FLOAT),
    "Softmax": step("Softmax"),
    "attention": (Step("Transpose", ("@",), {"perm": [0, 1, 3, 2]}), Step("MatMul", ("^", "@")),
                  Step("Softmax"), Step("MatMul", ("@", "^")), Step("Add", ("@", "^"))),
    "view, as exported": (
        Step("Shape", ("^",)), Step("Gather", ("%0", "first")), Step("Gather", ("%0", "third")),
        Step("Unsqueeze", ("%1", "zero")), Step("Unsqueeze", ("%2", "zero")),
        Step("Concat", ("%3", "four", "%4", "last"), {"axis": 0}), Step("Reshape", ("^", "%5"))),
    "flatten and back, as exported": (
        Step("Shape", ("^",)), Step("Gather", ("%0", "first")), Step("Gather", ("%0", "third")),
        Step("Gather", ("%0", "fourth")), Step("Mul", ("%2", "%3")),
        Step("Unsqueeze", ("%1", "zero")), Step("Unsqueeze", ("%4", "zero")),
        Step("Concat", ("%5", "four", "%6"), {"axis": 0}), Step("Reshape", ("^", "%7")),
        Step("Reshape", ("%8", "%0"))),
    "halves, as exported": (
        Step("Shape", ("^",)), Step("Gather", ("%0", "fourth")), Step("Div", ("%1", "third")),
        Step("Unsqueeze", ("%2", "zero")), Step("Slice", ("^", "zero", "%3", "last")),
        Step("Slice", ("^", "%3", "most", "last")), Step("Neg", ("%5",)),
        Step("Concat", ("%6", "%4"), {"axis": 3})),
    "expand and where, as exported": (
        Step("Shape", ("^",)), Step("Expand", ("mask", "%0")), Step("Where", ("%1", "^", "x"))),
    "resize by sizes, as exported": (
        Step("Shape", ("^",)), Step("Slice", ("%0", "zero", "two", "zero")),
        Step("Slice", ("%0", "two", "most", "zero")), Step("Mul", ("%2", "two")),
        Step("Concat", ("%1", "%3"), {"axis": 0}), Step("Resize", ("^", "", "", "%4"))),
    "windows, as exported": (
        Step("Shape", ("^",)), Step("Gather", ("%0", "first")), Step("Gather", ("%0", "third")),
        Step("Gather", ("%0", "fourth")), Step("Div", ("%2", "seven")),
        Step("Div", ("%3", "seven")), Step("Unsqueeze", ("%1", "zero")),
        Step("Concat", ("%6", "four", "%4", "seven", "%5", "seven"), {"axis": 0}),
        Step("Reshape", ("^", "%7")), Step("Transpose", ("@",), {"perm": [0, 2, 4, 1, 3, 5]}),
        Step("Concat", ("last", "four", "seven", "seven"), {"axis": 0}),
        Step("Reshape", ("%9", "%10")),
        Step("Concat", ("last", "%4", "%5", "four", "seven", "seven"), {"axis": 0}),
        Step("Reshape", ("%11", "%12")), Step("Transpose", ("@",), {"perm": [0, 3, 1, 4, 2, 5]}),
        Step("Unsqueeze", ("%2", "zero")), Step("Unsqueeze", ("%3", "zero")),
        Step("Concat", ("last", "four", "%15", "%16"), {"axis": 0}),
        Step("Reshape", ("%14", "%17"))),
    "heads repeated, as exported": (
        Step("Unsqueeze", ("^", "two")), Step("Expand", ("@", "pair")), Step("Shape", ("^",)),
        Step("Mul", ("%2", "doubled")), Step("Reshape", ("%1", "%3")),
        Step("Slice", ("@", "zero", "four", "one"))),
    "residual": (Step("Conv", ("@", "w"), SAME), Step("Relu"), Step("Conv", ("@", "w"), SAME),
                 Step("Add", ("@", "^"))),
}  # fmt: skip


def nodes_of(steps: tuple[Step, ...], count: int) -> list[NodeProto]:
    """So many operators, in rounds of the steps."""
    nodes: list[NodeProto] = []
    last = first = "x"
    for i in range(count):
        one = steps[i % len(steps)]
        first = last if i % len(steps) == 0 else first
        start = i - i % len(steps)
        names = {"@": last, "^": first}
        for k in range(start, i):
            made = nodes[k].output
            names[f"%{k - start}"] = made[0]
            names.update({f"%{k - start}.{n}": name for n, name in enumerate(made)})
        inputs = [names.get(name, name.format(i)) for name in one.inputs]
        outputs = [f"t{i}", *(f"u{i}_{k}" for k in range(1, one.outputs))]
        nodes.append(helper.make_node(one.op, inputs, outputs, **one.attributes))
        last = outputs[0]
    return nodes


def model_of(steps: tuple[Step, ...], count: int) -> ModelProto:
    """The chain as a model."""
    nodes = nodes_of(steps, count)
    used = {name for node in nodes for name in node.input}
    sizes: dict[str, list[int | str]] = {
        "x": ["B", 4, "H", "W"], "w": [4, 4, 3, 3], "square": ["W", "W"], "mask": ["B", 1, 1, 1],
        **{f"w{i}": [f"A{i}", f"B{i}"] for i in range(count)},
        **{f"v{i}": ["B", 4, f"C{i}", "W"] for i in range(count)},
    }  # fmt: skip
    floats, booleans = TensorProto.FLOAT, TensorProto.BOOL
    inputs = [
        helper.make_tensor_value_info(name, booleans if name == "mask" else floats, shape)
        for name, shape in sizes.items()
        if name in used
    ]
    numbers: dict[str, Any] = {
        "zero": [0], "one": [1], "two": [2], "row": [2], "last": [-1], "far": [10**6],
        "most": [2**63 - 1], "front": [-(2**63)], "before": [-2],
        "fifth": [-5], "ones2": [1, 1], "twos2": [2, 2], "lasts2": [-1, -1],
        "mosts2": [2**63 - 1] * 2, "axes2": [2, 3], "places": [0, 2, 1],
        "around": [0, 0, 1, 1, 0, 0, 1, 1], "ones": [1, 1, 1, 1], "to": [0, 0, -1, 4],
        "first": 0, "third": 2, "fourth": 3, "four": [4], "seven": [7],
        "pair": [1, 1, 2, 1, 1], "doubled": [1, 2, 1, 1],
    }  # fmt: skip
    arrays: dict[str, np.ndarray] = {
        name: np.array(values, np.int64) for name, values in numbers.items()
    }
    arrays["double"] = np.array([1, 1, 2, 2], np.float32)
    arrays["less"] = np.array([1, 1, 0.7, 0.7], np.float32)
    constants = [numpy_helper.from_array(a, name) for name, a in arrays.items() if name in used]
    outputs = [onnx.ValueInfoProto(name=nodes[-1].output[0])]
    graph = helper.make_graph(nodes, "chain", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])


def measured(steps: tuple[Step, ...], count: int, repetitions: int) -> tuple[float, str]:
    """Microseconds an operator, and what the last result's shape is."""
    model = model_of(steps, count)
    best, text = float("inf"), ""
    for _ in range(repetitions):
        start = time.process_time()
        shapes = ModelInference(model, strict=True).run()
        best = min(best, time.process_time() - start)
        text = shapes.text(model.graph.output[0].name)
    return best / count * 1e6, text


def main() -> None:
    """Print a line for each kind of chain."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pattern", nargs="?", default="", help="only kinds with this in their name")
    parser.add_argument("--lengths", type=int, nargs="*", default=[1000, 10_000])
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    print(f"{'microseconds an operator':28s}", *(f"{length:>7,d}" for length in options.lengths))
    for kind, steps in KINDS.items():
        if options.pattern not in kind:
            continue
        found = [measured(steps, length, options.repetitions) for length in options.lengths]
        print(f"{kind:28s}", *(f"{time_:7.0f}" for time_, _ in found), found[-1][1][:60])


if __name__ == "__main__":
    main()
