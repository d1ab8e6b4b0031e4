"""`tawa check`: whether the communication of a kernel's warp groups is safe."""

from __future__ import annotations

from tawa.cli.compile import CompileCommand


def check_example(
    where: str,
    options: list[str],
    start: str | None = None,
    *,
    bound: int = 1_000_000,
    schedules: int = 4,
) -> int:
    """Check the launch of a kernel's example; the result is 1 if random schedules disagree.

    `start` is the file of a stage to check instead of what the compiler makes.

    Raises a `ProtocolError` for the first access that is not ordered, or deadlock.
    """
    from tawa.runtime.launch import grid_sizes
    from tawa.simulate import check

    command = CompileCommand(where, options=options)
    record = command.found.recorded_launch()
    compiled = command.compile(start)
    named = record.named(command.found.kernel)
    grid = record.grid(named) if callable(record.grid) else record.grid
    arguments = [named[name] for name in compiled.spec.arguments]
    report = check(
        compiled.module("hopper"),
        grid_sizes(grid),
        arguments,
        bound=bound,
        schedules=schedules,
    )
    print(report.render())
    return int(not report.same_results)
