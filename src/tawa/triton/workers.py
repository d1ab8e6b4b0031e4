"""Kernels that TorchInductor generates, compiled by the processes that it has for it.

A process fills the cache on disk, from where the asking process takes the kernels of ours when it
makes launchers. What Tawa refuses the process compiles with Triton, whose cache is on disk, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from tawa.runtime import driver
from tawa.runtime.assemble import alone
from tawa.triton import inductor
from tawa.triton.takeover import Adopted, Takeover

SUBMITTER = "torch._inductor.async_compile"
"""The module that hands kernels to the processes."""

_WORK = "_worker_compile_triton"
"""Its function that they run."""

_original: list[Any] = []


def take(takeover: Takeover, module: Any) -> None:
    """Let Inductor's processes compile for us from now on."""
    if not _original:
        _original.append(getattr(module, _WORK))
    setattr(module, _WORK, _Work(_original[0], takeover))


def give_back(module: Any) -> None:
    """Let them compile for Triton again."""
    if _original:
        setattr(module, _WORK, _original.pop())


@dataclass(frozen=True)
class _Work:
    """What the processes run. It is sent as `compile_there` for the chip that is here.

    There, a process that was forked from one that knew the driver finds no device.
    """

    triton: Callable[..., Any]
    takeover: Takeover

    @property
    def _known(self) -> tuple[Any, ...]:
        return self.triton, self.takeover.names_left(), driver.chip().name

    def __call__(self, *given: Any) -> Any:
        return compile_there(*self._known, *given)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial, (compile_there, *self._known)


def compile_there(
    triton: Callable[..., Any],
    left: frozenset[str],
    chip: str,
    load: Callable[[], Any],
    environment: Mapping[str, str],
    settings: dict[str, Any],
) -> Any:
    """Compile a kernel in another process: its tuner without results, and microseconds.

    What Tawa leaves to Triton is compiled by `triton`, with the results that it gives.
    """
    config: Any = import_module("torch._inductor.config")
    start = time.time_ns()
    os.environ.update(environment)
    with config.patch(settings):
        tuner = load()
        inductor.give_back()  # results of ours cannot be sent, and the environment may enable Tawa
        if tuner.fn.__name__ in left or inductor.is_stored(tuner) or not _filled(tuner, chip):
            return triton(load, dict(environment), settings)
    tuner.prepare_for_pickle()
    return tuner, (time.time_ns() - start) // 1000


def _filled(tuner: Any, chip: str) -> bool:
    """Compile each configuration into a cache on disk; whether any is ours."""
    done = False
    refused: list[Any] = []
    for configuration in tuner.configs:
        meta = tuner._create_compile_meta(configuration)
        types = inductor.types_of(meta)
        try:
            with alone():
                inductor.compile_for(Adopted(tuner.fn, types).kernel, types, meta, chip=chip)
            done = True
        except Exception:  # the asking process says why
            refused.append(configuration)
    for configuration in refused if done else ():
        with suppress(Exception):  # what neither can compile the asking process learns, too
            tuner._precompile_config(configuration)
    return done
