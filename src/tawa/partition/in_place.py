"""Blocks that a kernel may load through a descriptor after it has stored to them.

A loading role, and rings that are filled ahead, load before the rest of the program has come so
far. So a block must not be stored before it is loaded: not in the same iteration of a loop, and not
in an earlier one. Where that may be, one role does all in the order of the text.
"""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.ir import Operation

from tawa.ir.effects import GLOBAL, WRITE, through, touches
from tawa.tile.analysis.alias import may_alias
from tawa.tile.analysis.order import may_meet
from tawa.tile.dialect.ops import DescLoad


def load_after_store(kernel: func.FuncOp) -> DescLoad | None:
    """A load through a descriptor of what the program may have written before; None without one."""
    loads = [op for op in kernel.walk() if isinstance(op, DescLoad)]
    writes = [op for op in kernel.walk() if not op.regions and touches(op, GLOBAL, WRITE)]
    for load in loads:
        for write in writes:
            if may_meet(write, load) and _may_alias(load, write):
                return load
    return None


def _may_alias(load: DescLoad, write: Operation) -> bool:
    return any(may_alias(load.desc, value) for value in through(write, GLOBAL, WRITE))
