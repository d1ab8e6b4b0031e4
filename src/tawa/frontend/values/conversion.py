"""Making scalars and tensors, broadcasting them, and converting their types."""

from __future__ import annotations

from tawa.base.errors import TawaError
from tawa.frontend.source.errors import OutOfRange, TileShapeMismatch, TypeMismatch
from tawa.frontend.values.advice import operand_hint
from tawa.frontend.values.builder import Builder
from tawa.frontend.values.promotion import natural_type
from tawa.frontend.values.values import (
    Descriptor,
    Tensor,
    Value,
    describe,
    ir_element,
    ir_type,
    is_number,
)
from tawa.language.dtypes import dtype, int1, int32, int64, pointer_type
from tawa.tile.dialect import ops


def fail(
    b: Builder,
    error: type[TawaError],
    message: str,
    *,
    expected: str | None = None,
    found: str | None = None,
    hint: str | None = None,
) -> TawaError:
    """An error at the source range that is being compiled."""
    return error(message, span=b.span, expected=expected, found=found, hint=hint)


# --- making tensors -----------------------------------------------------------------------------


def scalar(b: Builder, number: float, element: dtype) -> Tensor:
    """A compile-time number as a scalar of a type."""
    return Tensor(b.constant(number, ir_element(element)), element)


def to_tensor(b: Builder, value: Value) -> Tensor:
    """A run-time value as it is; a number as a scalar of its natural type."""
    if isinstance(value, Tensor):
        return value
    if not is_number(value):
        message, hint = "a number or a tensor is needed here", operand_hint(value)
        raise fail(b, TypeMismatch, message, found=describe(value), hint=hint)
    element = natural_type(value)
    if element is None:
        raise fail(b, OutOfRange, f"{value} does not fit 64 bits", hint="use a smaller number")
    return scalar(b, value, element)


def fill(b: Builder, shape: tuple[int, ...], value: Tensor) -> Tensor:
    """A scalar repeated over a shape."""
    if not shape:
        return value
    return Tensor(b.add(ops.Splat(value.ssa, shape)).result, value.dtype, shape)


def only_element(b: Builder, x: Tensor) -> Tensor:
    """The element of a tensor that has one, as a scalar; a scalar as it is."""
    if not x.shape:
        return x
    flat = x.ssa if len(x.shape) == 1 else b.add(ops.Reshape(x.ssa, (1,))).result
    kind = "maxnumf" if isinstance(x.dtype, dtype) and x.dtype.is_floating() else "ori"
    return Tensor(b.add(ops.Reduce(flat, 0, kind)).result, x.dtype)


def expand_dims(b: Builder, x: Tensor, axis: int) -> Tensor:
    """A new dimension of size 1 before `axis`."""
    if not x.shape:
        return fill(b, (1,), x)
    shape = (*x.shape[:axis], 1, *x.shape[axis:])
    return Tensor(b.add(ops.ExpandDims(x.ssa, axis)).result, x.dtype, shape)


def broadcast_to(b: Builder, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`x` repeated to `shape`; raises TileShapeMismatch."""
    if x.shape == shape:
        return x
    if not x.shape:
        return fill(b, shape, x)
    source = x
    while len(source.shape) < len(shape):
        source = expand_dims(b, source, 0)
    fits = len(source.shape) == len(shape) and all(
        s in (1, t) for s, t in zip(source.shape, shape, strict=True)
    )
    if not fits:
        raise fail(
            b,
            TileShapeMismatch,
            f"shape {list(x.shape)} can't be broadcast to {list(shape)}",
            expected=f"dimensions of size 1 or of {list(shape)}",
            found=x.describe(),
        )
    if source.shape == shape:
        return source
    return Tensor(b.add(ops.Broadcast(source.ssa, shape)).result, x.dtype, shape)


def common_shape(b: Builder, *operands: Tensor) -> tuple[int, ...]:
    """The shape that the operands broadcast to; raises TileShapeMismatch."""
    rank = max(len(x.shape) for x in operands)
    padded = [(1,) * (rank - len(x.shape)) + x.shape for x in operands]
    shape: list[int] = []
    for axis, sizes in enumerate(zip(*padded, strict=True)):
        large = {size for size in sizes if size != 1}
        if len(large) > 1:
            shown = " and ".join(str(list(x.shape)) for x in operands)
            numbers = " and ".join(map(str, sorted(large)))
            raise fail(
                b,
                TileShapeMismatch,
                f"shapes {shown} do not fit together",
                expected="equal sizes, or 1, in each dimension",
                found=f"{numbers} in dimension {axis}",
                hint="add dimensions with `x[:, None]` or `x[None, :]`",
            )
        shape.append(large.pop() if large else 1)
    return tuple(shape)


def broadcast(b: Builder, *operands: Tensor) -> list[Tensor]:
    """All operands in their common shape."""
    shape = common_shape(b, *operands)
    return [broadcast_to(b, x, shape) for x in operands]


# --- conversion ---------------------------------------------------------------------------------


def mapped(b: Builder, function: str, result: dtype, *operands: Tensor) -> Tensor:
    """Apply a scalar function to operands of one shape."""
    first = operands[0]
    ssa = b.map(function, *(x.ssa for x in operands), result=ir_element(result))
    return Tensor(ssa, result, first.shape)


def _conversion(source: dtype, target: dtype) -> str | None:
    """The scalar function of a numeric conversion; None when the bits stay."""
    if source.is_floating():
        if target.is_floating():
            fp8_up = source.is_fp8() and not target.is_fp8()
            wider = target.primitive_bitwidth > source.primitive_bitwidth
            return "extf" if fp8_up or wider else "truncf"
        return "fptosi" if target.is_int_signed() else "fptoui"
    if target.is_floating():
        return "sitofp" if source.is_int_signed() else "uitofp"
    if target.primitive_bitwidth < source.primitive_bitwidth:
        return "trunci"
    if target.primitive_bitwidth == source.primitive_bitwidth:
        return None
    return "extsi" if source.is_int_signed() else "extui"


def is_nonzero(b: Builder, x: Tensor) -> Tensor:
    """`x != 0` as int1."""
    if isinstance(x.dtype, pointer_type):
        x = bitcast(b, x, int64)
    assert isinstance(x.dtype, dtype)
    zero = fill(b, x.shape, scalar(b, 0, x.dtype))
    return mapped(b, "cmpf_une" if x.dtype.is_floating() else "cmpi_ne", int1, x, zero)


def cast(b: Builder, x: Tensor, target: dtype | pointer_type) -> Tensor:
    """Convert values: integers extend by their sign or wrap, floats round, bools are `!= 0`."""
    if x.dtype == target:
        return x
    if isinstance(x.dtype, pointer_type) or isinstance(target, pointer_type):
        return _cast_pointer(b, x, target)
    if target.is_int1():
        return is_nonzero(b, x)
    function = _conversion(x.dtype, target)
    if function is None:
        return Tensor(x.ssa, target, x.shape)
    return mapped(b, function, target, x)


def _cast_pointer(b: Builder, x: Tensor, target: dtype | pointer_type) -> Tensor:
    if isinstance(target, dtype) and target.is_int1():
        return is_nonzero(b, x)
    both = x.is_pointer and isinstance(target, pointer_type)
    integer = target if isinstance(target, dtype) else x.dtype
    if not both and integer.primitive_bitwidth != 64:
        raise fail(
            b,
            TypeMismatch,
            "a pointer converts to and from 64-bit integers only",
            found=f"{x.describe()} to {target}",
        )
    return bitcast(b, x, target)


def bitcast(b: Builder, x: Tensor, target: dtype | pointer_type) -> Tensor:
    """Reinterpret the bits; the widths must agree."""
    if x.dtype == target:
        return x
    if x.dtype.primitive_bitwidth != target.primitive_bitwidth or target.is_int1():
        width = x.dtype.primitive_bitwidth
        raise fail(
            b,
            TypeMismatch,
            f"a bitcast from {x.dtype} to {target} changes the width",
            expected=f"a type of {width} bits",
            found=str(target),
        )
    if ir_element(x.dtype) == ir_element(target):
        return Tensor(x.ssa, target, x.shape)
    ssa = b.map("bitcast", x.ssa, result=ir_type(target, x.shape))
    return Tensor(ssa, target, x.shape)


def passed_sizes(b: Builder, desc: Descriptor, *, strides: bool) -> tuple[Tensor, ...]:
    """The sizes (int32) or strides (int64) of a descriptor that the launch passes."""
    element, last = (int64, len(desc.block_shape) - 1) if strides else (int32, -1)
    return tuple(
        scalar(b, 1, element)
        if axis == last
        else Tensor(b.add(ops.DescSize(desc.ssa, axis, stride=strides)).result, element)
        for axis in range(len(desc.block_shape))
    )
