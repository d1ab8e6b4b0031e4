"""Warps that multiply by themselves meet only where a meeting orders something.

Each exchange of a tile meets before it writes to shared memory, so that all have read what was
there, and after it; each slot that is returned is read by all warps before. Where warps read their
products' operands from shared memory, all this is ordinary code in one order, and a meeting often
has nothing left to order: what it would keep apart is kept apart by others. Every return of a slot
waits for the next meeting, if there is one before the next wait; then each meeting is left out that
no access before it needs to have before it (up to the meeting before), and no access after it (up
to the one that follows), both round the loop that it is in.

Matrix instructions of warp groups work on while warps go on; roles with them are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from tawa.base.remarks import Remarks
from tawa.hopper.dialect.fragment import FRAGMENT
from tawa.hopper.dialect.gather import SharedGather
from tawa.hopper.dialect.global_memory import GlobalLoad, GlobalStore, ScalarLoad, ScalarStore
from tawa.hopper.dialect.lanes import LANE_OPS
from tawa.hopper.dialect.matrix import Wgmma
from tawa.hopper.dialect.memory import SharedLoad, SharedStore, Slot, Subtile, SubtileColumn
from tawa.hopper.dialect.structure import OneThread, Ring, Role
from tawa.hopper.dialect.sync import (
    CtaSync,
    FenceProxyAsync,
    MbarrierArrive,
    MbarrierWait,
    NamedBarrierSync,
)
from tawa.hopper.dialect.types import RingType, TileType
from tawa.hopper.dialect.warp_matrix import WarpProduct

Region: TypeAlias = tuple[int, int]
"""First byte of shared memory, and the one after the last."""

ALL: Region = (0, 1 << 62)


@dataclass
class Accesses:
    """What ops do to memory that other warps may see."""

    reads: set[Region] = field(default_factory=set[Region])
    writes: set[Region] = field(default_factory=set[Region])
    loads: bool = False
    """Global memory is read."""
    stores: bool = False
    """Global memory is written, or nobody knows."""
    held: bool = False
    """A slot is waited for, or what others wrote is read: before it is returned."""
    returned: bool = False
    """A slot is returned."""

    def add(self, other: Accesses) -> None:
        """All of it, too."""
        self.reads |= other.reads
        self.writes |= other.writes
        self.loads |= other.loads
        self.stores |= other.stores
        self.held |= other.held
        self.returned |= other.returned

    def before(self, later: Accesses) -> bool:
        """Whether any of it has to be over before something of `later` begins."""
        shared = _overlap(self.writes, later.reads | later.writes)
        shared |= _overlap(self.reads, later.writes)
        memory = (self.stores and (later.loads or later.stores)) or (self.loads and later.stores)
        return shared or memory or (self.held and later.returned)


MEETINGS = (CtaSync, NamedBarrierSync)

REGISTERS_ONLY = (
    *(OneThread, scf.ForOp, scf.IfOp, scf.WhileOp, scf.YieldOp, scf.ConditionOp),
    *(*MEETINGS, FenceProxyAsync, *FRAGMENT, *LANE_OPS),
)
"""Ops that by themselves access no memory; those in their regions may."""

UNKNOWN = Accesses({ALL}, {ALL}, True, True, True, True)


def _overlap(one: Iterable[Region], other: Iterable[Region]) -> bool:
    return any(a < d and c < b for a, b in one for c, d in other)


def _region(tile: SSAValue) -> Region:
    """The ring that a tile is of."""
    owner = tile.owner
    while isinstance(owner, Slot | Subtile | SubtileColumn):
        tile = owner.ring if isinstance(owner, Slot) else owner.source
        owner = tile.owner
    if not isinstance(owner, Ring):
        return ALL
    assert isinstance(owner.ring.type, RingType)
    first = owner.offset.value.data
    return first, first + owner.ring.type.bytes


@dataclass(frozen=True)
class RedundantBarrierElimination:
    """Leave out meetings of warps' products that order nothing."""

    remarks: Remarks
    name: ClassVar[str] = "redundant-barrier-elimination"

    def apply(self, module: ModuleOp) -> None:
        """Look at every role."""
        for role in [op for op in module.walk() if isinstance(op, Role)]:
            ops = list(role.body.walk())
            by_warps = any(isinstance(op, WarpProduct) for op in ops)
            by_groups = any(isinstance(op, Wgmma) for op in ops)
            if by_warps and not by_groups and role.teams.value.data == 1:
                self._reduce(role)

    def _reduce(self, role: Role) -> None:
        count = _Role(role).reduced()
        if count:
            said = f"{count} meeting(s) of role {role.role.data} order nothing and are left out"
            self.remarks.say(self.name, said)


class _Role:
    """A role, and what its ops access."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.written = {_region(op.tile) for op in role.body.walk() if isinstance(op, SharedStore)}

    def reduced(self) -> int:
        """How many meetings are left out; what was postponed to one of them is again."""
        count, before = 0, -1
        while before != count:
            before = count
            meetings = [op for op in self.role.body.walk() if isinstance(op, MEETINGS)]
            for meeting in meetings:
                self._postpone(meeting)
            for meeting in meetings:
                earlier = self._until_meeting(meeting, forward=False)
                if not earlier.before(self._until_meeting(meeting)):
                    meeting.detach()
                    meeting.erase()
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
        while returned is not None and returned.has_trait(Pure):
            returned = returned.next_op
        if not isinstance(returned, OneThread) or not self._only_returns(returned):
            return
        op = returned.next_op
        while op is not None and not self._meets(op):
            if any(isinstance(inner, MbarrierWait) for inner in op.walk()):
                return
            op = op.next_op
        if op is not None and op.parent is not None:
            returned.detach()
            op.parent.insert_op_after(returned, op)

    @staticmethod
    def _only_returns(op: OneThread) -> bool:
        return all(isinstance(o, MbarrierArrive) or o.has_trait(Pure) for o in op.body.block.ops)

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
        found.add(self._accesses(op))
        return False

    def _accesses(self, op: Operation) -> Accesses:
        """What an op does, and those in its regions."""
        found = Accesses()
        for inner in op.walk():
            found.add(self._own(inner))
        return found

    def _own(self, op: Operation) -> Accesses:
        if isinstance(op, SharedStore):
            return Accesses(writes={_region(op.tile)})
        if isinstance(op, SharedLoad | SharedGather):
            return self._read([op.tile])
        if isinstance(op, WarpProduct):
            return self._read([op.a, op.b])
        if isinstance(op, GlobalLoad | ScalarLoad):
            return Accesses(loads=True)
        if isinstance(op, MbarrierWait):
            return Accesses(held=True)
        if isinstance(op, MbarrierArrive):
            return Accesses(returned=True)
        if isinstance(op, GlobalStore | ScalarStore):
            return Accesses(stores=True)
        return Accesses() if isinstance(op, REGISTERS_ONLY) or op.has_trait(Pure) else UNKNOWN

    def _read(self, tiles: Iterable[SSAValue]) -> Accesses:
        regions = {_region(tile) for tile in tiles if isinstance(tile.type, TileType)}
        return Accesses(reads=regions, held=not regions <= self.written)
