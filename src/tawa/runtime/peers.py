"""Copies between the devices of a host, in streams of their own, ordered by events.

Devices get access to each other's memory where they can; copies are then done by copy engines over
NVLink or PCIe, beside what the devices compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any, TypeAlias

from tawa.runtime.arrays import ELEMENT_BYTES, ArrayView, view
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
        self.events: list[Any] = []
        self.current = [current_stream("torch", index) for index in self.devices]
        for index in self.devices:  # copies come after what was done before the call
            begun = self.mark(index)
            for other in self.devices:
                self._wait(copy_stream(other), begun, other)

    def allocated(self, index: int) -> None:
        """Let copies to a device wait for its stream, in whose order memory is given out."""
        self._wait(copy_stream(index), self.mark(index), index)

    def mark(self, index: int) -> Any:
        """An event after all that a device's stream has to do so far."""
        return self._record(index, self.current[index]())

    def wait(self, index: int, events: Sequence[Any]) -> None:
        """Let a device's stream wait for events."""
        for event in events:
            self._wait(self.current[index](), event, index)

    def copy(self, source: Any, target: Any, index: int, events: Sequence[Any]) -> Any:
        """Copy an array to one of its shape on a device, after events; gives the copy's event."""
        stream = copy_stream(index)
        for event in events:
            self._wait(stream, event, index)
        with on_device(index):
            for one, other in rows_of(view(source), view(target)):
                _copy_rows(one, other, stream)
        return self._record(index, stream)

    def join(self) -> None:
        """Let all devices' streams wait for all copies, and be done with the events."""
        events = [self._record(index, copy_stream(index)) for index in self.devices]
        for index in self.devices:
            self.wait(index, events)
        for event in self.events:  # what waits for them goes on waiting
            checked("cuEventDestroy", event)
        self.events.clear()

    def _record(self, index: int, stream: Any) -> Any:
        with on_device(index):
            event = checked("cuEventCreate", NO_TIMING)
            checked("cuEventRecord", event, stream)
        self.events.append(event)
        return event

    def _wait(self, stream: Any, event: Any, index: int) -> None:
        with on_device(index):
            checked("cuStreamWaitEvent", stream, event, 0)


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
