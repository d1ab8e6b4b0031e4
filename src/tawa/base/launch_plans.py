"""Plans of launches (`base.tile_scheduler`): made once for a grid and its arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tawa.base.kernel_spec import KernelSpec, PlanParam
from tawa.base.tile_scheduler import ENTRIES, launched_ctas, plan
from tawa.machine.chips import DEFAULT

BYTES = 2 * ENTRIES
MOST_KEPT = 256
"""Plans that are kept: 2 MB."""

Grid = tuple[int, int, int]


def persistent_ctas(spec: KernelSpec, grid: Grid, resident: int) -> int:
    """CTAs of a launch of a persistent kernel, of which `resident` ones start at once."""
    programs = math.prod(grid)
    if any(isinstance(p, PlanParam) for p in spec.parameters):
        return launched_ctas(programs, resident, spec.ctas_per_sm)
    cluster = spec.cluster[0]
    return min(resident, -(-programs // cluster) * cluster)


def launch_plan(
    parameter: PlanParam,
    grid: Sequence[int],
    arguments: Sequence[Any],
    resident: int,
    ctas: int,
    l2_bytes: int = DEFAULT.l2_bytes,
) -> NDArray[np.uint16]:
    """The plan of a launch of `ctas` CTAs, of which `resident` ones start at once.

    The arguments' descriptors say how large its data is.
    """
    described = sum(
        math.prod(argument.shape) * argument.base.dtype.itemsize
        for argument in arguments
        if not isinstance(argument, np.ndarray) and hasattr(argument, "base")
    )
    programs = max(1, math.prod(grid))
    first = max(1, min(resident, ctas))
    work = parameter.work.evaluate(grid, arguments)
    return plan(work, first, max(1, ctas), described / programs, l2_bytes)


def plan_writer(
    spec: KernelSpec, parameter: PlanParam, resident: int, l2_bytes: int, memory: memoryview
) -> Callable[[Sequence[Any], Grid], None]:
    """A function that writes the plan of a launch's values and grid to `memory`, if it is new."""
    used = parameter.work.arguments
    kept: dict[tuple[Any, ...], bytes] = {}
    written: tuple[Any, ...] | None = None

    def write(values: Sequence[Any], grid: Grid) -> None:
        nonlocal written
        key = (grid, *[values[i] for i in used])
        if key == written:
            return
        table = kept.get(key)
        if table is None:
            if len(kept) >= MOST_KEPT:
                kept.clear()
            ctas = persistent_ctas(spec, grid, resident)
            table = kept[key] = launch_plan(
                parameter, grid, values, resident, ctas, l2_bytes
            ).tobytes()
        memory[:] = table
        written = key

    return write
