"""`@tawa.jit`: a Python function that runs as a kernel.

A call classifies its arguments and looks the result up; what is found is a compiled kernel, loaded
on the device where the arrays lie (or, for NumPy arrays, the simulator). Only a call that is seen
for the first time compiles.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tawa.base.errors import TawaError
from tawa.base.knobs import DUMP_DIR
from tawa.base.locks import COMPILING
from tawa.base.options import Options
from tawa.base.user_frames import entry, hide_own_frames, users_place
from tawa.driver.choosing import Fitted
from tawa.driver.entries import (
    UNKNOWN,
    Entry,
    Known,
    captures_of,
    chip_of,
    guard_of,
    launch_of,
    place_of,
)
from tawa.driver.fitting import Fitting
from tawa.driver.host_launch import compile_for_host
from tawa.driver.launch_options import launch_options
from tawa.driver.progress import progress
from tawa.driver.relaunch import Relaunch
from tawa.driver.request import Request
from tawa.driver.wishes import fitted_wishes
from tawa.frontend.source.dependencies import dependencies_of
from tawa.frontend.source.function import JITFunction
from tawa.machine.chips import Chip, chip
from tawa.runtime import driver
from tawa.runtime.arrays import HOST
from tawa.runtime.binding import (
    Binder,
    BoundParameter,
    Call,
    compile_binder,
    compile_namer,
    example_kind,
)
from tawa.runtime.descriptor import NotBoxes
from tawa.runtime.kinds import Kind, part_named, spread
from tawa.runtime.launch import grid_sizes
from tawa.runtime.launch_errors import (
    SHARED_OPTIONS,
    ConstantNotHashable,
    ConstantNotSpecialized,
    WrongLaunchArguments,
)
from tawa.runtime.overlaps import overlapping
from tawa.runtime.timeline import ACTIVE, BadTimeline, active

if TYPE_CHECKING:
    from tawa.driver.choice.model import Prediction
    from tawa.driver.compiled import (
        Compiled,  # loaded by the first compilation: `import tawa` is quick
    )
    from tawa.driver.prediction.explanation import Explanation
    from tawa.simulate import LaunchPrediction


class Kernel(JITFunction):
    """A kernel: `kernel[grid](*arguments, **options)` runs it.

    - `grid`: one to three sizes, or a function that gives them, called with a dict of the call's
      arguments by name.
    - Arguments are arrays, tensor descriptors, numbers, and values for `constexpr` parameters.
    - Options are the fields of `tawa.Options`; `stream` is the stream to launch on (by default
      the current one of the library that the arrays belong to); `device="simulator"` runs NumPy
      arrays in the simulator, as does leaving it out.

    A call returns the compiled kernel.
    """

    wishes: frozenset[str] = frozenset()
    """Options that are wishes: what does not fit is made to fit. All others are demands."""

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        do_not_specialize: tuple[str | int, ...] = (),
        do_not_specialize_on_alignment: tuple[str | int, ...] = (),
        types: Mapping[str, str] | None = None,
    ) -> None:
        """Take a kernel's function; `types` are declared types by name, as by annotations."""
        super().__init__(
            fn,
            do_not_specialize=do_not_specialize,
            do_not_specialize_on_alignment=do_not_specialize_on_alignment,
        )
        self._types = dict(types or {})
        self._known = UNKNOWN
        self._bound_to: inspect.Signature | None = None
        self._entries: dict[str, dict[tuple[Any, ...], Entry]] = {}
        self._compiled: dict[tuple[Any, ...], Compiled] = {}

    def __getitem__(self, grid: Any) -> Callable[..., Compiled]:
        """The kernel with its grid, ready to be called."""
        return partial(self._launch, grid)

    @entry
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A kernel is launched with a grid: `kernel[grid](...)`."""
        raise WrongLaunchArguments(
            f"{self.__name__} is launched without a grid",
            span=users_place(),
            expected=f"{self.__name__}[grid](...), the grid one to three sizes",
            found=f"{self.__name__}(...)",
            hint=f"for one program, write {self.__name__}[(1,)](...)",
        )

    @entry
    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Compiled:
        """`kernel[grid](*args, **kwargs)`, or, for a warm-up, only its compilation."""
        if warmup:
            return self.warmup(*args, grid=grid, **kwargs)
        return self._launch(grid, *args, **kwargs)

    @entry
    def warmup(self, *args: Any, grid: Any = None, **kwargs: Any) -> Compiled:
        """Compile for these arguments without launching; needs no device. See `compile`.

        What it gives can be launched: `warm[grid](*arguments)`.
        """
        compiled = self.compile(*args, **kwargs)
        options = self._options(self._named(*args, **kwargs), kwargs)
        return replace(compiled, relaunch=Relaunch(self, options))

    @entry
    def compile(self, *args: Any, **kwargs: Any) -> Compiled:
        """Compile for these arguments; needs no device.

        A run-time argument is an example value, or the text of its type: `*f16`, `*f16:16`,
        `desc<f16,128x64>`, `i32`. Keywords are those of a launch.
        """
        request = self.request(*args, **kwargs)
        compiled = self._compile(request)
        spec = compiled.spec
        met, same = overlapping(spec.apart, self._named(*args, **kwargs), spec.alike)
        if met:
            met += request.options.may_overlap
            facts = replace(request.options, may_overlap=met, same_array=same)
            compiled = self._compile(replace(request, options=facts))
        return compiled

    @entry
    def request(self, *args: Any, **kwargs: Any) -> Request:
        """What `compile` compiles for these arguments."""
        try:
            texts = self._named(*args, **kwargs)
        except TypeError as error:
            raise self._wrong_arguments(error, args, kwargs) from None
        own = {p.name: p for p in self._bound_parameters}
        kinds = spread({n: example_kind(n, texts[n], p) for n, p in own.items() if not p.constexpr})
        constants = {name: texts[name] for name, p in own.items() if p.constexpr}
        return self._request(kinds, constants, self._options(texts, kwargs))

    def is_compiled(self, request: Request) -> bool:
        """Whether the kernel was compiled for this, by this process or into the cache on disk."""
        from tawa.driver import compile_cache as kept

        parts = request.types, request.constants, request.options
        key = self._current().digest, *request.key
        return key in self._compiled or kept.has(kept.key_of(self, *parts))

    @entry
    def predict(
        self, *args: Any, grid: Any, clock_ghz: float | None = None, **kwargs: Any
    ) -> LaunchPrediction:
        """How long `kernel[grid](*args, **kwargs)` would take; needs no device.

        The chip is that of the option `chip`; by default the one that is there, or else an H100.
        The model knows no power, so it guesses the clock: what the power limit leaves to large
        products. Predictions are for comparing.
        """
        from tawa.driver.prediction.launches import predict

        request, named = self.request(*args, **kwargs), self._named(*args, **kwargs)
        programs: Any = grid(named) if callable(grid) else grid
        compiled = self._suited(request, named, kwargs, programs)
        return predict(
            compiled,
            grid_sizes(programs),
            [part_named(n, named) for n in compiled.spec.arguments],
            clock_ghz,
            chip(request.options.chip),
        )

    @entry
    def explain(
        self, *args: Any, grid: Any, clock_ghz: float | None = None, **kwargs: Any
    ) -> Explanation:
        """Why `kernel[grid](*args, **kwargs)` takes its time; needs no device.

        Which lines the predicted time goes to, what binds the launch, and the two changes that are
        predicted to gain most: of a line, or of an option. `print` shows it. Compiles and replays
        some ten variants, which takes seconds.
        """
        from tawa.driver.prediction.explanation import Launched, explain
        from tawa.driver.prediction.options_beside import options_beside, tiles_of

        request, named = self.request(*args, **kwargs), self._named(*args, **kwargs)
        programs: Any = grid(named) if callable(grid) else grid
        compiled = self._suited(request, named, kwargs, programs)
        values = [part_named(n, named) for n in compiled.spec.arguments]
        target = chip(request.options.chip)
        launched = Launched(compiled, grid_sizes(programs), values, clock_ghz, target)

        def others(options: Mapping[str, Any]) -> LaunchPrediction:
            given = {**kwargs, **options}
            return self.predict(*args, grid=grid, clock_ghz=clock_ghz, **given)

        tiles = tiles_of(grid, named, {n: kwargs[n] for n in request.constants if n in kwargs})
        with progress(f"explaining {self.__name__}") as report:
            beside = options_beside(kwargs, tiles)
            return explain(self.__name__, self.source.file, launched, beside, others, report)

    @entry
    def candidates(self, *args: Any, grid: Any, **kwargs: Any) -> tuple[Prediction, ...]:
        """What `kernel[grid](*args, **kwargs)` may be compiled as, with the model's times.

        The options that the call gives are demands; the candidates differ in the others. Sorted,
        the one that is predicted fastest first; empty where there is nothing to choose. The times
        are for ordering: the timing model (`predict`) is nearer to a device's.
        """
        request, named = self.request(*args, **kwargs), self._named(*args, **kwargs)
        fitting = self._example_fitting(request, named, kwargs)
        sizes = fitting.sizes(grid, named)
        found = fitting.rank(sizes) if sizes is not None else None
        return found.all if found is not None else ()

    def _suited(
        self, request: Request, named: dict[str, Any], given: Mapping[str, Any], grid: Any
    ) -> Compiled:
        """The kernel that a launch of a grid would run."""
        fitting = self._example_fitting(request, named, given)
        return fitting.fitted(fitting.sizes(grid, named)).compiled

    def _example_fitting(
        self, request: Request, named: dict[str, Any], given: Mapping[str, Any]
    ) -> Fitting:
        """The fitting of a kernel to launches like an example."""
        own = [p for p in self._bound_parameters if not p.constexpr]
        kinds = {p.name: example_kind(p.name, named[p.name], p) for p in own}
        return self._fitting(request, self._options(named, given), spread(kinds))

    def _fitting(
        self, request: Request, asked: Mapping[str, Any], kinds: Mapping[str, Kind]
    ) -> Fitting:
        parts, relaunch = (request.types, request.constants, request.options), Relaunch(self, asked)

        def compile_(options: Options) -> Compiled:
            compiled = self._compile(replace(request, options=options))
            return replace(compiled, relaunch=relaunch)

        return Fitting(self, *parts, asked, tuple(kinds), compile_)

    @property
    def chip(self) -> Chip:
        """The chip that launches are compiled for if they name none: the first device's."""
        return driver.chip()

    @property
    def constant_key(self) -> tuple[Kernel, str]:
        """What stands for this kernel in the key of one that it is a constant of."""
        return self, self._current().digest

    def _current(self) -> Known:
        """What is known of this kernel for what its names stand for now."""
        known = self._known
        return known if known.unchanged() else self._renewed()

    def _renewed(self) -> Known:
        """The same where a name has come to stand for something else, or none was looked at."""
        with COMPILING:
            before = self.signature
            found = dependencies_of(self)
            if before is not self._bound_to:
                self._bound_to = before
                for name in ("_bound_parameters", "_bind", "_named", "_defaults"):
                    self.__dict__.pop(name, None)
            entries = self._entries.setdefault(found.digest, {})
            known = self._known = Known(found.digest, found.unchanged, entries)
        return known

    @cached_property
    def _bound_parameters(self) -> tuple[BoundParameter, ...]:
        never, unaligned = self.do_not_specialize, self.do_not_specialize_on_alignment
        for number, p in enumerate(self.parameters):
            if p.is_constexpr and (number in never or p.name in never):
                raise ConstantNotSpecialized(
                    f"{p.name} marked as constexpr and listed in do_not_specialize",
                    hint="leave it out of the list, or drop its annotation `tl.constexpr`",
                )
        return tuple(
            BoundParameter(
                p.name,
                p.is_constexpr,
                specialize=number not in never and p.name not in never,
                align=number not in unaligned and p.name not in unaligned,
                has_default=p.has_default,
                default=p.default,
                declared=self._types.get(p.name, p.declared.type),
            )
            for number, p in enumerate(self.parameters)
        )

    @cached_property
    def _bind(self) -> Binder:
        return compile_binder(self._bound_parameters, self.__name__)

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        return {p.name: p.default for p in self._bound_parameters if p.has_default}

    @cached_property
    def _named(self) -> Callable[..., dict[str, Any]]:
        return compile_namer(self._bound_parameters, self.__name__)

    def _launch(self, grid: Any, /, *args: Any, **kwargs: Any) -> Compiled:
        try:
            entry, values, stream = self.prepared(args, kwargs, grid)
            if callable(grid):
                grid = grid(self.arguments(args, kwargs))
            try:
                self.start(entry, grid, values, stream, (args, kwargs))
            except NotBoxes as error:
                return self._launch(grid, *args, **through_pointers(kwargs, error))
        except TawaError as error:
            if error.span is None:
                error.span = users_place()
            hide_own_frames(error)
            raise
        return entry.variants.current.compiled if entry.variants else entry.compiled

    def start(self, entry: Entry, grid: Any, values: Any, stream: Any, call: Any) -> None:
        """Run what was prepared for the arguments of a call."""
        entry.launch(grid, values, stream)

    def prepared(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any = None
    ) -> tuple[Entry, Sequence[Any], Any]:
        """A launch of a grid: the compiled kernel, what is passed to it, and the stream.

        Where the grid is not known, the kernel is compiled as its options say and no other way.
        """
        if ACTIVE.get() is not None:
            kwargs["timeline"] = self._recorded()
        known = self._known
        if not known.unchanged():
            known = self._renewed()
        kwargs.pop("extern_libs", None)  # libraries of functions, which kernels name themselves
        key, values, stream, given = self._bound(args, kwargs)
        try:
            entry = known.entries.get(key)
        except TypeError as error:
            raise self._not_hashable(self._named(*args, **kwargs)) from error
        if entry is None:
            entry = self._prepare(known, key, self._named(*args, **kwargs), kwargs, grid)
        if entry.guard is not None:
            try:
                same = entry.guard(values, given)
            except AttributeError:  # an array of a library that the guard does not know
                same = None
            if same != ():
                entry = self._for_overlaps(known, key, entry, same, (args, kwargs), grid)
        return entry, values, stream

    def _for_overlaps(
        self,
        known: Known,
        key: tuple[Any, ...],
        entry: Entry,
        same: tuple[tuple[str, str], ...] | None,
        call: tuple[Any, Any],
        grid: Any,
    ) -> Entry:
        """The entry for arrays that overlap where `entry` takes them to be apart; else itself.

        `same` are pairs of which a quick look says that they are one array, None if it can't say.
        """
        args, kwargs = call
        spec = entry.compiled.spec
        if same is not None:
            met = tuple(pair for pair in same if pair in spec.apart)
        else:
            met, same = overlapping(spec.apart, self._named(*args, **kwargs), spec.alike)
            if not met:
                return entry
        found = known.entries.get((key, met, same))
        if found is None:
            facts = {"may_overlap": (*met, *kwargs.get("may_overlap", ())), "same_array": same}
            named = self._named(*args, **kwargs)
            found = self._prepare(known, (key, met, same), named, {**kwargs, **facts}, grid)
        return found

    def launch_key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What of a launch's arguments decides which compiled kernel it runs."""
        return self._current().digest, self._bound(args, kwargs)[0]

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a launch that was prepared, by name, with defaults and options."""
        named = {**self._defaults, **kwargs}
        if args:
            named.update(zip(self.arg_names, args, strict=False))
        return named

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """The launch's key, its run-time values, its stream, and what was given."""
        try:
            return self._bind(*args, **kwargs)
        except TawaError as error:
            raise self._naming_parameter(error, args, kwargs) from None
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # from inside, not from Python's matching of arguments and parameters
            raise self._wrong_arguments(error, args, kwargs) from None

    def _wrong_arguments(
        self, error: TypeError, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> WrongLaunchArguments:
        return WrongLaunchArguments(
            str(error),
            span=users_place(),
            expected=f"{self.__name__}({', '.join(self.arg_names)})",
            found=f"{len(args)} by position, {', '.join(kwargs) or 'none'} by name",
            hint="pass each parameter once; options are fields of `tawa.Options`",
        )

    def _naming_parameter(
        self, error: TawaError, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> TawaError:
        """The error of one argument, with a note that says which parameter's it is."""
        named = self._named(*args, **kwargs)
        for parameter in self._bound_parameters:
            if not parameter.constexpr:
                try:
                    parameter.classifier(named[parameter.name])
                except TawaError:
                    return error.with_note(f"it is the argument `{parameter.name}`")
        return error

    def _recorded(self) -> str:
        """The value of the option `timeline` in a timeline's block."""
        if any(parameter.name == "timeline" for parameter in self._bound_parameters):
            raise BadTimeline(
                f"{self.__name__} has a parameter of its own called `timeline`",
                hint="rename the parameter to record the kernel's timeline",
            )
        return active().detail

    def _options(self, named: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """What of a call's arguments is an option, perhaps of a name that a parameter has too."""
        own = {
            p.name
            for p in self._bound_parameters
            if not (p.constexpr and p.name in SHARED_OPTIONS and p.name in given)
        }
        return {name: value for name, value in named.items() if name not in own}

    def _prepare(
        self,
        known: Known,
        key: tuple[Any, ...],
        named: dict[str, Any],
        given: Mapping[str, Any],
        grid: Any,
    ) -> Entry:
        """Compile and load for a key that was not seen before."""
        own = self._bound_parameters
        kinds = spread({p.name: p.classifier(named[p.name])[0] for p in own if not p.constexpr})
        constants = {p.name: named[p.name] for p in own if p.constexpr}
        with COMPILING:
            entry = known.entries.get(key)  # of another thread, while this one waited
            if entry is not None:
                return entry
            place = place_of(kinds, given.get("device"))
            asked = self._options(named, given)
            asked |= {n: given[n] for n in ("may_overlap", "same_array") if n in given}
            request = self._request(kinds, constants, asked)
            fitting = self._fitting(request, asked, kinds)
            sizes = fitting.sizes(grid, named)
            if place == HOST:
                found = self._for_host(request, lambda: fitting.fitted(sizes))
                relaunch = Relaunch(self, asked)
                found = replace(found, compiled=replace(found.compiled, relaunch=relaunch))
            else:
                found = fitting.fitted(sizes)
            load = partial(launch_of, kinds=kinds, place=place)
            variants = fitting.variants(found, sizes, load, captures_of(kinds, place))
            start = variants.launch if variants else load(found.compiled)
            guard = guard_of(found.compiled, own, kinds, place)
            entry = Entry(found.compiled, start, place, guard, variants)
            if known.unchanged():  # else a name was bound anew meanwhile
                known.entries[key] = entry
        return entry

    def _for_host(self, request: Request, fit: Callable[[], Fitted]) -> Fitted:
        """What a launch on NumPy arrays runs; not kept for devices if it is the tile stage only."""
        chosen: list[Fitted] = []

        def compile_() -> Compiled:
            chosen.append(fit())
            return chosen[0].compiled

        parts = request.types, request.constants, request.options
        compiled = compile_for_host(self, *parts, compile_)
        return chosen[0] if chosen else Fitted(compiled)

    def _request(
        self,
        kinds: Mapping[str, Kind],
        constants: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> Request:
        fixed = dict(constants)
        for name, kind in kinds.items():
            if kind.is_fixed:
                fixed[name] = kind.value
        types = {name: kind.text for name, kind in kinds.items() if name not in fixed}
        asked = launch_options(self.__name__, options)
        return Request(types, fixed, asked if asked.chip else replace(asked, chip=chip_of(kinds)))

    def _compile(self, request: Request) -> Compiled:
        """The compiled kernel for a request; compiles it if new."""
        key = self._current().digest, *request.key
        with COMPILING:
            compiled = self._compiled.get(key)
            if compiled is None:
                found = self._found(request) or self._made(request)
                compiled = self._compiled[key] = replace(found, options=request.options)
        return compiled

    def _found(self, request: Request) -> Compiled | None:
        """What another process has compiled, unless the stages are to be written."""
        from tawa.driver import compile_cache as kept

        if DUMP_DIR.get() is not None:
            return None
        parts = request.types, request.constants, request.options
        return kept.find(kept.key_of(self, *parts), self.__name__)

    def _made(self, request: Request) -> Compiled:
        with progress(f"compiling {self.__name__}") as report:
            from tawa.driver.compiler import compile_kernel

            parts, dump = (self, request.types, request.constants), self._dump_folder(request)
            return fitted_wishes(
                self.wishes,
                request.options,
                lambda options: compile_kernel(*parts, options, dump_dir=dump, report=report),
            )

    def _dump_folder(self, request: Request) -> Path | None:
        """Where the stages of this compilation are to be written, if anywhere."""
        folder = DUMP_DIR.get()
        if folder is None:
            return None
        digest = hashlib.sha256(repr(request).encode()).hexdigest()
        return folder / f"{self.__name__}-{digest[:8]}"

    def _not_hashable(self, named: Mapping[str, Any]) -> TawaError:
        for parameter in self._bound_parameters:
            value = named.get(parameter.name)
            if parameter.constexpr and getattr(value, "__hash__", None) is None:
                return ConstantNotHashable(
                    f"constexpr `{parameter.name}` of {self.__name__} is not hashable",
                    expected="a number, a text, a tuple of these, a dtype or a function",
                    found=f"a value of type {type(value).__name__}",
                    hint="pass a tuple" if isinstance(value, list) else "pass what it is made of",
                )
        return ConstantNotHashable(f"an argument of {self.__name__} is not hashable")


def through_pointers(given: Mapping[str, Any], error: NotBoxes) -> dict[str, Any]:
    """The keywords of a launch for which the copy engine leaves an argument's blocks to threads."""
    known = tuple(given.get("through_pointers", ()))
    if error.argument is None or error.argument in known:
        raise error
    return {**given, "through_pointers": (*known, error.argument)}
