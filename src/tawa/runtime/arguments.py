"""Launch arguments, classified: the kind of each, and what a launch passes for it."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeAlias, cast

from tawa.base.decorated import inner
from tawa.base.errors import TawaError
from tawa.base.kernel_spec import SCALAR_CODES
from tawa.runtime.arrays import HOST, host_array, is_array, view, without_memory
from tawa.runtime.descriptor import ALIGNMENT, TensorDescriptor, descriptor_of
from tawa.runtime.kinds import Kind, TupleKind, constant_kind, fields_of, kind_of, tuple_kind


class UnsupportedArgument(TawaError):
    """A kernel was called with a value that it can't take."""

    explanation = (
        "Kernels take arrays, tensor descriptors, integers, floats, bools, None, and tuples of "
        "these and of `tl.constexpr(...)`. Anything else has to be a `constexpr` parameter."
    )
    example = """
from tawa.runtime.arguments import classify

classify("text")
"""


class IntegerOutOfRange(TawaError, OverflowError):
    """An integer argument doesn't fit 64 bits."""

    explanation = (
        "Integer arguments are passed as signed numbers of 32 or 64 bits, and from 2^63 up as "
        "unsigned ones of 64 bits."
    )
    example = """
from tawa.runtime.arguments import classify

classify(2**64)
"""


class WrongDeclaredArgument(TawaError):
    """An argument is not of the kind that its parameter's annotation declares."""

    explanation = (
        'A parameter annotated with a type (`n: tl.int64`, `x: float`, `p: "*fp32"`) passes every '
        "argument as that type: integers and bools to integers, any number to floats, arrays to "
        "pointers. Anything else is refused rather than converted."
    )
    example = """
import numpy as np
import tawa
import tawa.language as tl


@tawa.jit
def fill(x, n: tl.int64):
    tl.store(x, n)


fill[(1,)](np.zeros(1, np.int64), 0.5)
"""


Classified: TypeAlias = tuple[Any, Any]
"""A kind, and what a launch passes: an address, a number, a `TensorDescriptor` or None.

Of a tuple, the `TupleKind` and a tuple of what is passed for its parts.
"""

Classifier: TypeAlias = Callable[[Any], Classified]


def classify(value: Any) -> Classified:
    """The kind of an argument and what a launch passes for it.

    Raises `UnsupportedArgument`, `IntegerOutOfRange`, or the errors of arrays and descriptors.
    """
    return CLASSIFIERS[value.__class__](value)


def classify_unspecialized(value: Any) -> Classified:
    """As `classify`, but an integer's or address's value does not matter (only its width)."""
    kind, passed = classify(value)
    return _without(kind, one=True), passed


def classify_unaligned(value: Any) -> Classified:
    """As `classify`, but it does not matter whether 16 divides an integer or address."""
    kind, passed = classify(value)
    return _without(kind, one=False), passed


def _without(kind: Kind | TupleKind, *, one: bool) -> Kind | TupleKind:
    """A kind without what is known of the value's divisors, and perhaps whether it is one."""
    if isinstance(kind, TupleKind):
        return tuple_kind(tuple(_without(part, one=one) for part in kind.parts), kind.fields)
    if kind.type == "constant":
        return kind
    return kind_of(kind.type, False, kind.one and not one, kind.device, kind.library)


_ONE = kind_of("i32", one=True)
_I32, _I32_DIVISIBLE = kind_of("i32"), kind_of("i32", divisible=True)
_I64, _I64_DIVISIBLE = kind_of("i64"), kind_of("i64", divisible=True)
_U64, _U64_DIVISIBLE = kind_of("u64"), kind_of("u64", divisible=True)
_F32, _F32_POSITIVE = kind_of("f32"), kind_of("f32", positive=True)
_BOOL, _NONE = kind_of("i1"), kind_of("none")

SMALLEST, LARGEST = 2.0**-64, 2.0**64
"""Floats between these are ordinary positive numbers, for which kernels are compiled apart.

Products of some of them stay positive and finite, so that a scale keeps the order of what it
scales (`tile.analysis.magnitude`).
"""


class IntegerKinds(dict[int, Kind]):
    """The kind of each integer: a dictionary that fills itself, up to a limit."""

    LIMIT = 65536

    def __missing__(self, value: int) -> Kind:
        kind = integer_kind(value)
        if len(self) < self.LIMIT:
            self[value] = kind
        return kind


def integer_kind(value: int) -> Kind:
    """The kind of an integer, by Triton's rules. Raises `IntegerOutOfRange`."""
    if value == 1:
        return _ONE
    divisible = value % ALIGNMENT == 0
    if -0x80000000 <= value <= 0x7FFFFFFF:
        return _I32_DIVISIBLE if divisible else _I32
    if -(2**63) <= value < 2**63:
        return _I64_DIVISIBLE if divisible else _I64
    if 0 <= value < 2**64:
        return _U64_DIVISIBLE if divisible else _U64
    raise IntegerOutOfRange(
        "an integer argument is out of range", expected="-2^63 to 2^64 - 1", found=str(value)
    )


INTEGER_KINDS = IntegerKinds()
"""The kinds of the integers that kernels were called with."""


@cache
def declared_classifier(type: str, align: bool) -> Classifier:
    """As `classify`, for a parameter whose annotation declares its type (`i64`, `bf16`, `*f16`).

    As in Triton, such an integer stays a number of its type when it is 1, but kernels know its
    value; `align` says whether that and 16 that divides it matter.
    """
    if type.startswith("*"):
        return partial(_declared_pointer, type)
    if type == "i1":
        return lambda value: (_BOOL, bool(_number(value, type)))
    if type[0] in "iu":
        return partial(_declared_integer, type, align)
    kind, code = kind_of(type), "f" if type == "bf16" else SCALAR_CODES[type]
    return lambda value: (kind, _in_range(float(_number(value, type)), code))


def _number(value: Any, type: str) -> Any:
    """A number that a parameter declared as `type` takes. Raises `WrongDeclaredArgument`."""
    if not isinstance(value, (int, float)) and getattr(value, "shape", None) == ():
        of_numpy = value.__class__.__module__ == "numpy"
        value = value.item() if of_numpy else value
    fits = isinstance(value, (int, float)) and (type[0] in "bf" or not isinstance(value, float))
    if fits:
        return value
    if not isinstance(value, float) and hasattr(value, "__index__") and not is_array(value):
        return value.__index__()
    raise WrongDeclaredArgument(
        f"the annotation of a parameter declares {type}",
        expected="an integer" if type[0] in "iu" else "a number",
        found=f"a value of type {value.__class__.__name__}: {value!r:.60}",
    )


def _declared_integer(type: str, align: bool, value: Any) -> Classified:
    number = int(_number(value, type))
    bits = int(type[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if type[0] == "i" else (0, (1 << bits) - 1)
    if not low <= number <= high:
        raise IntegerOutOfRange(
            f"an integer argument is out of the range of {type}, which the annotation declares",
            expected=f"{low} to {high}",
            found=str(number),
        )
    kind = kind_of(type, align and number % ALIGNMENT == 0, unit=align and number == 1)
    return kind, number if number < 1 << bits - 1 else number - (1 << bits)  # as signed bits


def _declared_pointer(type: str, value: Any) -> Classified:
    kind, passed = classify(value)
    if isinstance(kind, Kind) and kind.type.startswith("*"):
        return kind_of(type, kind.divisible, False, kind.device, kind.library), passed
    if value is None:
        return kind, passed
    raise WrongDeclaredArgument(
        f"the annotation of a parameter declares {type}",
        expected="an array",
        found=f"a value of type {value.__class__.__name__}: {value!r:.60}",
    )


def _in_range(value: float, code: str) -> float:
    """A float that `struct` can pack as `code`: infinite if it is too large for the type."""
    try:
        struct.pack("<" + code, value)
    except OverflowError:
        return math.copysign(math.inf, value)
    return value


def _integer(value: int) -> Classified:
    return INTEGER_KINDS[value], value


def _float(value: float) -> Classified:
    return _F32_POSITIVE if SMALLEST <= value <= LARGEST else _F32, value


def _torch(tensor: Any) -> Classified:
    try:
        address: int = tensor.data_ptr()
    except RuntimeError:
        raise without_memory(tensor) from None
    key = tensor.dtype, not address & 15, tensor.get_device()
    kind = _TORCH.get(key)
    if kind is None:
        seen = view(tensor)
        kind = _TORCH[key] = kind_of(f"*{seen.element_type}", key[1], False, seen.device, "torch")
    return kind, address if key[2] != HOST else host_array(tensor)


_TORCH: dict[tuple[Any, bool, int], Kind] = {}


def _placed(value: Any) -> Classified:
    """What libraries pass for a tensor of PyTorch: an address with a type, as Triton takes it."""
    seen = view(value)
    on_host = seen.device == HOST
    aligned = not seen.pointer % ALIGNMENT
    kind = kind_of(f"*{seen.element_type}", aligned, False, seen.device, "torch")
    return kind, host_array(value) if on_host else seen.pointer


def _array(value: Any) -> Classified:
    seen = view(value)
    library = type(value).__module__.partition(".")[0]
    divisible = not seen.pointer % ALIGNMENT
    passed = value if seen.device == HOST else seen.pointer
    return kind_of(f"*{seen.element_type}", divisible, False, seen.device, library), passed


def _descriptor(value: TensorDescriptor) -> Classified:
    return value.kind, value


def _foreign_descriptor(value: Any) -> Classified:
    """A descriptor of Triton's; ours is made once and kept with it until a field changes."""
    fields = value.base, tuple(value.shape), tuple(value.strides), tuple(value.block_shape)
    memo = value.__dict__.get("_tawa")
    if memo is None or memo[0][0] is not fields[0] or memo[0][1:] != fields[1:]:
        memo = value.__dict__["_tawa"] = (fields, descriptor_of(value))
    return _descriptor(cast(TensorDescriptor, memo[1]))


def _tuple(value: tuple[Any, ...]) -> Classified:
    """Each part is an argument of its own; a `tl.constexpr` among them is compiled in."""
    if not value:
        return constant_kind(()), None
    found = [classify_part(item) for item in value]
    kind = tuple_kind(tuple(kind for kind, _ in found), fields_of(value))
    return kind, tuple(passed for _, passed in found)


def classify_part(item: Any) -> Classified:
    """As `classify`, for a part of a tuple: a `tl.constexpr` or a function is a constant."""
    if type(item).__name__ == "constexpr" and hasattr(item, "value"):
        return constant_kind(item.value), None
    if inner(item) is not None:
        return constant_kind(item), None
    return classify(item)


class Classifiers(dict[type, Classifier]):
    """How to classify each type of argument: a dictionary that learns from the first of a type."""

    def __missing__(self, kind: type) -> Classifier:
        def first(value: Any) -> Classified:
            classifier = self[kind] = _classifier_for(value)
            return classifier(value)

        return first


CLASSIFIERS = Classifiers(
    {
        tuple: _tuple,
        int: _integer,
        bool: lambda value: (_BOOL, value),
        float: _float,
        type(None): lambda value: (_NONE, value),
        TensorDescriptor: _descriptor,
    }
)
"""The types of the arguments that kernels were called with."""


def _classifier_for(value: Any) -> Classifier:
    if isinstance(value, TensorDescriptor):
        return _descriptor
    if isinstance(value, tuple):
        return _tuple
    if all(hasattr(value, field) for field in ("base", "shape", "strides", "block_shape")):
        return _foreign_descriptor
    if hasattr(value, "data_ptr"):
        return _torch if hasattr(value, "get_device") else _placed
    if hasattr(value, "__index__") and not is_array(value):
        return lambda number: _integer(int(number))
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return lambda number: classify(number.item())
    if is_array(value):
        return _array
    raise UnsupportedArgument(
        "a kernel can't take this argument",
        expected="an array, a tensor descriptor, a number, None or a tuple of these",
        found=f"a value of type {type(value).__name__}: {value!r:.60}",
        hint="make an array of it, for example with `numpy.asarray` or `torch.tensor`",
    )
