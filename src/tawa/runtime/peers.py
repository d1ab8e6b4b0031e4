"""Copies between the devices of a host, in streams of their own, ordered by events.

Devices get access to each other's memory where they can; copies are then done by copy engines over
NVLink or PCIe, beside what the devices compute.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from math import prod
from typing import Any, TypeAlias

from tawa.runtime.arrays import ELEMENT_BYTES, ArrayView
from tawa.runtime.driver import bindings, checked, device, on_device
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
def copy_stream(index: int) -> Any:
    """The stream in which copies to a device are made."""
    with on_device(index):
        return checked("cuStreamCreate", NON_BLOCKING)


class Peers:
    """The streams of one call: what waits for what, on several devices."""

    def __init__(self, count: int) -> None:
        enable_access(count)
        self.devices = range(count)
        self.events: list[tuple[int, Any]] = []
        self.current = [current_stream("torch", index)() for index in self.devices]
        begun = [self.mark(index, self.current[index]) for index in self.devices]
        for index in self.devices:  # copies come after what was done before the call
            with self.stream(index, True, begun):
                pass

    @contextmanager
    def stream(self, index: int, copies: bool, events: Sequence[Any]) -> Generator[Any]:
        """A device's stream, for copies or its current one, which first waits for events.

        The device is current inside of the context.
        """
        with on_device(index):
            stream = copy_stream(index) if copies else self.current[index]
            for event in events:
                checked("cuStreamWaitEvent", stream, event, 0)
            yield stream

    def mark(self, index: int, stream: Any) -> Any:
        """An event after all that a stream of a device has to do so far."""
        with on_device(index):
            free = _free_events(index)
            event = free.pop() if free else checked("cuEventCreate", NO_TIMING)
            checked("cuEventRecord", event, stream)
        self.events.append((index, event))
        return event

    def copy(self, rows: Sequence[tuple[Rows, Rows]], stream: Any) -> None:
        """Copy rows of as many bytes, to the device whose stream this is."""
        for source, target in rows:
            _copy_rows(source, target, stream)

    def join(self) -> None:
        """Let all devices' streams wait for all copies, and be done with the events."""
        copied = [self.mark(index, copy_stream(index)) for index in self.devices]
        for index in self.devices:
            with self.stream(index, False, copied):
                pass
        for index, event in self.events:  # what waits for one waits for what it meant then
            _free_events(index).append(event)
        self.events.clear()


@cache
def _free_events(index: int) -> list[Any]:
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


def _copy_rows(source: Rows, target: Rows, stream: Any) -> None:
    """One copy of rows of as many bytes; the driver finds out whose memory it is."""
    driver = bindings()
    if source[3] == 1 or source[1] == target[1] == source[2]:
        checked("cuMemcpyAsync", target[0], source[0], source[2] * source[3], stream)
        return
    given = driver.CUDA_MEMCPY2D()
    given.srcMemoryType = given.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_UNIFIED
    given.srcDevice, given.srcPitch = source[0], source[1]
    given.dstDevice, given.dstPitch = target[0], target[1]
    given.WidthInBytes, given.Height = source[2], source[3]
    checked("cuMemcpy2DAsync", given, stream)
