"""Calls on several devices: recorded once for arrays that lie alike, then only given to streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tawa.runtime.arrays import is_array
from tawa.tasks.devices.machines import Gpus, simulate
from tawa.tasks.devices.node import Calls, on_host, record, shards_of
from tawa.tasks.devices.recipe import Recipe, Work
from tawa.tasks.devices.sharded import Sharded
from tawa.tasks.language.element_types import storage_type
from tawa.tasks.language.mapping import Mapping
from tawa.tasks.language.task import Task
from tawa.tasks.plans import MOST_PLANS, lies


@dataclass(frozen=True)
class NodeRun:
    """What a call did on several devices: its work in the order in which it was given."""

    works: list[Work]

    @property
    def events(self) -> str:
        """The work, a line each, with what it waits for."""
        return "".join(f"{work}\n" for work in self.works)


class NodeCalls:
    """The recipes of a task that runs on a node."""

    def __init__(self, task: Task, calls: Calls) -> None:
        self.task, self.calls = task, calls
        self.found: dict[Any, tuple[Recipe, Gpus | None]] = {}

    def call(self, args: Sequence[Any], mapping: Mapping, seed: int = 0) -> NodeRun:
        """Run a call; NumPy arrays stand for devices, and `seed` orders what those do.

        Raises what calls raise, and `MachineNotThere`.
        """
        key = mapping, len(self.task.variants), *map(_lies, args)
        shards = shards_of(args)
        if key not in self.found:
            recipe = record(self.task, args, mapping, self.calls)
            if len(self.found) >= MOST_PLANS:
                self.found = {}
            self.found[key] = recipe, None if on_host(shards) else Gpus(recipe, mapping.devices)
        recipe, gpus = self.found[key]
        if gpus is None:
            simulate(recipe, [storage_type(shard) for shard in shards], seed)
        else:
            gpus.run(shards)
        return NodeRun(recipe.works)


def _lies(arg: Any) -> Any:
    """What of an argument decides what a call does: how arrays lie, and anything else itself."""
    if isinstance(arg, Sharded):
        return arg.dim, *map(lies, arg.shards)
    return lies(arg) if is_array(arg) else (arg.__class__, arg)
