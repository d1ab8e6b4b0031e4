"""Whether iterations of a `prange`, or arguments of a launch, touch the same elements.

Boxes of one partition at indices that differ are apart; that is a proof for all sizes. Where it
does not apply, the boxes of this launch are compared one by one, and the answer holds for its sizes
alone: they become guards of the trace.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tawa.base.source import Span
from tawa.tasks.graph.apart import always_apart
from tawa.tasks.graph.ir import Copy, Loop, Node, Scope, accesses, inner, walk
from tawa.tasks.language.defaults import Resolved, where
from tawa.tasks.language.errors import AliasingArguments, AliasingIterations, TooManyIterations
from tawa.tasks.language.privileges import Privilege
from tawa.tasks.language.sizes import (
    Known,
    Number,
    Size,
    coefficient,
    constant,
    extreme,
    names,
    text,
    value,
)
from tawa.tasks.language.task import Task
from tawa.tasks.language.tensors import Bounds, Tensor

MOST_BOXES = 1 << 13
"""Boxes of a loop's iterations that are compared one by one."""


@dataclass(frozen=True, eq=False)
class Touch:
    """An argument of a launch in a loop: its box, whether it is written, and by whom."""

    tensor: Tensor
    writes: bool
    what: str
    span: Span | None
    reduction: Privilege | None
    """The privilege, if this combines elements into the box."""

    def commutes(self, other: Touch) -> bool:
        """Whether both reduce alike, so that their order does not matter, or will be kept."""
        one, two = self.reduction, other.reduction
        return one is not None and two is not None and one.operator == two.operator


def check_iterations(loop: Loop, known: Known) -> None:
    """Raises `AliasingIterations` where two iterations of a `prange` may disturb each other."""
    own = {*loop.indices}  # what an iteration makes is its own
    found = [t for t in touches(loop.body) if not own & {*t.tensor.buffer.inside}]
    for one in found:
        if not one.writes:
            continue
        for other in found:
            if one.tensor.buffer is not other.tensor.buffer or one.commutes(other):
                continue
            varying = {*loop.indices, *_indices(loop.body)}
            if meeting(loop, one.tensor, other.tensor) and not always_apart(
                one.tensor, other.tensor, known, varying
            ):
                _compare(loop, one, other, known)


def touches(nodes: Sequence[Node]) -> Iterator[Touch]:
    """What the launches in a body touch of what is outside of them."""
    for node in nodes:
        if not isinstance(node, Scope):
            yield from touches(inner(node))
            continue
        path, name = node.instance.path, node.instance.variant.task.name
        for step in walk(node.body):
            if isinstance(step, Loop | Scope):
                continue
            reduction = step.reduction if isinstance(step, Copy) else None
            for tensor, writes in accesses(step):
                if tensor.buffer.path[: len(path)] != path:
                    yield Touch(tensor, writes, name, node.span, reduction)


def meeting(loop: Loop, one: Tensor, other: Tensor) -> list[str]:
    """The indices that do not show, for all sizes, that boxes of different iterations are apart."""
    varying = {*loop.indices, *_indices(loop.body)}
    return [
        index
        for index, extent in zip(loop.indices, loop.extents, strict=True)
        if text(extent) != "1"
        and not any(_separates(index, d, varying, one, other) for d in range(len(one.size)))
    ]


def _separates(index: str, d: int, varying: set[str], one: Tensor, other: Tensor) -> bool:
    """Whether a dimension shows that iterations with different values of an index are apart."""
    if _groups_apart(index, one.bounds(d), other.bounds(d)):
        return True
    origin, size = one.origin[d], one.size[d]
    if (text(origin), text(size)) != (text(other.origin[d]), text(other.size[d])):
        return False
    if [name for name in names(origin) if name in varying] != [index]:
        return False
    step = coefficient(origin, index)
    width = constant(size)
    return width is not None and step is not None and abs(step) >= width > 0


def _groups_apart(index: str, one: Bounds | None, other: Bounds | None) -> bool:
    """Whether boxes are of groups that differ where an index does: offsets do not descend."""
    if one is None or other is None:
        return False
    low, high = one.low, one.high
    if (text(low), text(high)) != (text(other.low), text(other.high)):
        return False
    if not (isinstance(low, Size) and isinstance(high, Size) and low.op == high.op == "at"):
        return False
    return (
        low.source is high.source
        and text(high.left) == text(low.left + 1)
        and bool(coefficient(low.left, index))
    )


def _indices(nodes: Sequence[Node]) -> set[str]:
    """The indices of the loops in a body."""
    return {name for node in walk(list(nodes)) if isinstance(node, Loop) for name in node.indices}


def _compare(loop: Loop, one: Touch, other: Touch, known: Known) -> None:
    """Compare the boxes of all iterations; the answer holds for these sizes."""
    extents = tuple(_most(extent, known) for extent in loop.extents)
    count = int(np.prod(extents))
    if count > MOST_BOXES:
        raise TooManyIterations(
            f"`{one.tensor}` can't be shown to be apart in {count} iterations",
            span=one.span,
            expected="boxes of one partition, indexed by the loop's indices, each in a dimension\n"
            f"of its own; or at most {MOST_BOXES} iterations, which are compared",
            found=f"{one.tensor} written, {other.tensor} "
            + ("written" if other.writes else "read"),
            notes=[where(loop.instance)],
        )
    indices = list(itertools.product(*(range(extent) for extent in extents)))
    free = _dimensions_of_other_loops(loop, one.tensor, other.tensor, known)
    low1, high1 = _boxes(one.tensor, loop, indices, free, known)
    low2, high2 = _boxes(other.tensor, loop, indices, free, known)
    for i in range(count):
        meets = np.all((low1[i] < high2) & (low2 < high1[i]), axis=1)
        meets[i] = False
        if meets.any():
            j = int(np.argmax(meets))
            raise AliasingIterations(
                f"iterations {_shown(loop, indices[i])} and {_shown(loop, indices[j])} of a "
                f"`prange` touch the same elements of `{one.tensor.buffer.name}`",
                span=one.span,
                expected="iterations that write nothing that another one reads or writes",
                found=f"`{one.what}` writes {one.tensor}, `{other.what}` "
                f"{'writes' if other.writes else 'reads'} {other.tensor}",
                hint="use srange, or write boxes that are apart",
                notes=[where(loop.instance)],
            )


def _dimensions_of_other_loops(loop: Loop, one: Tensor, other: Tensor, known: Known) -> set[int]:
    """Dimensions that other loops' indices place boxes in: all of them may be touched.

    Not so where both boxes move alike with the index of a loop around this one.
    """
    below, found = _indices(loop.body), set[int]()
    for d, (a, b) in enumerate(zip(one.origin, other.origin, strict=True)):
        for name in (*names(a), *names(b)):
            if name in known.values or name in loop.indices:
                continue
            moves = coefficient(a, name), coefficient(b, name)
            if name in below or None in moves or moves[0] != moves[1]:
                found.add(d)
    return found


def _boxes(
    tensor: Tensor, loop: Loop, indices: list[tuple[int, ...]], free: set[int], known: Known
) -> tuple[Any, Any]:
    """Where boxes start and end, in each iteration."""
    shape = [_fixed(extent, known) for extent in tensor.buffer.shape]
    around = dict.fromkeys((name for o in tensor.origin for name in names(o)), 0)
    low: list[list[int]] = []
    high: list[list[int]] = []
    for o in (*tensor.origin, *tensor.size):
        _fixed_names(o, known)
    for at in indices:
        values = around | known.values | dict(zip(loop.indices, at, strict=True))
        origin = [0 if d in free else value(o, values) for d, o in enumerate(tensor.origin)]
        size = [
            extent if d in free else value(s, values)
            for d, (s, extent) in enumerate(zip(tensor.size, shape, strict=True))
        ]
        ends = [o + s for o, s in zip(origin, size, strict=True)]
        for d, group in enumerate(tensor.within):
            if group is not None and d not in free:
                origin[d] = max(origin[d], value(group.low, values))
                ends[d] = max(min(ends[d], value(group.high, values)), origin[d])
        low.append(origin)
        high.append(ends)
    return np.maximum(np.array(low), 0), np.minimum(np.array(high), np.array(shape))


def _most(extent: Number, known: Known) -> int:
    """The most iterations that a loop has; those of outer loops' iterations may differ."""
    most = extreme(extent, most=True)
    return int(extent) if most is None else _fixed(most, known)


def _fixed(size: Number, known: Known) -> int:
    """The value of a size of this launch, which the trace depends on from now on."""
    _fixed_names(size, known)
    return int(value(size, known.values))


def _fixed_names(size: Number, known: Known) -> None:
    for name in names(size):
        if name in known.values:
            known.ask("==", Size(known, "name", name), known.values[name])


def _shown(loop: Loop, index: tuple[int, ...]) -> str:
    return str(index) if len(index) > 1 else str(*index)


def check_arguments(
    task: Task, args: tuple[Any, ...], known: Known, caller: Resolved, span: Span | None
) -> None:
    """Raises `AliasingArguments` where what a launch writes overlaps another argument."""
    tensors = [(n, a) for n, a in zip(task.parameters, args, strict=True) if isinstance(a, Tensor)]
    for (name, one), (other_name, other) in itertools.combinations(tensors, 2):
        writes = task.privileges[name].writes or task.privileges[other_name].writes
        if one.buffer is not other.buffer or not writes:
            continue
        if _apart(one, other, known) or always_apart(one, other, known):
            continue
        raise AliasingArguments(
            f"`{name}` and `{other_name}` of `{task.name}` overlap, and one is written",
            span=span,
            expected="arguments that are apart, or all only read",
            found=f"{one} and {other}",
            hint="pass a tensor of the task's own, or one argument with READ_WRITE",
            notes=[where(caller)],
        )


def _apart(one: Tensor, other: Tensor, known: Known) -> bool:
    """Whether two boxes of a buffer have no element in common."""
    for o1, s1, o2, s2 in zip(one.origin, one.size, other.origin, other.size, strict=True):
        shift: Any = o2 - o1 if text(o1) != text(o2) else 0
        if any(name not in known.values for name in names(shift)):
            continue
        if shift >= s1 or -shift >= s2:
            return True
    return False
