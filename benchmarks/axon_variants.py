"""The time of each kernel of a GPT-2's training step with every tile that it could take.

    python benchmarks/axon_variants.py --seconds 60    # on a GPU

The tile that the plan chose is marked. Products are tried with a few more than the plan knows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from axon_gpt2 import FULL, program, shaped
from torch import Tensor

from tawa import axon
from tawa.axon.gpu import library
from tawa.axon.gpu.ahead import compile_ahead
from tawa.axon.gpu.compile import plan_for_device
from tawa.axon.gpu.graph.nodes import BYTES
from tawa.axon.gpu.kernels import Variant
from tawa.axon.gpu.plan import Located, geometry
from tawa.axon.gpu.tiles import STAGED_AREA, TOGETHER

TRIED = (
    (128, 160, "together", TOGETHER),
    (128, 192, "together", TOGETHER),
    (128, 128, "together", TOGETHER),
    (256, 128, "together", TOGETHER),
)
"""Rows, columns, and options of tiles that products are tried with beside their own."""


def tried() -> list[Variant]:
    """Those as variants of products."""
    found: list[Variant] = []
    for rows, columns, name, options in TRIED:
        staged = int(rows * columns <= STAGED_AREA)
        constants = {"BR": rows, "BC": columns, "BK": 64, "GROUP": 8, "STAGED": staged}
        found.append(Variant(f"{rows}x{columns} {name}", constants, options))
    return found


def with_tried(call: Any) -> Any:
    """A kernel with all variants that it is to be tried with."""
    more = tried() if call.group.kind == "product" else []
    return replace(call, variants=(*call.variants, *more))


def time_variants(plan: Any, wanted: set[str], seconds: float) -> None:
    """The time of each kernel of a plan with all its variants, the one chosen marked."""
    place, aligned, memory = library.Place(0, "torch"), dict[Any, bool](), dict[Any, Tensor]()
    launches = {(launch.call.source, launch.call.group.space): launch for launch in plan.launches}
    kinds = [k for k, launch in launches.items() if launch.call.group.kind in wanted]
    with_all = {kind: with_tried(launches[kind].call) for kind in kinds}
    compile_ahead(with_all.values(), {})
    end = time.perf_counter() + seconds
    for kind in kinds:
        launch = launches[kind]
        call, (rows, columns) = launch.call, launch.call.group.space
        products = call.group.kind == "product"
        for variant in with_all[kind].variants:
            if time.perf_counter() > end:
                return
            constants = variant.constants
            if not products and not constants["LOOP"] and constants["BC"] < columns:
                continue
            tiles = -(-rows // constants["BR"])
            tiles *= -(-columns // constants["BC"]) if products else 1
            values = launch_values(launch, variant, memory)
            try:
                start = library.entry(call, variant, aligned, place).launch
                taken = timed(lambda: start((tiles,), values, None))  # noqa: B023
            except Exception as error:
                print(f"  {variant.name}: {str(error).splitlines()[0]}", flush=True)
                continue
            mark = "*" if variant is call.variant else " "
            name = library.kernel_of(call).fn.__name__
            print(f" {mark}{taken * 1000:8.1f} us  {variant.name:24} {rows} x {columns}  {name}",
                  flush=True)  # fmt: skip


def launch_values(launch: Any, variant: Any, memory: dict[Any, Tensor]) -> list[Any]:
    """What a launch passes, each tensor in memory of its own."""
    values = launch.values.copy()
    for slot in launch.slots:
        base = slot.base
        if base not in memory:
            memory[base] = torch.zeros(base.bytes, dtype=torch.uint8, device="cuda")
        address = memory[base].data_ptr()
        value = launch.call.parameters[slot.position].value
        if slot.geometry is not None:
            call = replace(launch.call, variants=(variant,), chosen=0)
            address += slot.offset * BYTES[base.element]
            values[slot.position] = Located(address, geometry(value, call))
        else:
            values[slot.position] = address
    return values


def timed(run: Callable[[], None]) -> float:
    """The median milliseconds of some launches; more data than the cache holds passes between."""
    other = torch.empty(2**27, dtype=torch.uint8, device="cuda")
    found: list[float] = []
    for _ in range(8):
        other.zero_()
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        stop.record()
        stop.synchronize()
        found.append(start.elapsed_time(stop))
    return sorted(found)[len(found) // 2]


def main() -> None:
    """Time them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kinds", default="product,rows", help="of the kernels to try")
    arguments = parser.parse_args()
    step = axon.compile(axon.load(program(FULL))["step"])
    plan = plan_for_device(step, shaped(FULL), {"h": FULL.heads})
    time_variants(plan, set(arguments.kinds.split(",")), arguments.seconds)


if __name__ == "__main__":
    main()
