"""Memory and kernels of a CUDA device, through the driver."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tawa.cuppl.gpu.blocks import locked_words, memory
from tawa.cuppl.gpu.source import BLOCK
from tawa.runtime import driver
from tawa.runtime.nvrtc import compile_cuda
from tawa.runtime.peers import enable_access

__all__ = ["CudaDevice", "Device", "devices_together"]

KERNELS = (
    "begin", "advance", "resample", "widen", "run_all", "move_heap", "run_chains",
    "weigh_share", "decide_share", "count_share", "copy_share", "turn_share",
)  # fmt: skip


class Device(Protocol):
    """What the driver of SMC needs of a device; addresses are integers."""

    block: int
    warp: int
    warps: int
    """Warps of chains that run as fast as one alone: two for each scheduler."""
    together: bool
    """Whether all lanes of a warp share a chain."""
    stack_words: int
    """Words of the stack of a lane, at least."""
    stack_bytes: int
    """All stacks of lanes together may take so much where that gives them more words."""
    patience: int
    """Particles that may find the pool full before the others are left for the next launch."""
    pool_words: int
    """Words of each overflow pool, at first."""
    heap_words: int
    """Words of the heap for each particle, at first."""

    def resident(self, kernel: str) -> int:
        """Blocks of a kernel that run at once."""
        ...

    def synchronize(self) -> None:
        """Wait for everything launched before."""
        ...

    def allocate(self, size: int) -> int:
        """Some bytes, zeroed."""
        ...

    def free(self, address: int) -> None:
        """Give them back."""
        ...

    def host(self, words: int) -> npt.NDArray[np.int64]:
        """Words of the host that are copied fast, with any content."""
        ...

    def write(self, address: int, data: npt.NDArray[Any], wait: bool = True) -> None:
        """Copy to the device; without `wait`, data may not change until something is read."""
        ...

    def read(self, address: int, data: npt.NDArray[Any]) -> None:
        """Copy from the device, after everything launched before has ended."""
        ...

    def move(self, target: int, source: int, size: int) -> None:
        """Copy on the device."""
        ...

    def launch(self, steps: Sequence[tuple[str, int, int]], control: int) -> None:
        """Launch kernels, one after the other: (name, number of blocks, argument)."""
        ...


@cache
def compiled(source: str, target: str) -> bytes:
    """Machine code; no contraction, so that results are those of the CPU."""
    return compile_cuda(source, target, name="cuppl.cu", options=("--fmad=false",)).cubin


class CudaDevice:
    """One GPU with a program's kernels."""

    warp = 32
    stack_words = 128
    stack_bytes = 280 << 20
    patience = 1 << 12
    pool_words = 1 << 16
    heap_words = 32

    def __init__(
        self, source: str, index: int = 0, block: int = BLOCK, together: bool = False
    ) -> None:
        self.block, self.index, self.together = block, index, together
        self.device = driver.device(index)
        self.use()
        major, minor = self.device.capability
        target = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
        self.cubin = compiled(source, target)
        self.library = driver.checked("cuLibraryLoadData", self.cubin, [], [], 0, [], [], 0)
        self.warps = 8 * self.device.multiprocessors
        self.functions: dict[str, Any] = {}
        for name in KERNELS:
            status, kernel = driver.bindings().cuLibraryGetKernel(self.library, name.encode())
            if int(status) == 0:
                self.functions[name] = driver.checked("cuKernelGetFunction", kernel)
        self.stream = driver.checked("cuStreamCreate", 1)
        self.graphs: dict[tuple[tuple[tuple[str, int, int], ...], int], Any] = {}
        self.sizes: dict[int, int] = {}
        self.event: Any = None
        """After what was launched last; it makes no times."""

    def use(self) -> None:
        """Make this the device of the calls that follow."""
        driver.make_current(self.index)

    def mark(self) -> Any:
        """An event after all that was launched so far."""
        if self.event is None:
            self.event = driver.checked("cuEventCreate", 2)
        driver.checked("cuEventRecord", self.event, self.stream)
        return self.event

    def wait(self, event: Any) -> None:
        """Let what is launched from now on come after another device's event."""
        driver.checked("cuStreamWaitEvent", self.stream, event, 0)

    def allocate(self, size: int) -> int:
        """Some bytes, zeroed."""
        address = memory(self.index).take(max(size, 8))
        driver.checked("cuMemsetD8Async", address, 0, max(size, 8), self.stream)
        self.sizes[address] = size
        return address

    def host(self, words: int) -> npt.NDArray[np.int64]:
        """Words of page-locked memory, while there is some."""
        return locked_words(words)

    @property
    def allocated(self) -> int:
        """Bytes in use."""
        return sum(self.sizes.values())

    def resident(self, kernel: str) -> int:
        """Blocks of a kernel that run at once."""
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        blocks = int(driver.checked(name, self.functions[kernel], self.block, 0))
        return max(1, blocks) * self.device.multiprocessors

    def synchronize(self) -> None:
        """Wait for everything launched before."""
        driver.checked("cuStreamSynchronize", self.stream)

    def free_bytes(self) -> int:
        """Free memory of the device, as the driver counts it."""
        memory(self.index).drop()
        return int(driver.checked("cuMemGetInfo"))

    def free(self, address: int) -> None:
        """Give memory back."""
        driver.checked("cuStreamSynchronize", self.stream)
        memory(self.index).give(address)
        self.sizes.pop(address, None)

    def write(self, address: int, data: npt.NDArray[Any], wait: bool = True) -> None:
        """Copy to the device."""
        driver.checked("cuMemcpyHtoDAsync", address, data.ctypes.data, data.nbytes, self.stream)
        if wait:
            driver.checked("cuStreamSynchronize", self.stream)

    def read(self, address: int, data: npt.NDArray[Any]) -> None:
        """Copy from the device."""
        driver.checked("cuMemcpyDtoHAsync", data.ctypes.data, address, data.nbytes, self.stream)
        driver.checked("cuStreamSynchronize", self.stream)

    def move(self, target: int, source: int, size: int) -> None:
        """Copy on the device."""
        driver.checked("cuMemcpyDtoDAsync", target, source, size, self.stream)

    def launch(self, steps: Sequence[tuple[str, int, int]], control: int) -> None:
        """Launch kernels; a longer sequence becomes a graph, which is kept."""
        if len(steps) < 3:
            self._launch(steps, control)
            return
        key = (tuple(steps), control)
        if key not in self.graphs:
            for graph in self.graphs.values():
                driver.checked("cuGraphExecDestroy", graph)
            self.graphs.clear()
            module = driver.bindings()
            mode = module.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
            driver.checked("cuStreamBeginCapture", self.stream, mode)
            self._launch(steps, control)
            graph = driver.checked("cuStreamEndCapture", self.stream)
            self.graphs[key] = driver.checked("cuGraphInstantiate", graph, 0)
            driver.checked("cuGraphDestroy", graph)
        driver.checked("cuGraphLaunch", self.graphs[key], self.stream)

    def _launch(self, steps: Sequence[tuple[str, int, int]], control: int) -> None:
        values = np.array([control, 0], dtype=np.int64)
        first = values.ctypes.data
        pointers = np.array([first, first + 8], dtype=np.uint64)
        for name, blocks, argument in steps:
            values[1] = argument
            driver.checked(
                "cuLaunchKernel", self.functions[name], blocks, 1, 1, self.block, 1, 1, 0,
                self.stream, pointers.ctypes.data, 0,
            )  # fmt: skip


def devices_together(source: str, count: int) -> list[CudaDevice]:
    """The first GPUs with a program's kernels. Raises NoDevice unless they reach each other."""
    found = [CudaDevice(source, index) for index in range(count)]
    for one in range(count):
        for other in range(count):
            if one != other and not driver.checked("cuDeviceCanAccessPeer", one, other):
                raise driver.NoDevice(f"device {one} can't reach the memory of device {other}")
    enable_access(count)
    found[0].use()
    return found
