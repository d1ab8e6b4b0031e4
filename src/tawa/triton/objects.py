"""What stands around kernels in Triton: targets, compilations, drivers, settings, caches.

What has a meaning here has it; what has none says so when it is used, never before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from tawa.base.errors import TawaError
from tawa.base.target import GPUTarget
from tawa.driver.compile_cache import compiler_version
from tawa.driver.compiled import Compiled
from tawa.language.annotations import declaration_of
from tawa.runtime import driver, nvrtc
from tawa.runtime.streams import current_stream


class NotProvided(TawaError):
    """A name of Triton's was used that has no meaning where Tawa stands for Triton."""

    explanation = (
        "`tawa.provide_triton()` lets files that name any part of Triton be imported. Parts that "
        "belong to Triton's own compiler (its IR, its binaries, other GPUs) raise this error when "
        "they are called or constructed."
    )
    example = """
from tawa.triton.objects import missing

missing("triton.compiler.compiler.parse")()
"""


class OtherTarget(NotProvided):
    """A kernel is to be compiled for another kind of GPU."""

    explanation = (
        "Triton's `arch=`, `triton.knobs.runtime.override_arch` and targets of `triton.compile` "
        "choose a kind of GPU. Tawa compiles for compute capability 9.0, Hopper, only."
    )
    example = """
from tawa.triton.objects import require_hopper

require_hopper("sm80")
"""


def require_hopper(arch: Any) -> None:
    """Raise `OtherTarget` unless an architecture, as in `sm90` or 90, is the one there is."""
    capability = str(arch).removeprefix("sm").removeprefix("_").removesuffix("a")
    if capability != "90":
        raise OtherTarget(
            f"kernels can't be compiled for compute capability {capability}",
            expected="sm90",
            found=str(arch),
            hint="leave it out",
        )


def missing(name: str, base: type = object) -> type:
    """A class that can be imported and derived from, and says at its use that it is missing."""

    def refuse(self: Any, *_: Any, **__: Any) -> None:
        raise NotProvided(
            f"`{name}` has no meaning where Tawa stands for Triton",
            hint="install Triton, and use `tawa.enable()`",
        )

    short = name.rpartition(".")[2]
    return type(short, (base,), {"__init__": refuse, "__doc__": f"Stands for `{name}`."})


class Backend:
    """A compiler's backend, as far as it is asked what it is for."""

    def __init__(self, target: GPUTarget) -> None:
        if target.backend != "cuda":
            raise NotProvided(f"there is no backend for {target.backend}", expected="cuda")
        self.target = target
        self.binary_ext = "cubin"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Whether kernels can be compiled for a target."""
        return target.backend == "cuda" and str(target.arch) == "90"

    def hash(self) -> str:
        """A text that differs between versions that compile differently."""
        return f"tawa-{triton_key()}-{self.target.arch}"


def make_backend(target: GPUTarget) -> Backend:
    """The backend of a target. Raises `NotProvided`."""
    return Backend(target)


def triton_key() -> str:
    """A text that changes with the compiler."""
    return hashlib.sha256(f"tawa {compiler_version()}".encode()).hexdigest()


class Assembler:
    """What turns a kernel's PTX into machine code: it is inside NVRTC, so there is no program."""

    path = None

    @property
    def version(self) -> str:
        """Which PTX inline assembly may use, such as `13.0`."""
        return ".".join(nvrtc.version().split(".")[:2])


def get_ptxas(arch: int = 90) -> Assembler:
    """The assembler, whatever the architecture."""
    del arch
    return Assembler()


@dataclass
class ASTSource:
    """A kernel with what it is compiled for."""

    fn: Any
    signature: Mapping[str, str]
    constexprs: Mapping[Any, Any] = field(default_factory=dict[Any, Any])
    attrs: Mapping[Any, Any] = field(default_factory=dict[Any, Any])

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.fn.__name__

    def hash(self) -> str:
        """A text that differs between sources that compile differently."""
        parts = self.fn.cache_key, sorted(self.signature.items()), sorted(map(str, self.attrs))
        return hashlib.sha256(f"{parts}{self.constexprs}".encode()).hexdigest()

    def constants(self) -> dict[str, Any]:
        """The compile-time values by the parameters' names."""
        names = self.fn.arg_names
        return {_name(key, names): value for key, value in self.constexprs.items()}

    def types(self) -> dict[str, str]:
        """The types of the run-time parameters, with the divisors that are promised."""
        names, constants = self.fn.arg_names, self.constants()
        divided = {_name(key, names) for key, value in self.attrs.items() if value}
        return {
            name: declaration_of(text).type + (":16" if name in divided else "")
            for name, text in self.signature.items()
            if text != "constexpr" and name not in constants
        }


def _name(key: Any, names: list[str]) -> str:
    """A parameter's name, from its name, its place or a path that begins with the place."""
    place = cast("tuple[Any, ...]", key)[0] if isinstance(key, tuple) else key
    return str(place) if isinstance(place, str) else names[cast(int, place)]


OPTIONS = ("num_warps", "num_stages", "enable_fp_fusion")


def compile(
    src: ASTSource, target: GPUTarget | None = None, options: Mapping[str, Any] | None = None
) -> Compiled:
    """`triton.compile`: compile a kernel for a signature. Raises `OtherTarget`, `TawaError`s."""
    if target is not None and not make_backend(target).supports_target(target):
        require_hopper(target.arch)
    if not hasattr(src, "types"):
        raise NotProvided("only kernels can be compiled, not texts of Triton's IR")
    chosen = {name: value for name, value in (options or {}).items() if name in OPTIONS}
    return src.fn.compile(**src.types(), **src.constants(), **chosen)


# --- drivers ------------------------------------------------------------------------------------


class ActiveDriver:
    """`triton.runtime.driver.active`: the device that launches go to."""

    def get_current_device(self) -> int:
        """The number of the current device; 0 where none is in use, as with the simulator."""
        try:
            return driver.current_device() or 0
        except driver.NoDevice:
            return 0

    def get_current_stream(self, device: int | None = None) -> int:
        """The address of PyTorch's current stream, or of the default one."""
        return current_stream("torch", self.get_current_device() if device is None else device)()

    def get_current_target(self) -> GPUTarget:
        """What kernels are compiled for."""
        return GPUTarget()

    def get_active_torch_device(self) -> Any:
        """PyTorch's device of the current number."""
        import importlib

        return importlib.import_module("torch").device("cuda", self.get_current_device())

    def get_device_interface(self) -> Any:
        """PyTorch's functions for devices."""
        import importlib

        return importlib.import_module("torch").cuda

    def get_benchmarker(self) -> Callable[..., Any]:
        """What measures a configuration: `do_bench`."""
        from tawa.triton.testing import do_bench

        return do_bench

    @staticmethod
    def is_active() -> bool:
        """Whether there is a device."""
        try:
            return driver.device_count() > 0
        except driver.NoDevice:
            return False

    @property
    def utils(self) -> SimpleNamespace:
        """Functions that ask for a device's properties."""
        return SimpleNamespace(get_device_properties=device_properties)


class NoActiveDriver(TawaError, RuntimeError):
    """The active driver was asked for where there is no device."""

    explanation = (
        "`triton.runtime.driver.active` is the driver of the device that launches go to. Without a "
        "device there is none, as in Triton; NumPy arrays and CPU tensors run in the simulator."
    )
    example = """
from tawa.runtime import driver, nvrtc
from tawa.triton.objects import ActiveDriver, DriverConfig

ActiveDriver.is_active = staticmethod(lambda: False)  # as where there is no device
DriverConfig().active
"""


class DriverConfig:
    """`triton.runtime.driver`: there is one driver, where there is a device."""

    def __init__(self) -> None:
        self._driver = ActiveDriver()

    @property
    def active(self) -> ActiveDriver:
        """The driver. Raises `NoActiveDriver`."""
        if not self._driver.is_active():
            raise NoActiveDriver("there is no device, so there is no active driver")
        return self._driver

    @property
    def default(self) -> ActiveDriver:
        """The driver. Raises `NoActiveDriver`."""
        return self.active

    def set_active(self, driver: Any) -> None:
        """Another driver is no driver of Tawa's. Raises `NotProvided`."""
        raise NotProvided("the driver can't be replaced", found=repr(driver))

    def reset_active(self) -> None:
        """There is nothing to reset."""


def device_properties(device: int = 0) -> dict[str, int]:
    """Properties of a device under Triton's names: sizes in bytes, counts."""
    chip = driver.chip(device)
    return {
        "multiprocessor_count": chip.multiprocessors,
        "max_shared_mem": chip.shared_bytes,
        "max_num_regs": chip.registers,
        "warpSize": chip.lanes,
    }


# --- settings -----------------------------------------------------------------------------------


class HookChain:
    """Functions that are called one after the other, with the same arguments."""

    def __init__(self) -> None:
        self.calls: list[Callable[..., Any]] = []

    def add(self, func: Callable[..., Any]) -> None:
        """Call one more, after the others; one that is there already is called once."""
        if func not in self.calls:
            self.calls.append(func)

    def remove(self, func: Callable[..., Any]) -> None:
        """Call one no more."""
        if func in self.calls:
            self.calls.remove(func)

    def __bool__(self) -> bool:
        return bool(self.calls)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Call all."""
        for func in self.calls:
            func(*args, **kwargs)


HOOKS = ("launch_enter_hook", "launch_exit_hook", "jit_cache_hook", "jit_post_compile_hook")
"""Settings that are functions which a launch or a compilation calls."""


FREE = ("default_fp_fusion", "override_arch")
"""Settings that may have any value: launches read them."""


class Settings:
    """A group of `triton.knobs`: hooks, and otherwise Triton's defaults and no other values."""

    _name: str

    def __init__(self, name: str, **defaults: Any) -> None:
        self.__dict__.update(defaults, _name=name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in (*HOOKS, *FREE) and name in self.__dict__:
            self.__dict__[name] = value
        elif name not in self.__dict__ or self.__dict__[name] != value:
            raise NotProvided(
                f"`triton.knobs.{self._name}.{name}` has no effect here",
                expected=f"{self.__dict__.get(name)!r}",
                found=repr(value),
            )

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.__dict__ if not name.startswith("_"))

    def scope(self) -> Any:
        """A block after which all is as before: it is in any case."""
        return nullcontext(self)


KNOBS = {
    "runtime": Settings(
        "runtime", debug=False, interpret=False, override_arch=None, launch_enter_hook=HookChain(),
        launch_exit_hook=HookChain(), jit_cache_hook=None, jit_post_compile_hook=None,
        kernel_load_start_hook=None, kernel_load_end_hook=None, add_stages_inspection_hook=None,
    ),
    "compilation": Settings(
        "compilation", override=False, dump_ir=False, store_binary_only=False,
        always_compile=False, use_ir_loc=None, enable_asan=False, disable_line_info=False,
        front_end_debugging=False, allow_non_constexpr_globals=False, listener=None,
        instrumentation_mode="",
    ),
    "autotuning": Settings("autotuning", cache=False, print=False),
    "cache": Settings("cache", dir=None, dump_dir=None, override_dir=None, manager_class=None),
    "language": Settings("language", fp32_default=None, default_fp_fusion=True),
    "nvidia": Settings("nvidia", ptxas=Assembler(), dump_nvptx=False, disable_ptxas_opt=False),
    "amd": Settings("amd"),
    "proton": Settings("proton", disable=False, cupti_dir=None),
}  # fmt: skip
"""The groups of `triton.knobs`."""


def scope(name: str, metrics: Mapping[str, Any] | None = None) -> nullcontext[None]:
    """`triton.profiler.scope`: names what runs inside; nothing listens without a session."""
    del name, metrics
    return nullcontext()


class TensorWrapper:
    """A tensor seen with another element type: `triton.reinterpret` gives it."""

    def __init__(self, base: Any, dtype: Any) -> None:
        self.base, self.dtype = base, dtype
        self.data, self.device, self.shape = base.data, base.device, base.shape

    def data_ptr(self) -> int:
        """The address of the tensor."""
        return self.base.data_ptr()

    def get_device(self) -> int:
        """The number of the tensor's device."""
        return self.base.get_device()

    def stride(self, *args: Any) -> Any:
        """The tensor's strides."""
        return self.base.stride(*args)

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.base.element_size()

    def is_contiguous(self) -> bool:
        """Whether the elements lie one behind another."""
        return self.base.is_contiguous()

    def numel(self) -> int:
        """How many elements there are."""
        return self.base.numel()

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.base.nbytes

    def cpu(self) -> TensorWrapper:
        """A copy in the CPU's memory."""
        return TensorWrapper(self.base.cpu(), self.dtype)

    def to(self, device: Any) -> TensorWrapper:
        """A copy on a device."""
        return TensorWrapper(self.base.to(device), self.dtype)

    def clone(self) -> TensorWrapper:
        """A copy where the tensor lies."""
        return TensorWrapper(self.base.clone(), self.dtype)

    def copy_(self, other: TensorWrapper) -> None:
        """Take the elements of another one of this type."""
        self.base.copy_(other.base)

    def new_empty(self, sizes: Any) -> TensorWrapper:
        """A tensor of other sizes, of this type and on this device."""
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """`triton.reinterpret`: a tensor with another element type of the same size."""
    base = tensor.base if isinstance(tensor, TensorWrapper) else tensor
    return base if dtype == base.dtype else TensorWrapper(base, dtype)
