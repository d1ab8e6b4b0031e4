"""Arithmetic, comparison, logic and selection."""

from __future__ import annotations

from tawa.base.types import NAMES
from tawa.frontend.source.errors import BadArgument, NotConstant, OutOfRange, TypeMismatch
from tawa.frontend.values.advice import operand_hint
from tawa.frontend.values.builder import Builder
from tawa.frontend.values.conversion import broadcast, cast, fail, fill, mapped, scalar, to_tensor
from tawa.frontend.values.promotion import computation_type, integer_type, natural_type
from tawa.frontend.values.values import Tensor, Value, describe, is_number, is_runtime, items_of
from tawa.language.dtypes import bfloat16, dtype, float32, int1, int32, int64, pointer_type

I1 = NAMES["i1"]

# --- two operands -------------------------------------------------------------------------------


def operand_type(b: Builder, x: Value) -> dtype | pointer_type:
    """The element type of an operand, weak or not."""
    if isinstance(x, Tensor):
        return x.dtype
    if is_number(x):
        natural = natural_type(x)
        if natural is not None:
            return natural
        raise fail(b, OutOfRange, f"{x} does not fit 64 bits")
    message, hint = "a number or a tensor is needed here", operand_hint(x)
    raise fail(b, TypeMismatch, message, found=describe(x), hint=hint)


def numeric_type(b: Builder, x: Value, symbol: str) -> dtype:
    """The element type of an operand that must not be a pointer."""
    element = operand_type(b, x)
    if isinstance(element, pointer_type):
        raise fail(b, TypeMismatch, f"`{symbol}` is not defined for pointers", found=describe(x))
    return element


def convert_operand(b: Builder, x: Value, target: dtype) -> Tensor:
    """An operand in the computation type; a weak number must fit it."""
    if isinstance(x, Tensor):
        return cast(b, x, target)
    if target.is_int() and not isinstance(x, bool):
        low, high = target.integer_range()
        if not low <= x <= high:
            raise fail(
                b,
                OutOfRange,
                f"the number {x} is out of range of {target}",
                expected=f"{low} to {high}",
                hint="convert the other operand first",
            )
    return scalar(b, x, target)


def promote(
    b: Builder, x: Value, y: Value, symbol: str, *, division: bool = False
) -> tuple[Tensor, Tensor]:
    """Both operands in their computation type and common shape."""
    a_type, b_type = numeric_type(b, x, symbol), numeric_type(b, y, symbol)
    x_weak, y_weak = not isinstance(x, Tensor), not isinstance(y, Tensor)
    target = computation_type(a_type, x_weak, b_type, y_weak, division=division)
    if target is None:
        integers = a_type.is_int() and b_type.is_int()
        raise fail(
            b,
            TypeMismatch,
            f"Cannot use `{symbol}` of {a_type} and {b_type}"
            + (" because they have different signedness" if integers else ""),
            expected="integers of one signedness" if integers else "types with a common type",
            found=f"{describe(x)} and {describe(y)}",
            hint="convert one of them, as in `x.to(tl.int32)`",
        )
    left, right = broadcast(b, convert_operand(b, x, target), convert_operand(b, y, target))
    return left, right


def promote_strong(
    b: Builder, x: Value, y: Value, symbol: str, *, division: bool = False
) -> tuple[Tensor, Tensor]:
    """The same where Triton takes numbers for scalars of their natural types: they are strong.

    A half compared with `0.1`, or its maximum with it, is one of f32.
    """
    left, right = strong(b, x), strong(b, y)
    return promote(b, left, right, symbol, division=division)


def widened(b: Builder, x: Tensor) -> Tensor:
    """A tensor of bf16 as one of f32, in which Triton compares and scans; others as they are."""
    return cast(b, x, float32) if x.dtype == bfloat16 else x


def strong(b: Builder, x: Value) -> Value:
    """A number as a scalar of its natural type; anything else as it is."""
    return to_tensor(b, x) if is_number(x) else x


_ARITHMETIC = {"+": ("addf", "addi"), "-": ("subf", "subi"), "*": ("mulf", "muli")}
_BOOLEAN = {"+": "xori", "-": "xori", "*": "andi"}


def add_pointer(b: Builder, pointer: Tensor, offset: Value, symbol: str) -> Tensor:
    """A pointer moved by elements; unsigned offsets are zero-extended."""
    amount = to_tensor(b, offset)
    if not isinstance(amount.dtype, dtype) or not amount.dtype.is_int():
        raise fail(
            b,
            TypeMismatch,
            f"`{symbol}` of a pointer and {amount.dtype}",
            expected="an integer offset",
            found=amount.describe(),
        )
    if amount.dtype.is_int_unsigned() and amount.dtype.primitive_bitwidth < 64:
        amount = cast(b, amount, int64)
    elif amount.dtype.primitive_bitwidth < 32:
        amount = cast(b, amount, int32)
    pointer, amount = broadcast(b, pointer, amount)
    return Tensor(b.map("addptr", pointer.ssa, amount.ssa), pointer.dtype, pointer.shape)


def add(b: Builder, x: Value, y: Value) -> Tensor:
    """`x + y`, also of a pointer and an integer."""
    x_pointer = isinstance(x, Tensor) and x.is_pointer
    y_pointer = isinstance(y, Tensor) and y.is_pointer
    if x_pointer and y_pointer:
        raise fail(
            b, TypeMismatch, "two pointers can't be added", hint="add an integer offset to one"
        )
    if isinstance(x, Tensor) and x_pointer:
        return add_pointer(b, x, y, "+")
    if isinstance(y, Tensor) and y_pointer:
        return add_pointer(b, y, x, "+")
    return arithmetic(b, "+", x, y)


def subtract(b: Builder, x: Value, y: Value) -> Tensor:
    """`x - y`, also of a pointer and an integer."""
    if isinstance(x, Tensor) and x.is_pointer:
        if isinstance(y, Tensor) and y.is_pointer:
            raise fail(
                b,
                TypeMismatch,
                "two pointers can't be subtracted",
                hint="convert both to `tl.int64` first",
            )
        return add_pointer(b, x, negate(b, to_tensor(b, y)), "-")
    return arithmetic(b, "-", x, y)


def arithmetic(b: Builder, symbol: str, x: Value, y: Value) -> Tensor:
    """`+`, `-` or `*` of numbers."""
    left, right = promote(b, x, y, symbol)
    assert isinstance(left.dtype, dtype)
    if left.dtype.is_int1():
        return mapped(b, _BOOLEAN[symbol], int1, left, right)
    of_floats, of_integers = _ARITHMETIC[symbol]
    function = of_floats if left.dtype.is_floating() else of_integers
    return mapped(b, function, left.dtype, left, right)


def multiply(b: Builder, x: Value, y: Value) -> Tensor:
    """`x * y`."""
    return arithmetic(b, "*", x, y)


def divide(b: Builder, x: Value, y: Value) -> Tensor:
    """`x / y`: floats in at least f32; integers become f32 first."""
    left, right = promote(b, x, y, "/", division=True)
    if left.dtype.is_int():
        left, right = cast(b, left, float32), cast(b, right, float32)
    assert isinstance(left.dtype, dtype)
    return mapped(b, "divf", left.dtype, left, right)


def floor_divide(b: Builder, x: Value, y: Value) -> Tensor:
    """`x // y` of integers, rounded towards zero."""
    for operand in (x, y):
        if numeric_type(b, operand, "//").is_floating():
            message = "`//` is defined for integers only"
            raise fail(
                b, TypeMismatch, message, found=describe(operand), hint="use `tl.floor(x / y)`"
            )
    left, right = promote(b, x, y, "//", division=True)
    return _of_integers(b, "divsi", "divui", left, right)


def remainder(b: Builder, x: Value, y: Value) -> Tensor:
    """`x % y`, with the sign of `x`."""
    left, right = promote(b, x, y, "%", division=True)
    if isinstance(left.dtype, dtype) and left.dtype.is_floating():
        return mapped(b, "remf", left.dtype, left, right)
    return _of_integers(b, "remsi", "remui", left, right)


def _of_integers(b: Builder, signed: str, unsigned: str, x: Tensor, y: Tensor) -> Tensor:
    """One of two functions by the signedness; bools compute as int32."""
    kind = x.dtype
    assert isinstance(kind, dtype)
    if kind.is_int1():
        wide = mapped(b, unsigned, int32, cast(b, x, int32), cast(b, y, int32))
        return Tensor(b.map("trunci", wide.ssa, result=I1), int1, x.shape)
    return mapped(b, signed if kind.is_int_signed() else unsigned, kind, x, y)


_BITWISE = {"&": "andi", "|": "ori", "^": "xori"}


def bitwise(b: Builder, symbol: str, x: Value, y: Value) -> Tensor:
    """`&`, `|` or `^` of integers or bools."""
    kinds = [numeric_type(b, operand, symbol) for operand in (x, y)]
    if any(kind.is_floating() for kind in kinds):
        raise fail(
            b,
            TypeMismatch,
            f"`{symbol}` has invalid operands of type {kinds[0]} and {kinds[1]}",
            expected="integers or bools",
            found=f"{describe(x)} and {describe(y)}",
            hint="compare first, as in `x > 0`",
        )
    left, right = promote(b, x, y, symbol)
    assert isinstance(left.dtype, dtype)
    return mapped(b, _BITWISE[symbol], left.dtype, left, right)


def shift(b: Builder, symbol: str, x: Value, y: Value) -> Tensor:
    """`<<`, or `>>` which keeps the sign where `x` itself is signed, in whatever common type."""
    kinds = [numeric_type(b, operand, symbol) for operand in (x, y)]
    if any(kind.is_floating() for kind in kinds):
        raise fail(
            b,
            TypeMismatch,
            f"`{symbol}` is defined for integers only",
            found=f"{describe(x)} and {describe(y)}",
        )
    left, right = promote(b, x, y, symbol)
    if symbol == "<<":
        return _of_integers(b, "shli", "shli", left, right)
    keeps_sign = isinstance(x, Tensor) and kinds[0].is_int_signed()
    return _of_integers(b, "shrsi", "shrsi" if keeps_sign else "shrui", left, right)


_ORDER = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_EQUAL = {"==": ("cmpf_oeq", "cmpi_eq"), "!=": ("cmpf_une", "cmpi_ne")}


def compare(b: Builder, symbol: str, x: Value, y: Value) -> Tensor:
    """A comparison, by the type's signedness; `!=` holds for NaN, all others do not."""
    left, right = promote_strong(b, x, y, symbol)
    if left.dtype.is_int1() and symbol in _ORDER:
        left, right = cast(b, left, int32), cast(b, right, int32)
    floating = left.dtype.is_floating()
    if symbol in _EQUAL:
        function = _EQUAL[symbol][0 if floating else 1]
    elif floating:
        function = f"cmpf_o{_ORDER[symbol]}"
    else:
        function = f"cmpi_{'s' if left.dtype.is_int_signed() else 'u'}{_ORDER[symbol]}"
    return mapped(b, function, int1, left, right)


# --- one operand, logic, selection --------------------------------------------------------------


def negate(b: Builder, x: Tensor) -> Tensor:
    """`-x`."""
    element = numeric_type(b, x, "-")
    if element.is_floating():
        return mapped(b, "negf", element, x)
    if element.is_int1():
        return x
    zero = fill(b, x.shape, scalar(b, 0, element))
    return mapped(b, "subi", element, zero, x)


def invert(b: Builder, x: Tensor) -> Tensor:
    """`~x`: all bits flipped; of a bool, its negation."""
    element = numeric_type(b, x, "~")
    if element.is_floating():
        raise fail(
            b, TypeMismatch, "`~` is defined for integers and bools only", found=x.describe()
        )
    ones = fill(b, x.shape, scalar(b, 1 if element.is_int1() else -1, element))
    return mapped(b, "xori", element, x, ones)


def condition(b: Builder, x: Value, symbol: str) -> Tensor:
    """An operand of `and`, `or`, `not`: an int1, or a compile-time bool."""
    if isinstance(x, Tensor) and x.dtype.is_int1():
        return x
    if isinstance(x, bool):
        return scalar(b, x, int1)
    raise fail(
        b,
        TypeMismatch,
        f"`{symbol}` needs bools",
        expected="int1",
        found=describe(x),
        hint="compare first, as in `x != 0`",
    )


def logical(b: Builder, symbol: str, x: Value, y: Value) -> Tensor:
    """`and` / `or` of run-time values: both sides are evaluated."""
    left, right = broadcast(b, condition(b, x, symbol), condition(b, y, symbol))
    return mapped(b, "andi" if symbol == "and" else "ori", int1, left, right)


def where(b: Builder, chosen: Value, x: Value, y: Value) -> Tensor:
    """Select by a condition; numbers stay weak."""
    test = to_tensor(b, chosen)
    if not test.dtype.is_int1():
        test = cast(b, test, int1)
    if any(isinstance(v, Tensor) and v.is_pointer for v in (x, y)):
        left, right = to_tensor(b, x), to_tensor(b, y)
        if left.dtype != right.dtype:
            raise fail(
                b,
                TypeMismatch,
                "`where` selects between pointers of one type",
                found=f"{left.describe()} and {right.describe()}",
            )
    else:
        left, right = promote(b, x, y, "where")
    test, left, right = broadcast(b, test, left, right)
    ssa = b.map("select", test.ssa, left.ssa, right.ssa)
    return Tensor(ssa, left.dtype, left.shape)


_EXTREMES = {
    ("max", "none"): "maxnumf",
    ("max", "all"): "maximumf",
    ("min", "none"): "minnumf",
    ("min", "all"): "minimumf",
}


def propagation(b: Builder, mode: Value) -> str:
    """`none` or `all` of a `PropagateNan`, ours or Triton's."""
    name = str(getattr(mode, "name", mode)).lower()
    if name not in ("none", "all"):
        raise fail(
            b,
            BadArgument,
            "`propagate_nan` is `PropagateNan.NONE` or `PropagateNan.ALL`",
            found=repr(mode),
        )
    return name


def extreme(b: Builder, which: str, x: Value, y: Value, mode: Value = "none") -> Tensor:
    """`maximum` or `minimum`; of bf16 it is one of f32."""
    x, y = (widened(b, v) if isinstance(v, Tensor) else v for v in (x, y))
    left, right = promote_strong(b, x, y, f"{which}imum")
    assert isinstance(left.dtype, dtype)
    if left.dtype.is_floating():
        function = _EXTREMES[which, propagation(b, mode)]
    elif left.dtype.is_int1():
        function = "ori" if which == "max" else "andi"
    else:
        function = f"{which}{'s' if left.dtype.is_int_signed() else 'u'}i"
    return mapped(b, function, left.dtype, left, right)


def integer_operand(b: Builder, x: Value, what: str) -> Tensor:
    """A scalar integer for an index, a size or a bound."""
    value = to_tensor(b, x)
    if value.shape or not value.dtype.is_int():
        message, scalar = f"{what} must be a scalar integer", not value.shape
        hint = "divide with `//`, or convert with `.to(tl.int32)`" if scalar else None
        raise fail(b, TypeMismatch, message, found=value.describe(), hint=hint)
    return value


def common_integer(b: Builder, *operands: Tensor) -> dtype:
    """The integer type that scalars promote to together."""
    result = operands[0].dtype
    for operand in operands[1:]:
        assert isinstance(result, dtype)
        assert isinstance(operand.dtype, dtype)
        result = integer_type(result, operand.dtype)
    assert isinstance(result, dtype)
    del b
    return int32 if result.is_int1() else result


def constant_int(b: Builder, value: Value, what: str) -> int:
    """A compile-time integer; raises NotConstant."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Tensor):
        raise fail(
            b,
            NotConstant,
            f"{what} must be known when the kernel is compiled",
            expected="a compile-time integer",
            found=f"a run-time {value.describe()}",
            hint="make it a `tl.constexpr` parameter, or assign it as `NAME: tl.constexpr = ...`",
        )
    raise fail(b, BadArgument, f"{what} must be an integer", found=describe(value))


def is_among(b: Builder, x: Value, items: Value) -> bool:
    """`x in items` of compile-time values."""
    if is_runtime(x) or is_runtime(items):
        raise fail(
            b,
            NotConstant,
            "`in` compares compile-time values",
            found=f"{describe(x)} in {describe(items)}",
            hint="write `(x == a) | (x == b)`",
        )
    if isinstance(items, str):
        return isinstance(x, str) and x in items
    return x in items_of(items)
