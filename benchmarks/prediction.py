"""Predicted against measured times: every timed Tawa row of the GEMM and attention suites.

    python benchmarks/prediction.py                # print the table, write benchmarks/results
    python benchmarks/prediction.py --suites gemm --depths 256,16384

Needs no GPU: kernels are compiled from the rows' configurations and replayed by the timing model
(`tawa.simulate.predict_launch`). Nothing is fitted here. The clock is an input: the clock inside
the kernel where a row has it (`kernel_clock_mhz`, of suites `clocks` and `costs`), else
what NVML read (`clock_mhz`) times a factor: that of the product of suite `costs`, measured after
as long a soak, that takes most nearly as long. Each row of the table says which.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gemm_kernels as kernels
import ml_dtypes
import numpy as np
from rows import commit

import tawa
from tawa.kernels import attention as attention_kernels
from tawa.simulate import LaunchPrediction, predict_launch

RESULTS = Path(__file__).parent / "results"
SUITES = ("clocks", "gemm", "gemm-ablation")
UNDISTURBED = 1.05
"""Rows of suite `costs` are left out if the probe made the kernel this much slower."""
SIZE, TOKENS = 8192, 16384
"""Of the products and of the attentions in suite `costs`."""
TYPES = {"fp16": "f16", "bf16": "bf16"}

Row = dict[str, Any]
Launch = tuple[Any, Any, list[Any]]
"""A compiled kernel, its grid, and its run-time arguments."""


@dataclass(frozen=True)
class Compared:
    """A row and what the model says of it."""

    row: Row
    clock_mhz: float
    clock_source: str
    prediction: LaunchPrediction
    seconds: float
    """That the prediction took."""

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.prediction.seconds * 1e3 / self.row["ms"] - 1


def gemm_launch(case: Row, config: str, timeline: bool | str = False) -> Launch:
    """The launch of a row of the GEMM suites; its configuration is `contenders.Tile`'s text."""
    blocks, group, *rest = config.split()
    m, n, k = map(int, blocks.split("x"))
    options: dict[str, Any] = {}
    for part in rest[0].split(",") if rest else ():
        name, _, value = part.partition("=")
        options[name] = ast.literal_eval(value)
    sizes = case["m"], case["n"], case["k"]
    type_ = TYPES[case["dtype"]]
    compiled = _gemm_kernel().compile(
        *(f"desc<{type_},{a}x{b}>" for a, b in ((m, k), (n, k), (m, n))),
        *("i32:16",) * 3,
        BLOCK_M=m,
        BLOCK_N=n,
        BLOCK_K=k,
        GROUP_M=int(group[1:]),
        timeline=timeline,
        **options,
    )
    describe = tawa.TensorDescriptor.from_tensor
    shapes = (sizes[0], sizes[2]), (sizes[1], sizes[2]), (sizes[0], sizes[1])
    arrays = [np.empty(shape, np.float16) for shape in shapes]
    boxes = [m, k], [n, k], [m, n]
    described = [describe(a, b) for a, b in zip(arrays, boxes, strict=True)]
    grid = (tawa.cdiv(sizes[0], m) * tawa.cdiv(sizes[1], n),)
    return compiled, grid, [*described, *sizes]


def _gemm_kernel(found: list[Any] = []) -> Any:  # noqa: B006 (made once)
    if not found:
        found.append(tawa.jit(kernels.gemm))
    return found[0]


def attention_launch(case: Row, config: str, timeline: bool | str = False) -> Launch:
    """The launch of a row of the attention suite: what the library's function would launch.

    An empty configuration is the library's own choice.
    """
    using = None
    if config:
        _, blocks, options = config.split(maxsplit=2)
        sizes = map(int, blocks.split("x"))
        using = attention_kernels.Configuration(*sizes, ast.literal_eval(options))
    batch = max(1, TOKENS // case["rows"]) if case.get("dtype") else 1
    shape = batch, case["rows"], case["heads"] // batch, case["d"]
    type_ = np.float16 if case.get("dtype", "fp16") == "fp16" else ml_dtypes.bfloat16
    arrays = [np.empty(shape, type_).swapaxes(1, 2) for _ in range(4)]
    kernel = attention_kernels.attention_forward
    return recorded(
        kernel,
        lambda: attention_kernels.attention(*arrays, causal=case["causal"], using=using),
        timeline=timeline,
    )


def recorded(kernel: Any, call: Callable[[], Any], **options: Any) -> Launch:
    """The launch of `kernel` that a call makes, instead of running it."""
    found: list[Launch] = []

    def record(grid: Any, *args: Any, **keywords: Any) -> Any:
        names = [parameter.name for parameter in kernel.parameters]
        named = dict(zip(names, args, strict=False)) | keywords
        compiled = kernel.compile(*args, **keywords, **options)
        values = [named[name] for name in compiled.spec.arguments]
        found.append((compiled, grid, values))
        return compiled

    kernel._launch = record
    try:
        call()
    finally:
        del kernel._launch
    return found[0]


def costs_launch(case: Row, config: str, timeline: bool | str = False) -> Launch:
    """The launch of a kernel whose clock was read in it (`kernel_clocks`)."""
    if case["kernel"] == "gemm":
        sizes = {"m": SIZE, "n": SIZE, "k": case["k"], "dtype": "fp16"}
        return gemm_launch(sizes, config, timeline)
    heads = TOKENS // case["rows"] * 2048 // case["d"]
    return attention_launch({**case, "heads": heads}, f"tawa {config}", timeline)


def clocks_launch(case: Row, config: str, timeline: bool | str = False) -> Launch:
    """The launch of a kernel whose time and clock were read together (`launch_clocks`)."""
    launch = attention_launch if "d" in case else gemm_launch
    return launch(case, config, timeline)


LAUNCHES = {
    "clocks": clocks_launch,
    "gemm": gemm_launch,
    "gemm-ablation": gemm_launch,
    "attention": attention_launch,
    "costs": costs_launch,
}


def rows(suites: tuple[str, ...], folder: Path = RESULTS) -> Iterator[Row]:
    """Tawa's timed rows of each suite's latest run."""
    for suite in suites:
        path = folder / f"{suite}.jsonl"
        found = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
        latest = {kind_of(row): row["run"] for row in found}
        for row in found:
            timed = row["impl"] == "tawa" and "ms" in row
            if row["run"] == latest[kind_of(row)] and timed and row["case"].get("dtype") != "fp8":
                if "ms_beside_probe" not in row:
                    yield row
                elif row["ms_beside_probe"] < UNDISTURBED * row["ms"]:
                    config = {"config": row["case"]["config"], "ms": row["ms_beside_probe"]}
                    yield {**row, **config}


def kind_of(row: Row) -> str:
    """What a row is about: runs may measure attentions and products apart."""
    return "attention" if "d" in row["case"] else "other"


def compare(row: Row) -> Compared:
    """Predict a row's time at the clock that it states."""
    compiled, grid, args = LAUNCHES[row["suite"]](row["case"], row["config"])
    clock, source = clock_of(row)
    start = time.process_time()
    found = predict_launch(compiled.module("hopper"), grid, args, clock_ghz=clock / 1e3)
    return Compared(row, clock, source, found, time.process_time() - start)


def clock_of(row: Row) -> tuple[float, str]:
    """The clock that a row's prediction takes (MHz), and where it comes from."""
    if row.get("kernel_clock_mhz"):
        return float(row["kernel_clock_mhz"]), "in the kernel"
    factor = nvml_factor(row["ms"])
    return factor * row["clock_mhz"], f"{factor:.2f} NVML"


def nvml_factor(ms: float) -> float:
    """The clock inside a product that takes about as long, over NVML's reading of it."""
    found = map(json.loads, (RESULTS / "costs.jsonl").read_text().splitlines())
    known = [row for row in found if row["case"].get("kernel") == "gemm"]
    row = min(known, key=lambda row: abs(math.log(row["ms"] / ms)))
    return row["kernel_clock_mhz"] / row["clock_mhz"]


def line(found: Compared) -> str:
    """One row of the printed table."""
    case = found.row["case"]
    names = ("dtype", "d", "k", "rows", "causal", "step")
    what = " ".join(f"{n}={case[n]}" for n in names if n in case)
    predicted = found.prediction
    return (
        f"{found.row['suite']:9} {what:34} {found.row['config'][:44]:44} "
        f"{found.clock_mhz:5.0f} {found.clock_source:13} {found.row['ms'] * 1e3:8.1f} "
        f"{predicted.us:8.1f} {found.error:+7.1%} {predicted.bound:8} {found.seconds:.2f} s"
    )


def summary(found: list[Compared]) -> str:
    """Geometric mean of predicted over measured, mean and largest error, by suite."""
    lines: list[str] = []
    for suite in dict.fromkeys(c.row["suite"] for c in found):
        errors = [c.error for c in found if c.row["suite"] == suite]
        mean = math.exp(sum(math.log1p(e) for e in errors) / len(errors))
        size = sum(map(abs, errors)) / len(errors)
        worst = max(errors, key=abs)
        inside = sum(abs(e) <= 0.15 for e in errors)
        lines.append(
            f"{suite}: {len(errors)} rows, predicted / measured {mean:.3f} (geometric mean), "
            f"mean error {size:.1%}, largest {worst:+.1%}, {inside} within 15%"
        )
    return "\n".join(lines)


def record_of(found: Compared, now: datetime) -> Row:
    """The row that is written; all rows of one call share `now`."""
    row, predicted = found.row, found.prediction
    return {
        "run": f"{now:%Y%m%d-%H%M%S}-prediction",
        "suite": "prediction",
        "of": {key: row[key] for key in ("run", "suite", "commit")},
        "device": row["device"],
        "commit": commit(),
        "versions": row["versions"],
        "date": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "case": row["case"],
        "impl": row["impl"],
        "config": row["config"],
        "clock_mhz": found.clock_mhz,
        "clock_source": found.clock_source,
        "ms": row["ms"],
        "predicted_ms": round(predicted.seconds * 1e3, 6),
        "error": round(found.error, 4),
        "bound": predicted.bound,
        "shares": {name: round(share, 3) for name, share in predicted.shares.items()},
    }


def main() -> None:
    """Predict all chosen rows; print them, and write them unless told not to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--rows", type=Path, default=RESULTS, help="folder of the rows to read")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    options = parser.parse_args()
    found: list[Compared] = []
    for row in rows(tuple(options.suites.split(",")), options.rows):
        found.append(compare(row))
        print(line(found[-1]), flush=True)
    print(summary(found))
    if not options.dry:
        now = datetime.now(UTC)
        texts = [json.dumps(record_of(c, now)) + "\n" for c in found]
        (options.rows / "prediction.jsonl").write_text("".join(texts))


if __name__ == "__main__":
    main()
