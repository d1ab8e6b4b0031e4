"""Copy elimination: most of the copies that launches make need not be made.

Each rule takes one copy, or one pair, away, or moves it out of a loop, and leaves the program's
meaning as it is. They are applied until none applies; which one is tried first does not matter for
the result. `forward` comes before the others, which look at what it leaves.

- `forward`: a launch's tensor that lies where its caller's does, or that only hands boxes on to
  other launches, is the caller's.
- `available`: a copy of what a tile holds already comes from that tile (a value that was just
  spilled, a box that was loaded before).
- `dead`: what nobody reads is not copied, nor is a tile to itself.
- `rename`: a tile whose copy is only read is read itself.
- `hoist_pair`: a tile that each iteration copies in and back stays, for all of them.
- `hoist_load`: a box that each iteration loads and nobody writes is loaded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from tawa.tasks.graph.ir import Call, Copy, Loop, Node, Scope, TaskProgram, accesses, inner, walk
from tawa.tasks.language.mapping import PROCESSORS
from tawa.tasks.language.sizes import names, same, text
from tawa.tasks.language.tensors import Buffer, Tensor, may_meet

TILES = "register", "shared", "none"
"""Memories whose tensors are a block's values."""

Rule: TypeAlias = Callable[[TaskProgram], bool]
"""Applies once, if it can."""


def eliminate(program: TaskProgram, rules: Sequence[Rule] | None = None) -> int:
    """Apply rules until none applies; how often they did."""
    flatten(program.root)
    count = 0
    while any(rule(program) for rule in rules or RULES):
        count += 1
    return count


def flatten(scope: Scope) -> None:
    """Take away the launches inside of one processor: what is left are kernels."""
    scope.body = list(_flat(scope.body, scope.instance.processor))


def _flat(nodes: Sequence[Node], processor: str) -> Iterator[Node]:
    for node in nodes:
        if isinstance(node, Loop):
            node.body = list(_flat(node.body, processor))
            yield node
        elif isinstance(node, Scope):
            body = list(_flat(node.body, node.instance.processor))
            if PROCESSORS.index(node.instance.processor) in (
                PROCESSORS.index(processor),
                *range(PROCESSORS.index("block") + 1, len(PROCESSORS)),
            ):
                yield from body
            else:
                node.body = body
                yield node
        else:
            yield node


def bodies(program: TaskProgram) -> Iterator[list[Node]]:
    """All lists of nodes, the outermost first."""
    yield program.root.body
    for node in walk(program.root.body):
        if isinstance(node, Loop | Scope):
            yield inner(node)


def forward(program: TaskProgram) -> bool:
    """Replace a launch's tensor by its caller's view."""
    found = _forwardable(program)
    if found is not None:
        _replace(program, *found)
    return found is not None


def _forwardable(program: TaskProgram) -> tuple[Buffer, Tensor] | None:
    """A launch's tensor that need not exist, and the view that it is of."""
    for body in bodies(program):
        for node in body:
            if not isinstance(node, Copy):
                continue
            for own, outer in ((node.target, node.source), (node.source, node.target)):
                if own.buffer.of is outer and _may_forward(program, own.buffer, outer):
                    return own.buffer, outer
    return None


def _may_forward(program: TaskProgram, own: Buffer, outer: Tensor) -> bool:
    called = any(
        tensor.buffer is own
        for node in walk(program.root.body)
        if isinstance(node, Call)
        for _, _, tensor in node.tensors()
    )
    if not called:
        return True
    return own.memory == outer.buffer.memory and (outer.is_whole or own.memory not in TILES)


def _replace(program: TaskProgram, own: Buffer, outer: Tensor) -> None:
    """Drop the copies of a launch's tensor, and see the caller's in its place."""
    for body in bodies(program):
        body[:] = [n for n in body if not (isinstance(n, Copy) and _between(n, own, outer))]
    moved: dict[int, tuple[Tensor, Tensor]] = {}

    def seen(view: Tensor) -> Tensor:
        if view.buffer is not own:
            return view
        if id(view) not in moved:
            moved[id(view)] = view, view.inside(outer)
        return moved[id(view)][1]

    _see(program, seen)
    program.made.remove(own)


def _see(program: TaskProgram, seen: Callable[[Tensor], Tensor]) -> None:
    """Replace views everywhere."""
    for buffer in program.made:
        buffer.of = None if buffer.of is None else seen(buffer.of)
        buffer.home = None if buffer.home is None else seen(buffer.home)
    for node in walk(program.root.body):
        if isinstance(node, Copy):
            node.source, node.target = seen(node.source), seen(node.target)
        elif isinstance(node, Call):
            node.args = [seen(a) if isinstance(a, Tensor) else a for a in node.args]


def _between(node: Copy, own: Buffer, outer: Tensor) -> bool:
    """Whether a copy is one of a launch's, in or out."""
    return (node.source is outer and node.target.buffer is own) or (
        node.target is outer and node.source.buffer is own
    )


def available(program: TaskProgram) -> bool:
    """Take a copied value from a tile that has it."""
    if _forwardable(program) is not None:
        return False
    for body in bodies(program):
        for later, node in enumerate(body):
            if not isinstance(node, Copy) or not _is_tile(node.target):
                continue
            tile = _holder(body[:later], node)
            if tile is not None:
                node.source = tile
                node.target.buffer.of = None
                return True
    return False


def _holder(before: Sequence[Node], node: Copy) -> Tensor | None:
    """The nearest tile that holds what a copy copies, after the nodes before it."""
    written: list[Tensor] = []
    for earlier in reversed(before):
        if isinstance(earlier, Copy) and not earlier.combine:
            for value, tile in (
                (earlier.source, earlier.target),
                (earlier.target, earlier.source),
            ):
                if (
                    _is_tile(tile)
                    and (tile is earlier.source or not _is_value(node.source.buffer))
                    and tile.buffer is not node.source.buffer
                    and _same_view(value, node.source)
                    and tile.buffer is not node.target.buffer
                    and tile.buffer.memory != "none"
                    and not any(may_meet(tile, w) or may_meet(value, w) for w in written)
                ):
                    return tile
        written += [view for view, writes in accesses(earlier) if writes]
        if any(may_meet(node.source, w) for w in written):
            # Only a tile that was just stored there has the value now, and it was looked at.
            return None
    return None


def _is_value(buffer: Buffer) -> bool:
    """Whether a buffer surely is a tile; copies of it are not looked for, but what it copies."""
    return buffer.memory in ("register", "shared")


def dead(program: TaskProgram) -> bool:
    """Drop copies to what nobody reads, and of a tile to itself."""
    if _forwardable(program) is not None:
        return False
    read = {
        id(view.buffer)
        for node in walk(program.root.body)
        if not isinstance(node, Loop | Scope)
        for view, writes in accesses(node)
        if not writes
    }
    for body in bodies(program):
        for node in body:
            if isinstance(node, Copy) and (
                _same_view(node.source, node.target)
                or (node.target.buffer.kind != "argument" and id(node.target.buffer) not in read)
            ):
                body.remove(node)
                return True
    return False


def rename(program: TaskProgram) -> bool:
    """See a tile itself where a copy of it is only read."""
    if _forwardable(program) is not None:
        return False
    for body in bodies(program):
        for place, node in enumerate(body):
            if not isinstance(node, Copy) or not _is_tile(node.source) or not _is_tile(node.target):
                continue
            own, tile = node.target, node.source
            inside = sum(_count(n, own.buffer) for n in body[place + 1 :])
            everywhere = sum(_count(n, own.buffer) for n in program.root.body)
            if (
                own.buffer.memory != tile.buffer.memory
                or own.buffer.kind != "launch"
                or inside + 1 != everywhere
                or _written(body[place + 1 :], own)
                or _written(body[place + 1 :], tile)
            ):
                continue
            body.remove(node)
            _replace(program, own.buffer, tile)
            return True
    return False


def _count(node: Node, buffer: Buffer) -> int:
    """How often a node, and all in it, touches a buffer."""
    return sum(view.buffer is buffer for view, _ in accesses(node))


def hoist_pair(program: TaskProgram) -> bool:
    """Move a copy in and the copy back out of a loop, if nothing else there touches the rest."""
    if _forwardable(program) is not None:
        return False
    for body, loop, inside in _loops(program):
        for first in inside:
            if not isinstance(first, Copy) or not _is_tile(first.target):
                continue
            last = next((n for n in inside if isinstance(n, Copy) and n is not first
                         and not n.combine
                         and n.source.buffer is first.target.buffer
                         and _same_view(n.target, first.source)), None)  # fmt: skip
            if last is None or inside.index(last) < inside.index(first) or not last.source.is_whole:
                continue
            if _varies(first.source, loop) or _touches(inside, first.source, (first, last)):
                continue
            if _touches(inside[: inside.index(first)], first.target, ()) or _touches(
                inside[inside.index(last) + 1 :], first.target, ()
            ):
                continue
            inside.remove(first)
            inside.remove(last)
            at = body.index(loop)
            body[at : at + 1] = [first, loop, last]
            return True
    return False


def hoist_load(program: TaskProgram) -> bool:
    """Move a load of what does not change out of a loop."""
    if _forwardable(program) is not None:
        return False
    for body, loop, inside in _loops(program):
        for node in inside:
            if not isinstance(node, Copy) or not _is_tile(node.target):
                continue
            others = [n for n in inside if n is not node]
            if _varies(node.source, loop) or _written(others, node.source):
                continue
            if _written(others, node.target) or _touches(
                inside[: inside.index(node)], node.target, ()
            ):
                continue
            inside.remove(node)
            body.insert(body.index(loop), node)
            return True
    return False


RULES: tuple[Rule, ...] = (forward, available, dead, rename, hoist_pair, hoist_load)


def _loops(program: TaskProgram) -> Iterator[tuple[list[Node], Loop, list[Node]]]:
    for body in bodies(program):
        for node in body:
            if isinstance(node, Loop) and node.instance.processor != "device":
                yield body, node, node.body


def _varies(view: Tensor, loop: Loop) -> bool:
    return any(name in loop.indices for origin in view.origin for name in names(origin))


def _touches(nodes: Sequence[Node], view: Tensor, but: Sequence[Node]) -> bool:
    """Whether nodes, but for some, read or write what a view shows."""
    return any(may_meet(view, v) for n in nodes if n not in but for v, _ in accesses(n))


def _written(nodes: Sequence[Node], view: Tensor) -> bool:
    return any(may_meet(view, v) for n in nodes for v, writes in accesses(n) if writes)


def _is_tile(view: Tensor) -> bool:
    return view.buffer.memory in TILES and view.is_whole


def _same_groups(one: Tensor, other: Tensor) -> bool:
    """Whether two boxes end alike."""
    return [str(g and (text(g.low), text(g.high))) for g in one.within] == [
        str(g and (text(g.low), text(g.high))) for g in other.within
    ]


def _same_view(one: Tensor, other: Tensor) -> bool:
    return (
        one.buffer is other.buffer
        and same(one.origin, other.origin)
        and same(one.size, other.size)
        and one.dims == other.dims
        and one.past_end == other.past_end
        and _same_groups(one, other)
    )
