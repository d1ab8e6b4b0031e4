"""The CUDA driver: devices, contexts, loaded cubins, and the entry points of the hot path.

What runs once a kernel goes through `cuda.bindings`. The two functions that run once a launch,
`cuLaunchKernelEx` and `cuTensorMapEncodeTiled`, are called through `ctypes` with arguments that
are laid out beforehand, which takes a fraction of the time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from tawa.base.errors import TawaError
from tawa.machine.chips import DEFAULT, Chip, chip_of

INVALID_CONTEXT = (3, 201)
"""`CUDA_ERROR_NOT_INITIALIZED` and `CUDA_ERROR_INVALID_CONTEXT`: this thread has no context yet."""


class NoDevice(TawaError):
    """There is no usable NVIDIA GPU, or no driver for it."""

    explanation = (
        "Launching needs an NVIDIA GPU and its driver. Without them, pass NumPy arrays: the same "
        "kernel then runs in the simulator. Compiling needs neither."
    )


class DriverFailure(TawaError):
    """A call of the CUDA driver failed."""

    explanation = (
        "The message names the driver's function and its error. An error of an earlier, "
        "asynchronous kernel (an illegal address, say) shows at whatever is called next; set "
        "`CUDA_LAUNCH_BLOCKING=1` to see it where it happens."
    )


class WrongArchitecture(TawaError):
    """A kernel was compiled for another GPU architecture than the device's."""

    explanation = "A cubin runs on one architecture only: `sm_90a` is Hopper (H100, H200, H800)."
    example = """
from tawa.runtime.driver import Device

Device(0, "NVIDIA A100", (8, 0), multiprocessors=108, context=0).require("sm_90a")
"""


@dataclass(frozen=True)
class Device:
    """One CUDA device; `context` is the address of its primary context."""

    index: int
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    context: int

    def require(self, target: str) -> None:
        """Raise `WrongArchitecture` unless the device runs machine code for `target`."""
        major, minor = self.capability
        if target.removeprefix("sm_").rstrip("af") != f"{major}{minor}":
            raise WrongArchitecture(
                f"a kernel for {target} can't run on device {self.index}",
                expected=f"a device of architecture {target}",
                found=f"{self.name}, sm_{major}{minor}",
            )


@cache
def bindings() -> Any:
    """`cuda.bindings.driver`, initialised. Raises `NoDevice`."""
    try:
        module: Any = import_module("cuda.bindings.driver")
        status = module.cuInit(0)[0]
    except (ImportError, RuntimeError, OSError) as error:
        raise NoDevice("the CUDA driver can't be loaded", found=str(error)) from error
    if int(status) != 0:
        raise NoDevice("the CUDA driver finds no device", found=str(status))
    return module


def checked(name: str, *arguments: Any) -> Any:
    """Call driver function `name`; its one result, or None. Raises `DriverFailure`."""
    status, *values = getattr(bindings(), name)(*arguments)
    if int(status) != 0:
        raise DriverFailure(f"{name} failed", found=describe_status(int(status)))
    return values[0] if values else None


def describe_status(status: int) -> str:
    """The driver's name and description of an error code."""
    module = bindings()
    code = module.CUresult(status)
    name, text = module.cuGetErrorName(code)[1], module.cuGetErrorString(code)[1]
    return f"{name.decode()} ({text.decode()})" if name and text else f"error {status}"


@cache
def device_count() -> int:
    """How many CUDA devices there are; 0 without a driver."""
    try:
        return int(checked("cuDeviceGetCount"))
    except NoDevice:
        return 0


@cache
def device(index: int = 0) -> Device:
    """Device `index`, with its primary context retained. Raises `NoDevice`."""
    if index >= device_count():
        bindings()
        raise NoDevice(f"there is no CUDA device {index}", found=f"{device_count()} devices")
    handle = checked("cuDeviceGet", index)
    attribute = bindings().CUdevice_attribute
    major, minor, multiprocessors = (
        int(
            checked(
                "cuDeviceGetAttribute", getattr(attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), handle
            )
        )
        for name in (
            "COMPUTE_CAPABILITY_MAJOR",
            "COMPUTE_CAPABILITY_MINOR",
            "MULTIPROCESSOR_COUNT",
        )
    )
    context = int(checked("cuDevicePrimaryCtxRetain", handle))
    return Device(index, _name(index), (major, minor), multiprocessors, context)


def _name(index: int) -> str:
    handle = checked("cuDeviceGet", index)
    return bytes(checked("cuDeviceGetName", 256, handle)).split(b"\0")[0].decode()


@cache
def chip(index: int = 0) -> Chip:
    """The chip of device `index`, `DEFAULT` without one. Makes no context."""
    return chip_of(_name(index)) if index < device_count() else DEFAULT


def current_device() -> int | None:
    """The device of the calling thread's context; None if it has none."""
    found = ctypes.c_int()
    return found.value if entry_points().cuCtxGetDevice(ctypes.byref(found)) == 0 else None


def make_current(index: int) -> None:
    """Make the primary context of device `index` the calling thread's current one."""
    checked("cuCtxSetCurrent", bindings().CUcontext(device(index).context))


@contextmanager
def on_device(index: int) -> Generator[None]:
    """Make device `index` the calling thread's current one inside this context.

    A thread that has no context yet keeps that device's primary context afterwards.
    """
    before = current_device()
    if before == index:
        yield
        return
    if before is None:
        make_current(index)
        yield
        return
    checked("cuCtxPushCurrent", bindings().CUcontext(device(index).context))
    try:
        yield
    finally:
        checked("cuCtxPopCurrent")


def load(cubin: bytes, entry: str) -> tuple[Any, Any]:
    """Load a cubin; the library (to keep alive) and the handle of its kernel `entry`."""
    library = checked("cuLibraryLoadData", cubin, [], [], 0, [], [], 0)
    return library, checked("cuLibraryGetKernel", library, entry.encode())


def allow_shared_bytes(kernel: Any, count: int, index: int) -> None:
    """Let `kernel` use `count` bytes of dynamic shared memory on device `index`."""
    attribute = bindings().CUfunction_attribute
    name = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    checked("cuKernelSetAttribute", name, count, kernel, checked("cuDeviceGet", index))


def max_clusters(
    kernel: Any, cluster: tuple[int, int, int], threads: int, shared_bytes: int
) -> int:
    """Clusters of `kernel` that the current device runs at once."""
    module = bindings()
    attribute = module.CUlaunchAttribute()
    attribute.id = module.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    shape = attribute.value.clusterDim
    shape.x, shape.y, shape.z = cluster
    config = module.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = cluster
    config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
    config.sharedMemBytes = shared_bytes
    config.attrs, config.numAttrs = [attribute], 1
    return int(checked("cuOccupancyMaxActiveClusters", module.CUfunction(int(kernel)), config))


PLACEHOLDER_BYTES = 256


@cache
def placeholder(index: int) -> int:
    """The address of a few zero bytes on device `index`, allocated once."""
    with on_device(index):
        address = checked("cuMemAlloc", PLACEHOLDER_BYTES)
        checked("cuMemsetD8", address, 0, PLACEHOLDER_BYTES)
    return int(address)


@cache
def entry_points() -> ctypes.CDLL:
    """The driver's library, for the functions of the hot path."""
    bindings()
    return ctypes.CDLL("libcuda.so.1")
