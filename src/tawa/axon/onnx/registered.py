"""Operators without a rule here: what schemas that somebody registered with onnx say of them."""

from __future__ import annotations

from difflib import get_close_matches

from onnx import NodeProto, TypeProto, defs, helper, numpy_helper, shape_inference

from tawa.axon.onnx.context import RULES, Context
from tawa.axon.onnx.values import ELEMENTS, Value
from tawa.axon.sizes.dims import Dim
from tawa.axon.typing.errors import UnsupportedModel


def no_rule(operator: str) -> UnsupportedModel:
    """The error for an operator that ONNX's own domains don't have."""
    near = get_close_matches(operator, RULES, 1)
    return UnsupportedModel(
        f"there is no rule for the operator `{operator}`",
        expected=f"an operator of ONNX, as `{near[0]}`" if near else None,
        hint=f'if it is your own, say what it gives: `rules={{"{operator}": "t[..s] -> t[..s]"}}`',
    )


def by_schema(context: Context, domain: str) -> list[Value] | None:
    """What a node gives, as the inference function of its schema says; None if there is none.

    Nothing is said of a node with graphs inside: onnx would infer these by its own rules.
    """
    node = context.node
    schema = defs.get_schema(node.op_type, context.opset, domain)
    if not schema.has_type_and_shape_inference_function or any(
        attribute.HasField("g") or attribute.graphs for attribute in node.attribute
    ):
        return None
    names: dict[Dim, str] = {}
    given, asked = _asked(context, names)
    if given is None:
        return None
    data = {
        name: numpy_helper.from_array(value.contents, name)
        for name, value in zip(asked.input, context.inputs, strict=True)
        if value is not None and value.contents is not None and value.contents.dtype != object
    }
    try:
        found = shape_inference.infer_node_outputs(schema, asked, given, data)
    except Exception:  # whatever the function raises, for sizes that it doesn't expect
        return None
    sizes = {name: dim for dim, name in names.items()}
    return [_value(context, found.get(name), sizes) for name in asked.output]


def _asked(
    context: Context, names: dict[Dim, str]
) -> tuple[dict[str, TypeProto] | None, NodeProto]:
    """The types of a node's inputs, and the node with a name for each input.

    Sizes that are no numbers get names. No types if an input is no tensor, or of unknown elements.
    """
    node = NodeProto()
    node.CopyFrom(context.node)
    types: dict[str, TypeProto] = {}
    for place, value in enumerate(context.inputs):
        node.input[place] = "" if value is None else f"input {place}"
        if value is None:
            continue
        if value.is_sequence or value.element not in ELEMENTS:
            return None, node
        types[f"input {place}"] = _type(value, context, names)
    for place, name in enumerate(node.output):
        node.output[place] = f"output {place}" if name else ""
    return types, node


def _type(value: Value, context: Context, names: dict[Dim, str]) -> TypeProto:
    if value.dims is None:
        return helper.make_tensor_type_proto(value.element, None)
    sizes = [
        dim.constant if dim.constant is not None else names.setdefault(dim, f"size {len(names)}")
        for dim in context.resolved(value.dims)
    ]
    return helper.make_tensor_type_proto(value.element, sizes)


def _value(context: Context, found: TypeProto | None, sizes: dict[str, Dim]) -> Value:
    """What a schema says of an output: its sizes, where they are numbers or those of inputs."""
    if found is None or not found.HasField("tensor_type"):
        return Value(None)
    of = found.tensor_type
    if not of.HasField("shape"):
        return Value(None, None, of.elem_type)
    dims = [
        Dim.of(dim.dim_value) if dim.HasField("dim_value") and dim.dim_value >= 0
        else sizes.setdefault(dim.dim_param, context.fresh()) if dim.dim_param
        else context.fresh()
        for dim in of.shape.dim
    ]  # fmt: skip
    return Value(tuple(dims), None, of.elem_type)
