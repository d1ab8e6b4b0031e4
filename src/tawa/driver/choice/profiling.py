"""The profile of a kernel, from its module as partition leaves it with the options as asked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tawa.aref.analysis.iteration_slices import most_slices
from tawa.aref.analysis.product_check import product_obstacle
from tawa.aref.analysis.products import elements_across, viewed
from tawa.aref.analysis.slots import staging_bytes
from tawa.aref.dialect.ops import Create, PutEnter, RefType, WarpGroup
from tawa.base.spans import span_of
from tawa.base.tile_scheduler import Work
from tawa.base.types import PtrType, byte_size, element_of, shape_of, words_of
from tawa.driver.choice.profile import Cost, Loop, Profile
from tawa.ir.effects import GLOBAL, ORDER, READ, WRITE, is_pure, touches
from tawa.ir.elementwise import Map
from tawa.ir.kernels import argument_names, made_by_host
from tawa.ir.walking import all_of, every, has
from tawa.machine.chips import Chip
from tawa.machine.instructions import HALF_RATE, SPECIAL
from tawa.partition.work import iterations_of
from tawa.tile.dialect.ops import DescStore, Dot, Load, Reduce, Store


def profile_of(tile: ModuleOp, roles: ModuleOp, chip: Chip) -> Profile:
    """The profile of a kernel: its program before partition, and the roles that came of it."""
    kernel = next(op for op in tile.ops if isinstance(op, func.FuncOp))
    groups = all_of(roles, WarpGroup)
    computing = [g for g in groups if g.computes]
    counts = iterations_of(kernel)
    loops = all_of(kernel, scf.ForOp)
    dots = all_of(kernel, Dot)
    split = len(groups) > 1 and bool(dots)
    ringed, kept = _slot_bytes(roles)
    gathered = _gathered(kernel, computing)
    addresses = _addresses(kernel, gathered)
    loaded = ringed / max(1, sum(_loads(loop.body.block) > 0 for loop in loops))
    return Profile(
        arguments=tuple(argument_names(kernel)[: made_by_host(kernel)[0]]),
        ends=_cost(_own(kernel.body.block), addresses, chip, 0.0),
        loops=tuple(_loop(loop, counts, (addresses, gathered), loaded, chip) for loop in loops),
        certain=all(counts[loop] is not None for loop in loops),
        groups=computing[0].warps.value.data // chip.group_warps if split else 0,
        copies=any(g.copies is not None for g in groups),
        accumulators=_accumulators(dots) + _carried(loops),
        made=max(map(_made, loops), default=0),
        ring_bytes=ringed,
        kept_bytes=kept + sum(map(_copied_bytes, computing)),
        staged_bytes=staging_bytes(roles),
        rows=min((shape_of(d.result.type)[-2] for d in dots), default=0),
        by_warps=any(_multiplies_by_warps(g, chip) for g in computing),
        apart=not any(map(_may_wait, every(kernel))),
        slices=most_slices(computing[0], groups) if split else 1,
    )


def multiplies(tile: ModuleOp) -> bool:
    """Whether a program has products, which roles and their number are chosen for."""
    return has(tile, Dot)


def _may_wait(op: Operation) -> bool:
    """Whether a program that does this may wait for another, or be waited for."""
    atomic = touches(op, GLOBAL, READ) and touches(op, GLOBAL, WRITE)
    return (not op.regions and (atomic or touches(op, ORDER))) or isinstance(op, scf.WhileOp)


def _own(block: Block) -> Iterator[Operation]:
    """A block's ops and those of its branches, without those of loops."""
    for op in block.ops:
        yield op
        if not isinstance(op, scf.ForOp | scf.WhileOp) and not _guards(op):
            for region in op.regions:
                for inner in region.blocks:
                    yield from _own(inner)


def _guards(op: Operation) -> bool:
    """Whether a branch of an iteration changes a tile or leaves it: as masks at an edge, in few."""
    if not isinstance(op, scf.IfOp) or not op.results or not isinstance(op.parent_op(), scf.ForOp):
        return False
    changed, left = op.true_region.block, op.false_region.block
    leaves = isinstance(left.first_op, scf.YieldOp)
    return leaves and all(is_pure(each) for each in changed.ops)


def _loop(
    loop: scf.ForOp,
    counts: Mapping[scf.ForOp, Work | None],
    loads: tuple[set[SSAValue], set[SSAValue]],
    loaded: float,
    chip: Chip,
) -> Loop:
    body = list(_own(loop.body.block))
    around: list[scf.ForOp] = [loop]
    while (parent := around[-1].parent_op()) is not None and not isinstance(parent, func.FuncOp):
        if isinstance(parent, scf.ForOp):
            around.append(parent)
        else:
            break
    known = tuple(c for c in (counts[at] for at in around) if c is not None)
    dots = [op for op in body if isinstance(op, Dot)]
    addresses, gathered = loads
    cost = _cost(body, addresses, chip, loaded if _loads(loop.body.block) else 0.0)
    cost = replace(cost, turned=float(elements_across(dots)))
    gathers = any(op.results[0] in gathered for op in body if isinstance(op, Load))
    feeds, makes, guarded = any(map(_feeds, dots)), any(map(_makes, dots)), any(map(_guards, body))
    return Loop(cost, known, feeds, makes, gathers, guarded)


def _feeds(dot: Dot) -> bool:
    """Whether something other than a product or the next iteration reads a product."""
    users = [use.operation for use in dot.result.uses]
    return any(not isinstance(user, Dot | scf.YieldOp) for user in users)


def _makes(dot: Dot) -> bool:
    """Whether ordinary code of the same iteration makes an operand, of anything but products."""
    return any(not _from_products(op) for op in _made_by(dot))


def _made(loop: scf.ForOp) -> int:
    """32-bit words of the operands that an iteration makes from its own products.

    Numbers of 8 bits count as 16, which they are until two threads have exchanged theirs.
    """
    dots = [op for op in _own(loop.body.block) if isinstance(op, Dot)]
    inner = (dot for dot in dots if dot.parent is loop.body.block)
    made = {op for dot in inner for op in _made_by(dot) if _from_products(op)}
    words = (max(words_of(op.result.type), math.prod(shape_of(op.result.type)) // 2) for op in made)
    return sum(words)


def _made_by(dot: Dot) -> list[Map]:
    """The ordinary code of the same iteration that makes operands of a product."""
    bases = (viewed(value)[0].owner for value in (dot.a, dot.b))
    return [op for op in bases if isinstance(op, Map) and op.parent is dot.parent]


def _from_products(op: Map) -> bool:
    """Whether what ordinary code makes comes from a product of the same iteration."""
    work, seen = list(op.operands), set[SSAValue]()
    while work:
        value = work.pop()
        owner = value.owner
        if value in seen or not isinstance(owner, Operation) or owner.parent is not op.parent:
            continue
        if isinstance(owner, Dot):
            return True
        seen.add(value)
        work += owner.operands
        work += [v for inner in every(owner) if inner is not owner for v in inner.operands]
    return False


def _loads(block: Block) -> int:
    return sum(touches(op, GLOBAL, READ) and not op.regions for op in _own(block))


def _cost(ops: Iterable[Operation], addresses: set[SSAValue], chip: Chip, loaded: float) -> Cost:
    """Of ops, once, but for those that compute addresses."""
    tensor = special = ordinary = stored = 0.0
    for op in ops:
        if isinstance(op, Dot):
            tensor += _product_cycles(op, chip)
        elif isinstance(op, Map | Reduce) and op.results[0] not in addresses:
            cycles = _pipe_cycles(op, chip)
            by_special = isinstance(op, Map) and op.function.data in SPECIAL
            special, ordinary = special + cycles * by_special, ordinary + cycles * (not by_special)
        elif isinstance(op, DescStore | Store):
            stored += math.prod(shape_of(op.value.type))
    return Cost(tensor, special, ordinary, loaded, stored)


def _gathered(kernel: func.FuncOp, computing: list[WarpGroup]) -> set[SSAValue]:
    """Operands of products that the computing roles load themselves, in the program before them.

    Whole programs beside them are left out: there nobody else could.
    """
    own = {span_of(op) for group in computing for op in _operands_loaded(group)}
    loads = (load for dot in all_of(kernel, Dot) for load in _loads_of(dot))
    return {load.result for load in loads if span_of(load) in own}


def _operands_loaded(group: WarpGroup) -> Iterator[Load]:
    for dot in all_of(group, Dot):
        yield from _loads_of(dot)


def _loads_of(dot: Dot) -> Iterator[Load]:
    """The loads that are operands of a product."""
    for value in (dot.a, dot.b):
        owner = viewed(value)[0].owner
        if isinstance(owner, Load):
            yield owner


def _addresses(kernel: func.FuncOp, gathered: set[SSAValue]) -> set[SSAValue]:
    """Values that only say where something is loaded: the loading role computes them.

    Those of what is `gathered` are the computing role's.
    """
    found = set[SSAValue]()
    own = set(gathered)
    for op in reversed(every(kernel)):  # what uses a value comes first
        if any(result in own for result in op.results):
            own |= set(op.operands)
        for value in op.results if is_pure(op) else ():
            pointer, uses = isinstance(element_of(value.type), PtrType), list(value.uses)
            where = uses and all(_says_where(use.operation, value, found) for use in uses)
            if value not in own and (pointer or where):
                found.add(value)
    return found


def _says_where(user: Operation, value: SSAValue, addresses: set[SSAValue]) -> bool:
    if isinstance(user, Load):
        return user.other is not value
    return is_pure(user) and bool(user.results) and user.results[0] in addresses


def _product_cycles(dot: Dot, chip: Chip) -> float:
    depth = shape_of(dot.a.type)[-1]
    wide = byte_size(element_of(dot.a.type)) / 2
    return 2 * math.prod(shape_of(dot.result.type)) * depth * wide / chip.tensor_flops


def _pipe_cycles(op: Map | Reduce, chip: Chip) -> float:
    """Cycles of the schedulers of a multiprocessor for an op on a tile."""
    value: SSAValue = op.value if isinstance(op, Reduce) else op.result
    if len(shape_of(value.type)) < 2:
        return 0.0  # of rows, a part of what tiles take
    name = op.kind.data if isinstance(op, Reduce) else op.function.data
    costs = chip.costs
    each = costs.special if name in SPECIAL else costs.half_rate if name in HALF_RATE else costs.alu
    if name in ("truncf", "extf"):
        each /= 2  # two values at once
    return each * math.prod(shape_of(value.type)) / (chip.lanes * chip.schedulers)


def _accumulators(dots: list[Dot]) -> int:
    """32-bit words of results that are there at once: of products that are not added to others'."""
    last = [dot for dot in dots if not any(_adds_to(dot, other) for other in dots)]
    by_place: dict[object, int] = {}
    for dot in last:
        by_place[dot.parent] = by_place.get(dot.parent, 0) + words_of(dot.result.type)
    return max(by_place.values(), default=0)


def _multiplies_by_warps(group: WarpGroup, chip: Chip) -> bool:
    """Whether a role has products, and none of them has an instruction of warp groups."""
    dots = all_of(group, Dot)
    warps, by_columns = group.warps.value.data, group.split_columns is not None
    return bool(dots) and all(
        product_obstacle(dot, warps, chip, by_columns=by_columns) is not None for dot in dots
    )


def _carried(loops: list[scf.ForOp]) -> int:
    """32-bit words of sums that a loop carries beside its products' results, of the largest."""
    multiplying = (
        loop for loop in loops if any(isinstance(op, Dot) for op in _own(loop.body.block))
    )
    return max((sum(words_of(s.type) for s in _sums(loop)) for loop in multiplying), default=0)


def _sums(loop: scf.ForOp) -> Iterator[SSAValue]:
    """Tiles of floats that a loop carries, but for those that products go on from."""
    for value in loop.body.block.args[1:]:
        tile = len(shape_of(value.type)) > 1 and isinstance(element_of(value.type), AnyFloat)
        if tile and not _goes_on(value):
            yield value


def _goes_on(value: SSAValue) -> bool:
    """Whether a product adds to a tile, perhaps after ordinary code has changed it."""
    seen, open_ = {value}, [value]
    while open_:
        tile = open_.pop()
        for op in (use.operation for use in tile.uses):
            if isinstance(op, Dot) and op.acc is tile:
                return True
            if isinstance(op, Map) and op.result not in seen:
                seen.add(op.result)
                open_.append(op.result)
    return False


def _adds_to(dot: Dot, other: Dot) -> bool:
    """Whether another product of the same block goes on where this one ends."""
    return other is not dot and other.acc is dot.result and other.parent is dot.parent


def _slot_bytes(roles: ModuleOp) -> tuple[int, int]:
    """Bytes of a slot of every ring that loops fill, and of every other ring."""
    looped = other = 0
    for create in (op for op in every(roles) if isinstance(op, Create)):
        assert isinstance(create.ref.type, RefType)
        size = sum(
            math.prod(tile.get_shape()) * byte_size(tile.element_type)
            for tile in create.ref.type.tiles
        )
        puts = [u.operation for u in create.ref.uses if isinstance(u.operation, PutEnter)]
        inside = any(isinstance(put.parent_op(), scf.ForOp) for put in puts)
        looped, other = (looped + size, other) if inside else (looped, other + size)
    return looped, other


def _copied_bytes(group: WarpGroup) -> int:
    """Bytes of tiles that a role loads by itself and copies to shared memory for its products."""
    tiles = {load.result for load in _operands_loaded(group)}
    return sum(math.prod(shape_of(t.type)) * byte_size(element_of(t.type)) for t in tiles)
