"""Reads the description of an array out of a DLPack capsule (DLPack 1.1, `dlpack.h`).

The array is only looked at: the capsule stays unconsumed and frees itself, and the caller keeps
the exporting object alive.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from tawa.base.indices import contiguous_strides

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
"""DLPack device types whose memory is known here."""

_CODES = {0: "i", 1: "u", 2: "f", 4: "bf", 6: "i"}
_FLOAT8 = {10: "e4m3", 12: "e5m2"}


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("index", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_uint64),
        ("device", _Device),
        ("rank", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


class Described(NamedTuple):
    """An array's pointer, element type (`f16`, or `f12` for one unknown here), shape and place.

    Strides count elements. `device` is the CUDA device's index, -1 for the host's memory.
    """

    pointer: int
    element_type: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: int


def describe(array: Any) -> Described:
    """What DLPack says of `array`; its pending work is not waited for."""
    capsule = _capsule(array)
    tensor = _tensor(capsule)
    rank = tensor.rank
    shape = tuple(tensor.shape[axis] for axis in range(rank))
    strides = tuple(tensor.strides[axis] for axis in range(rank)) if tensor.strides else None
    on_device = tensor.device.type in (CUDA, CUDA_MANAGED)
    return Described(
        tensor.data + tensor.byte_offset,
        _element_type(tensor.dtype),
        shape,
        strides if strides is not None else contiguous_strides(shape),
        tensor.device.index if on_device else -1,
    )


def _capsule(array: Any) -> Any:
    """The array's capsule, without waiting for its stream where the library knows how."""
    if array.__dlpack_device__()[0] not in (CUDA, CUDA_MANAGED):
        return array.__dlpack__()
    try:
        return array.__dlpack__(stream=-1)
    except (TypeError, ValueError, RuntimeError, BufferError):
        return array.__dlpack__()


def _tensor(capsule: Any) -> Any:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    valid = ctypes.pythonapi.PyCapsule_IsValid
    valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    if valid(capsule, b"dltensor_versioned"):
        return _Versioned.from_address(pointer(capsule, b"dltensor_versioned")).tensor
    return _Tensor.from_address(pointer(capsule, b"dltensor"))


def _element_type(dtype: Any) -> str:
    if dtype.code in _FLOAT8 and dtype.lanes == 1:
        return _FLOAT8[dtype.code]
    name = "bf16" if dtype.code == 4 else f"{_CODES.get(dtype.code, 'code')}{dtype.bits}"
    if dtype.code == 6:
        name = "i1"
    return name if dtype.lanes == 1 else f"{name}x{dtype.lanes}"
