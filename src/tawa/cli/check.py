"""`tawa check`: whether a kernel's programs and its warp groups communicate safely."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tawa.cli.arguments import assignments, option_values
from tawa.cli.check_sweep import BASES, Row, Sweep
from tawa.cli.compile import CompileCommand

if TYPE_CHECKING:
    from tawa.simulate.interpret.limits import Limits

PROVED, UNSAFE, NOT_PROVED = 0, 1, 3
"""Exit statuses; 2 is a command line that can't be read."""


PROOF_SECONDS = 60.0
"""Time for the proof of every launch of one combination."""


def check_example(
    where: str,
    options: list[str],
    start: str | None = None,
    *,
    schedules: int = 4,
    limits: Limits | None = None,
) -> int:
    """Check the launch of a kernel's example; the result is the command's exit status.

    `start` is the file of a stage to check instead of what the compiler makes. The status is 0 if
    the launch, or every launch, is proved, `UNSAFE` if random schedules or levels disagree, and
    `NOT_PROVED` if a limit was reached.

    Raises `RaceBetweenPrograms`, `NeverWritten` or `IllegalAccess` for the first access of global
    memory that is wrong, and a `ProtocolError` for one of shared memory, or a deadlock.
    """
    from tawa.cli.check_launch import CheckedLaunch, check_hopper
    from tawa.cli.empty_arrays import noting
    from tawa.runtime.launch import grid_sizes
    from tawa.simulate.interpret.limits import Limits

    command = CompileCommand(where, options=options)
    with noting() as empty:
        record = command.found.recorded_launch()
    named = record.named(command.found.kernel)
    grid = record.grid(named) if callable(record.grid) else record.grid
    limits = limits or Limits()
    compiled, sizes = command.compile(start), grid_sizes(grid)
    if start is not None:
        report = check_hopper(compiled, sizes, named, schedules, limits)
        print(f"{report.render()}\nnot covered: global memory, and results of other levels: the "
              "check starts from a stage's file")  # fmt: skip
        proved = report.proved or report.for_every_launch
        return UNSAFE if not report.same_results else PROVED if proved else NOT_PROVED
    launch = CheckedLaunch(compiled, sizes, named, limits)
    print(launch.check_memory(empty))
    report = launch.check_communication(schedules)
    print(report.render())
    levels = launch.compare()
    print(levels.render())
    if not report.same_results or not levels.same:
        return UNSAFE
    proved = report.proved or report.for_every_launch
    return PROVED if proved and not launch.cut else NOT_PROVED


def check_combinations(
    where: str, options: list[str], *, every: bool, limits: Limits | None = None
) -> int:
    """Check a kernel's example with many sets of launch options; the result is the exit status.

    `every` checks all combinations of the options that shape communication; otherwise a few that
    have every two values together. `options` stay as they are. Global memory is looked at once, at
    the tile level, whose results are those that every combination has to give.

    Raises what `check_example` raises for global memory.
    """
    from tawa.cli.empty_arrays import noting
    from tawa.runtime.launch import grid_sizes

    command = CompileCommand(where, options=options)
    kernel = command.found.kernel
    with noting() as empty:
        record = command.found.recorded_launch()
    named = record.named(kernel)
    own = {p.name for p in kernel.parameters}
    grid = record.grid(named) if callable(record.grid) else record.grid
    arguments = {name: value for name, value in named.items() if name in own}
    sweep = Sweep(kernel, grid_sizes(grid), arguments, limits, prove=PROOF_SECONDS)
    print(sweep.check_memory(empty))
    fixed = option_values(assignments("--option", options))
    used = {name: value for name, value in named.items() if name not in own}
    for row in sweep.every(fixed) if every else sweep.pairs(fixed, [used, *BASES]):
        print(row.render(), flush=True)
        if row.detail:
            print(row.detail)
    print(summary(sweep.rows))
    possible = [row for row in sweep.rows if row.possible]
    if any(not row.safe and not row.verdict.startswith("not proved") for row in possible):
        return UNSAFE
    proved = all(row.verdict in ("every launch", "proved") for row in possible)
    return PROVED if proved else NOT_PROVED


def summary(rows: Sequence[Row]) -> str:
    """How many combinations ended how."""
    kinds = Counter(row.verdict.partition(":")[0] for row in rows)
    states = sum(row.states for row in rows if row.same_as is None)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return f"{len(rows)} combinations: {counts}; {states} states"
