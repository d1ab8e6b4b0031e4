"""Whether the programs of a launch share global memory safely: half of what `tawa check` asks.

The launch runs at the tile level, program by program, and every access is compared with those of
other programs by vector clocks (`simulate.interpret.races`). Programs that do not synchronise are
ordered by nothing, so one run finds all. Those that do may be ordered in one run by chance: a lock
that is not taken looks taken where programs run one after the other. They also run in step, access
by access, and in a few orders that are drawn. The claim is about this launch, its sizes, its data,
and these orders.
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
from tawa.simulate.check.levels import array_elements, differing
from tawa.simulate.interpret import tile
from tawa.simulate.interpret.launch import arrays_of
from tawa.simulate.interpret.limits import Limits
from tawa.simulate.interpret.memory import Memory
from tawa.simulate.interpret.races import REMEMBERED, Watch
from tawa.simulate.interpret.spinning import ONE_BY_ONE, Order

SWITCHING = (
    Order(switching=True),
    Order(switching=True, backwards=True),
    *(Order(switching=True, seed=seed) for seed in range(2)),
)
"""Orders in which programs that synchronise are run, beside one after the other."""


@dataclass(frozen=True)
class MemoryReport:
    """What was looked at, and how far."""

    watch: Watch
    programs: int
    tracked: int
    """Arrays of which it is known that nobody had written them before the launch."""
    orders: int = 1
    """Orders of the programs' accesses in which the launch was run."""
    varying: tuple[str, ...] = ()
    """Arrays that held something else after another order."""

    def render(self) -> str:
        """The report as text."""
        seen = self.watch
        lines = [
            f"global memory: no conflict between programs, none out of bounds ({self.programs} "
            f"programs, {seen.accesses} accesses of {seen.elements} elements, {seen.atomics} "
            f"atomic or volatile, {seen.handovers} handed over{self._orders()})"
        ]
        if self.tracked:
            lines.append(f"unwritten memory: nothing read of {self.tracked} empty array(s)")
        else:
            lines.append("unwritten memory: not covered, no array was made by `numpy.empty`")
        if self.varying:
            names = ", ".join(f"`{name}`" for name in self.varying)
            lines.append(
                f"order of programs: what {names} holds depends on who comes first; levels are not "
                "compared there"
            )
        if seen.uncovered:
            lines.append(
                f"not covered: at {seen.uncovered} accesses an element had {REMEMBERED} "
                "unordered accesses by other programs and could not remember one more"
            )
        return "\n".join(lines)

    def _orders(self) -> str:
        return f"; {self.orders} orders of them" if self.orders > 1 else ""


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
    written yet, or None if it is not known. The arrays hold what programs that run one after the
    other write.

    Raises `RaceBetweenPrograms`, `NeverWritten`, `IllegalAccess`, and what `tile.run` raises;
    `LimitReached` where a program runs for longer than `limits` allow.
    """
    known = {n: missing for n, missing in enumerate(unwritten) if missing is not None}
    arrays = arrays_of(args)
    start = [array.copy() for array in arrays]

    def look(order: Order) -> Watch:
        watch = Watch(_granule(module))
        began = partial(_begin, watch, known)
        tile.run(module, grid, args, watch=began, limits=limits, order=order)
        return watch

    watch = look(ONE_BY_ONE)
    if not watch.atomics or math.prod(grid) == 1:
        return MemoryReport(watch, math.prod(grid), len(known))
    results = [array.copy() for array in arrays]
    names = array_elements(module)
    varying: dict[str, None] = {}
    for order in SWITCHING:
        _put(arrays, start)
        look(order)
        varying |= dict.fromkeys(differing(names, arrays, results))
    _put(arrays, results)
    return MemoryReport(watch, math.prod(grid), len(known), 1 + len(SWITCHING), tuple(varying))


def _put(arrays: Sequence[Array], values: Sequence[Array]) -> None:
    for array, value in zip(arrays, values, strict=True):
        if array.flags.writeable:
            array[...] = value


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
