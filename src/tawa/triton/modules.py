"""What stands for Triton's own modules, besides its language, where Triton is not installed.

Files of kernels import more than they use: the tuner's classes, the errors of a compilation, the
driver that knows the device. All mean here what they mean in Triton, as far as it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from tawa.base.errors import TawaError
from tawa.machine.target import SM90A
from tawa.runtime import driver, timing
from tawa.runtime.autotune import Autotuner, Config

LEVEL = "3.6.0"
"""The version of Triton whose language is understood."""


@dataclass(frozen=True)
class GPUTarget:
    """What kernels are compiled for: `triton.backends.compiler.GPUTarget`."""

    backend: str = "cuda"
    arch: int | str = 90
    warp_size: int = 32


class TritonAutotuner(Autotuner):
    """The tuner with Triton's constructor and attributes, for packages that derive their own."""

    def __init__(
        self,
        fn: Any,
        arg_names: Sequence[str],
        configs: Sequence[Config],
        key: Sequence[str],
        reset_to_zero: Sequence[str] | None,
        restore_value: Sequence[str] | None,
        pre_hook: Callable[..., None] | None = None,
        post_hook: Callable[..., None] | None = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        warmup: float | None = None,
        rep: float | None = None,
        use_cuda_graph: bool = False,
        do_bench: Callable[..., Any] | None = None,
        cache_results: bool = False,
    ) -> None:
        del arg_names, use_cuda_graph, cache_results  # the kernel knows; timing needs no graph
        super().__init__(
            fn,
            configs or [Config({})],
            key,
            prune_configs_by=prune_configs_by,
            reset_to_zero=reset_to_zero,
            restore_value=restore_value,
            pre_hook=pre_hook,
            post_hook=post_hook,
            warmup=warmup,
            rep=rep,
            do_bench=do_bench,
        )
        self.keys = list(key)
        self.reset_to_zero, self.restore_value = (
            list(reset_to_zero or ()),
            list(restore_value or ()),
        )
        self.user_defined_pre_hook = pre_hook is not None
        self.user_defined_post_hook = post_hook is not None
        self.early_config_prune = (prune_configs_by or {}).get("early_config_prune")


def autotune(
    configs: Sequence[Config], key: Sequence[str], **options: Any
) -> Callable[[Any], TritonAutotuner]:
    """`triton.autotune`: a decorator that measures a kernel with each configuration."""
    reset, restore = options.pop("reset_to_zero", None), options.pop("restore_value", None)

    def decorate(fn: Any) -> TritonAutotuner:
        return TritonAutotuner(fn, fn.arg_names, configs, key, reset, restore, **options)

    return decorate


class ActiveDriver:
    """`triton.runtime.driver.active`: the device that launches go to."""

    def get_current_device(self) -> int:
        """The number of the current device; 0 where none is in use, as with the simulator."""
        try:
            return driver.current_device() or 0
        except driver.NoDevice:
            return 0

    def get_current_target(self) -> GPUTarget:
        """What kernels are compiled for."""
        return GPUTarget()

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
    shared = ("Config", "cdiv", "heuristics", "jit", "next_power_of_2")
    own = {name: getattr(package, name) for name in shared} | {"autotune": autotune}
    tuner = {"Autotuner": TritonAutotuner, "Heuristics": package.Heuristics, "Config": Config}
    tuner["autotune"] = autotune
    errors = {"OutOfResources": TawaError, "PTXASError": TawaError}
    compilation = {"CompilationError": TawaError, "CompileTimeAssertionFailure": TawaError}
    active = {"active": ActiveDriver()}
    functions = {"JITFunction": package.Kernel, "jit": package.jit}
    more = {
        "__version__": LEVEL,
        "constexpr_function": package.language.constexpr_function,
        "set_allocator": _no_allocator,
    }
    return {
        "triton": {**own, **more, **compilation, **errors, "JITFunction": package.Kernel},
        "triton.backends": {},
        "triton.backends.compiler": {"GPUTarget": GPUTarget},
        "triton.compiler": compilation,
        "triton.compiler.errors": compilation,
        "triton.runtime": {**tuner, **errors, **functions},
        "triton.runtime.autotuner": {**tuner, **errors},
        "triton.runtime.driver": active,
        "triton.runtime.errors": errors,
        "triton.runtime.jit": functions,
        "triton.testing": {"do_bench": timing.do_bench},
        "triton.tools": {},
        "triton.tools.experimental_descriptor": {},
        "triton.tools.tensor_descriptor": {"TensorDescriptor": package.TensorDescriptor},
    }
