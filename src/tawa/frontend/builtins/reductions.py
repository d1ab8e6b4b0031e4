"""Meanings of reductions, scans and the position of extremes."""

from __future__ import annotations

import math

from xdsl.dialects import scf
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Region
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from tawa import language as tl
from tawa.frontend.builtins.shapes import axis_argument, dtype_argument, reshape, tensor_argument
from tawa.frontend.source.errors import NotSupported, TypeMismatch
from tawa.frontend.source.registry import lowers
from tawa.frontend.syntax.calls import FunctionCompiler
from tawa.frontend.values import arithmetic, conversion
from tawa.frontend.values.arithmetic import numeric_type, widened
from tawa.frontend.values.conversion import cast, fail
from tawa.frontend.values.values import Tensor, Value, describe, ir_element, is_tuple, items_of
from tawa.ir.elementwise import Map
from tawa.ir.walking import every
from tawa.language.dtypes import dtype, float32, int32, uint32
from tawa.tile.dialect import ops


def _sum_type(element: dtype) -> dtype:
    """Integers below 32 bits are summed in 32 bits (bools are unsigned), floats as they are."""
    if element.is_int() and element.primitive_bitwidth < 32:
        return int32 if element.is_int_signed() else uint32
    return element


def _extreme_type(element: dtype) -> dtype:
    """Types below 32 bits are compared in 32 bits."""
    if element.primitive_bitwidth >= 32:
        return element
    return float32 if element.is_floating() else int32


def reduce_all(
    f: FunctionCompiler, value: Tensor, axis: Value, kind: str, keep_dims: Value
) -> Tensor:
    """Reduce one axis, or all of them when `axis` is None."""
    rank = len(value.shape)
    if not rank:
        raise fail(f.b, TypeMismatch, "a scalar can't be reduced", found=value.describe())
    if axis is None:
        flat = reshape(f, value, (math.prod(value.shape),), can_reorder=True)
        total = _reduce_axis(f, flat, 0, kind)
        return conversion.fill(f.b, (1,) * rank, total) if keep_dims else total
    number = axis_argument(f, axis, rank)
    result = _reduce_axis(f, value, number, kind)
    return conversion.expand_dims(f.b, result, number) if keep_dims else result


def _reduce_axis(f: FunctionCompiler, value: Tensor, axis: int, kind: str) -> Tensor:
    shape = (*value.shape[:axis], *value.shape[axis + 1 :])
    return Tensor(f.b.add(ops.Reduce(value.ssa, axis, kind)).result, value.dtype, shape)


@lowers(tl.sum)
def sum_of(
    f: FunctionCompiler, input: Value, axis: Value, keep_dims: Value, dtype: Value
) -> Tensor:
    """`tl.sum`."""
    value = tensor_argument(f, input, "tl.sum")
    element = numeric_type(f.b, value, "tl.sum")
    target = _sum_type(element) if dtype is None else dtype_argument(f, dtype)
    value = cast(f.b, value, target)
    return reduce_all(f, value, axis, _addition(target), keep_dims)


def _addition(element: dtype) -> str:
    """What adds two elements; of one bit, without a carry."""
    if element.is_floating():
        return "addf"
    return "xori" if element.is_bool() else "addi"


def _extreme_kind(which: str, element: dtype) -> str:
    if element.is_floating():
        return f"{which}numf"
    return f"{which}{'s' if element.is_int_signed() else 'u'}i"


def _extreme(
    f: FunctionCompiler,
    which: str,
    value: Tensor,
    axis: Value,
    keep_dims: Value,
    *,
    return_indices: bool,
) -> Value:
    value = widened(f.b, value)
    element = numeric_type(f.b, value, f"tl.{which}")
    if return_indices:
        extreme, index = _positions(f, which, value, axis)
        if not keep_dims:
            return extreme, index
        shape = _kept_shape(f, value, axis)
        return tuple(_with_shape(f, v, shape) for v in (extreme, index))
    value = cast(f.b, value, _extreme_type(element))
    assert isinstance(value.dtype, dtype)
    return reduce_all(f, value, axis, _extreme_kind(which, value.dtype), keep_dims)


def _kept_shape(f: FunctionCompiler, value: Tensor, axis: Value) -> tuple[int, ...]:
    if axis is None:
        return (1,) * len(value.shape)
    number = axis_argument(f, axis, len(value.shape))
    return tuple(1 if i == number else s for i, s in enumerate(value.shape))


def _with_shape(f: FunctionCompiler, value: Tensor, shape: tuple[int, ...]) -> Tensor:
    if not value.shape:
        return conversion.fill(f.b, shape, value)
    return reshape(f, value, shape, can_reorder=False)


def _positions(
    f: FunctionCompiler, which: str, value: Tensor, axis: Value
) -> tuple[Tensor, Tensor]:
    """The extreme and its first position, in the operand's own type.

    `tie_break_left=False` leaves open which of equal elements is meant: the first is one of them.
    """
    element = numeric_type(f.b, value, f"tl.arg{which}")
    if element.is_bool():
        extreme, index = _positions(f, which, cast(f.b, value, int32), axis)
        return cast(f.b, extreme, element), index
    if axis is None:
        value, axis = reshape(f, value, (math.prod(value.shape),), can_reorder=False), 0
    number = axis_argument(f, axis, len(value.shape))
    unsigned = element.is_int_unsigned()
    op = f.b.add(ops.ArgReduce(value.ssa, number, f"arg{which}", unsigned=unsigned))
    shape = (*value.shape[:number], *value.shape[number + 1 :])
    return Tensor(op.extreme, element, shape), Tensor(op.index, int32, shape)


def _register_extremes() -> None:
    for what in ("max", "min"):

        def lowering(f: FunctionCompiler, what: str = what, **given: Value) -> Value:
            value = tensor_argument(f, given["input"], f"tl.{what}")
            axis, keep_dims = given["axis"], given["keep_dims"]
            indices = bool(given["return_indices"])
            return _extreme(f, what, value, axis, keep_dims, return_indices=indices)

        lowers(getattr(tl, what))(lowering)


_register_extremes()


@lowers(tl.argmax)
def argmax(
    f: FunctionCompiler, input: Value, axis: Value, tie_break_left: Value, keep_dims: Value
) -> Value:
    """`tl.argmax`."""
    del tie_break_left
    value = tensor_argument(f, input, "tl.argmax")
    return _extreme(f, "max", value, axis, keep_dims, return_indices=True)[1]


@lowers(tl.argmin)
def argmin(
    f: FunctionCompiler, input: Value, axis: Value, tie_break_left: Value, keep_dims: Value
) -> Value:
    """`tl.argmin`."""
    del tie_break_left
    value = tensor_argument(f, input, "tl.argmin")
    return _extreme(f, "min", value, axis, keep_dims, return_indices=True)[1]


def _integers_only(f: FunctionCompiler, input: Value, name: str) -> Tensor:
    value = tensor_argument(f, input, name)
    if not numeric_type(f.b, value, name).is_int():
        raise fail(f.b, TypeMismatch, f"`{name}` is defined for integers", found=value.describe())
    return value


@lowers(tl.xor_sum)
def xor_sum(f: FunctionCompiler, input: Value, axis: Value, keep_dims: Value) -> Tensor:
    """`tl.xor_sum`."""
    return reduce_all(f, _integers_only(f, input, "tl.xor_sum"), axis, "xori", keep_dims)


@lowers(tl.reduce_or)
def reduce_or(f: FunctionCompiler, input: Value, axis: Value, keep_dims: Value) -> Tensor:
    """`tl.reduce_or`."""
    return reduce_all(f, _integers_only(f, input, "tl.reduce_or"), axis, "ori", keep_dims)


@lowers(tl.cumsum)
def cumsum(f: FunctionCompiler, input: Value, axis: Value, reverse: Value, dtype: Value) -> Tensor:
    """`tl.cumsum`."""
    value = widened(f.b, tensor_argument(f, input, "tl.cumsum"))
    element = numeric_type(f.b, value, "tl.cumsum")
    target = _sum_type(element) if dtype is None else dtype_argument(f, dtype)
    return _scan(f, cast(f.b, value, target), axis, _addition(target),
                 reverse)  # fmt: skip


@lowers(tl.cumprod)
def cumprod(f: FunctionCompiler, input: Value, axis: Value, reverse: Value) -> Tensor:
    """`tl.cumprod`, in the operand's type; what wraps at 32 bits wraps at fewer too."""
    value = widened(f.b, tensor_argument(f, input, "tl.cumprod"))
    element = numeric_type(f.b, value, "tl.cumprod")
    target = _sum_type(element)
    kind = "mulf" if target.is_floating() else "muli"
    return cast(f.b, _scan(f, cast(f.b, value, target), axis, kind, reverse), element)


def _scan(f: FunctionCompiler, value: Tensor, axis: Value, kind: str, reverse: Value) -> Tensor:
    number = axis_argument(f, axis, len(value.shape))
    op = f.b.add(ops.Scan(value.ssa, number, kind, reverse=bool(reverse)))
    return Tensor(op.result, value.dtype, value.shape)


# --- combine functions --------------------------------------------------------------------------


def combine_region(
    f: FunctionCompiler, function: Value, values: list[Tensor], name: str
) -> tuple[Block, str | None]:
    """A combine function compiled for the elements of both sides; what its assertions say.

    Where there are some, a side has one number more: whether all have held so far.
    """
    types = [ir_element(v.dtype) for v in values]
    block = Block(arg_types=types * 2)
    with f.b.inside(block):
        elements = [v.dtype for v in values] * 2
        sides = [Tensor(a, e) for a, e in zip(block.args, elements, strict=True)]
        results = items_of(f.call(function, list(sides), {}))
        fits = len(results) == len(values) and all(
            isinstance(r, Tensor) and not r.shape and r.dtype == v.dtype
            for r, v in zip(results, values, strict=True)
        )
        if not fits:
            raise fail(
                f.b,
                TypeMismatch,
                f"the combine function of `{name}` gives other types than it takes",
                expected=", ".join(str(v.dtype) for v in values),
                found=", ".join(describe(r) for r in results),
            )
        f.b.add(ops.Yield([r.ssa for r in results]))
    for op in reversed(every(block)):
        if op.results and is_trivially_dead(op):  # made to ask for a type, say
            op.detach()
            op.erase()
    message = _asserted(f, block, len(values))
    for op in block.walk():
        if not isinstance(op, Map | ConstantOp | scf.IfOp | scf.YieldOp | ops.Yield):
            found = f"`{op.name}` in the combine function of `{name}`"
            raise fail(f.b, NotSupported, found, expected="arithmetic of scalars")
    return block, message


def _asserted(f: FunctionCompiler, block: Block, count: int) -> str | None:
    """Let a region of `count` values a side carry along whether its assertions hold."""
    checks = [op for op in block.ops if isinstance(op, ops.Assert)]
    end = block.last_op
    if not checks or end is None:
        return None
    left, right = (block.insert_arg(i32, place) for place in (count, 2 * count + 1))
    held = Map("andi", [left, right])
    block.insert_op_before(held, end)
    for check in checks:
        number = Map("extui", [check.condition], i32)
        held = Map("andi", [held.results[0], number.results[0]])
        block.insert_ops_before([number, held], end)
        check.detach()
        check.erase()
    block.insert_op_before(ops.Yield([*end.operands, held.results[0]]), end)
    end.detach()
    end.erase()
    return checks[0].message.data


def _held(f: FunctionCompiler, values: list[Tensor], message: str | None) -> list[Tensor]:
    """The operands of a combination: one more, of ones, for assertions."""
    if message is None:
        return values
    one = conversion.scalar(f.b, 1, int32)
    return [*values, conversion.broadcast_to(f.b, one, values[0].shape)]


def _check(f: FunctionCompiler, results: list[Tensor], message: str | None) -> list[Tensor]:
    """The results of a combination, once its assertions have been looked at."""
    if message is None:
        return results
    test = arithmetic.compare(f.b, "!=", results[-1], 0)
    f.b.add(ops.Assert(test.ssa, message))
    return results[:-1]


def known_kind(block: Block) -> str | None:
    """The kind of reduction that a combine function of one tensor is, if it is one operation."""
    first = block.first_op
    if not isinstance(first, Map) or not isinstance(first.next_op, ops.Yield):
        return None
    if len(first.arguments) != 2 or {*first.arguments} != {*block.args}:
        return None
    found = first.function.data
    return found if found in ops.REDUCTION_KINDS else None


def _operands(f: FunctionCompiler, input: Value, name: str) -> list[Tensor]:
    return conversion.broadcast(f.b, *(tensor_argument(f, v, name) for v in items_of(input)))


@lowers(tl.reduce)
def reduce(
    f: FunctionCompiler, input: Value, axis: Value, combine_fn: Value, keep_dims: Value
) -> Value:
    """`tl.reduce`."""
    values = _operands(f, input, "tl.reduce")
    block, message = combine_region(f, combine_fn, values, "tl.reduce")
    kind = known_kind(block)
    if kind is not None:
        total = reduce_all(f, values[0], axis, kind, keep_dims)
        return (total,) if is_tuple(input) else total
    kept = _kept_shape(f, values[0], axis)
    if axis is None:
        values = [reshape(f, v, (math.prod(v.shape),), can_reorder=True) for v in values]
        axis = 0
    number = axis_argument(f, axis, len(values[0].shape))
    values = _held(f, values, message)
    op = f.b.add(ops.ReduceWith([v.ssa for v in values], number, Region(block)))
    shape = (*values[0].shape[:number], *values[0].shape[number + 1 :])
    results = [Tensor(r, v.dtype, shape) for r, v in zip(op.outputs, values, strict=True)]
    results = _check(f, results, message)
    if keep_dims:
        results = [_with_shape(f, r, kept) for r in results]
    return tuple(results) if is_tuple(input) else results[0]


@lowers(tl.associative_scan)
def associative_scan(
    f: FunctionCompiler, input: Value, axis: Value, combine_fn: Value, reverse: Value
) -> Value:
    """`tl.associative_scan`."""
    name = "tl.associative_scan"
    values = _operands(f, input, name)
    block, message = combine_region(f, combine_fn, values, name)
    kind = known_kind(block)
    if kind is not None:
        scanned = _scan(f, values[0], axis, kind, reverse)
        return (scanned,) if is_tuple(input) else scanned
    number = axis_argument(f, axis, len(values[0].shape))
    values = _held(f, values, message)
    ssas = [v.ssa for v in values]
    op = f.b.add(ops.ScanWith(ssas, number, Region(block), reverse=bool(reverse)))
    results = [Tensor(r, v.dtype, v.shape) for r, v in zip(op.outputs, values, strict=True)]
    results = _check(f, results, message)
    return tuple(results) if is_tuple(input) else results[0]
