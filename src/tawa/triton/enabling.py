"""Puts a takeover in the place of Triton's functions, and takes it away."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from tawa.base.errors import TawaError
from tawa.base.user_frames import entry
from tawa.language.shim import is_installed
from tawa.triton import inductor, workers
from tawa.triton.imports import when_imported
from tawa.triton.takeover import Takeover


class NoTriton(TawaError):
    """`tawa.enable()` has nothing to take over: Triton is not installed."""

    explanation = (
        "`tawa.enable()` takes launches over from an installed Triton. Without one, "
        "`tawa.provide_triton()` makes `import triton` work, and Tawa compiles its kernels in any "
        "case."
    )
    example = """
import sys

sys.modules["triton"] = None  # as where it is not installed
from tawa.triton.enabling import enable

enable()
"""


_current: Takeover | None = None
_originals: dict[str, Any] = {}


@entry
def enable(*, strict: bool = False, leave: Iterable[Any] = ()) -> Takeover:
    """Run launches of `triton.jit` functions with Tawa, wherever they are made.

    - `strict`: a kernel that Tawa refuses is an error. Otherwise Triton runs it, and a warning
      says so once.
    - `leave`: kernels, or names of kernels, that stay with Triton.

    Gives a context manager that ends it, as `tawa.disable()` does; its `summary()` says what ran
    where and why. Raises `NoTriton`.
    """
    global _current
    if not is_installed():
        raise NoTriton(
            "Triton is not installed, so there is nothing to take over",
            hint="use `tawa.provide_triton()`",
        )
    disable()
    function, tuner = _classes()
    _originals.update(run=function.run, bench=tuner._bench, preload=function.preload)
    takeover = _current = Takeover(function.run, tuner._bench, _end, strict=strict, leave=leave)

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        return takeover.launched(self, args, kwargs, grid, warmup=warmup)

    def preload(self: Any, specialization_data: str) -> Any:
        return takeover.preload(self, specialization_data)

    def bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
        return takeover.bench(self, args, config, meta)

    function.run, function.preload, tuner._bench = run, preload, bench
    when_imported(inductor.HEURISTICS, _take_inductor)
    when_imported(workers.SUBMITTER, _take_workers)
    return takeover


@entry
def disable() -> None:
    """Give launches back to Triton; does nothing if Tawa is not enabled."""
    global _current
    if _current is None:
        return
    function, tuner = _classes()
    _current = None
    function.run, tuner._bench = _originals.pop("run"), _originals.pop("bench")
    function.preload = _originals.pop("preload")
    if inductor.HEURISTICS in sys.modules:
        inductor.give_back()
    if workers.SUBMITTER in sys.modules:
        workers.give_back(sys.modules[workers.SUBMITTER])


def enabled() -> Takeover | None:
    """What `enable` gave, if launches go through Tawa now."""
    return _current


def _classes() -> tuple[Any, Any]:
    """Triton's `JITFunction` and `Autotuner`."""
    function: Any = import_module("triton.runtime.jit").JITFunction
    tuner: Any = import_module("triton.runtime.autotuner").Autotuner
    return function, tuner


def _end(takeover: Takeover) -> None:
    if takeover is _current:
        disable()


def _take_inductor() -> None:
    if _current is not None:
        inductor.take(_current)


def _take_workers() -> None:
    if _current is not None:
        workers.take(_current, sys.modules[workers.SUBMITTER])
