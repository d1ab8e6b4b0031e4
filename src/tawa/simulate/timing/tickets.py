"""Numbers that programs draw from a counter in memory, such as the next tile of a dynamic schedule.

A replay has one CTA, and who draws when is not known. All are taken to draw in turn: the nth number
that a CTA draws is the one after those that every CTA has drawn n times, and those before it.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from tawa.hopper.dialect.atomic import GlobalAtomic
from tawa.hopper.dialect.fragment import Extract, Fill
from tawa.hopper.dialect.memory import SharedLoad, SharedStore
from tawa.simulate.timing.code import Code


def extract(code: Code, op: Extract, wanted: set[SSAValue]) -> None:
    """Write the number that one element of a fragment is: a ticket, or zero."""
    if op.value not in wanted:
        return
    atomic = _drawn(op.operand)
    if atomic is None:
        code.names[op.value] = "0"
        return
    drawn = code.counters.setdefault(_filled(atomic.pointers), f"drawn{len(code.counters)}")
    name = code.fresh("s")
    place = "block[0] + grid[0] * (block[1] + grid[1] * block[2])"
    code.line(f"{name} = {_step(atomic)} * ({place} + {drawn} * grid[0] * grid[1] * grid[2])")
    code.line(f"{drawn} += 1")
    code.names[op.value] = name


def _drawn(value: SSAValue) -> GlobalAtomic | None:
    """The addition to a counter whose old value this is, perhaps by way of shared memory."""
    source = value.owner
    if isinstance(source, SharedLoad):
        stores = [u.operation for u in source.tile.uses if isinstance(u.operation, SharedStore)]
        source = stores[-1].value.owner if stores else source
    return source if isinstance(source, GlobalAtomic) and source.kind.data == "addi" else None


def _filled(value: SSAValue) -> SSAValue:
    """What a fragment is filled with, or itself."""
    return value.owner.scalar if isinstance(value.owner, Fill) else value


def _step(atomic: GlobalAtomic) -> int:
    """What is added each time: 1 if that is not known."""
    source: object = _filled(atomic.operand).owner
    if isinstance(source, arith.ConstantOp) and isinstance(source.value, IntegerAttr):
        return source.value.value.data
    return 1
