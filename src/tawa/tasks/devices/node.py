"""Records what stands above devices: launches on devices, with the copies between them.

Variants on the node run as Python, launch after launch; what they launch becomes a recipe, ordered
by events. Iterations of a `prange` are dealt to the devices in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tawa.base.source import Span
from tawa.base.user_frames import users_place
from tawa.runtime import driver
from tawa.runtime.arrays import HOST, is_array, view
from tawa.tasks.devices.held import Box, Held, Piece, common_box, shown
from tawa.tasks.devices.placing import in_place
from tawa.tasks.devices.recipe import Recipe, Region
from tawa.tasks.devices.sharded import Sharded
from tawa.tasks.graph.races import check_arguments
from tawa.tasks.language.arguments import checked_arguments, checked_kinds
from tawa.tasks.language.defaults import Resolved, resolve_entry, resolve_launch, where
from tawa.tasks.language.element_types import element_type
from tawa.tasks.language.errors import AliasingIterations, BadMapping, MachineNotThere
from tawa.tasks.language.mapping import Mapping
from tawa.tasks.language.privileges import Privilege
from tawa.tasks.language.record_checks import check_records
from tawa.tasks.language.running import running
from tawa.tasks.language.sizes import Known
from tawa.tasks.language.task import Task
from tawa.tasks.language.tensors import Buffer, Tensor

Calls: TypeAlias = Callable[[Task, Resolved], Callable[[Sequence[Any], Mapping], Any]]
"""Gives, for an instance that a node launches, what runs it on arrays of one device."""


@dataclass(frozen=True)
class Touch:
    """A box that an iteration of a `prange` uses, by which launch."""

    held: Held
    box: Box
    privilege: Privilege
    what: str
    span: Span | None


@dataclass
class Frame:
    """A variant of the node that runs."""

    instance: Resolved
    owners: dict[int, Privilege]
    sites: list[Any] = field(default_factory=list[Any])


class Node:
    """Runs variants of the node, and puts launches on devices into a recipe."""

    def __init__(self, mapping: Mapping, recipe: Recipe, calls: Calls) -> None:
        self.mapping, self.recipe, self.calls = mapping, recipe, calls
        self.frames: list[Frame] = []
        self.device: int | None = None
        self.touched: list[Touch] | None = None
        self.instances: list[Resolved] = []
        self.tunables: set[tuple[str, str]] = set()
        """The tunables that were asked for, by record and name."""

    def run(self, instance: Resolved, args: list[Any], span: Span | None) -> None:
        """Run an instance: here, or on the device of the iteration."""
        if instance.processor != "node":
            self._on_device(instance, args, span)
            return
        task, owners = instance.variant.task, dict[int, Privilege]()
        for name, arg in zip(task.parameters, args, strict=True):
            if isinstance(arg, Tensor):
                own, given = task.privileges[name], owners.get(id(arg.buffer))
                owners[id(arg.buffer)] = own if given is None else given.joined(own)
        self.instances.append(instance)
        self.frames.append(Frame(instance, owners))
        try:
            instance.variant.fn(*args)
        finally:
            self.frames.pop()

    def launch(self, task: Task, args: tuple[Any, ...], span: Span | None) -> None:
        """A launch statement."""
        frame = self.frames[-1]
        checked_arguments(task, args, frame.instance, frame.owners, span)
        check_arguments(task, args, Known({}), frame.instance, span)
        place = None if span is None else (span.file, span.line, span.column)
        if place not in frame.sites:
            frame.sites.append(place)
        site, apart = frame.sites.index(place), self.device is not None
        found = resolve_launch(frame.instance, site, task, self.mapping, apart, span)
        self.run(found, list(args), span)

    def _on_device(self, instance: Resolved, args: list[Any], span: Span | None) -> None:
        """Bring a launch's boxes to its device, launch, and hand on what it wrote."""
        task, device = instance.variant.task, self.device or 0
        given, after, used = list(args), list[Any](), list[tuple[Held, Box, Privilege, Piece]]()
        for place, (name, arg) in enumerate(zip(task.parameters, args, strict=True)):
            if not isinstance(arg, Tensor):
                continue
            held_, box, privilege = arg.buffer.data, _box(arg, instance), task.privileges[name]
            piece = held_.on(self.recipe, device, box, reads=privilege.reads)
            after += piece.before_write(box) if privilege.writes else piece.before_read(box)
            used.append((held_, box, privilege, piece))
            given[place] = _seen(piece.part(box), arg)
            if self.touched is not None:
                self.touched.append(Touch(held_, box, privilege, task.name, span))
        call, name = self.calls(task, instance), instance.record.name
        writes = [n in task.privileges and task.privileges[n].writes for n in task.parameters]
        event = self.recipe.launch(
            device, after, name, given, writes, lambda args: call(args, self.mapping)
        )
        for held_, box, privilege, piece in used:
            if not privilege.writes:
                piece.was_read(box, event)
                continue
            piece.wrote(box, event)
            held_.written(self.recipe, piece, box)

    def loop(self, extents: tuple[Any, ...], parallel: bool, span: Span | None) -> Iterator[Any]:
        """Indices in order; those of the outermost parallel loop are dealt to devices."""
        deals, around = parallel and self.device is None, self.touched
        iterations: list[tuple[tuple[int, ...], list[Touch]]] = []
        for count, index in enumerate(itertools.product(*(range(int(e)) for e in extents))):
            if deals:
                self.device = count % self.mapping.devices
            if parallel:
                self.touched = []
                iterations.append((index, self.touched))
            yield index if len(extents) > 1 else index[0]
        if deals:
            self.device = None
        if parallel:
            self.touched = around
            if around is not None:
                around += [touch for _, own in iterations for touch in own]
            _check_apart(iterations, self.frames[-1].instance)

    def tunable(self, name: str, default: Any, span: Span | None) -> Any:
        """The value that the mapping binds."""
        instance = self.frames[-1].instance
        self.tunables.add((instance.record.name, name))
        return instance.tunable(name, default, span)

    def make(self, shape: tuple[Any, ...], dtype: Any, span: Span | None) -> Tensor:
        """A tensor that lies where it is written."""
        whole = tuple(int(size) for size in shape)
        return Buffer("made", whole, dtype, data=Held("made", whole, dtype, [])).whole()

    def require(self, shape: tuple[int, int, int], span: Span | None) -> None:
        """Which instruction is used changes no result."""

    def element(self, tensor: Tensor, index: Any, most: Any, span: Span | None) -> Any:
        """Offsets are in the devices' memory, and the node does not wait for them."""
        raise BadMapping(
            "a variant of the node takes groups by offsets",
            span=span,
            expected="groups on a device",
            found=str(tensor),
            hint="map the variant to a device",
            notes=[where(self.frames[-1].instance)],
        )


def _box(tensor: Tensor, instance: Resolved) -> Box:
    """What a launch on a device takes of a tensor."""
    if tensor.past_end or any(tensor.within):
        raise BadMapping(
            f"a launch on a device takes {tensor}, which ends inside of a box",
            span=instance.record.span,
            expected="boxes that fit into what the node cuts, with zeros past the end",
            found=f"{tensor}",
            hint="choose tunables that divide each other",
            notes=[where(instance)],
        )
    return tuple((int(o), int(o) + int(s)) for o, s in zip(tensor.origin, tensor.size, strict=True))


def _seen(array: Any, tensor: Tensor) -> Any:
    """An array without the dimensions that a box hides."""
    return array[tuple(slice(None) if d in tensor.dims else 0 for d in range(len(tensor.size)))]


def _check_apart(
    iterations: Sequence[tuple[tuple[int, ...], list[Touch]]], instance: Resolved
) -> None:
    """Raises `AliasingIterations` where one iteration writes what another uses."""
    for (one, own), (other, others) in itertools.combinations(iterations, 2):
        for a, b in itertools.product(own, others):
            alike = a.privilege.operator and a.privilege.operator == b.privilege.operator
            if a.held is not b.held or alike or not (a.privilege.writes or b.privilege.writes):
                continue
            if common_box(a.box, b.box) is not None:
                raise AliasingIterations(
                    f"iterations {_index(one)} and {_index(other)} of a `prange` touch the same "
                    f"elements of `{a.held.name}`",
                    span=a.span,
                    expected="iterations that write nothing that another one reads or writes",
                    found=f"`{a.what}` uses {shown(a.box)}, `{b.what}` uses {shown(b.box)}",
                    hint="use srange, or write boxes that are apart",
                    notes=[where(instance)],
                )


def _index(index: tuple[int, ...]) -> str:
    return str(index) if len(index) > 1 else str(*index)


def record(task: Task, args: Sequence[Any], mapping: Mapping, calls: Calls) -> Recipe:
    """What a call does on the devices of a host. Raises what calls raise, and `MachineNotThere`."""
    span, own, shards = users_place(), list[Any](), shards_of(args)
    for name, arg in zip(task.parameters, args, strict=False):
        tensor = isinstance(arg, Sharded) or is_array(arg)
        own.append(held(name, arg, mapping, len(shards_of(args[: len(own)]))) if tensor else arg)
    checked_kinds(task, (*own, *args[len(own) :]), span)
    if not on_host(shards) and driver.device_count() < mapping.devices:
        raise MachineNotThere(
            f"the mapping is for {mapping.devices} devices",
            span=mapping.span,
            expected=f"at most {driver.device_count()}, which this host has",
            found=f"devices={mapping.devices}",
        )
    recipe = Recipe([view(shard).shape for shard in shards])
    node = Node(mapping, recipe, calls)
    with running(node):
        node.run(resolve_entry(task, mapping, span), own, span)
    check_records(mapping, node.instances, node.tunables)
    return in_place(recipe)


def shards_of(args: Sequence[Any]) -> list[Any]:
    """The arrays of a call, in order."""
    given = [arg.shards if isinstance(arg, Sharded) else (arg,) for arg in args]
    return [shard for shards in given for shard in shards if is_array(shard)]


def on_host(shards: Sequence[Any]) -> bool:
    """Whether arrays stand for devices."""
    return all(view(shard).device == HOST for shard in shards)


def held(name: str, given: Any, mapping: Mapping, first: int) -> Tensor:
    """A tensor of the call, as devices hold it; its arrays' numbers begin with `first`."""
    whole = given if isinstance(given, Sharded) else Sharded([given])
    if len(whole.shards) > mapping.devices:
        raise MachineNotThere(
            f"`{name}` lies on {len(whole.shards)} devices",
            span=users_place(),
            expected=f"at most {mapping.devices}, which the mapping is for",
            found=f"{len(whole.shards)} shards",
            hint=f"write Mapping(..., devices={len(whole.shards)})",
        )
    pieces, at = list[Piece](), 0
    for place, shard in enumerate(whole.shards):
        seen = view(shard)
        end = at + seen.shape[whole.dim]
        box = [(0, size) for size in seen.shape]
        box[whole.dim] = (at, end)
        at = end
        device = place % mapping.devices if seen.device == HOST else seen.device
        pieces.append(Piece(tuple(box), device, Region(first + place, seen.shape)))
    dtype = element_type(whole.shards[0])
    return Buffer(name, whole.shape, dtype, data=Held(name, whole.shape, dtype, pieces)).whole()
