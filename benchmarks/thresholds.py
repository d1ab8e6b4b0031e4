"""What a figure of the machine is worth: kernels' times with half and with twice of it.

    python benchmarks/thresholds.py                         # all figures below, on a GPU
    python benchmarks/thresholds.py --figures thresholds.address_work

A threshold that no probe can measure is measured by what it decides. The kernels of
`benchmarks/same_source.py` are compiled with the figure and with another one, each in a process of
its own with the figure set before the compiler is imported. Those whose machine code differs are
timed, one process at a time; the others owe it nothing. A row has the times of one kernel with one
figure; the table shows, for each, how many kernels it changes, and their least and largest time in
parts of what they take as the machine is.
"""

from __future__ import annotations

import argparse
import ast
import fcntl
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FIGURES: dict[str, tuple[Any, ...]] = {
    "costs.matrix_lead": (12, 50),
    "costs.matrix_tail": (15, 60),
    "scheduling.issue": (1, 6),
    "scheduling.combine": (3, 12),
    "scheduling.branch": (4, 16),
    "thresholds.exchange_gain": (1.25, 5.0),
    "thresholds.occupancy_cuts": ((0.2, 0.225), (0.2, 0.9)),
    "thresholds.address_work": (75, 300),
    "thresholds.hiding_slots": (4, 16),
    "thresholds.shared_slots": (2, 6),
}
"""Half and twice of each."""

KERNELS = (
    "attention 64 1024 False", "attention 64 2048 True", "attention 128 2048 False",
    "attention 128 2048 True", "matmul_pointers 4096 4096 4096", "linear_attention 64 4096 132",
    "attention_dkdv 64 1024 128", "attention_dq 64 1024 128", "paged_decode 64 1024 32",
    "window_attention 4096 128 64", "moe_gather 1024 4096 2048 8",
    "fp8_block_scaled 1024 8192 2048", "block_scaled_fp8 1024 8192 2048",
    "int4_matmul 256 4096 4096", "int8_weights 256 4096 4096", "ssd_chunk_scan 131072 128 64",
    "gated_state 4096 64", "layer_norm 16384 4096", "layer_norm_forward 8192 12288",
    "cross_entropy 8192 50257", "conv1d_causal 65536 2048", "transpose_tiles 8192 8192",
    "softmax_of_columns 4096 16384", "cumulate 16384 1024", "top_k_gating 16384 256 8",
)  # fmt: skip
"""Kernel and sizes; each with the configuration of its newest row."""

NAMES = {"gemm_pointers": "matmul_pointers"}
"""Kernels that have another name than what makes their case."""


def configurations(folder: Path = HERE / "results") -> dict[str, str]:
    """The text of the configuration of each kernel that was the best when it was measured last."""
    found: dict[str, str] = {}
    for line in (folder / "same-source.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["impl"] == "tawa" and row.get("config"):
            case = dict(row["case"])
            name = case.pop("kernel")
            sizes = [v for k, v in case.items() if k not in ("source", "kind")]
            found[" ".join(map(str, (name, *sizes)))] = row["config"]
    return found


def altered(name: str, value: Any) -> None:
    """Let a figure of every chip be another, before anything that reads it is imported."""
    from tawa.machine.chips import CHIPS, SM_90A

    part, _, field = name.partition(".")
    for chip in (SM_90A, *CHIPS.values()):
        if hasattr(chip, part):
            object.__setattr__(getattr(chip, part), field, value)


def compiled(texts: list[str]) -> None:
    """Keep a hash of every text that is assembled from here on."""
    from tawa.driver import compilation
    from tawa.runtime import assemble

    for module in (compilation, assemble):
        own = module.compile_cuda

        def kept(text: str, *args: Any, _own: Any = own, **more: Any) -> Any:
            texts.append(hashlib.sha256(text.encode()).hexdigest()[:12])
            return _own(text, *args, **more)

        module.compile_cuda = kept


def works(words: list[str]) -> Iterator[tuple[str, Any, list[str]]]:
    """Every kernel of these words, launched once: its name, the launch, the hashes of its texts."""
    import same_source
    import torch
    from same_source_case import compiled_by, descriptors_of

    texts: list[str] = []
    compiled(texts)
    configs = configurations()
    wanted = [name for name in KERNELS if any(word in name for word in words)]
    for make in same_source.CASES:
        name = " ".join(map(str, (NAMES.get(make.func.__name__, make.func.__name__), *make.args)))
        if name not in wanted:
            continue
        case = make()
        texts.clear()
        config = next((c for c in case.configurations if str(c) == configs.get(name)), None)
        config = config or case.configurations[0]
        function = compiled_by("tawa", case.function)
        work = case.launch(function, descriptors_of("tawa"), config)
        work()
        torch.cuda.synchronize()
        yield name, work, list(texts)


def one(folder: Path, label: str, words: list[str]) -> None:
    """Compile all kernels in this process, then time those that differ from the plain ones."""
    from tawa.runtime.timing import Stopwatch

    made = {name: (work, texts) for name, work, texts in works(words)}
    (folder / f"{label}.texts").write_text(json.dumps({n: t for n, (_, t) in made.items()}))
    plain = folder / "plain.texts"
    while not plain.exists():
        time.sleep(0.2)
    time.sleep(0.2)
    known = json.loads(plain.read_text())
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        watch = Stopwatch()
        times: dict[str, float] = {}
        for name, (work, texts) in made.items():
            if label.startswith("plain") or texts != known.get(name):
                watch.times_for(work, 0.01)
                times[name] = statistics.median(watch.times_for(work, 0.04))
        (folder / f"{label}.times").write_text(json.dumps(times))


def start(
    folder: Path, words: str, label: str, name: str = "", value: Any = None
) -> subprocess.Popen[bytes]:
    """A process that compiles and times with one figure altered."""
    command = [sys.executable, __file__, "--one", label, "--folder", str(folder)]
    command += ["--kernels", words]
    command += ["--set", f"{name}={value!r}"] if name else []
    environment = {**os.environ, "TAWA_CACHE_DIR": str(folder / f"cache-{label.split()[0]}")}
    log = (folder / f"{label}.log").open("w")
    return subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)


def compare(folder: Path, words: str, figures: list[str], rows: Path | None) -> None:
    """Run all processes, print the table and keep the rows."""
    from rows import commit

    from tawa.runtime import driver

    running = [start(folder, words, "plain")]
    jobs = {f"{f.partition('.')[2]}-{n}": (f, v)
            for f in figures for n, v in enumerate(FIGURES[f])}  # fmt: skip
    running += [start(folder, words, label, f, v) for label, (f, v) in jobs.items()]
    for process in running:
        process.wait()
    start(folder, words, "plain again").wait()
    before, after = (read(folder / f"{name}.times") for name in ("plain", "plain again"))
    noise = [after[n] / before[n] - 1 for n in after if n in before]
    print(f"the same kernels, timed twice: {100 * min(noise, default=0):+.1f}% to "
          f"{100 * max(noise, default=0):+.1f}%")  # fmt: skip
    for label, (figure, value) in jobs.items():
        times = read(folder / f"{label}.times")
        own = {n: (before[n] + after[n]) / 2 for n in times if n in before and n in after}
        parts = sorted((times[n] / own[n], n) for n in own)
        shown = ", ".join(f"{part:.3f} {name}" for part, name in parts)
        print(f"{figure} = {value}: {len(parts)} kernels; {shown}", flush=True)
        if rows is not None:
            with (rows / "thresholds.jsonl").open("a") as out:
                for n in own:
                    row = {"suite": "thresholds", "device": driver.device(0).name,
                           "commit": commit(), "case": {"kernel": n, "figure": figure},
                           "value": value, "ms": times[n], "ms_plain": own[n]}  # fmt: skip
                    out.write(json.dumps(row) + "\n")


def read(path: Path) -> dict[str, float]:
    """Times that a process wrote; none if it failed."""
    return json.loads(path.read_text()) if path.exists() else {}


def main() -> None:
    """Compare, or be one of the processes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--figures", default=",".join(FIGURES))
    parser.add_argument("--kernels", default="", help="parts of names, separated by commas")
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    parser.add_argument("--set", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="where logs are left")
    chosen = parser.parse_args()
    if chosen.one:
        sys.path.insert(0, str(HERE))
        if chosen.set:
            name, _, value = chosen.set.partition("=")
            altered(name, ast.literal_eval(value))
        one(chosen.folder, chosen.one, chosen.kernels.split(","))
        return
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="thresholds-"))
    folder.mkdir(parents=True, exist_ok=True)
    compare(folder, chosen.kernels, chosen.figures.split(","), chosen.rows)


if __name__ == "__main__":
    main()
