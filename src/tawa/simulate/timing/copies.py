"""What a role that copies through pointers does in time: its addresses, its copies, its arrivals.

Of a tile of addresses only the first of every copy is computed: the assembler drops the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from tawa.hopper.dialect.copies import CopyArrive, CopyAsync
from tawa.ir.effects import is_pure
from tawa.ir.elementwise import Map
from tawa.simulate.timing.code import COPY, COPY_ARRIVE, Code
from tawa.simulate.timing.work import Work, registers


def copied_together(value: SSAValue) -> int:
    """How many registers of a value count once, because copies alone use it; 1 for other values."""
    found, work, seen = 0, [value], set[SSAValue]()
    while work:
        v = work.pop()
        if v in seen:
            continue
        seen.add(v)
        for use in v.uses:
            op = use.operation
            if isinstance(op, CopyAsync):
                found = max(found, op.vector.value.data)
            elif is_pure(op):  # an address or a mask goes through it
                work += op.results
            elif not isinstance(op, scf.YieldOp):
                return 1
    return found or 1


def without_dropped(op: Operation, work: Work) -> Work:
    """The work of an op on fragments, less what the assembler drops of addresses."""
    if not isinstance(op, Map):
        return work
    together = copied_together(op.result)
    return Work(work.issue / together, work.alu / together) if together > 1 else work


def _copy(code: Code, op: CopyAsync, _wanted: set[SSAValue]) -> None:
    """The instructions of one tile's copies, then its bytes."""
    if code.places:
        return
    size = op.bytes * (registers(op.pointers) // op.vector.value.data) * code.threads
    if code.counting:
        code.line(f"loads += 1; loaded += {size}")
        return
    count = registers(op.pointers) / op.vector.value.data
    code.add(
        Work(
            code.target.timing.copy_instructions * count,
            shared=size / code.target.shared_memory_bytes,
        )
    )
    code.event(f"{COPY}, {size}")


def _arrive(code: Code, op: CopyArrive, _wanted: set[SSAValue]) -> None:
    """Arrivals when the copies so far have landed."""
    where = f"{code.name(op.barrier)} + {code.name(op.slot)} * 8"
    code.event(f"{COPY_ARRIVE}, {where}, {code.threads}")


COPIES: dict[type[Operation], Callable[[Code, Any, set[SSAValue]], None]] = {
    CopyAsync: _copy,
    CopyArrive: _arrive,
}
"""How the ops are written."""
