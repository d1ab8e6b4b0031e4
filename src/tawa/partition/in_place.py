"""Blocks that a kernel may load only once it, or another program, has stored to them.

A loading role, and rings that are filled ahead, load before the rest of the program has come so
far. So a block must not be stored before it is loaded: not in the same iteration of a loop, and not
in an earlier one. Nor may it be loaded before the program acquires what others have released. Where
that may be, one role does all in the order of the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.ir import Operation

from tawa.ir.effects import GLOBAL, WRITE, acquires, through, touches
from tawa.ir.walking import all_of, every
from tawa.tile.analysis.alias import may_alias
from tawa.tile.analysis.order import may_meet
from tawa.tile.dialect.ops import DescLoad


def load_after_store(kernel: func.FuncOp) -> DescLoad | None:
    """A load through a descriptor of what the program may have written before; None without one."""
    loads = descriptor_loads(kernel)
    writes = [op for op in every(kernel) if not op.regions and touches(op, GLOBAL, WRITE)]
    for load in loads:
        for write in writes:
            if may_meet(write, load) and _may_alias(load, write):
                return load
    return None


def load_after_acquire(loads: Sequence[Operation], kernel: func.FuncOp) -> Operation | None:
    """A load that the program may come to after it has acquired something; None without one."""
    acquiring = [op for op in every(kernel) if not op.regions and acquires(op)]
    return next((load for load in loads if any(may_meet(op, load) for op in acquiring)), None)


def descriptor_loads(kernel: func.FuncOp) -> list[DescLoad]:
    """All loads through descriptors."""
    return all_of(kernel, DescLoad)


def _may_alias(load: DescLoad, write: Operation) -> bool:
    return any(may_alias(load.desc, value) for value in through(write, GLOBAL, WRITE))
