"""Global memory in the order of the program: what its threads wrote, all its threads read.

The threads of a team run the program together, each its elements, and the copy engine works beside
them. Where an access of one may meet an access of another to the same bytes, and one of the two
writes, the threads meet in between. Before they meet, each waits until the copies to memory that
it has started are complete, if one of those is concerned, and fences its writes for the copy
engine, if that is to read them.

What another program may read once this one releases it is complete before: copies to memory are
waited for. What was acquired is fenced for the copy engine before it reads memory.

Nothing is needed between accesses of one thread to its own elements, between atomic operations, and
for memory that a role only reads. Roles share no memory that one of them writes (`partition`).

Where the places of two accesses are sums that never come near each other, they do not meet
(`ir.affine`). A copy waits by itself for those that it writes over (`codegen.stores`).

A meeting that is there for another reason does as well, and is marked (`ORDERS_MEMORY`): it has to
stay when that reason goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property, partial
from typing import Any

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tawa.base.spans import copy_span
from tawa.codegen.places import Places, places_of, same_in_each_thread
from tawa.hopper.dialect.assembly import InlineAssembly
from tawa.hopper.dialect.atomic import GlobalAtomic, MemoryFence
from tawa.hopper.dialect.memory import BulkWait
from tawa.hopper.dialect.structure import OneThread, Role
from tawa.hopper.dialect.sync import (
    ORDERS_MEMORY,
    CtaSync,
    FenceProxyGlobal,
    NamedBarrierSync,
)
from tawa.hopper.dialect.text import owner_condition
from tawa.hopper.dialect.types import FragType, TensorMapType
from tawa.ir.affine import is_inside
from tawa.ir.effects import GLOBAL, MEETING, READ, WRITE, through, touches
from tawa.ir.walking import all_of, every
from tawa.tile.analysis.alias import OVERLAPS, origins, pairs

Memory = frozenset[int | None]
"""Numbers of the arguments that an access may reach; None is any memory."""
Meet = Callable[[], list[Operation]]
"""Ops by which the threads of a team meet."""


@dataclass(frozen=True)
class Access:
    """What one op does to global memory."""

    memory: Memory
    writes: bool
    atomic: bool
    engine: bool
    """Whether the copy engine does it."""
    own: SSAValue | str | None
    """The addresses, if no two threads have an element in common; or which one thread does it."""
    places: Places | None
    """Where, if that is known."""
    aged: frozenset[Operation] = frozenset()
    """Loops that have gone on to another iteration since."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Computed once: every branch looks all accesses up that may be open."""
        return hash(tuple(getattr(self, field.name) for field in fields(self)))


RELEASED = Access(
    frozenset((None,)), writes=True, atomic=False, engine=False, own=None, places=None
)
"""What others may have written before they released it."""


@dataclass
class _State:
    """Accesses that later ones may meet."""

    apart: list[Access] = field(default_factory=list[Access])
    """Of threads that have not met since."""
    unfenced: list[Access] = field(default_factory=list[Access])
    """Writes of threads that the copy engine may not see yet."""
    copies: list[Access] = field(default_factory=list[Access])
    """Writes by the copy engine that may not be complete."""
    met: dict[Operation, frozenset[Access]] = field(
        default_factory=dict[Operation, "frozenset[Access]"]
    )
    """Where threads have met after which accesses: not for their sake, as far as is known."""
    followed: dict[Access, None] = field(default_factory=dict[Access, None])
    """All accesses of `met`. Branches leave as many meetings open as there are accesses."""

    def joined(self, other: _State) -> _State:
        """What may be open on one of two ways."""
        met = dict(self.met)
        for op, accesses in other.met.items():
            own = met.get(op, accesses)
            met[op] = own if own is accesses else own | accesses
        return _State(
            list(dict.fromkeys([*self.apart, *other.apart])),
            list(dict.fromkeys([*self.unfenced, *other.unfenced])),
            list(dict.fromkeys([*self.copies, *other.copies])),
            met,
            self.followed | other.followed,
        )

    def copy(self) -> _State:
        """The same, to be changed."""
        return _State(
            list(self.apart),
            list(self.unfenced),
            list(self.copies),
            dict(self.met),
            dict(self.followed),
        )

    def aged(self, loop: Operation) -> _State:
        """The same an iteration later."""
        old = cache(partial(_aged, loop=loop))
        apart, unfenced, copies = (
            [old(access) for access in part] for part in (self.apart, self.unfenced, self.copies)
        )
        met = {op: frozenset(map(old, accesses)) for op, accesses in self.met.items()}
        return _State(apart, unfenced, copies, met, dict.fromkeys(map(old, self.followed)))

    def meets(self, op: Operation) -> None:
        """The threads meet at an op."""
        if ORDERS_MEMORY in op.attributes:
            self.forget_meetings()
        elif self.apart:
            self.met[op] = self.met.get(op, frozenset()).union(self.apart)
            self.followed |= dict.fromkeys(self.apart)
        self.apart.clear()

    def forget_meetings(self) -> None:
        """The threads have met for the sake of all accesses."""
        self.met.clear()
        self.followed.clear()


def _aged(access: Access, loop: Operation) -> Access:
    return replace(access, aged=access.aged | {loop})


def order_accesses(
    kernel: func.FuncOp,
    source: func.FuncOp,
    parameters: Sequence[dict[str, Any]],
    meet: dict[Role, Meet],
) -> None:
    """Let the threads of every role meet where the order of the program needs it."""
    overlaps = {tuple(pair) for pair in pairs(source, OVERLAPS)}
    numbers = [parameter.get("arg") for parameter in parameters]
    for role in all_of(kernel, Role):
        _RoleOrder(role, numbers, overlaps, meet[role]).run()


class _RoleOrder:
    """One role: its accesses in the order of the text."""

    def __init__(
        self, role: Role, numbers: Sequence[int | None], overlaps: set[tuple[int, ...]], meet: Meet
    ) -> None:
        self.role, self.numbers, self.overlaps, self.meet = role, numbers, overlaps, meet
        self.known: dict[Operation, list[Access]] = {}
        self.conflicts: dict[tuple[Access, Access], bool] = {}
        """What was found of two accesses: loops and branches ask the same again."""

    def run(self) -> None:
        """Walk the role, if it writes what it may come to again, or others see its copies."""
        ops = every(self.role.body)
        found = [a for op in ops for a in self._accesses(op)]
        shared = any(map(_orders, ops)) and any(a.engine for a in found)
        if shared or any(a.writes for a in found):
            self._block(self.role.body.block, _State())

    def _block(self, block: Block, state: _State, anchor: Operation | None = None) -> _State:
        for op in list(block.ops):
            if isinstance(op, OneThread):
                state = self._block(op.body.block, state, anchor or op)
            elif op.regions:
                state = self._regions(op, state, anchor)
            elif self._meets(op):
                state.meets(op)
            elif isinstance(op, FenceProxyGlobal):
                state.unfenced.clear()
            elif isinstance(op, BulkWait):
                state.copies.clear()  # this pass's own, of all threads: they meet next
            else:
                if _orders(op):
                    self._order(state, anchor or op)
                for access in self._accesses(op):
                    self._before(access, state, anchor or op)
                    self._after(access, state)
        return state

    def _regions(self, op: Operation, state: _State, anchor: Operation | None) -> _State:
        blocks = [block for region in op.regions for block in region.blocks]
        if isinstance(op, scf.IfOp):
            ends = [self._block(block, state.copy(), anchor) for block in blocks]
            # A branch may be left out.
            return ends[0].joined(ends[1] if len(ends) > 1 else state)
        around = state.copy()
        for _ in range(2):  # as first iteration, and as one that follows another
            inside = around.copy()
            for block in blocks:
                inside = self._block(block, inside, anchor)
            around = around.joined(inside.aged(op))
        return around

    def _meets(self, op: Operation) -> bool:
        if isinstance(op, CtaSync):
            return True
        return isinstance(op, NamedBarrierSync) and op.threads.value.data == self.role.threads

    def _order(self, state: _State, op: Operation) -> None:
        """Complete what is released; the engine may have to read what is acquired."""
        if state.copies:
            self._insert([BulkWait(0), *self.meet()], op)
            state.copies.clear()
            state.apart.clear()
            state.forget_meetings()
        if RELEASED not in state.unfenced:
            state.unfenced.append(RELEASED)

    @staticmethod
    def _insert(new: list[Operation], op: Operation) -> None:
        copy_span(op, new)
        for meeting in new:
            if touches(meeting, MEETING):
                meeting.attributes[ORDERS_MEMORY] = UnitAttr()
        assert op.parent is not None
        op.parent.insert_ops_before(new, op)

    def _before(self, access: Access, state: _State, op: Operation) -> None:
        """Put what an access needs to have before it in front of an op."""
        fence = access.engine and any(self._conflict(a, access) for a in state.unfenced)
        wait = any(self._conflict(a, access) for a in state.copies)
        new: list[Operation] = []
        if wait:
            new.append(BulkWait(0))
            state.copies.clear()
        if fence or (wait and access.engine):
            new.append(FenceProxyGlobal())
            state.unfenced.clear()
        if new or any(self._conflict(a, access) for a in state.apart):
            new += self.meet()
            state.apart.clear()
            state.forget_meetings()
            self._insert(new, op)
            return
        ordered = {earlier for earlier in state.followed if self._conflict(earlier, access)}
        for meeting, accesses in state.met.items() if ordered else ():
            if not ordered.isdisjoint(accesses):
                meeting.attributes[ORDERS_MEMORY] = UnitAttr()

    @staticmethod
    def _after(access: Access, state: _State) -> None:
        if access.engine:
            # What the engine reads has landed before a thread uses it.
            state.copies += [access] if access.writes and access not in state.copies else []
            return
        if access not in state.apart:
            state.apart.append(access)
        if access.writes and access not in state.unfenced:
            state.unfenced.append(access)

    def _conflict(self, earlier: Access, later: Access) -> bool:
        """Whether two accesses may meet that are not those of one thread."""
        if not (earlier.writes or later.writes):
            return False
        found = self.conflicts.get((earlier, later))
        if found is None:
            found = self.conflicts[earlier, later] = self._may_meet(earlier, later)
        return found

    def _may_meet(self, earlier: Access, later: Access) -> bool:
        if earlier.atomic and later.atomic:
            return False
        if earlier.engine and later.engine and earlier.writes and later.writes:
            return False
        if _same_elements(earlier, later) and not (earlier.engine or later.engine):
            return False
        if earlier.memory == later.memory and _apart(earlier, later):
            return False
        return any(
            a is None or b is None or a == b or (min(a, b), max(a, b)) in self.overlaps
            for a in earlier.memory
            for b in later.memory
        )

    def _accesses(self, op: Operation) -> list[Access]:
        if op.regions:
            return []
        if op not in self.known:
            self.known[op] = list(self._found(op))
        return self.known[op]

    def _found(self, op: Operation) -> Iterator[Access]:
        read, written = (list(through(op, GLOBAL, kind)) for kind in (READ, WRITE))
        for value in dict.fromkeys([*read, *written]):
            engine = value is not None and isinstance(value.type, TensorMapType)
            atomic = value in read and value in written
            own: SSAValue | str | None = None
            places = places_of(op, value)
            if value is not None and not atomic and _held_once(value, places):
                own = value
            elif isinstance(thread := op.parent_op(), OneThread):
                own = thread.scope.data
            yield Access(self._memory(value), value in written, atomic, engine, own, places)

    def _memory(self, value: SSAValue | None) -> Memory:
        if value is None:
            return frozenset((None,))
        return frozenset(
            self.numbers[a.index] if isinstance(a, BlockArgument) else None for a in origins(value)
        )


def _orders(op: Operation) -> bool:
    """Whether an op releases what was done before it, or acquires what others released."""
    if isinstance(op, InlineAssembly):
        return op.effect is not None
    if isinstance(op, GlobalAtomic):
        return op.order.data != "relaxed"
    return isinstance(op, MemoryFence)


def _same_elements(earlier: Access, later: Access) -> bool:
    """Whether no thread comes to elements that another came to before."""
    own, other = earlier.own, later.own
    if own is None or other is None or isinstance(own, str) or isinstance(other, str):
        return own is not None and own == other
    if own == other and not any(is_inside(own, loop) for loop in earlier.aged):
        return True
    return same_in_each_thread(own, other, earlier.aged)


def _apart(earlier: Access, later: Access) -> bool:
    one, other = earlier.places, later.places
    return one is not None and other is not None and one.apart(other, earlier.aged)


def _held_once(value: SSAValue, places: Places | None) -> bool:
    """Whether every address of a fragment is of one element, and that one thread's alone."""
    if not isinstance(value.type, FragType) or owner_condition(value.type.layout):
        return False
    return places is not None and places.are_distinct(math.prod(value.type.extents))
