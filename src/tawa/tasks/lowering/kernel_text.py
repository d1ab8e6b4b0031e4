"""One block's part of a program as a kernel of the tile language.

Tiles are variables: a copy from global memory is a load, a copy to it a store, a leaf a call. Loops
in order become `for` loops. What is left to do (roles, rings, layouts, machine code) the compiler
does as for any other kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from tawa.base.source import Span
from tawa.tasks.graph.ir import Call, Copy, Loop, Node, Scope, accesses, copy_text, walk
from tawa.tasks.language.defaults import Resolved, where
from tawa.tasks.language.element_types import language_name
from tawa.tasks.language.errors import TensorNotMapped, UnmetNone
from tawa.tasks.language.privileges import OPERATORS
from tawa.tasks.language.sizes import Number, least, names, text
from tawa.tasks.language.sizes import kernel_text as size_text
from tawa.tasks.language.tensors import Buffer, Tensor
from tawa.tasks.lowering.leaves import TILE_OF, Out, call_text, unread
from tawa.tasks.lowering.lies import Lie


@dataclass(frozen=True)
class Described:
    """A parameter that is the descriptor of a tensor (or, `turned`, its transpose) for boxes."""

    buffer: Buffer
    block: tuple[int, ...]
    turned: bool


@dataclass(frozen=True)
class Stride:
    """A parameter that is the stride of a buffer's dimension, in elements."""

    buffer: Buffer
    dimension: int


Source: TypeAlias = tuple[Span | None, Resolved]
"""What a line comes from: a statement of the program, and the instance that runs it."""


@dataclass
class KernelText:
    """A kernel: its text, and what each parameter is given."""

    name: str
    scope: Scope
    grid: tuple[Number, ...]
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    """By name: a `Buffer` (its address), a `Described`, a `Stride`, a size's name."""
    leaves: dict[str, Any] = field(default_factory=dict[str, Any])
    text: str = ""
    sources: list[Source] = field(default_factory=list[Source])
    """Where each line of the body comes from."""
    boxes: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    """The boxes that lines of the body fill up past the ends of their tensors."""

    @property
    def has_ends(self) -> bool:
        """Whether a box may reach past an end of its tensor, for some sizes."""
        return any(ending(view) for view in self.boxes.values())


def ending(view: Tensor) -> list[int]:
    """The dimensions in which a box may reach past an end, for some sizes."""
    return [
        d
        for d, (o, s) in enumerate(zip(view.origin, view.size, strict=True))
        if not (text(o) == "0" and text(s) == text(view.buffer.shape[d]))
    ]


def kernel_text(
    name: str, scope: Scope, loops: Sequence[Loop], group: int, lies: dict[str, Lie]
) -> KernelText:
    """The kernel of a block's scope in parallel loops. Raises `UnmetNone`, `TensorNotMapped`."""
    check_tiles(scope)
    extents = tuple(e for loop in loops for e in loop.extents)
    writer = _Writer(KernelText(name, scope, extents), lies)
    indices = [i for loop in loops for i in loop.indices]
    writer.place(indices, extents, group)
    writer.nodes(scope.body, 1)
    kernel = writer.kernel
    head = f"def {name}({', '.join(kernel.parameters)}):\n"
    body = writer.lines or ["    pass"]
    kernel.text = head + "".join(f"{line}\n" for line in body)
    return kernel


def check_tiles(scope: Scope) -> None:
    """Whether every tensor is where its memory says. Raises `UnmetNone`, `TensorNotMapped`."""
    for node in walk(scope.body):
        if isinstance(node, Loop | Scope):
            continue
        for view, _ in accesses(node):
            buffer = view.buffer
            if buffer.memory == "none":
                raise UnmetNone(
                    f"`{buffer.name}` has to be materialised",
                    span=node.span or buffer.span,
                    expected="a tensor that no leaf touches, and that hands nothing on: its memory "
                    "is none",
                    found=_use(node),
                    hint="map it to register or shared",
                    notes=[where(node.instance)],
                )
            if buffer.memory != "global" and not view.is_whole:
                raise TensorNotMapped(
                    f"a box of `{buffer.name}` is taken, which lives in {buffer.memory} memory",
                    span=node.span or buffer.span,
                    expected="all of it, or a tensor in global memory",
                    found=str(view),
                    hint="map it to global or none: boxes come from where its caller has it",
                    notes=[where(node.instance)],
                )
            if isinstance(node, Call) and buffer.memory == "global":
                raise TensorNotMapped(
                    f"the leaf `{node.leaf.name}` works on `{buffer.name}` in global memory",
                    span=node.instance.record.span,
                    expected="shared or register: a leaf computes with tiles",
                    found="global",
                    notes=[where(node.instance)],
                )
            if buffer.memory == "global" and buffer.kind != "argument" and _is_own(buffer, scope):
                raise TensorNotMapped(
                    f"`{buffer.name}` is a block's own, and lives in global memory",
                    span=buffer.span,
                    expected="register or shared; or a tensor that the device makes",
                    found=_use(node),
                    notes=[where(node.instance)],
                )


def _is_own(buffer: Buffer, scope: Scope) -> bool:
    return buffer.path[: len(scope.instance.path)] == scope.instance.path


def _use(node: Copy | Call) -> str:
    if isinstance(node, Call):
        return f"`{node.leaf.name}` computes with it"
    return copy_text(node)


class _Writer:
    """Writes the lines of one kernel."""

    def __init__(self, kernel: KernelText, lies: dict[str, Lie]) -> None:
        self.kernel = kernel
        self.lies = lies
        self.lines: list[str] = []
        self.source: Source = kernel.scope.span, kernel.scope.instance
        self.depth = 1

    def line(self, text_: str) -> None:
        self.lines.append("    " * self.depth + text_)
        self.kernel.sources.append(self.source)

    def size(self, size: Number) -> str:
        """A size's text; its names become parameters, unless loops define them."""
        for name in names(size):
            if name not in self.defined:
                self.kernel.parameters.setdefault(name, name)
        return size_text(size)

    defined: set[str]

    def place(self, indices: Sequence[str], extents: Sequence[Number], group: int) -> None:
        """The program's place in the grid: the last two indices in groups of rows."""
        self.defined = {*indices}
        if not indices:
            return
        self.line("pid = tl.program_id(0)")
        shown = [self.size(e) for e in extents]
        rest = "pid"
        if len(indices) >= 2 and group > 1:
            rows, columns = shown[-2:]
            if len(indices) > 2:
                self.line(f"pid_in = pid % ({rows} * {columns})")
                rest = f"(pid // ({rows} * {columns}))"
            inside = "pid_in" if len(indices) > 2 else "pid"
            at = f"{inside} // {columns}, {inside} % {columns}"
            self.line(
                f"{indices[-2]}, {indices[-1]} = tl.swizzle2d({at}, {rows}, {columns}, {group})"
            )
            indices, shown = indices[:-2], shown[:-2]
        for place in reversed(range(len(indices))):
            if place == 0:
                self.line(f"{indices[0]} = {rest}")
            else:
                self.line(f"{indices[place]} = {rest} % ({shown[place]})")
                rest = f"({rest} // ({shown[place]}))"

    def nodes(self, nodes: Sequence[Node], depth: int) -> None:
        """The lines of nodes."""
        self.depth = depth
        for node in nodes:
            self.source = node.span, node.instance
            if isinstance(node, Copy):
                self.copy(node)
            elif isinstance(node, Call):
                self.call(node)
            elif isinstance(node, Loop):
                self.loop(node, depth)

    def loop(self, node: Loop, depth: int) -> None:
        """A loop an index."""
        for index, extent in zip(node.indices, node.extents, strict=True):
            self.line(f"for {index} in range(0, {plain_(self.size(extent))}):")
            self.defined.add(index)
            self.depth += 1
        self.nodes(node.body or [], self.depth)
        if not node.body:
            self.line("pass")
        self.depth = depth

    def copy(self, node: Copy) -> None:
        """A load, a store, or a tile by another name."""
        source, target = node.source, node.target
        if source.buffer.memory == "global" and target.buffer.memory == "global":
            raise TensorNotMapped(
                f"{source} is copied to {target} without a leaf",
                span=node.span,
                expected="copies into tiles and out of them",
                found="global memory to global memory",
                hint="map both to the same memory, or copy in a leaf",
                notes=[where(node.instance)],
            )
        if node.combine:
            self.combine(node.combine, target, source.buffer.name)
        elif source.buffer.memory == "global":
            self.load(source, target.buffer)
        elif target.buffer.memory == "global":
            self.store(target, source.buffer.name)
        else:
            self.line(f"{target.buffer.name} = {source.buffer.name}")

    def combine(self, operator: str, view: Tensor, tile: str) -> None:
        """A line that combines a tile into a box, whatever other blocks do there."""
        mask = self.mask(view)
        given = [self.addresses(view), tile, *([f"mask={mask}"] if mask else []), 'sem="relaxed"']
        self.line(f"tl.atomic_{OPERATORS[operator][1]}({', '.join(given)})")

    def call(self, node: Call) -> None:
        """A call of a leaf; what it writes past the end of its home is made zero, if it is read."""
        task, args, outs = node.leaf.task, list[str](), list[Out]()
        self.kernel.leaves["tile_of"] = TILE_OF
        called = self.leaf(node)
        for name, arg in zip(node.leaf.parameters, node.args, strict=True):
            if not isinstance(arg, Tensor):
                args.append(self.size(arg) if not isinstance(arg, str) else repr(arg))
                continue
            privilege, buffer = task.privileges[name], arg.buffer
            shape = tuple(int(s) for s in buffer.shape)
            args.append(buffer.name if privilege.sees else unread(shape, buffer.dtype))
            if privilege.writes:
                outs.append(
                    Out(buffer.name, name, shape, buffer.dtype, privilege.operator, buffer.name)
                )
        for line in call_text(called, args, outs):
            self.line(line)
        for _, name, arg in node.tensors():
            if task.privileges[name].writes:
                self.clip(arg.buffer)

    def leaf(self, node: Call) -> str:
        """A leaf's name, or another one where that stands for something else."""
        wanted, leaves = node.leaf.name, self.kernel.leaves
        taken = self.defined | {*self.kernel.parameters} | self.variables | {"tl", "pid", "pid_in"}
        while wanted in taken or leaves.get(wanted, node.leaf.function) is not node.leaf.function:
            wanted += "_"
        leaves[wanted] = node.leaf.function
        return wanted

    @cached_property
    def variables(self) -> set[str]:
        """The names of all buffers that the kernel touches."""
        return {view.buffer.name for view, _ in accesses(self.kernel.scope)}

    def clip(self, buffer: Buffer) -> None:
        """Fill a tile up past the end of what it is a copy of, where the tile itself is read on."""
        home = buffer.home
        while home is not None and home.buffer.memory != "global" and home.is_whole:
            home = home.buffer.home
        if home is None or not self.is_read_on(buffer, home):
            return
        mask = self.mask(home)
        if mask:
            self.boxes[len(self.lines)] = home
            shape, kind = [int(s) for s in buffer.shape], language_name(buffer.dtype)
            filling = f"tl.full({shape}, {text(home.past_end or 0)}, tl.{kind})"
            self.line(f"{buffer.name} = tl.where({mask}, {buffer.name}, {filling})")

    def is_read_on(self, buffer: Buffer, home: Tensor) -> bool:
        """Whether anything but a store to its home reads a tile."""
        for node in walk(self.kernel.scope.body):
            if isinstance(node, Copy) and node.source.buffer is buffer:
                if str(node.target) != str(home):
                    return True
            elif isinstance(node, Call):
                for _, name, tensor in node.tensors():
                    if tensor.buffer is buffer and node.leaf.task.privileges[name].reads:
                        return True
        return False

    def load(self, view: Tensor, tile: Buffer) -> None:
        """Lines that load a box, filled up outside of its tensor."""
        self.boxes[len(self.lines)] = view
        self.line(f"{tile.name} = {self.loaded(view, tile)}")

    @property
    def boxes(self) -> dict[int, Tensor]:
        """The boxes that lines of the body fill up past ends."""
        return self.kernel.boxes

    def loaded(self, view: Tensor, tile: Buffer) -> str:
        """An expression that loads a box."""
        shape = tuple(int(s) for s in tile.shape)
        mask = self.mask(view)
        plain = not view.past_end or not mask
        described = self.descriptor(view) if plain else None
        if described is not None:
            name, turned = described
            origin = [plain_(self.size(o)) for o in view.origin]
            found = f"{name}.load([{', '.join(reversed(origin) if turned else origin)}])"
            if turned:
                return f"{found}.T"
            return found if len(view.dims) == len(view.size) else f"{found}.reshape({list(shape)})"
        other = text(view.past_end or 0)
        return f"tl.load({self.addresses(view)}" + (
            f", mask={mask}, other={other})" if mask else ")"
        )

    def store(self, view: Tensor, tile: str) -> None:
        """Lines that store a tile to a box."""
        described = self.descriptor(view)
        if described is not None:
            name, turned = described
            origin = [plain_(self.size(o)) for o in view.origin]
            if turned:
                self.line(f"{name}.store([{', '.join(reversed(origin))}], {tile}.T)")
                return
            if len(view.dims) != len(view.size):
                tile = f"{tile}.reshape({[int(s) for s in view.size]})"
            self.line(f"{name}.store([{', '.join(origin)}], {tile})")
            return
        mask = self.mask(view)
        self.line(f"tl.store({self.addresses(view)}, {tile}" + (f", mask={mask})" if mask else ")"))

    def descriptor(self, view: Tensor) -> tuple[str, bool] | None:
        """The parameter with a descriptor for a box, and whether it is turned; None without one."""
        lie = self.lies[view.buffer.name]
        block = tuple(int(s) for s in view.size)
        if not lie.takes(block):
            return None
        wanted = Described(view.buffer, block[::-1] if lie.turned else block, lie.turned)
        for name, given in self.kernel.parameters.items():
            if given == wanted:
                return name, lie.turned
        count = sum(isinstance(p, Described) for p in self.kernel.parameters.values())
        name = f"{view.buffer.name}_desc{count or ''}"
        self.kernel.parameters[name] = wanted
        return name, lie.turned

    def addresses(self, view: Tensor) -> str:
        """Addresses of a box's elements."""
        base = view.buffer.name
        self.kernel.parameters.setdefault(base, view.buffer)
        parts = [base]
        for d in range(len(view.size)):
            stride = f"{base}_stride{d}"
            self.kernel.parameters.setdefault(stride, Stride(view.buffer, d))
            parts.append(f"({self.places(view, d)}).to(tl.int64) * {stride}")
        return " + ".join(parts)

    def places(self, view: Tensor, d: int) -> str:
        """A dimension's coordinates, along the tile's own dimension."""
        origin = self.size(view.origin[d])
        if d not in view.dims:
            return f"{origin} + tl.full([], 0, tl.int32)"
        rank = len(view.dims)
        at = f"{origin} + tl.arange(0, {int(view.size[d])})"
        if rank == 1:
            return at
        index = ", ".join(":" if e == d else "None" for e in view.dims)
        return f"({at})[{index}]"

    def mask(self, view: Tensor) -> str:
        """Which of a box's coordinates are in its tensor; empty where all surely are."""
        tests: list[str] = []
        for d, (o, s) in enumerate(zip(view.origin, view.size, strict=True)):
            extent = view.buffer.shape[d]
            if text(o) == "0" and text(s) == text(extent):
                continue
            at = self.places(view, d)
            tests.append(f"({at} < {self.size(extent)})")
            if least(o) is None:
                tests.append(f"({at} >= 0)")
        return " & ".join(tests)


def plain_(found: str) -> str:
    """A text without parentheses around all of it."""
    depth = 0
    for place, char in enumerate(found):
        depth += (char == "(") - (char == ")")
        if depth == 0 and place < len(found) - 1:
            return found
    return found[1:-1] if found.startswith("(") else found
