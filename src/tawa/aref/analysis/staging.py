"""Computed tiles that products read from shared memory: copied where they are made, once."""

from __future__ import annotations

import math

from xdsl.ir import Block, Operation, SSAValue

from tawa.aref.analysis.slots import swizzle_for
from tawa.aref.dialect.ops import (
    DotIssue,
    DotWait,
    Stage,
    ViewChange,
    ViewRead,
    WarpDot,
    WarpGroup,
)
from tawa.base.spans import copy_span
from tawa.base.types import byte_size, element_of, shape_of
from tawa.ir.elementwise import Map
from tawa.ir.walking import every
from tawa.machine.chips import SM_90A
from tawa.tile.analysis.axis_info import AxisAnalysis, fastest
from tawa.tile.dialect.ops import (
    Load,
    Splat,
    Trans,
    ViewLike,
)


def staged(value: SSAValue, before: Operation, *, shared: bool = False) -> SSAValue:
    """The view of a copy of a tile in shared memory, for an op that reads it.

    A tile that is made outside of the op's loop (or branch) is copied there, once for all ops that
    read it inside. With `shared`, so is any other, once for all ops of its block, before the first.
    """
    owner = value.owner
    home = owner if isinstance(owner, Block) else owner.parent
    assert home is not None
    outside = home is not before.parent
    if outside or shared:
        reader = home.find_ancestor_op_in_block(before)
        for use in value.uses:
            op = use.operation
            if isinstance(op, Stage) and op.parent is home:
                if reader is not None and reader.is_before_in_block(op):
                    op.detach()
                    home.insert_op_before(op, reader)
                return op.view
    new = Stage(value)
    copy_span(before, [new])
    new.view.name_hint = value.name_hint
    if not outside:
        home.insert_op_before(new, before)
    elif isinstance(owner, Block):
        assert home.first_op is not None
        home.insert_op_before(new, home.first_op)
    else:
        home.insert_op_after(new, owner)
    return new.view


def memory_shared(group: WarpGroup) -> dict[Stage, Stage]:
    """For each copy that goes where an earlier one went, that one: its products are done by then.

    Pipelining leaves an iteration's copy once in a loop, and once more behind it; one product after
    the other, each with its own operands, needs the memory of few. Of memory that is free a copy
    takes what has been for longest, so that warps have met since. Where copies would take most of
    shared memory, two more kinds make way: those of products whose sum another product goes on
    with, and those of products that the same block has waited for.
    """
    found, places = _places(group, sums=False)
    if sum(_bytes(place[0]) for place in places) > SM_90A.shared_bytes // 2:
        found, _ = _places(group, sums=True)
    return found


def _bytes(copy: Stage) -> int:
    tile = copy.value.type
    return math.prod(shape_of(tile)) * byte_size(element_of(tile))


def _places(group: WarpGroup, *, sums: bool) -> tuple[dict[Stage, Stage], list[list[Stage]]]:
    """The copies that go where earlier ones went, and all copies by their places."""
    found: dict[Stage, Stage] = {}
    places: list[list[Stage]] = []
    for op in [op for op in every(group) if isinstance(op, Stage) and op.buffer is None]:
        for place in places:
            if op.view.type == place[0].view.type and all(_is_over(e, op, sums) for e in place):
                found[op] = place[0]
                place.append(op)
                places.remove(place)
                places.append(place)
                break
        else:
            places.append([op])
    return found, places


def _is_over(earlier: Stage, later: Stage, sums: bool) -> bool:
    """Whether products that read a copy are done before a later one.

    Those of warps are where they stand. Those of warp groups have to be waited for, in a block that
    ends before the later copy; or with `sums` another one that goes on with what they add up to.
    """
    block = earlier.parent
    assert block is not None
    readers, views = list[Operation](), [earlier.view]
    while views:
        for use in views.pop().uses:
            if isinstance(use.operation, ViewChange):
                views.append(use.operation.results[0])
            else:
                readers.append(use.operation)
    inside = block.find_ancestor_op_in_block(later)
    if inside is not None:
        return inside is later and all(_stands_before(r, later, sums) for r in readers)
    return all(isinstance(r, DotIssue) and _awaited(r, block, sums) for r in readers)


def _awaited(product: DotIssue, block: Block, sums: bool) -> bool:
    """Whether a block waits for a product, or with `sums` for one that adds to it."""
    users = [u.operation for u in product.result.uses if u.operation.parent is block]
    if any(isinstance(user, DotWait) for user in users):
        return True
    others = [u for u in users if isinstance(u, DotIssue) and u.accumulator is product.result]
    return sums and any(_awaited(other, block, sums) for other in others)


def _stands_before(reader: Operation, op: Operation, awaited: bool) -> bool:
    """Whether a product is over when an op of its block, or of one around it, begins.

    A warps' product, or with `awaited` one of warp groups that is waited for.
    """
    block = op.parent
    if awaited and isinstance(reader, DotIssue) and reader.parent is block:
        waits = [u.operation for u in reader.result.uses if isinstance(u.operation, DotWait)]
        return any(w.parent is block and w.is_before_in_block(op) for w in waits)
    place = None if block is None else block.find_ancestor_op_in_block(reader)
    return isinstance(reader, WarpDot) and place is not None and place.is_before_in_block(op)


def runs_down(value: SSAValue) -> bool:
    """Whether a tile comes from where the elements of a column are neighbours: memory, or a slot.

    It is best copied to shared memory as its transpose, with wide stores. A transpose that was
    written in the kernel counts as one of what lies in rows.
    """
    transposes, source = False, value
    while not isinstance(source.owner, Block):
        op = source.owner
        if isinstance(op, Trans) and op.permutation == (1, 0):
            transposes, source = not transposes, op.value
            continue
        if isinstance(op, ViewRead):
            return transposes
        if isinstance(op, Load):
            dim, count = fastest(AxisAnalysis(), op.ptr)
            return (dim == 0) != transposes if count > 1 else transposes
        tiles = [v for v in op.operands if shape_of(v.type) == shape_of(source.type)]
        if not isinstance(op, Map) or not tiles:
            break
        source = tiles[0]
    return isinstance(value.owner, Trans) and value.owner.permutation == (1, 0)


def copied_turned(value: SSAValue) -> bool:
    """Whether a tile that products read either way is copied to shared memory as its transpose.

    As it lies where it comes from, if such rows have a swizzle.
    """
    down, (rows, columns) = runs_down(value), shape_of(value.type)
    return down if swizzle_for(rows if down else columns, element_of(value.type)) else not down


def turned(value: SSAValue, before: Operation) -> SSAValue:
    """The transpose of a tile, made where the tile is, once for all that ask for it."""
    owner = value.owner
    home = owner if isinstance(owner, Block) else owner.parent
    assert home is not None
    reader = home.find_ancestor_op_in_block(before)
    for use in value.uses:
        op = use.operation
        transposes = isinstance(op, Trans) and op.permutation == (1, 0) and op.parent is home
        if transposes and reader is not None and op.is_before_in_block(reader):
            return op.results[0]
    new = Trans(value)
    copy_span(before, [new])
    new.result.name_hint = value.name_hint
    if isinstance(owner, Block):
        assert owner.first_op is not None
        owner.insert_op_before(new, owner.first_op)
    else:
        assert owner.parent is not None
        owner.parent.insert_op_after(new, owner)
    return new.result


def drop_unread(group: WarpGroup) -> None:
    """Remove reads, transposes and reshapes that nothing uses any more."""
    tiles = (ViewRead, ViewLike, Splat)
    for op in reversed([op for op in every(group) if isinstance(op, tiles)]):
        if op.results[0].first_use is None:
            op.detach()
            op.erase()
