"""Triton and libraries above it on a machine without a GPU: they compile, and nothing runs.

`pretend()` gives Triton a driver that knows its target, an H100, and answers the questions that
libraries ask PyTorch about a device when they are imported.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

TARGET = GPUTarget("cuda", 90, 32)
PROPERTIES = {
    "name": "NVIDIA H100 80GB HBM3",
    "multi_processor_count": 132,
    "multiprocessor_count": 132,
    "max_shared_mem": 232448,
    "shared_memory_per_block": 49152,
    "shared_memory_per_block_optin": 232448,
    "warpSize": 32,
    "max_num_regs": 65536,
    "total_memory": 80 * 2**30,
    "major": 9,
    "minor": 0,
    "L2_cache_size": 50 * 2**20,
}


class StandIn:
    """What Triton asks its active driver for, short of launching."""

    utils = SimpleNamespace(get_device_properties=lambda device=0: PROPERTIES)

    @staticmethod
    def is_active() -> bool:
        """Whether this driver can be used."""
        return True

    def get_current_target(self) -> GPUTarget:
        """What is compiled for."""
        return TARGET

    def get_current_device(self) -> int:
        """The number of the device."""
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        """The default stream."""
        return 0

    def get_active_torch_device(self) -> torch.device:
        """Where tensors lie."""
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """PyTorch's module of the device."""
        return torch.cuda

    def get_benchmarker(self) -> Callable[..., Any]:
        """Nothing is timed."""
        return lambda *args, **kwargs: [0.0] * 3


def pretend() -> None:
    """Let Triton and libraries take this machine for one with an H100, until the process ends."""
    triton.runtime.driver.set_active(StandIn())
    properties = SimpleNamespace(**PROPERTIES)
    answers: dict[str, Any] = {
        "get_device_name": PROPERTIES["name"],
        "get_device_capability": (9, 0),
        "get_device_properties": properties,
        "current_device": 0,
        "device_count": 1,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *_, answer=answer, **__: answer)
