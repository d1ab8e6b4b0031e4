"""Redundant barrier elimination: warps of a role meet only where a meeting orders something.

Each exchange of a tile meets before it writes to shared memory, so that all have read what was
there, and after it; each slot that is returned is read by all warps before. Where all this is
ordinary code in one order, as in a role without products, or where warps read their products'
operands from shared memory, a meeting often has nothing left to order: what it would keep apart is
kept apart by others. A fence is each thread's own: what the engine or another role does afterwards
needs a meeting between. Every return of a slot waits for the next meeting, if there is one before
the next wait; then each meeting is left out that no access before it needs to have before it (up to
the meeting before), and no access after it (up to the one that follows), both round the loop that
it is in. Accesses to global memory need those meetings alone that are marked for them
(`codegen.memory_order`).

Matrix instructions of warp groups read shared memory while warps go on: until the wait for them,
which counts as a read of all that those since the wait before it may read. Copies by the engine
work on too; roles with them are left alone, but for products of warps, whose slots of copies the
pass knows, and so are roles that take turns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tawa.base.spans import span_of
from tawa.hopper.dialect.matrix import MatrixDesc, Wgmma, WgmmaCommit, WgmmaWait
from tawa.hopper.dialect.memory import Slot, Subtile, SubtileColumn
from tawa.hopper.dialect.structure import OneThread, Ring, Role
from tawa.hopper.dialect.sync import (
    ORDERS_MEMORY,
    CtaSync,
    MbarrierArrive,
    MbarrierWait,
    NamedBarrierArrive,
    NamedBarrierSync,
)
from tawa.hopper.dialect.types import MatrixDescType, RingType
from tawa.hopper.dialect.warp_matrix import WarpProduct
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.memory import BarriersLeftOut
from tawa.ir.effects import (
    BARRIER,
    COPYING,
    GLOBAL,
    GLOBAL_PROXY,
    MEETING,
    OPERANDS,
    PHASE,
    PROXY,
    READ,
    REGISTERS,
    SHARED,
    VOTE,
    WRITE,
    is_pure,
    only_on,
    through,
    touches,
)
from tawa.ir.properties import LAID_OUT, LOWERED
from tawa.ir.walking import all_of, every, has

Region: TypeAlias = tuple[int, int]
"""First byte of shared memory, and the one after the last."""

ALL: Region = (0, 1 << 62)


@dataclass
class Accesses:
    """What ops do to memory that other warps may see."""

    reads: set[Region] = field(default_factory=set[Region])
    writes: set[Region] = field(default_factory=set[Region])
    held: bool = False
    """A slot is waited for, or what others wrote is read: before it is returned."""
    returned: bool = False
    """A slot is returned."""
    fenced: bool = False
    """A thread's own accesses are ordered before what the engine or products do."""
    engine: bool = False
    """The copy engine or products of warp groups access what threads of the role write."""

    def add(self, other: Accesses) -> None:
        """All of it, too."""
        self.reads |= other.reads
        self.writes |= other.writes
        self.held |= other.held
        self.returned |= other.returned
        self.fenced |= other.fenced
        self.engine |= other.engine

    def before(self, later: Accesses) -> bool:
        """Whether any of it has to be over before something of `later` begins."""
        shared = _overlap(self.writes, later.reads | later.writes)
        shared |= _overlap(self.reads, later.writes)
        shared |= self.fenced and (later.returned or later.engine)
        return shared or (self.held and later.returned)


SEEN = (
    GLOBAL, SHARED, BARRIER, PHASE, MEETING, VOTE, OPERANDS, PROXY, GLOBAL_PROXY, REGISTERS,
)  # fmt: skip
"""Resources that this pass knows how to order; effects on others may be anything."""

UNKNOWN = Accesses({ALL}, {ALL}, True, True, True, True)


def _only_meets(op: Operation) -> bool:
    """Whether an op does nothing but wait for other threads: what may be left out."""
    if op.regions or ORDERS_MEMORY in op.attributes:
        return False
    return only_on(op, (MEETING,)) and touches(op, MEETING, READ)


def _stored(op: Operation) -> Iterable[SSAValue | None]:
    """Tiles of shared memory that an op writes before it is over."""
    return () if touches(op, COPYING) else through(op, SHARED, WRITE)


def _overlap(one: Iterable[Region], other: Iterable[Region]) -> bool:
    return any(a < d and c < b for a, b in one for c, d in other)


def _region(tile: SSAValue | None) -> Region:
    """The ring that a tile is of; None is any."""
    if tile is None:
        return ALL
    owner = tile.owner
    while isinstance(owner, Slot | Subtile | SubtileColumn):
        tile = owner.ring if isinstance(owner, Slot) else owner.source
        owner = tile.owner
    if not isinstance(owner, Ring):
        return ALL
    assert isinstance(owner.ring.type, RingType)
    first = owner.offset.value.data
    return first, first + owner.ring.type.bytes


def _operands(op: Wgmma) -> set[Region]:
    """What a product of warp groups reads of shared memory."""
    descs = [v for v in (op.a, op.b) if isinstance(v.type, MatrixDescType)]
    tiles = [v.owner.tile if isinstance(v.owner, MatrixDesc) else None for v in descs]
    return {_region(tile) for tile in tiles}


def _erase(op: Operation) -> None:
    """Remove an op, and what only it needed."""
    needed = [v.owner for v in op.operands if isinstance(v.owner, Operation)]
    op.detach()
    op.erase()
    for owner in dict.fromkeys(needed):
        if is_pure(owner) and not any(result.first_use for result in owner.results):
            _erase(owner)


@dataclass(frozen=True)
class RedundantBarrierElimination:
    """Leave out meetings that order nothing."""

    decided: Decisions
    name: ClassVar[str] = "redundant-barrier-elimination"
    contract: ClassVar[Contract] = Contract(requires=(LOWERED, LAID_OUT))

    def apply(self, module: ModuleOp) -> None:
        """Look at every role."""
        for role in all_of(module, Role):
            ops = every(role.body)
            by_warps = any(isinstance(op, WarpProduct) for op in ops)
            by_groups = any(isinstance(op, Wgmma) for op in ops)
            copies = any(touches(op, COPYING) for op in ops)
            turns = any(isinstance(op, NamedBarrierArrive) for op in ops)
            in_order = not copies or (by_warps and not by_groups)
            if in_order and not turns and role.teams.value.data == 1:
                self._reduce(role)

    def _reduce(self, role: Role) -> None:
        count = _Role(role).reduced()
        if count:
            self.decided.add(BarriersLeftOut(count, role.role.data, span=span_of(role)))


class _Role:
    """A role, and what its ops access."""

    def __init__(self, role: Role) -> None:
        self.role = role
        ops = every(role.body)
        self.written = {_region(t) for op in ops if not op.regions for t in _stored(op)}
        products = [op for op in ops if isinstance(op, Wgmma)]
        self.multiplied = {region for op in products for region in _operands(op)}
        waits = [op for op in ops if isinstance(op, WgmmaWait)]
        self.awaited = {op: self._in_flight(op) for op in waits}
        """What may still be read before each wait for products."""
        self._known: dict[Operation, Accesses] = {}
        """What ops access, as long as nothing is moved."""

    def reduced(self) -> int:
        """How many meetings are left out; what was postponed to one of them is again."""
        count, before = 0, -1
        while before != count:
            before = count
            meetings = [op for op in every(self.role.body) if _only_meets(op)]
            for meeting in meetings:
                self._postpone(meeting)
            for meeting in meetings:
                earlier = self._until_meeting(meeting, forward=False)
                if not earlier.before(self._until_meeting(meeting)):
                    _erase(meeting)
                    self._known.clear()
                    count += 1
        return count

    def _meets(self, op: Operation) -> bool:
        """Whether all threads of the role meet, and not those of one warp group alone."""
        if isinstance(op, CtaSync):
            return True
        return isinstance(op, NamedBarrierSync) and op.threads.value.data == self.role.threads

    def _postpone(self, meeting: Operation) -> None:
        """Move the return of a slot that follows a meeting behind the next one."""
        returned = meeting.next_op
        while returned is not None and is_pure(returned):
            returned = returned.next_op
        if not isinstance(returned, OneThread) or not self._only_returns(returned):
            return
        op = returned.next_op
        while op is not None and not self._meets(op):
            if has(op, MbarrierWait):
                return
            op = op.next_op
        if op is not None and op.parent is not None:
            returned.detach()
            op.parent.insert_op_after(returned, op)
            self._known.clear()

    @staticmethod
    def _only_returns(op: OneThread) -> bool:
        return all(isinstance(o, MbarrierArrive) or is_pure(o) for o in op.body.block.ops)

    def _until_meeting(self, start: Operation, *, forward: bool = True) -> Accesses:
        """Accesses from an op to the next meeting (or the one before), on every way."""
        found = Accesses()
        if self._along(start, found, forward):
            return found
        block = start.parent
        parent = start.parent_op()
        if parent is None or parent is self.role or block is None:
            return found
        if not isinstance(parent, scf.ForOp):
            return UNKNOWN
        # Round the loop, as far as the meeting itself, and out of it.
        edge = block.first_op if forward else block.last_op
        assert edge is not None
        if not self._passes(edge, found):
            self._along(edge, found, forward, stop=start)
        found.add(self._until_meeting(parent, forward=forward))
        return found

    def _along(
        self, start: Operation, found: Accesses, forward: bool, stop: Operation | None = None
    ) -> bool:
        """Add what follows (or precedes) an op in its block; whether a meeting ends it."""
        op = start
        while True:
            following = op.next_op if forward else op.prev_op
            if following is None or following is stop:
                return following is not None
            if self._passes(following, found):
                return True
            op = following

    def _passes(self, op: Operation, found: Accesses) -> bool:
        """Add what an op accesses; whether it is a meeting."""
        if self._meets(op):
            return True
        if op not in self._known:
            self._known[op] = self._accesses(op)
        found.add(self._known[op])
        return False

    def _in_flight(self, wait: WgmmaWait) -> set[Region]:
        """What products read that a wait may be the first to wait for."""
        if wait.pending.value.data:
            return self.multiplied
        found: set[Region] = set()
        op: Operation = wait
        while op is not self.role:
            if self._issued_since(op.prev_op, found):
                return found
            parent = op.parent_op()
            assert parent is not None
            if isinstance(parent, scf.ForOp):  # round the loop, and from before it
                self._issued_since(parent.body.block.last_op, found)
            elif isinstance(parent, scf.WhileOp):
                return self.multiplied
            op = parent
        return found

    @staticmethod
    def _issued_since(last: Operation | None, found: set[Region]) -> bool:
        """Add what products up to an op of a block read; whether a wait for all ends them."""
        before = last
        while before is not None:
            if isinstance(before, WgmmaWait) and not before.pending.value.data:
                return True
            found |= {r for o in every(before) if isinstance(o, Wgmma) for r in _operands(o)}
            before = before.prev_op
        return False

    def _accesses(self, op: Operation) -> Accesses:
        """What an op does, and those in its regions."""
        if isinstance(op, WgmmaCommit):
            return Accesses()
        if isinstance(op, Wgmma | WgmmaWait):
            # What they read of a slot is returned after the wait, without a meeting.
            reads = _operands(op) if isinstance(op, Wgmma) else self.awaited[op]
            return Accesses(reads, engine=isinstance(op, Wgmma) and _overlap(reads, self.written))
        if not only_on(op, SEEN):
            return UNKNOWN
        reads = {_region(tile) for tile in through(op, SHARED, READ)}
        writes = {_region(tile) for tile in through(op, SHARED, WRITE)}
        return Accesses(
            reads=reads,
            writes=writes,
            held=touches(op, PHASE) or not reads <= self.written,
            returned=touches(op, BARRIER, WRITE),
            fenced=touches(op, PROXY),
            engine=touches(op, COPYING) and _overlap(reads | writes, self.written),
        )
