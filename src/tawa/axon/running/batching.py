"""Operators on all slices of tensors at once: what `vmap` makes of each.

Most do along leading axes what they do without (`leading.py`); the slices' axis is one more. Others
have a rule here, or are composed of operators that have one (`compositions.py`). What has neither
is computed slice by slice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tawa.axon.running.compositions import COMPOSITIONS
from tawa.axon.running.layers import Apart, Batch, Slices
from tawa.axon.running.leading import Leading, leading
from tawa.axon.running.numbers import Number
from tawa.axon.running.tape import Algebra, Value
from tawa.base.decorated import Registering

Shape = tuple[int, ...]
Found = "Number | tuple[Number, ...]"
Statics = dict[str, Any]

RULES: dict[str, Callable[..., Any]] = {}
"""The rule of each operator: from operands to numbers with the slices' axis in front."""

rule = Registering(RULES)


class Operand:
    """One operand: the same for all slices, or with their axis in front."""

    def __init__(self, algebra: Algebra, batch: Batch, value: Value) -> None:
        self.is_sliced = isinstance(value, Slices) and value.batch is batch
        self.batch = batch
        self.shape: Shape = tuple(value.shape)
        """A slice's shape."""
        self.plain = Number(algebra, value.value if self.is_sliced else value)
        """With the slices' axis in front, if there is one."""

    @property
    def sliced(self) -> Number:
        """With the slices' axis in front; what is the same for all is repeated."""
        if self.is_sliced:
            return self.plain
        return self.plain.reshape(1, *self.shape).spread(self.batch.count, *self.shape)

    def aligned(self, rank: int) -> Number:
        """The slices' axis, if there is one, in front of `rank` axes."""
        if not self.is_sliced:
            return self.plain
        ones = (1,) * (rank - len(self.shape))
        return self.plain.reshape(self.batch.count, *ones, *self.shape)


def whole(algebra: Algebra, batch: Batch, value: Value) -> Number:
    """All slices of a value in one tensor."""
    return Operand(algebra, batch, value).sliced


def batched(
    algebra: Algebra, batch: Batch, name: str, given: tuple[Value, ...], statics: Statics
) -> Value | None:
    """An operator on all slices of a batch; None if that is composed. Raises Apart."""
    operands = [Operand(algebra, batch, value) for value in given]
    if name in UNSLICED:
        return algebra.call(name, *(o.plain.value for o in operands), **statics)
    found: Any = RULES[name](*operands, **statics) if name in RULES else None
    axes = None if found is not None else leading(name)
    if axes is not None:
        found = (_folded if axes.one else _in_front)(name, axes, operands, statics)
    if found is None and name not in COMPOSITIONS:
        raise Apart(batch)
    if found is None:
        return None
    if isinstance(found, tuple):
        return tuple(Slices(batch, number.value) for number in cast("tuple[Number, ...]", found))
    return Slices(batch, found.value)


UNSLICED = frozenset(("lower",))
"""Operators whose result depends on their operand's last sizes alone."""


def _applied(name: str, numbers: list[Number], statics: Statics) -> Any:
    """An operator on numbers, as numbers."""
    found = numbers[0].do(name, *numbers[1:], **statics)
    value = found.value
    if not isinstance(value, tuple):
        return found
    return tuple(Number(found.algebra, part) for part in cast("tuple[Value, ...]", value))


def _in_front(name: str, axes: Leading, operands: list[Operand], statics: Statics) -> Any:
    """An operator that takes any number of axes in front."""
    pairs = list(zip(operands, axes.follow, strict=True))
    if any(o.is_sliced for o, follow in pairs if follow is None):
        return None
    if axes.broadcast:
        most = max(len(o.shape) - follow for o, follow in pairs if follow is not None)
        numbers = [o.aligned(most + (follow or 0)) for o, follow in pairs]
    else:
        numbers = [o.plain if follow is None else o.sliced for o, follow in pairs]
    axis = statics.get("axis", -1)
    more = {"axis": axis + 1} if axis >= 0 else {}
    return _applied(name, numbers, {**statics, **more})


def _folded(name: str, axes: Leading, operands: list[Operand], statics: Statics) -> Any:
    """An operator with one axis in front, which takes the slices along it."""
    pairs = list(zip(operands, axes.follow, strict=True))
    own = [o for o, follow in pairs if follow is not None]
    if len(own) != 1 or any(o.is_sliced for o, follow in pairs if follow is None):
        return None
    front, *rest = own[0].shape
    count = own[0].batch.count
    flat = own[0].plain.reshape(count * front, *rest)
    numbers = [flat if o is own[0] else o.plain for o in operands]
    found = _applied(name, numbers, statics)
    if not isinstance(found, tuple):
        return found.reshape(count, front, *found.shape[1:])
    parts = cast("tuple[Number, ...]", found)
    return tuple(part.reshape(count, front, *part.shape[1:]) for part in parts)


def permuted(x: Number, *axes: int) -> Number:
    """Axes in another order."""
    inputs = (tuple(range(len(axes))),)
    return x if inputs[0] == axes else x.do("contract", inputs=inputs, output=axes)


def _to_front(x: Number, axis: int) -> Number:
    others = [i for i in range(len(x.shape)) if i != axis]
    return permuted(x, axis, *others)


@rule("reshape")
def reshape(x: Operand, to: tuple[int | None, ...]) -> Number:
    """Each slice."""
    return x.plain.do("reshape", to=(x.batch.count, *to))


@rule("broadcast")
def broadcast(x: Operand, to: Shape) -> Number:
    """Each slice."""
    shape = np.broadcast_shapes(x.shape, to)
    return x.aligned(len(shape)).spread(x.batch.count, *shape)


@rule("full")
def full(x: Operand, s: Shape) -> Number:
    """Each slice's number everywhere."""
    return broadcast(x, s)


@rule("sum_all")
def sum_all(x: Operand) -> Number:
    """Over all axes but the slices'."""
    return x.plain.reshape(x.batch.count, math.prod(x.shape)).sum(-1)


@rule("@")
def matrix_product(x: Operand, w: Operand) -> Any:
    """Slices of x are rows; slices of matrices make a stack of products."""
    if len(w.shape) > 2:
        return batched_product(x, w)
    if not w.is_sliced:
        return x.plain.do("@", w.plain)
    rows = math.prod(x.shape[:-1])
    shape, width = (rows, x.shape[-1]), w.shape[-1:]
    left = x.plain.reshape(x.batch.count, *shape) if x.is_sliced else x.plain.reshape(*shape)
    return (left @ w.plain).reshape(x.batch.count, *x.shape[:-1], *width)


def batched_product(x: Operand, w: Operand) -> Any:
    """`matmul` on slices."""
    axes = leading("matmul")
    return None if axes is None else _in_front("matmul", axes, [x, w], {})


@rule("layer_norm")
def layer_norm(scale: Operand, offset: Operand, x: Operand) -> Number | None:
    """With a scale and an offset for each slice."""
    if not (scale.is_sliced or offset.is_sliced):
        return None
    algebra, rank, width = x.plain.algebra, len(x.shape), x.shape[-1]
    one, zero = (x.plain.like(n).spread(width) for n in (1.0, 0.0))
    found = Number(algebra, algebra.call("layer_norm", one.value, zero.value, x.sliced.value))
    return found * scale.aligned(rank) + offset.aligned(rank)


@rule("contract")
def contract(*operands: Operand, inputs: tuple[Shape, ...], output: Shape) -> Number:
    """The slices' axis is one that the result has, too."""
    axis = 1 + max((a for axes in inputs for a in axes), default=0)
    given = [
        (axis, *axes) if o.is_sliced else axes for o, axes in zip(operands, inputs, strict=True)
    ]
    first, *rest = (o.plain for o in operands)
    return first.do("contract", *rest, inputs=tuple(given), output=(axis, *output))


@rule("rows")
def rows(x: Operand) -> tuple[Number, ...]:
    """The slices along the second axis."""
    return _applied("rows", [_to_front(x.plain, 1)], {})


@rule("stack")
def stack(*items: Operand) -> Number:
    """Along a second axis."""
    first, *rest = (item.sliced for item in items)
    return _to_front(first.do("stack", *rest), 1)


@rule("like")
def like(x: Operand, of: Operand) -> Number:
    """In the other's element type."""
    return Number(x.plain.algebra, x.sliced.value).do("like", of.plain)


def _moved(i: Operand, size: int) -> Number:
    """Indices into tables of `size` rows behind each other; those out of range stay so."""
    count, index = i.batch.count, i.sliced
    starts = np.arange(count).reshape(count, *[1] * len(i.shape)) * size
    is_inside = index.do(">=", 0).do("both", index.do("<", size))
    shifted = index + Number(index.algebra, starts)
    return is_inside.do("where", shifted, index.like(count * size))


@rule("take")
def take(x: Operand, i: Operand) -> Number:
    """Each slice's rows from its own table."""
    if not x.is_sliced:
        return x.plain.do("take", i.plain)
    if not i.is_sliced:
        return _to_front(_to_front(x.plain, 1).do("take", i.plain), len(i.shape))
    size, *rest = x.shape
    return x.plain.reshape(x.batch.count * size, *rest).do("take", _moved(i, size))


@rule("put")
def put(values: Operand, i: Operand, n: int) -> Number:
    """Each slice's rows into its own table."""
    count, rest = values.batch.count, values.shape[len(i.shape) :]
    return values.sliced.do("put", _moved(i, n), n=count * n).reshape(count, n, *rest)
