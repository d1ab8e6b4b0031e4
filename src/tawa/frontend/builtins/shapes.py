"""Meanings of the builtins that make tensors and change shapes."""

from __future__ import annotations

import math
from typing import Any

from tawa import language as tl
from tawa.frontend.source.errors import BadArgument, TileShapeMismatch, TypeMismatch
from tawa.frontend.source.registry import lowers
from tawa.frontend.syntax.calls import FunctionCompiler
from tawa.frontend.values import arithmetic, conversion
from tawa.frontend.values.arithmetic import constant_int
from tawa.frontend.values.conversion import fail
from tawa.frontend.values.foreign import is_foreign, translate
from tawa.frontend.values.values import Tensor, Value, describe, is_number, items_of
from tawa.language import core
from tawa.language.dtypes import dtype, dtype_named, int32, pointer_type
from tawa.language.standard import towards_zero
from tawa.tile.dialect import ops

MAX_ELEMENTS = 1 << 20
"""Elements of one tensor, as in Triton."""


def shape_argument(f: FunctionCompiler, shape: Value, what: str = "a shape") -> tuple[int, ...]:
    """A compile-time shape; raises NotConstant or BadArgument."""
    items = items_of(shape)
    if len(items) == 1:
        items = items_of(items[0])
    sizes = tuple(constant_int(f.b, item, f"a size in {what}") for item in items)
    if any(size < 1 for size in sizes) or math.prod(sizes) > MAX_ELEMENTS:
        raise fail(
            f.b,
            BadArgument,
            f"{what} of {list(sizes)} is not possible",
            expected=f"positive sizes, at most {MAX_ELEMENTS} elements",
        )
    return sizes


def dtype_argument(f: FunctionCompiler, value: Value) -> dtype:
    """An element type given as an argument."""
    if is_foreign(value):
        value = f.ours(translate(value))
    if isinstance(value, dtype):
        return value
    raise fail(
        f.b,
        BadArgument,
        "an element type is needed here",
        expected="such as `tl.float32`",
        found=describe(value),
    )


def tensor_argument(f: FunctionCompiler, value: Value, name: str) -> Tensor:
    """A run-time value, or a number made one."""
    if isinstance(value, Tensor):
        return value
    if is_number(value):
        return conversion.to_tensor(f.b, value)
    raise fail(f.b, TypeMismatch, f"`{name}` needs a tensor", found=describe(value))


def axis_argument(f: FunctionCompiler, axis: Value, rank: int) -> int:
    """An axis, counted from the end when negative."""
    number = constant_int(f.b, axis, "an axis")
    if not -rank <= number < rank:
        raise fail(
            f.b,
            BadArgument,
            f"invalid axis {number}",
            expected=f"{-rank} to {rank - 1}" if rank else "a tensor with dimensions",
        )
    return number % rank


@lowers(tl.arange)
def arange(f: FunctionCompiler, start: Value, end: Value) -> Tensor:
    """`tl.arange`."""
    low, high = (
        constant_int(f.b, start, "the start of `tl.arange`"),
        constant_int(f.b, end, "the end of `tl.arange`"),
    )
    length = high - low
    if length < 1 or (length & (length - 1) and length % 8):
        raise fail(
            f.b,
            BadArgument,
            f"`tl.arange({low}, {high})` has length {length}",
            expected="a power of two, or a multiple of 8",
            found=str(length),
            hint="take a longer range and mask what is too much",
        )
    if not -(2**31) <= low <= high < 2**31:
        raise fail(f.b, BadArgument, "the bounds of `tl.arange` must fit int32")
    return Tensor(f.b.add(ops.Arange(low, high)).result, int32, (length,))


@lowers(tl.full)
def full(f: FunctionCompiler, shape: Value, value: Value, dtype: Value) -> Tensor:
    """`tl.full`."""
    sizes, element = shape_argument(f, shape), dtype_argument(f, dtype)
    if is_number(value):
        if element.is_int():
            value = arithmetic.convert_operand(f.b, int(value), element)
        else:
            value = conversion.scalar(f.b, value, element)
    scalar = conversion.cast(f.b, tensor_argument(f, value, "tl.full"), element)
    if scalar.shape:
        raise fail(f.b, TileShapeMismatch, "`tl.full` fills with a scalar", found=scalar.describe())
    return conversion.fill(f.b, sizes, scalar)


@lowers(tl.zeros)
def zeros(f: FunctionCompiler, shape: Value, dtype: Value) -> Tensor:
    """`tl.zeros`."""
    return full(f, shape, 0, dtype)


@lowers(tl.to_tensor)
def to_tensor(f: FunctionCompiler, x: Value) -> Tensor:
    """`tl.to_tensor`."""
    return conversion.to_tensor(f.b, x)


@lowers(tl.cast)
def cast(
    f: FunctionCompiler, input: Value, dtype: Value, fp_downcast_rounding: Value, bitcast: Value
) -> Tensor:
    """`tl.cast` and `x.to`."""
    value = tensor_argument(f, input, "tl.cast")
    target = _cast_target(f, dtype)
    if fp_downcast_rounding not in (None, "rtne", "rtz"):
        raise fail(
            f.b,
            BadArgument,
            f"there is no rounding {fp_downcast_rounding!r}",
            expected="'rtne' (to nearest even) or 'rtz' (towards zero)",
        )
    if fp_downcast_rounding == "rtz" and not bitcast:
        return _towards_zero(f, value, target)
    if bitcast:
        return conversion.bitcast(f.b, value, target)
    return conversion.cast(f.b, value, target)


def _towards_zero(f: FunctionCompiler, value: Tensor, target: dtype | pointer_type) -> Tensor:
    """A conversion to a smaller float type."""
    source = value.dtype
    narrows = (
        isinstance(source, dtype)
        and isinstance(target, dtype)
        and source.is_floating()
        and target.is_floating()
        and target.primitive_bitwidth < source.primitive_bitwidth
    )
    if not narrows:
        raise fail(
            f.b,
            TypeMismatch,
            "'rtz' is for conversions to a smaller float type",
            found=f"{source} to {target}",
        )
    word = dtype_named(f"int{target.primitive_bitwidth}")
    return f.call(towards_zero, [value, target, word], {})


def _cast_target(f: FunctionCompiler, target: Value) -> dtype | pointer_type:
    if is_foreign(target):
        target = f.ours(translate(target))
    return target if isinstance(target, pointer_type) else dtype_argument(f, target)


@lowers(core.to)
def to(f: FunctionCompiler, self: Value, **more: Value) -> Tensor:
    """`x.to`."""
    return cast(f, self, **more)


@lowers(tl.broadcast_to)
def broadcast_to(f: FunctionCompiler, input: Value, shape: Value) -> Tensor:
    """`tl.broadcast_to`."""
    value = tensor_argument(f, input, "tl.broadcast_to")
    return conversion.broadcast_to(f.b, value, shape_argument(f, shape))


@lowers(tl.broadcast)
def broadcast(f: FunctionCompiler, input: Value, other: Value) -> tuple[Tensor, ...]:
    """`tl.broadcast`."""
    operands = [tensor_argument(f, v, "tl.broadcast") for v in (input, other)]
    return tuple(conversion.broadcast(f.b, *operands))


@lowers(tl.expand_dims)
def expand_dims(f: FunctionCompiler, input: Value, axis: Value) -> Tensor:
    """`tl.expand_dims`."""
    value = tensor_argument(f, input, "tl.expand_dims")
    axes = items_of(axis)
    rank = len(value.shape) + len(axes)
    found = sorted(axis_argument(f, item, rank) for item in axes)
    if len(set(found)) < len(found):
        raise fail(
            f.b,
            BadArgument,
            f"`tl.expand_dims` received duplicate axes, normalized axes = {found}",
            expected="axes that differ",
            found=str(list(axes)),
        )
    for one in found:
        value = conversion.expand_dims(f.b, value, one)
    return value


@lowers(tl.reshape)
def reshape(f: FunctionCompiler, input: Value, shape: Value, can_reorder: Value) -> Tensor:
    """`tl.reshape`."""
    del can_reorder
    value, sizes = tensor_argument(f, input, "tl.reshape"), shape_argument(f, shape)
    if math.prod(sizes) != math.prod(value.shape):
        raise fail(
            f.b,
            TileShapeMismatch,
            f"{value.describe()} can't be reshaped to {list(sizes)}",
            expected=f"{math.prod(value.shape)} elements",
            found=f"{math.prod(sizes)} elements",
        )
    if not sizes:
        return conversion.only_element(f.b, value)
    if not value.shape:
        return conversion.fill(f.b, sizes, value)
    if sizes == value.shape:
        return value
    return Tensor(f.b.add(ops.Reshape(value.ssa, sizes)).result, value.dtype, sizes)


@lowers(tl.view)
def view(f: FunctionCompiler, input: Value, shape: Value) -> Tensor:
    """`tl.view`."""
    return reshape(f, input, shape, can_reorder=True)


@lowers(tl.ravel)
def ravel(f: FunctionCompiler, x: Value, can_reorder: Value) -> Tensor:
    """`tl.ravel`."""
    value = tensor_argument(f, x, "tl.ravel")
    return reshape(f, value, (math.prod(value.shape),), can_reorder)


@lowers(tl.trans)
def trans(f: FunctionCompiler, input: Value, dims: Value) -> Tensor:
    """`tl.trans`."""
    value = tensor_argument(f, input, "tl.trans")
    rank = len(value.shape)
    if not dims:
        if rank < 2:
            raise fail(
                f.b,
                TileShapeMismatch,
                "`tl.trans` needs at least two dimensions",
                found=value.describe(),
            )
        return permute(f, value, (*range(rank - 2), rank - 1, rank - 2))
    return permute(f, value, dims)


@lowers(tl.permute)
def permute(f: FunctionCompiler, input: Value, dims: Value) -> Tensor:
    """`tl.permute`."""
    value = tensor_argument(f, input, "tl.permute")
    items: Any = dims[0] if len(dims) == 1 and isinstance(dims[0], tuple) else dims
    rank = len(value.shape)
    order = tuple(axis_argument(f, item, rank) for item in items)
    if sorted(order) != list(range(rank)):
        raise fail(f.b, BadArgument, f"{list(order)} is not an order of {rank} dimensions")
    if order == tuple(range(rank)):
        return value
    shape = tuple(value.shape[i] for i in order)
    return Tensor(f.b.add(ops.Trans(value.ssa, order)).result, value.dtype, shape)


def _pair(f: FunctionCompiler, a: Value, b: Value, name: str) -> tuple[Tensor, Tensor]:
    left, right = tensor_argument(f, a, name), tensor_argument(f, b, name)
    if left.dtype != right.dtype:
        raise fail(
            f.b,
            TypeMismatch,
            f"`{name}` of different types",
            found=f"{left.describe()} and {right.describe()}",
        )
    return left, right


@lowers(tl.join)
def join(f: FunctionCompiler, a: Value, b: Value) -> Tensor:
    """`tl.join`."""
    left, right = conversion.broadcast(f.b, *_pair(f, a, b, "tl.join"))
    scalar = not left.shape
    if scalar:
        left, right = conversion.fill(f.b, (1,), left), conversion.fill(f.b, (1,), right)
    joined = Tensor(f.b.add(ops.Join(left.ssa, right.ssa)).result, left.dtype, (*left.shape, 2))
    return reshape(f, joined, (2,), can_reorder=False) if scalar else joined


@lowers(tl.split)
def split(f: FunctionCompiler, a: Value) -> tuple[Tensor, Tensor]:
    """`tl.split`."""
    value = tensor_argument(f, a, "tl.split")
    if not value.shape or value.shape[-1] != 2:
        raise fail(
            f.b, TileShapeMismatch, "`tl.split` needs a last dimension of 2", found=value.describe()
        )
    if len(value.shape) == 1:
        first, second = split(f, conversion.expand_dims(f.b, value, 0))
        return conversion.only_element(f.b, first), conversion.only_element(f.b, second)
    op = f.b.add(ops.Split(value.ssa))
    shape = value.shape[:-1]
    return Tensor(op.first, value.dtype, shape), Tensor(op.second, value.dtype, shape)


@lowers(core.item)
def item(f: FunctionCompiler, self: Value) -> Tensor:
    """`x.item()`."""
    value = tensor_argument(f, self, "tl.item")
    if math.prod(value.shape) != 1:
        raise fail(
            f.b,
            TileShapeMismatch,
            "`item` gives the element of a tensor that has one",
            expected="one element",
            found=value.describe(),
            hint="reduce it first",
        )
    return conversion.only_element(f.b, value)


@lowers(tl.cat)
def cat(f: FunctionCompiler, input: Value, other: Value, can_reorder: Value, dim: Value) -> Tensor:
    """`tl.cat`."""
    del can_reorder
    left, right = _pair(f, input, other, "tl.cat")
    rank = len(left.shape)
    axis = axis_argument(f, dim, rank)
    others = [[size for at, size in enumerate(tile.shape) if at != axis] for tile in (left, right)]
    if rank != len(right.shape) or others[0] != others[1]:
        raise fail(
            f.b,
            TileShapeMismatch,
            f"`tl.cat` joins along dimension {axis}",
            expected="equal other dimensions",
            found=f"{left.describe()} and {right.describe()}",
        )
    first = (axis, *(at for at in range(rank) if at != axis))
    left, right = permute(f, left, first), permute(f, right, first)
    shape = (left.shape[0] + right.shape[0], *left.shape[1:])
    joined = Tensor(f.b.add(ops.Cat(left.ssa, right.ssa)).result, left.dtype, shape)
    return permute(f, joined, tuple(first.index(at) for at in range(rank)))


@lowers(tl.gather)
def gather(f: FunctionCompiler, src: Value, index: Value, axis: Value) -> Tensor:
    """`tl.gather`."""
    source, where = (tensor_argument(f, v, "tl.gather") for v in (src, index))
    if not (isinstance(where.dtype, dtype) and where.dtype.is_int()):
        raise fail(f.b, TypeMismatch, "`tl.gather` takes integer positions", found=where.describe())
    number = axis_argument(f, axis, len(source.shape))
    outer = [[e for d, e in enumerate(t.shape) if d != number] for t in (source, where)]
    if len(source.shape) != len(where.shape) or outer[0] != outer[1]:
        raise fail(
            f.b,
            TileShapeMismatch,
            "`tl.gather` picks along one dimension",
            expected=f"positions of the shape {list(source.shape)}, but along dimension {number}",
            found=where.describe(),
        )
    op = ops.Gather(source.ssa, conversion.cast(f.b, where, int32).ssa, number)
    return Tensor(f.b.add(op).result, source.dtype, where.shape)


@lowers(tl.extract_slice)
def extract_slice(f: FunctionCompiler, input: Value, offsets: Value, sizes: Value) -> Tensor:
    """`tl.extract_slice`."""
    source, window = tensor_argument(f, input, "tl.extract_slice"), shape_argument(f, sizes)
    starts = items_of(offsets)
    if not len(starts) == len(window) == len(source.shape):
        raise fail(
            f.b,
            TileShapeMismatch,
            "`tl.extract_slice` takes one offset and one size for each dimension",
            expected=f"{len(source.shape)} of each",
            found=f"{len(starts)} offsets and {len(window)} sizes",
        )
    for start, size, extent in zip(starts, window, source.shape, strict=True):
        known = int(start) if is_number(start) else 0
        if known < 0 or known + size > extent:
            raise fail(
                f.b,
                TileShapeMismatch,
                f"the window leaves {source.describe()}",
                expected=f"at most the {extent} elements that there are",
                found=f"{size} elements from {known} on",
            )
    places = [
        conversion.cast(f.b, tensor_argument(f, s, "tl.extract_slice"), int32) for s in starts
    ]
    op = ops.ExtractSlice(source.ssa, [p.ssa for p in places], window)
    return Tensor(f.b.add(op).result, source.dtype, window)


@lowers(tl.histogram)
def histogram(f: FunctionCompiler, input: Value, num_bins: Value, mask: Value) -> Tensor:
    """`tl.histogram`; what a mask hides is put beside the bins."""
    source, bins = (
        tensor_argument(f, input, "tl.histogram"),
        constant_int(f.b, num_bins, "num_bins"),
    )
    if not (isinstance(source.dtype, dtype) and source.dtype.is_int() and len(source.shape) == 1):
        raise fail(
            f.b,
            TypeMismatch,
            "`tl.histogram` counts the elements of a one-dimensional tensor of integers",
            found=source.describe(),
        )
    if bins < 1:
        raise fail(f.b, BadArgument, "`tl.histogram` needs a bin", found=f"num_bins={bins}")
    counted = conversion.cast(f.b, source, int32)
    if mask is not None:
        counted = arithmetic.where(f.b, mask, counted, -1)
    return Tensor(f.b.add(ops.Histogram(counted.ssa, bins)).result, int32, (bins,))
