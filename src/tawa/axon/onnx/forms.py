"""What ONNX demands of a graph as a whole: what it is given, and that it makes what it gives."""

from __future__ import annotations

from onnx import GraphProto, NodeProto, ValueInfoProto

from tawa.axon.typing.errors import UnsupportedModel

WEIGHTS_ARE_INPUTS = 3
"""The last version of the format in which a graph lists its initializers among its inputs."""


def given_inputs(graph: GraphProto) -> list[ValueInfoProto]:
    """The inputs that a graph inside a node is given: those without an initializer."""
    if not graph.initializer:
        return list(graph.input)
    stored = {initializer.name for initializer in graph.initializer}
    return [entry for entry in graph.input if entry.name not in stored]


def check_inner_graphs(node: NodeProto, format_version: int) -> None:
    """Raise UnsupportedModel if a graph inside a node isn't as ONNX demands."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            _check_inner_graph(attribute.g, format_version)


def _check_inner_graph(graph: GraphProto, format_version: int) -> None:
    own = {initializer.name for initializer in graph.initializer}
    own |= {sparse.values.name for sparse in graph.sparse_initializer}
    inputs = {entry.name for entry in graph.input}
    both = own & inputs
    if both and format_version > WEIGHTS_ARE_INPUTS:
        what = f"`{min(both)}` is an initializer and an input"
        raise UnsupportedModel(f"the graph `{graph.name}` is ill-formed: {what}")
    own |= inputs
    own.update(name for node in graph.node for name in node.output)
    for entry in graph.output:
        if entry.name not in own:
            what = f"nothing in it makes its output `{entry.name}`"
            raise UnsupportedModel(f"the graph `{graph.name}` is ill-formed: {what}")
