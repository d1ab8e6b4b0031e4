"""The same kernels under Triton and under Tawa: source, grid and configurations are the same.

    python benchmarks/same_source.py [--only attention] [--rows FOLDER]
    python benchmarks/same_source.py --share 0/8 --untimed    # compiles and checks an eighth

Each kernel runs at three sizes or more. Both compilers get every configuration of its list; the
best of each is timed beside the other's, in turn, in one process. Operators of `fla-core` and
`liger-kernel` are among the cases where these packages are installed. A kernel that fails gets a
row that says so, and the others run.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gemm_kernels
import same_source_case
import same_source_kernels as kernels
import same_source_memory
import same_source_products
import same_source_variety
import torch
from rows import Run
from same_source_case import DEVICE, Case, compiled_by, descriptors_of, random

from tawa.driver.variants import settle
from tawa.runtime.timing import Stopwatch, interleaved

Work = Callable[[], Any]


def attention(d: int, rows: int, causal: bool) -> Case:
    """Attention forward, fp16, 2048 columns of heads in all and 16384 rows."""
    heads = 16384 // rows * (2048 // d)
    q, k, v = (random(heads * rows, d) for _ in range(3))
    out = torch.empty_like(q)

    def launch(function: Any, descriptor: Any, config: dict[str, Any]) -> Any:
        config = dict(config)
        m, n = config.pop("BLOCK_M"), config.pop("BLOCK_N")
        made = [descriptor.from_tensor(x, [b, d]) for x, b in ((q, m), (k, n), (v, n), (out, m))]
        return partial(
            function[(rows // m, heads)], *made, rows, d**-0.5, causal, d, m, n, **config
        )

    def exact() -> torch.Tensor:
        a, b, c = (x[:rows].double() for x in (q, k, v))
        scores = a @ b.T * d**-0.5
        if causal:
            scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu_(1), -math.inf)
        return torch.softmax(scores, -1) @ c

    blocks = [(128, 128, 8, 2), (128, 64, 8, 3), (128, 64, 4, 3), (64, 64, 4, 3)]
    configurations = [
        {"BLOCK_M": m, "BLOCK_N": n, "num_warps": w, "num_stages": s}
        for m, n, w, s in blocks
        if d <= 128 or n <= 64
    ]
    sizes = {"d": d, "rows": rows, "causal": causal}
    flops = 4 * 16384 * 2048 * rows // (2 if causal else 1)
    return Case("attention", "products", sizes, kernels.attention, launch, configurations,
                out[:rows], exact, flops=flops)  # fmt: skip


GEMM_TILES = [(128, 256, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 4), (64, 256, 64, 4, 4)]


def _products(m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return random(m, k), random(n, k), torch.empty(m, n, device=DEVICE, dtype=torch.float16)


def _tiles(**more: Any) -> list[dict[str, Any]]:
    return [
        {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8, "num_warps": w, "num_stages": s}
        | more
        for m, n, k, w, s in GEMM_TILES
    ]


def gemm(m: int, n: int, k: int) -> Case:
    """A product through descriptors."""
    a, b, c = _products(m, n, k)

    def launch(function: Any, descriptor: Any, config: dict[str, Any]) -> Any:
        bm, bn, bk = (config[f"BLOCK_{x}"] for x in "MNK")
        made = [descriptor.from_tensor(x, s)
                for x, s in ((a, [bm, bk]), (b, [bn, bk]), (c, [bm, bn]))]  # fmt: skip
        return partial(function[(-(-m // bm) * -(-n // bn),)], *made, m, n, k, **config)

    return Case("gemm", "products", {"m": m, "n": n, "k": k}, gemm_kernels.gemm, launch, _tiles(),
                c[:256], lambda: a[:256].double() @ b.double().T, flops=2 * m * n * k)  # fmt: skip


def gemm_pointers(m: int, n: int, k: int) -> Case:
    """A product through pointers, B as [K, N]."""
    a, _, c = _products(m, n, k)
    b = random(k, n)

    def launch(function: Any, descriptor: Any, config: dict[str, Any]) -> Any:
        bm, bn = config["BLOCK_M"], config["BLOCK_N"]
        strides = (*a.stride(), *b.stride(), *c.stride())
        return partial(function[(-(-m // bm) * -(-n // bn),)], a, b, c, m, n, k, *strides, **config)

    return Case("matmul_pointers", "products", {"m": m, "n": n, "k": k}, kernels.matmul_pointers,
                launch, _tiles(), c[:256], lambda: a[:256].double() @ b.double(),
                flops=2 * m * n * k)  # fmt: skip


def gemm_persistent(m: int, n: int, k: int) -> Case:
    """A product through descriptors whose programs go through the tiles."""
    a, b, c = _products(m, n, k)

    def launch(function: Any, descriptor: Any, config: dict[str, Any]) -> Any:
        bm, bn, bk = (config[f"BLOCK_{x}"] for x in "MNK")
        made = [descriptor.from_tensor(x, s)
                for x, s in ((a, [bm, bk]), (b, [bn, bk]), (c, [bm, bn]))]  # fmt: skip
        return partial(function[(config["PROGRAMS"],)], *made, m, n, k, **config)

    sizes = {"m": m, "n": n, "k": k}
    return Case("gemm_persistent", "products", sizes, gemm_kernels.gemm_persistent, launch,
                _tiles(PROGRAMS=132, FLATTEN=True), c[:256],
                lambda: a[:256].double() @ b.double().T, flops=2 * m * n * k)  # fmt: skip


def linear_attention(d: int, rows: int, heads: int) -> Case:
    """Chunked linear attention, a program a head."""
    q, k, v = (random(heads * rows, d) for _ in range(3))
    q, k = q * d**-0.5, k * 0.1
    out = torch.empty_like(q)

    def launch(function: Any, descriptor: Any, config: dict[str, Any]) -> Any:
        config = dict(config)
        chunk = config.pop("C")
        made = [descriptor.from_tensor(x, [chunk, d]) for x in (q, k, v, out)]
        return partial(function[(heads,)], *made, rows, d, chunk, **config)

    def exact() -> torch.Tensor:
        a, b, c = (x[:rows].double() for x in (q, k, v))
        return torch.tril(a @ b.T) @ c

    configurations = [{"C": 64, "num_warps": w, "num_stages": 2} for w in (4, 8)]
    sizes = {"d": d, "rows": rows, "heads": heads}
    return Case("linear_attention", "products", sizes, kernels.linear_attention, launch,
                configurations, out[:rows], exact, tolerance=1e-2,
                flops=heads * rows * d * (4 * 64 + 4 * d))  # fmt: skip


def _row_case(
    name: str, rows: int, n: int, function: Any, more: Any, exact: Any, **extra: Any
) -> Case:
    x = extra.pop("x")
    y = extra.pop("y")
    block = 1 << (n - 1).bit_length()

    def launch(compiled: Any, descriptor: Any, config: dict[str, Any]) -> Any:
        return partial(compiled[(rows,)], x, y, *more, BLOCK=block, **config)

    configurations = [{"num_warps": w} for w in (4, 8, 16)]
    sizes = {"rows": rows, "n": n}
    return Case(name, "memory", sizes, function, launch, configurations, y, exact, **extra)


def softmax(rows: int, n: int) -> Case:
    """Rows of fp16."""
    x = random(rows, n)
    y = torch.empty_like(x)
    return _row_case("softmax", rows, n, kernels.softmax, (n, n),
                     lambda: torch.softmax(x.double(), -1), x=x, y=y,
                     bytes=4 * rows * n)  # fmt: skip


def layer_norm(rows: int, n: int) -> Case:
    """Rows of fp16."""
    x, w, b = random(rows, n), random(n), random(n)
    y = torch.empty_like(x)
    return _row_case(
        "layer_norm", rows, n, kernels.layer_norm, (w, b, n, n, 1e-5),
        lambda: torch.layer_norm(x.double(), (n,), w.double(), b.double(), 1e-5), x=x, y=y,
        bytes=4 * rows * n,
    )  # fmt: skip


def swiglu(n: int) -> Case:
    """Gate and up projections, element by element."""
    gate, up = random(n), random(n)
    out = torch.empty_like(gate)

    def launch(function: Any, descriptor: Any, config: dict[str, Any]) -> Any:
        grid = (-(-n // config["BLOCK"]),)
        return partial(function[grid], gate, up, out, n, **config)

    configurations = [{"BLOCK": b, "num_warps": w} for b, w in ((1024, 4), (2048, 8), (4096, 8))]
    return Case("swiglu", "memory", {"n": n}, kernels.swiglu, launch, configurations, out,
                lambda: gate.double() * torch.sigmoid(gate.double()) * up.double(),
                bytes=6 * n)  # fmt: skip


def cross_entropy(rows: int, vocabulary: int) -> Case:
    """Losses of rows of bf16 logits."""
    logits = random(rows, vocabulary, dtype=torch.bfloat16)
    targets = torch.randint(0, vocabulary, (rows,), device=DEVICE)
    loss = torch.empty(rows, device=DEVICE)

    def launch(function: Any, descriptor: Any, config: dict[str, Any]) -> Any:
        return partial(function[(rows,)], logits, targets, loss, vocabulary, vocabulary, **config)

    configurations = [{"BLOCK": b, "num_warps": w} for b, w in ((2048, 8), (4096, 16), (8192, 16))]
    sizes = {"rows": rows, "vocabulary": vocabulary}
    return Case(
        "cross_entropy", "memory", sizes, kernels.cross_entropy, launch, configurations, loss,
        lambda: torch.nn.functional.cross_entropy(logits.double(), targets, reduction="none"),
        bytes=2 * rows * vocabulary,
    )  # fmt: skip


CASES: list[partial[Case]] = [
    *(
        partial(attention, d, rows, causal)
        for d in (64, 128)
        for causal in (False, True)
        for rows in (1024, 2048, 8192)
    ),
    *(partial(gemm, m, n, k) for m, n, k in ((8192, 8192, 512), (8192, 8192, 4096),
                                             (2048, 5120, 5120))),
    *(partial(gemm_pointers, m, n, k) for m, n, k in ((8192, 8192, 512), (4096, 4096, 4096),
                                                      (2048, 5120, 5120))),
    *(partial(linear_attention, d, 4096, heads) for d, heads in ((64, 512), (64, 132), (128, 264))),
    *(partial(softmax, 16384, n) for n in (781, 4096, 12288)),
    *(partial(layer_norm, 16384, n) for n in (1024, 4096, 8192)),
    *(partial(swiglu, n) for n in (2**22, 2**26, 10**8 + 8)),
    *(partial(cross_entropy, *sizes) for sizes in ((4096, 32000), (8192, 50257), (2048, 128256))),
    *(partial(gemm_persistent, m, n, k) for m, n, k in ((8192, 8192, 512), (8192, 8192, 4096),
                                                       (2048, 5120, 5120))),
    *same_source_products.CASES,
    *same_source_memory.CASES,
    *same_source_variety.CASES,
]  # fmt: skip


def cases() -> list[partial[Case]]:
    """All cases, with those of the packages that are installed."""
    try:
        import same_source_libraries
    except ImportError as missing:
        print(f"left out, operators of packages: {missing}")
        return CASES
    return [*CASES, *same_source_libraries.CASES]


@dataclass
class Found:
    """The best of one compiler's configurations."""

    milliseconds: float = math.inf
    config: dict[str, Any] = field(default_factory=dict[str, Any])
    work: Work | None = None
    error: float = math.nan
    failures: list[str] = field(default_factory=list[str])
    output: torch.Tensor | None = None


def result_of(case: Case, impl: str, config: dict[str, Any]) -> tuple[Work, torch.Tensor]:
    """A launch that was made once, and what it gave."""
    if case.op is not None:
        work = case.launch(impl, descriptors_of(impl), config)
        return work, case.output.double()
    work = case.launch(compiled_by(impl, case.function), descriptors_of(impl), config)
    case.output.fill_(math.nan if case.output.is_floating_point() else 0)
    work()
    return work, case.output.double()


def best(case: Case, impl: str, exact: torch.Tensor | None) -> Found:
    """The configuration that takes the least time among those with right results."""
    found = Found()
    for config in case.configurations:
        try:
            work, output = result_of(case, impl, config)
            expected = output if exact is None else exact
            error = ((output - expected).norm() / expected.norm()).item()
        except Exception as problem:  # a peer's compiler may raise anything
            found.failures.append(f"{config}: {type(problem).__name__}: {problem}"[:300])
            continue
        if not error < case.tolerance:
            found.failures.append(f"{config}: wrong: {error:.1e}")
            continue
        watch = Stopwatch()
        watch.times_for(work, 0.02)
        times = sorted(watch.times_for(work, 0.04))
        if times[len(times) // 2] < found.milliseconds:
            middle = times[len(times) // 2]
            found = Found(middle, config, work, error, found.failures, output)
    return found


def compared(run: Run, case: Case) -> dict[str, Found]:
    """The best configuration of both compilers; what failed is printed, and kept as rows."""
    exact = case.exact() if case.exact is not None else None
    contenders = {"triton": best(case, "triton", exact)}
    known = contenders["triton"].output if exact is None else exact
    contenders["tawa"] = best(case, "tawa", known)
    for impl, found in contenders.items():
        for failure in found.failures:
            print(f"  {case} {impl}: {failure}", flush=True)
        if found.work is None:
            run.add(case.row, impl, None, error_text="; ".join(found.failures)[:1000])
    return contenders


def measure(run: Run, case: Case, options: Any) -> float | None:
    """One case under both; Triton's time over Tawa's."""
    exact = case.exact is not None
    contenders = compared(run, case)
    if options.untimed:
        settle()
        times = {impl: f"{found.milliseconds:.4f}" for impl, found in contenders.items()}
        print(f"{case}: not soaked, {times}", flush=True)
        return None
    works = {impl: f.work for impl, f in contenders.items() if f.work is not None}
    settle()  # what launches would have been given after a second
    with run.sampler.sampling():
        times = interleaved(works, soak=options.soak, window=options.window,
                            on_turn=run.sampler.turn)  # fmt: skip
    for impl, timing in times.items():
        run.add(
            case.row, impl, timing, config=str(contenders[impl].config), flops=case.flops,
            bytes=case.bytes,
            error={"relative_frobenius": contenders[impl].error,
                   "reference": "float64" if exact else "triton"},
            **run.sampler.readings(impl),
        )  # fmt: skip
    if len(times) < 2:
        return None
    ratio = times["triton"].median / times["tawa"].median
    shown = {i: f"{t.median:.4f} {contenders[i].config}" for i, t in times.items()}
    print(f"{case}: {ratio:.3f}x  {shown}", flush=True)
    return ratio


def chosen(only: str, share: str = "0/1") -> Iterator[partial[Case]]:
    """The cases whose name holds one of some words; of them every n-th from the i-th on (i/n)."""
    words = only.split(",")
    first, every = map(int, share.split("/"))
    named = [make for make in cases() if any(word in make.func.__name__ for word in words)]
    yield from named[first::every]


def main() -> None:
    """Measure every case and write its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="parts of kernels' names, separated by commas")
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--share", default="0/1", help="I/N: every N-th case from the I-th on")
    parser.add_argument("--untimed", action="store_true", help="compile and check, keep no times")
    parser.add_argument("--soak", type=float, default=0.3)
    parser.add_argument("--window", type=float, default=0.1)
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.untimed:
        same_source_case.TUNING = 0.0
    run = Run("same-source", options.rows)
    ratios: dict[str, list[float]] = {}
    for make in chosen(options.only, options.share):
        try:
            case = make()
            ratio = measure(run, case, options)
        except Exception as problem:  # of one case: the others are measured all the same
            text = f"{type(problem).__name__}: {problem}"[:1000]
            print(f"{make.func.__name__} {make.args}: {text}", flush=True)
            named = {"kernel": make.func.__name__, "sizes": list(make.args)}
            run.add(named, "tawa", None, error_text=text)
            continue
        if ratio is not None:
            ratios.setdefault(case.kind, []).append(ratio)
            ratios.setdefault(case.kernel, []).append(ratio)
        torch.cuda.empty_cache()
    for name, found in ratios.items():
        mean = math.exp(sum(map(math.log, found)) / len(found))
        print(f"{name}: {len(found)} cases, geometric mean {mean:.3f}, least {min(found):.3f}")


if __name__ == "__main__":
    main()
