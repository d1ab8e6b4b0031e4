"""What stands for Triton's own modules, besides its language, where Triton is not installed.

Files of kernels import more than they use: the tuner's classes, the errors of a compilation, the
driver that knows the device. All mean here what they mean in Triton, as far as it goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from tawa.base.errors import TawaError
from tawa.base.target import SM90A
from tawa.language.host import constexpr_function
from tawa.runtime import driver, timing

LEVEL = "3.6.0"
"""The version of Triton whose language is understood."""


class ActiveDriver:
    """`triton.runtime.driver.active`: the device that launches go to."""

    def get_current_device(self) -> int:
        """The number of the current device; 0 where none is in use, as with the simulator."""
        try:
            return driver.current_device() or 0
        except driver.NoDevice:
            return 0

    def get_current_target(self) -> SimpleNamespace:
        """What kernels are compiled for."""
        return SimpleNamespace(backend="cuda", arch=90, warp_size=32)

    @property
    def utils(self) -> SimpleNamespace:
        """Functions that ask for a device's properties."""
        return SimpleNamespace(get_device_properties=device_properties)


def device_properties(device: int = 0) -> dict[str, int]:
    """Properties of a device under Triton's names: sizes in bytes, counts."""
    del device  # they are those of the one target
    return {
        "multiprocessor_count": SM90A.multiprocessors,
        "max_shared_mem": SM90A.shared_bytes,
        "max_num_regs": SM90A.registers,
        "warpSize": 32,
    }


def _no_allocator(allocator: Any) -> None:
    """`triton.set_allocator`: descriptors need no memory of their own here."""
    del allocator


def contents(package: Any) -> Mapping[str, Mapping[str, Any]]:
    """The names in each module; `package` is Tawa itself."""
    shared = ("Config", "autotune", "cdiv", "heuristics", "jit", "next_power_of_2")
    own = {name: getattr(package, name) for name in shared}
    tuner = {name: getattr(package, name) for name in ("Autotuner", "Heuristics", *shared[:2])}
    errors = {"OutOfResources": TawaError}
    compilation = {"CompilationError": TawaError}
    active = {"active": ActiveDriver()}
    functions = {"JITFunction": package.Kernel, "jit": package.jit}
    more = {
        "__version__": LEVEL,
        "constexpr_function": constexpr_function,
        "set_allocator": _no_allocator,
    }
    return {
        "triton": {**own, **more, **compilation, **errors, "JITFunction": package.Kernel},
        "triton.compiler": compilation,
        "triton.compiler.errors": compilation,
        "triton.runtime": {**tuner, **errors, **functions},
        "triton.runtime.autotuner": {**tuner, **errors},
        "triton.runtime.driver": active,
        "triton.runtime.errors": errors,
        "triton.runtime.jit": functions,
        "triton.testing": {"do_bench": timing.do_bench},
        "triton.tools": {},
        "triton.tools.tensor_descriptor": {"TensorDescriptor": package.TensorDescriptor},
    }
