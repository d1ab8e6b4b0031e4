"""The compiler's choice of options against every candidate that it considered.

    python benchmarks/choice.py [--only attention] [--rows FOLDER]    # on a device
    python benchmarks/choice.py --kept                              # rows measured before

On a device each kernel with products of `same_source.py`, at each of its sizes and configurations,
is timed with every candidate, in turn, in one process; a row says which candidate it is, what the
model predicted, and which one a launch takes by itself. `--kept` needs no device: it compares the
model's order with the order of rows that differ in the same options (suites `gemm`,
`gemm-ablation`, `attention-ablation`).
"""

from __future__ import annotations

import argparse
import ast
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tawa
from tawa.driver.choice.candidates import Candidate, candidates
from tawa.driver.choice.model import predicted
from tawa.driver.choice.profile import Sizes
from tawa.driver.choosing import profile_for
from tawa.machine.chips import H100

RESULTS = Path(__file__).parent / "results"
WRITTEN = {
    "persistent": False, "deal": 1, "ctas_per_sm": 1, "ping_pong": False, "consumers": None,
    "alternate": False,
}  # fmt: skip
"""The options as a program has them that says nothing."""
NOT_MODELLED = ("cluster", "overlap", "schedule", "alternate", "specialize", "mma_depth")
"""Rows with these differ in what the choice does not look at."""
Contender = tuple[str, float, Callable[[], Any]]
"""A candidate's name, its predicted microseconds, and its launch."""
LEAST = 2
"""Candidates of a case that make an order."""


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """The rank correlation of two lists without ties."""
    ranks = [np.argsort(np.argsort(values)) for values in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1])


def kept() -> None:
    """Compare the model with rows that were measured."""
    groups: dict[str, list[tuple[str, float, float]]] = {}
    for suite, launch in (
        ("gemm", gemm_launch), ("gemm-ablation", gemm_launch),
        ("attention-ablation", attention_launch),
    ):  # fmt: skip
        for row in map(json.loads, (RESULTS / f"{suite}.jsonl").read_text().splitlines()):
            config = row.get("config")
            if row["impl"] in ("cublas", "triton") or not config:
                continue
            if any(name in config for name in NOT_MODELLED):
                continue
            time = launch(row["case"], config)
            case = {k: v for k, v in row["case"].items() if k != "step"}
            key = f"{suite} {row['run']} {json.dumps(case)}"
            groups.setdefault(key, []).append((config, row["ms"] * 1e3, time))
    correlations, regrets = list[float](), list[float]()
    for key, found in groups.items():
        if len(found) < LEAST:
            continue
        measured, model = [f[1] for f in found], [f[2] for f in found]
        correlations.append(spearman(measured, model))
        regrets.append(measured[int(np.argmin(model))] / min(measured) - 1)
        print(f"{key}: rank correlation {correlations[-1]:.2f}, regret {regrets[-1]:.1%}")
        for config, us, time in sorted(found, key=lambda f: f[1]):
            print(f"    {us:9.1f} us measured, {time:9.1f} predicted  {config}")
    worst = np.percentile(regrets, 95)
    print(f"{len(regrets)} cases, mean rank correlation {np.mean(correlations):.2f}, regret of the "
          f"first predicted: median {np.median(regrets):.1%}, 95th percentile {worst:.1%}, "
          f"largest {max(regrets):.1%}")  # fmt: skip


def model_time(
    kernel: Any,
    arguments: Sequence[Any],
    sizes: Sizes,
    constants: Mapping[str, Any],
    options: Mapping[str, Any],
) -> float:
    """Microseconds that the model gives a kernel with these options, and no others."""
    request = kernel.request(*arguments, **constants, chip="h100")
    profile = profile_for(kernel, request.types, request.constants, request.options)
    asked = WRITTEN | dict(options)
    first: Candidate = next(candidates(profile, sizes, asked, H100))
    return predicted(profile, sizes, first, H100).microseconds


def gemm_launch(case: Mapping[str, Any], config: str) -> float:
    """Of a row of the GEMM suites."""
    import gemm_kernels

    blocks, group, *rest = config.split()
    m, n, k = map(int, blocks.split("x"))
    given = (part.partition("=") for part in (rest[0].split(",") if rest else ()))
    options = {name: ast.literal_eval(value) for name, _, value in given}
    type_ = {"fp16": "f16", "bf16": "bf16"}[case["dtype"]]
    types = [f"desc<{type_},{a}x{b}>" for a, b in ((m, k), (n, k), (m, n))] + ["i32:16"] * 3
    constants = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": int(group[1:])}
    consumers = {name: options[name] for name in ("consumers",) if name in options}
    names = {"M": case["m"], "N": case["n"], "K": case["k"]}
    sizes = Sizes((-(-case["m"] // m) * -(-case["n"] // n),), tuple(names.items()))
    kernel = tawa.jit(gemm_kernels.gemm)
    if options.get("ping_pong"):
        consumers = {}  # the profile is that of a tile shared by its groups
    return model_time(kernel, types, sizes, {**constants, **consumers}, options)


def attention_launch(case: Mapping[str, Any], config: str) -> float:
    """Of a row of the attention suites, by the kernel as an author would write it."""
    import same_source_kernels

    blocks, text = config.split(maxsplit=1)
    m, n = map(int, blocks.split("x"))
    options = ast.literal_eval(text)
    d, rows = case["d"], case["rows"]
    types = [f"desc<bf16,{b}x{d}>" for b in (m, n, n, m)] + ["i32:16", "f32"]
    constants = {"CAUSAL": case["causal"], "D": d, "BLOCK_M": m, "BLOCK_N": n}
    consumers = {name: options[name] for name in ("consumers",) if name in options}
    sizes = Sizes((-(-rows // m), case["heads"]), (("S", rows),))
    kernel = tawa.jit(same_source_kernels.attention)
    return model_time(kernel, types, sizes, {**constants, **consumers}, options)


def measured(only: str, rows: Path | None, soak: float, window: float) -> None:
    """Time every candidate of every case."""
    import same_source
    import torch
    from rows import Run

    torch.manual_seed(0)
    run, regrets = Run("choice", rows), list[float]()
    for make in same_source.chosen(only):
        case = make()
        if case.kind != "products":
            continue
        for config in case.configurations:
            regret = one_case(run, case, config, soak, window, contenders(case, config))
            regrets += [regret] if regret is not None else []
        torch.cuda.empty_cache()
    if regrets:
        middle, far = np.percentile(regrets, (50, 95))
        print(f"{len(regrets)} cases, above the best candidate: median {middle:.1%}, "
              f"95th percentile {far:.1%}")  # fmt: skip


def contenders(case: Any, config: Mapping[str, Any]) -> Iterator[Contender]:
    """The candidates of a case, with what the model says; `chosen` is what a launch does itself."""
    kernel = tawa.jit(case.function)
    plain = case.launch(kernel, tawa.TensorDescriptor, dict(config))
    grid, *arguments = plain.args
    yield "chosen", math.nan, plain
    for prediction in kernel.candidates(*arguments, grid=grid, **plain.keywords):
        options = WRITTEN | dict(prediction.candidate.options)
        work = case.launch(kernel, tawa.TensorDescriptor, {**config, **options})
        yield str(prediction.candidate), prediction.microseconds, work


def shown(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as a row has it: what JSON can't write is text."""
    plain = (int, float, str, bool, type(None))
    return {n: v if isinstance(v, plain) else str(v) for n, v in config.items()}


def uses(compiled: Any) -> dict[str, int]:
    """What a compiled kernel takes of a multiprocessor."""
    return {
        "threads": compiled.spec.threads, "registers": compiled.n_regs,
        "shared_bytes": compiled.spec.shared_bytes, "ctas_asked": compiled.spec.ctas_per_sm,
        "spilled_words": compiled.n_spills,
    }  # fmt: skip


def one_case(
    run: Any,
    case: Any,
    config: Mapping[str, Any],
    soak: float,
    window: float,
    given: Iterable[Contender],
) -> float | None:
    """Time a case's candidates; how far the choice is from the best of them.

    Where a case has no exact results, those of the first candidate stand for them.
    """
    from tawa.runtime.timing import interleaved

    works: dict[str, Callable[[], Any]] = {}
    predictions: dict[str, float] = {}
    errors: dict[str, float] = {}
    taken: dict[str, dict[str, int]] = {}
    exact = case.exact() if case.exact is not None else None
    for name, microseconds, work in given:
        named = {**case.row, "config": shown(config)}
        try:
            case.output.fill_(math.nan)
            taken[name] = uses(work())
            output = case.output.double()
            exact = output if exact is None else exact
            error = ((output - exact).norm() / exact.norm()).item()
        except tawa.TawaError as problem:
            run.add(named, "tawa", None, config=name, error_text=str(problem)[:300])
            continue
        if not error < case.tolerance:
            run.add(named, "tawa", None, config=name, error_text=f"wrong: {error:.1e}")
            continue
        works[name], predictions[name], errors[name] = work, microseconds, error
    with run.sampler.sampling():
        times = interleaved(works, soak=soak, window=window, on_turn=run.sampler.turn)
    for name, timing in times.items():
        run.add(
            {**case.row, "config": shown(config)}, "tawa", timing, config=name, uses=taken[name],
            predicted_us=None if math.isnan(predictions[name]) else predictions[name],
            error={"relative_frobenius": errors[name], "reference": "float64"},
            **run.sampler.readings(name),
        )  # fmt: skip
    if "chosen" not in times or len(times) < LEAST:
        return None
    best = min(timing.median for timing in times.values())
    regret = times["chosen"].median / best - 1
    line = ", ".join(f"{name} {t.median * 1e3:.1f}" for name, t in times.items())
    print(f"{case} {config}: {regret:.1%} above the best; us: {line}", flush=True)
    return regret


def main() -> None:
    """Compare kept rows, or measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--kept", action="store_true", help="compare rows that were measured before"
    )
    parser.add_argument("--only", default="", help="parts of kernels' names, separated by commas")
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--soak", type=float, default=0.3)
    parser.add_argument("--window", type=float, default=0.1)
    options = parser.parse_args()
    if options.kept:
        kept()
    else:
        measured(options.only, options.rows, options.soak, options.window)


if __name__ == "__main__":
    main()
