"""Rules that somebody gives for operators of a model's own: signatures, or functions of shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any, cast

from onnx import AttributeProto, NodeProto, TensorProto

from tawa.axon.onnx.context import Context, IllFormed, Rule
from tawa.axon.onnx.values import Value
from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.shapes import Shape, shape, tensor, tensor_parts
from tawa.axon.sizes.show import AxonPrinter
from tawa.axon.typing.errors import BadRule
from tawa.axon.typing.signature import read_signature, static_parameters
from tawa.functional.terms import Con, Scheme, Term

KnownShape = tuple[int | Dim, ...] | None
"""The sizes of a value, numbers where they are known; None if their number isn't known."""

ShapeRule = Callable[[NodeProto, list[KnownShape]], Sequence[Sequence[int | Dim | None] | None]]
"""What a node gives for inputs of some shapes: a shape for each output, None for what isn't known.

A size that is no number computes with `+`, `-`, `*` and `//` as a number does.
"""

OwnRule = str | ShapeRule
"""A signature (`"{h} t[..s, h*k] -> t[..s, k]"`), or a function."""

ELEMENTS: dict[int, str] = {
    TensorProto.FLOAT: "f32", TensorProto.FLOAT16: "f16", TensorProto.BFLOAT16: "bf16",
    TensorProto.DOUBLE: "f64", TensorProto.BOOL: "bool", TensorProto.INT8: "i8",
    TensorProto.INT16: "i16", TensorProto.INT32: "i32", TensorProto.INT64: "i64",
    TensorProto.UINT8: "u8", TensorProto.UINT16: "u16", TensorProto.UINT32: "u32",
    TensorProto.UINT64: "u64",
}  # fmt: skip
"""Axon's element types by ONNX's numbers; of others nothing is said."""

NUMBERS = {name: number for number, name in ELEMENTS.items()}


def own_rules(given: Mapping[str, OwnRule]) -> dict[str, Rule]:
    """The rules that are given for operators (`"my.domain:Gate"`). Raises BadRule."""
    return {
        name.removeprefix("ai.onnx:"): _by_signature(name, of) if isinstance(of, str)
        else _by_function(name, of)
        for name, of in given.items()
    }  # fmt: skip


# Signatures.


def _by_signature(name: str, text: str) -> Rule:
    """The rule that a signature says. Its sizes may be 0, as those of a model may."""
    scheme = read_signature(text, "rule", "count")
    _tensors_of(name, scheme.type)

    def rule(context: Context) -> list[Value]:
        return _applied(context, name, scheme)

    return rule


def _tensors_of(name: str, type_: Term) -> tuple[list[Term], list[Term]]:
    """The types of the inputs and of the outputs. Raises BadRule unless they are tensors."""
    if isinstance(type_, Con) and type_.name.startswith("{"):
        type_ = type_.arguments[-1]
    inputs: list[Term] = []
    while isinstance(type_, Con) and type_.name == "->":
        inputs.append(type_.arguments[0])
        type_ = type_.arguments[1]
    is_tuple = isinstance(type_, Con) and type_.name == "tuple"
    outputs = list(type_.arguments) if isinstance(type_, Con) and is_tuple else [type_]
    for of in (*inputs, *outputs):
        if tensor_parts(of) is None:
            found = f"`{AxonPrinter().type(of)}`"
            raise BadRule(
                f"the rule of `{name}` is about more than tensors", found=found,
                expected="a tensor for each input, and a tensor or a tuple of them as the result",
            )  # fmt: skip
    return inputs, outputs


def _applied(context: Context, name: str, scheme: Scheme) -> list[Value]:
    """What a node gives by a scheme. Raises Clash, IllFormed."""
    solver = context.solver
    fresh = {v: solver.fresh(v.kind, v.hint) for v in scheme.variables}
    type_ = scheme.type.substitute(fresh.get)
    inputs, outputs = _tensors_of(name, type_)
    for what, count, most in (
        ("inputs", len(context.inputs), len(inputs)),
        ("outputs", len(context.node.output), len(outputs)),
    ):
        if count > most:
            raise IllFormed(f"it has {count} {what}, and its rule has {most}")
    for parameter in static_parameters(type_):
        _give(context, parameter.name, parameter.default, parameter.term)
    for parameter, value in zip(inputs, context.inputs, strict=False):
        if value is not None:
            solver.unify(parameter, _type_of(context, value), context.origin)
    for constraint in scheme.constraints:
        solver.require(constraint.substitute(fresh.get, context.origin))
    return [_result(context, output) for output in outputs]


def _give(context: Context, name: str, default: int | None, term: Term) -> None:
    """Let a static parameter be the attribute of its name, or its default."""
    attribute = context.attributes.get(name)
    if attribute is None and default is None:
        raise IllFormed(f"the attribute `{name}` is missing, which its rule needs")
    if attribute is not None and attribute.type not in (AttributeProto.INT, AttributeProto.INTS):
        raise IllFormed(f"the attribute `{name}`, which its rule needs, consists of no integers")
    value = context.attribute(name, default)
    term_of = shape(*cast("list[int]", value)) if isinstance(value, list) else Dim.of(value)
    if isinstance(value, list) != (not isinstance(term, Dim)):
        raise IllFormed(f"the attribute `{name}` is {value}, which its rule doesn't expect")
    context.solver.unify(term, term_of, context.origin)


def _type_of(context: Context, value: Value) -> Term:
    """The type of an input as other nodes left it."""
    if value.is_sequence:
        raise IllFormed("one of its inputs is a sequence, and its rule takes tensors")
    solver = context.solver
    name = ELEMENTS.get(value.element)
    element = solver.fresh("element") if name is None else Con(name)
    return tensor(element, solver.fresh_shape() if value.dims is None else Shape(value.dims))


def _result(context: Context, of: Term) -> Value:
    element, found = tensor_parts(context.solver.resolve(of)) or (of, Shape(()))
    number = NUMBERS.get(element.name, 0) if isinstance(element, Con) else 0
    if found.dims is None:
        return Value(None, None, number)
    dims: list[Dim] = []
    for dim in found.dims:
        is_known = all(variable.kind != "shape" for variable in dim.variables())
        dims.append(dim if is_known else context.fresh())
        context.at_least(dims[-1], 0)
    return Value(context.resolved(tuple(dims)), None, number)


# Functions.


def _by_function(name: str, function: ShapeRule) -> Rule:
    """The rule that a function says."""

    def rule(context: Context) -> list[Value]:
        shapes = [_known_shape(context, value) for value in context.inputs]
        try:
            found: Any = function(context.node, shapes)
        except Exception as error:
            what = f"the rule of `{name}` fails for {context.origin.what}: {error!r}"
            raise BadRule(what) from error
        try:
            return [_value(context, of) for of in found]
        except (TypeError, ValueError):
            what = f"the rule of `{name}` gives no shapes for {context.origin.what}"
            expected = "a list of a shape for each output: sizes of at least 0, or None"
            raise BadRule(what, expected=expected, found=f"{found!r}") from None

    return rule


def _known_shape(context: Context, value: Value | None) -> KnownShape:
    if value is None or value.dims is None or value.is_sequence:
        return None
    return tuple(
        dim if dim.constant is None else dim.constant for dim in context.resolved(value.dims)
    )


def _value(context: Context, of: Sequence[int | Dim | None] | None) -> Value:
    """A tensor of a shape that a function gave. Raises TypeError, ValueError for no shape."""
    if of is None:
        return Value(None)
    dims: list[Dim] = []
    for size in of:
        if size is None:
            dims.append(context.fresh())
        elif isinstance(size, Dim):
            context.at_least(size, 0)
            dims.append(size)
        elif index(size) >= 0:
            dims.append(Dim.of(index(size)))
        else:
            raise ValueError(f"{size} is no size")
    return Value(tuple(dims))
