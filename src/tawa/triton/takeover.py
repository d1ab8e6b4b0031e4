"""`tawa.enable()`: launches of Triton's kernels go through Tawa, also those inside libraries.

Every launch of Triton passes one function, `JITFunction.run`: autotuners and heuristics call it
too, so they keep their configurations. While Tawa is enabled, that function is ours. Code that
TorchInductor generates launches in its own way, see `inductor`.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from tawa.base.errors import TawaError
from tawa.base.user_frames import stack_level
from tawa.driver.entries import Entry
from tawa.driver.jit import through_pointers
from tawa.driver.request import Request
from tawa.driver.wishes import OF_TRITON
from tawa.runtime.arguments import classify
from tawa.runtime.arrays import HOST, is_array
from tawa.runtime.descriptor import NotBoxes
from tawa.runtime.kinds import Kind
from tawa.triton.hooked import Heeded, HookedKernel
from tawa.triton.ledger import REFUSED, SIMULATOR, TAWA, TRITON, Row, Summary
from tawa.triton.refusals import as_triton
from tawa.triton.texts import function_of_text, replaced_text

if TYPE_CHECKING:
    from tawa.driver.compiled import Compiled

NEVER = [float("inf")] * 3
"""The times of a configuration that cannot be run."""


class LeftToTriton(UserWarning):
    """A kernel that Tawa refuses runs with Triton."""


@dataclass(frozen=True)
class Call:
    """A launch that is not on the quick path."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    grid: Any
    warmup: bool

    @property
    def is_on_host(self) -> bool:
        """Whether its arrays lie in the CPU's memory, where Triton can do nothing."""
        return on_host((*self.args, *self.kwargs.values()))


class AdoptedKernel(HookedKernel):
    """A kernel of ours for a function of Triton's, which counts what is launched again."""

    def __init__(self, adopted: Adopted, function: Any, **options: Any) -> None:
        super().__init__(function, **options)
        self._adopted = adopted
        self.heeded = heeded()
        self.module = adopted.function.module
        self.launch_metadata = adopted.function.launch_metadata
        self._repr = getattr(adopted.function, "_repr", None)

    @property
    def _decorated(self) -> Any:
        return self._adopted.function

    def was_asked_for(self, request: Request) -> bool:
        """Whether this was compiled, and is among what Triton's function keeps still."""
        kept = self._kept()
        asked = super().was_asked_for(request)
        return asked and (kept is None or self.told_key(request) in kept)

    def _compile(self, request: Request) -> Compiled:
        compiled = super()._compile(request)
        kept = self._kept()
        if kept is not None:
            kept.setdefault(self.told_key(request), compiled)
        return compiled

    def _kept(self) -> dict[Any, Any] | None:
        """Where Triton's function keeps what was compiled for it; None without a device."""
        try:
            device = sys.modules["triton"].runtime.driver.active.get_current_device()
            return self._adopted.function.device_caches[device][0]
        except (RuntimeError, AttributeError, KeyError):
            return None

    def start(self, entry: Entry, grid: Any, values: Any, stream: Any, call: Any) -> None:
        """Run what was prepared for the arguments of a call, between the hooks; count it."""
        super().start(entry, grid, values, stream, call)
        self._adopted.count(SIMULATOR if entry.place == HOST else TAWA)


class Adopted:
    """A function of Triton's as a kernel of ours, and what became of its launches."""

    def __init__(self, function: Any, types: Mapping[str, str] | None = None) -> None:
        self.function = function
        self.text: Any = getattr(function, "src", None)
        self.name: str = function.__name__
        other = replaced_text(function)
        self.kernel = AdoptedKernel(
            self,
            function if other is None else function_of_text(function.fn, other),
            do_not_specialize=tuple(function.do_not_specialize or ()),
            do_not_specialize_on_alignment=tuple(function.do_not_specialize_on_alignment or ()),
            types=types,
        )
        self.kernel.wishes = OF_TRITON
        self.rows: dict[tuple[str, str], Row] = {}
        self.refused: dict[Any, str] = {}
        """Why launches of a key go to Triton."""

    def stands_for(self, function: Any) -> bool:
        """Whether it is this function's, and the function's text was not replaced since."""
        return self.function is function and self.text is getattr(function, "src", None)

    def count(self, place: str, why: str = "") -> None:
        """One more launch, in the row of its place and reason."""
        row = self.rows.get((place, why))
        if row is None:
            row = self.rows[place, why] = Row(self.name, place, why)
        row.launches += 1

    def warn(self, why: str, error: Exception) -> None:
        """Say, once, that Triton runs it."""
        if not any(row.place == TRITON for row in self.rows.values()):
            text = error.render() if isinstance(error, TawaError) else why
            message = f"`{self.name}` runs with Triton, since Tawa refuses it:\n{text}"
            warnings.warn(message, LeftToTriton, stacklevel=stack_level())


class Takeover:
    """What `tawa.enable` gives: a context manager, with the account of what ran where.

    `triton` runs a launch with Triton, `bench` times a configuration as Triton's tuner does.
    """

    def __init__(
        self,
        triton: Callable[..., Any],
        bench: Callable[..., Any],
        end: Callable[[Takeover], None],
        *,
        strict: bool = False,
        leave: Iterable[Any] = (),
    ) -> None:
        self.strict = strict
        self._triton, self._bench, self._end = triton, bench, end
        self._left = [left if isinstance(left, str) else jitted(left) for left in leave]
        self._adopted: dict[Any, Adopted] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end(self)

    def summary(self) -> Summary:
        """What ran where, how often, and why."""
        found: dict[tuple[str, str, str], int] = {}
        for adopted in list(self._adopted.values()):
            for row in list(adopted.rows.values()):
                key = row.kernel, row.place, row.why
                found[key] = found.get(key, 0) + row.launches
        return Summary([Row(*key, launches) for key, launches in sorted(found.items())])

    def leaves(self, function: Any) -> bool:
        """Whether the user wants a kernel to stay with Triton."""
        return any(left is function or left == function.__name__ for left in self._left)

    def names_left(self) -> frozenset[str]:
        """The names of those kernels."""
        return frozenset(x if isinstance(x, str) else x.__name__ for x in self._left)

    def adopted(self, function: Any, types: Mapping[str, str] | None = None) -> Adopted:
        """Our form of a function of Triton's; `types` are declared types of arguments by name."""
        key = id(function) if types is None else (id(function), *types.items())
        with self._lock:
            found = self._adopted.get(key)
            if found is None or not found.stands_for(function):
                found = self._adopted[key] = Adopted(function, types)
        return found

    def run(self, function: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        """What stands for Triton's own `JITFunction.run`."""
        return self.launched(function, args, kwargs, grid, warmup=warmup)

    def launched(
        self,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        grid: Any,
        *,
        warmup: bool,
    ) -> Any:
        """The same of what a call was given; `kwargs` are the call's own."""
        adopted = self._adopted.get(id(function))
        if adopted is None or not adopted.stands_for(function):
            adopted = self.adopted(function)
        if self._left and self.leaves(function):
            return self._left_to_triton(adopted, "left to Triton", Call(args, kwargs, grid, warmup))
        for hook in function.pre_run_hooks:
            hook(*args, **kwargs)
        if warmup:
            return self._warmed_up(adopted, Call(args, kwargs, grid, warmup))
        if adopted.refused:
            why = adopted.refused.get(adopted.kernel.launch_key(args, kwargs))
            if why is not None:
                return self._left_to_triton(adopted, why, Call(args, kwargs, grid, warmup))
        try:
            entry, values, stream = adopted.kernel.prepared(args, kwargs, grid)
        except Exception as error:
            return self._refuse(error, adopted, Call(args, kwargs, grid, warmup))
        if callable(grid):
            grid = grid(adopted.kernel.arguments(args, kwargs))
        try:
            adopted.kernel.start(entry, grid, values, stream, (args, kwargs))
        except NotBoxes as error:
            others = through_pointers(kwargs, error)
            return self.launched(function, args, others, grid, warmup=False)
        return entry.compiled

    def bench(self, tuner: Any, args: tuple[Any, ...], config: Any, meta: dict[str, Any]) -> Any:
        """The times of one configuration of an autotuned kernel; `NEVER` if Tawa refuses it.

        Times of the simulator mean nothing: on the CPU the first configuration that compiles is
        taken. (The tuner makes its `nargs` anew for each choice.)
        """
        if not on_host((*args, *meta.values())):
            try:
                return self._bench(tuner, *args, config=config, **meta)
            except TawaError:
                return NEVER
        if getattr(tuner, "_tawa_chose_for", None) is tuner.nargs:
            return NEVER
        given = {**meta, **config.all_kwargs(), "warmup": True}
        if config.pre_hook is not None:
            config.pre_hook({**tuner.nargs, **given})
        try:
            tuner.fn.run(*args, **given)
        except TawaError:
            return NEVER
        tuner._tawa_chose_for = tuner.nargs
        return [0.0] * 3

    def preload(self, function: Any, text: str) -> Any:
        """What stands for Triton's own `JITFunction.preload`, of what a hook was told."""
        try:
            return self.adopted(function).kernel.preload(text)
        except TawaError as error:
            raise as_triton(error) from None

    def _warmed_up(self, adopted: Adopted, call: Call) -> Any:
        try:
            if call.is_on_host:
                return adopted.kernel.prepared(call.args, call.kwargs, call.grid)[0].compiled
            return adopted.kernel.warmup(*call.args, grid=call.grid, **call.kwargs)
        except Exception as error:
            return self._refuse(error, adopted, call)

    def _refuse(self, error: Exception, adopted: Adopted, call: Call) -> Any:
        """Triton runs what cannot be compiled, unless nothing else may, or can."""
        why = reason(error)
        if self.strict or call.is_on_host:
            adopted.count(REFUSED, why)
            raise as_triton(error)
        adopted.warn(why, error)
        try:
            adopted.refused[adopted.kernel.launch_key(call.args, call.kwargs)] = why
        except Exception:  # arguments of a kind that we do not know: refused at each launch
            return self._left_to_triton(adopted, why, call)
        return self._left_to_triton(adopted, why, call)

    def _left_to_triton(self, adopted: Adopted, why: str, call: Call) -> Any:
        adopted.count(TRITON, why)
        return self._triton(
            adopted.function, *call.args, grid=call.grid, warmup=call.warmup, **call.kwargs
        )


@cache
def heeded() -> Heeded:
    """What kernels heed of an installed Triton's settings; its environment is looked at once."""
    knobs: Any = sys.modules["triton"].knobs
    fuses, arch = knobs.language.default_fp_fusion, knobs.runtime.override_arch
    return Heeded(
        lambda: knobs.runtime,
        lambda: knobs.language.__dict__.get("default_fp_fusion", fuses),
        lambda: knobs.runtime.__dict__.get("override_arch", arch),
    )


def reason(error: Exception) -> str:
    """Why a kernel is refused, in a line."""
    if isinstance(error, TawaError):
        return f"{type(error).__name__}: {error.message}"
    return f"a mistake of Tawa's own: {type(error).__name__}: {error}".splitlines()[0]


def on_host(values: Iterable[Any]) -> bool:
    """Whether there are arrays among the arguments, and they lie in the CPU's memory."""
    found: list[int | None] = []
    for value in map(described_array, values):
        if is_array(value) and hasattr(value, "device"):
            kind, _ = classify(value)
            found += [kind.device] if isinstance(kind, Kind) else []
    return HOST in found


def described_array(value: Any) -> Any:
    """The array that a tensor descriptor describes; any other value itself."""
    return value.base if hasattr(value, "block_shape") and hasattr(value, "base") else value


def jitted(function: Any) -> Any:
    """Triton's `JITFunction` inside autotuners and heuristics."""
    while not hasattr(function, "pre_run_hooks"):
        function = function.fn
    return function
