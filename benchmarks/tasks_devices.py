"""Task programs on two GPUs of one host, beside one GPU and beside NCCL followed by cuBLAS.

Products of 16384 with A, B and C sharded; a gather of A beside the product; sums over K scattered
to their owners; steps of a stencil whose halo travels. Contenders of `tawa` differ in their
mappings alone (the stencil in strips is a program of its own); `one device` is the same program
under a mapping for one. `nccl` is an all-gather of NCCL and then cuBLAS, or cuBLAS and then a
reduce-scatter; `nccl alone` and `cublas alone` are their halves. What overlap could gain is the
time of the two in turn without that of the shorter one; how much of it the tasks gain is printed
as `overlap`. Each is checked against float64 on some rows. `--dry-run` runs small sizes in the
simulator.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "examples" / "tasks"))

import devices_tasks as programs
import stencil_devices_tasks as stencil
import stencil_tasks

from tawa.tasks import Instance, Mapping, Sharded

MAX_ERROR = 2e-3
"""Relative Frobenius error against float64 above which a contender is not timed."""
CHECKED = 256
"""Rows of the result that are compared."""
TILES = {"U": 128, "V": 256}

Work = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A product with sizes; the dimensions along which C, A and B are sharded."""

    name: str
    m: int
    n: int
    k: int
    dims: tuple[int, int, int]
    parts: str
    """The tunable that says in how many parts what travels is cut."""

    @property
    def flops(self) -> int:
        """Of the whole product."""
        return 2 * self.m * self.n * self.k

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Of C, A and B."""
        return (self.m, self.n), (self.m, self.k), (self.k, self.n)

    def mappings(self, devices: int) -> Iterator[tuple[str, Mapping]]:
        """Mappings to measure, by what they say."""
        block = Instance("gemm_block", warp_groups=2, pipeline=4, options={"persistent": True})
        grid = Instance("gemm_grid", tunables=TILES)
        if devices == 1:
            tunables = {"devices": 1, self.parts: 1}
            node = Instance(f"{self.name}_node", processor="node", tunables=tunables)
            yield "1 device", Mapping(node, grid, block)
            return
        for parts in (devices, 2 * devices, 4 * devices):
            tunables = {"devices": devices, self.parts: parts}
            node = Instance(f"{self.name}_node", processor="node", tunables=tunables)
            yield f"{parts} parts", Mapping(node, grid, block, devices=devices)


def cases() -> Iterator[Case]:
    """Every case."""
    shapes = (
        (8192, 4096, 8192), (8192, 16384, 8192), (16384, 8192, 4096), (16384, 4096, 4096),
        (32768, 2048, 4096), (8192, 8192, 8192),
    )  # fmt: skip
    for m, n, k in shapes:
        yield Case("gemm_scatter", m, n, k, (0, 1, 0), "chunks")
        yield Case("gather_gemm", m, n, k, (1, 0, 1), "chunks")
    yield Case("sharded_gemm", 16384, 16384, 16384, (0, 0, 1), "panels")


def sharded(x: Any, devices: int, dim: int) -> Sharded:
    """A tensor in equal parts, each on a device of its own."""
    parts = x.chunk(devices, dim)
    return Sharded([part.contiguous().to(f"cuda:{d}") for d, part in enumerate(parts)], dim)


def error_of(c: Sharded, a: Any, b: Any) -> float:
    """Relative Frobenius error of the first rows; infinite for NaN."""
    import torch

    found = torch.cat([shard.to("cuda:0") for shard in c.shards], c.dim)[:CHECKED].double()
    exact = a[:CHECKED].double() @ b.double()
    error = float((found - exact).norm() / exact.norm())
    return error if error == error else float("inf")


def synchronize(devices: int) -> None:
    """Wait for all devices."""
    import torch

    for d in range(devices):
        torch.cuda.synchronize(d)


def times(work: Work, devices: int, count: int = 20) -> list[float]:
    """Milliseconds of runs one after the other, in groups of five, all devices waited for."""
    for _ in range(3):
        work()
    synchronize(devices)
    found: list[float] = []
    for _ in range(count):
        start = time.perf_counter()
        for _ in range(5):
            work()
        synchronize(devices)
        found.append((time.perf_counter() - start) / 5 * 1e3)
    return found


def nccl_works(case: Case, given: list[Sharded]) -> dict[str, Work]:
    """NCCL and cuBLAS one after the other, in each device's stream, and each alone.

    The product of which panels travel has no such peer: its panels are columns.
    """
    import torch
    from torch.cuda import nccl

    c, a, b = given
    gathers = case.name == "gather_gemm"
    shape = case.shapes[1] if gathers else case.shapes[0]
    whole = [torch.empty(shape, dtype=x.dtype, device=x.device) for x in a.shards]

    def move() -> None:
        if gathers:
            nccl.all_gather(a.shards, whole)
        else:
            nccl.reduce_scatter(whole, c.shards)

    def multiply() -> None:
        for d, held in enumerate(whole):
            if gathers:
                torch.mm(held, b.shards[d], out=c.shards[d])
            else:
                torch.mm(a.shards[d], b.shards[d], out=held)

    def both() -> None:
        for step in (move, multiply) if gathers else (multiply, move):
            step()

    if case.name == "sharded_gemm":
        return {}
    return {"nccl": both, "nccl alone": move, "cublas alone": multiply}


def overlap(best: dict[str, float]) -> str:
    """The part of what overlap can gain over NCCL and cuBLAS in turn that the tasks gain."""
    turn, alone = best.get("nccl"), [best.get(name) for name in ("nccl alone", "cublas alone")]
    own = best.get("tawa, 2")
    if turn is None or own is None or None in alone:
        return ""
    bound = max(ms for ms in alone if ms is not None)
    share = (turn - own) / (turn - bound) if turn > bound else float("nan")
    return f", {turn / own:.3f} of nccl (at most {turn / bound:.3f}), overlap {share:.0%}"


def measure(run: Any, case: Case, devices: int) -> str:
    """Time one case; returns a line with the ratios."""
    import torch

    from tawa.runtime.timing import Timing

    a, b = (torch.randn(s, device="cuda:0", dtype=torch.float16) for s in case.shapes[1:])
    name = {"kernel": case.name, "dtype": "fp16", "m": case.m, "n": case.n, "k": case.k}
    best: dict[str, float] = {}
    for count in (1, devices):
        c = torch.full(case.shapes[0], float("nan"), device="cuda:0", dtype=torch.float16)
        given = [sharded(x, count, dim) for x, dim in zip((c, a, b), case.dims, strict=True)]
        task = getattr(programs, case.name)
        works = {
            f"tawa, {config}": partial(task, *given, mapping=mapping)
            for config, mapping in case.mappings(count)
        }
        if count > 1:
            works |= nccl_works(case, given)
        else:
            works["cublas"] = partial(torch.mm, a, b, out=given[0].shards[0])
        for config, work in works.items():
            impl = config.partition(",")[0]
            row = {"devices": count, "config": config}
            for d in range(count):
                torch.cuda.reset_peak_memory_stats(d)
            try:
                for shard in given[0].shards:
                    shard.fill_(float("nan"))
                synchronize(count)
                work()
                error = 0.0 if "alone" in config else error_of(given[0], a, b)
                if error > MAX_ERROR:
                    raise ValueError(f"error {error}")
                timing = Timing(tuple(times(work, count)))
            except Exception as failure:
                run.add(name, impl, None, error_text=str(failure).splitlines()[0], **row)
                continue
            memory = max(torch.cuda.max_memory_allocated(d) for d in range(count))
            row["bytes of a device"] = memory
            run.add(name, impl, timing, flops=case.flops, **row)
            key = impl if "alone" in impl or impl == "nccl" else f"{impl}, {count}"
            best[key] = min(best.get(key, float("inf")), timing.median)
    shown = ", ".join(f"{impl} {ms:.3f} ms" for impl, ms in best.items())
    return f"{case.name} {case.m}x{case.n}x{case.k}: {shown}{overlap(best)}"


STENCIL = 16384, 16384, 10
"""Rows, columns and steps."""
RATE = 0.125


def stencil_works(devices: int) -> dict[str, tuple[Work, Any]]:
    """Steps on one device, and on several with edges of some rows; and the result of each."""
    import torch

    rows, columns, steps = STENCIL
    x = torch.randn(rows, columns, device="cuda:0")
    one = torch.full_like(x, float("nan"))
    tiles = Instance("step_grid", tunables={"rows": 32, "columns": 128})
    found: dict[str, tuple[Work, Any]] = {
        "1 device": (
            partial(stencil_tasks.diffuse, one, x, steps, RATE, mapping=Mapping(tiles)), one
        )
    }  # fmt: skip
    given = sharded(x, devices, 0)
    for edge in (32, 128):
        y, other = (sharded(torch.full_like(x, float("nan")), devices, 0) for _ in range(2))
        node = Instance(
            "diffuse_strips_node", processor="node", tunables={"devices": devices, "edge": edge}
        )
        mapping = Mapping(node, replace(tiles, name="band_grid"), devices=devices)
        found[f"{devices} devices, edges of {edge}"] = (
            partial(stencil.diffuse_strips, y, given, other, steps, RATE, mapping=mapping), y
        )  # fmt: skip
    return found


def measure_stencil(run: Any, devices: int) -> str:
    """Time the stencil; returns a line. One device is checked against float64, all others by it."""
    import torch

    from tawa.runtime.timing import Timing

    rows, columns, steps = STENCIL
    name = {"kernel": "stencil", "dtype": "fp32", "m": rows, "n": columns, "steps": steps}
    shown, expected = list[str](), None
    for config, (work, result) in stencil_works(devices).items():
        try:
            work()
            if expected is None:
                expected = result.cpu()
                first = work.args[1][: 2 * steps, :1024].cpu().double().numpy()
                exact = stencil_tasks.reference(first, steps, RATE)[:steps, : 1024 - steps]
                if abs(expected[:steps, : 1024 - steps].numpy() - exact).max() > 1e-4:
                    raise ValueError("wrong on one device")
            elif not torch.equal(torch.cat([s.cpu() for s in result.shards]), expected):
                raise ValueError("not what one device computes")
            timing = Timing(tuple(times(work, devices, 6)))
        except Exception as failure:
            run.add(name, "tawa", None, config=config, error_text=str(failure).splitlines()[0])
            continue
        run.add(name, "tawa", timing, config=config, bytes=8 * rows * columns * steps)
        shown.append(f"{config} {timing.median:.3f} ms")
    return f"stencil {rows}x{columns}, {steps} steps: {', '.join(shown)}"


def dry_run(chosen: list[Case], devices: int) -> None:
    """Small sizes in the simulator, under every mapping."""
    import numpy as np

    for case in chosen:
        size = 16 * devices * 8
        c, a, b, exact = programs.operands(size, size, 128)
        for config, mapping in case.mappings(devices):
            given = [
                programs.shards(x, devices, dim)
                for x, dim in zip((c, a, b), case.dims, strict=True)
            ]
            run = getattr(programs, case.name)(*given, mapping=mapping)
            error = float(np.abs(programs.gathered(given[0]) - exact).max())
            copies = sum("copy" in work.text for work in run.works)
            print(f"{case.name}, {config}: {copies} copies, error {error:.3f}", flush=True)


def main() -> None:
    """Measure what was chosen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="programs, by default all")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--rows", type=Path, help="folder for the rows")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds for cases")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    chosen = [case for case in cases() if not options.names or case.name in options.names]
    if options.dry_run:
        dry_run(list({case.name: case for case in chosen}.values()), options.devices)
        return
    import torch
    from rows import Run

    torch.manual_seed(0)
    run = Run("tasks-devices", options.rows)
    lines, end = list[str](), time.monotonic() + options.limit
    for case in chosen:
        if time.monotonic() < end:
            lines.append(measure(run, case, options.devices))
            print(lines[-1], flush=True)
    if not options.names or "stencil" in options.names:
        lines.append(measure_stencil(run, options.devices))
        print(lines[-1], flush=True)
    print("\n".join(["", *lines]))


if __name__ == "__main__":
    main()
