"""Filling a mapping in: what defaults say, written out, and a search for what is faster.

The search changes one choice at a time (a tunable to its half or double, an option of a block) and
keeps what the timing model expects to be faster, until nothing is, or time is up. It needs no
device; where the arrays lie on one, the best few are measured there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from tawa.base.errors import TawaError
from tawa.runtime.arrays import HOST, is_array, view
from tawa.tasks.graph.ir import TaskProgram
from tawa.tasks.language.mapping import EMPTY, Instance, Mapping
from tawa.tasks.language.task import Task
from tawa.tasks.plans import Plans
from tawa.tasks.program import CompiledTasks, program_for

CHOICES: dict[str, tuple[Any, ...]] = {
    "warp_groups": (None, 1, 2, 3),
    "persistent": (None, True),
    "cluster": (None, 2),
    "pipeline": (None, 3, 4),
    "tile_order": (None, 4, 16),
}
"""What a block's record may say, the default first; names without a field are options."""

SMALLEST, LARGEST = 16, 512
"""Values of tunables that are tried."""
GAIN = 0.995
"""How much of the time may be left for a choice to be kept."""
MEASURED = 4
"""Mappings that are measured on a device."""


@dataclass
class Found:
    """What a search found: the mapping, its time, and what was tried."""

    mapping: Mapping
    seconds: float
    start: float
    """The time of the mapping that the search began with."""
    tried: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds by mapping; infinite for one that does not compile."""


def filled(program: TaskProgram, mapping: Mapping) -> Mapping:
    """A mapping with a record for each instance that runs, and what defaults say written out."""
    records: dict[str, Instance] = {}
    for instance, memories in program.instances:
        record = instance.record
        before = records.get(record.name)
        bound = {n: v for (name, n), v in program.tunables.items() if name == record.name}
        own = dict(memories) if instance.variant.is_leaf else dict(record.memories)
        if before is not None:  # launched elsewhere too: what differs is left to defaults
            own = {n: m for n, m in before.memories.items() if own.get(n) == m}
            same = before.processor == instance.processor
        else:
            same = True
        records[record.name] = replace(
            record,
            processor=instance.processor if same else record.processor,
            memories={**own, **record.memories},
            tunables={**bound, **record.tunables},
        )
    kept = {n: i for n, i in mapping.instances.items() if n not in records}
    return Mapping(*records.values(), *kept.values(), devices=mapping.devices)


def search(
    task: Task,
    args: Sequence[Any],
    *,
    start: Mapping | None = None,
    seconds: float = 60.0,
    report: Callable[[str], None] | None = None,
) -> Found:
    """Look for a faster mapping of a call, for about `seconds`.

    Begins with `start`, by default with defaults. Arrays in the host's memory are not touched, so
    that `numpy.empty` stands for sizes of any machine. Raises what compiling `start` raises.
    """
    program = program_for(task, args, start)
    begin = filled(program.program, start or EMPTY)
    first = _predicted(program, args)
    found = Found(begin, first, first, {begin.text(): first})
    mappings = {begin.text(): begin}
    deadline = time.monotonic() + seconds
    changed = True
    while changed and time.monotonic() < deadline:
        changed = False
        for what, changing in _changes(program, found.mapping):
            if time.monotonic() > deadline:
                break
            text = changing.text()
            if text in found.tried:
                continue
            mappings[text] = changing
            found.tried[text] = now = _time(task, args, changing)
            better = now < found.seconds * GAIN
            if report is not None:
                said = f"{now * 1e6:.1f} us" if isfinite(now) else "not possible"
                report(f"{what}: {said}{', kept' if better else ''}")
            if better:
                found.mapping, found.seconds, changed = changing, now, True
    if any(is_array(a) and view(a).device != HOST for a in args):
        best = sorted(found.tried, key=found.tried.__getitem__)[:MEASURED]
        _measure(task, args, [mappings[text] for text in best], found)
    return found


def _predicted(program: CompiledTasks, args: Sequence[Any]) -> float:
    return sum(launch.seconds for launch in program.predict(*args))


def _time(task: Task, args: Sequence[Any], mapping: Mapping) -> float:
    """The predicted time; infinite where the mapping does not suit the program or the machine."""
    try:
        return _predicted(program_for(task, args, mapping), args)
    except TawaError:
        return float("inf")


def _measure(task: Task, args: Sequence[Any], mappings: Sequence[Mapping], found: Found) -> None:
    """Time mappings on the arrays' device, and keep the fastest."""
    from tawa.runtime.timing import Stopwatch, Timing

    plans, place = Plans(task), next(view(a).device for a in args if is_array(a))
    times: list[tuple[float, Mapping]] = []
    for mapping in mappings:
        plans.call(args, mapping)
        taken = Stopwatch(place).times(lambda mapping=mapping: plans.call(args, mapping), 12)
        times.append((Timing(tuple(taken)).median / 1e3, mapping))
    found.start = times[0][0]
    found.seconds, found.mapping = min(times, key=lambda one: one[0])


def _changes(program: CompiledTasks, mapping: Mapping) -> Iterator[tuple[str, Mapping]]:
    """Mappings that differ in one choice, and what it is."""
    for (name, tunable), value in program.program.tunables.items():
        now = mapping.instances[name].tunables.get(tunable, value)
        if isinstance(now, bool) or not isinstance(now, int):
            continue
        for other in (now * 2, now // 2):
            if SMALLEST <= other <= LARGEST:
                given = {**mapping.instances[name].tunables, tunable: other}
                changed = replace(mapping.instances[name], tunables=given)
                yield f"{name}.{tunable} = {other}", _with(mapping, changed)
    blocks = dict.fromkeys(launch.kernel.scope.instance.record.name for launch in program.launches)
    for name in blocks:
        for choice, values in CHOICES.items():
            for value in values:
                yield f"{name}.{choice} = {value}", _chosen(mapping, name, choice, value)


def _chosen(mapping: Mapping, name: str, choice: str, value: Any) -> Mapping:
    """The mapping with a block's choice made."""
    record = mapping.instances[name]
    if hasattr(record, choice):
        return _with(mapping, replace(record, **{choice: value}))
    options = {o: v for o, v in record.options.items() if o != choice}
    return _with(mapping, replace(record, options=options | ({choice: value} if value else {})))


def _with(mapping: Mapping, record: Instance) -> Mapping:
    records = (record if i.name == record.name else i for i in mapping.instances.values())
    return Mapping(*records, devices=mapping.devices)
