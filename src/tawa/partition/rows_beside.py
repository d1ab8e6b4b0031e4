"""Rows and numbers that a loop loads beside its products' operands, copied into the same slots.

A gate of each row of a chunk, the decay of the whole chunk, the scales of a block: a loop that
reads its operands from rings loads a little more through pointers. In registers that would be one
iteration ahead at most (`aref.passes.register_prefetch`), and a short iteration, of a recurrence
say, takes less time than memory does. So what threads copy into a slot takes such rows along: as
many iterations ahead as the ring has slots, behind a barrier that is waited for anyway, and with
addresses that are computed where the operands' are.

A number is a row of one element. It is made one before anything is decided, and a number again
where it is not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation
from xdsl.utils.hints import isa

from tawa.base.spans import copy_span
from tawa.base.types import byte_size, element_of, shape_of
from tawa.partition.pointer_loads import COPY_BYTES
from tawa.tile.dialect.ops import Load, Reduce, Splat


def rows_beside(copied: Sequence[Load], may_copy: Callable[[Load], bool]) -> list[Load]:
    """The loads of rows that `may_copy` in the bodies that load what is `copied`.

    Floating-point numbers that may are replaced by rows of one element.
    """
    found: list[Load] = []
    for body in dict.fromkeys(load.parent for load in copied):
        assert body is not None
        known = _needed_by([load for load in copied if load.parent is body])
        for load in [op for op in body.ops if isinstance(op, Load) and op not in known]:
            rank = len(shape_of(load.result.type))
            row = load if rank == 1 else _as_row(load) if rank == 0 and _is_copied(load) else None
            if row is not None and may_copy(row):
                found.append(row)
            elif row is not None and row is not load:
                _as_number(row, load)
    return found


def _needed_by(copied: Sequence[Load]) -> set[Operation]:
    """What is copied, and what its addresses are computed from: who copies loads that itself."""
    known, work = set[Operation](copied), [v for load in copied for v in load.operands]
    while work:
        op = work.pop().owner
        if isinstance(op, Operation) and op not in known:
            known.add(op)
            work += op.operands
    return known


def _is_copied(load: Load) -> bool:
    """Whether a number may be copied by itself: one of at least 4 bytes that is no address."""
    element = element_of(load.result.type)
    return isa(element, AnyFloat) and byte_size(element) >= COPY_BYTES


def _as_row(load: Load) -> Load:
    """A row of one element in the place of a number, which is its sum."""
    row, new = _row_of(load)
    total = Reduce(row.result, 0, "addf")
    total.result.name_hint = load.result.name_hint
    block = load.parent
    assert block is not None
    copy_span(load, [*new, row, total])
    block.insert_ops_before([*new, row, total], load)
    load.result.replace_all_uses_with(total.result)
    load.detach()
    return row


def _row_of(load: Load) -> tuple[Load, list[Operation]]:
    operands = [v for v in (load.ptr, load.mask, load.other) if v is not None]
    new = {v: Splat(v, (1,)) for v in operands}
    ptr, mask, other = (new[v].result if v is not None else None for v in
                        (load.ptr, load.mask, load.other))  # fmt: skip
    assert ptr is not None
    row = Load(ptr, mask, other)
    kept = ("cache", "eviction", "volatile")
    row.properties |= {n: p for n, p in load.properties.items() if n in kept}
    row.result.name_hint = load.result.name_hint
    return row, list(new.values())


def _as_number(row: Load, load: Load) -> None:
    """The number again."""
    block, use = row.parent, next(iter(row.result.uses))
    assert block is not None
    block.insert_op_before(load, row)
    total = use.operation.results[0]
    total.replace_all_uses_with(load.result)
    spread = [v.owner for v in row.operands]
    for op in (use.operation, row, *dict.fromkeys(spread)):
        assert isinstance(op, Operation)
        op.detach()
        op.erase()
