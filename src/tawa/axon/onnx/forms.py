"""What ONNX demands of a model and its graphs as a whole: names, versions, stored tensors."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import TypeVar

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from tawa.axon.onnx.values import ELEMENTS
from tawa.axon.typing.errors import UnsupportedModel

T = TypeVar("T", bound=Hashable)

WEIGHTS_ARE_INPUTS = 3
"""The last version of the format in which a graph lists its initializers among its inputs."""

FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
"""Where a tensor may have its elements, if not as raw bytes."""

BITS = {
    2: ("UINT2", "INT2"), 4: ("UINT4", "INT4", "FLOAT4E2M1"),
    8: ("UINT8", "INT8", "BOOL", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ",
        "FLOAT8E8M0"),
    16: ("UINT16", "INT16", "FLOAT16", "BFLOAT16"), 32: ("FLOAT", "INT32", "UINT32"),
    64: ("INT64", "DOUBLE", "UINT64", "COMPLEX64"), 128: ("COMPLEX128",),
}  # fmt: skip
"""The element types of which one takes so many bits as raw bytes."""

SIZES = {
    number: bits
    for name, number in TensorProto.DataType.items()
    for bits, names in BITS.items()
    if name in names
}
"""The bits of an element by ONNX's number of its type."""


def given_inputs(graph: GraphProto) -> list[ValueInfoProto]:
    """The inputs that a graph inside a node is given: those without an initializer."""
    if not graph.initializer:
        return list(graph.input)
    stored = {initializer.name for initializer in graph.initializer}
    return [entry for entry in graph.input if entry.name not in stored]


def name_of(of: NodeProto | onnx.FunctionProto) -> tuple[str, str, str]:
    """What a function is called by: its domain, its name, and which of that name it is."""
    name = of.op_type if isinstance(of, NodeProto) else of.name
    return (of.domain, name, getattr(of, "overload", ""))


def check_model(model: ModelProto) -> None:
    """Raise UnsupportedModel if versions, functions, inputs or initializers can't be right."""
    _check_versions(model.opset_import, "the model")
    if not model.opset_import:
        raise UnsupportedModel("the model says no version of its operators")
    twice = _twice([name_of(function) for function in model.functions])
    if twice is not None:
        raise UnsupportedModel(f"the function `{twice[1]}` is there twice")
    for function in model.functions:
        _check_versions(function.opset_import, f"the function `{function.name}`")
    if (name := _twice([entry.name for entry in model.graph.input])) is not None:
        raise UnsupportedModel(f"the input `{name}` is there twice")
    for entry in model.graph.input:
        if not entry.name:
            raise UnsupportedModel("an input has no name")
        _check_type(entry.type, f"the input `{entry.name}`")
    _check_stored(model.graph)


def _twice(names: list[T]) -> T | None:
    """The first that is there a second time, if one is."""
    if len(set(names)) == len(names):
        return None
    return next(name for index, name in enumerate(names) if name in names[:index])


def _check_versions(entries: Iterable[onnx.OperatorSetIdProto], what: str) -> None:
    """Raise UnsupportedModel for versions of operators that there aren't, or two of a domain."""
    newest = onnx.defs.onnx_opset_version()
    seen: dict[str, int] = {}
    for entry in entries:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        version, shown = entry.version, f"of `{entry.domain or 'ai.onnx'}`"
        if seen.setdefault(domain, version) != version:
            raise UnsupportedModel(f"{what} says two versions {shown}: {seen[domain]}, {version}")
        if version < 1 or (not domain and version > newest):
            raise UnsupportedModel(
                f"{what} demands version {version} {shown}, which isn't known",
                expected=None if domain else f"1 to {newest}",
            )


def _check_type(of: TypeProto, what: str) -> None:
    """Raise UnsupportedModel for tensors of no element type, or of one that there isn't."""
    kind = of.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        _check_type(getattr(of, kind).elem_type, what)
        return
    tensors = of.sparse_tensor_type if kind == "sparse_tensor_type" else of.tensor_type
    if kind not in ("map_type", "opaque_type") and tensors.elem_type not in ELEMENTS:
        number = f": its number is {tensors.elem_type}" if tensors.elem_type else ""
        raise UnsupportedModel(f"{what} has no element type{number}")
    for dim in tensors.shape.dim:
        if isinstance(dim.dim_param, bytes):
            raise UnsupportedModel(f"{what} has a size whose name is no text")


def _check_stored(graph: GraphProto) -> None:
    """Raise UnsupportedModel for initializers of one name, or whose contents are not all there."""
    names = [stored.name for stored in graph.initializer]
    names += [sparse.values.name for sparse in graph.sparse_initializer]
    if not all(names):
        raise UnsupportedModel("an initializer has no name")
    if (name := _twice(names)) is not None:
        raise UnsupportedModel(f"the initializer `{name}` is there twice")
    for stored in graph.initializer:
        if what := _lacking(stored):
            raise UnsupportedModel(f"the initializer `{stored.name}` is ill-formed: {what}")


def _lacking(stored: TensorProto) -> str | None:
    """What is wrong with how a tensor is stored, if anything is."""
    if stored.data_location == TensorProto.EXTERNAL:
        has_place = any(entry.key == "location" and entry.value for entry in stored.external_data)
        return None if has_place else "it is outside of the model, and it isn't said where"
    fields = [name for name in FIELDS if len(getattr(stored, name))]
    if stored.HasField("raw_data") and stored.raw_data:
        bits = SIZES.get(stored.data_type)
        if fields:
            return f"it has elements as `raw_data` and as `{fields[0]}`"
        wanted = None if bits is None else -(-math.prod(stored.dims) * bits // 8)
        length = len(stored.raw_data)
        if wanted is not None and wanted != length:
            return f"it has {length} bytes, and its shape demands {wanted}"
    return f"it has elements as `{fields[0]}` and as `{fields[1]}`" if len(fields) > 1 else None


def check_inner_graphs(node: NodeProto, format_version: int) -> None:
    """Raise UnsupportedModel if a graph inside a node isn't as ONNX demands."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            _check_inner_graph(attribute.g, format_version)


def _check_inner_graph(graph: GraphProto, format_version: int) -> None:
    _check_stored(graph)
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
