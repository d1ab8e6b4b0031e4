"""Runs a launch's PTX on NumPy arrays: CTA by CTA, each as far as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tawa.base.kernel_spec import KernelSpec
from tawa.base.launch_plans import persistent_ctas
from tawa.base.numerics import Array
from tawa.machine.chips import SM_90A
from tawa.simulate.interpret.global_memory import GlobalMemory, TensorMap
from tawa.simulate.interpret.launch import parameters
from tawa.simulate.ptx.cta import TOGETHER, Cta, PtxFailed
from tawa.simulate.ptx.engines import WholeCta
from tawa.simulate.ptx.machine import Region
from tawa.simulate.ptx.program import Kernel, kernels

AT_ONCE = 64
"""CTAs that have begun and not ended, at most."""
SLICE = 5_000
"""Instructions that a CTA takes before the next one's turn."""


def run(
    ptx: str,
    spec: KernelSpec,
    grid: Sequence[int],
    args: Sequence[Any],
    *,
    multiprocessors: int = SM_90A.multiprocessors,
    order: str = TOGETHER,
    look: Callable[[], None] | None = None,
) -> None:
    """Run the PTX of a kernel on NumPy arrays, which it changes in place.

    `grid` and `args` are those of `tawa.simulate.run`; `order` is one of `ptx.cta.ORDERS`: what is
    missing between warps, or between them and the engines, shows in some and not in others.
    `look` is called between CTAs' turns; what it raises ends the run. Raises `PtxFailed`.
    """
    if tuple(spec.cluster) != (1, 1, 1):
        raise PtxFailed(
            "the PTX of a kernel for clusters of CTAs",
            expected="a kernel of single CTAs",
            found=f"clusters of {spec.cluster}",
        )
    kernel = kernels(ptx)[spec.entry]
    with np.errstate(all="ignore"):
        _all(list(_ctas(kernel, spec, (grid, args), multiprocessors, order)), look)


def _all(left: list[Cta], look: Callable[[], None] | None) -> None:
    running: list[Cta] = []
    while left or running:
        while left and len(running) < AT_ONCE:
            running.append(left.pop(0))
        went_on: list[bool] = []
        for cta in running:
            went_on.append(cta.go_on(SLICE))
            if look is not None:
                look()
        for cta in [cta for cta in running if cta.ended]:
            cta.finish()
            running.remove(cta)
            went_on.append(True)
        if not any(went_on):
            raise PtxFailed(
                "nobody can go on",
                expected="every wait to be met by an arrival",
                found=running[0].describe(),
            )


def _ctas(
    kernel: Kernel,
    spec: KernelSpec,
    call: tuple[Sequence[int], Sequence[Any]],
    resident: int,
    order: str,
) -> Iterator[Cta]:
    grid, args = call
    programs = (*grid, 1, 1)[:3]
    full = (int(programs[0]), int(programs[1]), int(programs[2]))
    launched, resident = full, resident * spec.ctas_per_sm
    if spec.grid == "persistent":
        launched = (persistent_ctas(spec, full, resident), 1, 1)
    memory = GlobalMemory()
    values = parameters(spec, args, full, (resident, launched[0]), memory)
    maps = {
        name: value
        for name, value in zip(kernel.parameters, values, strict=True)
        if isinstance(value, TensorMap)
    }
    given = [0 if isinstance(value, TensorMap) else _bits(value) for value in values]
    regions = [Region(a.first, a.bytes) for a in memory.allocations]
    for z in range(launched[2]):
        for y in range(launched[1]):
            for x in range(launched[0]):
                special = _special(spec.threads, (x, y, z), launched)
                yield WholeCta(
                    kernel, given, special, (memory, regions), spec.shared_bytes, maps, order
                )


def _bits(value: Any) -> int:
    if isinstance(value, int):
        return value
    return int.from_bytes(np.ascontiguousarray(value).tobytes(), "little")


def _special(
    threads: int, block: tuple[int, int, int], grid: tuple[int, int, int]
) -> dict[str, Array]:
    def everywhere(value: int) -> Array:
        return np.full(threads, value, np.uint32)

    thread = np.arange(threads, dtype=np.uint32)
    found = {"%tid.x": thread, "%laneid": thread % 32, "%warpid": thread // 32}
    found |= {"%ntid.x": everywhere(threads), "%tid.y": everywhere(0), "%tid.z": everywhere(0)}
    for axis, name in enumerate("xyz"):
        found[f"%ctaid.{name}"] = everywhere(block[axis])
        found[f"%nctaid.{name}"] = everywhere(grid[axis])
    return found | {"%cluster_ctarank": everywhere(0)}
