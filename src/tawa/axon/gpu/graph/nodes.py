"""The graph that kernels are made from: tensors of known sizes, and how each is computed.

A node has one of few primitive operations; views have no kernel, they only say where their
numbers lie.

| operation | computes |
|---|---|
| `input` | an argument of the call |
| `constant` | numbers that tracing found |
| `map` | a function of scalars, with broadcasting |
| `reduce` | the last axis reduced to size 1 |
| `dot` | sums of products of pairs of matrices, or of stacks of `axis` matrices |
| `attention` | softmax(q k' / sqrt(d)) v |
| `attention_slopes` | a step towards the derivatives of that by queries, keys and values |
| `also` | another result of the kernel of its operand |
| `conv` | images [n, h, w, c] with filters [k, r, s, c / groups]: [n, p, q, k] |
| `slopes` | a step towards the derivatives of that by images and filters |
| `take` | rows of a table by index |
| `put` | rows added to those of a table of zeros, by index: `take` backwards |
| `window` | numbers of another node around places that may lie outside of it |
| `join` | tensors one after the other along an axis |
| `view` | numbers of another node, by strides |
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tawa.base.indices import contiguous_strides
from tawa.base.source import Span

BYTES = {
    "bool": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8,
    "f16": 2, "bf16": 2, "f32": 4, "f64": 8,
}  # fmt: skip
"""Bytes of a number, by element type."""

FLOATS = ("f16", "bf16", "f32", "f64")

Shape = tuple[int, ...]

AGAIN = "again"
"""Begins the `data` of a function that a kernel computes again; the kernel's number follows."""

STEPS = 32, 128
"""Numbers in each part of an axis that is reduced in parts, at least and at most."""

MANY_STEPS = 512
"""A longer axis that lies apart in memory is reduced in parts: else few programs would read it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place on an axis of an image: `start`, and so much for each step along a window's axes.

    It is outside unless it lies in 0 .. `size` - 1; `size` 0 means that it always lies inside. With
    `by`, what the steps along the axes and `shift` give is divided before `start` is added, and the
    quotient, or the `rest`, is taken.
    """

    size: int
    step: int
    """Elements of memory from one place to the next."""
    start: int
    factors: Shape
    shift: int = 0
    by: int = 1
    rest: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """Where the numbers of a `window` node lie in the memory of its base.

    The first `split` of its `axes` are the node's rows, the others its columns. A number's address
    is the sum of `offset`, of its places on the axes times `strides`, and of `places`. Numbers
    outside are 0, or, for `outside = "max"`, what no maximum takes.
    """

    axes: Shape
    split: int
    strides: Shape
    offset: int
    places: tuple[Place, ...]
    outside: str = "sum"


@dataclass(eq=False, slots=True)
class Node:
    """A tensor and how it is computed. Nodes are compared by identity.

    A view's `strides` and `offset` count elements of the node it looks at, `inputs[0]`. `data` has
    the numbers of a constant, the `Window` of a window, the `Convolution` of a `conv`, of an input
    whether it starts at whole 16 bytes, and for a product with operands in pairs the loop over K
    that each pair belongs to (one loop a pair if None).
    """

    op: str
    function: str
    inputs: tuple[Node, ...]
    shape: Shape
    element: str
    span: Span | None = None
    number: int = 0
    strides: Shape = ()
    offset: int = 0
    axis: int = 0
    data: Any = None

    @property
    def size(self) -> int:
        """How many numbers."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """How many bytes."""
        return self.size * BYTES[self.element]

    @property
    def base(self) -> Node:
        """The node whose numbers these are: the node itself if it is no view."""
        return self.inputs[0] if self.op == "view" else self

    @property
    def label(self) -> str:
        """How plans show it."""
        return f"%{self.number}"


def layout(node: Node) -> tuple[Shape, int]:
    """Strides and offset of a node in the memory of its base, in elements."""
    if node.op == "view":
        return node.strides, node.offset
    if node.op == "input":
        return node.strides, 0
    return contiguous_strides(node.shape), 0


def broadcast_strides(operand: Node, shape: Shape) -> tuple[Shape, int]:
    """Strides and offset of an operand, over the axes of the shape it is broadcast to."""
    strides, offset = layout(operand)
    lead = len(shape) - len(operand.shape)
    own = [
        0 if size != shape[lead + axis] else stride
        for axis, (size, stride) in enumerate(zip(operand.shape, strides, strict=True))
    ]
    return (*(0,) * lead, *own), offset


@dataclass
class Tape:
    """Nodes in the order in which they were traced; equal ones only once."""

    nodes: list[Node] = field(default_factory=list[Node])
    span: Span | None = None
    """Of the operator that is being traced."""
    images: set[Node] = field(default_factory=set[Node])
    """Computed nodes whose numbers lie pixel by pixel, the channels of each together."""
    _seen: dict[Any, Node] = field(default_factory=dict[Any, Node])

    def add(
        self, op: str, function: str, inputs: tuple[Node, ...], shape: Shape, element: str,
        **more: Any,
    ) -> Node:  # fmt: skip
        """A new node, or the one there is that computes the same."""
        key: Any = (op, function, tuple(id(i) for i in inputs), shape, element, *more.items())
        if op not in ("input", "constant") and key in self._seen:
            return self._seen[key]
        node = Node(op, function, inputs, shape, element, self.span, len(self.nodes), **more)
        self.nodes.append(node)
        if op not in ("input", "constant"):
            self._seen[key] = node
        return node

    def constant(self, value: Any, element: str) -> Node:
        """Numbers that are known now, as a node. `value` is a NumPy array or number."""
        array = np.asarray(value)
        if array.ndim == 0 and element in FLOATS:
            array = array.astype(np.float64)
        key = ("constant", array.tobytes(), array.dtype.str, array.shape, element)
        if key not in self._seen:
            self._seen[key] = self.add("constant", "", (), array.shape, element, data=array)
        return self._seen[key]

    def map(self, function: str, *inputs: Node, element: str | None = None) -> Node:
        """A function of scalars, pointwise. Raises ValueError if the shapes don't broadcast."""
        shape = np.broadcast_shapes(*(node.shape for node in inputs))
        if any(node.shape == shape and self.by_pixels(node) for node in inputs):
            turned = (self._channels_last(node, len(shape)) for node in inputs)
            return self.of_pixels(self.map(function, *turned, element=element))
        return self.add("map", function, inputs, shape, element or inputs[-1].element)

    def by_pixels(self, node: Node) -> bool:
        """Whether a node is images [n, c, ..] that lie as [n, .., c].

        Of two dimensions or more they are so however that came about.
        """
        if node.op != "view" or len(node.shape) < 3:
            return False
        computed = len(node.shape) > 3 and node.base.op not in ("input", "constant")
        if not computed and node.base not in self.images:
            return False
        n, c, *image = node.shape
        steps = contiguous_strides((n, *image, c))
        whole = node.offset == 0 and node.size == node.base.size
        return whole and node.strides == (steps[0], steps[-1], *steps[1:-1])

    def of_pixels(self, node: Node) -> Node:
        """A computed node [n, .., c] as images [n, c, ..], which what follows leaves as it lies."""
        self.images.add(node.base)
        rank = len(node.shape)
        return self.permute(node, (0, rank - 1, *range(1, rank - 1)))

    def _channels_last(self, node: Node, rank: int) -> Node:
        """A node that is broadcast to images [n, c, ..], with the channels last."""
        if node.size == 1:
            return node
        if _of_vectors(node, node.size):
            turned = (self._channels_last(i, rank) for i in node.inputs)
            return self.map(node.function, *turned, element=node.element)
        lead = rank - len(node.shape)
        strides, offset = layout(node)
        whole = self.view(node, (1,) * lead + node.shape, (0,) * lead + strides, offset)
        return self.permute(whole, (0, *range(2, rank), 1))

    def view(self, node: Node, shape: Shape, strides: Shape, offset: int) -> Node:
        """Numbers of a node's memory in another arrangement."""
        base = node.base
        if (shape, strides, offset) == (base.shape, *layout(base)):
            return base
        return self.add(
            "view", "", (base,), shape, base.element, strides=strides, offset=offset
        )  # fmt: skip

    def permute(self, node: Node, axes: tuple[int, ...]) -> Node:
        """The axes in another order."""
        strides, offset = layout(node)
        shape = tuple(node.shape[axis] for axis in axes)
        return self.view(node, shape, tuple(strides[axis] for axis in axes), offset)

    def reshape(self, node: Node, shape: Shape) -> Node:
        """Another shape; the numbers are copied where strides can't say it."""
        if math.prod(shape) != node.size:
            raise ValueError(f"{node.shape} can't be reshaped to {shape}")
        strides, offset = layout(node)
        found = reshaped_strides(node.shape, strides, shape)
        if found is None:
            return self.reshape(self.copy(node), shape)
        return self.view(node, shape, found, offset)

    def copy(self, node: Node) -> Node:
        """The same numbers, one after the other."""
        return self.add("map", "copy", (node,), node.shape, node.element)

    def broadcast(self, node: Node, shape: Shape) -> Node:
        """A view in which axes of size 1 are as long as in `shape`."""
        strides, offset = layout(node)
        lead = len(shape) - len(node.shape)
        steps = tuple(
            0 if size != shape[lead + axis] else stride
            for axis, (size, stride) in enumerate(zip(node.shape, strides, strict=True))
        )
        return self.view(node, shape, (0,) * lead + steps, offset)

    def part(self, node: Node, axis: int, start: int, size: int, step: int = 1) -> Node:
        """Part of an axis: `size` places from `start` on, `step` apart."""
        strides, offset = layout(node)
        axis %= len(node.shape)
        shape = (*node.shape[:axis], size, *node.shape[axis + 1 :])
        steps = (*strides[:axis], strides[axis] * step, *strides[axis + 1 :])
        return self.view(node, shape, steps, offset + start * strides[axis])

    def reduce(self, function: str, node: Node, axis: int, keep: bool = False) -> Node:
        """`sum`, `max`, `min` or `prod` along an axis, which gets size 1, or goes."""
        axis %= len(node.shape)
        size = node.shape[axis]
        shape = (*node.shape[:axis], 1, *node.shape[axis + 1 :])
        rest = shape[:axis] + shape[axis + 1 :]
        steps = steps_of(size)
        if axis < len(shape) - 1 and size >= MANY_STEPS and steps:
            return self._reduce_in_parts(function, node, axis, steps, keep)
        if axis == len(node.shape) - 1:
            found = self.add("reduce", function, (node,), shape, node.element)
        else:
            axes = (*range(axis), *range(axis + 1, len(shape)), axis)
            found = self.reduce(function, self.permute(node, axes), -1, keep=True)
        return self.reshape(found, shape if keep else rest)

    def _reduce_in_parts(
        self, function: str, node: Node, axis: int, steps: int, keep: bool
    ) -> Node:
        """`reduce` of parts of an axis, and then of their results, which aren't rounded."""
        narrow = node.element in ("f16", "bf16")
        before, after = node.shape[:axis], node.shape[axis + 1 :]
        parts = self.reshape(node, (*before, node.shape[axis] // steps, steps, *after))
        last = (*range(axis + 1), *range(axis + 2, len(parts.shape)), axis + 1)
        turned = self.permute(parts, last)
        wide = self.map("cast", turned, element="f32") if narrow else turned
        found = self.reduce(function, self.reduce(function, wide, -1), axis, keep)
        return self.map("cast", found, element=node.element) if narrow else found

    def join(self, pieces: list[Node], axis: int) -> Node:
        """The tensors one after the other along an axis."""
        axis %= len(pieces[0].shape)
        first = pieces[0].shape
        if all(map(self.by_pixels, pieces)):
            rank = len(first)
            order = (0, *range(2, rank), 1)
            turned = [self.permute(piece, order) for piece in pieces]
            return self.of_pixels(self.join(turned, order.index(axis)))
        if any(p.shape[:axis] + p.shape[axis + 1 :] != first[:axis] + first[axis + 1 :]
               for p in pieces):  # fmt: skip
            raise ValueError(f"{[p.shape for p in pieces]} can't be joined along axis {axis}")
        pieces = [part for piece in pieces for part in _joined_of(piece, axis)]
        shape = (*first[:axis], sum(p.shape[axis] for p in pieces), *first[axis + 1 :])
        return self.add("join", "", tuple(pieces), shape, pieces[0].element, axis=axis)


def steps_of(size: int) -> int:
    """Numbers of each part of an axis that is reduced in equal parts; 0 if there are none such."""
    least, most = STEPS
    return next((n for n in range(most, least - 1, -1) if size % n == 0), 0)


def _joined_of(node: Node, axis: int) -> tuple[Node, ...]:
    """What a tensor is joined of along an axis: itself, if it isn't."""
    return node.inputs if node.op == "join" and node.axis == axis else (node,)


def _of_vectors(node: Node, size: int) -> bool:
    """Whether a node of so many numbers is a function of fewer: it is as well computed anew."""
    if node.op != "map" or not node.inputs or node.size != size:
        return False
    return all(i.base.size < size or _of_vectors(i, size) for i in node.inputs)


def reshaped_strides(shape: Shape, strides: Shape, new: Shape) -> Shape | None:
    """Strides under which the same memory has another shape; None if there are none.

    Axes are matched in runs of equal size; inside a run of the old shape the strides must be those
    of one longer axis.
    """
    found: list[int] = []
    old = list(zip(shape, strides, strict=True))
    at = 0
    axes = list(new)
    while axes or at < len(old):
        run, size = [old[at]] if at < len(old) else [(1, 1)], 1
        at += 1
        have = run[0][0]
        sizes: list[int] = []
        if axes:
            sizes.append(axes.pop(0))
            size = sizes[0]
        while have != size:
            if have < size:
                run.append(old[at])
                have *= old[at][0]
                at += 1
            else:
                sizes.append(axes.pop(0))
                size *= sizes[-1]
        run = [(s, t) for s, t in run if s != 1] or [run[-1]]
        for (_, outer), (inner_size, inner) in itertools.pairwise(run):
            if outer != inner * inner_size:
                return None
        steps = [run[-1][1] * step for step in contiguous_strides(tuple(sizes))]
        found.extend(steps)
    return tuple(found)
