"""A recurrence writes its state while it multiplies, not before.

A loop that carries a state stores it, or what it computes of it, and multiplies by it next. Each
iteration waits for the one before, so what stands between two products adds to every iteration: the
addresses of a store, the exchange of what is stored, and its instructions. The matrix unit works
alone after it was asked, so they come then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tawa.aref.dialect.ops import DotIssue, DotWait, WarpGroup
from tawa.ir.contracts import Contract
from tawa.ir.effects import GLOBAL, GLOBAL_PROXY, ORDER, is_pure, touches
from tawa.ir.properties import ASYNCHRONOUS, TIDY
from tawa.ir.walking import all_of, between
from tawa.tile.dialect.ops import Store


@dataclass(frozen=True)
class SinkStores:
    """Move stores behind the products that are asked for next, before these are waited for."""

    name: ClassVar[str] = "sink-stores"
    contract: ClassVar[Contract] = Contract(requires=(ASYNCHRONOUS,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Look at the stores of every computing warp group."""
        for group in all_of(module, WarpGroup):
            for store in reversed(list(all_of(group, Store))):
                wait = _next_wait(store)
                if wait is not None:
                    _move(store, wait, _accumulated(store, wait))


def _next_wait(store: Store) -> DotWait | None:
    """The wait for products that are asked for after a store; None if something forbids it.

    What is passed does nothing to global memory, and orders nothing.
    """
    op, issued = store.next_op, False
    while op is not None:
        if isinstance(op, DotWait):
            return op if issued else None
        if op.regions or any(touches(op, kind) for kind in (GLOBAL, GLOBAL_PROXY, ORDER)):
            return None
        issued = issued or isinstance(op, DotIssue)
        op = op.next_op
    return None


def _accumulated(store: Store, wait: DotWait) -> set[SSAValue]:
    """What products that a store passes add to: read behind them, it would have to be copied."""
    return {op.accumulator for op in between(store, wait) if isinstance(op, DotIssue)}


def _move(store: Store, before: Operation, taken: set[SSAValue]) -> None:
    """Move a store, and what is computed for it alone, unless that reads what is `taken`."""
    if not taken.isdisjoint(store.operands):
        return
    assert store.parent is not None
    moved: list[Operation] = [store]
    for op in moved:
        for value in op.operands:
            owner = value.owner
            if isinstance(owner, Operation) and owner.parent is store.parent and is_pure(owner):
                users = {use.operation for result in owner.results for use in result.uses}
                alone = owner not in moved and users <= set(moved)
                if alone and taken.isdisjoint(owner.operands):
                    moved.append(owner)
    for op in sorted(moved, key=store.parent.get_operation_index):
        op.detach()
        assert before.parent is not None
        before.parent.insert_op_before(op, before)
