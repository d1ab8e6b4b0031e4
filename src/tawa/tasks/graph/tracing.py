"""From inner variants to a task program: every launch with copies in and out.

Inner variants run as Python, once for all iterations of their loops. A loop's body runs twice with
the same index, and has to do the same both times: what changes from iteration to iteration without
the index is an error, not a wrong program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tawa.base.source import Span
from tawa.tasks.graph.ir import Call, Copy, Loop, Node, Required, Scope, TaskProgram, lines
from tawa.tasks.graph.races import check_arguments, check_iterations
from tawa.tasks.language.arguments import checked_arguments
from tawa.tasks.language.defaults import Resolved, path_of, resolve_launch, where
from tawa.tasks.language.errors import (
    BadMapping,
    BadPartition,
    LoopNotUniform,
    PrivilegeViolation,
)
from tawa.tasks.language.mapping import Mapping
from tawa.tasks.language.privileges import Privilege
from tawa.tasks.language.running import running
from tawa.tasks.language.sizes import Known, Number, Size
from tawa.tasks.language.task import Task
from tawa.tasks.language.tensors import Buffer, Tensor
from tawa.tasks.language.written import Written


@dataclass(eq=False)
class Frame:
    """An inner variant that runs: where its nodes go, and its launch statements so far."""

    instance: Resolved
    nodes: list[Node]
    sites: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])
    in_grid: bool = False
    owners: dict[int, Privilege] = field(default_factory=dict[int, Privilege])
    """The variant's own privilege on each of its arguments, by buffer's id."""
    open_loops: list[Span | None] = field(default_factory=list["Span | None"])
    """Loops that were entered and not run to their end."""

    def site(self, span: Span | None) -> int:
        """The number of a launch statement."""
        place = ("", 0, 0) if span is None else (span.file, span.line, span.column)
        if place not in self.sites:
            self.sites.append(place)
        return self.sites.index(place)


class Tracer:
    """Runs inner variants, and writes down what they do."""

    def __init__(self, mapping: Mapping, known: Known, reserved: set[str]) -> None:
        self.mapping = mapping
        self.reserved = reserved
        self.known = known
        self.frames: list[Frame] = []
        self.made: list[Buffer] = []
        self.indices: tuple[str, ...] = ()
        self.counts: dict[str, int] = {}
        self.tunables: dict[tuple[str, str], Any] = {}
        self.instances: list[tuple[Resolved, dict[str, str]]] = []
        self.required: list[Required] = []
        self.written = Written()

    @property
    def frame(self) -> Frame:
        """The variant that runs now."""
        return self.frames[-1]

    def launch(self, task: Task, args: tuple[Any, ...], span: Span | None) -> None:
        """A launch statement."""
        caller = self.frame.instance
        checked_arguments(task, args, caller, self.frame.owners, span)
        check_arguments(task, args, self.known, caller, span)
        self.written.before(task, args, caller, span)
        site = self.frame.site(span)
        found = resolve_launch(caller, site, task, self.mapping, self.frame.in_grid, span)
        self.frame.nodes.append(self.scope(found, args, span))
        self.written.after(task, args)

    def scope(self, instance: Resolved, args: Sequence[Any], span: Span | None) -> Scope:
        """A launch with its copies."""
        task, scope = instance.variant.task, Scope(instance, [], span)
        own: list[Any] = list(args)
        outs: list[Copy] = []
        memories: dict[str, str] = {}
        self.instances.append((instance, memories))
        for place, (name, arg) in enumerate(zip(task.parameters, args, strict=True)):
            if not isinstance(arg, Tensor):
                continue
            privilege = task.privileges[name]
            memory = instance.memory(name, _default_memory(instance, arg, privilege), span)
            memories[name] = memory
            buffer = self.buffer(name, arg.shape, arg.dtype, memory, "launch", span, instance)
            buffer.of = buffer.home = arg
            own[place] = buffer.whole()
            reduction = privilege if privilege.operator else None
            if privilege.reads:
                scope.body.append(Copy(arg, buffer.whole(), instance, span, reduction))
            if privilege.writes:
                outs.append(Copy(buffer.whole(), arg, instance, span, reduction))
        self.body(instance, own, scope.body, span)
        scope.body += outs
        return scope

    def body(
        self, instance: Resolved, args: list[Any], nodes: list[Node], span: Span | None
    ) -> None:
        """What a variant does with its own buffers."""
        if instance.variant.is_leaf:
            for place, arg in enumerate(args):
                if isinstance(arg, Tensor):  # tiles have constant sizes
                    shape = tuple(int(size) for size in arg.buffer.shape)
                    arg.buffer.shape = shape
                    args[place] = arg.buffer.whole()
                elif isinstance(arg, Size) and instance.variant.is_constant(place):
                    args[place] = int(arg)
            nodes.append(Call(instance.variant, args, instance, span))
            return
        task = instance.variant.task
        frame = Frame(instance, nodes)
        for name, arg in zip(task.parameters, args, strict=True):
            if isinstance(arg, Tensor):
                frame.owners[id(arg.buffer)] = task.privileges[name]
        self.frames.append(frame)
        try:
            with path_of(instance):
                instance.variant.fn(*args)
        finally:
            self.frames.pop()
        self.written.results(instance, args)
        calls = instance.record.calls
        if calls is not None and len(calls) > len(frame.sites):
            raise BadMapping(
                f"`{instance.record.name}` has fewer launch statements than `calls`",
                span=instance.record.span,
                expected=f"{len(frame.sites)} names",
                found=", ".join(calls),
                notes=[where(instance)],
            )
        if frame.open_loops:
            raise self._not_uniform(frame.open_loops[0], "`break` or `return` in the body", frame)

    def loop(self, extents: tuple[Any, ...], parallel: bool, span: Span | None) -> Iterator[Any]:
        """A loop, whose body runs twice, with the same names for what it makes."""
        frame = self.frame
        names = tuple(self.fresh("i") for _ in extents)
        indices: list[Any] = [Size(self.known, "name", name) for name in names]
        self.known.extents |= dict(zip(names, extents, strict=True))
        outer, was_in_grid, around = frame.nodes, frame.in_grid, self.indices
        frame.in_grid = was_in_grid or (parallel and frame.instance.processor == "device")
        frame.open_loops.append(span)
        counts, made, bodies = dict(self.counts), len(self.made), list[list[Node]]()
        for _ in range(2):
            self.counts, frame.nodes, self.indices = dict(counts), [], (*around, *names)
            del self.made[made:]
            bodies.append(frame.nodes)
            yield tuple(indices) if len(indices) > 1 else indices[0]
        frame.nodes, frame.in_grid, self.indices = outer, was_in_grid, around
        frame.open_loops.pop()
        first, second = (list(lines(body)) for body in bodies)
        if first != second:
            raise self._not_uniform(span, _difference(first, second), frame)
        node = Loop(names, extents, bodies[1], parallel, frame.instance, span)
        if parallel:
            check_iterations(node, self.known)
        outer.append(node)

    def _not_uniform(self, span: Span | None, found: str, frame: Frame) -> LoopNotUniform:
        return LoopNotUniform(
            "the loop's body does not do the same in each iteration",
            span=span,
            expected="a body whose launches depend on the index alone",
            found=found,
            hint="compute what changes from the index, or unroll the loop with `range`",
            notes=[where(frame.instance)],
        )

    def tunable(self, name: str, default: Any, span: Span | None) -> Any:
        """The value that the mapping binds."""
        instance = self.frame.instance
        found = instance.tunable(name, default, span)
        self.tunables[instance.record.name, name] = found
        return found

    def make(self, shape: tuple[Any, ...], dtype: Any, span: Span | None) -> Tensor:
        """A tensor of the variant's own."""
        instance = self.frame.instance
        name = _assigned_name(span) or "made"
        default = "global" if instance.processor == "device" else "register"
        memory = instance.memory(name, default, span)
        return self.buffer(name, shape, dtype, memory, "made", span, instance).whole()

    def require(self, shape: tuple[int, int, int], span: Span | None) -> None:
        """The matrix instruction that the products of what is launched are made by."""
        found = Required(self.frame.instance, shape, span)
        if found not in self.required:
            self.required.append(found)

    def element(self, tensor: Tensor, index: Any, most: Any, span: Span | None) -> Any:
        """A number that is known only when the program runs."""
        frame = self.frame
        own = frame.owners.get(id(tensor.buffer))
        if own is not None and not own.sees:
            raise PrivilegeViolation(
                f"offsets are read from `{tensor}`",
                span=span,
                expected="a tensor with the privilege READ",
                found=str(own),
                notes=[where(frame.instance)],
            )
        root = tensor
        while root.is_whole and root.buffer.home is not None:
            root = root.buffer.home
        if not root.is_whole or root.buffer.memory != "global":
            raise BadPartition(
                f"offsets are read from `{tensor}`",
                span=span,
                expected="a whole tensor in global memory",
                found=f"{root} in {root.buffer.memory} memory",
                notes=[where(frame.instance)],
            )
        return Size(self.known, "at", root.buffer.name, index, most, root.buffer)

    def buffer(
        self, name: str, shape: tuple[Number, ...], dtype: Any, memory: str, kind: str,
        span: Span | None, instance: Resolved,
    ) -> Buffer:  # fmt: skip
        """A new buffer with a name of its own."""
        found = Buffer(
            self.fresh(name), shape, dtype, memory, kind, span,
            instance.path, inside=self.indices,
        )  # fmt: skip
        self.made.append(found)
        return found

    def fresh(self, name: str) -> str:
        """A name that nothing else has."""
        while True:
            count = self.counts[name] = self.counts.get(name, 0) + 1
            if f"{name}{count}" not in self.reserved:
                return f"{name}{count}"


def _default_memory(instance: Resolved, arg: Tensor, privilege: Privilege) -> str:
    """Where defaults put an argument: leaves read shared memory and write registers."""
    given = arg.buffer.memory
    if instance.processor == "device" or not instance.variant.is_leaf:
        return given
    if privilege.writes and not (privilege.reads and given == "global"):
        return "register"
    return {"global": "shared", "none": "register"}.get(given, given)


def _assigned_name(span: Span | None) -> str | None:
    """The variable that a line assigns to."""
    line = (span.source_line() or "") if span else ""
    name = line.partition("=")[0].strip()
    return name if name.isidentifier() else None


def _difference(first: list[str], second: list[str]) -> str:
    for one, other in zip(first, second, strict=False):
        if one != other:
            return f"{one.strip()}\nand then {other.strip()}"
    return f"{len(first)} steps, and then {len(second)}"


def trace(
    instance: Resolved, args: Sequence[Any], mapping: Mapping, known: Known, span: Span | None
) -> TaskProgram:
    """The program of an instance's call: `args` are buffers and scalars, by position.

    Scalars are `Size`s of `known`, or constants.
    """
    task = instance.variant.task
    tracer = Tracer(mapping, known, {*task.parameters, *known.values})
    tensors = [arg.whole() if isinstance(arg, Buffer) else arg for arg in args]
    with running(tracer):
        root = tracer.scope(instance, tensors, span)
    arguments = {a.name: a for a in args if isinstance(a, Buffer)}
    scalars = {
        n: a for n, a in zip(task.parameters, args, strict=True) if not isinstance(a, Buffer)
    }
    return TaskProgram(
        arguments, scalars, root, tracer.made, tracer.tunables, tracer.instances, tracer.required
    )
