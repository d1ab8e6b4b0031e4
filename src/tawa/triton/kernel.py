"""Kernels under Triton's name `JITFunction`, with the attributes that libraries read from one."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tawa.driver.wishes import OF_TRITON
from tawa.runtime.autotune import decorators_of
from tawa.triton.hooked import Heeded, HookedKernel
from tawa.triton.objects import KNOBS
from tawa.triton.texts import function_of_text

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


class JITFunction(HookedKernel, KernelInterface):
    """A kernel with Triton's constructor and attributes."""

    wishes = OF_TRITON
    heeded = Heeded(
        lambda: RUNTIME, lambda: LANGUAGE.default_fp_fusion, lambda: RUNTIME.override_arch
    )

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

    __getitem__ = HookedKernel.__getitem__

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

    def add_pre_run_hook(self, hook: Callable[..., None]) -> None:
        """Call `hook` with the arguments of each launch, before it."""
        self.pre_run_hooks.append(hook)

    def prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any = None) -> Any:
        """A launch of a grid, after the hooks."""
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        return super().prepared(args, kwargs, grid)


def jit(fn: Any = None, **options: Any) -> Any:
    """`triton.jit`."""
    known = inspect.signature(JITFunction.__init__).parameters
    given = {name: value for name, value in options.items() if name in known}

    def make(function: Any) -> Any:
        return decorators_of(function, lambda plain: JITFunction(plain, **given))

    return make if fn is None else make(fn)
