"""What the run time needs to know to launch a compiled kernel, and nothing more.

A `KernelSpec` is plain data: it knows no IR, survives a JSON round trip and so can be cached
beside the cubin. Argument numbers count the kernel's run-time arguments (constexpr arguments
are compiled in and have no number), in the order of the kernel's signature.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, cast, get_args

from tawa.base.errors import TawaError
from tawa.base.tile_scheduler import Work
from tawa.base.timeline import TimelineTable

BinaryOperator: TypeAlias = Literal["add", "sub", "mul", "quotient", "cdiv", "min", "max"]

ArgumentExpr: TypeAlias = tuple[Literal["arg"], int]
DescriptorExpr: TypeAlias = tuple[Literal["dim", "stride"], int, int]
Expr: TypeAlias = "int | ArgumentExpr | DescriptorExpr | tuple[BinaryOperator, Expr, Expr]"
"""An integer over the arguments of a launch.

`("arg", i)` is the value of integer argument `i`; `("dim", i, axis)` and `("stride", i, axis)`
are the size (elements) and stride (elements) of descriptor argument `i`; the rest are binary
operations on expressions: `quotient` rounds towards zero, as kernels do, `cdiv` up.
"""

BINARY_TEXT: dict[str, str] = {
    "add": "({} + {})",
    "sub": "({} - {})",
    "mul": "({} * {})",
    "quotient": "quotient({}, {})",
    "cdiv": "(-(-({}) // ({})))",
    "min": "min({}, {})",
    "max": "max({}, {})",
}
"""Python text of each binary operator, with two places for its operands; it calls `quotient`."""

SCALAR_CODES: dict[str, str] = {
    "i1": "?",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
    "f16": "e",
    "bf16": "H",
    "f32": "f",
    "f64": "d",
}
"""`struct` code of each scalar type a kernel can take by value."""

SWIZZLES = (0, 32, 64, 128)
L2_PROMOTIONS = (0, 64, 128, 256)


class InvalidSpec(TawaError):
    """A kernel spec, or its JSON form, breaks the rules of `tawa.base.kernel_spec`."""

    explanation = (
        "A kernel spec says how to launch a cubin. The compiler writes it; one that was edited, or "
        "written by another version, may not be readable. Compile the kernel again."
    )
    example = """
from tawa.base.kernel_spec import KernelSpec

KernelSpec.from_json("{}")
"""


def quotient(a: int, b: int) -> int:
    """`a` over `b`, rounded towards zero."""
    return a // b if (a >= 0) == (b > 0) else -(-a // b)


def expr_text(expr: Expr, argument: str = "a{}") -> str:
    """Python text that computes `expr`, with argument `i` called `argument.format(i)`.

    Descriptor arguments are expected to have `shape` and `strides` sequences.
    """
    match expr:
        case int():
            return str(expr)
        case ("arg", int(index)):
            return argument.format(index)
        case ("dim", int(index), int(axis)):
            return f"{argument.format(index)}.shape[{axis}]"
        case ("stride", int(index), int(axis)):
            return f"{argument.format(index)}.strides[{axis}]"
        case (str(name), lhs, rhs) if name in BINARY_TEXT:
            operands = expr_text(cast(Expr, lhs), argument), expr_text(cast(Expr, rhs), argument)
            return BINARY_TEXT[name].format(*operands)
        case _:
            raise InvalidSpec(f"not an expression over the arguments: {expr!r}")


def evaluate(expr: Expr, arguments: Sequence[Any]) -> int:
    """The value of `expr` for the run-time arguments of one launch."""
    match expr:
        case int():
            return expr
        case ("arg", int(index)):
            return int(arguments[index])
        case ("dim", int(index), int(axis)):
            return int(arguments[index].shape[axis])
        case ("stride", int(index), int(axis)):
            return int(arguments[index].strides[axis])
        case (name, lhs, rhs):
            a, b = evaluate(cast(Expr, lhs), arguments), evaluate(cast(Expr, rhs), arguments)
            return _OPERATIONS[name](a, b)
        case _:
            raise InvalidSpec(f"not an expression over the arguments: {expr!r}")


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "quotient": quotient,
    "cdiv": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
}


@dataclass(frozen=True)
class PointerParam:
    """The device pointer (8 bytes) of argument `arg`, an array or a descriptor."""

    arg: int
    source: Literal["descriptor", "array"] = "array"


@dataclass(frozen=True)
class ScalarParam:
    """A scalar passed by value; `type` is a key of `SCALAR_CODES`.

    A float parameter is always `("arg", i)`; integer parameters may be computed.
    """

    value: Expr
    type: str

    def __post_init__(self) -> None:
        if self.type not in SCALAR_CODES:
            known = ", ".join(SCALAR_CODES)
            raise InvalidSpec(f"scalar type {self.type!r}", expected=f"one of {known}")


@dataclass(frozen=True)
class GridParam:
    """The size (i32) of the logical grid along `axis`, when a plain grid is made persistent."""

    axis: int


@dataclass(frozen=True)
class ReciprocalParam:
    """What function `quotient` divides by the logical grid's size along `axis` with (i64)."""

    axis: int


@dataclass(frozen=True)
class PlanParam:
    """Which programs each CTA of a persistent grid runs (`base.tile_scheduler.plan`), by value.

    `steps` are those of the programs' `Work`.
    """

    steps: tuple[tuple[Any, ...], ...]

    @property
    def work(self) -> Work:
        """The work of a program."""
        return Work(self.steps)


@dataclass(frozen=True)
class TimelineParam:
    """Where a recording kernel writes its timeline, given by the launch that asks for it.

    `buffer` is the address of the regions, one for each recorder of each recorded CTA (u64);
    `ctas` how many CTAs are recorded, `mask` the bits of a region's addresses that
    are not all set while there is room (u32). All are 0 for nothing.
    """

    field: Literal["buffer", "ctas", "mask"]

    def __post_init__(self) -> None:
        if self.field not in TIMELINE_FIELDS:
            raise InvalidSpec(f"{self.field!r} of a timeline", expected=str(TIMELINE_FIELDS))


TIMELINE_FIELDS = ("buffer", "ctas", "mask")


@dataclass(frozen=True)
class TensorMapParam:
    """A 128-byte tensor map over the memory of argument `arg`.

    Dimensions are listed as in Python, the innermost (contiguous) last.

    - `arg`: the argument that the map's memory belongs to.
    - `source`: whether that argument is a `descriptor` or an `array`; the latter needs `shape`
      and `strides`.
    - `element_type`: `f16`, `bf16`, `f32`, `f64`, `i8` ... as in `runtime.arrays.ELEMENT_TYPES`.
    - `shape`, `strides`: expressions in elements; `None` takes both from the descriptor argument.
      The last stride is 1.
    - `offset`: elements from the argument's pointer to the map's first element.
    - `block_shape`: the block the user asked for, for error messages.
    - `box`: what one copy instruction moves, elements.
    - `swizzle`: bytes, one of 0, 32, 64, 128.
    - `fill`: what reads outside the tensor give.
    - `l2_promotion`: bytes, one of 0, 64, 128, 256.
    - `stored`: whether the kernel writes through the map.
    """

    arg: int
    element_type: str
    box: tuple[int, ...]
    block_shape: tuple[int, ...] = ()
    shape: tuple[Expr, ...] | None = None
    strides: tuple[Expr, ...] | None = None
    offset: Expr = 0
    swizzle: int = 0
    fill: Literal["zero", "nan"] = "zero"
    l2_promotion: int = 0
    source: Literal["descriptor", "array"] = "descriptor"
    stored: bool = False

    def __post_init__(self) -> None:
        if not 1 <= len(self.box) <= 5:
            raise InvalidSpec(f"a tensor map has 1 to 5 dimensions, this box has {len(self.box)}")
        if (self.shape is None) != (self.strides is None):
            raise InvalidSpec("give both shape and strides of a tensor map, or neither")
        if self.source not in ("descriptor", "array"):
            raise InvalidSpec(f"source is 'descriptor' or 'array', not {self.source!r}")
        if self.source == "array" and self.shape is None:
            raise InvalidSpec("a tensor map of an array needs shape and strides")
        for sizes in (self.shape, self.strides):
            if sizes is not None and len(sizes) != len(self.box):
                raise InvalidSpec("shape, strides and box of a tensor map differ in length")
        if self.swizzle not in SWIZZLES or self.l2_promotion not in L2_PROMOTIONS:
            raise InvalidSpec(f"swizzle is one of {SWIZZLES}, L2 promotion one of {L2_PROMOTIONS}")
        if self.fill not in ("zero", "nan"):
            raise InvalidSpec(f"fill is 'zero' or 'nan', not {self.fill!r}")


Parameter: TypeAlias = (
    PointerParam
    | ScalarParam
    | GridParam
    | ReciprocalParam
    | PlanParam
    | TimelineParam
    | TensorMapParam
)

_PARAMETERS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Parameter)}


@dataclass(frozen=True)
class KernelSpec:
    """How to launch one cubin.

    - `entry`: the kernel's symbol in the cubin.
    - `threads`: threads of a CTA.
    - `shared_bytes`: dynamic shared memory of a CTA.
    - `parameters`: in C order.
    - `arguments`: names of the run-time arguments, for messages.
    - `cluster`: CTAs of a cluster along x, y, z.
    - `grid`: `plain` launches the user's grid as it is; `persistent` launches as many CTAs as fit
      on the device at once (a one-dimensional grid, at most one a program, rounded to clusters),
      and `GridParam`s tell the kernel the user's grid.
    - `ctas_per_sm`: CTAs that share an SM, for the `persistent` grid.
    - `timeline`: what the kernel's records mean, if it records its timeline.
    - `apart`: pairs of arguments (names) whose memory may not overlap in a launch.
    - `alike`: pairs of arrays, each with two integers that count addresses of one and of the
      other: of arrays that are one, a launch asks whether these are equal.
    - `same`: pairs of arguments that begin at one address in a launch, and of equal integers.
    - `cooperative`: whether all CTAs of a launch have to run at the same time.
    - `early`: whether a launch may begin before kernels before it end; it waits for them itself.
    """

    entry: str
    threads: int
    shared_bytes: int
    parameters: tuple[Parameter, ...]
    arguments: tuple[str, ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)
    grid: Literal["plain", "persistent"] = "plain"
    ctas_per_sm: int = 1
    timeline: TimelineTable | None = None
    apart: tuple[tuple[str, str], ...] = ()
    alike: tuple[tuple[str, str, str, str], ...] = ()
    same: tuple[tuple[str, str], ...] = ()
    cooperative: bool = False
    early: bool = False

    def __post_init__(self) -> None:
        if self.grid not in ("plain", "persistent"):
            raise InvalidSpec(f"grid is 'plain' or 'persistent', not {self.grid!r}")
        if self.grid == "persistent" and self.cluster[1:] != (1, 1):
            raise InvalidSpec(f"clusters of a persistent grid lie along x, not {self.cluster}")
        for parameter in self.parameters:
            if isinstance(parameter, (PointerParam, TensorMapParam)):
                self._require_argument(parameter.arg)

    def _require_argument(self, index: int) -> None:
        if not 0 <= index < len(self.arguments):
            raise InvalidSpec(f"argument {index} of {self.entry}: it has {len(self.arguments)}")

    def to_json(self) -> str:
        """The spec as JSON text; `from_json` reads it back unchanged."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        record["parameters"] = [
            {"kind": type(p).__name__, **{f.name: getattr(p, f.name) for f in fields(p)}}
            for p in self.parameters
        ]
        timeline = record.pop("timeline")
        if timeline is not None:
            record["timeline"] = timeline.to_record()
        return json.dumps(record)

    @staticmethod
    def from_json(text: str) -> KernelSpec:
        """Read what `to_json` wrote; raises `InvalidSpec` for anything else."""
        try:
            record = tuples(json.loads(text))
            parameters = tuple(_parameter(dict(entry)) for entry in record.pop("parameters"))
            if record.get("timeline") is not None:
                record["timeline"] = TimelineTable.from_record(record["timeline"])
            return KernelSpec(parameters=parameters, **record)
        except (TypeError, KeyError, AttributeError, json.JSONDecodeError) as error:
            raise InvalidSpec(f"not the JSON form of a kernel spec: {error}") from error


def _parameter(entry: dict[str, Any]) -> Parameter:
    return _PARAMETERS[entry.pop("kind")](**entry)


def tuples(value: Any) -> Any:
    """JSON's lists as tuples, everywhere."""
    if isinstance(value, list):
        return tuple(tuples(item) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        return {key: tuples(item) for key, item in cast("dict[str, Any]", value).items()}
    return value
