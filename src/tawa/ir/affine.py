"""Integers and addresses as sums, to tell that two of them are never near each other.

A sum is a constant, multiples of products of other values, and parts of which only the range is
known: a tile's coordinates, a loop's counter. Arithmetic is taken to be without overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple, TypeAlias

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tawa.base.types import PtrType, byte_size, element_of
from tawa.ir.elementwise import Map

Product: TypeAlias = tuple[SSAValue, ...]
MOST_TERMS = 12
"""A sum of more is not looked at."""
MOST_CASES = 256
"""Values of one part that are tried."""


class Part(NamedTuple):
    """`factor` times an integer from `low` to `high`; None is no bound."""

    factor: int
    low: int | None
    high: int | None


@dataclass(frozen=True)
class Affine:
    """`constant`, the multiples in `terms`, and each of `parts`, whatever it is."""

    constant: int = 0
    terms: Mapping[Product, int] = field(default_factory=dict[Product, int])
    parts: tuple[Part, ...] = ()

    def __hash__(self) -> int:
        return hash((self.constant, frozenset(self.terms.items()), self.parts))

    def plus(self, other: Affine, times: int = 1) -> Affine:
        """The sum of this and a multiple of another."""
        terms = dict(self.terms)  # as it is: hashing products anew takes longest
        for product, factor in other.terms.items():
            terms[product] = terms.get(product, 0) + times * factor
        if 0 in terms.values():
            terms = {k: n for k, n in terms.items() if n}
        return Affine(
            self.constant + times * other.constant,
            terms,
            (*self.parts, *(p._replace(factor=times * p.factor) for p in other.parts if times)),
        )

    def times(self, other: Affine) -> Affine | None:
        """The product, if it is such a sum."""
        if not self.terms and not self.parts:
            return Affine().plus(other, self.constant)
        if not other.terms and not other.parts:
            return Affine().plus(self, other.constant)
        if self.parts or other.parts:
            return None
        found = Affine()
        for one, a in [*self.terms.items(), ((), self.constant)]:
            for two, b in [*other.terms.items(), ((), other.constant)]:
                product = tuple(sorted((*one, *two), key=id))
                piece = Affine(0, {product: a * b}) if product else Affine(a * b)
                found = found.plus(piece)
        return found


Leaf: TypeAlias = Callable[[SSAValue], "Affine | SSAValue | None"]
"""What a level knows of a value: a sum, another value with the same elements, or nothing."""


def affine(value: SSAValue, leaf: Leaf = lambda _: None) -> Affine | None:
    """A value as a sum; for tiles the elements'. None if nothing is known of it."""
    known = leaf(value)
    if isinstance(known, SSAValue):
        return affine(known, leaf)
    if known is None and isinstance(value.owner, Map):
        known = _mapped(value.owner, leaf)
    if known is None and isinstance(value.owner, arith.ConstantOp):
        constant = value.owner.value
        known = Affine(constant.value.data) if isinstance(constant, IntegerAttr) else None
    if known is None and element_of(value.type) == value.type:
        known = Affine(0, {(value,): 1})
    return known if known is None or len(known.terms) + len(known.parts) <= MOST_TERMS else None


def _mapped(op: Map, leaf: Leaf) -> Affine | None:
    name = op.function.data
    if name not in ("addi", "subi", "muli", "addptr", "extsi"):
        return None
    found = [affine(operand, leaf) for operand in op.operands]
    one, other = found[0], found[-1]
    if one is None or other is None:
        return None
    if name == "extsi":
        return one
    if name == "muli":
        return one.times(other)
    size = 1
    if name == "addptr":
        pointer = element_of(op.result.type)
        assert isinstance(pointer, PtrType)
        size = byte_size(pointer.pointee)
    return one.plus(other, -1 if name == "subi" else size)


def is_inside(value: SSAValue, loop: Operation) -> bool:
    """Whether a value is made in a loop, its own arguments included."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    return block is not None and loop.is_ancestor(block)


def apart(
    earlier: Affine, later: Affine, low: int, high: int, aged: Collection[Operation] = ()
) -> bool:
    """Whether `later - earlier` is never from `low` to `high`.

    `aged`: loops that have gone on to another iteration in between.
    """
    parts = [*later.parts, *(p._replace(factor=-p.factor) for p in earlier.parts)]
    for product in dict.fromkeys([*earlier.terms, *later.terms]):
        found = _difference(
            product, earlier.terms.get(product, 0), later.terms.get(product, 0), aged
        )
        if found is None:
            return False
        parts += found
    return not _may_be(later.constant - earlier.constant, _combined(parts), low, high)


def _difference(
    product: Product, before: int, after: int, aged: Collection[Operation]
) -> list[Part] | None:
    """How far `after` times the product is from what `before` times it was; None if unknown."""
    outer = [loop for loop in aged if any(is_inside(value, loop) for value in product)]
    if not outer:
        return [] if before == after else _bounded(product, after - before)
    outer = [loop for loop in outer if not any(o is not loop and o.is_ancestor(loop) for o in aged)]
    (value, *others), loop = product, outer[0]
    if before == after and not others and isinstance(loop, scf.ForOp) and len(outer) == 1:
        step = _constant(loop.step)
        if value is loop.body.block.args[0] and step:
            return [Part(after * step, 1, None)]
    found = [_bounded(product, factor) for factor in (after, -before) if factor]
    return None if None in found else [part for parts in found for part in parts or ()]


def _bounded(product: Product, factor: int) -> list[Part] | None:
    (value, *others), loop = product, product[0].owner
    loop = loop.parent_op() if isinstance(loop, Block) else None
    if others or not isinstance(loop, scf.ForOp) or value is not loop.body.block.args[0]:
        return None
    first, end, step = map(_constant, (loop.lb, loop.ub, loop.step))
    if first is None or end is None or not step or step < 0:
        return None
    return [Part(factor, first, max(first, end - 1))]


def _constant(value: SSAValue) -> int | None:
    found = affine(value)
    return None if found is None or found.terms or found.parts else found.constant


def _combined(parts: Iterable[Part]) -> list[Part]:
    """The parts with one of each factor, positive, the largest first."""
    turned = [p if p.factor > 0 else _turned(p) for p in parts if p.factor]
    turned.sort(key=lambda p: -p.factor)
    return [
        Part(factor, _total(p.low for p in same), _total(p.high for p in same))
        for factor, group in groupby(turned, lambda p: p.factor)
        for same in [list(group)]
    ]


def _turned(part: Part) -> Part:
    low, high = (None if n is None else -n for n in (part.high, part.low))
    return Part(-part.factor, low, high)


def _total(bounds: Iterable[int | None]) -> int | None:
    found = list(bounds)
    return None if None in found else sum(n for n in found if n is not None)


def _may_be(constant: int, parts: list[Part], low: int, high: int) -> bool:
    """Whether the constant and the parts may add up to something from `low` to `high`."""
    if not parts:
        return low <= constant <= high
    first, *rest = parts
    least = _total(None if p.low is None else p.factor * p.low for p in rest)
    most = _total(None if p.high is None else p.factor * p.high for p in rest)
    begin, end = first.low, first.high
    if most is not None:  # the rest is not larger: so much the first has to be
        needed = -((most + constant - low) // first.factor)
        begin = needed if begin is None else max(begin, needed)
    if least is not None:
        needed = (high - constant - least) // first.factor
        end = needed if end is None else min(end, needed)
    if begin is None or end is None or end - begin > MOST_CASES:
        return True
    return any(_may_be(constant + first.factor * n, rest, low, high) for n in range(begin, end + 1))
