"""Kernels under Triton's name `JITFunction`, with the attributes that libraries read from one."""

from __future__ import annotations

import hashlib
import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from tawa.driver.jit import Kernel, Request
from tawa.driver.wishes import OF_TRITON
from tawa.runtime.autotune import decorators_of
from tawa.runtime.launch import grid_sizes
from tawa.triton.objects import KNOBS, NotProvided, require_hopper
from tawa.triton.preloading import request_of, specialization_data
from tawa.triton.texts import function_of_text

if TYPE_CHECKING:
    from tawa.driver.compiled import Compiled
    from tawa.driver.entries import Entry

RUNTIME: Any = KNOBS["runtime"]
"""The settings that hooks are among."""
LANGUAGE: Any = KNOBS["language"]
"""The settings of how kernels are compiled."""


class KernelInterface:
    """What can be launched: `x[grid](...)` is `x.run(..., grid=grid, warmup=False)`."""

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        """Launch, or compile only; given by what derives from this."""
        raise NotImplementedError

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """Compile without launching."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """With its grid, ready to be called."""
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)


@dataclass(frozen=True)
class KernelParam:
    """A parameter as `JITFunction.params` has it."""

    num: int
    name: str
    is_constexpr: bool
    is_const: bool
    annotation: str
    annotation_type: str
    default: Any
    has_default: bool
    do_not_specialize: bool
    do_not_specialize_on_alignment: bool


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
    jit_function: JITFunction


class LaunchDetails:
    """What the hooks of a launch are told: `get()` gives it as a dict.

    It has `name`, `stream` and `function`, and what the kernel's `launch_metadata` gives.
    """

    def __init__(
        self,
        kernel: JITFunction,
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


class JITFunction(Kernel, KernelInterface):
    """A kernel with Triton's constructor and attributes."""

    wishes = OF_TRITON

    def __init__(
        self,
        fn: Callable[..., Any],
        version: Any = None,
        do_not_specialize: Sequence[str | int] | None = None,
        do_not_specialize_on_alignment: Sequence[str | int] | None = None,
        debug: bool | None = None,
        noinline: bool | None = None,
        repr: Callable[..., str] | None = None,
        launch_metadata: Callable[..., Any] | None = None,
        types: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            fn,
            do_not_specialize=tuple(do_not_specialize or ()),
            do_not_specialize_on_alignment=tuple(do_not_specialize_on_alignment or ()),
            types=types,
        )
        self.version, self.debug, self.noinline = version, debug, noinline
        self.launch_metadata = launch_metadata
        self.module = self.__module__
        self.__qualname__ = self.fn.__qualname__
        self.__globals__ = self.fn.__globals__
        self.pre_run_hooks: list[Callable[..., None]] = []
        self.used_global_vals: dict[Any, Any] = {}
        self._repr = repr

    __getitem__ = Kernel.__getitem__

    @cached_property
    def params(self) -> list[KernelParam]:
        """The parameters in order."""
        return [
            KernelParam(
                number,
                p.name,
                p.is_constexpr,
                p.declared.const,
                "constexpr" if p.is_constexpr else p.declared.type,
                p.declared.type,
                p.default,
                p.has_default,
                number in self.do_not_specialize or p.name in self.do_not_specialize,
                number in self.do_not_specialize_on_alignment
                or p.name in self.do_not_specialize_on_alignment,
            )
            for number, p in enumerate(self.parameters)
        ]

    @property
    def constexprs(self) -> list[int]:
        """The places of the `tl.constexpr` parameters."""
        return [number for number, p in enumerate(self.parameters) if p.is_constexpr]

    @property
    def src(self) -> str:
        """The function's text, from its `def` on."""
        text = self.source.text
        return text[text.index("def ") :]

    def _unsafe_update_src(self, new_src: str) -> None:
        """Be the kernel of another text, of which nothing that was compiled is kept."""
        made = function_of_text(self.fn, new_src)
        for name in [
            n for n in vars(self) if isinstance(getattr(type(self), n, None), cached_property)
        ]:
            del self.__dict__[name]
        super().__init__(
            made,
            do_not_specialize=self.do_not_specialize,
            do_not_specialize_on_alignment=self.do_not_specialize_on_alignment,
            types=self._types,
        )

    @property
    def raw_src(self) -> list[str]:
        """The function's lines as they stand in the file."""
        return inspect.getsourcelines(self.fn)[0]

    @property
    def cache_key(self) -> str:
        """A text that changes with the kernel and with everything that it names."""
        return self._current().digest

    @property
    def device_caches(self) -> Mapping[int, tuple[dict[Any, Any], ...]]:
        """For each device, first of all, what was compiled for launches, by their key."""
        found: defaultdict[int, tuple[dict[Any, Any], ...]] = defaultdict(lambda: ({},))
        for key, entry in self._current().entries.items():
            found[entry.place][0][key] = entry.compiled
        return found

    def repr(self, specialization: Any) -> str:
        """The kernel's name as its author wants it shown."""
        return self.__name__ if self._repr is None else self._repr(specialization)

    def _start(self, entry: Entry, grid: Any, values: Any, stream: Any, call: Any) -> None:
        """A launch between the hooks of `triton.knobs.runtime`."""
        enter, leave = RUNTIME.launch_enter_hook, RUNTIME.launch_exit_hook
        if not enter and not leave:
            entry.launch(grid, values, stream)
            return
        details = LaunchDetails(self, entry.compiled, grid, stream, call)
        if enter:
            enter(details)
        entry.launch(grid, values, stream)
        if leave:
            leave(details)

    def was_asked_for(self, request: Request) -> bool:
        """Whether this process has compiled for a request, or found what it compiles to."""
        return (self._current().digest, *request.key) in self._compiled

    def _compile(self, request: Request) -> Compiled:
        """What a request compiles to; the hooks hear of one that was not asked for before."""
        before, after = RUNTIME.jit_cache_hook, RUNTIME.jit_post_compile_hook
        if (before is None and after is None) or self.was_asked_for(request):
            return super()._compile(request)
        told = self._told(request)
        if before is not None and before(**told):
            raise NotProvided("a `jit_cache_hook` that keeps a kernel from being compiled")
        compiled = super()._compile(request)
        if after is not None:
            after(**told)
        return compiled

    def _told(self, request: Request) -> dict[str, Any]:
        """What hooks of compilations are told."""
        types = {name: _type_name(text) for name, text in request.types.items()}
        signature = {name: types.get(name, "constexpr") for name in self.arg_names}
        key = hashlib.sha256(f"{self.cache_key}{request.key}".encode()).hexdigest()
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
            "fn": JitFunctionInfo(self.module, self.__name__, self),
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
        if not LANGUAGE.default_fp_fusion:
            options.setdefault("enable_fp_fusion", False)
        arch = RUNTIME.override_arch
        if "arch" in options and "arch" not in self.arg_names:
            arch = options.pop("arch")
        if arch is not None:
            require_hopper(arch)

    def add_pre_run_hook(self, hook: Callable[..., None]) -> None:
        """Call `hook` with the arguments of each launch, before it."""
        self.pre_run_hooks.append(hook)

    def prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any = None) -> Any:
        """A launch of a grid, after the hooks."""
        self._add_defaults(kwargs)
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        return super().prepared(args, kwargs, grid)


def _type_name(text: str) -> str:
    """The type of an argument as Triton writes it: `*fp32` for `*f32:16`."""
    plain = text.partition(":")[0]
    stars = plain.count("*")
    return "*" * stars + NAMES.get(plain[stars:], plain[stars:])


NAMES = {"f16": "fp16", "f32": "fp32", "f64": "fp64"}
"""Triton's names of the types that have others here."""


def jit(fn: Any = None, **options: Any) -> Any:
    """`triton.jit`."""
    known = inspect.signature(JITFunction.__init__).parameters
    given = {name: value for name, value in options.items() if name in known}

    def make(function: Any) -> Any:
        return decorators_of(function, lambda plain: JITFunction(plain, **given))

    return make if fn is None else make(fn)
