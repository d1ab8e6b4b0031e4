"""`tawa tune`: the best options for the launch of a kernel's example."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tawa.cli.arguments import assignments, option_values
from tawa.cli.reporting import LaunchCommand
from tawa.driver.tuning import tune


def tune_example(
    where: str, output: Path | None, options: Sequence[str], launch: str | None, measured: int
) -> str:
    """Tune the launch of the kernel `FILE.py:NAME`'s example; a table of what was found.

    Options that are given, `NAME=VALUE`, stay as they are. Raises what `tawa.tune` raises.
    """
    found = LaunchCommand(where, expression=launch).found
    record = found.recorded_launch()
    given = {**record.kwargs, **option_values(assignments("--option", options))}
    configs = getattr(found.outer, "configs", None)
    tuned = tune(
        found.kernel, *record.args, grid=record.grid, configs=configs, file=output,
        measured=measured, **given,
    )  # fmt: skip
    return tuned.render()
