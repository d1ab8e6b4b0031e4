"""`tawa tasks check` of a call on several devices: what orders its work, and every kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tawa.cli.check import NOT_PROVED, PROVED, UNSAFE
from tawa.cli.tasks.check_program import check_program
from tawa.tasks.devices.machines import simulate
from tawa.tasks.devices.node import record, shards_of
from tawa.tasks.devices.ordering import conflicts
from tawa.tasks.language.element_types import storage_type
from tawa.tasks.program import program_for

if TYPE_CHECKING:
    from tawa.simulate.interpret.limits import Limits
    from tawa.tasks.language.defaults import Resolved
    from tawa.tasks.language.mapping import Mapping
    from tawa.tasks.language.task import Task


def check_node(
    task: Task, args: Sequence[Any], mapping: Mapping, schedules: int, limits: Limits
) -> int:
    """Check a call on several devices; prints what was found, gives the status.

    Each program of a device is checked where the call first runs it, with the arrays that it has
    by then.
    """
    worst, seen = PROVED, list[Any]()

    def calls(inner: Task, entry: Resolved) -> Callable[[Sequence[Any], Mapping], Any]:
        def call(given: Sequence[Any], own: Mapping) -> None:
            nonlocal worst
            program = program_for(inner, given, own, entry)
            if program in seen:
                program.simulate(given)
                return
            seen.append(program)
            found = check_program(program, given, schedules, limits)
            worst = max(worst, found, key=(PROVED, NOT_PROVED, UNSAFE).index)

        return call

    recipe = record(task, args, mapping, calls)
    found = list(conflicts(recipe))
    print(f"{len(recipe.works)} works on {mapping.devices} devices:")
    if found:
        print(*(f"  unsafe: {line}" for line in found), sep="\n")
        return UNSAFE
    print("  proved: works that touch the same elements are ordered, by streams and events")
    simulate(recipe, [storage_type(shard) for shard in shards_of(args)], 0)
    return worst
