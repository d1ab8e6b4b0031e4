"""Where matrix products are waited for, and when the slots they read are returned.

Products complete in the order they are issued, so that a wait for one finishes all before it. A
product is waited for where the first op needs its value, or, if that comes sooner, where a wait for
a later product finishes it anyway: its slots go back to the loading role from there on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from tawa.aref.dialect.ops import (
    Consumed,
    DotIssue,
    DotWait,
    OpensSlot,
    ViewChange,
)
from tawa.base.spans import copy_span
from tawa.ir.walking import every


@dataclass
class _Wait:
    """A wait just before `place` for products of one block, with what those added to."""

    place: Operation
    issues: list[DotIssue] = field(default_factory=list[DotIssue])


def wait_before_use(written: Mapping[DotIssue, set[SSAValue]]) -> None:
    """Wait for the products of one block before their values are used, or sooner at no cost.

    Ops that make one of the values in `written` change registers that the product reads: it is
    waited for before them, too.
    """
    issued = list(written)
    before: dict[DotIssue, list[DotIssue]] = {}
    waits: dict[Operation, _Wait] = {}
    for issue in issued:
        following = _continued_by(issue)
        if following is not None:
            before[following] = [*before.get(following, []), *before.get(issue, []), issue]
            continue
        changed = set[SSAValue]().union(*(written[i] for i in (*before.get(issue, []), issue)))
        place = _first_reader(issue, changed)
        if place is not None:
            waits.setdefault(place, _Wait(place)).issues.append(issue)
    for wait in _in_order(waits, issued):
        if wait.issues:
            _insert(wait, before)


def wait_at_once(issued: Sequence[DotIssue]) -> None:
    """Wait for each product behind it, so that its slots are free for the next one's operands."""
    for issue in issued:
        assert issue.next_op is not None
        _insert(_Wait(issue.next_op, [issue]), {})


def _first_reader(issue: DotIssue, written: set[SSAValue]) -> Operation | None:
    """The first later op of the block that needs the product's value, itself or nested in it.

    Or one that makes what is `written`.
    """
    place: Operation | None = issue.next_op
    while place is not None and not _reads(place, issue) and written.isdisjoint(place.results):
        place = place.next_op
    return place


def _in_order(waits: dict[Operation, _Wait], issued: Sequence[DotIssue]) -> list[_Wait]:
    """The waits as they come in the block, each with all products that it is the first to finish.

    What it is asked for finishes, and so do the products issued before that.
    """
    if not waits:
        return []
    block = issued[0].parent
    assert block is not None
    position = {op: i for i, op in enumerate(block.ops)}
    found = sorted(waits.values(), key=lambda wait: position[wait.place])
    for i, wait in enumerate(found):
        last = max((position[issue] for issue in wait.issues), default=-1)
        for later in found[i + 1 :]:
            early = [issue for issue in later.issues if position[issue] < last]
            wait.issues += early
            later.issues = [issue for issue in later.issues if issue not in early]
        wait.issues.sort(key=position.__getitem__)
    return found


def _insert(wait: _Wait, before: dict[DotIssue, list[DotIssue]]) -> None:
    """Wait, give the values to their users, and return the slots that only these products read."""
    last, place = wait.issues[-1], wait.place
    block = place.parent
    assert block is not None
    pending, op = 0, last.next_op
    while op is not None and op is not place:
        pending += isinstance(op, DotIssue)
        op = op.next_op
    uses = [list(issue.result.uses) for issue in wait.issues]
    new = DotWait(pending, [issue.result for issue in wait.issues])
    copy_span(last, [new])
    block.insert_op_before(new, place)
    for issue, result, users in zip(wait.issues, new.results_, uses, strict=True):
        result.name_hint = issue.result.name_hint
        for use in users:
            use.operation.operands[use.index] = result
    done = [found for issue in wait.issues for found in (*before.get(issue, []), issue)]
    move_consumed(slots_of(done), new)


def _continued_by(issue: DotIssue) -> DotIssue | None:
    """The product of the same block that alone needs this one's value, to add to it."""
    if not issue.result.has_one_use():
        return None
    (use,) = issue.result.uses
    op = use.operation
    if not isinstance(op, DotIssue) or op.parent is not issue.parent:
        return None
    return op if op.accumulator is issue.result else None


def _reads(op: Operation, issue: DotIssue) -> bool:
    """Whether an op, or one nested in it, needs the product's value."""
    return any(v is issue.result for inner in every(op) for v in inner.operands)


def slots_of(issued: Sequence[DotIssue]) -> list[OpensSlot]:
    """What gives, in the dots' own block, the slots that the dots read."""
    found: dict[OpensSlot, None] = {}
    for dot in issued:
        for operand in (dot.a, dot.b):
            value = operand
            while isinstance(value.owner, ViewChange):
                value = value.owner.view
            get = value.owner
            if isinstance(get, OpensSlot) and get.parent is dot.parent:
                found[get] = None
    return list(found)


def _consumed_of(get: OpensSlot) -> list[Consumed]:
    return [use.operation for use in get.token.uses if isinstance(use.operation, Consumed)]


def erase_consumed(get: OpensSlot) -> SSAValue | None:
    """Erase the slot's return; returns the flag that the cluster shares it."""
    shared: SSAValue | None = None
    for op in _consumed_of(get):
        shared = op.shared
        op.detach()
        op.erase()
    return shared


def move_consumed(gets: list[OpensSlot], wait: DotWait) -> None:
    """Return slots only after the wait, naming wgmma, where nothing reads them later."""
    block = wait.parent
    assert block is not None
    place: Operation = wait
    for get in gets:
        for op in _consumed_of(get):
            if op.parent is block:
                later = block.get_operation_index(op) > block.get_operation_index(wait)
                new = Consumed(get.ref, get.token, "wgmma", op.shared)
                copy_span(op, [new])
                if later:
                    block.insert_op_before(new, op)
                else:
                    block.insert_op_after(new, place)
                    place = new
                op.detach()
                op.erase()
