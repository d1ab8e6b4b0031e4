"""What threads read together from memory that others write: one value for all, then acquired."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tawa.base.layout import REPLICA, Layout
from tawa.codegen.fragments import exchange, scratch, scratch_tile, team_sync
from tawa.codegen.group_lowering import GroupLowering
from tawa.hopper.dialect.atomic import MemoryFence
from tawa.hopper.dialect.memory import SharedLoad
from tawa.hopper.dialect.types import FragType


def agreed(g: GroupLowering, value: SSAValue, scope: str | None) -> SSAValue:
    """What the first holder of each element has read, in all threads that hold it.

    Threads read at different times, so that copies may differ; a program has one value. With a
    scope, what others in it released before is acquired for all threads.
    """
    assert isinstance(value.type, FragType)
    layout = value.type.layout
    if scope is not None:
        g.do(MemoryFence(scope))
        if not _copies(layout):
            team_sync(g)
    if not _copies(layout):
        return value
    place = scratch(g, scratch_tile(layout.shape, value.type.element_type))
    exchange(g, value, place)
    return g.add(SharedLoad(place, value.type))


def _copies(layout: Layout) -> bool:
    """Whether several threads hold the same element."""
    return any(m.dim == REPLICA and m.extent > 1 for m in (*layout.lane, *layout.warp))
