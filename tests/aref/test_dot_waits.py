"""Where products are waited for, which others are finished then, and when slots go back."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType, f16, f32, i1
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, SSAValue

from tawa.aref.analysis.dot_waits import erase_consumed, slots_of, wait_before_use
from tawa.aref.dialect.ops import (
    Consumed,
    Create,
    DotIssue,
    DotWait,
    GetEnter,
    Restage,
    ViewTrans,
)

TILE, SUMS = TensorType(f16, (64, 64)), TensorType(f32, (64, 64))


def made(kind: Any) -> SSAValue:
    return Made(result_types=[kind]).results[0]


RING = Create(4, [TILE, TILE]).ref


class Program:
    """A block of slots, products and what uses them, in the order in which they are asked for."""

    def __init__(self) -> None:
        self.block = Block()
        self.issues: list[DotIssue] = []

    def add(self, op: Any) -> Any:
        self.block.add_op(op)
        return op

    def slot(self) -> GetEnter:
        return self.add(GetEnter(RING))

    def product(self, slot: GetEnter, into: SSAValue | None = None, turned: bool = False) -> Any:
        a, b = slot.views
        if turned:
            b = self.add(ViewTrans(b)).result
        issue = self.add(DotIssue((a, b, made(SUMS) if into is None else into)))
        self.issues.append(issue)
        return issue

    def use(self, *values: SSAValue, inside: bool = False) -> Operation:
        if not inside:
            return self.add(Made(operands=list(values)))
        body = [Made(operands=list(values)), scf.YieldOp()]
        return self.add(scf.IfOp(made(i1), [], body))

    def give_back(self, slot: GetEnter, shared: SSAValue | None = None) -> Consumed:
        return self.add(Consumed(RING, slot.token, "none", shared))

    def wait(self, written: dict[Any, set[SSAValue]] | None = None) -> list[str]:
        """Let products be waited for; the block in short."""
        wait_before_use({issue: set() for issue in self.issues} | (written or {}))
        names: dict[Operation, str] = {op: f"p{n}" for n, op in enumerate(self.issues)}
        found: list[str] = []
        for op in self.block.ops:
            if isinstance(op, DotWait):
                of = [names[v.owner] for v in op.values if isinstance(v.owner, DotIssue)]
                found.append(f"wait {op.pending.value.data}: {' '.join(of)}")
            elif isinstance(op, Consumed):
                found.append(f"back {op.completion.data}")
            elif op in names:
                found.append(names[op])
            elif isinstance(op, Made | scf.IfOp):
                found.append("use")
        return found


@pytest.mark.parametrize("inside", [False, True])
def test_a_product_is_waited_for_where_it_is_needed(inside: bool) -> None:
    """There its users get the value, and its slot goes back after the wait, not before."""
    p = Program()
    slot = p.slot()
    product = p.product(slot)
    other = p.use()
    p.give_back(slot)
    user = p.use(product.result, inside=inside)
    assert p.wait() == ["p0", "use", "wait 0: p0", "back wgmma", "use"]
    (wait,) = (op for op in p.block.ops if isinstance(op, DotWait))
    reader = user.regions[0].block.first_op if inside else user
    assert reader is not None
    assert list(reader.operands) == [wait.results_[0]]
    assert not other.operands


def test_slots_that_are_read_later_go_back_later() -> None:
    p = Program()
    slot = p.slot()
    product = p.product(slot)
    p.use(product.result)
    p.use(slot.views[0])
    flag = made(i1)
    p.give_back(slot, flag)
    assert p.wait() == ["p0", "wait 0: p0", "use", "use", "back wgmma"]
    assert [op.shared for op in p.block.ops if isinstance(op, Consumed)] == [flag]


def test_slots_go_back_in_their_order() -> None:
    p = Program()
    slots = [p.slot(), p.slot()]
    first = p.product(slots[0])
    p.product(slots[1], first.result)
    for slot in slots:
        p.give_back(slot)
    p.use(p.issues[1].result)
    assert p.wait() == ["p0", "p1", "wait 0: p1", "back wgmma", "back wgmma", "use"]
    back = [op.token for op in p.block.ops if isinstance(op, Consumed)]
    assert back == [slot.token for slot in slots]


def test_a_product_that_only_the_next_adds_to_is_finished_with_it() -> None:
    """Unless something else needs it, or the next one multiplies it."""
    p = Program()
    slot = p.slot()
    first = p.product(slot)
    p.product(slot, first.result)
    p.use(p.issues[1].result)
    assert p.wait() == ["p0", "p1", "wait 0: p1", "use"]
    p = Program()
    slot = p.slot()
    first = p.product(slot)
    second = p.product(slot, first.result)
    p.use(first.result)
    p.use(second.result)
    assert p.wait() == ["p0", "wait 0: p0", "p1", "use", "wait 0: p1", "use"]
    p = Program()
    slot = p.slot()
    first = p.product(slot)
    p.issues.append(p.add(DotIssue((first.result, slot.views[1], made(SUMS)))))
    p.use(p.issues[1].result)
    assert p.wait() == ["p0", "wait 0: p0", "p1", "wait 0: p1", "use"]


def test_a_product_of_a_branch_continues_none_around_it() -> None:
    p = Program()
    slot = p.slot()
    first = p.product(slot)
    inner = DotIssue((slot.views[0], slot.views[1], first.result))
    p.add(scf.IfOp(made(i1), [], [inner, scf.YieldOp()]))
    assert p.wait() == ["p0", "wait 0: p0", "use"]


@pytest.mark.parametrize(
    ("uses", "expected"),
    [
        ((0, 1), ["wait 1: p0", "use", "wait 0: p1", "use"]),
        ((1, 0), ["wait 0: p0 p1", "use", "use"]),
        ((1,), ["wait 0: p1", "use"]), ((0,), ["wait 1: p0", "use"]),
        ((), []),
    ],
)  # fmt: skip
def test_a_wait_for_a_later_product_finishes_earlier_ones(
    uses: tuple[int, ...], expected: list[str]
) -> None:
    """What was issued behind goes on: so many are left pending."""
    p = Program()
    slot = p.slot()
    products = [p.product(slot), p.product(slot)]
    for number in uses:
        p.use(products[number].result)
    assert p.wait() == ["p0", "p1", *expected]


def test_three_products_that_are_needed_the_other_way_round() -> None:
    p = Program()
    slot = p.slot()
    products = [p.product(slot) for _ in range(3)]
    for number in (1, 2, 0):
        p.use(products[number].result)
    assert p.wait() == ["p0", "p1", "p2", "wait 1: p0 p1", "use", "wait 0: p2", "use", "use"]


def test_registers_that_a_product_reads_are_not_written_before() -> None:
    """What changes them stands behind a wait, also where a later product goes on with it."""
    for continued in (False, True):
        p = Program()
        slot = p.slot()
        product = p.product(slot)
        if continued:
            p.product(slot, product.result)
        changed = p.add(Made(result_types=[SUMS]))
        p.use(p.issues[-1].result)
        last = "p1" if continued else "p0"
        found = p.wait({product: {changed.results[0]}})
        assert found == [*(["p0"] if continued else []), last, f"wait 0: {last}", "use", "use"]


def test_slots_that_products_read() -> None:
    """Each once, in order; through other views of them; of their own block alone."""
    p = Program()
    one, two = p.slot(), p.slot()
    issues = [p.product(two, turned=True), p.product(one), p.product(two)]
    assert slots_of(issues) == [two, one]
    assert slots_of([]) == []
    restaged = p.add(Restage(one.views[0]))
    assert slots_of([p.add(DotIssue((made(TILE), restaged.result, made(SUMS))))]) == []
    inner = DotIssue((one.views[0], one.views[1], made(SUMS)))
    p.add(scf.IfOp(made(i1), [], [inner, scf.YieldOp()]))
    assert slots_of([inner]) == []


def test_a_slot_that_is_not_returned() -> None:
    p = Program()
    slot, other = p.slot(), p.slot()
    flag = made(i1)
    p.use(slot.token)
    p.give_back(other)
    p.give_back(slot, flag)
    assert erase_consumed(slot) is flag
    assert [op.token for op in p.block.ops if isinstance(op, Consumed)] == [other.token]
    assert erase_consumed(other) is None
