"""What an expression of a kernel evaluates to while it is compiled.

A value is either *run-time*: a `Tensor` (scalars included), a `Descriptor` or a `BlockPointer`,
or *compile-time*: any other Python object as it is (numbers, None, dtypes, functions, modules,
strings), or a tuple of values. A compile-time number is weak: it takes its type from the run-time
value that it meets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeGuard

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from tawa.base.errors import in_short
from tawa.base.types import NAMES, PtrType
from tawa.language.dtypes import block_type, dtype, pointer_type

ElementType: TypeAlias = dtype | pointer_type
Value: TypeAlias = Any
"""A run-time or compile-time value, see the module's text."""

IR_TYPES: dict[str, Attribute] = {
    "int1": NAMES["i1"],
    "int8": NAMES["i8"], "uint8": NAMES["i8"],
    "int16": NAMES["i16"], "uint16": NAMES["i16"],
    "int32": NAMES["i32"], "uint32": NAMES["i32"],
    "int64": NAMES["i64"], "uint64": NAMES["i64"],
    "fp16": NAMES["f16"], "bf16": NAMES["bf16"], "fp32": NAMES["f32"], "fp64": NAMES["f64"],
    "fp8e4nv": NAMES["e4m3"], "fp8e5": NAMES["e5m2"],
}  # fmt: skip


def ir_element(element: ElementType) -> Attribute:
    """The IR's element type; `int1` in memory is a byte."""
    if isinstance(element, pointer_type):
        pointee = ir_element(element.element_ty)
        return PtrType(NAMES["i8"] if pointee == NAMES["i1"] else pointee)
    return IR_TYPES[element.name]


def ir_type(element: ElementType, shape: Sequence[int] = ()) -> Attribute:
    """The IR type of a value: scalar or tensor."""
    kind = ir_element(element)
    return TensorType(kind, shape) if shape else kind


@dataclass(frozen=True)
class Tensor:
    """A value of the running kernel: a scalar (shape `()`) or a tensor."""

    ssa: SSAValue
    dtype: ElementType
    shape: tuple[int, ...] = ()

    @property
    def type(self) -> ElementType | block_type:
        """The type as kernels see it: `x.type`."""
        return block_type(self.dtype, self.shape) if self.shape else self.dtype

    @property
    def is_pointer(self) -> bool:
        """Whether the elements are pointers."""
        return isinstance(self.dtype, pointer_type)

    def describe(self) -> str:
        """The type in words for messages: `int32`, `fp16[64, 32]`."""
        return f"{self.dtype}{list(self.shape)}" if self.shape else str(self.dtype)


@dataclass(frozen=True)
class Descriptor:
    """A tensor descriptor; `sizes` and `steps` are known for those made in the kernel."""

    ssa: SSAValue
    dtype: dtype
    block_shape: tuple[int, ...]
    sizes: tuple[Tensor, ...] = ()
    steps: tuple[Tensor, ...] = ()

    def describe(self) -> str:
        """The type in words for messages."""
        return f"descriptor of {self.dtype}{list(self.block_shape)}"


@dataclass(frozen=True)
class BlockPointer:
    """A block of a tensor at run-time offsets, addressed by plain pointers."""

    base: Tensor
    sizes: tuple[Tensor, ...]
    steps: tuple[Tensor, ...]
    offsets: tuple[Tensor, ...]
    block_shape: tuple[int, ...]

    @property
    def dtype(self) -> ElementType:
        """The pointer's type, as `ptr.dtype` of other pointers."""
        return self.base.dtype

    def describe(self) -> str:
        """The type in words for messages."""
        return f"block pointer {self.base.dtype}{list(self.block_shape)}"


@dataclass(frozen=True)
class BoundMethod:
    """A method of a run-time value, waiting for its arguments."""

    owner: Value
    name: str


@dataclass(frozen=True)
class Undefined:
    """A name that has no value here although it was assigned somewhere; `reason` says why."""

    reason: str
    span: Any = None


def is_tuple(value: Value) -> TypeGuard[tuple[Value, ...]]:
    """Whether a value is a tuple (or a Python list, from the caller's globals) of values."""
    return isinstance(value, tuple | list)


def tuple_like(value: tuple[Value, ...], items: Iterable[Value]) -> tuple[Value, ...]:
    """A tuple of other values, whose parts have the names that those of `value` have."""
    make = getattr(type(value), "_make", tuple)
    return make(items)


def items_of(value: Value) -> tuple[Value, ...]:
    """The values of a tuple; any other value by itself."""
    return tuple(value) if is_tuple(value) else (value,)


def is_runtime(value: Value) -> bool:
    """Whether a value, or anything in a tuple, exists only when the kernel runs."""
    if is_tuple(value):
        return any(is_runtime(item) for item in value)
    return isinstance(value, Tensor | Descriptor | BlockPointer)


def is_number(value: Value) -> bool:
    """Whether a value is a compile-time number (bools are)."""
    return isinstance(value, int | float)


def flatten(value: Value) -> Iterator[SSAValue]:
    """The SSA values inside a value, in a fixed order."""
    if isinstance(value, Tensor | Descriptor):
        yield value.ssa
        if isinstance(value, Descriptor):
            for part in (*value.sizes, *value.steps):
                yield part.ssa
    elif isinstance(value, BlockPointer):
        for part in (value.base, *value.sizes, *value.steps, *value.offsets):
            yield part.ssa
    elif is_tuple(value):
        for item in value:
            yield from flatten(item)


def rebuild(value: Value, fresh: Iterator[SSAValue]) -> Value:
    """`value` with its SSA values replaced, in the order of `flatten`, by those of `fresh`."""

    def tensor(part: Tensor) -> Tensor:
        return replace(part, ssa=next(fresh))

    def tensors(parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(tensor(part) for part in parts)

    if isinstance(value, Tensor):
        return tensor(value)
    if isinstance(value, Descriptor):
        fields: dict[str, Callable[[], Any]] = {
            "ssa": lambda: next(fresh),
            "sizes": lambda: tensors(value.sizes),
            "steps": lambda: tensors(value.steps),
        }
        return replace(value, **{name: make() for name, make in fields.items()})
    if isinstance(value, BlockPointer):
        return BlockPointer(
            tensor(value.base),
            tensors(value.sizes),
            tensors(value.steps),
            tensors(value.offsets),
            value.block_shape,
        )
    if is_tuple(value):
        return tuple_like(value, (rebuild(item, fresh) for item in value))
    return value


def same_type(a: Value, b: Value) -> bool:
    """Whether two values may stand for one name on two paths of control flow."""
    if is_tuple(a) and is_tuple(b):
        return len(a) == len(b) and all(same_type(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and a.shape == b.shape
    if isinstance(a, Descriptor) and isinstance(b, Descriptor):
        return a.ssa.type == b.ssa.type and len(a.sizes) == len(b.sizes)
    if isinstance(a, BlockPointer) and isinstance(b, BlockPointer):
        return same_type(a.base, b.base) and a.block_shape == b.block_shape
    if is_runtime(a) or is_runtime(b):
        return False
    return type(a) is type(b) and bool(a == b)


def describe(value: Value) -> str:
    """A value's type in words for messages."""
    if isinstance(value, Tensor | Descriptor | BlockPointer):
        return value.describe()
    if is_tuple(value):
        return f"({', '.join(describe(item) for item in value)})"
    if is_array_of_host(value):
        return f"an array of {value.dtype}, {list(value.shape)}"
    constant = is_number(value) or value is None or isinstance(value, str)
    return "constexpr " * constant + in_short(value)


def is_array_of_host(value: Any) -> bool:
    """Whether a value that a kernel names is an array of NumPy, PyTorch or the like."""
    if isinstance(value, block_type) or is_runtime(value):
        return False
    is_shape = isinstance(getattr(value, "shape", None), tuple)  # NumPy itself has a function
    return is_shape and bool(value.shape) and hasattr(value, "dtype")
