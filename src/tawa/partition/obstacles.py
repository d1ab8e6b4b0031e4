"""What keeps a role from running the loads ahead of the rest of a kernel."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from xdsl.dialects import func
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tawa.ir.effects import FILLED, has_effect, is_collective, only_reads, touches
from tawa.ir.walking import every
from tawa.tile.analysis.alias import may_be_written, written
from tawa.tile.dialect.ops import DescLoad

Obstacle: TypeAlias = tuple[str, Operation]
"""Why something cannot be done, and the op that is in its way."""


def producer_obstacle(
    body: Block, memory: Collection[SSAValue | None], *, tiles: bool = False
) -> Obstacle | None:
    """Why the loading role cannot be run, and where; None if it can.

    `memory` is what the kernel writes. With `tiles`, the role has threads
    enough for tiles of addresses and masks; else it is one thread.
    """
    for op in every(body):
        if isinstance(op, DescLoad):
            return "the coordinates of a load depend on a tile that is loaded", op
        if not op.regions and not touches(op, FILLED):
            if has_effect(op):
                return f"the coordinates of a load depend on {op.name}, which has an effect", op
            if may_be_written(op, memory):
                return "the coordinates of a load depend on memory that the kernel writes", op
        held = any(isinstance(r.type, TensorType) for r in op.results)
        apart = (op.regions or only_reads(op)) and not is_collective(op)
        if held and not (tiles and apart):
            return "the coordinates of a load depend on a computed tile", op
    return None


def written_arguments(kernel: func.FuncOp) -> set[int | None]:
    """The numbers of the arguments through which a kernel writes; None if it may be any."""
    found = written([kernel])
    return {a.index if isinstance(a, BlockArgument) else None for a in found}
