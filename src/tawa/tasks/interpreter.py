"""The serial interpreter: a program's meaning, on NumPy arrays.

Inner variants run as Python, launch after launch; leaves run as tile programs on copies of their
boxes. No mapping, copy elimination or code generation takes part, but the choice of variants and
tunables.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tawa.base.source import Span
from tawa.base.user_frames import users_place
from tawa.tasks.clashes import Clashes
from tawa.tasks.graph.races import check_arguments
from tawa.tasks.language.arguments import checked_arguments, checked_kinds
from tawa.tasks.language.defaults import (
    Resolved,
    path_of,
    resolve_entry,
    resolve_launch,
    where,
)
from tawa.tasks.language.element_types import (
    element_type,
    numpy_type,
    storage_type,
    stored_number,
)
from tawa.tasks.language.errors import PrivilegeViolation
from tawa.tasks.language.mapping import EMPTY, Mapping
from tawa.tasks.language.offsets import check_offsets
from tawa.tasks.language.privileges import Privilege
from tawa.tasks.language.running import running
from tawa.tasks.language.sizes import Known
from tawa.tasks.language.task import Task
from tawa.tasks.language.tensors import Buffer, Tensor
from tawa.tasks.lowering.ends import check_leaf
from tawa.tasks.lowering.leaves import evaluate, module_of


def interpret(task: Task, args: Sequence[Any], mapping: Mapping | None = None) -> None:
    """Run a task on NumPy arrays and numbers; arrays are written in place.

    Raises what a program of tasks can raise, but no errors of mappings to memories.
    """
    span = users_place()
    own = [_tensor(name, a) for name, a in zip(task.parameters, args, strict=False)]
    checked_kinds(task, tuple(own) + tuple(args[len(own) :]), span)
    Clashes.of(task, args).check(args, span)
    instance = resolve_entry(task, mapping or EMPTY, span)
    runner = Interpreter(mapping or EMPTY)
    with running(runner):
        runner.run(instance, own, span)


def _tensor(name: str, value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    shape: tuple[int, ...] = tuple(value.shape)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    return Buffer(name, shape, element_type(value), data=storage_type(value)).whole()


@dataclass
class Frame:
    """An inner variant that runs."""

    instance: Resolved
    owners: dict[int, Privilege]
    sites: list[Any] = field(default_factory=list[Any])
    in_grid: bool = False
    """Whether it is in a `prange` of the device, which launches on blocks."""


class Interpreter:
    """Runs inner variants and leaves, one after the other."""

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.frames: list[Frame] = []

    def run(self, instance: Resolved, args: list[Any], span: Span | None) -> None:
        """Run an instance's variant."""
        task, variant = instance.variant.task, instance.variant
        if not variant.is_leaf:
            owners: dict[int, Privilege] = {}
            for name, arg in zip(task.parameters, args, strict=True):
                if isinstance(arg, Tensor):
                    own, given = task.privileges[name], owners.get(id(arg.buffer))
                    owners[id(arg.buffer)] = own if given is None else given.joined(own)
            self.frames.append(Frame(instance, owners))
            try:
                with path_of(instance):
                    variant.fn(*args)
            finally:
                self.frames.pop()
            return
        views = {n: a for n, a in zip(task.parameters, args, strict=True) if isinstance(a, Tensor)}
        tiles = [read(a) if isinstance(a, Tensor) else a for a in args]
        types = [a.dtype if isinstance(a, Tensor) else None for a in args]
        check_leaf(instance, views, module_of(variant, tiles, types), span)
        results = evaluate(variant, tiles, types)
        for name, result in zip(task.writes, results, strict=True):
            write(args[task.parameters.index(name)], result)

    def launch(self, task: Task, args: tuple[Any, ...], span: Span | None) -> None:
        """A launch statement."""
        frame = self.frames[-1]
        caller, sites = frame.instance, frame.sites
        checked_arguments(task, args, caller, frame.owners, span)
        check_arguments(task, args, Known({}), caller, span)
        place = None if span is None else (span.file, span.line, span.column)
        if place not in sites:
            sites.append(place)
        site = sites.index(place)
        found = resolve_launch(caller, site, task, self.mapping, frame.in_grid, span)
        self.run(found, list(args), span)

    def loop(self, extents: tuple[Any, ...], parallel: bool, span: Span | None) -> Iterator[Any]:
        """Indices in order."""
        frame = self.frames[-1]
        before = frame.in_grid
        frame.in_grid = before or (parallel and frame.instance.processor == "device")
        for index in itertools.product(*(range(int(extent)) for extent in extents)):
            yield index if len(extents) > 1 else index[0]
        frame.in_grid = before

    def tunable(self, name: str, default: Any, span: Span | None) -> Any:
        """The value that the mapping binds."""
        return self.frames[-1].instance.tunable(name, default, span)

    def require(self, shape: tuple[int, int, int], span: Span | None) -> None:
        """Which instruction is used changes no result."""

    def element(self, tensor: Tensor, index: Any, most: Any, span: Span | None) -> Any:
        """The element."""
        frame = self.frames[-1]
        own = frame.owners.get(id(tensor.buffer))
        if own is not None and not own.sees:
            raise PrivilegeViolation(
                f"offsets are read from `{tensor.buffer.name}`",
                span=span,
                expected="a tensor with the privilege READ",
                found=str(own),
                notes=[where(frame.instance)],
            )
        offsets = read(tensor)
        check_offsets(tensor.buffer.name, offsets, int(most), span)
        return int(offsets[int(index)])

    def make(self, shape: tuple[Any, ...], dtype: Any, span: Span | None) -> Tensor:
        """A tensor whose elements are anything: what shows best where they are read."""
        data = storage_of(dtype, shape)
        return Buffer("made", shape, dtype, data=data).whole()


def storage_of(dtype: Any, shape: tuple[int, ...]) -> Any:
    """An array of a type of the language, full of bits that are NaN where the type has them."""
    data = np.empty(shape, numpy_type(dtype))
    data.reshape(-1).view(np.uint8)[:] = 0xFF
    return data


def read(tensor: Tensor) -> Any:
    """The elements of a box; outside of its buffer zeros, or what its partition says."""
    data = tensor.buffer.data
    found: Any = np.full(_shape(tensor), stored_number(tensor.past_end or 0, tensor.dtype))
    here, there = _inside(tensor)
    found[here] = data[there]
    return found.reshape(tensor.shape)


def _shape(tensor: Tensor) -> tuple[int, ...]:
    """A box's sizes, of the dimensions that are hidden too."""
    return tuple(int(size) for size in tensor.size)


def write(tensor: Tensor, values: Any) -> None:
    """Make a box's elements those of `values`, as far as they are in the buffer."""
    here, there = _inside(tensor)
    tensor.buffer.data[there] = np.asarray(values).reshape(_shape(tensor))[here]


def _inside(tensor: Tensor) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """The part of a box that is in its buffer: in the box, and in the buffer."""
    here: list[slice] = []
    there: list[slice] = []
    for o, s, extent in zip(tensor.origin, tensor.size, tensor.buffer.shape, strict=True):
        group = tensor.bounds(len(here))
        low, high = (0, int(extent))
        if group is not None:
            low, high = max(int(group.low), 0), min(int(group.high), high)
        first, last = min(max(int(o), low), high), max(min(int(o + s), high), low)
        last = max(first, last)
        there.append(slice(first, last))
        here.append(slice(first - int(o), last - int(o)))
    return tuple(here), tuple(there)
