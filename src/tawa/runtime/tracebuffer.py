"""Device memory that kernels write their timelines to: one region for each recorder."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

from tawa.runtime import driver

HEADER_WORDS = 16

STORED = 4
"""Words that kernels store together: records are a multiple of it long."""

LONGEST_RECORD = 512
"""Bytes that a region keeps free: nothing is begun beyond."""


class TraceBuffer:
    """Regions of a power of two bytes, aligned to it, for the recorders of the first CTAs."""

    def __init__(self, device: int, ctas: int, recorders: int, region_bytes: int) -> None:
        self.device, self.ctas, self.recorders = device, ctas, recorders
        self.region_bytes = region_bytes
        size = region_bytes * (self.regions + 1)
        with driver.on_device(device):
            address = driver.checked("cuMemAlloc", size)
        self.first = -(-int(address) // region_bytes) * region_bytes
        self.free = weakref.finalize(self, _free, device, address)
        """Give the memory back; done at the latest when the buffer is no longer used."""
        self.free.atexit = False  # the driver may be gone by then, and the memory with it
        self._stream = 0
        self._seen: dict[tuple[int, int], bytes] | None = None

    @property
    def regions(self) -> int:
        """How many there are."""
        return self.ctas * self.recorders

    @property
    def parameters(self) -> tuple[int, int, int]:
        """The kernel's parameters: address, CTAs, and the bits not all set while there is room."""
        return self.first, self.ctas, self.region_bytes - LONGEST_RECORD

    def clear(self, stream: int) -> None:
        """Mark all regions as not written."""
        size = (HEADER_WORDS, self.regions)
        with driver.on_device(self.device):
            driver.checked("cuMemsetD2D32Async", self.first, self.region_bytes, 0, *size, stream)

    def written(self, stream: int) -> None:
        """A kernel that writes here was launched on a stream."""
        self._stream, self._seen = stream, None

    def read(self) -> dict[tuple[int, int], bytes]:
        """Every region by CTA and recorder, once the last kernel is done.

        Raises `DriverFailure` if it failed.
        """
        if self._seen is None:
            data = bytearray(self.regions * self.region_bytes)
            with driver.on_device(self.device):
                driver.checked("cuStreamSynchronize", self._stream)
                driver.checked("cuMemcpyDtoH", _address(data), self.first, len(data))
            parts = memoryview(data)
            self._seen = {
                (number // self.recorders, number % self.recorders): bytes(
                    parts[number * self.region_bytes : (number + 1) * self.region_bytes]
                )
                for number in range(self.regions)
            }
        return self._seen


def _address(data: bytearray) -> int:
    return ctypes.addressof((ctypes.c_char * len(data)).from_buffer(data))


def _free(device: int, address: Any) -> None:
    with driver.on_device(device):
        driver.checked("cuMemFree", address)
