"""What the operators' schemas demand of a node: inputs, attributes, element types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from onnx import AttributeProto, NodeProto, TensorProto, defs

from tawa.axon.onnx.values import ELEMENTS, Value
from tawa.axon.typing.errors import UnsupportedModel

ELEMENT_ATTRIBUTES = {
    "Cast": "to", "RandomNormal": "dtype", "RandomUniform": "dtype", "EyeLike": "dtype",
    "RandomNormalLike": "dtype", "RandomUniformLike": "dtype", "Bernoulli": "dtype",
    "Multinomial": "dtype", "BitCast": "to", "SequenceEmpty": "dtype",
}  # fmt: skip
"""The attributes that say what an operator's outputs consist of."""


MAX_KEPT = 1 << 12
"""Operators on inputs of some element types whose outputs' types are kept."""

A_SEQUENCE = -1
"""What a sequence has in the place of an element type."""

TENSORS = ("tensor(", "optional(tensor(")
"""How the names of types begin that tensors have."""

KINDS: dict[str, int] = dict(AttributeProto.AttributeType.items())
"""The numbers of the types of attributes."""


@dataclass(frozen=True)
class Port:
    """An input or output: the name of its type, and the types that it may have."""

    type: str
    allowed: frozenset[str]
    takes_tensors: bool
    takes_sequences: bool
    is_optional: bool
    is_variadic: bool
    is_uniform: bool


@dataclass(frozen=True, eq=False)
class Signature:
    """A schema as plain data: asking the schema itself takes long. There is one for each."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    least: int
    most: int
    outputs_least: int
    outputs_most: int
    attributes: dict[str, int]
    required: frozenset[str]

    def input(self, index: int) -> Port | None:
        """The input of this number; the last may take any number of them."""
        return _port(self.inputs, index)

    def output(self, index: int) -> Port | None:
        """The output of this number."""
        return _port(self.outputs, index)


def _port(ports: tuple[Port, ...], index: int) -> Port | None:
    if index < len(ports):
        return ports[index]
    return ports[-1] if ports and ports[-1].is_variadic else None


Misfit = tuple[str, str | None]
"""What is wrong with the types of an operator's inputs, and what is expected."""


def signature(domain: str, name: str, version: int) -> Signature | None:
    """What is known of an operator in a version of its domain; None for a foreign one.

    A schema may be registered later: what isn't there is asked for again.
    """
    try:
        return _signature(domain, name, version) if defs.has(name, domain) else None
    except defs.SchemaError:
        return None


@cache
def _signature(domain: str, name: str, version: int) -> Signature:
    schema = defs.get_schema(name, version, domain)
    attributes = schema.attributes
    return Signature(
        tuple(_as_port(parameter) for parameter in schema.inputs),
        tuple(_as_port(parameter) for parameter in schema.outputs),
        schema.min_input, schema.max_input, schema.min_output, schema.max_output,
        {key: KINDS[str(value.type).rpartition(".")[2]] for key, value in attributes.items()},
        frozenset(key for key, value in attributes.items() if value.required),
    )  # fmt: skip


def _as_port(parameter: defs.OpSchema.FormalParameter) -> Port:
    option = defs.OpSchema.FormalParameterOption
    types = frozenset(parameter.types)
    return Port(
        parameter.type_str, types, any(name.startswith(TENSORS) for name in types),
        any("seq(" in name for name in types), parameter.option == option.Optional,
        parameter.option == option.Variadic, parameter.is_homogeneous,
    )  # fmt: skip


def check_node(node: NodeProto, of: Signature, label: str) -> None:
    """Raise UnsupportedModel for a node that its operator's schema doesn't allow."""
    for what, count, least, most in (
        ("inputs", len(node.input), of.least, of.most),
        ("outputs", len(node.output), of.outputs_least, of.outputs_most),
    ):
        if not least <= count <= most:
            expected = f"{least}" if least == most else f"{least} to {most}"
            raise ill_formed(label, f"it has {count} {what}", f"{expected} {what}")
    for index, name in enumerate(node.input):
        port = of.input(index)
        if not name and port is not None and not (port.is_optional or port.is_variadic):
            raise ill_formed(label, f"its input {index + 1} is missing")
    _check_attributes(node, of, label)


def _check_attributes(node: NodeProto, of: Signature, label: str) -> None:
    given: set[str] = set()
    for attribute in node.attribute:
        kind = of.attributes.get(attribute.name)
        if attribute.name in given:
            raise ill_formed(label, f"the attribute `{attribute.name}` is given twice")
        given.add(attribute.name)
        if kind is None:
            raise ill_formed(label, f"the operator has no attribute `{attribute.name}`")
        if attribute.ref_attr_name:
            what = f"`{attribute.name}` refers to an attribute of a function, and it is in none"
            raise ill_formed(label, what)
        if attribute.type != kind:
            wanted, found = (AttributeProto.AttributeType.Name(k) for k in (kind, attribute.type))
            raise ill_formed(label, f"the attribute `{attribute.name}` is {found}", wanted)
    missing = of.required - given
    if missing:
        raise ill_formed(label, f"the attribute `{min(missing)}` is missing")


def ill_formed(label: str, what: str, expected: str | None = None) -> UnsupportedModel:
    """The error for a node that isn't as its operator demands."""
    return UnsupportedModel(f"{label} is ill-formed: {what}", expected=expected)


def element_types(
    node: NodeProto, of: Signature, inputs: Sequence[Value | None], label: str
) -> Sequence[int]:
    """The element types of a node's outputs, 0 where unknown. Raises UnsupportedModel."""
    given = tuple([
        0 if value is None else A_SEQUENCE if value.is_sequence else value.element
        for value in inputs
    ])  # fmt: skip
    name = node.op_type
    found, misfit = _output_elements(of, given, "Integer" in name, len(node.output))
    if misfit is not None:
        raise ill_formed(label, *misfit)
    said = ELEMENT_ATTRIBUTES.get(name)
    if said is not None:
        for attribute in node.attribute:
            if attribute.name == said:
                if attribute.i not in ELEMENTS:
                    raise ill_formed(label, f"`{said}` is {attribute.i}, which is no element type")
                return attribute.i, *found[1:]
    return found


@lru_cache(MAX_KEPT)
def _output_elements(
    of: Signature, given: tuple[int, ...], may_differ: bool, count: int
) -> tuple[tuple[int, ...], Misfit | None]:
    """The element types of so many outputs, and what is wrong with those of inputs."""
    bound, misfit = _bound_elements(of, given, may_differ)
    return tuple([_output_element(of, bound, index) for index in range(count)]), misfit


def _bound_elements(
    of: Signature, given: tuple[int, ...], may_differ: bool
) -> tuple[dict[str, int], Misfit | None]:
    """What an operator's type names stand for, and what is wrong with its inputs' types."""
    bound: dict[str, int] = {}
    for index, element in enumerate(given):
        port = of.input(index)
        if port is None or not element:
            continue
        if (misfit := _misfit(port, index, element)) is not None:
            return bound, misfit
        if not port.is_uniform or f"tensor({type_name(element)})" not in port.allowed:
            continue  # a variadic input that may consist of different types, or what is let pass
        known = bound.setdefault(port.type, element)
        if known != element and not may_differ:
            both = f"{type_name(known)} and of {type_name(element)}"
            return bound, (f"its inputs consist of {both}", "one type")
    return bound, None


def _misfit(port: Port, index: int, element: int) -> Misfit | None:
    """What is wrong if an input that may not consist of this does."""
    what = f"its input {index + 1}"
    if element == A_SEQUENCE:
        return None if port.takes_sequences else (f"{what} is a sequence", None)
    if not port.takes_tensors:
        return f"{what} is a tensor", None
    return None  # of other elements than are allowed: onnx's own inference is as lenient


def _output_element(of: Signature, bound: dict[str, int], index: int) -> int:
    port = of.output(index)
    if port is None or not port.is_uniform:
        return 0
    if port.type in bound:
        return bound[port.type]
    only = next(iter(port.allowed)) if len(port.allowed) == 1 else ""
    if not only.startswith("tensor("):
        return 0
    return next((n for n, name in TYPE_NAMES.items() if only == f"tensor({name})"), 0)


TYPE_NAMES = {
    number: name.lower() for name, number in TensorProto.DataType.items() if name != "UNDEFINED"
}


def type_name(element: int) -> str:
    """What schemas call an element type."""
    return TYPE_NAMES.get(element, "an unknown type")
