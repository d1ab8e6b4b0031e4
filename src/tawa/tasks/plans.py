"""What a call of a task does again: looked up by how its arguments lie, prepared up to the launch.

The first call with arrays that lie in some way traces, compiles and binds. What later calls need of
that are the launches in order: the kernel with its grid, and what each parameter is given. Only
arrays, and numbers that decide nothing, are put in anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from operator import itemgetter
from typing import Any, TypeAlias

from tawa.base.errors import TawaError
from tawa.runtime.arrays import HOST, is_array, view
from tawa.tasks.clashes import Clashes
from tawa.tasks.language.defaults import Resolved
from tawa.tasks.language.mapping import Mapping
from tawa.tasks.language.sizes import names, value
from tawa.tasks.language.task import Task
from tawa.tasks.lowering.kernel_text import Described, KernelText
from tawa.tasks.lowering.places import relocate
from tawa.tasks.lowering.schedule import HostLoop, Step
from tawa.tasks.program import CompiledTasks, empty, given_for, in_order, program_for, values_of

Put: TypeAlias = "Callable[[Sequence[Any]], Any]"
"""Gives what a parameter takes, of the call's arguments and the tensors that the device makes."""

MOST_PLANS = 256
"""Ways to lie that a task keeps plans for; then it begins anew."""
MOST_LAUNCHES = 1 << 12
"""Launches of one call that are prepared."""


@dataclass(frozen=True, eq=False)
class Start:
    """A launch: the kernel with its grid, its arguments, and those that each call puts in."""

    kernel: KernelText
    run: Callable[..., Any]
    given: list[Any]
    puts: list[tuple[int, Put]]
    options: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Plan:
    """A call, prepared."""

    program: CompiledTasks
    made: list[Callable[[Any], Any]]
    """Make a tensor of the device's own, on the device of the first argument."""
    first: int
    starts: list[Start]
    clashes: Clashes

    def run(self, args: Sequence[Any]) -> None:
        """Launch the kernels. Raises `AliasingArguments`."""
        self.clashes.check(args)
        self.launch(self.filled(args))

    def filled(self, args: Sequence[Any]) -> list[list[Any]]:
        """What each kernel is given in a call."""
        first = args[self.first]
        pool = [*args, *(make(first) for make in self.made)] if self.made else args
        return [_filled(start.given, start.puts, pool) for start in self.starts]

    def launch(self, filled: Sequence[Sequence[Any]]) -> None:
        """Launch the kernels with what they are given."""
        for start, given in zip(self.starts, filled, strict=True):
            try:
                start.run(*given, **start.options)
            except TawaError as error:
                relocate(error, start.kernel)
                raise


class Plans:
    """The plans of a task."""

    def __init__(self, task: Task, entry: Resolved | None = None) -> None:
        self.task, self.entry = task, entry
        self.found: dict[Any, Plan] = {}
        self.deciding: frozenset[int] = frozenset()
        """Positions of the numbers whose values decide on launches."""

    def call(self, args: Sequence[Any], mapping: Mapping | None) -> CompiledTasks:
        """Run a call."""
        plan = self.plan(args, mapping)
        if plan is None:
            return self.first(args, mapping)
        plan.run(args)
        return plan.program

    def plan(self, args: Sequence[Any], mapping: Mapping | None) -> Plan | None:
        """What a call like this one was found to do before."""
        try:
            return self.found.get(self.key(args, mapping))
        except TypeError:  # of an argument that is neither array nor number: tracing says which
            if all(isinstance(arg, int | float) or is_array(arg) for arg in args):
                raise
            return None

    def key(self, args: Sequence[Any], mapping: Mapping | None) -> Any:
        """What of a call decides which launches it makes."""
        deciding = self.deciding
        return (
            mapping,
            len(self.task.variants),
            *[
                lies(arg) if hasattr(arg, "shape") else (arg.__class__, arg)
                if place in deciding or not isinstance(arg, int | float)
                else arg.__class__
                for place, arg in enumerate(args)
            ],
        )  # fmt: skip

    def first(self, args: Sequence[Any], mapping: Mapping | None) -> CompiledTasks:
        """A call whose arguments lie in a new way: compiles if need be, and runs."""
        program = program_for(self.task, args, mapping, self.entry)
        clashes = Clashes.of(self.task, args)
        clashes.check(args)
        program.run(args)
        deciding = self.deciding | _deciding(self.task, program)
        if deciding != self.deciding or len(self.found) >= MOST_PLANS:
            self.deciding, self.found = deciding, {}
        plan = planned(self.task, program, args, clashes)
        if plan is not None:
            self.found[self.key(args, mapping)] = plan
        return program


class Same:
    """Calls of one place in a recipe: their arguments always lie alike, so no plan is looked up.

    If they are the very arguments of the last call, kernels are given what they were given then.
    """

    def __init__(self, plans: Plans) -> None:
        self.plans = plans
        self.plan: Plan | None = None
        self.last: tuple[Sequence[Any], list[list[Any]]] | None = None

    def __call__(self, args: Sequence[Any], mapping: Mapping) -> None:
        """Run a call."""
        plan = self.plan
        if plan is None:
            self.plans.call(args, mapping)
            self.plan = self.plans.plan(args, mapping)
            return
        if self.last is None or self.last[0] is not args:
            self.last = args, plan.filled(args)
        plan.launch(self.last[1])
        if plan.made:  # tensors of the call's own
            self.last = None


def lies(array: Any) -> Any:
    """How an array lies, as far as launches depend on it."""
    if hasattr(array, "data_ptr"):
        aligned = array.data_ptr() % 16
        return (
            array.__class__,
            array.dtype,
            array.shape,
            array.stride(),
            aligned,
            array.get_device(),
        )
    found = view(array)
    return array.__class__, *found[1:], 0 if found.device == HOST else found.pointer % 16


def _deciding(task: Task, program: CompiledTasks) -> set[int]:
    """The numbers of a call on which guards, grids or loops depend."""
    sizes: list[Any] = [n for g in program.known.guards.values() for n in (g.left, g.right)]
    sizes += [extent for launch in program.launches for extent in launch.kernel.grid]
    sizes += [extent for loop in _loops(program.steps) for extent in loop.loop.extents]
    sizes += [size for buffer in program.program.made for size in buffer.shape]
    asked = {name for size in sizes for name in names(size)} | {*program.known.pinned}
    return {place for place, name in enumerate(task.parameters) if name in asked}


def _loops(steps: Sequence[Step]) -> list[HostLoop]:
    found = [step for step in steps if isinstance(step, HostLoop)]
    return [loop for one in found for loop in (one, *_loops(one.steps))]


def planned(
    task: Task, program: CompiledTasks, args: Sequence[Any], clashes: Clashes
) -> Plan | None:
    """The plan of a call that was made; None if it makes too many launches."""
    first = next(place for place, arg in enumerate(args) if is_array(arg))
    places = {name: place for place, name in enumerate(task.parameters)}
    arrays, made = program.arrays(args), list[Callable[[Any], Any]]()
    for name, array in arrays.items():
        if name not in places:
            places[name] = len(args) + len(made)
            dtype = next(b.dtype for b in program.program.made if b.name == name)
            made.append(partial(_empty, tuple(array.shape), dtype))
    starts: list[Start] = []
    for launch, now in in_order(program.steps, values_of(task, args)):
        grid = prod(value(e, now) for e in launch.kernel.grid)
        if grid <= 0:
            continue
        if len(starts) == MOST_LAUNCHES:
            return None
        kernel = program.kernel(launch)
        given, puts = list[Any](), list[tuple[int, Put]]()
        for place, parameter in enumerate(launch.kernel.parameters.values()):
            given.append(given_for(parameter, arrays, now))
            put = _put(parameter, given[-1], places, task)
            if put is not None:
                puts.append((place, put))
                given[-1] = None
        options = program.options(
            launch, kernel, _filled(given, puts, [*args, *_own(arrays, task)])
        )
        starts.append(Start(launch.kernel, kernel[(grid,)], given, puts, options))
    return Plan(program, made, first, starts, clashes)


def _own(arrays: dict[str, Any], task: Task) -> list[Any]:
    return [array for name, array in arrays.items() if name not in task.parameters]


def _filled(given: list[Any], puts: list[tuple[int, Put]], pool: Sequence[Any]) -> list[Any]:
    full = given.copy()
    for place, put in puts:
        full[place] = put(pool)
    return full


def _empty(shape: tuple[int, ...], dtype: Any, like: Any) -> Any:
    return empty(like, shape, dtype)


def _put(parameter: Any, given: Any, places: dict[str, int], task: Task) -> Put | None:
    """What puts a parameter's argument in, if it is one that differs from call to call."""
    if isinstance(parameter, Described):
        template = given.without_base()
        at = places[parameter.buffer.name]
        return lambda pool: template.alike(pool[at])
    name = getattr(parameter, "name", parameter)
    if hasattr(parameter, "memory") or (isinstance(parameter, str) and parameter in places):
        return itemgetter(places[name])
    return None
