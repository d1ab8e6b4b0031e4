"""Tensor maps: the 128 bytes that tell the copy engine how a tensor lies in memory.

CUDA driver API, "Tensor Map Object Management"; the numbers below are its enumerators.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeAlias

from tawa.base.errors import TawaError
from tawa.base.kernel_spec import TensorMapParam
from tawa.machine.chips import SM_90A
from tawa.runtime import driver
from tawa.runtime.arrays import ELEMENT_BYTES, ArrayView
from tawa.runtime.descriptor import ALIGNMENT, Geometry, NotBoxes, SizeOutOfRange, check

BYTES = SM_90A.tensor_map_bytes
MAP_ALIGNMENT = SM_90A.tensor_map_alignment
MAX_BOX = SM_90A.box_limit
CACHED = 1024
"""Tensor maps that are kept for each parameter of a kernel."""

DATA_TYPES: dict[str, int] = {
    "i1": 0,
    "i8": 0,
    "u8": 0,
    "e4m3": 0,
    "e5m2": 0,
    "u16": 1,
    "i16": 1,
    "u32": 2,
    "i32": 3,
    "u64": 4,
    "i64": 5,
    "f16": 6,
    "f32": 7,
    "f64": 8,
    "bf16": 9,
}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
L2_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}
FILLS = {"zero": 0, "nan": 1}

Encoder: TypeAlias = Callable[..., bytes]
"""Makes a tensor map of an address and a `Geometry`, or of an address, shape and strides."""

Encode: TypeAlias = Callable[..., int]
"""`cuTensorMapEncodeTiled`, or something that behaves like it."""


class TensorMapRejected(TawaError):
    """The driver can't make a tensor map of these numbers."""

    explanation = (
        "A tensor map's sizes, strides, box and swizzle have to fit the copy engine. The message "
        "lists the numbers; if they came from a kernel's own descriptor, check the limits that "
        "`tawa explain StrideNotAligned` and `tawa explain SizeOutOfRange` give. Maps of boxes "
        "that are loaded through pointers are not made with the option `bulk_copies=False`."
    )


class StoreNotAligned(NotBoxes):
    """A stored tensor's rows don't end at a multiple of 16 bytes."""

    explanation = (
        "The copy engine writes whole 16-byte pieces. Where a row ends inside one, it overwrites "
        "the rest of the piece with zeros, and that may be somebody else's data. A launch that "
        "finds such rows compiles the kernel once more, with stores through pointers. A compiled "
        "kernel that is launched by itself can't do that. Compile it with the argument's name in "
        "`through_pointers`, or describe rows that are a multiple of 16 bytes long (8 elements of "
        "16 bits). Loads have no such limit."
    )
    example_needs = "gpu"


def encoder(
    parameter: TensorMapParam, argument: str, encode: Encode, placeholder: Callable[[], int]
) -> Encoder:
    """A cached function that makes the tensor maps of one parameter.

    It takes an address and the descriptor's `Geometry` where the parameter takes its sizes from a
    descriptor; else an address, shape and strides in elements. `argument` is the argument's name,
    for errors. `placeholder` gives the address of 256 readable bytes on the device, which stand in
    for a tensor without elements.
    """
    check_box(parameter, argument)
    name = f"the tensor map of argument `{argument}`"

    def make(
        address: int, shape: tuple[int, ...], strides: tuple[int, ...], padding: str = "zero"
    ) -> bytes:
        seen = ArrayView(address, parameter.element_type, shape, strides, 0)
        try:
            check(seen, shape, strides, parameter.box, name)
        except NotBoxes as error:
            error.argument = argument if parameter.source == "array" else None
            raise
        if parameter.stored and shape[-1] * ELEMENT_BYTES[parameter.element_type] % ALIGNMENT:
            error = StoreNotAligned(
                f"{name} is written to, and its rows end inside a piece of {ALIGNMENT} bytes",
                expected=f"rows of a multiple of {ALIGNMENT} bytes",
                found=f"{shape[-1]} elements of {parameter.element_type}",
                hint=f"compile the kernel with through_pointers=({argument!r},), as a launch does",
            )
            error.argument = argument
            raise error
        if not address or not all(shape):
            address, shape = placeholder(), tuple(1 for _ in shape)
        chosen = parameter if padding == "zero" else replace(parameter, fill="nan")
        return _encode(chosen, argument, encode, address, shape, strides)

    def make_of_geometry(address: int, geometry: Geometry) -> bytes:
        return make(address, geometry.shape, geometry.strides, geometry.padding)

    return lru_cache(maxsize=CACHED)(make if parameter.shape is not None else make_of_geometry)


def check_box(parameter: TensorMapParam, argument: str) -> None:
    """Raise `SizeOutOfRange` unless the copy engine can move the parameter's box."""
    inner = parameter.box[-1] * ELEMENT_BYTES[parameter.element_type]
    limit = parameter.swizzle or MAX_BOX * ALIGNMENT
    if (
        any(not 1 <= size <= MAX_BOX for size in parameter.box)
        or inner % ALIGNMENT
        or inner > limit
    ):
        raise SizeOutOfRange(
            f"the box of argument `{argument}` is out of range",
            expected=f"sizes of 1 to {MAX_BOX}, the innermost a multiple of {ALIGNMENT} bytes and "
            f"at most {limit} bytes",
            found=f"box {parameter.box} of {parameter.element_type}, swizzle {parameter.swizzle}",
            hint="choose another block shape",
        )


def _encode(
    parameter: TensorMapParam,
    argument: str,
    encode: Encode,
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
) -> bytes:
    rank, size = len(shape), ELEMENT_BYTES[parameter.element_type]
    storage = (ctypes.c_uint8 * (BYTES + MAP_ALIGNMENT))()
    aligned = -(-ctypes.addressof(storage) // MAP_ALIGNMENT) * MAP_ALIGNMENT
    status = encode(
        ctypes.c_void_p(aligned),
        ctypes.c_int(DATA_TYPES[parameter.element_type]),
        ctypes.c_uint32(rank),
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*reversed(shape)),
        (ctypes.c_uint64 * max(1, rank - 1))(*byte_strides(shape, strides, size)),
        (ctypes.c_uint32 * rank)(*reversed(parameter.box)),
        (ctypes.c_uint32 * rank)(*(1 for _ in shape)),
        ctypes.c_int(0),
        ctypes.c_int(SWIZZLES[parameter.swizzle]),
        ctypes.c_int(L2_PROMOTIONS[parameter.l2_promotion]),
        ctypes.c_int(FILLS[parameter.fill]),
    )
    if status != 0:
        raise TensorMapRejected(
            f"no tensor map can describe argument `{argument}`",
            found=f"{parameter.element_type}, shape {shape}, strides {strides}, "
            f"box {parameter.box}, swizzle {parameter.swizzle}: {driver.describe_status(status)}",
        )
    return ctypes.string_at(aligned, BYTES)


def byte_strides(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> list[int]:
    """Strides in bytes, innermost first and without the innermost, as the driver takes them.

    The stride of a dimension of one element is never used; any that the driver accepts will do.
    """
    pairs = list(zip(shape, strides, strict=True))[:-1]
    return [ALIGNMENT if extent == 1 else stride * size for extent, stride in reversed(pairs)]


def driver_encode() -> Any:
    """The driver's `cuTensorMapEncodeTiled`."""
    return driver.entry_points().cuTensorMapEncodeTiled
