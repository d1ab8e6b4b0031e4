"""The program that a mapping makes of tasks: copies, calls of leaves and loops, as a tree.

Each launch is a `Scope`. Its tensors are buffers of its own: copied in at its start where the
task reads them, and copied out at its end where it writes them. Serial meaning: node after node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tawa.base.source import Span
from tawa.tasks.language.defaults import Resolved
from tawa.tasks.language.privileges import Privilege
from tawa.tasks.language.sizes import Number, plain
from tawa.tasks.language.task import Variant
from tawa.tasks.language.tensors import Buffer, Tensor


@dataclass(eq=False)
class Copy:
    """The elements of one view become those of another, of the same shape."""

    source: Tensor
    target: Tensor
    instance: Resolved
    span: Span | None = None
    reduction: Privilege | None = None
    """The privilege of the launch that copies in or out, if that reduces into the argument."""
    combine: str | None = None
    """The operator by which the elements are combined into the target's, atomically."""


@dataclass(frozen=True)
class Share:
    """A level at which a leaf's tiles are shared: by how many of a processor, and cut where."""

    processor: str
    extent: int
    cut: Mapping[str, int | None]
    """By parameter, the dimension that each has a box of; None where all have the same tile."""


@dataclass(eq=False)
class Call:
    """A leaf on tiles and numbers, in the order of its parameters."""

    leaf: Variant
    args: list[Tensor | Any]
    instance: Resolved
    span: Span | None = None
    shares: list[Share] = field(default_factory=list[Share])
    """The levels below a block at which it is shared, the outermost first."""

    def tensors(self) -> Iterator[tuple[int, str, Tensor]]:
        """The arguments that are tensors: position, parameter, view."""
        for place, (name, arg) in enumerate(zip(self.leaf.parameters, self.args, strict=True)):
            if isinstance(arg, Tensor):
                yield place, name, arg


@dataclass(eq=False)
class Loop:
    """A body for each index, in order, or if `parallel` in any."""

    indices: tuple[str, ...]
    extents: tuple[Number, ...]
    body: list[Node]
    parallel: bool
    instance: Resolved
    span: Span | None = None


@dataclass(eq=False)
class Scope:
    """What one launch does."""

    instance: Resolved
    body: list[Node]
    span: Span | None = None


Node: TypeAlias = Copy | Call | Loop | Scope


@dataclass(frozen=True)
class Required:
    """A matrix instruction (rows, columns, depth) that makes an instance's products."""

    instance: Resolved
    shape: tuple[int, int, int]
    span: Span | None


@dataclass
class TaskProgram:
    """A traced program: its arguments' buffers, its scalars, and what it does."""

    arguments: dict[str, Buffer]
    scalars: dict[str, Any]
    root: Scope
    made: list[Buffer] = field(default_factory=list[Buffer])
    tunables: dict[tuple[str, str], Any] = field(default_factory=dict[tuple[str, str], Any])
    """The tunables that were asked for, by record and name, with their values."""
    instances: list[tuple[Resolved, dict[str, str]]] = field(
        default_factory=list[tuple[Resolved, dict[str, str]]]
    )
    """The instances that were launched, with the memories of their arguments."""
    required: list[Required] = field(default_factory=list[Required])
    """The instructions that `partition_by_mma` cuts for."""

    def text(self) -> str:
        """The program, a node a line."""
        head = ", ".join(declared(b) for b in self.arguments.values())
        return "\n".join([f"program({head})", *lines([self.root], "  ")]) + "\n"


def declared(buffer: Buffer) -> str:
    """A buffer with its type and memory."""
    shape = "x".join(plain(size) for size in buffer.shape)
    return f"{buffer.name}: {shape} {buffer.dtype} {buffer.memory}"


def inner(node: Node) -> list[Node]:
    """The nodes directly in a loop or scope."""
    return node.body if isinstance(node, Loop | Scope) else []


def walk(nodes: list[Node]) -> Iterator[Node]:
    """All nodes, each before what is in it."""
    for node in nodes:
        yield node
        yield from walk(inner(node))


def accesses(node: Node) -> Iterator[tuple[Tensor, bool]]:
    """What a node and all in it touches: views, and whether they are written."""
    if isinstance(node, Copy):
        yield node.source, False
        if node.combine:
            yield node.target, False
        yield node.target, True
    elif isinstance(node, Call):
        for _, name, tensor in node.tensors():
            privilege = node.leaf.task.privileges[name]
            if privilege.reads:
                yield tensor, False
            if privilege.writes:
                yield tensor, True
    else:
        for below in inner(node):
            yield from accesses(below)


def copy_text(node: Copy) -> str:
    """A copy, or what is combined into its target."""
    return f"{node.combine or 'copy'} {node.source} -> {node.target}"


def call_text(node: Call) -> str:
    """A call of a leaf, and who shares it."""
    args = ", ".join(str(a) if isinstance(a, Tensor) else plain(a) for a in node.args)
    shared = [f"{s.extent} {s.processor}s" for s in reversed(node.shares)]
    by = f" by {' of '.join(shared)}".replace("_", " ") if shared else ""
    return f"call {node.leaf.name}({args}){by}"


def lines(nodes: list[Node], indent: str = "") -> Iterator[str]:
    """The text of nodes."""
    for node in nodes:
        if isinstance(node, Copy):
            yield f"{indent}{copy_text(node)}"
        elif isinstance(node, Call):
            yield f"{indent}{call_text(node)}"
        elif isinstance(node, Loop):
            bounds = ", ".join(plain(extent) for extent in node.extents)
            kind = "prange" if node.parallel else "srange"
            yield f"{indent}for {', '.join(node.indices)} in {kind}({bounds}):"
            yield from lines(node.body, indent + "  ")
        else:
            yield f"{indent}{node.instance.record.name} on {node.instance.processor}:"
            yield from lines(node.body, indent + "  ")
