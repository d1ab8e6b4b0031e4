"""Copies between the devices of a host, in streams of their own, ordered by events.

Devices get access to each other's memory where they can; copies are then done by copy engines over
NVLink or PCIe, beside what the devices compute.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import NamedTuple, TypeAlias

from tawa.runtime.arrays import ELEMENT_BYTES, ArrayView
from tawa.runtime.driver import (
    DriverFailure,
    bindings,
    checked,
    current_device,
    describe_status,
    device,
    make_current,
    on_device,
)
from tawa.runtime.streams import current_stream

NO_TIMING = 2
"""CU_EVENT_DISABLE_TIMING"""
NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING"""

Rows: TypeAlias = tuple[int, int, int, int]
"""The address of a first row, bytes from one to the next, bytes of a row, and how many."""


@cache
def enable_access(count: int) -> None:
    """Let the first `count` devices reach each other's memory, where they can."""
    driver = bindings()
    for one in range(count):
        for other in range(count):
            if one == other or not checked("cuDeviceCanAccessPeer", one, other):
                continue
            with on_device(one):
                status = driver.cuCtxEnablePeerAccess(driver.CUcontext(device(other).context), 0)[0]
            if status != driver.CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED and int(status):
                checked("cuCtxEnablePeerAccess", driver.CUcontext(device(other).context), 0)


@cache
def copy_stream(index: int) -> int:
    """The stream in which copies to a device are made."""
    with on_device(index):
        return int(checked("cuStreamCreate", NON_BLOCKING))


class Peers:
    """The streams of one call: what waits for what, on several devices.

    Inside of its context a device is current once it is used; afterwards the one that was before.
    """

    def __init__(self, count: int) -> None:
        enable_access(count)
        self.devices = range(count)
        self.events: list[tuple[int, int]] = []
        self.current = [current_stream("torch", index)() for index in self.devices]
        self.contexts = [device(index).context for index in self.devices]
        self.at: int | None = None
        self.points = points()

    def __enter__(self) -> Peers:
        """Let copies come after what was done before the call."""
        self.before = current_device()
        self.at = self.before
        begun = [self.mark(index, self.current[index]) for index in self.devices]
        for index in self.devices:
            stream = self.use(index, copies=True)
            for event in begun:
                self.wait(stream, event)
        return self

    def __exit__(self, *_: object) -> None:
        """Let all devices' streams wait for all copies, and be done with the events."""
        try:
            copied = [self.mark(i, self.use(i, copies=True)) for i in self.devices]
            for index in self.devices:
                stream = self.use(index, copies=False)
                for event in copied:
                    self.wait(stream, event)
        finally:
            for index, event in self.events:  # what waits for one waits for what it meant then
                _free_events(index).append(event)
            self.events.clear()
            if self.at != self.before:
                make_current(self.before or 0)

    def use(self, index: int, *, copies: bool) -> int:
        """A device's stream, for copies or its current one; the device is current from now on."""
        if self.at != index:
            _done(self.points.set_current(self.contexts[index]), "cuCtxSetCurrent")
            self.at = index
        return copy_stream(index) if copies else self.current[index]

    def wait(self, stream: int, event: int) -> None:
        """Let a stream wait for an event."""
        _done(self.points.wait(stream, event, 0), "cuStreamWaitEvent")

    def mark(self, index: int, stream: int) -> int:
        """An event after all that a stream of a device has to do so far."""
        self.use(index, copies=False)
        free = _free_events(index)
        event = free.pop() if free else int(checked("cuEventCreate", NO_TIMING))
        _done(self.points.record(event, stream), "cuEventRecord")
        self.events.append((index, event))
        return event

    def copy(self, rows: Sequence[tuple[Rows, Rows]], bases: tuple[int, int], stream: int) -> None:
        """Copy rows of as many bytes, to the device whose stream this is.

        `bases` are the addresses that the rows' addresses are counted from.
        """
        for source, target in rows:
            first, to = source[0] + bases[0], target[0] + bases[1]
            if source[3] == 1 or source[1] == target[1] == source[2]:
                _done(self.points.copy(to, first, source[2] * source[3], stream), "cuMemcpyAsync")
            else:
                _copy_pitched((first, *source[1:]), (to, *target[1:]), stream)


class Points(NamedTuple):
    """The driver's functions that a call of several devices uses often."""

    set_current: Callable[..., int]
    wait: Callable[..., int]
    record: Callable[..., int]
    copy: Callable[..., int]


@cache
def points() -> Points:
    """These functions, by `ctypes`, which takes a fraction of the time of `checked`."""
    bindings()
    library, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p
    found = Points(
        library.cuCtxSetCurrent, library.cuStreamWaitEvent, library.cuEventRecord,
        library.cuMemcpyAsync,
    )  # fmt: skip
    library.cuCtxSetCurrent.argtypes = (address,)
    library.cuStreamWaitEvent.argtypes = (address, address, ctypes.c_uint)
    library.cuEventRecord.argtypes = (address, address)
    library.cuMemcpyAsync.argtypes = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, address)
    return found


def _done(status: int, name: str) -> None:
    if status:
        raise DriverFailure(f"{name} failed", found=describe_status(status))


@cache
def _free_events(index: int) -> list[int]:
    """Events of a device that nobody uses."""
    return []


def rows_of(source: ArrayView, target: ArrayView) -> list[tuple[Rows, Rows]]:
    """Two arrays of one shape as sets of rows, each of which one copy moves."""
    size, shape = ELEMENT_BYTES[source.element_type], source.shape
    rank, tail = len(shape), 1
    while rank and all(_is_packed(array, rank - 1, tail) for array in (source, target)):
        tail *= shape[rank - 1]
        rank -= 1
    count = shape[rank - 1] if rank else 1
    if not prod(shape):
        return []
    found: list[tuple[Rows, Rows]] = []
    for place in range(prod(shape[: max(rank - 1, 0)])):
        pair: list[Rows] = []
        for array in (source, target):
            offset, rest = 0, place
            for d in reversed(range(rank - 1)):
                offset += rest % shape[d] * array.strides[d]
                rest //= shape[d]
            pitch = array.strides[rank - 1] * size if rank else tail * size
            pair.append((array.pointer + offset * size, pitch, tail * size, count))
        found.append((pair[0], pair[1]))
    return found


def _is_packed(array: ArrayView, d: int, tail: int) -> bool:
    return array.shape[d] == 1 or array.strides[d] == tail


def _copy_pitched(source: Rows, target: Rows, stream: int) -> None:
    """One copy of rows that do not lie behind each other; the driver finds out whose they are."""
    driver = bindings()
    given = driver.CUDA_MEMCPY2D()
    given.srcMemoryType = given.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_UNIFIED
    given.srcDevice, given.srcPitch = source[0], source[1]
    given.dstDevice, given.dstPitch = target[0], target[1]
    given.WidthInBytes, given.Height = source[2], source[3]
    checked("cuMemcpy2DAsync", given, stream)
