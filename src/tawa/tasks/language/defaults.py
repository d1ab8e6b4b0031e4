"""Which instance a launch runs: the mapping's record, completed by defaults.

A task that is launched in a variant of its own runs its next variant. What `prange`s of the device
launch runs on blocks, unless it has a `prange` itself, which then is a part of the grid; so does
any leaf that the device launches. All else runs where its caller does.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tawa.base.errors import TawaError
from tawa.base.source import Span
from tawa.tasks.language.errors import BadMapping, MachineNotThere, MissingVariant, UnboundTunable
from tawa.tasks.language.mapping import PROCESSORS, REACH, Instance, Mapping
from tawa.tasks.language.task import Task, Variant

DEEPEST = 32
"""Launches inside of each other; a machine has 6 levels."""


@dataclass(frozen=True, eq=False)
class Resolved:
    """An instance in the task tree: its record, and what defaults add to it."""

    record: Instance
    variant: Variant
    processor: str
    caller: Resolved | None = None

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the instances from the entry to this one."""
        return (*(self.caller.path if self.caller else ()), self.record.name)

    @property
    def lineage(self) -> tuple[Resolved, ...]:
        """The instances from the entry to this one."""
        return (*(self.caller.lineage if self.caller else ()), self)

    def tunable(self, name: str, default: Any, span: Span | None) -> Any:
        """What the mapping binds a tunable to. Raises `UnboundTunable`."""
        found = self.record.tunables.get(name, default)
        if found is None:
            raise UnboundTunable(
                f"tunable `{name}` of `{self.record.name}` is not bound",
                span=span,
                expected=f"a value in the mapping, or a default: tunable({name!r}, 128)",
                found=f"a record of {', '.join(self.record.tunables) or 'no tunables'}",
                hint=f"add tunables={{{name!r}: ...}} to Instance({self.record.name!r})",
                notes=[where(self)],
            )
        return found

    def memory(self, name: str, default: str, span: Span | None) -> str:
        """The memory of a tensor. Raises `MachineNotThere` where the processor can't reach it."""
        found = self.record.memories.get(name, default)
        if found not in REACH[self.processor]:
            raise MachineNotThere(
                f"`{name}` of `{self.record.name}` is mapped to {found} memory",
                span=self.record.span or span,
                expected=f"a memory that a {self.processor} reaches: "
                + ", ".join(REACH[self.processor]),
                found=found,
                notes=[where(self)],
            )
        return found


def where(instance: Resolved) -> str:
    """A note that says where in the task tree something is."""
    return f"{IN_TREE}: {' > '.join(instance.path)}"


IN_TREE = "in the task tree"


@contextmanager
def path_of(instance: Resolved) -> Generator[None]:
    """Let errors of what an inner variant does say where in the task tree it is."""
    try:
        yield
    except TawaError as error:
        if not any(note.text.startswith(IN_TREE) for note in error.notes):
            error.with_note(where(instance))
        raise


def resolve_entry(task: Task, mapping: Mapping, span: Span | None) -> Resolved:
    """The instance that a call of a task runs. Raises `MissingVariant`, `BadMapping`."""
    marked = [i for i in mapping.instances.values() if i.entry]
    if len(marked) > 1:
        raise BadMapping(
            "two instances are entries",
            span=marked[1].span,
            expected="one instance with entry=True",
            found=", ".join(i.name for i in marked),
        )
    if marked:
        record = marked[0]
        return _resolved(record, _variant(task, record, span, None), None, False)
    return _default(task, mapping, None, False, span)


def resolve_launch(
    caller: Resolved, site: int, task: Task, mapping: Mapping, in_grid: bool, span: Span | None
) -> Resolved:
    """The instance that the caller's launch statement `site` runs (they count from 0).

    `in_grid`: whether the statement is in a `prange` of the device. Raises `MissingVariant`,
    `BadMapping`, `MachineNotThere`.
    """
    calls = caller.record.calls
    if calls is None:
        return _default(task, mapping, caller, in_grid, span)
    if site >= len(calls):
        raise BadMapping(
            f"`{caller.record.name}` has more launch statements than `calls`",
            span=span,
            expected=f"{len(calls)}, for {', '.join(calls) or 'none'}",
            found=f"launch statement {site + 1}",
            hint="name an instance for each launch statement, or leave `calls` out",
            notes=[where(caller)],
        )
    record = mapping.instances[calls[site]]
    return _resolved(record, _variant(task, record, span, caller), caller, in_grid)


def _default(
    task: Task, mapping: Mapping, caller: Resolved | None, in_grid: bool, span: Span | None
) -> Resolved:
    before = [i for i in (caller.lineage if caller else ()) if i.variant.task is task]
    place = task.variants.index(before[-1].variant) + 1 if before else 0
    if place >= len(task.variants):
        raise MissingVariant(
            f"task `{task.name}` has no further variant",
            span=span,
            expected="a leaf, or a variant that launches other tasks",
            found=f"{len(task.variants)} variants: "
            + (", ".join(v.name for v in task.variants) or "none"),
            hint=f"add one with @{task.name}.leaf",
            notes=[where(caller)] if caller else [],
        )
    variant = task.variants[place]
    record = mapping.instances.get(variant.name, Instance(variant.name, span=variant.span))
    if record.variant is not None:
        variant = _variant(task, record, span, caller)
    return _resolved(record, variant, caller, in_grid)


def _variant(task: Task, record: Instance, span: Span | None, caller: Resolved | None) -> Variant:
    name = record.variant or record.name
    for variant in task.variants:
        if variant.name == name:
            return variant
    raise MissingVariant(
        f"task `{task.name}` has no variant `{name}`",
        span=record.span or span,
        expected=" or ".join(v.name for v in task.variants) or "a variant",
        found=f"`{name}`, which Instance({record.name!r}) names",
        notes=[where(caller)] if caller else [],
    )


def _resolved(
    record: Instance, variant: Variant, caller: Resolved | None, in_grid: bool
) -> Resolved:
    above = caller.processor if caller else "device"
    processor = record.processor
    if caller is not None and len(caller.path) >= DEEPEST:
        raise BadMapping(
            f"instances launch each other without an end: `{record.name}` is {DEEPEST} deep",
            span=record.span,
            expected="a leaf in the end",
            found=" > ".join(caller.path[-3:]) + f" > {record.name}",
            hint="do `calls` of an instance name itself, or one that launches it?",
            notes=[f"{IN_TREE}: {' > '.join(caller.path[:3])} > ..."],
        )
    if caller is None and processor == "node":
        above = "node"
    if processor is None and above == "node":
        processor = "block" if variant.is_leaf else "device" if in_grid else "node"
    if processor is None:
        goes_down = above == "device" and (variant.is_leaf or (in_grid and not variant.is_grid))
        processor = "block" if goes_down else above
    if PROCESSORS.index(processor) < PROCESSORS.index(above):
        raise MachineNotThere(
            f"`{record.name}` is mapped to a {processor}, above its caller",
            span=record.span,
            expected=f"{above}, or a processor inside of one",
            found=processor,
            notes=[where(caller)] if caller else [],
        )
    if processor == "thread" or (
        PROCESSORS.index(processor) > PROCESSORS.index("block") > PROCESSORS.index(above)
    ):
        raise MachineNotThere(
            f"`{record.name}` is mapped to a {processor}",
            span=record.span,
            expected="a warp group or a warp: which threads have which elements is the compiler's "
            "layout"
            if processor == "thread"
            else f"a block, or a {processor} that a block's `prange` launches",
            found=processor if processor == "thread" else f"a {processor} below a {above}",
            hint="name the instruction whose layout you want by `partition_by_mma`"
            if processor == "thread"
            else f"map `{caller.record.name}` to a block: its `prange` is a part of the grid else"
            if caller
            else None,
            notes=[where(caller)] if caller else [],
        )
    if variant.is_leaf and processor in ("node", "device"):
        raise MachineNotThere(
            f"the leaf `{variant.name}` is mapped to a {processor}",
            span=record.span,
            expected="block: leaves are code of a block",
            found=processor,
            notes=[where(caller)] if caller else [],
        )
    return Resolved(record, variant, processor, caller)
