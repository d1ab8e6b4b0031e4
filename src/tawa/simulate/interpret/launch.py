"""The values of a kernel's parameters, made from a launch's arguments as the launcher does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr

from tawa.base.errors import TawaError
from tawa.base.indices import reciprocal
from tawa.base.kernel_spec import (
    GridParam,
    KernelSpec,
    Parameter,
    PlanParam,
    PointerParam,
    ReciprocalParam,
    ScalarParam,
    TensorMapParam,
    TimelineParam,
    evaluate,
)
from tawa.base.launch_plans import launch_plan
from tawa.base.numerics import Array, value_dtype
from tawa.base.types import NAMES
from tawa.simulate.interpret.global_memory import GlobalMemory, tensor_map


class SimulationInput(TawaError):
    """The simulator can't run this module with these arguments."""

    explanation = (
        "The simulator takes a module of the hopper level with one kernel that carries its spec "
        "(`tawa.spec`), and one argument for each of the kernel's run-time arguments. Arguments "
        "are NumPy arrays in storage form (bf16 as uint16, fp8 as uint8), numbers, and tensor "
        "descriptors on NumPy arrays."
    )
    example = """
import tawa.simulate
from protocols import correct

tawa.simulate.run(correct().module(), grid=(1,), args=[])
"""


MOST_WORK = 10_000
"""Candidates that are looked at for a byte that two arrays share; then their bounds decide."""


def kernel_of(module: ModuleOp) -> func.FuncOp:
    """The only kernel of a hopper module."""
    kernels = [op for op in module.ops if isinstance(op, func.FuncOp)]
    if len(kernels) != 1:
        raise SimulationInput(f"a module with {len(kernels)} kernels", expected="one kernel")
    return kernels[0]


def number_of(kernel: func.FuncOp, key: str) -> int:
    """The integer attribute `hopper.<key>`."""
    value = kernel.attributes.get(f"hopper.{key}")
    if not isinstance(value, IntegerAttr):
        raise SimulationInput(
            f"`{kernel.sym_name.data}` has no attribute hopper.{key}",
            expected="a module of the hopper level",
        )
    return value.value.data


def spec_of(module: ModuleOp, kernel: func.FuncOp) -> KernelSpec:
    """The kernel's spec, from its attribute `tawa.spec` (or the module's)."""
    text = kernel.attributes.get("tawa.spec") or module.attributes.get("tawa.spec")
    if not isinstance(text, StringAttr):
        raise SimulationInput(
            f"`{kernel.sym_name.data}` carries no kernel spec",
            expected="the attribute `tawa.spec` that the compiler writes",
        )
    return KernelSpec.from_json(text.data)


def parameters(
    spec: KernelSpec,
    arguments: Sequence[Any],
    grid: tuple[int, int, int],
    ctas: tuple[int, int],
    memory: GlobalMemory,
) -> list[Any]:
    """The value of each C parameter of a launch; arrays are added to the memory.

    `ctas` are the CTAs that may start at once, and all of them.
    """
    if len(arguments) != len(spec.arguments):
        raise SimulationInput(
            f"`{spec.entry}` takes {len(spec.arguments)} arguments",
            expected=", ".join(spec.arguments),
            found=f"{len(arguments)} arguments",
        )
    _require_apart(spec, dict(zip(spec.arguments, arguments, strict=True)))
    addresses: dict[int, int] = {}
    for index, (argument, name) in enumerate(zip(arguments, spec.arguments, strict=True)):
        array = _array_of(argument)
        if array is not None:
            addresses[index] = memory.add(array, f"`{name}`")
    return [_value(p, arguments, addresses, grid, ctas) for p in spec.parameters]


def _require_apart(spec: KernelSpec, arguments: dict[str, Any]) -> None:
    """Raise for arrays that overlap, of which the kernel takes for granted that they don't."""
    for one, other in spec.apart:
        first, second = _touched(arguments[one]), _touched(arguments[other])
        if first is not None and second is not None and _overlap(first, second):
            raise SimulationInput(
                f"the memory of `{one}` and `{other}` overlaps",
                expected=f"arrays that are apart: `{spec.entry}` was compiled for them",
                found="bytes that both reach",
                hint=f"compile it with may_overlap=(({one!r}, {other!r}),), as a launch does",
            )

    for one, other in spec.same:
        if arguments[one] is arguments[other] or _are_numbers(arguments[one], arguments[other]):
            _require_equal(spec, one, other, arguments)
            continue
        first, second = (_array_of(arguments[name]) for name in (one, other))
        if first is None or second is None or first.ctypes.data != second.ctypes.data:
            raise SimulationInput(
                f"the arrays `{one}` and `{other}` are two",
                expected=f"one array: `{spec.entry}` was compiled for it",
                found="two addresses",
                hint="compile it for these arrays, as a launch does",
            )


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | np.integer) for value in values)


def _require_equal(spec: KernelSpec, one: str, other: str, arguments: dict[str, Any]) -> None:
    """Raise for integers that differ, which the kernel takes for equal."""
    first, second = arguments[one], arguments[other]
    if first is not second and first != second:
        raise SimulationInput(
            f"`{one}` and `{other}` differ",
            expected=f"equal numbers: `{spec.entry}` was compiled for them",
            found=f"{first} and {second}",
            hint="compile it for these arguments, as a launch does",
        )


def _overlap(first: Array, second: Array) -> bool:
    try:
        return np.shares_memory(first, second, max_work=MOST_WORK)  # pyright: ignore[reportArgumentType]
    except np.exceptions.TooHardError:
        return np.may_share_memory(first, second)


def _touched(argument: Any) -> Array | None:
    """The elements that an argument reaches: of a descriptor, those of its tensor."""
    array = _array_of(argument)
    if array is None or array is argument or not hasattr(argument, "strides"):
        return array
    size = array.dtype.itemsize
    if math.prod(argument.shape) * size >= 1 << 63:
        return array  # it goes around all addresses: the elements that exist are the array's
    strides = [stride * size for stride in argument.strides]
    return np.lib.stride_tricks.as_strided(array, tuple(argument.shape), strides)


def arrays_of(arguments: Sequence[Any]) -> list[Array]:
    """The arrays among a launch's arguments, those of descriptors too."""
    found = (_array_of(argument) for argument in arguments)
    return [array for array in found if array is not None]


def _array_of(argument: Any) -> Array | None:
    """The array of an array argument or of a descriptor, which has it as `base`."""
    if isinstance(argument, np.ndarray):
        return cast(Array, argument)
    base = getattr(argument, "base", None)
    return cast(Array, base) if isinstance(base, np.ndarray) else None


def _value(
    parameter: Parameter,
    arguments: Sequence[Any],
    addresses: dict[int, int],
    grid: tuple[int, int, int],
    ctas: tuple[int, int],
) -> Any:
    match parameter:
        case PointerParam(arg):
            return addresses[arg]
        case GridParam(axis):
            return np.asarray(grid[axis], np.int32)
        case ReciprocalParam(axis):
            return np.asarray(reciprocal(grid[axis]), np.int64)
        case PlanParam():
            return launch_plan(parameter, grid, arguments, *ctas)
        case TimelineParam():
            return np.asarray(0, np.int64)  # the simulator records by itself
        case ScalarParam(value, type_):
            return _scalar(value, type_, arguments)
        case TensorMapParam(arg):
            return _map(parameter, arguments, addresses[arg])


def _scalar(value: Any, type_: str, arguments: Sequence[Any]) -> Array:
    number = arguments[value[1]] if type_[0] == "f" else evaluate(value, arguments)
    name = "i" + type_[1:] if type_[0] == "u" else type_
    dtype = value_dtype(NAMES[name])
    return np.asarray(number).astype(dtype)


def _map(parameter: TensorMapParam, arguments: Sequence[Any], address: int) -> Any:
    argument = arguments[parameter.arg]
    base = _array_of(argument)
    assert base is not None
    shape: Sequence[int] = (
        argument.shape
        if parameter.shape is None
        else [evaluate(e, arguments) for e in parameter.shape]
    )
    strides: Sequence[int] = (
        argument.strides
        if parameter.strides is None
        else [evaluate(e, arguments) for e in parameter.strides]
    )
    offset = evaluate(parameter.offset, arguments)
    return tensor_map(parameter, base, (address, shape, strides, offset))
