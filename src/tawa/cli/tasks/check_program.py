"""`tawa tasks check`: every kernel of a task program's call, checked as `tawa check` does."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tawa.cli.check import NOT_PROVED, PROVED, UNSAFE
from tawa.cli.check_launch import CheckedLaunch
from tawa.cli.empty_arrays import EmptyArrays
from tawa.runtime.launch import grid_sizes
from tawa.simulate.interpret.launch import arrays_of
from tawa.tasks.language.sizes import value
from tawa.tasks.lowering.schedule import Launch
from tawa.tasks.program import CompiledTasks, given_for, in_order, values_of

if TYPE_CHECKING:
    from tawa.simulate.interpret.limits import Limits


def check_program(
    program: CompiledTasks, args: Sequence[Any], schedules: int, limits: Limits
) -> int:
    """Check the kernels of a call in order, each once; prints what was found, gives the status.

    A kernel begins with what those before it wrote. Raises what `check_example` raises.
    """
    arrays, worst, seen = program.arrays(args), PROVED, set[int]()
    for launch, now in in_order(program.steps, values_of(program.task, args)):
        grid = prod(value(e, now) for e in launch.kernel.grid)
        if grid <= 0:
            continue
        given = [given_for(p, arrays, now) for p in launch.kernel.parameters.values()]
        before = [array.copy() for array in arrays_of(given)]
        if id(launch) not in seen:
            seen.add(id(launch))
            print(f"{launch.kernel.name}, {grid} blocks:")
            worst = max(worst, _checked(program, launch, grid, given, (schedules, limits)),
                        key=(PROVED, NOT_PROVED, UNSAFE).index)  # fmt: skip
            for array, kept in zip(arrays_of(given), before, strict=True):
                array[...] = kept
        program.run_tile_level(launch, grid, given, now)
    return worst


def _checked(
    program: CompiledTasks,
    launch: Launch,
    grid: int,
    given: list[Any],
    how: tuple[int, Limits],
) -> int:
    schedules, limits = how
    kernel = program.kernel(launch)
    named = dict(zip(launch.kernel.parameters, given, strict=True))
    compiled = kernel.compile(*given, **program.options(launch, kernel, given))
    checked = CheckedLaunch(compiled, grid_sizes((grid,)), named, limits)
    print(checked.check_memory(EmptyArrays()))
    report = checked.check_communication(schedules)
    print(report.render())
    levels = checked.compare()
    print(levels.render())
    if not report.same_results or not levels.same:
        return UNSAFE
    return PROVED if report.proved and not checked.cut else NOT_PROVED
