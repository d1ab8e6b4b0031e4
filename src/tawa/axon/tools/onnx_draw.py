"""Models as graphs, with the inferred shape on every edge."""

from __future__ import annotations

from onnx import ModelProto

from tawa.axon.onnx.shapes import ModelShapes
from tawa.axon.sizes.show import AxonPrinter
from tawa.axon.tools.graph import Graph


def model_graph(model: ModelProto, shapes: ModelShapes) -> Graph:
    """The graph of a model's nodes; weights, and what is computed from them alone, are left out."""
    printer = AxonPrinter()
    graph = Graph(model.graph.name or "model")
    weights = {initializer.name for initializer in model.graph.initializer}
    made: dict[str, int] = {}
    for entry in model.graph.input:
        if entry.name not in weights:
            made[entry.name] = graph.add(entry.name, "parameter")
    for node in model.graph.node:
        if made and not any(name in made for name in node.input):
            continue
        number = graph.add(node.op_type, "call")
        for name in node.input:
            if name in made:
                graph.connect(made[name], number, shapes.text(name, printer))
        made.update((name, number) for name in node.output if name)
    for entry in model.graph.output:
        if entry.name in made:
            number = graph.add(entry.name, "result")
            graph.connect(made[entry.name], number, shapes.text(entry.name, printer))
    return graph
