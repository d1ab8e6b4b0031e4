"""How many slots each ring has: as asked, or as many as shared memory holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import BlockArgument, Operation
from xdsl.rewriter import Rewriter

from tawa.aref.analysis.ranges import iterations_around
from tawa.aref.analysis.slots import slot_bytes, staging_bytes, tile_bytes
from tawa.aref.analysis.staging import memory_shared
from tawa.aref.dialect.ops import (
    Consumed,
    CopyInto,
    Create,
    GetEnter,
    PutEnter,
    RefType,
    Stage,
    WarpGroup,
)
from tawa.aref.passes.last_iteration_peeling import LEFT_OUT
from tawa.aref.passes.shared_slots import SEQUENCE
from tawa.aref.passes.warp_products import multiplies_by_warps
from tawa.base.options import Options
from tawa.base.spans import span_of
from tawa.base.types import element_of, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.memory import RingDepth
from tawa.ir.loops import terminator
from tawa.ir.properties import ASYNCHRONOUS, DEPTHS, FINAL_RINGS, OPEN_SLOTS
from tawa.ir.walking import all_of, every
from tawa.machine.chips import SM_90A

MOST = SM_90A.thresholds.hiding_slots
"""Slots beyond this hide no more latency."""
PIPELINED = 2
"""Slots below this expose every load."""

SHARING = SM_90A.thresholds.shared_slots
"""Slots that hide the loads of a CTA that shares its multiprocessor with another."""

PASSING = 2
"""Slots of a ring whose tiles are moved on to another ring as soon as they are there."""


def two_tiles_fit(module: ModuleOp, options: Options) -> bool:
    """Whether the rings of two tiles fit, with as many slots in the loops as hide their loads."""
    demand = Demand(module, options)
    return demand.fitting(own=2) >= max(demand.least, options.num_stages or PIPELINED)


class Demand:
    """What the rings of a module ask of shared memory."""

    def __init__(self, module: ModuleOp, options: Options) -> None:
        rings = all_of(module, Create)
        self.rings = rings
        puts = {
            r: [u.operation for u in r.ref.uses if isinstance(u.operation, PutEnter)] for r in rings
        }
        self.deepest = {r: max(map(_loops_around, puts[r]), default=0) for r in rings}
        inner = max(self.deepest.values(), default=0)
        innermost = [r for r in rings if self.deepest[r] == inner and inner > 0]
        self.passing = [r for r in innermost if _is_moved_on(r)]
        """Rings of the innermost loops that only feed other rings."""
        self.looped = _less(innermost, self.passing)
        """The other rings of the innermost loops."""
        self.ahead = [r for r in _less(rings, innermost) if any(map(_guarded, puts[r]))]
        """Rings that the loops of the tile before fill."""
        self.sizes = {r: slot_bytes(r.ref) for r in rings}
        self.slot = sum(self.sizes[r] for r in self.looped)
        groups = all_of(module, WarpGroup)
        self.slices = max((g.slices for g in groups), default=1)
        """Teams that share the iterations of the innermost loop, and its slots."""
        self.least = self.slices * (1 + max(map(_lag, self.looped), default=0))
        """Slots without which the innermost loops would wait for themselves."""
        self.teams = max((g.teams.value.data for g in groups if g.sliced is None), default=1)
        staging = staging_bytes(module, self.teams, options.staging or 2) + 1024
        self.memory = options.machine.shared_bytes - staging

    def own(self, ring: Create, most: int) -> int:
        """Slots of a ring outside the innermost loops."""
        if self.teams > 1 or ring in self.ahead:
            return 2
        return min(most, max(1 + (SEQUENCE in ring.attributes), self.deepest[ring] + 1))

    def free(self, own: int, reserve: int) -> int:
        """Bytes for the innermost loops' rings; `own` is the most slots that others have."""
        others = _less(self.rings, [*self.looped, *self.passing])
        return self.memory - sum(self.sizes[r] * self.own(r, own) for r in others) - reserve - 1024

    def few(self, free: int) -> int:
        """Slots of the rings that only feed others."""
        beside = sum(self.sizes[r] for r in self.passing)
        return PASSING if free - PASSING * beside >= PASSING * self.slot else 1

    def fitting(self, own: int, reserve: int = 0) -> int:
        """Slots that the innermost loops' rings can have; `own` is the most that others have."""
        free = self.free(own, reserve)
        beside = self.few(free) * sum(self.sizes[r] for r in self.passing)
        return (free - beside) // self.slot if self.slot else 1

    def chosen(self, asked: int | None, reserve: int = 0) -> dict[Create, int]:
        """The depth of each ring; `asked` is that of the innermost loops' if it was given.

        Of each team, if teams share their iterations: as many as there is room for.
        """
        wanted = max(self.least, asked or PIPELINED)
        # Loads of every iteration come before those of a tile.
        own = 2 if self.fitting(2, reserve) >= wanted else 1
        hiding = min(MOST * self.slices, self.fitting(own, reserve))
        most = max(self.least, hiding) if self.slot else 1
        depth = asked or most
        if asked and self.slices > 1:
            depth = min(asked * self.slices, most)
        few = min(depth, self.few(self.free(own, reserve)))
        found = {r: self.own(r, own) for r in self.rings}
        found |= dict.fromkeys(self.looped, depth) | dict.fromkeys(self.passing, few)
        return found if asked else found | self._second_slots(depth, self.free(own, reserve))

    def _second_slots(self, depth: int, free: int) -> dict[Create, int]:
        """A slot more for the innermost loops' rings, in their order, as long as there is room.

        Only where not all have two: a load of one of them then hides behind what the others feed.
        """
        found: dict[Create, int] = {}
        left = free - depth * self.slot
        for ring in self.looped if depth < PIPELINED and not self.passing else []:
            if self.sizes[ring] <= left:
                found[ring] = depth + 1
                left -= self.sizes[ring]
        return found


@dataclass(frozen=True)
class Depths:
    """Choose D for every ring: the innermost loops' rings share what memory is left."""

    options: Options
    decided: Decisions
    reserve: int = 0
    """Bytes that the rest of the kernel turned out to need."""
    name: ClassVar[str] = "depths"
    contract: ClassVar[Contract] = Contract(
        requires=(FINAL_RINGS, ASYNCHRONOUS, OPEN_SLOTS), establishes=(DEPTHS,)
    )

    def apply(self, module: ModuleOp) -> None:
        """Set the depth in every ring's type."""
        demand = Demand(module, self.options)
        if not demand.rings:
            return
        depths, most = self._chosen(module, demand)
        for ring, depth in depths.items():
            self._set(ring, depth)
        if demand.looped:
            chosen = "asked" if self.options.num_stages else "most" if depths == most else "fewer"
            first = demand.looped[0]
            self.decided.add(RingDepth(depths[first], demand.slot, chosen, span=span_of(first)))

    def of(self, module: ModuleOp) -> list[int]:
        """The depths that `apply` would give the rings."""
        demand = Demand(module, self.options)
        return [*self._chosen(module, demand)[0].values()] if demand.rings else []

    def _chosen(
        self, module: ModuleOp, demand: Demand
    ) -> tuple[dict[Create, int], dict[Create, int]]:
        """The depth of each ring, and the most that shared memory holds."""
        most = demand.chosen(self.options.num_stages, self.reserve)
        depths = dict(most)
        if self.options.num_stages is None:
            depths |= self._fewer(module, depths, demand.least if demand.slices > 1 else 1)
        depths |= self._own(demand, depths)
        depths |= {ring: self._of_slices(demand, depths[ring]) for ring in demand.looped}
        return depths, most

    def _fewer(self, module: ModuleOp, depths: dict[Create, int], least: int) -> dict[Create, int]:
        """Fewer slots for rings of a role that copies: no more than are filled.

        Where one warp group computes, as few as let two CTAs share a multiprocessor: one of them
        multiplies while the other begins or ends. Where its warps multiply by themselves, up to
        four: their products of few rows are little work, and they wait for each other. Slices of K
        are asked for where there is one CTA.
        """
        groups = all_of(module, WarpGroup)
        if all(g.copies is None for g in groups):
            return {}
        found = dict(depths)
        multiplying = [g for g in groups if g.computes and g.converts is None]
        computing = sum(g.warps.value.data * g.teams.value.data for g in multiplying)
        by_warps = any(map(multiplies_by_warps, groups))
        few = computing == SM_90A.group_warps or by_warps
        if few and self.options.ctas_per_sm == self.options.slice_k == 1:
            for ctas in (4, 3, 2) if by_warps else (2,):
                shared = Demand(module, replace(self.options, ctas_per_sm=ctas))
                chosen = shared.chosen(None, self.reserve + _staged_bytes(module))
                fewest = min((chosen[r] for r in shared.looped), default=0)
                if fewest >= SHARING and (ctas == 2 or fewest * shared.slot >= self._in_flight):
                    found = chosen
                    break
        for ring in found:
            puts = [u.operation for u in ring.ref.uses if isinstance(u.operation, PutEnter)]
            iterations = [iterations_around(op) for op in puts]
            if iterations and None not in iterations:
                filled = sum(t for t in iterations if t is not None)
                found[ring] = max(1, min(found[ring], max(filled, least)))
        return found

    def _own(self, demand: Demand, depths: dict[Create, int]) -> dict[Create, int]:
        """Slots of rings that the only role fills by its own copies: so many that they run ahead.

        If nobody asked for more, no more than hide a load: shared memory is other CTAs', too.
        """
        found: dict[Create, int] = {}
        for ring in demand.looped:
            copies = [u.operation for u in ring.ref.uses if isinstance(u.operation, CopyInto)]
            if copies and all(_group_of(op).computes for op in copies):
                most = depths[ring] if self.options.num_stages else demand.least + 2
                found[ring] = max(demand.least + 1, min(depths[ring], most))
        return found

    @staticmethod
    def _of_slices(demand: Demand, depth: int) -> int:
        """A depth of which teams that share a loop's iterations have equal parts.

        A slot then belongs to one team, which waits for a load into it only after the one before.
        """
        return depth - depth % demand.slices

    @property
    def _in_flight(self) -> float:
        """Bytes that a multiprocessor alone has to have under way, not to wait for latency."""
        target = self.options.machine
        return target.copy_latency * target.l2_share

    def _set(self, ring: Create, depth: int) -> None:
        assert isinstance(ring.ref.type, RefType)
        new = RefType(IntAttr(depth), ring.ref.type.tiles)
        Rewriter.replace_value_with_new_type(ring.ref, new)


def _staged_bytes(module: ModuleOp) -> int:
    """Bytes of the buffers that computed operands are copied to."""
    total = 0
    shared = {
        copy
        for group in every(module)
        if isinstance(group, WarpGroup)
        for copy in memory_shared(group)
    }
    for op in every(module):
        if isinstance(op, Stage) and op not in shared:
            size = tile_bytes(shape_of(op.value.type), element_of(op.value.type))
            total += size * (op.BUFFERS if op.buffer is not None else 1)
    return total


def _loops_around(op: Operation) -> int:
    """Loops that fill a slot in every iteration: one in which a branch does does not count."""
    count, parent = 0, op.parent_op()
    while parent is not None:
        count += isinstance(parent, scf.ForOp | scf.WhileOp)
        parent = parent.parent_op()
    return count - (count > 0 and _guarded(op))


def _guarded(op: Operation) -> bool:
    """Whether only a branch in a loop fills the slot."""
    branch, parent = False, op.parent_op()
    while parent is not None and not isinstance(parent, scf.ForOp | scf.WhileOp):
        branch |= isinstance(parent, scf.IfOp)
        parent = parent.parent_op()
    return branch and parent is not None


def _lag(ring: Create) -> int:
    """Slots that a loop holds while it waits for another: those of products in flight."""
    found = 0
    for use in ring.ref.uses:
        op = use.operation
        if isinstance(op, Consumed) and isinstance(op.token, BlockArgument):
            loop = op.token.owner.parent_op()
            if not isinstance(loop, scf.ForOp):
                continue
            token, steps = op.token, 1
            following = terminator(loop.body.block).operands[token.index - 1]
            while isinstance(following, BlockArgument) and steps < len(loop.body.block.args):
                following = terminator(loop.body.block).operands[following.index - 1]
                steps += 1
            found = max(found, steps)
    return found + (found > 0 and any(_passes_on(use.operation) for use in ring.ref.uses))


def _passes_on(op: Operation) -> bool:
    """Whether a tile's end takes and returns a slot that is left out, before the next tile's."""
    loop = op.parent_op()
    if not isinstance(op, GetEnter) or loop is None or LEFT_OUT not in loop.attributes:
        return False
    return isinstance(loop.parent_op(), scf.WhileOp)


def _is_moved_on(ring: Create) -> bool:
    """Whether a role gets the ring's tiles only to put them into another ring."""
    gets = [use.operation for use in ring.ref.uses if isinstance(use.operation, GetEnter)]
    return any(_group_of(op).moves is not None for op in gets)


def _group_of(op: Operation) -> WarpGroup:
    parent = op.parent_op()
    while not isinstance(parent, WarpGroup):
        assert parent is not None
        parent = parent.parent_op()
    return parent


def _less(rings: Sequence[Create], others: Sequence[Create]) -> list[Create]:
    return [r for r in rings if r not in others]
