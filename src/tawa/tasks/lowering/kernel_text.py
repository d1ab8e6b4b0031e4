"""One block's part of a program as a kernel of the tile language.

Tiles are variables: a copy from global memory is a load, a copy to it a store, a leaf a call. Loops
in order become `for` loops. What is left to do (roles, rings, layouts, machine code) the compiler
does as for any other kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, TypeAlias

from tawa.base.source import Span
from tawa.tasks.graph.ir import Call, Copy, Loop, Node, Scope, accesses, copy_text, walk
from tawa.tasks.language.defaults import Resolved, where
from tawa.tasks.language.element_types import language_name
from tawa.tasks.language.errors import BadPartition, TensorNotMapped, UnmetNone
from tawa.tasks.language.privileges import OPERATORS
from tawa.tasks.language.sizes import (
    Number,
    Size,
    divisor,
    elements_of,
    is_of_data,
    least,
    names,
    not_empty,
    text,
    with_index,
)
from tawa.tasks.language.sizes import kernel_text as size_text
from tawa.tasks.language.tensors import Buffer, Tensor
from tawa.tasks.lowering.grids import RaggedGrid, ragged_grid, sizes_in
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
    stray: set[int] = field(default_factory=set[int])
    """Of these lines, those that load what the next group has past the end of a group."""

    @property
    def one_tensor(self) -> tuple[tuple[str, str], ...]:
        """Pairs of parameters that are one tensor: its address, and descriptors of its boxes."""
        of = {
            name: parameter if isinstance(parameter, Buffer) else parameter.buffer
            for name, parameter in self.parameters.items()
            if isinstance(parameter, Buffer | Described)
        }
        return tuple(pair for pair in combinations(of, 2) if of[pair[0]] is of[pair[1]])

    @property
    def has_ends(self) -> bool:
        """Whether a box may reach past an end of its tensor, for some sizes."""
        return any(ending(view) for view in self.boxes.values())


def ending(view: Tensor) -> list[int]:
    """The dimensions in which a box may reach past an end, for some sizes."""
    return [
        d
        for d, (o, s) in enumerate(zip(view.origin, view.size, strict=True))
        if view.bounds(d) or not (text(o) == "0" and text(s) == text(view.buffer.shape[d]))
    ]


def kernel_text(
    name: str,
    scope: Scope,
    loops: Sequence[Loop],
    group: int,
    lies: dict[str, Lie],
    *,
    exact: bool = False,
) -> KernelText:
    """The kernel of a block's scope in parallel loops.

    `exact`: boxes of a group are filled up with zeros past its end; else with what the copy engine
    finds there. Raises `UnmetNone`, `TensorNotMapped`, `BadMapping`.
    """
    check_tiles(scope)
    indices = [i for loop in loops for i in loop.indices]
    extents = [e for loop in loops for e in loop.extents]
    ragged = ragged_grid(scope, indices, extents)
    flat = (indices, extents) if ragged is None else (ragged.indices, ragged.extents)
    writer = _Writer(KernelText(name, scope, tuple(flat[1])), lies, exact)
    writer.place(*flat, group)
    depth = 1 if ragged is None else writer.group(ragged)
    writer.elements_of_grid(indices, depth)
    writer.nodes(scope.body, depth)
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

    def __init__(self, kernel: KernelText, lies: dict[str, Lie], exact: bool) -> None:
        self.kernel = kernel
        self.lies = lies
        self.exact = exact
        self.elements: dict[str, str] = {}
        self.lines: list[str] = []
        self.source: Source = kernel.scope.span, kernel.scope.instance
        self.depth = 1

    def line(self, text_: str) -> None:
        self.lines.append("    " * self.depth + text_)
        self.kernel.sources.append(self.source)

    def size(self, size: Number) -> str:
        """A size's text; its names become parameters, unless loops define them."""
        for name in names(size):
            if name not in self.defined and not name.endswith("[]"):
                self.kernel.parameters.setdefault(name, name)
        for element in elements_of(size):
            self.kernel.parameters.setdefault(element.name, element.source)
        return size_text(size, self.elements)

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

    def group(self, ragged: RaggedGrid) -> int:
        """Lines that find the group of a block, and its place in the group; the body's depth."""
        count, index, at = self.size(ragged.groups), ragged.group, ragged.flat
        blocks = self.size(with_index(ragged.blocks, index, Size(ragged.known, "name", "group")))
        self.kernel.parameters.pop("group", None)
        self.line(f"{index}, before, seen = 0, 0, 0")
        self.line(f"for group in range(0, {plain_(count)}):")
        self.depth += 1
        self.line(f"seen = seen + {blocks}")
        self.line(f"{index} = tl.where(seen <= {at}, group + 1, {index})")
        self.line(f"before = tl.where(seen <= {at}, seen, before)")
        self.depth -= 1
        self.defined |= {index, ragged.index}
        self.line(f"if {index} < {plain_(count)}:")
        self.depth += 1
        self.line(f"{ragged.index} = {at} - before")
        return self.depth

    def elements_of_grid(self, indices: Sequence[str], depth: int) -> None:
        """Lines that load the elements of tensors that a block's place decides on."""
        self.depth = depth
        for size in sizes_in(self.kernel.scope):
            for element in elements_of(size):
                own = {n for n in names(element) if n in self.defined or n in indices}
                loops = {n for n in names(element) if n in element.known.extents} - own
                if not loops and text(element) not in self.elements:
                    name = f"{element.name}_at{len(self.elements)}"
                    self.line(f"{name} = {self.size(element)}")
                    self.elements[text(element)] = name

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
        """A loop an index; that it runs at all, where sizes say so, is promised."""
        for index, extent in zip(node.indices, node.extents, strict=True):
            for size in not_empty(extent):
                self.line(f"tl.assume({self.size(size)} > 0)")
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
        stray = any(view.within) and not self.exact
        plain = (not view.past_end or not mask) and (stray or not any(view.within))
        by_engine = plain and tile.memory != "register"
        described = self.descriptor(view) if by_engine else None
        if described is not None and stray:
            self.kernel.stray.add(len(self.lines))
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
        """Lines that store a tile to a box; of a group, by the copy engine where all of it is."""
        inside = self.inside(view)
        if inside and self.descriptor(view) is not None:
            self.line(f"if {inside}:")
            self.depth += 1
            self.stored(view, tile)
            self.depth -= 1
            self.line("else:")
            self.depth += 1
            self.masked(view, tile)
            self.depth -= 1
        else:
            self.stored(view, tile)

    def inside(self, view: Tensor) -> str:
        """The condition that a box does not reach past the ends of its groups; empty without."""
        tests: list[str] = []
        for d, (o, s) in enumerate(zip(view.origin, view.size, strict=True)):
            group = view.bounds(d)
            if group is not None:
                tests.append(f"{self.size(o + s)} <= {self.size(group.high)}")
                if least(group.shift) is None:
                    tests.append(f"{self.size(o)} >= {self.size(group.low)}")
        return " and ".join(tests)

    def stored(self, view: Tensor, tile: str) -> None:
        """Lines that store a tile to a box that is not of a group, or all inside of one."""
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
        self.masked(view, tile)

    def masked(self, view: Tensor, tile: str) -> None:
        """A line that stores a tile through addresses."""
        mask = self.mask(view)
        self.line(f"tl.store({self.addresses(view)}, {tile}" + (f", mask={mask})" if mask else ")"))

    def descriptor(self, view: Tensor) -> tuple[str, bool] | None:
        """The parameter with a descriptor for a box, and whether it is turned; None without one."""
        lie = self.lies[view.buffer.name]
        block = tuple(int(s) for s in view.size)
        if not lie.takes(block) or not lie.begins(divisor(view.origin[0 if lie.turned else -1])):
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
        self.check_side(view, d)
        at = f"{origin} + tl.arange(0, {int(view.size[d])})"
        if rank == 1:
            return at
        index = ", ".join(":" if e == d else "None" for e in view.dims)
        return f"({at})[{index}]"

    def check_side(self, view: Tensor, d: int) -> None:
        """Raises `BadPartition` for a side of a tile whose addresses can't be laid out."""
        size, (span, instance) = int(view.size[d]), self.source
        if size % 8 == 0 or size & (size - 1) == 0:
            return
        wider = min(1 << size.bit_length(), -(-size // 8) * 8)
        raise BadPartition(
            f"boxes of `{view.buffer.name}` have {size} elements in dimension {d}",
            span=span,
            expected="a power of two, or a multiple of 8, where the copy engine can't load a box",
            found=str(size),
            hint=f"cut boxes of {wider}: past the end they hold zeros, or what `past_end` says",
            notes=[where(instance)],
        )

    def mask(self, view: Tensor) -> str:
        """Which of a box's coordinates are in its tensor; empty where all surely are."""
        tests: list[str] = []
        for d, (o, s) in enumerate(zip(view.origin, view.size, strict=True)):
            extent, group = view.buffer.shape[d], view.bounds(d)
            if group is not None:
                at = self.places(view, d)
                tests.append(f"({at} < {self.size(group.high)})")
                if least(group.shift) is None:
                    tests.append(f"({at} >= {self.size(group.low)})")
                if is_of_data(group.high):  # offsets end with the tensor
                    continue
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
