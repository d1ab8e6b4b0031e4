"""Where iterations of a `prange` reduce into the same elements: in which order, and how.

Up to here a reduction is a tensor that is read and written, launch after launch. If the blocks of a
grid share elements of it, that would be a race:

- Reductions in any order become private ones: a block combines into a tile of its own, which begins
  with the operator's neutral element, and then combines the tile into memory by atomic operations.
- For reductions in order, the indices that share elements become a loop in order: of the block,
  if the `prange` launches one, else of the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tawa.language as tl
from tawa.tasks.graph.ir import Call, Copy, Loop, Node, Scope, TaskProgram
from tawa.tasks.graph.races import Touch, meeting, touches
from tawa.tasks.language.element_types import type_name
from tawa.tasks.language.privileges import WRITE, Privilege
from tawa.tasks.language.sizes import constant
from tawa.tasks.language.task import Task, declared
from tawa.tasks.language.tensors import Buffer


def fill(to: Any, value: Any) -> Any:
    """A tile of one number."""
    return tl.full(to.shape, value, to.dtype)


FILL = declared(Task, fill, {"to": WRITE}).leaf(fill)
"""The leaf that a private tile begins with."""


def place_reductions(program: TaskProgram) -> None:
    """Let blocks of a grid reduce into the same elements."""
    program.root.body = list(_placed(program.root.body))


def _placed(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        if isinstance(node, Loop | Scope) and node.instance.processor == "device":
            node.body = list(_placed(node.body))
        if isinstance(node, Loop) and node.parallel and node.instance.processor == "device":
            yield from _grid(node)
        else:
            yield node


def _grid(loop: Loop) -> Iterator[Node]:
    """A parallel loop of the device, as it may run."""
    serial: set[str] = set()
    own = {*loop.indices}
    found = [t for t in touches(loop.body) if not own & {*t.tensor.buffer.inside}]
    for one in found:
        shared = _shared(loop, one, found)
        if one.reduction is None or not shared:
            continue
        if one.reduction.ordered:
            serial |= shared
        else:
            _make_private(loop.body, one.tensor.buffer)
    yield _in_order(loop, serial) if serial else loop


def _shared(loop: Loop, one: Touch, found: Sequence[Touch]) -> set[str]:
    """The indices whose iterations may reduce into the same elements."""
    return {
        index
        for other in found
        if one.tensor.buffer is other.tensor.buffer and one.commutes(other)
        for index in meeting(loop, one.tensor, other.tensor)
    }


def _make_private(nodes: Sequence[Node], buffer: Buffer) -> None:
    """Give the blocks that reduce into a tensor tiles of their own."""
    for node in nodes:
        if isinstance(node, Loop):
            _make_private(node.body, buffer)
        elif isinstance(node, Scope):
            for copy in [n for n in node.body if isinstance(n, Copy)]:
                privilege = copy.reduction
                if privilege is None or copy.combine or copy.target.buffer is not buffer:
                    continue
                own = copy.source.buffer
                if node.instance.processor == "device" or not _is_tile(own):
                    _make_private(node.body, own)
                else:
                    _begin_neutral(node, own, privilege, copy)


def _is_tile(buffer: Buffer) -> bool:
    return all(constant(size) is not None for size in buffer.shape)


def _begin_neutral(scope: Scope, own: Buffer, privilege: Privilege, out: Copy) -> None:
    operator = privilege.operator or ""
    neutral = neutral_element(operator, own.dtype)
    first = Call(FILL, [own.whole(), neutral], scope.instance, scope.span)
    inward = next(n for n in scope.body if isinstance(n, Copy) and n.target.buffer is own)
    scope.body[scope.body.index(inward)] = first
    out.combine = operator
    own.shape = tuple(constant(size) or 0 for size in own.shape)
    own.kind, own.of, own.home = "made", None, None
    if own.memory in ("global", "none"):
        own.memory = "register"


def neutral_element(operator: str, dtype: object) -> float:
    """The number that an operator leaves others as they are with, in a type of the language."""
    name = type_name(dtype)
    bits = 0 if name[0] not in "iu" else int(name[1:])
    if operator == "sum":
        return 0 if bits else 0.0
    if not bits:
        return float("-inf") if operator == "max" else float("inf")
    low, high = (0, (1 << bits) - 1) if name[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return low if operator == "max" else high


def _in_order(loop: Loop, serial: set[str]) -> Node:
    """The loop, with some of its indices in order."""
    parts: dict[bool, list[int]] = {True: [], False: []}
    for place, index in enumerate(loop.indices):
        parts[index in serial].append(place)

    def some(places: Sequence[int], body: list[Node], *, parallel: bool, of: Loop | Scope) -> Loop:
        indices = tuple(loop.indices[p] for p in places)
        extents = tuple(loop.extents[p] for p in places)
        return Loop(indices, extents, body, parallel, of.instance, loop.span)

    scope = loop.body[0] if len(loop.body) == 1 else None
    if isinstance(scope, Scope) and scope.instance.processor == "block":
        scope.body = [some(parts[True], scope.body, parallel=False, of=scope)]
        return some(parts[False], [scope], parallel=True, of=loop) if parts[False] else scope
    inner = some(parts[False], loop.body, parallel=True, of=loop)
    return some(parts[True], [inner] if parts[False] else loop.body, parallel=False, of=loop)
