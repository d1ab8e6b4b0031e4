"""Which accesses of a role may meet, and what stands before an access that does."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i1, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation

from tawa.codegen import memory_order
from tawa.codegen.memory_order import Access
from tawa.hopper.dialect.memory import BulkWait
from tawa.hopper.dialect.structure import Role
from tawa.hopper.dialect.sync import ORDERS_MEMORY, CtaSync, FenceProxyGlobal, NamedBarrierSync

ORDER: Any = memory_order._RoleOrder  # pyright: ignore[reportPrivateUsage]
STATE: Any = memory_order._State  # pyright: ignore[reportPrivateUsage]


def access(
    memory: int | None = 0,
    *,
    writes: bool = False,
    atomic: bool = False,
    engine: bool = False,
    own: Any = None,
) -> Access:
    return Access(frozenset((memory,)), writes, atomic, engine, own, None)


def order(*overlaps: tuple[int, int]) -> Any:
    """Of a role of four warps; meetings are of all threads of its program."""
    return ORDER(Role("math", 0, 4, 1), [0, 1, 2], set(overlaps), lambda: [CtaSync()])


@pytest.mark.parametrize(
    ("first", "second", "meet"),
    [(0, 0, True), (0, 1, False), (1, 0, False), (0, None, True), (None, 1, True), (1, 2, True),
     (2, 1, True), (0, 2, False), (None, None, True)],
)  # fmt: skip
def test_memory_that_may_be_the_same(first: int | None, second: int | None, meet: bool) -> None:
    """Of one argument, of any, or of two that may overlap."""
    found = order((1, 2))
    assert found._conflict(access(first, writes=True), access(second)) is meet
    assert found._conflict(access(first), access(second, writes=True)) is meet


@pytest.mark.parametrize(
    ("writes", "atomic"), [*product(product((False, True), repeat=2), repeat=2)]
)
def test_one_of_two_writes_and_not_both_are_atomic(
    writes: tuple[bool, bool], atomic: tuple[bool, bool]
) -> None:
    one, other = (access(writes=w, atomic=a) for w, a in zip(writes, atomic, strict=True))
    assert order()._conflict(one, other) is (any(writes) and not all(atomic))


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [(access(writes=True, engine=True), access(writes=True, engine=True), False),
     (access(writes=True, engine=True), access(engine=True), True),
     (access(engine=True), access(writes=True, engine=True), True),
     (access(writes=True, engine=True), access(writes=True), True),
     (access(writes=True), access(writes=True, engine=True), True),
     (access(writes=True, own="thread 0"), access(own="thread 0"), False),
     (access(writes=True, own="thread 0"), access(own="thread 1"), True),
     (access(writes=True, own="thread 0"), access(), True),
     (access(writes=True, own="t", engine=True), access(own="t"), True),
     (access(writes=True, own="t"), access(own="t", engine=True), True)],
)  # fmt: skip
def test_copies_wait_for_copies_by_themselves_and_threads_for_none(
    one: Access, other: Access, meet: bool
) -> None:
    assert order()._conflict(one, other) is meet


def named(threads: int) -> Operation:
    return NamedBarrierSync(arith.ConstantOp(IntegerAttr(1, i32)).result, threads)


@pytest.mark.parametrize(
    ("op", "meets"),
    [
        (CtaSync(), True),
        (named(128), True),
        (named(64), False),
        (named(256), False),
        (Made(), False),
    ],
)
def test_where_all_threads_of_a_role_meet(op: Operation, meets: bool) -> None:
    assert order()._meets(op) is meets


LOAD, STORE = access(), access(writes=True)
COPY_IN, COPY_OUT = access(engine=True), access(writes=True, engine=True)


def before(later: Access, *earlier: Access, meeting: bool = False) -> list[type[Operation]]:
    """What is put in front of an access that comes after others."""
    found, state = order(), STATE()
    for one in earlier:
        found._after(one, state)
    if meeting:
        state.meets(CtaSync())
    op = Made()
    block = Block([op])
    found._before(later, state, op)
    assert all(ORDERS_MEMORY in o.attributes for o in block.ops if isinstance(o, CtaSync))
    return [type(o) for o in block.ops if o is not op]


@pytest.mark.parametrize(
    ("earlier", "later", "found"),
    [(LOAD, LOAD, []), (STORE, LOAD, [CtaSync]), (LOAD, STORE, [CtaSync]),
     (STORE, access(1), []), (COPY_IN, STORE, []), (COPY_OUT, LOAD, [BulkWait, CtaSync]),
     (COPY_OUT, COPY_IN, [BulkWait, FenceProxyGlobal, CtaSync]), (COPY_OUT, COPY_OUT, []),
     (STORE, COPY_IN, [FenceProxyGlobal, CtaSync]), (STORE, COPY_OUT, [FenceProxyGlobal, CtaSync]),
     (LOAD, COPY_OUT, [CtaSync]), (LOAD, COPY_IN, []), (STORE, access(1, engine=True), [])],
)  # fmt: skip
def test_what_stands_before_an_access(
    earlier: Access, later: Access, found: list[type[Operation]]
) -> None:
    assert before(later, earlier) == found


@pytest.mark.parametrize(
    ("earlier", "later", "found"),
    [(STORE, LOAD, []), (LOAD, STORE, []), (STORE, COPY_IN, [FenceProxyGlobal, CtaSync]),
     (COPY_OUT, LOAD, [BulkWait, CtaSync])],
)  # fmt: skip
def test_a_meeting_that_is_there_does_as_well(
    earlier: Access, later: Access, found: list[type[Operation]]
) -> None:
    """But for the copy engine, which sees what was fenced and ends when it was waited for."""
    assert before(later, earlier, meeting=True) == found


@pytest.mark.parametrize(("later", "marked"), [(LOAD, True), (access(1), False), (STORE, True)])
def test_a_meeting_that_orders_is_marked(later: Access, marked: bool) -> None:
    found, state, sync = order(), STATE(), CtaSync()
    found._after(STORE, state)
    state.meets(sync)
    op = Made()
    Block([op])
    found._before(later, state, op)
    assert (ORDERS_MEMORY in sync.attributes) is marked


def test_what_a_meeting_for_memory_forgets() -> None:
    found, state = order(), STATE()
    found._after(STORE, state)
    state.meets(CtaSync())
    assert state.followed
    assert not state.apart
    marked = CtaSync()
    marked.attributes[ORDERS_MEMORY] = IntegerAttr(1, i32)
    state.meets(marked)
    assert not state.followed
    assert not state.met
    plain = CtaSync()
    state.meets(plain)
    assert plain not in state.met, "nothing was open"


def test_both_ways_of_a_branch_are_open() -> None:
    """What one of two ways leaves; a branch that is left out leaves what was before."""
    one, other = STATE(), STATE()
    sync = CtaSync()
    order()._after(STORE, one)
    order()._after(access(1, writes=True), other)
    for state in (one, other):
        state.meets(sync)
    order()._after(COPY_OUT, other)
    order()._after(LOAD, one)
    both = one.joined(other)
    assert both.met[sync] == {STORE, access(1, writes=True)}
    assert both.apart == [LOAD]
    assert both.copies == [COPY_OUT]
    assert set(both.followed) == {STORE, access(1, writes=True)}
    again = both.joined(both)
    assert (again.met, again.apart, again.copies) == (both.met, both.apart, both.copies)
    copy = both.copy()
    copy.apart.clear()
    copy.met.clear()
    assert both.apart
    assert both.met


def test_an_iteration_later() -> None:
    state, loop = STATE(), scf.IfOp(Made(result_types=[i1]).results[0], [], [scf.YieldOp()])
    order()._after(STORE, state)
    state.meets(sync := CtaSync())
    order()._after(COPY_OUT, state)
    order()._after(LOAD, state)
    aged = state.aged(loop)
    assert [a.aged for a in aged.apart] == [frozenset((loop,))]
    assert {a.aged for a in aged.met[sync]} == {frozenset((loop,))}
    assert [a.writes for a in aged.copies] == [True]


def test_what_is_noted_of_an_access_once() -> None:
    found, state = order(), STATE()
    for one in (STORE, STORE, LOAD, LOAD, COPY_OUT, COPY_OUT, COPY_IN):
        found._after(one, state)
    assert (state.apart, state.unfenced, state.copies) == ([STORE, LOAD], [STORE], [COPY_OUT])
