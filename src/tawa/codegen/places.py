"""Where accesses to global memory reach, as sums of what their addresses are computed from."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from tawa.base.types import PtrType, byte_size, element_of, i32, i64, shape_of
from tawa.hopper.dialect.fragment import Anchored, Coordinate, Fill, Rearrange
from tawa.hopper.dialect.memory import TmaLoad, TmaStore
from tawa.hopper.dialect.structure import GroupIndex, Role, TeamIndex
from tawa.hopper.dialect.types import FragType, TensorMapType
from tawa.ir.affine import Affine, Part, affine, apart, is_inside
from tawa.ir.elementwise import Map


@dataclass(frozen=True)
class Places:
    """Bytes from an address on, or a box of a tensor map: where each dimension begins."""

    map: SSAValue | None
    begins: tuple[Affine, ...]
    extents: tuple[int, ...]

    def apart(self, later: Places, aged: Collection[Operation]) -> bool:
        """Whether a later access, after another iteration of some loops, has no byte of this."""
        if self.map is not later.map:
            return False
        pairs = zip(self.begins, later.begins, self.extents, later.extents, strict=True)
        return any(apart(a, b, 1 - over, under - 1, aged) for a, b, under, over in pairs)

    def are_distinct(self, count: int) -> bool:
        """Whether so many elements, of an address each, have no byte in common."""
        (begin,), (reached,) = self.begins, self.extents
        for part in sorted(begin.parts, key=lambda part: abs(part.factor)):
            if part.low is None or part.high is None or abs(part.factor) < reached:
                return False
            values = part.high - part.low + 1
            reached += abs(part.factor) * (values - 1)
            count = -(-count // values)
        return count <= 1


def places_of(op: Operation, value: SSAValue | None) -> Places | None:
    """Where an op accesses memory through a value; None if that is not known."""
    if value is None:
        return None
    if isinstance(value.type, TensorMapType):
        if not isinstance(op, TmaLoad | TmaStore):
            return None
        begins = [affine(c, _leaf) for c in op.coordinates]
        rows, columns = shape_of(op.tile.type)
        outer = (rows,) * (len(begins) - 1)  # at most, where several dimensions make the rows
        extents = (*outer, columns) if outer else (rows * columns,)
    else:
        pointer = element_of(value.type)
        if not isinstance(pointer, PtrType):
            return None
        begins, extents = [affine(value, _leaf)], (byte_size(pointer.pointee),)
        value = None
    known = tuple(begin for begin in begins if begin is not None)
    return Places(value, known, tuple(extents)) if len(known) == len(begins) else None


def same_in_each_thread(one: SSAValue, other: SSAValue, aged: Collection[Operation]) -> bool:
    """Whether addresses of two tiles are equal only where a thread has both.

    They are if tiles of one layout lie whole tiles apart: where an address is within its tile, and
    so which thread has it, is its rest by a tile's bytes. That holds for integers that wrap, too.
    `aged`: loops that have gone on to another iteration in between.
    """
    if not isinstance(one.type, FragType) or one.type != other.type:
        return False
    size = byte_size(element_of(one.type).pointee)  # pyright: ignore  # of addresses
    whole = size * math.prod(one.type.extents)
    first, second = affine(one, _rest), affine(other, _rest)
    if whole & (whole - 1) or first is None or second is None:
        return False
    if first.parts != second.parts or not _count_up(first.parts, size, whole):
        return False
    for product in {*first.terms, *second.terms}:
        before, after = first.terms.get(product, 0), second.terms.get(product, 0)
        moved = any(is_inside(value, loop) for value in product for loop in aged)
        if (before % whole or after % whole) if moved else (after - before) % whole:
            return False
    return (second.constant - first.constant) % whole == 0


def _count_up(parts: Sequence[Part], size: int, whole: int) -> bool:
    """Whether parts give every multiple of `size` below `whole` once."""
    reached = size
    for part in sorted(parts, key=lambda part: part.factor):
        if part.factor != reached or part.low != 0 or part.high is None:
            return False
        reached *= part.high + 1
    return reached == whole


def _rest(value: SSAValue) -> Affine | SSAValue | None:
    """What is known of a value up to multiples of 2^32."""
    op = value.owner
    if isinstance(op, Map) and op.function.data in ("trunci", "extui"):
        types = (element_of(op.arguments[0].type), element_of(op.result.type))
        if all(t in (i32, i64) for t in types):
            return op.arguments[0]
    return _leaf(value)


def _leaf(value: SSAValue) -> Affine | SSAValue | None:
    op = value.owner
    if isinstance(op, Fill):
        return op.scalar
    if isinstance(op, Rearrange | Anchored):
        return op.operand
    if isinstance(op, Coordinate):
        extent = shape_of(op.value.type)[op.dim.value.data]
        return Affine(op.start.value.data, parts=(Part(1, 0, extent - 1),))
    if isinstance(op, TeamIndex | GroupIndex):  # another one in each thread
        role = _role(op)
        most = role.teams.value.data if isinstance(op, TeamIndex) else role.warps.value.data // 4
        return Affine(parts=(Part(1, 0, max(most, 1) - 1),))
    return None


def _role(op: Operation) -> Role:
    parent = op.parent_op()
    while not isinstance(parent, Role):
        assert parent is not None
        parent = parent.parent_op()
    return parent
