"""Grids of which a dimension's extent follows from data: the blocks of groups.

    for g in prange(groups):
        for i, j in prange(blocks of group g, columns): ...

How many blocks there are is known only when the program runs. The grid has as many as there can be
at most, numbered group after group; a block looks for its group, and does nothing beyond the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tawa.tasks.graph.ir import Call, Copy, Loop, Scope, walk
from tawa.tasks.language.defaults import where
from tawa.tasks.language.errors import BadMapping
from tawa.tasks.language.sizes import (
    Known,
    Number,
    Size,
    constant,
    is_of_data,
    names,
    rows_of_group,
    text,
)
from tawa.tasks.language.tensors import Tensor


@dataclass(frozen=True)
class RaggedGrid:
    """A grid with one index for two of its loops: the groups', and that of a group's blocks."""

    known: Known
    group: str
    index: str
    flat: str
    """The variable that counts the blocks of all groups."""
    groups: Number
    blocks: Number
    """How many a group has."""
    indices: list[str]
    extents: list[Number]


def ragged_grid(
    scope: Scope, indices: Sequence[str], extents: Sequence[Number]
) -> RaggedGrid | None:
    """The grid of loops of which one's extent follows from data. Raises `BadMapping`."""
    found = [place for place, extent in enumerate(extents) if is_of_data(extent)]
    if not found:
        return None
    place, blocks = found[0], extents[found[0]]
    own = [i for i in indices[:place] if i in names(blocks)]
    most = _most(blocks, extents[indices.index(own[0])]) if len(own) == 1 else None
    if len(found) > 1 or most is None or not isinstance(blocks, Size):
        raise BadMapping(
            "the extent of a grid can't be bounded before the program runs",
            span=scope.span,
            expected="one loop over the blocks of a group, in a loop over groups",
            found=", ".join(text(extent) for extent in extents),
            hint="map what is in the loop over groups to blocks",
            notes=[where(scope.instance)],
        )
    outer = indices.index(own[0])
    flat = f"{indices[place]}_of_all"
    kept = [(i, e) for p, (i, e) in enumerate(zip(indices, extents, strict=True)) if p != outer]
    kept = [(flat, most) if i == indices[place] else (i, e) for i, e in kept]
    return RaggedGrid(
        blocks.known, own[0], indices[place], flat, extents[outer], blocks,
        [i for i, _ in kept], [e for _, e in kept],
    )  # fmt: skip


def _most(blocks: Number, groups: Number) -> Number | None:
    """At most how many blocks all groups have: `(size + c) // width`, added up; None if unclear."""
    if not isinstance(blocks, Size):
        return None
    width, size, more = 1, blocks, 0
    if blocks.op == "//":
        divisor = constant(blocks.right)
        if divisor is None or not isinstance(blocks.left, Size):
            return None
        width, size = divisor, blocks.left
    added = constant(size.right) if size.op == "+" else None
    if added is not None and isinstance(size.left, Size):
        size, more = size.left, added
    end = rows_of_group(size)
    return None if end is None else (end.right + groups * more) // width


def sizes_in(scope: Scope) -> Iterator[Number]:
    """Every number of a block's program."""
    for node in walk(scope.body):
        if isinstance(node, Loop):
            yield from node.extents
        elif isinstance(node, Copy):
            yield from _sizes(node.source)
            yield from _sizes(node.target)
        elif isinstance(node, Call):
            for arg in node.args:
                if isinstance(arg, Tensor):
                    yield from _sizes(arg)
                elif isinstance(arg, Size):
                    yield arg


def _sizes(view: Tensor) -> Iterator[Number]:
    yield from view.origin
    for group in view.within:
        if group is not None:
            yield from (group.low, group.high)
