"""Meanings of the builtins that compute element by element, and of `dot`."""

from __future__ import annotations

import math

from tawa import language as tl
from tawa.frontend.builtins.shapes import dtype_argument, reshape, tensor_argument
from tawa.frontend.builtins.split_products import is_of_parts, product_of_parts
from tawa.frontend.source.errors import BadArgument, TileShapeMismatch, TypeMismatch
from tawa.frontend.source.registry import lowers
from tawa.frontend.syntax.calls import FunctionCompiler
from tawa.frontend.values import arithmetic, conversion
from tawa.frontend.values.arithmetic import numeric_type, promote_strong
from tawa.frontend.values.conversion import fail, mapped
from tawa.frontend.values.values import Tensor, Value, describe
from tawa.language import core
from tawa.language.dtypes import dtype, float32, float64, int32
from tawa.tile.dialect import ops


def floating_argument(f: FunctionCompiler, value: Value, name: str) -> Tensor:
    """An operand of a floating point function; integers and 16-bit types must be converted."""
    x = tensor_argument(f, value, name)
    element = numeric_type(f.b, x, name)
    if not element.is_floating() or element.primitive_bitwidth < 32:
        raise fail(
            f.b,
            TypeMismatch,
            f"`{name}` is defined for float32 and float64",
            found=x.describe(),
            hint="convert with `.to(tl.float32)`",
        )
    return x


GRADUAL = {"exp": "exp_gradual", "exp2": "exp2_gradual"}
"""Functions that flush denormals of f32, and those that keep them."""


def _register_unary() -> None:
    names = ("exp", "exp2", "log", "log2", "sqrt", "sqrt_rn", "rsqrt", "sin", "cos", "erf",
             "floor", "ceil")  # fmt: skip
    for name in names:

        def lowering(f: FunctionCompiler, x: Value, name: str = name) -> Tensor:
            operand = floating_argument(f, x, f"tl.{name}")
            assert isinstance(operand.dtype, dtype)
            function = name if f.b.defaults.flush else GRADUAL.get(name, name)
            return mapped(f.b, function, operand.dtype, operand)

        lowers(getattr(tl, name))(lowering)


_register_unary()


@lowers(tl.abs)
def absolute(f: FunctionCompiler, x: Value) -> Tensor:
    """`tl.abs`."""
    value = tensor_argument(f, x, "tl.abs")
    element = numeric_type(f.b, value, "tl.abs")
    if element.is_floating():
        return mapped(f.b, "absf", element, value)
    return mapped(f.b, "absi", element, value) if element.is_int_signed() else value


@lowers(tl.add)
def add(f: FunctionCompiler, x: Value, y: Value, sanitize_overflow: Value) -> Value:
    """`tl.add`."""
    del sanitize_overflow  # overflow is not checked
    return f.operate("+", x, y)


@lowers(tl.sub)
def sub(f: FunctionCompiler, x: Value, y: Value, sanitize_overflow: Value) -> Value:
    """`tl.sub`."""
    del sanitize_overflow  # overflow is not checked
    return f.operate("-", x, y)


@lowers(tl.mul)
def mul(f: FunctionCompiler, x: Value, y: Value, sanitize_overflow: Value) -> Value:
    """`tl.mul`."""
    del sanitize_overflow  # overflow is not checked
    return f.operate("*", x, y)


@lowers(tl.maximum)
def maximum(f: FunctionCompiler, x: Value, y: Value, propagate_nan: Value) -> Tensor:
    """`tl.maximum`."""
    return arithmetic.extreme(f.b, "max", x, y, propagate_nan)


@lowers(tl.minimum)
def minimum(f: FunctionCompiler, x: Value, y: Value, propagate_nan: Value) -> Tensor:
    """`tl.minimum`."""
    return arithmetic.extreme(f.b, "min", x, y, propagate_nan)


@lowers(tl.clamp)
def clamp(f: FunctionCompiler, x: Value, min: Value, max: Value, propagate_nan: Value) -> Tensor:
    """`tl.clamp`."""
    low = arithmetic.extreme(f.b, "max", x, min, propagate_nan)
    return arithmetic.extreme(f.b, "min", low, max, propagate_nan)


@lowers(tl.where)
def where(f: FunctionCompiler, condition: Value, x: Value, y: Value) -> Value:
    """`tl.where`."""
    return arithmetic.where(f.b, condition, x, y)


@lowers(tl.fdiv)
def fdiv(f: FunctionCompiler, x: Value, y: Value, ieee_rounding: Value) -> Tensor:
    """`tl.fdiv`."""
    left, right = promote_strong(f.b, x, y, "tl.fdiv", division=True)
    assert isinstance(left.dtype, dtype)
    types = {v.dtype for v in (arithmetic.strong(f.b, x), arithmetic.strong(f.b, y))
             if isinstance(v, Tensor)}  # fmt: skip
    target = types.pop() if len(types) == 1 else left.dtype
    if not left.dtype.is_floating():
        raise fail(f.b, TypeMismatch, "`tl.fdiv` divides floats", found=left.describe())
    quotient = mapped(f.b, "divf_rn" if ieee_rounding else "divf", left.dtype, left, right)
    return conversion.cast(f.b, quotient, target)


@lowers(tl.div_rn)
def div_rn(f: FunctionCompiler, x: Value, y: Value) -> Tensor:
    """`tl.div_rn`."""
    left, right = promote_strong(f.b, x, y, "tl.div_rn")
    if any(isinstance(v, Tensor) and v.dtype != float32 for v in (x, y, left)):
        raise fail(
            f.b,
            TypeMismatch,
            "`tl.div_rn` is defined for float32",
            found=f"{describe(x)} and {describe(y)}",
        )
    return mapped(f.b, "divf_rn", float32, left, right)


@lowers(tl.fma)
def fma(f: FunctionCompiler, x: Value, y: Value, z: Value) -> Tensor:
    """`tl.fma`."""
    left, right = promote_strong(f.b, x, y, "tl.fma")
    left, third = promote_strong(f.b, left, z, "tl.fma")
    right, third = promote_strong(f.b, right, third, "tl.fma")
    left, right, third = conversion.broadcast(f.b, left, right, third)
    assert isinstance(left.dtype, dtype)
    if not left.dtype.is_floating():
        raise fail(f.b, TypeMismatch, "`tl.fma` is defined for floats", found=left.describe())
    return mapped(f.b, "fma", left.dtype, left, right, third)


@lowers(tl.umulhi)
def umulhi(f: FunctionCompiler, x: Value, y: Value) -> Tensor:
    """`tl.umulhi`."""
    left, right = promote_strong(f.b, x, y, "tl.umulhi")
    assert isinstance(left.dtype, dtype)
    if not left.dtype.is_int() or left.dtype.primitive_bitwidth < 32:
        raise fail(
            f.b,
            TypeMismatch,
            "`tl.umulhi` is defined for 32-bit and 64-bit integers",
            found=left.describe(),
        )
    return mapped(f.b, "mulhui", left.dtype, left, right)


@lowers(core.logical_and)
def logical_and(f: FunctionCompiler, self: Value, other: Value) -> Tensor:
    """`x.logical_and`."""
    return arithmetic.logical(f.b, "and", self, other)


@lowers(core.logical_or)
def logical_or(f: FunctionCompiler, self: Value, other: Value) -> Tensor:
    """`x.logical_or`."""
    return arithmetic.logical(f.b, "or", self, other)


# --- dot ----------------------------------------------------------------------------------------


@lowers(tl.dot)
def dot(
    f: FunctionCompiler,
    input: Value,
    other: Value,
    acc: Value,
    input_precision: Value,
    allow_tf32: Value,
    max_num_imprecise_acc: Value,
    out_dtype: Value,
) -> Tensor:
    """`tl.dot`."""
    left, right = (tensor_argument(f, v, "tl.dot") for v in (input, other))
    _check_dot_shapes(f, left, right)
    _check_imprecise(f, left, right, max_num_imprecise_acc)
    if len(left.shape) > 3:
        options = input_precision, allow_tf32, max_num_imprecise_acc, out_dtype
        return _dot_of_one_batch(f, left, right, acc, options)
    result = _dot_type(f, left, right, acc, dtype_argument(f, out_dtype))
    shape = (*left.shape[:-1], right.shape[-1])
    if acc is None:
        total = conversion.fill(f.b, shape, conversion.scalar(f.b, 0, result))
    else:
        total = tensor_argument(f, acc, "tl.dot")
    if total.shape != shape or total.dtype != result:
        raise fail(
            f.b,
            TileShapeMismatch,
            "the accumulator of `tl.dot` does not fit",
            expected=f"{result}{list(shape)}",
            found=total.describe(),
            hint="begin with `tl.zeros` of that shape and type, or leave the accumulator out",
        )
    precision = _precision(f, input_precision, allow_tf32)
    if left.dtype == float32 and is_of_parts(precision, left, right):
        return product_of_parts(f, left, right, total, precision)
    precision = AS_EXACT.get(precision, precision)
    if left.dtype != float32:
        limited = max_num_imprecise_acc and _is_fp8(f, left, right) and result == float32
        precision = f"{ops.SUMS}{max_num_imprecise_acc}" if limited else None
    op = ops.Dot(left.ssa, right.ssa, total.ssa, precision)
    return Tensor(f.b.add(op).result, result, shape)


def _dot_of_one_batch(
    f: FunctionCompiler, left: Tensor, right: Tensor, acc: Value, options: tuple[Value, ...]
) -> Tensor:
    """Batches in several dimensions are multiplied as those of one."""
    shape = (*left.shape[:-1], right.shape[-1])

    def flat(value: Tensor) -> Tensor:
        batches = math.prod(value.shape[:-2])
        return reshape(f, value, (batches, *value.shape[-2:]), can_reorder=False)

    if acc is not None:
        acc = flat(conversion.broadcast_to(f.b, tensor_argument(f, acc, "tl.dot"), shape))
    product = dot(f, flat(left), flat(right), acc, *options)
    return reshape(f, product, shape, can_reorder=False)


def _check_dot_shapes(f: FunctionCompiler, left: Tensor, right: Tensor) -> None:
    ranks = (len(left.shape), len(right.shape))
    if ranks[0] != ranks[1] or ranks[0] < 2:
        raise fail(
            f.b,
            TileShapeMismatch,
            "`tl.dot` multiplies matrices, or batches of them",
            expected="as many dimensions in both, two at least",
            found=f"{left.describe()} and {right.describe()}",
        )
    if left.shape[-1] != right.shape[-2] or left.shape[:-2] != right.shape[:-2]:
        raise fail(
            f.b,
            TileShapeMismatch,
            f"`tl.dot` of {list(left.shape)} and {list(right.shape)}",
            expected=f"{left.shape[-1]} rows in the second operand",
            found=f"{right.shape[-2]} rows",
            hint="transpose an operand with `.T`" if left.shape[-1] == right.shape[-1] else None,
        )


def _check_imprecise(f: FunctionCompiler, left: Tensor, right: Tensor, most: Value) -> None:
    """A limit of what the tensor core sums of fp8 must be one that a product has."""
    if most is None or not _is_fp8(f, left, right) or most <= left.shape[-1]:
        return
    raise fail(
        f.b,
        BadArgument,
        "`max_num_imprecise_acc` of `tl.dot` is beyond what one product sums",
        expected=f"at most {left.shape[-1]}, the columns of the first operand",
        found=str(most),
        hint="leave it out",
    )


def _is_fp8(f: FunctionCompiler, *operands: Tensor) -> bool:
    return all(numeric_type(f.b, operand, "tl.dot").is_fp8() for operand in operands)


def _dot_type(f: FunctionCompiler, left: Tensor, right: Tensor, acc: Value, out: dtype) -> dtype:
    a, b = numeric_type(f.b, left, "tl.dot"), numeric_type(f.b, right, "tl.dot")
    if a != b and not (a.is_fp8() and b.is_fp8()):
        raise fail(
            f.b,
            TypeMismatch,
            "the operands of `tl.dot` have different types",
            expected="one type, or two fp8 types",
            found=f"{a} and {b}",
            hint=f"convert one, as in `.to({a!r})`",
        )
    if a.is_int():
        if a.name != "int8":
            raise fail(f.b, TypeMismatch, f"`tl.dot` of {a}", expected="int8 or a float type")
        return int32
    if a == float64:
        return float64
    if a.name in ("fp32", "bf16"):
        out = out if out.name == "bf16" else float32
    elif isinstance(acc, Tensor) and isinstance(acc.dtype, dtype):
        out = acc.dtype
    if out.name not in ("fp16", "fp32"):
        raise fail(
            f.b,
            TypeMismatch,
            f"`tl.dot` can't give {out}",
            expected="float32 or float16",
            hint="convert the result with `.to(...)`",
        )
    return out


AS_EXACT = {"bf16x3": "tf32x3", "bf16x6": "ieee"}
"""What drops no more of the operands, where no matrix instruction takes parts of 16 bits."""


def _precision(f: FunctionCompiler, precision: Value, allow_tf32: Value) -> str:
    if precision is not None and allow_tf32 is not None:
        raise fail(f.b, BadArgument, "give `input_precision` or `allow_tf32`, not both")
    if allow_tf32 is not None:
        return "tf32" if allow_tf32 else "ieee"
    name = f.b.defaults.dot_precision if precision is None else str(precision).lower()
    if name not in ops.PRECISIONS and name not in AS_EXACT:
        raise fail(
            f.b,
            BadArgument,
            f"`input_precision` is one of {', '.join((*ops.PRECISIONS, *AS_EXACT))}",
            found=repr(precision),
        )
    return name
