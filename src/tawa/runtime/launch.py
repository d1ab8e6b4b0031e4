"""Launches a compiled kernel: packs its parameters and calls the driver.

A launch that was seen before allocates nothing on the device, waits for nothing and touches no
global state, so it can be captured in a CUDA graph. Parameters lie in one buffer whose layout is
fixed when the kernel is loaded; a small Python function, written for the kernel's spec, fills it.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from operator import index
from threading import get_ident
from typing import Any, TypeAlias, cast

from tawa.base import launch_plans
from tawa.base.errors import TawaError, in_short
from tawa.base.indices import reciprocal
from tawa.base.kernel_spec import (
    SCALAR_CODES,
    TIMELINE_FIELDS,
    Expr,
    GridParam,
    KernelSpec,
    PlanParam,
    PointerParam,
    ReciprocalParam,
    ScalarParam,
    TensorMapParam,
    TimelineParam,
    expr_text,
    quotient,
)
from tawa.machine.chips import DEFAULT, SM_90A
from tawa.runtime import driver, tensormap
from tawa.runtime.arguments import classify
from tawa.runtime.arrays import ELEMENT_BYTES, HOST
from tawa.runtime.streams import current_stream, stream_address

MAX_GRID = SM_90A.largest_grid
COOPERATIVE, CLUSTER_DIMENSION, EARLY = 2, 4, 6
"""Launch attributes of the driver: cooperative, cluster dimension, and programmatic stream
serialization (`CU_LAUNCH_ATTRIBUTE_..`)."""


class BadGrid(TawaError):
    """The grid of a launch is not one that the kernel can be launched with."""

    explanation = (
        "A grid is one to three sizes, `kernel[(x, y, z)]`, or a function of the arguments that "
        "gives them. x is at most 2^31 - 1, y and z are at most 65535. Each is a multiple of the "
        "kernel's cluster along that axis."
    )
    example = """
from tawa.runtime.launch import grid_sizes

grid_sizes((16, 4, 2, 2))
"""


class LaunchFailed(TawaError):
    """The driver refuses to launch a kernel."""

    explanation = (
        "The message has the driver's error and the launch's numbers. An asynchronous error of an "
        "earlier kernel also shows here."
    )


class WrongDevice(TawaError):
    """The arguments of a launch don't lie together on one CUDA device."""

    explanation = (
        "All arrays and descriptors of a launch lie on one CUDA device. Or all lie in the host's "
        "memory as NumPy arrays, and then the kernel runs in the simulator. Move the one that the "
        "message names."
    )
    example = """
from tawa.runtime.launch import require_device

require_device(["x", "y"], number=1, found=-1, expected=0)
"""


class ScalarOutOfRange(TawaError):
    """A scalar parameter's value doesn't fit the type it is passed as."""

    explanation = (
        "Sizes that a kernel computes with are 32 bits wide where the arguments they come from "
        "are. Pass larger arguments, or fewer elements."
    )


_NOT_SET = object()
"""A grid that equals none."""


class LaunchAttribute(ctypes.Structure):
    """`CUlaunchAttribute`, with the values used here: a cluster's dimensions, or a flag in one."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("_padding", ctypes.c_int),
        ("cluster", ctypes.c_uint * 3),
        ("_rest", ctypes.c_uint * 13),
    )


class LaunchConfig(ctypes.Structure):
    """`CUlaunchConfig`."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_uint64),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    )


@dataclass(frozen=True)
class EntryPoints:
    """The driver's functions that a launch calls, and what it needs to know of the device."""

    launch: Callable[..., int]
    encode: Callable[..., int]
    placeholder: Callable[[], int]
    resident_ctas: int
    l2_bytes: int = DEFAULT.l2_bytes
    """CTAs of this kernel that the device runs at once, whole clusters only."""


class Launcher:
    """One kernel, loaded on one device.

    Calling it with a grid and the arguments' launch values (`arguments.classify`) launches it on
    a stream; `launch` takes the arguments themselves. Safe to call from several threads: each has
    a `LaunchBuffer` of its own.
    """

    def __init__(
        self,
        spec: KernelSpec,
        kernel: int,
        device: int,
        points: EntryPoints,
        library: object = None,
    ) -> None:
        self.spec = spec
        self.device = device
        self._library = library  # the code stays loaded as long as the launcher lives
        self._points = points
        self._call = points.launch
        self._kernel = kernel
        self._buffers: dict[int, LaunchBuffer] = {}
        self._single_device = driver.device_count() <= 1
        self.timeline = [0, 0, 0]
        """The values of the spec's `TimelineParam`s: buffer, CTAs and mask of the next launch."""

    def __call__(self, grid: Any, values: Sequence[Any], stream: int) -> None:
        """Launch; `grid` is a tuple of one to three sizes, or one size."""
        thread = get_ident()
        buffer = self._buffers.get(thread)
        if buffer is None:
            buffer = self._buffers[thread] = LaunchBuffer(
                self.spec, self._kernel, self._points, self.timeline
            )
        if grid != buffer.grid:
            buffer.set_grid(grid)
        if buffer.empty:
            return
        try:
            buffer.fill(values, buffer.programs)
        except struct.error as error:
            raise ScalarOutOfRange(
                f"a scalar parameter of {self.spec.entry} is out of range", found=str(error)
            ) from error
        if stream != buffer.stream:
            buffer.config.stream = buffer.stream = stream
        if self._single_device or driver.current_device() == self.device:
            status = self._call(*buffer.call)
        else:
            status = self._call_on_device(buffer)
        if status:
            self._recover(status, buffer)

    def ctas(self, grid: Any) -> int:
        """How many CTAs a launch of this grid has."""
        return math.prod(_launched(self.spec, grid_sizes(grid), self._points.resident_ctas))

    def launch(self, grid: Any, *arguments: Any, stream: Any = None) -> None:
        """Launch with arrays, descriptors and numbers, on `stream` or their library's current one.

        Raises `WrongDevice`, `BadGrid`, `LaunchFailed`, or an error about an argument.
        """
        classified = [classify(argument) for argument in arguments]
        library = ""
        for number, (kind, _) in enumerate(classified):
            if kind.device is not None:
                require_device(self.spec.arguments, number, kind.device, self.device)
                library = library or kind.library
        if stream is None:
            address = current_stream(library, self.device)()
        else:
            address = stream_address(stream)
        self(grid, [value for _, value in classified], address)

    def _call_on_device(self, buffer: LaunchBuffer) -> int:
        with driver.on_device(self.device):
            return self._call(*buffer.call)

    def _recover(self, status: int, buffer: LaunchBuffer) -> None:
        """Retry a launch that failed for want of a context in this thread; else raise."""
        if status in driver.INVALID_CONTEXT:
            status = self._call_on_device(buffer)
        if status:
            spec = self.spec
            raise LaunchFailed(
                f"{spec.entry} can't be launched: {driver.describe_status(status)}",
                found=f"grid {tuple(buffer.config.grid)}, {spec.threads} threads, "
                f"{spec.shared_bytes} bytes of shared memory, cluster {spec.cluster}",
            )


def load(spec: KernelSpec, cubin: bytes, device: int = 0) -> Launcher:
    """Load a cubin on a device. Raises `NoDevice`, `DriverFailure`."""
    with driver.on_device(device):
        library, kernel = driver.load(cubin, spec.entry)
        if spec.shared_bytes:
            driver.allow_shared_bytes(kernel, spec.shared_bytes, device)
        resident_ctas = _resident_ctas(spec, kernel, device)
    points = EntryPoints(
        launch=driver.entry_points().cuLaunchKernelEx,
        encode=tensormap.driver_encode(),
        placeholder=lambda: driver.placeholder(device),
        resident_ctas=resident_ctas,
        l2_bytes=driver.chip(device).l2_bytes,
    )
    return Launcher(spec, int(kernel), device, points, library)


def require_device(names: Sequence[str], number: int, found: int, expected: int) -> None:
    """Raise `WrongDevice` unless argument `number` lies on device `expected`."""
    if found == expected:
        return
    name = names[number] if number < len(names) else str(number)
    where = "the host's memory" if found == HOST else f"CUDA device {found}"
    raise WrongDevice(
        f"argument `{name}` lies on another device than the launch",
        expected=f"CUDA device {expected}" if expected != HOST else "the host's memory",
        found=where,
        hint="move the array, for example with `.to('cuda')`",
    )


def computed_grid(grid: Callable[[Any], Any], named: Mapping[str, Any]) -> Any:
    """What a grid's function gives for a launch. Raises `BadGrid` where the two don't fit."""
    try:
        return grid(named)
    except KeyError as error:
        asked = error.args[0] if error.args else None
        if asked in named:
            raise  # of another mapping
        raise BadGrid(
            f"the grid's function asks for {asked!r}, which the launch does not have",
            expected=f"one of {', '.join(named)}",
            found=repr(asked),
            hint="pass it by name, or ask for a parameter of the kernel",
        ) from None
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # from inside of the function
        raise BadGrid(
            "the grid's function does not take the launch's arguments",
            expected="a function of one mapping, as `lambda meta: (tawa.cdiv(meta['n'], 128),)`",
            found=str(error),
            hint="give it one parameter",
        ) from None


def grid_sizes(grid: Any) -> tuple[int, int, int]:
    """A grid as three sizes; further ones are 1. Raises `BadGrid`."""
    sizes: tuple[Any, ...] = (
        tuple(cast("Any", grid)) if isinstance(grid, (tuple, list)) else (grid,)
    )
    try:
        whole = [index(size) for size in sizes]
    except TypeError:
        whole = []
    flat = all(size == 1 for size in whole[3:])
    if not whole or not flat or any(not 0 <= size <= MAX_GRID[0] for size in whole):
        raise BadGrid(
            f"a grid is one to three whole numbers, each from 0 to {MAX_GRID[0]}",
            expected="for example (128,) or (16, 4, 2)",
            found=in_short(cast("object", grid)),
            hint="for ceil(n / BLOCK) programs write `(tawa.cdiv(n, BLOCK),)`",
        )
    x, y, z = (*whole, 1, 1)[:3]
    return x, y, z


def _config(spec: KernelSpec) -> LaunchConfig:
    config = LaunchConfig(
        block=(ctypes.c_uint * 3)(spec.threads, 1, 1), shared_bytes=spec.shared_bytes
    )
    attributes: list[LaunchAttribute] = []
    if spec.cluster != (1, 1, 1):
        cluster = (ctypes.c_uint * 3)(*spec.cluster)
        attributes.append(LaunchAttribute(id=CLUSTER_DIMENSION, cluster=cluster))
    for wanted, attribute in ((spec.cooperative, COOPERATIVE), (spec.early, EARLY)):
        if wanted:
            attributes.append(LaunchAttribute(id=attribute, cluster=(ctypes.c_uint * 3)(1)))
    if attributes:
        config.attributes = (LaunchAttribute * len(attributes))(*attributes)
        config.attribute_count = len(attributes)
    return config


def _resident_ctas(spec: KernelSpec, kernel: Any, device: int) -> int:
    """CTAs that the device runs at once; the driver knows where clusters fit."""
    size = spec.cluster[0] * spec.cluster[1] * spec.cluster[2]
    if size == 1:
        return driver.device(device).multiprocessors * spec.ctas_per_sm
    return driver.max_clusters(kernel, spec.cluster, spec.threads, spec.shared_bytes) * size


def _launched(spec: KernelSpec, sizes: launch_plans.Grid, resident: int) -> launch_plans.Grid:
    """The CTAs of a launch along the axes of the device's grid."""
    if spec.grid == "persistent":
        return launch_plans.persistent_ctas(spec, sizes, resident), 1, 1
    return sizes


class LaunchBuffer:
    """One thread's memory for launches of a kernel: the launch's numbers and its parameters.

    Tensor maps come first, 128 bytes each; every other parameter has a slot of 8 bytes. `call` is
    what the driver takes: configuration, kernel, the parameters' addresses in C order, nothing.
    """

    __slots__ = (
        "_points",
        "_spec",
        "_storage",
        "call",
        "config",
        "empty",
        "fill",
        "grid",
        "programs",
        "stream",
    )

    def __init__(
        self,
        spec: KernelSpec,
        kernel: int,
        points: EntryPoints,
        timeline: Sequence[int] = (0, 0, 0),
    ) -> None:
        self._spec, self._points = spec, points
        self.grid: Any = _NOT_SET
        self.programs = (0, 0, 0)
        self.empty = True
        self.stream = 0
        self.config = _config(spec)
        start = tensormap.BYTES * sum(isinstance(p, TensorMapParam) for p in spec.parameters)
        planned = start + launch_plans.BYTES * sum(
            isinstance(p, PlanParam) for p in spec.parameters
        )
        size = planned + 8 * len(spec.parameters)
        self._storage = (ctypes.c_uint8 * (size + tensormap.MAP_ALIGNMENT))()
        unaligned = ctypes.addressof(self._storage)
        base = -(-unaligned // tensormap.MAP_ALIGNMENT) * tensormap.MAP_ALIGNMENT
        maps, tables = count(base, tensormap.BYTES), count(base + start, launch_plans.BYTES)
        slots = count(base + planned, 8)
        addresses = [
            next(
                maps
                if isinstance(p, TensorMapParam)
                else tables
                if isinstance(p, PlanParam)
                else slots
            )
            for p in spec.parameters
        ]
        pointers = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
        self.call = ctypes.byref(self.config), ctypes.c_void_p(kernel), pointers, None
        memory = memoryview(self._storage).cast("B")[base - unaligned :]
        self.fill = _compile_fill(spec, points, memory, timeline)

    def set_grid(self, grid: Any) -> None:
        """Make `grid` the next launch's grid. Raises `BadGrid`."""
        self.grid = _NOT_SET
        sizes = grid_sizes(grid)
        programs = sizes[0] * sizes[1] * sizes[2]
        cluster = self._spec.cluster
        ctas = _launched(self._spec, sizes, self._points.resident_ctas)
        for size, limit, step in zip(ctas, MAX_GRID, cluster, strict=True):
            if size > limit or size % step:
                raise BadGrid(
                    f"{self._spec.entry} can't be launched with this grid",
                    expected=f"sizes up to {MAX_GRID}, multiples of the cluster {cluster}",
                    found=str(ctas),
                )
        self.config.grid[:] = ctas
        self.programs = sizes
        self.empty = not programs
        self.grid = grid if isinstance(grid, (tuple, int)) else _NOT_SET


def _compile_fill(
    spec: KernelSpec, points: EntryPoints, buffer: memoryview, timeline: Sequence[int]
) -> Callable[[Sequence[Any], tuple[int, int, int]], None]:
    """Write and compile the Python function that packs one launch's parameters."""
    maps = [p for p in spec.parameters if isinstance(p, TensorMapParam)]
    tables = [p for p in spec.parameters if isinstance(p, PlanParam)]
    others = [p for p in spec.parameters if not isinstance(p, TensorMapParam | PlanParam)]
    names = "".join(f"a{number}, " for number in range(len(spec.arguments)))
    lines = ["def fill(values, grid):", f"    {names}= values" if names else "    pass"]
    for number, parameter in enumerate(maps):
        place = f"buffer[{tensormap.BYTES * number}:{tensormap.BYTES * (number + 1)}]"
        lines.append(f"    {place} = map{number}({_map_arguments(parameter)})")
    lines += [f"    plan{number}(values, grid)" for number in range(len(tables))]
    start = tensormap.BYTES * len(maps)
    if others:
        texts = ", ".join(_slot_text(parameter) for parameter in others)
        lines.append(f"    pack_into(buffer, {start + launch_plans.BYTES * len(tables)}, {texts})")
    code = "<" + "".join(_slot_code(parameter) for parameter in others)
    pack_into = struct.Struct(code).pack_into
    scope: dict[str, Any] = {"buffer": buffer, "timeline": timeline, "pack_into": pack_into}
    scope |= {"reciprocal": reciprocal, "bf16_bits": bf16_bits, "quotient": quotient}
    for number, parameter in enumerate(maps):
        make = tensormap.encoder(
            parameter, spec.arguments[parameter.arg], points.encode, points.placeholder
        )
        of_values = _numbers(parameter) if parameter.source == "array" else None
        scope[f"map{number}"] = make if of_values is None else _map_of_values(parameter, make)
    for number, parameter in enumerate(tables):
        memory = buffer[start + launch_plans.BYTES * number :][: launch_plans.BYTES]
        sizes = points.resident_ctas, points.l2_bytes
        scope[f"plan{number}"] = launch_plans.plan_writer(spec, parameter, *sizes, memory)
    exec(compile("\n".join(lines), "<tawa: what fills a launch>", "exec"), scope)
    return scope["fill"]


def bf16_bits(value: float) -> int:
    """The bits of the nearest bf16, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    if value != value:
        return 0x7FC0
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _numbers(parameter: TensorMapParam) -> list[int] | None:
    """The arguments that a tensor map of an array is made of, if they are all plain numbers."""
    exprs = (parameter.offset, *(parameter.shape or ()), *(parameter.strides or ()))
    found = {parameter.arg}
    work: list[Any] = list(exprs)
    while work:
        match work.pop():
            case ("arg", int(index)):
                found.add(index)
            case ("dim" | "stride", _, _):
                return None
            case (_, lhs, rhs):
                work += [lhs, rhs]
            case _:
                pass
    return sorted(found)


def _map_of_values(parameter: TensorMapParam, make: tensormap.Encoder) -> tensormap.Encoder:
    """Makes tensor maps of arguments' values, and computes nothing for those that it has seen."""
    names = ", ".join(f"a{number}" for number in _numbers(parameter) or ())
    text = f"lambda {names}: make({_described(parameter)})"
    return lru_cache(maxsize=tensormap.CACHED)(eval(text, {"make": make, "quotient": quotient}))


def _map_arguments(parameter: TensorMapParam) -> str:
    """Python text of what a tensor map is made of."""
    numbers = _numbers(parameter) if parameter.source == "array" else None
    if numbers is None:
        return _described(parameter)
    return ", ".join(f"a{number}" for number in numbers)


def _described(parameter: TensorMapParam) -> str:
    """Python text of a tensor map's address, shape and strides; an array at 0 has no elements."""
    name = f"a{parameter.arg}"
    address = f"{name}.pointer()" if parameter.source == "descriptor" else name
    if parameter.offset != 0:
        address += f" + {ELEMENT_BYTES[parameter.element_type]} * {expr_text(parameter.offset)}"
        address = f"{address} if {name} else 0" if parameter.source == "array" else address
    if parameter.shape is None or parameter.strides is None:
        return f"{address}, {name}.geometry"
    return f"{address}, {_tuple_text(parameter.shape)}, {_tuple_text(parameter.strides)}"


def _tuple_text(exprs: tuple[Expr, ...]) -> str:
    return f"({', '.join(expr_text(e) for e in exprs)},)"


Slot: TypeAlias = PointerParam | ScalarParam | GridParam | ReciprocalParam | TimelineParam


def _slot_text(parameter: Slot) -> str:
    match parameter:
        case PointerParam(arg, source):
            return f"a{arg}" if source == "array" else f"a{arg}.pointer()"
        case ScalarParam(value, type):
            text = expr_text(value)
            return f"bf16_bits({text})" if type == "bf16" else text
        case GridParam(axis):
            return f"grid[{axis}]"
        case ReciprocalParam(axis):
            return f"reciprocal(grid[{axis}])"
        case TimelineParam(field):
            return f"timeline[{TIMELINE_FIELDS.index(field)}]"


def _slot_code(parameter: Slot) -> str:
    """`struct` code of an 8-byte slot."""
    match parameter:
        case PointerParam():
            code = "Q"
        case ScalarParam(_, type):
            code = SCALAR_CODES[type]
        case GridParam():
            code = "i"
        case ReciprocalParam():
            code = "q"
        case TimelineParam(field):
            code = "Q" if field == "buffer" else "I"
    padding = 8 - struct.calcsize("<" + code)
    return f"{code}{padding}x" if padding else code
