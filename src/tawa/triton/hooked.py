"""Kernels that heed Triton's settings: hooks, names their authors want shown, architectures.

`tawa.provide_triton()` and `tawa.enable()` share them; each brings the settings that it reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tawa.driver.jit import Kernel
from tawa.driver.request import Request
from tawa.runtime.launch import grid_sizes
from tawa.triton.objects import NotProvided, require_hopper
from tawa.triton.preloading import request_of, specialization_data

if TYPE_CHECKING:
    from tawa.driver.compiled import Compiled
    from tawa.driver.entries import Entry


@dataclass(frozen=True)
class Specialization:
    """What a kernel is compiled for, as a function given as `jit(repr=)` reads it.

    `signature` has a type for each parameter by name, `constants` what is compiled in.
    """

    signature: Mapping[str, str]
    constants: Mapping[str, Any]


class JitFunctionInfo(NamedTuple):
    """What hooks of compilations are told of a kernel."""

    module: str
    name: str
    jit_function: Any


class LaunchDetails:
    """What the hooks of a launch are told: `get()` gives it as a dict.

    It has `name`, `stream` and `function`, and what the kernel's `launch_metadata` gives.
    """

    def __init__(
        self,
        kernel: HookedKernel,
        compiled: Compiled,
        grid: Any,
        stream: Any,
        call: tuple[Any, Any],
    ) -> None:
        self._parts = kernel, compiled, grid, call
        self._known = {"name": compiled.name, "stream": stream, "function": None}

    def get(self) -> dict[str, Any]:
        """The details, computed when they are asked for."""
        kernel, compiled, grid, (args, kwargs) = self._parts
        known = dict(self._known)
        if kernel.launch_metadata is not None:
            found = kernel.launch_metadata(
                grid_sizes(grid), compiled.metadata, kernel.arguments(args, kwargs)
            )
            known |= found or {}
        return known

    def add(self, func: Callable[..., Mapping[str, Any]], args: tuple[Any, ...]) -> None:
        """Add what a function gives."""
        self._known |= dict(func(*args))


@dataclass(frozen=True)
class Heeded:
    """What of `triton.knobs` kernels heed."""

    runtime: Callable[[], Any]
    """The settings that hooks are among."""
    fuses: Callable[[], bool]
    """Whether products and sums are fused where a launch does not say."""
    architecture: Callable[[], Any]
    """The architecture to compile for, if it is set."""


class HookedKernel(Kernel):
    """A kernel whose launches and compilations heed `triton.knobs`."""

    heeded: Heeded
    module: str
    launch_metadata: Callable[..., Any] | None = None
    _repr: Callable[..., str] | None = None

    def repr(self, specialization: Any) -> str:
        """The kernel's name as its author wants it shown."""
        return self.__name__ if self._repr is None else self._repr(specialization)

    def start(self, entry: Entry, grid: Any, values: Any, stream: Any, call: Any) -> None:
        """A launch between the hooks of `triton.knobs.runtime`."""
        runtime = self.heeded.runtime()
        enter: Any = runtime.launch_enter_hook
        leave: Any = runtime.launch_exit_hook
        if not is_set(enter) and not is_set(leave):
            entry.launch(grid, values, stream)
            return
        details = LaunchDetails(self, entry.compiled, grid, stream, call)
        if is_set(enter):
            enter(details)
        entry.launch(grid, values, stream)
        if is_set(leave):
            leave(details)

    def was_asked_for(self, request: Request) -> bool:
        """Whether this process has compiled for a request, or found what it compiles to."""
        return (self._current().digest, *request.key) in self._compiled

    def _compile(self, request: Request) -> Compiled:
        """What a request compiles to; the hooks hear of one that was not asked for before."""
        runtime = self.heeded.runtime()
        before, after = runtime.jit_cache_hook, runtime.jit_post_compile_hook
        if (before is None and after is None) or self.was_asked_for(request):
            return super()._compile(request)
        told = self._told(request)
        if before is not None and before(**told):
            raise NotProvided("a `jit_cache_hook` that keeps a kernel from being compiled")
        compiled = super()._compile(request)
        if after is not None:
            after(**told)
        return compiled

    def told_key(self, request: Request) -> str:
        """A text that stands for a kernel and what it is compiled for."""
        return hashlib.sha256(f"{self._current().digest}{request.key}".encode()).hexdigest()

    def _told(self, request: Request) -> dict[str, Any]:
        """What hooks of compilations are told."""
        types = {name: _type_name(text) for name, text in request.types.items()}
        signature = {name: types.get(name, "constexpr") for name in self.arg_names}
        key = self.told_key(request)
        options = request.options
        chosen = {
            name: getattr(options, name)
            for name in (
                "num_warps", "num_stages", "num_ctas", "enable_fp_fusion",
                "launch_cooperative_grid", "launch_pdl",
            )
        }  # fmt: skip
        return {
            "key": key,
            "repr": f"{self.__name__}[{', '.join(f'{n}={v}' for n, v in chosen.items())}]"
            f"({', '.join(f'{n}: {t}' for n, t in signature.items())})",
            "fn": JitFunctionInfo(self.module, self.__name__, self._decorated),
            "compile": {
                "signature": signature, "constants": dict(request.constants), "key": key,
                "extern_libs": None, "is_warmup": False, **chosen,
                "specialization_data": specialization_data(self.__name__, request),
            },
            "is_manual_warmup": False,
            "already_compiled": False,
        }  # fmt: skip

    def request(self, *args: Any, **kwargs: Any) -> Request:
        """What `compile` compiles for these arguments, and for what `triton.knobs` says."""
        self._add_defaults(kwargs)
        return super().request(*args, **kwargs)

    def preload(self, specialization_data: str) -> Compiled:
        """Compile what a hook was told of a compilation of this kernel. Raises NotPreloaded."""
        return self._compile(request_of(self.__name__, specialization_data))

    def _found(self, request: Request) -> Compiled | None:
        found = super()._found(request)
        return found and self._shown(found, request)

    def _made(self, request: Request) -> Compiled:
        return self._shown(super()._made(request), request)

    def _shown(self, compiled: Compiled, request: Request) -> Compiled:
        """A compiled kernel under the name that its author wants shown."""
        if self._repr is None:
            return compiled
        types = {name: _type_name(text) for name, text in request.types.items()}
        signature = {name: types.get(name, "constexpr") for name in self.arg_names}
        return replace(compiled, name=self.repr(Specialization(signature, request.constants)))

    def _add_defaults(self, options: dict[str, Any]) -> None:
        """Add the options of a launch that `triton.knobs` gives; there is one architecture."""
        if not self.heeded.fuses():
            options.setdefault("enable_fp_fusion", False)
        arch = self.heeded.architecture()
        if "arch" in options and "arch" not in self.arg_names:
            arch = options.pop("arch")
        if arch is not None:
            require_hopper(arch)

    def prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any = None) -> Any:
        """A launch of a grid, for what `triton.knobs` says."""
        self._add_defaults(kwargs)
        return super().prepared(args, kwargs, grid)

    @property
    def _decorated(self) -> Any:
        """What `triton.jit` gave."""
        return self


def is_set(hook: Any) -> bool:
    """Whether a hook, or a chain of hooks, calls anything."""
    return bool(getattr(hook, "calls", hook is not None))


def _type_name(text: str) -> str:
    """The type of an argument as Triton writes it: `*fp32` for `*f32:16`."""
    plain = text.partition(":")[0]
    stars = plain.count("*")
    return "*" * stars + NAMES.get(plain[stars:], plain[stars:])


NAMES = {"f16": "fp16", "f32": "fp32", "f64": "fp64"}
"""Triton's names of the types that have others here."""
