"""One launch, checked level by level: every level starts from the same data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tawa.base.numerics import Array
from tawa.simulate.check.levels import Agreement, array_elements, tile_arguments
from tawa.simulate.check.memory import check_memory
from tawa.simulate.interpret.launch import arrays_of
from tawa.simulate.interpret.limits import LimitReached, Limits

if TYPE_CHECKING:
    from tawa.cli.empty_arrays import EmptyArrays
    from tawa.driver.compiled import Compiled
    from tawa.simulate import CheckReport

PTX_SECONDS = 60.0
"""Time for the run of a launch's PTX, unless the check has a limit of its own."""


@dataclass
class CheckedLaunch:
    """A launch of what was compiled from source, and what its levels have given so far.

    `named` has all arguments by name.
    """

    compiled: Compiled
    grid: tuple[int, int, int]
    named: Mapping[str, Any]
    limits: Limits
    levels: Agreement = field(default_factory=Agreement)
    cut: bool = False
    """Whether the tile level was not run to its end."""

    def __post_init__(self) -> None:
        self._tile = self.compiled.module("tile")
        self._given = [self.named[name] for name in tile_arguments(self._tile)]
        self._arrays = arrays_of(self._given)
        self._start = [array.copy() for array in self._arrays]
        self._first: list[Array] = []

    def check_memory(self, empty: EmptyArrays) -> str:
        """The tile level, with every access of global memory looked at; gives the report's text."""
        unwritten, limits = empty.unwritten(self._arrays), self.limits
        try:
            report = check_memory(
                self._tile, self.grid, self._given, unwritten=unwritten, limits=limits
            )
        except LimitReached as limit:
            self.cut = True
            self.levels.left_out.append("the tile level: it was not run to its end")
            return f"not covered: global memory: {limit}"
        self.levels.varying = report.varying
        self._keep("tile")
        return report.render()

    def check_communication(self, schedules: int) -> CheckReport:
        """The hopper level, in every interleaving."""
        self._restart()
        report = check_hopper(self.compiled, self.grid, self.named, schedules, self.limits)
        if report.cut:
            self.levels.left_out.append("the hopper level: it was not run to its end")
        else:
            self._keep("hopper")
        return report

    def compare(self) -> Agreement:
        """Run the PTX that NVRTC made, too; gives what all levels' results say."""
        from tawa.simulate.ptx.launch import run

        spec, text = self.compiled.spec, self.compiled.stages.get("ptx")
        if self.cut:
            self.levels.left_out.append("the PTX: nor was the tile level run to its end")
            return self.levels
        if text is None or spec.cluster != (1, 1, 1):
            why = "there is none" if text is None else f"clusters of {spec.cluster}"
            self.levels.left_out.append(f"the PTX: {why}")
            return self.levels
        self._restart()
        limits = Limits(seconds=self.limits.seconds or PTX_SECONDS)
        arguments = [self.named[name] for name in spec.arguments]
        try:
            run(str(text), spec, self.grid, arguments, look=limits.look)
        except LimitReached as limit:
            self.levels.left_out.append(f"the PTX: {limit}")
        else:
            self._keep("PTX")
        return self.levels

    def _restart(self) -> None:
        for array, values in zip(self._arrays, self._start, strict=True):
            if array.flags.writeable:
                array[...] = values

    def _keep(self, level: str) -> None:
        self._first = self._first or [array.copy() for array in self._arrays]
        self.levels.add(level, self._arrays, self._first, array_elements(self._tile))


def check_hopper(
    compiled: Compiled,
    grid: tuple[int, int, int],
    named: Mapping[str, Any],
    schedules: int,
    limits: Limits,
) -> CheckReport:
    """Check the communication of a launch's warp groups, and prove it of every launch."""
    from tawa.simulate import check, prove

    arguments = [named[name] for name in compiled.spec.arguments]
    module = compiled.module("hopper")
    report = check(module, grid, arguments, schedules=schedules, limits=limits)
    report.every = prove(module) if limits.seconds is None else prove(module, limits.seconds)
    return report
