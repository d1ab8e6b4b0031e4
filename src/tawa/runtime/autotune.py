"""Chooses among configurations of a kernel by measuring them: Triton's `autotune`, `heuristics`.

The decorators wrap anything that has `run(*args, grid=..., **kwargs)` and `arg_names`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from tawa.base.errors import TawaError
from tawa.base.locks import ForkedLock
from tawa.base.user_frames import entries, entry
from tawa.runtime.arguments import classify
from tawa.runtime.arrays import HOST, is_array
from tawa.runtime.streams import current_stream
from tawa.runtime.timing import Stopwatch, Timing, Work

WARMUP, REP = 25.0, 100.0
"""Milliseconds that each configuration runs unmeasured and measured."""

Hook = Callable[..., Any]
"""Called with a run's arguments by name; a post-hook also with `exception`, or None."""


class NoConfiguration(TawaError):
    """None of an autotuned kernel's configurations can be compiled or launched."""

    explanation = (
        "Every configuration failed, or pruning left none. The message lists each one's own error; "
        "add a smaller configuration."
    )
    example = """
import numpy as np
import tawa


@tawa.autotune(configs=[], key=[])
@tawa.jit
def nothing(x):
    pass


nothing[(1,)](np.zeros(4, np.float32))
"""


class GivenTwice(TawaError):
    """A launch of an autotuned kernel names what its configurations give, too."""

    explanation = (
        "A configuration's values and options are passed to the kernel at every launch. Leave them "
        "out of the launch, or out of the configurations."
    )
    example = """
import numpy as np
import tawa


@tawa.autotune(configs=[tawa.Config({"BLOCK": 64})], key=[])
@tawa.jit
def nothing(x, BLOCK: tawa.language.constexpr):
    pass


nothing[(1,)](np.zeros(4, np.float32), BLOCK=32)
"""


class NotAKernel(TawaError):
    """`autotune` or `heuristics` decorates something that is not a kernel."""

    explanation = (
        "These decorators stand above `@tawa.jit`: they choose what a kernel is launched with, and "
        "don't make a kernel of a function."
    )
    example = """
import tawa


@tawa.autotune(configs=[tawa.Config({})], key=[])
def nothing(x):
    pass
"""


class UnknownKey(TawaError):
    """An autotuned kernel's `reset_to_zero` or `restore_value` names no parameter."""

    explanation = (
        "The lists of names that `autotune` takes name parameters of the kernel. (A name in `key` "
        "that no launch passes is left out, as in Triton.)"
    )
    example = """
import tawa


@tawa.autotune(configs=[tawa.Config({})], key=[], reset_to_zero=["m"])
@tawa.jit
def nothing(x):
    pass
"""


class Config:
    """One configuration: values for `constexpr` parameters, launch options, and a hook.

    `pre_hook` is called with all arguments by name before each run with this configuration.
    Options that are left out (or None) are the compiler's choice.
    """

    def __init__(
        self,
        kwargs: Mapping[str, Any],
        num_warps: int | None = None,
        num_stages: int | None = None,
        pre_hook: Hook | None = None,
        **options: Any,
    ) -> None:
        self.kwargs = dict(kwargs)
        self.num_warps = num_warps
        self.num_stages = num_stages
        self.pre_hook = pre_hook
        self.options = options

    def all_kwargs(self) -> dict[str, Any]:
        """The keywords of a launch with this configuration."""
        chosen = {"num_warps": self.num_warps, "num_stages": self.num_stages, **self.options}
        return {**self.kwargs, **{k: v for k, v in chosen.items() if v is not None}}

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{k}={v!r}' for k, v in self.all_kwargs().items())})"


@entries
class Autotuner:
    """A kernel that is measured with each of its configurations for each new key.

    - `cache`: the chosen configuration of each key.
    - `timings`: milliseconds of each configuration that was measured, of each key.
    - `failures`: the error of each configuration that could not be run, of each key.
    """

    def __init__(
        self,
        fn: Any,
        configs: Sequence[Config],
        key: Sequence[str],
        *,
        prune_configs_by: Mapping[str, Any] | None = None,
        reset_to_zero: Sequence[str] | None = None,
        restore_value: Sequence[str] | None = None,
        pre_hook: Hook | None = None,
        post_hook: Hook | None = None,
        warmup: float | None = None,
        rep: float | None = None,
        do_bench: Callable[..., Any] | None = None,
    ) -> None:
        self.fn = fn
        self.arg_names = _parameters_of(fn)
        self.configs = list(configs)
        self.cache: dict[tuple[Any, ...], Config] = {}
        self.timings: dict[tuple[Any, ...], dict[Config, float]] = {}
        self.failures: dict[tuple[Any, ...], dict[Config, TawaError]] = {}
        self._prune = dict(prune_configs_by or {})
        self._reset, self._restore = list(reset_to_zero or ()), list(restore_value or ())
        self._hooks = pre_hook, post_hook
        self._milliseconds = warmup or WARMUP, rep or REP
        self._do_bench = do_bench
        self._measuring = ForkedLock()
        for name in (*self._reset, *self._restore):
            if name not in self.arg_names:
                raise UnknownKey(
                    f"`{name}` is no parameter of the autotuned kernel",
                    expected=f"one of {', '.join(self.arg_names)}",
                )
        own = {name: place for place, name in enumerate(self.arg_names)}
        self._key = [(own.get(name, len(own)), name) for name in key]

    def __repr__(self) -> str:
        return f"<autotuner of {self.fn!r}: {len(self.configs)} configuration(s)>"

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """The kernel with its grid, ready to be called."""
        return partial(self.run, grid=grid)

    def run(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """Launch with the best configuration for these arguments, measuring if they are new."""
        best = self.best_config(*args, grid=grid, **kwargs)
        if best.pre_hook is not None:
            best.pre_hook(self._named(args, kwargs, best))
        try:
            return self.fn.run(*args, grid=grid, **kwargs, **best.all_kwargs())
        except TypeError:  # what is right is not looked at
            _refuse_twice(kwargs, [best])
            raise

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        """Compile the kernel itself; the values of a configuration are given like any other."""
        return self.fn.compile(*args, **kwargs)

    def warmup(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Compile every configuration, without launching."""
        return [
            self.fn.warmup(*args, **kwargs, **config.all_kwargs())
            for config in self._pruned(args, kwargs)
        ]

    def best_config(self, *args: Any, grid: Any, **kwargs: Any) -> Config:
        """The configuration for these arguments, measuring if they are new."""
        key = self._key_of(args, kwargs)
        best = self.cache.get(key)
        if best is None:
            with self._measuring:  # what runs at the same time would be timed too
                best = self.cache.get(key)
                if best is None:
                    best = self.cache[key] = self._choose(key, args, kwargs, grid)
        return best

    def _key_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        count = len(args)
        values = [args[at] if at < count else kwargs.get(name) for at, name in self._key]
        arrays = [getattr(value, "dtype", None) for value in (*args, *kwargs.values())]
        return (*values, *arrays)

    def _named(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], config: Config | None = None
    ) -> dict[str, Any]:
        named = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
        return named if config is None else {**named, **config.all_kwargs()}

    def _pruned(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Config]:
        """The configurations left by `early_config_prune`, then `perf_model` and `top_k`."""
        configs = self.configs
        named = self._named(args, kwargs)
        early = self._prune.get("early_config_prune")
        if early is not None:
            configs = list(early(configs, named, **kwargs))
        model, top = self._prune.get("perf_model"), self._prune.get("top_k", 1.0)
        if model is not None:
            count = int(len(configs) * top) if isinstance(top, float) and top <= 1 else int(top)
            costs = {c: model(**{**named, **c.all_kwargs()}) for c in configs}
            configs = sorted(configs, key=costs.__getitem__)[: max(1, count)]
        return configs

    def _choose(
        self, key: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any
    ) -> Config:
        failures = self.failures.setdefault(key, {})
        configs = self._pruned(args, kwargs)
        _refuse_twice(kwargs, configs)
        if "predicted" in self._prune and len(configs) > 1:
            configs = self._predicted(configs, args, kwargs, grid, failures)
        if len(configs) == 1:
            return configs[0]
        timings = self.timings.setdefault(key, {})
        watch = self._watch(args, kwargs)
        for config in configs:
            try:
                timings[config] = self._measure(config, args, kwargs, grid, watch)
            except TawaError as error:
                failures[config] = error
                continue
            if watch is None and self._do_bench is None:
                return config
        if not timings:
            raise NoConfiguration(
                "no configuration of the autotuned kernel can be run",
                found=f"{len(configs)} configurations",
                notes=[f"{config}: {error}" for config, error in failures.items()],
            )
        return min(timings, key=timings.__getitem__)

    def _predicted(
        self,
        configs: list[Config],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        grid: Any,
        failures: dict[Config, TawaError],
    ) -> list[Config]:
        """The configurations that the timing model says are fastest, `predicted` of them."""
        costs: dict[Config, float] = {}
        for config in configs:
            try:
                found = self.fn.predict(*args, grid=grid, **kwargs, **config.all_kwargs())
            except TawaError as error:
                failures[config] = error
                continue
            costs[config] = found.seconds
        return sorted(costs, key=costs.__getitem__)[: max(1, int(self._prune["predicted"]))]

    def _watch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Stopwatch | None:
        """A stopwatch on the stream that launches go to; None where nothing is on a device.

        The simulator's own time says nothing about a configuration: there the first one that
        runs is taken.
        """
        for value in (*args, *kwargs.values()):
            if is_array(value) or hasattr(value, "block_shape"):
                kind, _ = classify(value)
                if kind.device is None or kind.device == HOST:
                    return None
                return Stopwatch(kind.device, current_stream(kind.library, kind.device)())
        return Stopwatch()

    def _measure(
        self,
        config: Config,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        grid: Any,
        watch: Stopwatch | None,
    ) -> float:
        """Median milliseconds of one configuration (0 where nothing can be timed)."""
        named = self._named(args, kwargs, config)
        kept = {name: _copy(named[name]) for name in self._restore}
        options = {**kwargs, **config.all_kwargs()}
        before, after = self._hooks

        def prepare() -> None:
            for name, value in kept.items():
                _assign(named[name], value)
            for name in self._reset:
                _fill_zero(named[name])
            for hook in (before, config.pre_hook):
                if hook is not None:
                    hook(named)

        def work() -> None:
            self.fn.run(*args, grid=grid, **options)

        failure: Exception | None = None
        try:
            return self._time(prepare, work, watch)
        except Exception as error:
            failure = error
            raise
        finally:
            for name, value in kept.items():
                _assign(named[name], value)
            if after is not None:
                after(named, exception=failure)

    def _time(self, prepare: Work, work: Work, watch: Stopwatch | None) -> float:
        """Median milliseconds of `work`, with `prepare` called before each run, untimed."""
        if self._do_bench is not None:
            result = self._do_bench(lambda: (prepare(), work()), quantiles=(0.5, 0.2, 0.8))
            return float(cast("Any", result)[0] if isinstance(result, (list, tuple)) else result)
        if watch is None:
            prepare()
            work()
            return 0.0
        watch.before = prepare
        warmup, rep = self._milliseconds
        watch.times_for(work, warmup / 1e3)
        return Timing(tuple(watch.times_for(work, rep / 1e3))).median


@entries
class Heuristics:
    """A kernel some of whose parameters are computed from the others."""

    def __init__(self, fn: Any, values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> None:
        self.fn = fn
        self.arg_names = _parameters_of(fn)
        self.values = dict(values)

    def __repr__(self) -> str:
        return f"<heuristics of {self.fn!r} for {', '.join(self.values) or 'no parameters'}>"

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """The kernel with its grid, ready to be called."""
        return partial(self.run, grid=grid)

    def run(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """Launch with the computed values added."""
        return self.fn.run(*args, grid=grid, **self._with_values(args, kwargs))

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        """Compile the kernel itself; computed values are given like any other."""
        return self.fn.compile(*args, **kwargs)

    def predict(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """The predicted time with the computed values added."""
        return self.fn.predict(*args, grid=grid, **self._with_values(args, kwargs))

    def warmup(self, *args: Any, **kwargs: Any) -> Any:
        """Compile with the computed values added, without launching."""
        return self.fn.warmup(*args, **self._with_values(args, kwargs))

    def _with_values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        named = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
        return {**kwargs, **{name: compute(named) for name, compute in self.values.items()}}


def autotune(
    configs: Sequence[Config], key: Sequence[str], **options: Any
) -> Callable[[Any], Autotuner]:
    """Measure `configs` whenever an argument in `key` (or a dtype) changes, and use the best.

    Keywords: `prune_configs_by` (a dict with `early_config_prune`, `perf_model`, `top_k`, and
    `predicted`: how many to measure of those that Tawa's timing model says are fastest),
    `reset_to_zero` and `restore_value` (names of arguments), `pre_hook`, `post_hook`, `warmup` and
    `rep` (milliseconds), `do_bench`. With NumPy arrays (the simulator) the first configuration
    that runs is used.
    """
    return entry(lambda fn: Autotuner(fn, configs, key, **options))


def heuristics(
    values: Mapping[str, Callable[[dict[str, Any]], Any]],
) -> Callable[[Any], Heuristics]:
    """Compute parameters of a kernel from its other arguments, given as a dict."""
    return entry(lambda fn: Heuristics(fn, values))


def decorators_of(fn: Any, kernel: Callable[[Any], Any]) -> Any:
    """`fn` with its function made a kernel: autotuners and heuristics around it are made anew.

    They are recognised by what Triton's have: `configs` and `keys`, or `values`.
    """
    inner = getattr(fn, "fn", None)
    if inner is not None and hasattr(fn, "configs") and hasattr(fn, "keys"):
        prune = {name: getattr(fn, name, None) for name in ("early_config_prune", "perf_model")}
        return Autotuner(
            decorators_of(inner, kernel),
            fn.configs,
            fn.keys,
            prune_configs_by={**prune, "top_k": getattr(fn, "configs_top_k", 1.0)},
            reset_to_zero=fn.reset_to_zero,
            restore_value=fn.restore_value,
            pre_hook=fn.pre_hook if getattr(fn, "user_defined_pre_hook", False) else None,
            post_hook=fn.post_hook if getattr(fn, "user_defined_post_hook", False) else None,
        )
    if inner is not None and isinstance(getattr(fn, "values", None), Mapping):
        return Heuristics(decorators_of(inner, kernel), fn.values)
    return kernel(fn)


def _parameters_of(fn: Any) -> list[str]:
    """The names of a kernel's parameters. Raises `NotAKernel`."""
    names = getattr(fn, "arg_names", None)
    if names is None:
        name = getattr(fn, "__name__", type(fn).__name__)
        raise NotAKernel(
            f"`{name}` is not a kernel",
            expected="a function decorated with `@tawa.jit`",
            found=f"a value of type {type(fn).__name__}",
            hint="write `@tawa.jit` below this decorator",
        )
    return list(names)


def _refuse_twice(kwargs: Mapping[str, Any], configs: Sequence[Config]) -> None:
    """Raise `GivenTwice` if a launch names what one of the configurations gives."""
    for config in configs:
        twice = sorted(kwargs.keys() & config.all_kwargs().keys())
        if twice:
            raise GivenTwice(
                f"`{twice[0]}` is given by the launch and by a configuration",
                expected="it in one of the two",
                found=f"{twice[0]}={kwargs[twice[0]]!r} in the launch, and {config}",
                hint=f"leave `{twice[0]}` out of the launch",
            )


def _copy(array: Any) -> Any:
    return array.clone() if hasattr(array, "clone") else array.copy()


def _assign(array: Any, value: Any) -> None:
    if hasattr(array, "copy_"):
        array.copy_(value)
    else:
        array[...] = value


def _fill_zero(array: Any) -> None:
    if hasattr(array, "zero_"):
        array.zero_()
    else:
        array[...] = 0
