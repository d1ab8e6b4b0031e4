"""Nodes of a model as each walk through it sees them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from onnx import AttributeProto, NodeProto

from tawa.axon.typing.errors import UnsupportedModel
from tawa.base.source import Span
from tawa.functional.terms import Origin


@dataclass
class Described:
    """What is said of a node, its attributes, and if its schema allows it: as in each walk."""

    node: NodeProto
    label: str
    origin: Origin
    attributes: dict[str, AttributeProto]
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    is_checked: bool = False
    decoded: dict[str, Any] = field(default_factory=dict[str, Any])
    """The attributes that were asked for, as Python values."""

    @classmethod
    def of(cls, node: NodeProto, index: int) -> Described:
        """The description of the node of this number. Raises UnsupportedModel."""
        label = label_of(node, index)
        span = Span(f"{node.op_type} {label.partition(' `')[2][:-1]}", index + 1)
        attributes = {attribute.name: attribute for attribute in node.attribute}
        domain = "" if node.domain == "ai.onnx" else node.domain
        names = tuple(node.input), tuple(node.output)
        if bytes in map(type, (node.op_type, domain, *names[0], *names[1])):
            raise UnsupportedModel(f"{label} is ill-formed: a name is no text")
        return cls(node, label, Origin(span, label), attributes, domain, *names)

    @property
    def operator(self) -> str:
        """The operator as rules are named."""
        return f"{self.domain}:{self.node.op_type}" if self.domain else self.node.op_type


def label_of(node: NodeProto, index: int) -> str:
    """A node in messages."""
    return f"{node.op_type} `{node.name or (node.output[0] if node.output else index)}`"


def with_attributes(node: NodeProto, given: dict[str, AttributeProto]) -> NodeProto:
    """A node of a function with the attributes of a call, in the graphs inside of it too."""
    if not any(a.ref_attr_name or a.HasField("g") or a.graphs for a in node.attribute):
        return node
    result = NodeProto()
    result.CopyFrom(node)
    del result.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name and attribute.ref_attr_name not in given:
            continue  # the operator's default
        copy = result.attribute.add()
        copy.CopyFrom(given[attribute.ref_attr_name] if attribute.ref_attr_name else attribute)
        copy.name = attribute.name
        for graph in (*([copy.g] if copy.HasField("g") else []), *copy.graphs):
            parts = [with_attributes(part, given) for part in graph.node]
            del graph.node[:]
            graph.node.extend(parts)
    return result
