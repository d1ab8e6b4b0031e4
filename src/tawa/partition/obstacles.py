"""What keeps a role from running the loads ahead of the rest of a kernel."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from xdsl.dialects import func
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tawa.ir.elementwise import Map
from tawa.tile.analysis.pointers import WRITES, may_overlap, origins
from tawa.tile.dialect.ops import (
    Arange,
    AtomicCas,
    AtomicRmw,
    Broadcast,
    DescLoad,
    ExpandDims,
    Load,
    Reshape,
    Splat,
    Trans,
)

Obstacle: TypeAlias = tuple[str, Operation]
"""Why something cannot be done, and the op that is in its way."""


ADDRESSES = (Map, Splat, Arange, Broadcast, ExpandDims, Trans, Reshape, Load)
"""Ops on tiles that a loading role of many threads runs for the addresses of its copies."""


def producer_obstacle(
    body: Block, written: Collection[SSAValue | None], *, tiles: bool = False
) -> Obstacle | None:
    """Why the loading role cannot be run, and where; None if it can.

    `written` are the arguments through which the kernel writes. With `tiles`, the role has threads
    enough for tiles of addresses and masks; else it is one thread.
    """
    for op in body.walk():
        if isinstance(op, DescLoad):
            return "the coordinates of a load depend on a tile that is loaded", op
        if isinstance(op, AtomicRmw | AtomicCas):
            return "the coordinates of a load depend on an atomic operation", op
        if isinstance(op, Load) and may_overlap(origins(op.ptr), written):
            return "the coordinates of a load depend on memory that the kernel writes", op
        held = any(isinstance(r.type, TensorType) for r in op.results)
        if held and not (tiles and (op.regions or isinstance(op, ADDRESSES))):
            return "the coordinates of a load depend on a computed tile", op
    return None


def written_arguments(kernel: func.FuncOp) -> set[int | None]:
    """The numbers of the arguments through which a kernel writes; None if it may be any."""
    places = [op.operands[0] for op in kernel.walk() if isinstance(op, WRITES)]
    found = {argument for place in places for argument in origins(place)}
    return {a.index if isinstance(a, BlockArgument) else None for a in found}
