"""Linear layers of ten open models at 1 to 4096 rows: the library's GEMM beside cuBLAS.

    python benchmarks/gemm_layers.py [--rows FOLDER] [--every N --first I] [--candidates N]

y = x W^T in bf16, x [M, K], W [N, K]. Contenders: what `tawa.kernels.gemm.matmul` chooses (`tawa`,
choice `default`), the fastest of the configurations that its model ranks first (choice `tuned`),
the first algorithm of cuBLASLt's heuristic through PyTorch (`cublas`), and the fastest of all that
the heuristic returns (`cublaslt-best`). Kernels are compiled first, in processes; results are
compared with fp32 products before they are timed; contenders take turns. `--brief FILE` keeps
the short timings of all candidates, which the model's terms can be fitted to.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from rows import Run

from tawa.kernels.gemm import matmul
from tawa.kernels.gemm_configurations import Configuration, Product, fastest, ranked
from tawa.runtime.timing import Stopwatch, interleaved

LAYERS = {
    "Llama-3.2-1B": [(3072, 2048), (2048, 2048), (16384, 2048), (2048, 8192)],
    "Llama-3.1-8B": [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)],
    "Llama-3.1-70B": [(10240, 8192), (8192, 8192), (57344, 8192), (8192, 28672)],
    "Qwen2.5-7B": [(4608, 3584), (3584, 3584), (37888, 3584), (3584, 18944)],
    "Qwen3-32B": [(10240, 5120), (5120, 8192), (51200, 5120), (5120, 25600)],
    "Mistral-Nemo-12B": [(6144, 5120), (5120, 4096), (28672, 5120), (5120, 14336)],
    "Gemma-2-9B": [(8192, 3584), (3584, 4096), (28672, 3584), (3584, 14336)],
    "Phi-3-mini": [(9216, 3072), (3072, 3072), (16384, 3072), (3072, 8192)],
    "OLMo-2-7B": [(12288, 4096), (22016, 4096), (4096, 11008)],
    "DeepSeek-V3": [(24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048)],
}
"""[N, K] of the weights: queries with keys and values, outputs, gates with values, down."""
ROWS = (1, 16, 128, 512, 4096), (4, 32, 64, 256, 2048)
"""Rows of x, in turn from layer to layer."""
MAX_ERROR = 8e-3
BRIEF = 3, 10
"""Executions of each candidate in each round that warm up, and that rank it by their median."""
ROUNDS = 3
"""Rounds of short timings, forward and backward in turn."""
AWAKE = 0.12
"""Seconds of work before anything is timed: an idle device has lowered its clock."""
TUNED = 6
"""Configurations that a search over the model's ranking measures."""


@dataclass(frozen=True)
class Layer:
    """M rows of x by a weight [N, K] of a model."""

    model: str
    m: int
    n: int
    k: int

    @property
    def row(self) -> dict[str, Any]:
        """What the result rows say of it."""
        return {**vars(self), "dtype": "bf16", "layout": "NT", "accumulate": "fp32"}

    @property
    def product(self) -> Product:
        """What the model of tiles is asked about."""
        return Product(self.m, self.n, self.k)

    @property
    def flops(self) -> int:
        """Operations."""
        return 2 * self.m * self.n * self.k

    def candidates(self, count: int) -> list[Configuration]:
        """What `matmul` chooses, then what its model ranks first."""
        chosen = fastest(self.product)
        return [chosen, *(c for c in ranked(self.product, count) if c != chosen)]


def layers() -> list[Layer]:
    """All cases."""
    weights = [(model, *shape) for model, shapes in LAYERS.items() for shape in shapes]
    return [
        Layer(model, m, n, k)
        for i, (model, n, k) in enumerate(weights)
        for m in ROWS[i % len(ROWS)]
    ]


def compile_one(of: tuple[Layer, Configuration]) -> str:
    """Compile what `matmul` launches into the cache, touching no device; what went wrong."""
    from tawa.driver.jit import Kernel

    layer, config = of
    launch = Kernel._launch  # pyright: ignore
    try:
        Kernel._launch = lambda self, grid, /, *args, **kwargs: self.compile(*args, **kwargs)  # pyright: ignore
        a, w, c = (
            np.empty(shape, ml_dtypes.bfloat16)
            for shape in ((layer.m, layer.k), (layer.n, layer.k), (layer.m, layer.n))
        )
        matmul(a, w.T, c, config)
    except Exception as error:  # a candidate that does not fit is none
        return f"{layer} {config}: {type(error).__name__}: {error}"[:300]
    finally:
        Kernel._launch = launch  # pyright: ignore
    return ""


def problem(layer: Layer) -> tuple[Any, Any, Any, Any]:
    """x, W, y and the exact product."""
    import torch

    a = torch.randn((layer.m, layer.k), device="cuda").bfloat16()
    w = torch.randn((layer.n, layer.k), device="cuda").bfloat16()
    exact = a.float() @ w.float().T
    return a, w, torch.empty(exact.shape, device="cuda", dtype=torch.bfloat16), exact


def error_of(c: Any, exact: Any, work: Callable[[], Any]) -> float:
    """The relative error of what `work` writes to `c`, which is poisoned first."""
    c.fill_(math.nan)
    work()
    return ((c.float() - exact).norm() / exact.norm()).item()


def right(
    c: Any, exact: Any, works: dict[str, Callable[[], Any]], run: Run, layer: Layer
) -> Iterator[str]:
    """Names of those that compute the product; the others get a row that says why not."""
    for name, work in works.items():
        try:
            error = error_of(c, exact, work)
        except Exception as failure:  # a peer may raise anything
            run.add(layer.row, name, None, error_text=f"{type(failure).__name__}: {failure}"[:300])
            continue
        if error < MAX_ERROR:
            yield name
        else:
            run.add(layer.row, name, None, error_text=f"wrong result: {error}")
            print(f"{layer}: {name} is wrong: {error}", flush=True)


def brief(works: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Short times, in milliseconds, of contenders in turn."""
    watch, times, names = Stopwatch(), {name: list[float]() for name in works}, list(works)
    watch.times_for(works[names[-1]], AWAKE)
    for turn in range(ROUNDS):
        for name in names[:: -1 if turn % 2 else 1]:
            watch.times(works[name], BRIEF[0])
            times[name] += watch.times(works[name], BRIEF[1])
    return {name: statistics.median(found) for name, found in times.items()}


def measure(run: Run, layer: Layer, options: argparse.Namespace) -> dict[str, float]:
    """Time one layer; cuBLAS's times over the library's."""
    import torch
    from cublaslt import proposals

    a, w, c, exact = problem(layer)
    configs = {f"tawa {i}": x for i, x in enumerate(layer.candidates(options.candidates))}
    works: dict[str, Callable[[], Any]] = {
        name: lambda config=config: matmul(a, w.T, c, config) for name, config in configs.items()
    }
    works |= {f"cublaslt {i}": work for i, work in enumerate(proposals(a, w, c))}
    works = {name: works[name] for name in right(c, exact, works, run, layer)}
    times = brief(works)
    if options.brief is not None:
        keep_brief(options.brief, layer, configs, times)
    best = {
        kind: min((x for x in times if x.startswith(kind)), key=times.__getitem__)
        for kind in ("tawa", "cublaslt")
    }
    final = {
        "default": lambda: matmul(a, w.T, c),
        "tuned": works[best["tawa"]],
        "cublas": lambda: torch.mm(a, w.T, out=c),
        "cublaslt-best": works[best["cublaslt"]],
    }
    if "tawa 0" not in works:
        del final["default"]
    found = interleaved(final, rounds=2, soak=options.soak, window=options.window)
    for name, timing in found.items():
        more: dict[str, Any] = {"error": {"reference": "fp32"}}
        if name in ("default", "tuned"):
            config = configs["tawa 0" if name == "default" else best["tawa"]]
            more |= {"choice": name, "config": str(config)}
        impl = "tawa" if name in ("default", "tuned") else name
        run.add(layer.row, impl, timing, flops=layer.flops, **more)
    ours = {name: found[name].median for name in ("default", "tuned") if name in found}
    ratios = {
        f"{name}/{peer}": found[peer].median / time
        for name, time in ours.items()
        for peer in ("cublas", "cublaslt-best")
    }
    text = "  ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items())
    print(
        f"{layer.m:5} x {layer.n:5} x {layer.k:5} {min(ours.values()) * 1e3:8.1f} us  {text}",
        flush=True,
    )
    return ratios


def keep_brief(
    file: Path, layer: Layer, configs: dict[str, Configuration], times: dict[str, float]
) -> None:
    """Append the short timings of a layer's candidates."""
    found = [
        {"config": vars(configs[name]) if name in configs else name, "us": round(time * 1e3, 2)}
        for name, time in times.items()
    ]
    with file.open("a") as out:
        out.write(json.dumps({**vars(layer), "times": found}) + "\n")


def main() -> None:
    """Measure the layers and write their rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument("--every", type=int, default=1, help="every how many cases one is measured")
    parser.add_argument("--candidates", type=int, default=TUNED, help="that a search measures")
    parser.add_argument("--brief", type=Path, help="file of all candidates' short timings")
    parser.add_argument("--soak", type=float, default=0.05)
    parser.add_argument("--window", type=float, default=0.05)
    parser.add_argument("--jobs", type=int, help="processes that compile")
    parser.add_argument("--compile-only", action="store_true")
    options = parser.parse_args()
    cases = layers()[options.first :: options.every]
    pairs = [(layer, config) for layer in cases for config in layer.candidates(options.candidates)]
    pairs += [(layer, None) for layer in cases]
    with ProcessPoolExecutor(options.jobs) as pool:
        for text in filter(None, pool.map(compile_one, pairs, chunksize=2)):
            print(text, flush=True)
    if options.compile_only:
        return
    import torch

    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    torch.backends.cuda.matmul.allow_tf32 = False
    run, found = Run("gemm-layers", options.rows), dict[str, list[float]]()
    for layer in cases:
        for name, ratio in measure(run, layer, options).items():
            found.setdefault(name, []).append(ratio)
    for name, ratios in found.items():
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{name}: {len(ratios)} layers, geometric mean {mean:.3f}, least {min(ratios):.3f}")


if __name__ == "__main__":
    main()
