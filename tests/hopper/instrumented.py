"""Workloads at the hopper level, with and without timestamps; no machine code is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from catalogue import BY_NAME
from simulation import Recorded, Stored, recorded
from xdsl.dialects.builtin import ModuleOp

from tawa.base.timeline import TimelineTable
from tawa.driver.compilation import Compilation
from tawa.driver.compiled import spec_of
from tawa.frontend import lower_to_tile, parse_argument
from tawa.hopper.recording.instrument import Instrument
from tawa.simulate.interpret.hopper import RoundRobin, prepared, run_cluster
from tawa.simulate.interpret.machine import Event

MULTIPROCESSORS = 2


def plain_module(launch: Recorded) -> ModuleOp:
    """The launch's kernel at the hopper level."""
    request = launch.request()
    work = Compilation(request.options)
    types = [parse_argument(text) for text in request.types.values()]
    tile = lower_to_tile(launch.kernel, types, request.constants)
    return work.level("hopper", work.level("aref", work.level("tile", tile)))


def instrumented(module: ModuleOp, detail: str = "fine") -> ModuleOp:
    """A copy of a module that records its timeline."""
    found = module.clone()
    Instrument(detail=detail).apply(found)
    found.verify()
    return found


def table_of(module: ModuleOp) -> TimelineTable:
    """What an instrumented module's records mean."""
    table = spec_of(module).timeline
    assert table is not None
    return table


@dataclass
class Run:
    """A workload, ready to run: its launch, its plain module and fresh arrays."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        self.launch, self.arrays = recorded(BY_NAME[self.name])
        self.launch.kwargs.update(dict(self.options))
        self.plain = plain_module(self.launch)

    def values(self, module: ModuleOp) -> list[Any]:
        """The run-time arguments in the order of the kernel's."""
        names = [p.name for p in self.launch.kernel.parameters]
        given = {**dict(zip(names, self.launch.args, strict=False)), **self.launch.kwargs}
        found = [given[name] for name in spec_of(module).arguments]
        return [v.view(np.ndarray) if isinstance(v, Stored) else v for v in found]

    def traces(self, module: ModuleOp) -> list[dict[str, list[Event]]]:
        """Run every cluster; what each of its actors did."""
        found: list[dict[str, list[Event]]] = []
        with np.errstate(all="ignore"):
            for cluster in prepared(module, self.launch.grid, self.values(module), MULTIPROCESSORS):
                found.append({})
                run_cluster(cluster, RoundRobin(), found[-1])
        return found

    def outputs(self) -> dict[str, np.ndarray]:
        """Copies of all arrays as they are now."""
        return {name: np.array(array) for name, array in self.arrays.items()}
