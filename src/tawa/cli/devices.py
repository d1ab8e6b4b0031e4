"""The driver and the GPUs of this machine, as `tawa doctor` and `tawa --version` say them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

State = Literal["ok", "missing", "optional"]


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was looked for, its state, what was found and what to do."""

    name: str
    state: State
    detail: str
    remedy: str = ""


def device_findings() -> Iterator[Finding]:
    """The driver and its GPUs, or that there is none."""
    driver = _driver()
    remedy = "kernels can be compiled and simulated, not launched"
    try:
        _value(driver.cuInit(0))
        cuda_version = int(_value(driver.cuDriverGetVersion()))
        count = int(_value(driver.cuDeviceGetCount()))
    except (RuntimeError, ImportError, OSError) as error:
        found = str(error) if "driver answers" in str(error) else "no NVIDIA driver"
        yield Finding("driver", "optional", found, remedy)
        return
    supported = f"{cuda_version // 1000}.{cuda_version % 1000 // 10}"
    if cuda_version >= 13000:
        yield Finding("driver", "ok", f"for CUDA {supported}")
    else:
        yield Finding("driver", "optional", f"for CUDA {supported}", "CUDA 13 needs 580 or later")
    for index in range(count):
        yield _gpu(index)


def _gpu(index: int) -> Finding:
    driver = _driver()
    kind = driver.CUdevice_attribute
    device = _value(driver.cuDeviceGet(index))
    name = bytes(_value(driver.cuDeviceGetName(128, device))).split(b"\0")[0].decode()
    major, minor, processors = (
        int(_value(driver.cuDeviceGetAttribute(attribute, device)))
        for attribute in (
            kind.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            kind.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            kind.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        )
    )
    detail = f"{name}, compute capability {major}.{minor}, {processors} multiprocessors"
    if (major, minor) == (9, 0):
        return Finding(f"GPU {index}", "ok", detail)
    return Finding(f"GPU {index}", "optional", detail, "kernels run on compute capability 9.0")


def _driver() -> Any:
    return import_module("cuda.bindings.driver")


def _value(result: tuple[Any, ...]) -> Any:
    """The value of a driver call. Raises RuntimeError with the driver's word for a failure."""
    if int(result[0]) != 0:
        raise RuntimeError(f"the driver answers {result[0].name}")
    return result[1] if len(result) > 1 else None
