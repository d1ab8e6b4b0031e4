"""Whether the programs of a launch share global memory safely: half of what `tawa check` asks.

The launch runs at the tile level, program by program, and every access is compared with those of
other programs by vector clocks (`simulate.interpret.races`): what is not ordered is found whatever
order the programs ran in. The claim is about this launch, its sizes and its data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tawa.base.numerics import Array
from tawa.base.types import DescType, PtrType, byte_size, element_of
from tawa.simulate.interpret import tile
from tawa.simulate.interpret.limits import Limits
from tawa.simulate.interpret.memory import Memory
from tawa.simulate.interpret.races import REMEMBERED, Watch


@dataclass(frozen=True)
class MemoryReport:
    """What was looked at, and how far."""

    watch: Watch
    programs: int
    tracked: int
    """Arrays of which it is known that nobody had written them before the launch."""

    def render(self) -> str:
        """The report as text."""
        seen = self.watch
        lines = [
            f"global memory: no conflict between programs, none out of bounds ({self.programs} "
            f"programs, {seen.accesses} accesses of {seen.elements} elements, {seen.atomics} "
            f"atomic or volatile, {seen.handovers} handed over)"
        ]
        if self.tracked:
            lines.append(f"unwritten memory: nothing read of {self.tracked} empty array(s)")
        else:
            lines.append("unwritten memory: not covered, no array was made by `numpy.empty`")
        if seen.forgotten:
            lines.append(
                f"not covered: at {seen.forgotten} accesses an element had {REMEMBERED} "
                "unordered accesses by other programs and could not remember one more"
            )
        return "\n".join(lines)


def check_memory(
    module: ModuleOp,
    grid: Sequence[int],
    args: Sequence[Any],
    *,
    unwritten: Sequence[Array | None] = (),
    limits: Limits | None = None,
) -> MemoryReport:
    """Run a launch of a tile module on its arrays, and look at every access of memory.

    `unwritten` has, for each of the launch's arrays in their order, which of its bytes nobody has
    written yet, or None if it is not known.

    Raises `RaceBetweenPrograms`, `NeverWritten`, `IllegalAccess`, and what `tile.run` raises;
    `LimitReached` where a program runs for longer than `limits` allow.
    """
    known = {n: missing for n, missing in enumerate(unwritten) if missing is not None}
    watch = Watch(_granule(module))
    tile.run(module, grid, args, watch=partial(_begin, watch, known), limits=limits)
    return MemoryReport(watch, math.prod(grid), len(known))


def _begin(watch: Watch, unwritten: dict[int, Array], memory: Memory) -> None:
    watch.begin(memory.buffers, unwritten)
    memory.watch = watch


def _granule(module: ModuleOp) -> int:
    """Bytes of the narrowest element that a pointer or a descriptor of the module addresses."""
    sizes: set[int] = set()
    for op in module.walk():
        blocks = (block for region in op.regions for block in region.blocks)
        for value in (*op.results, *(arg for block in blocks for arg in block.args)):
            type_ = element_of(value.type)
            if isinstance(type_, PtrType):
                sizes.add(byte_size(type_.pointee))
            elif isinstance(value.type, DescType):
                sizes.add(byte_size(value.type.block.element_type))
    return min(sizes, default=1)
