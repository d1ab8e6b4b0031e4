"""Tiles of convolutions, each timed beside what the model expects of it, and beside cuDNN.

    for i in 0 1 2 3; do python benchmarks/conv_tiles.py --warm $i/4 & done; wait      compile first
    python benchmarks/conv_tiles.py --passes forward,dgrad,wgrad --layers conv5,conv9
    python benchmarks/conv_tiles.py --again     what was kept beside the model of now, no device

Of each kind of tile (kernel, pixels, filters, options) the best by the model, the fastest `--count`
of them, are timed as in `conv.py`. Rows, one for each tile with its `config`, are what the terms of
`convolution/plans.py` and `convolution/gradient_plans.py` are fitted to. What differs from cuDNN's
result by more than both may is a row with `error_text`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from conv import MAX_ERROR, Tensors, captured, error_of, ours, peers, sizes_of
from conv_cases import NETWORKS, Case, cases
from conv_launches import warmed

from tawa.kernels import conv_planes
from tawa.kernels.conv import few_channels, in_rows, pitch_of_rows
from tawa.kernels.conv_arguments import Finish
from tawa.kernels.convolution.depthwise_plans import Runs, ordered
from tawa.kernels.convolution.gradient_plans import Sharing, sharings
from tawa.kernels.convolution.plans import Tiling, ranked
from tawa.kernels.convolution.shapes import Convolution
from tawa.kernels.gemm_operands import PIECE
from tawa.machine.chips import H100, Chip, chip_of

SUITE, SIZE = "conv-tiles", 2
RESULTS = Path(__file__).parent / "results" / f"{SUITE}.jsonl"


def turned(conv: Convolution) -> Convolution:
    """The convolution that is the gradient of images of one with stride 1."""
    down, across = (
        (gap * (taps - 1) - before, gap * (taps - 1) - after)
        for gap, taps, (before, after) in zip(
            conv.dilation, (conv.r, conv.s), conv.pad, strict=True
        )
    )
    return Convolution(
        conv.n, conv.p, conv.q, conv.k, conv.c, conv.r, conv.s, (1, 1), (down, across),
        conv.dilation, conv.groups,
    )  # fmt: skip


def of(case: Case, what: str) -> Convolution:
    """The convolution that a pass of a layer is, or whose filters it is the gradient of."""
    conv = sizes_of(case)
    if few_channels(conv):
        return in_rows(conv, pitch_of_rows(conv, PIECE // SIZE)[0])
    return turned(conv) if what == "dgrad" and conv.stride == (1, 1) else conv


def possible(case: Case, what: str) -> bool:
    """Whether one kernel that reads blocks does the pass."""
    conv = sizes_of(case)
    alone = conv.stride == (1, 1) or conv_planes.suits(conv, Finish())
    if conv.depthwise:
        return what == "forward"
    return what != "dgrad" or (alone and not few_channels(conv))


def candidates(conv: Convolution, what: str, chip: Chip) -> Iterator[Tiling | Sharing | Runs]:
    """The best tiles of each kind by the model, the fastest first."""
    seen: set[Any] = set()
    if conv.depthwise:
        for way in ordered(conv, chip, SIZE):
            kind = way.each, way.channels, way.rows > 0, (way.rows * way.run).bit_length()
            if kind not in seen:
                seen.add(kind)
                yield way
        return
    if what == "wgrad":
        ways = sorted(sharings(conv, chip), key=lambda way: way.microseconds(conv, chip, SIZE))
        for way in ways:
            spread = (way.tile[0] > 2) + (way.tile[0] > 16)
            kind = way.taps, way.filters, way.channels, way.windows, spread
            if kind not in seen:
                seen.add(kind)
                yield way
        return
    planes = what == "dgrad" and conv.stride != (1, 1)
    found = conv_planes.ordered(conv, chip, SIZE, SIZE) if planes else ranked(conv, chip, SIZE)
    for tiling in found:
        spread = planes and tiling.images
        shape = tiling.kernel, tiling.pixels, tiling.filters, tiling.options
        kind = *shape, tiling.split, tiling.last is None, spread
        if kind not in seen:
            seen.add(kind)
            yield tiling
            if planes:
                yield replace(tiling, options=(("persistent", False),))


def chosen(case: Case, what: str, count: int, chip: Chip) -> list[Tiling | Sharing | Runs]:
    """The first of them."""
    return list(islice(candidates(of(case, what), what, chip), count))


def expected_us(tile: Tiling | Sharing | Runs, conv: Convolution, chip: Chip, what: str) -> float:
    """What the model expects."""
    if isinstance(tile, Tiling) and what == "dgrad" and conv.stride != (1, 1):
        return conv_planes.microseconds(tile, conv, chip, SIZE, SIZE)
    return tile.microseconds(conv, chip, SIZE)


def measure(run: Any, case: Case, what: str, options: Any) -> None:
    """Time the tiles of one pass of a layer, in turn with cuDNN."""
    import torch

    from tawa.kernels.convolution.kernels import conv_taps
    from tawa.runtime.timing import Stopwatch, interleaved

    chip, conv = conv_taps.chip, of(case, what)
    t, row = Tensors(case, "fp16", bias=False), case.row(what, bias=False, dtype="fp16")
    peer = peers(case, t, what, compiled=False)["cudnn"]
    expected, works = peer().double(), {"cudnn": captured(peer)}
    tiles = {str(tile): tile for tile in chosen(case, what, options.count, chip)}
    for name, tile in tiles.items():
        try:
            work = ours(case, t, what, tile)
            if (error := error_of(work(), expected)) > 2 * MAX_ERROR["fp16"]:
                raise ArithmeticError(f"relative error {error:.1e}: not timed")
            works[name] = captured(work)
        except Exception as problem:
            run.add(row, name, None, error_text=f"{type(problem).__name__}: {problem}"[:200])
    with run.sampler.sampling():
        times = interleaved(
            works, soak=options.soak, window=options.window, on_turn=run.sampler.turn,
            watch=Stopwatch(),
        )  # fmt: skip
    print(f"{case.layer} N={case.x[0]} {what}: cudnn {times['cudnn'].median * 1e3:.1f}", flush=True)
    for name, timing in times.items():
        tile = tiles.get(name)
        model = round(expected_us(tile, conv, chip, what), 2) if tile else None
        impl = "tawa" if tile else "cudnn"
        config = name if tile else None
        run.add(row, impl, timing, config=config, model_us=model, **run.sampler.readings(name))
        if tile:
            print(f"    {timing.median * 1e3:8.1f} model {model} {name}", flush=True)
    del t, works
    torch.cuda.empty_cache()


def again() -> None:
    """What was kept, beside what the model expects now."""
    groups: dict[str, list[tuple[float, float, str]]] = {}
    errors: list[float] = []
    for line in RESULTS.read_text().splitlines():
        row = json.loads(line)
        if row["impl"] != "tawa" or "ms" not in row:
            continue
        tile: Any = eval(row["config"], {"Tiling": Tiling, "Sharing": Sharing, "Runs": Runs})
        given = row["case"]
        case = _case(given)
        chip = chip_of(row["device"]) or H100
        model = expected_us(tile, of(case, given["pass"]), chip, given["pass"])
        key = f"{given['layer']} {given['pass']} N={given['x'][0]} {row['device']}"
        groups.setdefault(key, []).append((row["ms"] * 1e3, model, row["config"]))
        if not math.isnan(model):
            errors.append(math.log(model / row["ms"] / 1e3))
    for key, found in groups.items():
        best = min(found)[0]
        taken = min(found, key=lambda f: f[1])[0]
        print(f"{key}: the model's first takes {taken / best:.2f} of the fastest")
        for time, model, config in sorted(found):
            print(f"    {time:8.1f} model {model:8.1f} {model / time:5.2f} {config}")
    mean = math.sqrt(sum(e * e for e in errors) / len(errors))
    print(f"{len(errors)} tiles, root mean square of the model's error {mean:.3f}")


def _case(given: dict[str, Any]) -> Case:
    pad: Any = given["pad"]
    sides = len(given["x"]) - 2
    pads: Any = tuple(map(tuple, pad)) if isinstance(pad, list) else ((pad, pad),) * sides
    return Case(
        given["layer"], tuple(given["x"]), tuple(given["w"]), given["stride"], pads, given["groups"]
    )


def arguments() -> Any:
    """What was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", default="twelve", choices=NETWORKS)
    parser.add_argument("--layers", default="", help="comma-separated parts of names")
    parser.add_argument("--images", type=int, default=128)
    parser.add_argument("--passes", default="forward", help="forward,dgrad,wgrad")
    parser.add_argument("--count", type=int, default=10, help="tiles of each pass")
    parser.add_argument("--warm", default="", help="i/N: only compile, of N shares number i")
    parser.add_argument("--again", action="store_true", help="the model beside kept rows")
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--soak", type=float, default=0.03)
    parser.add_argument("--window", type=float, default=0.03)
    return parser.parse_args()


def main() -> None:
    """Run the suite."""
    options = arguments()
    if options.again:
        again()
        return
    wanted = [part for part in options.layers.split(",") if part]
    found = list(cases(options.network, [options.images]))
    if wanted:
        found = [c for p in wanted for c in found if p in (c.layer, *c.layer.split())]
    works = [(c, what) for what in options.passes.split(",") for c in found if possible(c, what)]
    if options.warm:
        from tawa.kernels.convolution.kernels import conv_taps

        chip = conv_taps.chip
        jobs = [(c, w, tile) for c, w in works for tile in chosen(c, w, options.count, chip)]
        warmed(jobs, "fp16", options.warm)
        return
    import torch
    from rows import Run

    torch.backends.cudnn.benchmark = True
    run = Run(SUITE, options.rows)
    for case, what in works:
        measure(run, case, what, options)


if __name__ == "__main__":
    main()
