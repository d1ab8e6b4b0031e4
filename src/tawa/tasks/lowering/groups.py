"""Loops over a block's warp groups or warps, as one step that all of them make together.

    for g in prange(2):                       copy acc -> acc2
        multiply_tile on warp_group:          copy a -> a4
          copy acc[g * 64 +: 64, ...] -> acc2 call multiply_tile(acc2, a4, b4)
          copy a[g * 64 +: 64, ...] -> a4
          call multiply_tile(acc2, a4, b4)

Which group has which box is then said by the layouts of the team's tiles; that they say the same is
looked at in the compiled kernel (`layouts`). The tiles of all groups have to be one tile, cut along
one dimension, and the leaf has to treat the boxes apart (`together`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tawa.base.errors import Note
from tawa.base.spans import span_of
from tawa.driver.inspection.tile_programs import Apart, check_apart
from tawa.tasks.graph.copies import TILES
from tawa.tasks.graph.ir import (
    Call,
    Copy,
    Loop,
    Node,
    Scope,
    Share,
    TaskProgram,
    accesses,
    inner,
    walk,
)
from tawa.tasks.language.defaults import Resolved, where
from tawa.tasks.language.element_types import numpy_type
from tawa.tasks.language.errors import BadMapping, NotShared
from tawa.tasks.language.mapping import PROCESSORS, WARPS
from tawa.tasks.language.sizes import Number, Size, coefficient, constant, names, text, with_index
from tawa.tasks.language.tensors import Bounds, Buffer, Tensor
from tawa.tasks.lowering.leaves import module_of

BLOCK = PROCESSORS.index("block")


def share_loops(program: TaskProgram) -> None:
    """Make one step of each loop that is mapped to warp groups or warps, the innermost first.

    So it does with other parallel loops of a block that cut a block's tiles, where that can be: no
    kernel could run them otherwise. Raises `NotShared`, `BadMapping`.
    """
    for node in walk([program.root]):
        _check_in_loop(node)
    _in(program.root.body, program)


def _in(nodes: list[Node], program: TaskProgram) -> None:
    for node in list(nodes):
        _in(inner(node), program)
        if not isinstance(node, Loop) or not node.parallel:
            continue
        if PROCESSORS.index(node.instance.processor) < BLOCK:
            continue
        below = _processor_below(node)
        asked = below != node.instance.processor
        if not asked and not _cuts_tiles(node):
            continue
        try:
            shared = _Shared(node, below if asked else "", program)
        except NotShared:
            if asked:
                raise
            continue
        shared.apply()
        nodes[nodes.index(node) : nodes.index(node) + 1] = node.body


def _check_in_loop(node: Node) -> None:
    """What runs on warp groups or warps is launched by a `prange`: it says how many there are."""
    for launched in inner(node) if isinstance(node, Loop | Scope) else ():
        if not isinstance(launched, Scope) or (isinstance(node, Loop) and node.parallel):
            continue
        processor = launched.instance.processor
        if processor != node.instance.processor and PROCESSORS.index(processor) > BLOCK:
            raise BadMapping(
                f"`{launched.instance.record.name}` is mapped to a {processor}, and not in a "
                "`prange`",
                span=launched.span,
                expected=f"a `prange` of the variant that launches it: an iteration a {processor}",
                found="a launch by itself",
                hint="map it to a block: all warps of a block work on its tiles",
                notes=[where(launched.instance)],
            )


def _processor_below(loop: Loop) -> str:
    found = {n.instance.processor for n in walk(loop.body) if isinstance(n, Scope)}
    found -= {loop.instance.processor}
    return min(found, key=PROCESSORS.index, default=loop.instance.processor)


def _cuts_tiles(loop: Loop) -> bool:
    """Whether iterations have boxes of a tile of the block's."""
    return any(
        view.buffer.memory in TILES
        and loop.indices[0] not in view.buffer.inside
        and any(name in loop.indices for o in view.origin for name in names(o))
        for view, _ in accesses(loop)
    )


@dataclass(frozen=True)
class _Step:
    """One index of a loop: its name, and how many values it has."""

    index: str
    extent: int


class _Shared:
    """A loop's body as it is for all values of its indices at once. Raises `NotShared`."""

    def __init__(self, loop: Loop, processor: str, program: TaskProgram) -> None:
        self.loop, self.processor, self.program = loop, processor, program
        self.views: dict[int, tuple[Tensor, Tensor]] = {}
        self.shapes: dict[int, tuple[Buffer, tuple[Number, ...]]] = {}
        self.cut: dict[int, int | None] = {}
        """By buffer of an iteration's own: the dimension that iterations are put together in."""
        steps = [_Step(i, self.extent(e)) for i, e in zip(loop.indices, loop.extents, strict=True)]
        wide = [step for step in steps if step.extent > 1]
        if len(wide) > 1:
            raise self.error(loop, "iterations of one index", f"{len(wide)} indices")
        self.step = wide[0] if wide else steps[0]
        self.gone = {step.index for step in steps} - {self.step.index}
        self.look()

    def extent(self, size: Number) -> int:
        found = constant(size)
        if found is None:
            raise self.error(self.loop, "a number that the program or its mapping names", str(size))
        return found

    def error(
        self, node: Node | Buffer, expected: str, found: str, note: Note | None = None
    ) -> NotShared:
        by = f"{self.processor}s".replace("_", " ") if self.processor else "its warps"
        return NotShared(
            f"a `prange` of a block can't be shared by {by}",
            span=node.span,
            expected=expected,
            found=found,
            notes=[where(self.loop.instance), *([note] if note else [])],
        )

    def look(self) -> None:
        """Find what every buffer and view becomes."""
        own = {self.step.index, *self.gone}
        for buffer in self.program.made:
            if own & {*buffer.inside}:
                self.cut[id(buffer)] = d = self.dimension(buffer)
                shape = list(buffer.shape)
                if d is not None:
                    shape[d] = self.extent(shape[d]) * self.step.extent
                self.shapes[id(buffer)] = buffer, tuple(shape)
        for node in walk(self.loop.body):
            if isinstance(node, Loop) and any(own & {*names(e)} for e in node.extents):
                raise self.error(
                    node, "loops of the same extent in all iterations", str(node.extents)
                )
            for view in _views(node):
                self.seen(view, node)
            if isinstance(node, Copy) and node.reduction and self.unmoved(node):
                raise self.error(node, "each iteration to reduce into elements of its own",
                                 f"{node.target} in all of them")  # fmt: skip
            if isinstance(node, Call):
                self.check_call(node)

    def unmoved(self, node: Copy) -> bool:
        """Whether all iterations copy to, and from, the same elements."""
        return self.step.extent > 1 and all(
            self.seen(view, node).size == view.size for view in (node.source, node.target)
        )

    def dimension(self, buffer: Buffer) -> int | None:
        """Where iterations' own tensors are put together; None if all have the same."""
        outer = buffer.of
        if outer is None:
            return 0 if buffer.shape else None
        if id(outer.buffer) in self.cut:
            d = self.cut[id(outer.buffer)]
        else:
            d = self.moving(outer, buffer)
        if d is None:
            return None
        if d not in outer.dims:
            raise self.error(
                buffer, "boxes that show the dimension which iterations differ in", f"{outer}"
            )
        return outer.dims.index(d)

    def moving(self, view: Tensor, node: Node | Buffer) -> int | None:
        """The dimension in which an outer view moves on by its own size in each iteration."""
        step = self.step
        found = [d for d, o in enumerate(view.origin) if step.index in names(o)]
        if not found:
            return None
        d, width = found[0], constant(view.size[found[0]])
        if len(found) > 1 or width is None or coefficient(view.origin[d], step.index) != width:
            raise self.error(node, "boxes that lie one behind the other", f"{view}")
        return d

    def seen(self, view: Tensor, node: Node) -> Tensor:
        """What a view is for all iterations at once."""
        if id(view) in self.views:
            return self.views[id(view)][1]
        size = list(view.size)
        if id(view.buffer) in self.cut:
            d = self.cut[id(view.buffer)]
            if d is not None and (text(view.origin[d]), text(size[d])) != (
                "0", text(view.buffer.shape[d]),
            ):  # fmt: skip
                raise self.error(node, f"all of dimension {d} of `{view.buffer.name}`", f"{view}")
        else:
            d = self.moving(view, node)
        if d is not None:
            size[d] = self.extent(size[d]) * self.step.extent
        within = tuple(None if g is None else self.bounds(g, node) for g in view.within)
        origin = tuple(self.first(o) for o in view.origin)
        found = replace(view, origin=origin, size=tuple(size), within=within)
        self.views[id(view)] = view, found
        return found

    def first(self, size: Number) -> Number:
        """A number in the first iteration."""
        for index in (self.step.index, *self.gone):
            size = with_index(size, index, 0)
        return size

    def bounds(self, group: Bounds, node: Node) -> Bounds:
        for end in (group.low, group.high):
            if self.step.index in names(end):
                raise self.error(node, "boxes that end alike in all iterations", str(end))
        return replace(group, shift=self.first(group.shift))

    def check_call(self, node: Call) -> None:
        """Raises `NotShared` for a leaf that does not do to all boxes what it does to each."""
        for arg in node.args:
            if isinstance(arg, Size) and self.step.index in names(arg):
                raise self.error(node, "numbers that are the same in all iterations", str(arg))
        if self.step.extent == 1:
            return
        found = [(arg, self.shape_of(arg)) for arg in node.args]
        types = [arg.dtype if isinstance(arg, Tensor) else None for arg in node.args]
        one, all_of_them = (
            module_of(node.leaf, [_stand_in(arg, shape[at]) for arg, shape in found], types)
            for at in (0, 1)
        )
        try:
            check_apart(one, all_of_them)
        except Apart as apart:
            raise self.error(
                node,
                "a leaf that does to a tile of all iterations what it does to the tile of each",
                apart.why,
                Note("here", span_of(apart.op)),
            ) from None

    def shape_of(self, arg: object) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """A tile's shape in one iteration, and in all."""
        if not isinstance(arg, Tensor):
            return (), ()
        after = self.shapes.get(id(arg.buffer), (arg.buffer, arg.buffer.shape))[1]
        return tuple(map(int, arg.buffer.shape)), tuple(map(int, after))

    def apply(self) -> None:
        """Let the body be the one for all iterations."""
        indices = {*self.loop.indices}
        for buffer, shape in self.shapes.values():
            buffer.shape = shape
            buffer.inside = tuple(i for i in buffer.inside if i not in indices)
            for name in ("of", "home"):
                view = getattr(buffer, name)
                setattr(buffer, name, None if view is None else self.seen(view, self.loop))
        for node in walk(self.loop.body):
            if isinstance(node, Copy):
                node.source, node.target = (
                    self.seen(node.source, node),
                    self.seen(node.target, node),
                )
            elif isinstance(node, Call):
                node.args = [self.seen(a, node) if isinstance(a, Tensor) else a for a in node.args]
                if self.processor:
                    cut = {name: self.cut.get(id(view.buffer)) for _, name, view in node.tensors()}
                    node.shares.insert(0, Share(self.processor, self.step.extent, cut))


def _stand_in(arg: object, shape: tuple[int, ...]) -> object:
    """A tile of a shape, or a number of a kind, to trace a leaf for."""
    if isinstance(arg, Tensor):
        return np.broadcast_to(np.zeros((), numpy_type(arg.dtype)), shape)
    return 2 if isinstance(arg, Size) else arg


def _views(node: Node) -> Iterator[Tensor]:
    if isinstance(node, Copy):
        yield from (node.source, node.target)
    elif isinstance(node, Call):
        yield from (view for _, _, view in node.tensors())


def warps_of(calls: Sequence[Call]) -> tuple[int, Resolved] | None:
    """How many warps share a kernel's tiles, by the loops that are mapped to them.

    Raises `BadMapping` where these say different numbers, or no whole number of warp groups.
    """
    found: tuple[int, Resolved] | None = None
    for call in calls:
        if not call.shares:
            continue
        count = 1
        for share in call.shares:
            count *= share.extent
        if call.shares[-1].processor == "warp_group":
            count *= WARPS
        whole = [s.extent for s in call.shares if s.processor == "warp"]
        nested = len(call.shares) > len(whole)
        wrong = count % WARPS or (nested and whole and whole[0] != WARPS)
        if wrong or (found is not None and found[0] != count):
            raise BadMapping(
                f"`{call.instance.record.name}` is shared by {count} warps",
                span=call.span,
                expected=f"{found[0]}, as elsewhere in the block"
                if found is not None
                else f"whole warp groups of {WARPS} warps",
                found=" of ".join(f"{s.extent} {s.processor}s" for s in reversed(call.shares)),
                hint="change the tunable that says how many boxes there are",
                notes=[where(call.instance)],
            )
        found = found or (count, call.instance)
    return found
