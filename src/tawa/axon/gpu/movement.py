"""The rules of operators that move numbers: views, joins, indices, patterns, windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tawa.axon.gpu.graph.errors import NotForGpu
from tawa.axon.gpu.graph.nodes import Node, Tape, layout
from tawa.axon.gpu.rules import linear_product, matmul, rule, scalar
from tawa.axon.sizes.patterns import Group, Pattern


@rule("transpose")
def transpose(tape: Tape, x: Node) -> Node:
    """The last two axes swapped."""
    rank = len(x.shape)
    return tape.permute(x, (*range(rank - 2), rank - 1, rank - 2))


@rule("flatten")
def flatten(tape: Tape, x: Node) -> Node:
    """All axes but the first made one."""
    return tape.reshape(x, (x.shape[0], math.prod(x.shape[1:])))


@rule("reshape")
def reshape(tape: Tape, x: Node, to: tuple[int | None, ...]) -> Node:
    """Another shape; one size may be unknown."""
    known = math.prod(size for size in to if size is not None)
    return tape.reshape(x, tuple(x.size // known if size is None else size for size in to))


@rule("broadcast")
def broadcast(tape: Tape, x: Node, to: tuple[int, ...]) -> Node:
    """The shape that x and `to` broadcast to."""
    return tape.broadcast(x, np.broadcast_shapes(x.shape, to))


@rule("expand")
def expand(tape: Tape, x: Node, axis: int) -> Node:
    """With a new axis of size 1."""
    axis %= len(x.shape) + 1
    return tape.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


@rule("squeeze")
def squeeze(tape: Tape, x: Node, axis: int) -> Node:
    """Without an axis of size 1."""
    axis %= len(x.shape)
    return tape.reshape(x, x.shape[:axis] + x.shape[axis + 1 :])


@rule("reverse")
def reverse(tape: Tape, x: Node, axis: int) -> Node:
    """Backwards along an axis."""
    axis %= len(x.shape)
    return tape.part(x, axis, x.shape[axis] - 1, x.shape[axis], -1)


@rule("slice")
def slice_(tape: Tape, x: Node, start: int, stop: int, axis: int) -> Node:
    """The part from `start` up to `stop`."""
    if not 0 <= start <= stop <= x.shape[axis]:
        raise ValueError(f"an axis of {x.shape[axis]} has no part {start} to {stop}")
    return tape.part(x, axis, start, stop - start)


@rule("split")
def split(tape: Tape, x: Node, at: int, axis: int) -> tuple[Node, Node]:
    """The part before `at` and the rest."""
    if not 0 <= at <= x.shape[axis]:
        raise ValueError(f"an axis of {x.shape[axis]} can't be split at {at}")
    return tape.part(x, axis, 0, at), tape.part(x, axis, at, x.shape[axis] - at)


def _equal_parts(tape: Tape, x: Node, count: int, axis: int) -> tuple[Node, ...]:
    size, rest = divmod(x.shape[axis], count)
    if rest:
        raise ValueError(f"an axis of {x.shape[axis]} has no {count} equal parts")
    return tuple(tape.part(x, axis, i * size, size) for i in range(count))


@rule("halves")
def halves(tape: Tape, x: Node, axis: int) -> tuple[Node, ...]:
    """Two equal parts."""
    return _equal_parts(tape, x, 2, axis)


@rule("thirds")
def thirds(tape: Tape, x: Node, axis: int) -> tuple[Node, ...]:
    """Three equal parts."""
    return _equal_parts(tape, x, 3, axis)


@rule("quarters")
def quarters(tape: Tape, x: Node, axis: int) -> tuple[Node, ...]:
    """Four equal parts."""
    return _equal_parts(tape, x, 4, axis)


@rule("concat")
def concat(tape: Tape, a: Node, b: Node, axis: int) -> Node:
    """Joined along an axis."""
    return tape.join([a, b], axis)


@rule("repeat")
def repeat(tape: Tape, x: Node, times: int, axis: int) -> Node:
    """Several times over along an axis."""
    axis %= len(x.shape)
    shape = (*x.shape[:axis], times, *x.shape[axis:])
    found = tape.broadcast(expand(tape, x, axis), shape)
    joined = (*x.shape[:axis], times * x.shape[axis], *x.shape[axis + 1 :])
    return tape.reshape(found, joined)


@rule("pad")
def pad(tape: Tape, x: Node, before: int, after: int, axis: int) -> Node:
    """Zeros before and after, along an axis."""
    axis %= len(x.shape)
    zero = scalar(tape, 0, x)
    pieces = [x]
    for size, place in ((before, 0), (after, 2)):
        if size:
            shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
            pieces.insert(place, tape.broadcast(zero, shape))
    return tape.join(pieces, axis) if len(pieces) > 1 else x


@rule("take")
def take(tape: Tape, table: Node, index: Node) -> Node:
    """Rows by index; a view, if the index is one number that is known."""
    if index.op == "constant" and index.size == 1 and 0 <= index.data.item() < table.shape[0]:
        row = tape.part(table, 0, index.data.item(), 1)
        return tape.reshape(row, (*index.shape, *table.shape[1:]))
    shape = (*index.shape, *table.shape[1:])
    return tape.add("take", "", (table, index), shape, table.element)


@rule("put")
def put(tape: Tape, rows: Node, index: Node, n: int) -> Node:
    """Rows added up in f32 where their indices say, on top of zeros that a kernel writes before."""
    if rows.element not in ("f16", "bf16", "f32"):
        raise NotForGpu(f"`put` of {rows.element} has no GPU kernel", span=tape.span)
    shape = (n, *rows.shape[len(index.shape) :])
    own = ("put", rows.number, index.number)
    zeros = tape.add("map", "copy", (tape.constant(0.0, "f32"),), shape, "f32", data=own)
    found = tape.add("put", "", (zeros, rows, index), shape, "f32")
    return found if rows.element == "f32" else tape.map("cast", found, element=rows.element)


@rule("one_hot")
def one_hot(tape: Tape, index: Node, n: int) -> Node:
    """1 at the index, else 0."""
    places = tape.add("map", "iota", (), (n,), "i64")
    here = tape.map("==", expand(tape, index, -1), places, element="bool")
    return tape.map("cast", here, element="f32")


@rule("full")
def full(tape: Tape, x: Node, s: tuple[int, ...]) -> Node:
    """One number everywhere."""
    return tape.broadcast(x, s)


@rule("upsample")
def upsample(tape: Tape, x: Node, scale: int) -> Node:
    """Each number `scale` times along both last axes."""
    *lead, h, w = x.shape
    wide = tape.reshape(x, (*lead, h, 1, w, 1))
    found = tape.broadcast(wide, (*lead, h, scale, w, scale))
    return tape.reshape(found, (*lead, h * scale, w * scale))


# Patterns.


def patterned(tape: Tape, pattern: Pattern, inputs: list[Node], statics: dict[str, Any]) -> Node:
    """An `einsum` or `rearrange`: split axes, contract as products of matrices, join axes."""
    sizes: dict[str, int] = {n: v for n, v in statics.items() if isinstance(v, int)}
    ranks: dict[str, int] = {}
    terms = [
        _split_axes(tape, groups, x, sizes, ranks)
        for groups, x in zip(pattern.inputs, inputs, strict=True)
    ]
    output = [name for group in pattern.output for name in _axes(group, ranks)]
    kept = [name for name in output if not name.isdigit()]
    while len(terms) > 1:
        later = {name for _, names in terms[2:] for name in names} | set(kept)
        terms[:2] = [_contracted(tape, terms[0], terms[1], later, sizes)]
    (x, names), *_ = terms
    for name in [name for name in names if name not in kept]:
        x = tape.reduce("sum", x, names.index(name))
        names = [other for other in names if other != name]
    x = tape.permute(x, tuple(names.index(name) for name in kept))
    return tape.reshape(x, _joined(pattern, ranks, sizes))


def _joined(pattern: Pattern, ranks: dict[str, int], sizes: dict[str, int]) -> tuple[int, ...]:
    final: list[int] = []
    for group in pattern.output:
        members = _axes(group, ranks)
        numbers = [int(name) if name.isdigit() else sizes[name] for name in members]
        if len(group) == 1 and group[0].startswith(".."):
            final.extend(numbers)
        else:
            final.append(math.prod(numbers))
    return tuple(final)


Term = tuple[Node, list[str]]


def _contracted(
    tape: Tape, left: Term, right: Term, later: set[str], sizes: dict[str, int]
) -> Term:
    """Two inputs made one: axes of both that nothing needs later are summed over."""
    (a, mine), (b, theirs) = left, right
    shared = [name for name in mine if name in theirs]
    stack = [name for name in shared if name in later]
    summed = [name for name in shared if name not in later]
    rows = [name for name in mine if name not in shared]
    columns = [name for name in theirs if name not in shared]
    count, k, m, n = (
        math.prod(sizes[x] for x in names) for names in (stack, summed, rows, columns)
    )
    a = tape.permute(a, tuple(mine.index(name) for name in (*stack, *rows, *summed)))
    b = tape.permute(b, tuple(theirs.index(name) for name in (*stack, *summed, *columns)))
    shape = tuple(sizes[name] for name in (*stack, *rows, *columns))
    names = [*stack, *rows, *columns]
    if not summed:
        a = tape.reshape(a, (count, m, 1))
        b = tape.reshape(b, (count, 1, n))
        return tape.reshape(tape.map("*", a, b), shape), names
    if not stack:
        found = linear_product(tape, tape.reshape(a, (m, k)), tape.reshape(b, (k, n)))
    else:
        found = matmul(tape, tape.reshape(a, (count, m, k)), tape.reshape(b, (count, k, n)))
    return tape.reshape(found, shape), names


def _axes(group: Group, ranks: dict[str, int]) -> list[str]:
    found: list[str] = []
    for name in group:
        if name.startswith(".."):
            found.extend(f"{name}{i}" for i in range(ranks[name]))
        else:
            found.append(name)
    return found


def _split_axes(
    tape: Tape, groups: tuple[Group, ...], x: Node, sizes: dict[str, int], ranks: dict[str, int]
) -> Term:
    spreads = [g[0] for g in groups if len(g) == 1 and g[0].startswith("..")]
    if len(spreads) == 1:
        ranks.setdefault(spreads[0], len(x.shape) - len(groups) + 1)
    names: list[str] = []
    axis = 0
    for group in groups:
        members = _axes(group, ranks)
        single = len(group) == 1
        for inner in [[member] for member in members] if single else [members]:
            if axis >= len(x.shape):
                raise ValueError(f"{len(x.shape)} axes, fewer than the pattern has")
            _solve(inner, x.shape[axis], sizes)
            names.extend(name for name in inner if not name.isdigit())
            axis += 1
    if axis != len(x.shape):
        raise ValueError(f"{len(x.shape)} axes where the pattern has {axis}")
    return _diagonal(tape, tape.reshape(x, tuple(sizes[name] for name in names)), names)


def _solve(inner: list[str], size: int, sizes: dict[str, int]) -> None:
    """The sizes of the axes that a group names."""
    known = [int(n) if n.isdigit() else sizes.get(n) for n in inner]
    product = math.prod(k for k in known if k is not None)
    for name, value in zip(inner, known, strict=True):
        sizes[name] = value if value is not None else size // product
    if math.prod(sizes[name] for name in inner) != size:
        raise ValueError(f"an axis of {size} doesn't fit `{' '.join(inner)}`")


def _diagonal(tape: Tape, x: Node, names: list[str]) -> Term:
    """Axes of one name made one: their diagonal, a view."""
    unique = list(dict.fromkeys(names))
    if len(unique) == len(names):
        return x, names
    strides, offset = layout(x)
    steps = [sum(s for s, n in zip(strides, names, strict=True) if n == u) for u in unique]
    shape = [x.shape[names.index(u)] for u in unique]
    return tape.view(x, tuple(shape), tuple(steps), offset), unique
