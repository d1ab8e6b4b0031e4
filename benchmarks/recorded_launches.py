"""Launches of Triton's functions, kept while a program makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import triton


@dataclass(frozen=True)
class Launch:
    """A launch of one of Triton's functions: its arguments, grid, constants and options."""

    function: Any
    grid: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    through: Callable[..., Any]
    """What makes it: Triton's own `run`, or what stood for it."""

    @property
    def name(self) -> str:
        """The kernel's."""
        return self.function.__name__

    def named(self) -> dict[str, Any]:
        """The arguments by name, defaults included, as a grid gets them."""
        own = self.function.signature
        known = {n: v for n, v in self.kwargs.items() if n in own.parameters}
        bound = own.bind_partial(*self.args, **known)
        bound.apply_defaults()
        return dict(bound.arguments) | self.kwargs

    def sizes(self) -> tuple[int, ...]:
        """The grid as numbers."""
        return tuple(self.grid(self.named()) if callable(self.grid) else self.grid)

    def bound(self) -> Callable[[], Any]:
        """The launch, ready to be made again."""
        return partial(
            self.through, self.function, *self.args, grid=self.grid, warmup=False, **self.kwargs
        )


@contextmanager
def recording(configuration: int = 0, *, run: bool = False) -> Iterator[list[Launch]]:
    """Launches of Triton's functions in the block are kept, and not made unless they are to `run`.

    Where nothing runs, a tuned kernel takes one of its configurations, by number from those that
    its pruning leaves.
    """
    function, tuner = triton.JITFunction, triton.runtime.autotuner.Autotuner
    own = function.run, tuner.run
    launches: list[Launch] = []

    def kept(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if not warmup:
            launches.append(Launch(self, grid, args, dict(kwargs), own[0]))
        return own[0](self, *args, grid=grid, warmup=warmup, **kwargs) if run else None

    def tuned(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        found = self.prune_configs(kwargs) or self.configs
        config = found[configuration % len(found)]
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
        return self.fn.run(*args, **{**kwargs, **config.all_kwargs()})

    function.run = kept
    if not run:
        tuner.run = tuned
    try:
        yield launches
    finally:
        function.run, tuner.run = own


def recorded(op: Callable[[], Any], configuration: int = 0) -> list[Launch]:
    """The launches that an operator makes, in order."""
    with recording(configuration) as launches:
        op()
    return launches
