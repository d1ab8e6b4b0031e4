"""Markdown tables of the benchmarks' rows, for the documents.

    python benchmarks/tables.py gemm                  # print the latest run's table
    python benchmarks/tables.py --write README.md     # rewrite the tables that the file asks for

A file asks for a table with a pair of lines, between which the table is put:

    <!-- table: gemm -->
    <!-- end of table -->

Ratios are taken within one run only: a table shows the latest run, or, of suites whose cases may be
run by themselves, each case's latest.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
Row = dict[str, Any]
BOTH = ("cublas", "tawa")
EACH_CASE = ("fused", "attention", "attention-options", "conv", "conv-models", "same-source")
"""Suites of which every case has its own latest run."""

PLACE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end of table -->)", re.S)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", nargs="?", choices=sorted(TABLES))
    parser.add_argument("--run", help="identifier of the run; by default the latest")
    parser.add_argument("--rows", type=Path, default=RESULTS, help="folder of the rows")
    parser.add_argument("--write", type=Path, nargs="*", default=[], help="documents to rewrite")
    options = parser.parse_args()
    if options.suite:
        print(table(options.suite, options.rows, options.run))
    for path in options.write:
        path.write_text(filled(path.read_text(), options.rows))


def filled(document: str, folder: Path) -> str:
    """The document with its tables made anew; those of other scripts are left as they are."""

    def made(match: re.Match[str]) -> str:
        if match[2] not in TABLES:
            return match[0]
        return f"{match[1]}{table(match[2], folder, None)}\n{match[3]}"

    return PLACE.sub(made, document)


def table(suite: str, folder: Path, run: str | None) -> str:
    """The Markdown table of one run of a suite, with a line that says where it comes from."""
    rows = chosen_rows(suite, folder, run)
    if not rows:
        return f"(no rows of {suite})"
    return "\n".join([*TABLES[suite](rows), "", origin(rows)])


def chosen_rows(suite: str, folder: Path, run: str | None = None) -> list[Row]:
    """The rows of a run, or of the latest: of some suites each case has its own latest run."""
    suite = suite.removesuffix("-summary")
    rows = read(folder / f"{suite}.jsonl")
    if run is None and suite in EACH_CASE:
        latest = {json.dumps(row["case"]): row["run"] for row in rows}
        return [row for row in rows if row["run"] == latest[json.dumps(row["case"])]]
    chosen = run or (rows[-1]["run"] if rows else None)
    if rows and not any(row["run"] == chosen for row in rows):
        raise SystemExit(f"no run {chosen} in {suite}")
    return [row for row in rows if row["run"] == chosen]


def origin(rows: list[Row]) -> str:
    """Where rows come from: runs, device, commit, date and versions."""
    runs, last = ", ".join(dict.fromkeys(row["run"] for row in rows)), rows[-1]
    names = ("torch", "triton", "nvrtc", "driver")
    versions = ", ".join(f"{n} {last['versions'][n]}" for n in names if n in last["versions"])
    return (
        f"Run {runs}: {last['device']}, commit {last['commit']}, {last['date'][:10]}, {versions}."
    )


def read(path: Path) -> list[Row]:
    """All rows of a suite, in order; none if the file does not exist."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def gemm_table(rows: list[Row]) -> list[str]:
    """TFLOP/s of each contender in each case, and the ratios to the others."""
    lines = [
        "| type | M, N | K | cuBLAS | Triton | Tawa | x cuBLAS | x Triton | configuration |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    ratios: dict[str, list[float]] = {"cublas": [], "triton": []}
    for case, found in by_case(rows):
        cells = [rate(found.get(impl)) for impl in ("cublas", "triton", "tawa")]
        for impl in ratios:
            ratio = speedup(found.get(impl), found.get("tawa"))
            if ratio is not None:
                ratios[impl].append(ratio)
            cells.append(f"{ratio:.3f}" if ratio is not None else "-")
        config = found["tawa"].get("config", "") if "tawa" in found else failure(rows, case)
        size = f"{case['m']}, {case['n']}"
        lines.append(f"| {case['dtype']} | {size} | {case['k']} | {' | '.join(cells)} | {config} |")
    means = [f"{geometric_mean(r):.3f}" if r else "-" for r in ratios.values()]
    lines.append(f"| geometric mean | | | | | | {means[0]} | {means[1]} | |")
    return lines


def ablation_table(rows: list[Row]) -> list[str]:
    """TFLOP/s of each step of the compiler, and what it adds to the step before."""
    lines = ["| step | ms | TFLOP/s | x step before | x cuBLAS |", "|---|---|---|---|---|"]
    timed = [row for row in rows if "ms" in row]
    cublas = next((row for row in timed if row["impl"] == "cublas"), None)
    before: Row | None = None
    for row in timed:
        if row["impl"] == "cublas":
            continue
        gain, ratio = speedup(before, row), speedup(cublas, row)
        cells = [f"{x:.2f}" if x is not None else "" for x in (gain, ratio)]
        measured = f"{row['ms']:.3f} | {row['tflops']:.0f}"
        lines.append(f"| {row['case']['step']} | {measured} | {' | '.join(cells)} |")
        before = row
    return lines


def host_table(rows: list[Row]) -> list[str]:
    """Host time of each kind of launch."""
    lines = ["| what | how | median |", "|---|---|---|"]
    for row in rows:
        if row["case"]["what"] != "warm launch":
            continue
        what = f"{row['impl']}: {row['case']['what']}"
        how = row["case"].get("how") or row["case"].get("kernel", "")
        if "ms" not in row:
            value = f"failed: {row.get('error_text')}"
        else:
            value = f"{row['ms'] * 1e3:.1f} us"
        lines.append(f"| {what} | {how} | {value} |")
    return lines


def compile_table(rows: list[Row]) -> list[str]:
    """Seconds of each kernel's compilations: cold, for other types, and from the disk cache."""
    kinds = ("cold", "cold, other types", "cached")
    lines = [f"| kernel | {' | '.join(kinds)} |", "|---|---|---|---|"]
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        name = f"{row['impl']}: {row['case']['kernel']}"
        text = f"{row['ms'] / 1e3:.2f} s" if "ms" in row else "failed"
        found.setdefault(name, {})[row["case"]["what"]] = text
    for name, cells in found.items():
        lines.append(f"| {name} | {' | '.join(cells.get(kind, '-') for kind in kinds)} |")
    return lines


def prediction_table(rows: list[Row]) -> list[str]:
    """Predicted and measured times of each kernel, the clock that was assumed, and the error."""
    lines = [
        "| suite | case | configuration | clock (MHz) | measured (us) | predicted (us) | error |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        names = ("dtype", "k", "d", "rows", "causal", "step")
        case = " ".join(f"{name}={row['case'][name]}" for name in names if name in row["case"])
        clock = f"{row['clock_mhz']:.0f} ({row['clock_source']})"
        times = f"{row['ms'] * 1e3:.1f} | {row['predicted_ms'] * 1e3:.1f} | {row['error']:+.1%}"
        lines.append(f"| {row['of']['suite']} | {case} | {row['config']} | {clock} | {times} |")
    mean = geometric_mean([1 + row["error"] for row in rows])
    worst = max((row["error"] for row in rows), key=abs)
    lines.append(f"| geometric mean, largest error | | | | | {mean:.3f} | {worst:+.1%} |")
    return lines


def attention_table(rows: list[Row]) -> list[str]:
    """TFLOP/s of each contender, and the ratios to the best of cuDNN and FA3 and to Triton."""
    peers = ("cudnn", "fa3")
    lines = [
        "| type | D | mask | rows | cuDNN | FA3 | Triton | Tawa | x best peer | x Triton |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    ratios: dict[str, list[float]] = {"best": [], "triton": [], "fp8": []}
    for case, found in by_case(rows):
        timed = [found[p] for p in peers if p in found]
        best = min(timed, key=lambda row: row["ms"], default=None)
        cells = [rate(found.get(impl)) for impl in (*peers, "triton", "tawa")]
        for name, peer in (("best", best), ("triton", found.get("triton"))):
            ratio = speedup(peer, found.get("tawa"))
            cells.append(f"{ratio:.3f}" if ratio is not None else "-")
            if ratio is not None:
                ratios[name if case["dtype"] != "fp8" else "fp8"].append(ratio)
        mask = "causal" if case["causal"] else "full"
        head = f"{case['dtype']} | {case['d']} | {mask} | {case['rows']}"
        lines.append(f"| {head} | {' | '.join(cells)} |")
    best, triton, fp8 = (f"{geometric_mean(r):.3f}" if r else "-" for r in ratios.values())
    lines.append(f"| geometric mean, 16 bit | | | | | | | | {best} | {triton} |")
    lines.append(f"| geometric mean, fp8 (FA3) | | | | | | | | {fp8} | - |")
    return lines


def backward_table(rows: list[Row]) -> list[str]:
    """TFLOP/s of attention's gradients, five products, beside cuDNN's."""
    lines = [
        "| D | rows | mask | cuDNN | Tawa | x cuDNN | in order | x cuDNN |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case, found in by_case(rows):
        peer = found.get("cudnn")
        cells = [rate(peer)]
        for impl in ("tawa", "tawa-deterministic"):
            ratio = speedup(peer, found.get(impl))
            cells += [rate(found.get(impl)), "-" if ratio is None else f"{ratio:.2f}"]
        mask = "causal" if case["causal"] else "full"
        lines.append(f"| {case['d']} | {case['rows']} | {mask} | {' | '.join(cells)} |")
    return lines


def options_table(rows: list[Row]) -> list[str]:
    """Microseconds of attention with options, and the ratio to the fastest of the others."""
    lines = ["| | batch x heads | queries x keys | D | mask | cuDNN | FA3 | flex | Tawa (us) "
             "| TFLOP/s | x best peer |", "|" + "---|" * 11]  # fmt: skip
    ratios: list[float] = []
    for case, found in by_case(rows):
        fa3 = min((found[i] for i in ("fa3", "fa3 split") if i in found), key=lambda r: r["ms"],
                  default=None)  # fmt: skip
        others = [found.get("cudnn"), fa3, found.get("flex")]
        best = min((r for r in others if r), key=lambda row: row["ms"], default=None)
        ratio = speedup(best, found.get("tawa"))
        ratios += [] if ratio is None else [ratio]
        shared = "" if case["heads"] == case["kv_heads"] else f" on {case['kv_heads']}"
        d = f"{case['d']}" if case["d"] == case["dv"] else f"{case['d']}, {case['dv']}"
        mask = "causal" if case["causal"] else "full"
        mask += f", {case['left']} back" if case["left"] is not None else ""
        times = [f"{r['ms'] * 1e3:.1f}" if r else "-" for r in (*others, found.get("tawa"))]
        cells = [case["group"], f"{case['batch']} x {case['heads']}{shared}",
                 f"{case['queries']} x {case['keys']}", d, mask, *times, rate(found.get("tawa")),
                 f"{ratio:.3f}" if ratio is not None else "-"]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    mean = f"{geometric_mean(ratios):.3f} (least {min(ratios):.3f})" if ratios else "-"
    return [*lines, f"| geometric mean | | | | | | | | | | {mean} |"]


def attention_summary(rows: list[Row]) -> list[str]:
    """Of each head dimension and mask: the range of rates, and the ratios over all lengths."""
    lines = [
        "| type | D | mask | rows | Tawa (TFLOP/s) | x best of cuDNN, FA3 (least) | x Triton |",
        "|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, int, bool], list[tuple[int, float, float, float | None]]] = {}
    for case, found in by_case(rows):
        timed = [found[p]["ms"] for p in ("cudnn", "fa3") if p in found]
        if "tawa" in found and timed:
            ours = found["tawa"]
            entry = (case["rows"], ours["tflops"], min(timed) / ours["ms"],
                     speedup(found.get("triton"), ours))  # fmt: skip
            groups.setdefault((case["dtype"], case["d"], case["causal"]), []).append(entry)
    for (dtype, d, causal), found in groups.items():
        lengths, rates, best, triton = zip(*found, strict=True)
        head = (
            f"{dtype} | {d} | {'causal' if causal else 'full'} | {min(lengths)} to {max(lengths)}"
        )
        speed = f"{min(rates):.0f} to {max(rates):.0f}"
        lines.append(f"| {head} | {speed} | {_mean_and_least(best)} | {_mean(triton)} |")
    groups_of_all = [entry for group in groups.values() for entry in group]
    if groups_of_all:
        _, _, best, triton = zip(*groups_of_all, strict=True)
        lines.append(f"| all | | | | | {_mean_and_least(best)} | {_mean(triton)} |")
    return lines


def _mean_and_least(ratios: Sequence[float]) -> str:
    return f"{geometric_mean(list(ratios)):.3f} ({min(ratios):.3f})"


def _mean(ratios: Sequence[float | None]) -> str:
    """The mean of what was timed, or a dash."""
    timed = [ratio for ratio in ratios if ratio is not None]
    return f"{geometric_mean(timed):.2f}" if timed else "-"


def steps_table(rows: list[Row]) -> list[str]:
    """TFLOP/s of the same kernel with parts of the compiler's work left out."""
    lines = ["| D | rows | step | TFLOP/s |", "|---|---|---|---|"]
    for row in rows:
        if "ms" in row:
            sizes = f"{row['case']['d']} | {row['case']['rows']}"
            lines.append(f"| {sizes} | {row['impl']} | {row['tflops']:.0f} |")
    return lines


def fused_table(rows: list[Row]) -> list[str]:
    """Milliseconds of the best configuration of each, the ratios to the others, and the bound."""
    lines = ["| kernel | sizes | torch (ms) | Triton, tutorial form (ms) "
             "| Triton, best of tuned (ms) | Tawa (ms) | bound (ms) | TFLOP/s | GB/s | x torch "
             "| x tutorial form | x tuned | at most (x tuned) |", "|" + "---|" * 13]  # fmt: skip
    for case, found in by_case(rows):
        sizes = " x ".join(str(v) for k, v in case.items() if k not in ("kernel", "dtype"))
        order = ("torch", "tutorial", "triton", "tawa", "bound")
        cells = [sizes, *(f"{found[i]['ms']:.3f}" if i in found else "-" for i in order)]
        best = found.get("tawa")
        cells += [rate(best), f"{best['gbps']:.0f}" if best and "gbps" in best else "-"]
        ratios = ("torch", "tawa"), ("tutorial", "tawa"), ("triton", "tawa"), ("triton", "bound")
        for slow, fast in ratios:
            ratio = speedup(found.get(slow), found.get(fast))
            cells.append(f"{ratio:.2f}" if ratio is not None else "-")
        lines.append(f"| {case['kernel']} | {' | '.join(cells)} |")
    return lines


def shapes_table(rows: list[Row]) -> list[str]:
    """TFLOP/s of the library's choice beside cuBLAS, for sizes and layouts that nobody tuned."""
    lines = [
        "| type | layout | M x N x K | cuBLAS | Tawa | x cuBLAS |",
        "|---|---|---|---|---|---|",
    ]
    ratios: list[float] = []
    for case, found in by_case(rows):
        ratio = speedup(found.get("cublas"), found.get("tawa"))
        ratios += [] if ratio is None else [ratio]
        cells = [rate(found.get("cublas")), rate(found.get("tawa"))]
        size = f"{case['m']} x {case['n']} x {case['k']}"
        shown = f"{ratio:.3f}" if ratio is not None else "-"
        lines.append(
            f"| {case['dtype']} | {case['layout']} | {size} | {' | '.join(cells)} | {shown} |"
        )
    lines.append(f"| geometric mean | | | | | {geometric_mean(ratios):.3f} |")
    return lines


def layers_table(rows: list[Row]) -> list[str]:
    """Times of linear layers, and cuBLASLt's over the library's, chosen and searched."""
    lines = [
        "| model | M x N x K | cuBLASLt, fastest (us) | Tawa (us) | x cuBLASLt | searched "
        "| x cuBLAS |",
        "|---|---|---|---|---|---|---|",
    ]
    ratios: dict[str, list[float]] = {"default": [], "tuned": [], "first": []}
    named = [{**r, "impl": r["impl"] + r.get("choice", "")} for r in rows]
    for case, found in by_case(named):
        peer, own = found.get("cublaslt-best"), found.get("tawadefault")
        shown = {
            "default": speedup(peer, own),
            "tuned": speedup(peer, found.get("tawatuned")),
            "first": speedup(found.get("cublas"), own),
        }
        for name, ratio in shown.items():
            ratios[name] += [] if ratio is None else [ratio]
        times = [f"{row['ms'] * 1e3:.1f}" if row else "-" for row in (peer, own)]
        texts = ["-" if ratio is None else f"{ratio:.3f}" for ratio in shown.values()]
        size = f"{case['m']} x {case['n']} x {case['k']}"
        lines.append(f"| {case['model']} | {size} | {' | '.join([*times, *texts])} |")
    for name, of in (("geometric mean", geometric_mean), ("least", min)):
        lines.append(f"| {name} | | | | {' | '.join(f'{of(x):.3f}' for x in ratios.values())} |")
    return lines


def same_source_table(rows: list[Row]) -> list[str]:
    """Times of ordinary kernels under both compilers, each at its best configuration."""
    lines = ["| kernel | sizes | Triton (us) | Tawa (us) | x Triton |", "|---|---|---|---|---|"]
    kinds: dict[str, list[float]] = {}
    for case, found in by_case(rows):
        ratio = speedup(found.get("triton"), found.get("tawa"))
        kinds.setdefault(case["kind"], []).extend([] if ratio is None else [ratio])
        named = {k: v for k, v in case.items() if k not in ("kernel", "source", "kind")}
        sizes = ", ".join(f"{k} {v}".lower() for k, v in named.items())
        impls = ("triton", "tawa")
        times = [f"{found[i]['ms'] * 1e3:.1f}" if "ms" in found.get(i, {}) else "-" for i in impls]
        shown = f"{ratio:.2f}" if ratio is not None else "-"
        lines.append(f"| {case['kernel']} | {sizes} | {' | '.join(times)} | {shown} |")
    for kind, ratios in kinds.items():
        name = "all with products" if kind == "products" else "all without"
        lines.append(f"| {name} | least {min(ratios):.2f} | | | {geometric_mean(ratios):.2f} |")
    return lines


def conv_table(rows: list[Row]) -> list[str]:
    """Times of each pass of each layer, and its ratio to the best peer."""
    lines = [
        "| layer | pass | chip | cuDNN (us) | fused (us) | Tawa (us) | x best |",
        "|---|---|---|---|---|---|---|",
    ]
    passes: dict[str, list[float]] = {}
    for case, found in by_case(rows):
        timed = {name: row for name, row in found.items() if "ms" in row}
        peers = [row for name, row in timed.items() if not name.startswith("tawa")]
        best = min(peers, key=lambda row: row["ms"], default=None)
        ratio = speedup(best, timed.get("tawa"))
        name = f"{case['pass']}, bias and ReLU" if case["bias"] else case["pass"]
        family = case["layer"].rstrip("0123456789").split()[0]
        passes.setdefault(f"{family}: {name}", []).extend([] if ratio is None else [ratio])
        cells = [
            f"{timed[i]['ms'] * 1e3:.1f}" if i in timed else "-"
            for i in ("cudnn", "cudnn-fused", "tawa")
        ]
        shown = f"{ratio:.2f}" if ratio is not None else "-"
        chip = next((c for c in ("H100", "H200") if c in next(iter(found.values()))["device"]), "")
        lines.append(f"| {case['layer']} | {name} | {chip} | {' | '.join(cells)} | {shown} |")
    for name, ratios in passes.items():
        least, mean = f"{min(ratios):.2f}", f"{geometric_mean(ratios):.2f}"
        lines.append(f"| geometric mean | {name}, least {least} | | | | | {mean} |")
    return lines


def families_table(rows: list[Row]) -> list[str]:
    """Times of the library and of PyTorch for products of every kind, and each kind's ratios."""
    lines = [
        "| kind | type | layout | M x N x K | PyTorch (us) | Tawa (us) | x PyTorch |",
        "|---|---|---|---|---|---|---|",
    ]
    kinds: dict[str, list[float]] = {}
    for case, found in by_case(rows):
        ratio = speedup(found.get("cublas"), found.get("tawa"))
        kinds.setdefault(case["family"], []).extend([] if ratio is None else [ratio])
        times = [f"{found[i]['ms'] * 1e3:.1f}" if "ms" in found.get(i, {}) else "-" for i in BOTH]
        size = f"{case['m']} x {case['n']} x {case['k']}"
        batch, gap = f"{case['batch']} x " if case["batch"] else "", case["gap"]
        size = f"{batch}{size}" + (f", {gap} between rows" if gap else "")
        shown = f"{ratio:.3f}" if ratio is not None else "-"
        cells = case["family"], case["dtype"], case["layout"], size, *times, shown
        lines.append(f"| {' | '.join(cells)} |")
    for name, ratios in kinds.items():
        if not ratios:
            continue
        mean, least = f"{geometric_mean(ratios):.3f}", f"{min(ratios):.3f}"
        lines.append(f"| all: {name} | | | least {least} | | | {mean} |")
    every = [ratio for ratios in kinds.values() for ratio in ratios]
    mean = f"{geometric_mean(every):.3f}"
    lines.append(f"| all | | | least {min(every):.3f} | | | {mean} |")
    return lines


def timeline_table(rows: list[Row]) -> list[str]:
    """Times with and without timestamps."""
    lines = ["| kernel | plain (us) | recorded (us) | cost |", "|---|---|---|---|"]
    times: dict[str, dict[str, Row]] = {}
    for row in rows:
        sizes = (f"{k} {v}" for k, v in row["case"].items() if k in ("k", "d", "rows"))
        mask = " causal" * row["case"].get("causal", False)
        name = f"{row['case']['workload']} {' '.join(sizes)}{mask}"
        times.setdefault(name, {})[row["config"]] = row
    for name, found in times.items():
        plain, recorded = (f"{found[config]['ms'] * 1e3:.1f}" for config in ("plain", "recorded"))
        ratio, error = (found["recorded"].get(key, 0.0) for key in ("ratio", "ratio_error"))
        cost = f"{ratio - 1:+.1%}" + f" ± {error:.1%}" * (error > 0)
        lines.append(f"| {name} | {plain} | {recorded} | {cost} |")
    return lines


def axon_table(rows: list[Row]) -> list[str]:
    """Microseconds as CUDA graphs and as calls, and the ratios to torch.compile."""
    lines = ["| program | sizes | as | torch.compile (us) | Tawa (us) | ratio | kernels compiled |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    found: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        if "ms" in row:
            case = dict(row["case"])
            program, _ = case.pop("program"), case.pop("dtype")
            sizes = ", ".join(f"{k} {v}" for k, v in case.items())
            found.setdefault((program, sizes, row["config"]), {})[row["impl"]] = row
    for (program, sizes, way), by in found.items():
        if {"tawa", "torch.compile"} <= by.keys():
            ours, theirs = by["tawa"], by["torch.compile"]
            times = f"{theirs['ms'] * 1e3:.1f} | {ours['ms'] * 1e3:.1f}"
            ratio, kernels = theirs["ms"] / ours["ms"], ours.get("compilations", "")
            lines.append(f"| {program} | {sizes} | {way} | {times} | {ratio:.2f} | {kernels} |")
    return lines


def ranking_table(rows: list[Row]) -> list[str]:
    """Schedules by their predictions, with the measured times, and the rank correlations."""
    lines = ["| kernel | schedule | predicted (us) | measured (us) | place |", "|" + "---|" * 5]
    found: dict[str, list[Row]] = {}
    for row in rows:
        if "config" in row and "ms" in row:
            found.setdefault(row["case"].get("kernel", "attention"), []).append(row)
    for name, timed in found.items():
        order = sorted(row["ms"] for row in timed)
        for row in sorted(timed, key=lambda row: row["predicted_ms"]):
            chosen = re.search(r"'schedule': (\d+)", row["config"])
            schedule = chosen[1] if chosen else "the source's order"
            times = f"{row['predicted_ms'] * 1e3:.1f} | {row['ms'] * 1e3:.1f}"
            lines.append(f"| {name} | {schedule} | {times} | {order.index(row['ms']) + 1} |")
    for row in rows:
        if "spearman" in row:
            name, count = row["case"].get("kernel", "attention"), row["candidates"]
            both = f"Spearman {row['spearman']:.2f}, Kendall {row['kendall']:.2f}"
            off = f"first predicted {row['lost']:.1%} off the best"
            off += f", best of three {row['lost_of_few']:.1%}; schedule 0 {row['first']:.1%}"
            lines.append(f"| {name}, {count} schedules | {both} | | {off} | |")
    return lines


TABLES: dict[str, Callable[[list[Row]], list[str]]] = {
    "prediction": prediction_table,
    "gemm": gemm_table,
    "gemm-ablation": ablation_table,
    "compile": compile_table,
    "host": host_table,
    "attention": attention_table,
    "attention-summary": attention_summary,
    "attention-options": options_table,
    "attention-backward": backward_table,
    "attention-ablation": steps_table,
    "fused": fused_table,
    "gemm-shapes": shapes_table,
    "gemm-layers": layers_table,
    "gemm-random": shapes_table,
    "gemm-families": families_table,
    "same-source": same_source_table,
    "conv": conv_table,
    "conv-models": conv_table,
    "ranking": ranking_table,
    "timeline": timeline_table,
    "axon-gpu": axon_table,
}


def by_case(rows: list[Row]) -> Iterable[tuple[dict[str, Any], dict[str, Row]]]:
    """Each case with the fastest timed row of each contender, in the order of the rows."""
    cases: dict[str, tuple[dict[str, Any], dict[str, Row]]] = {}
    for row in rows:
        key = json.dumps(row["case"], sort_keys=True)
        found = cases.setdefault(key, (row["case"], {}))[1]
        best = found.get(row["impl"])
        if "ms" in row and (best is None or row["ms"] < best["ms"]):
            found[row["impl"]] = row
    return cases.values()


def rate(row: Row | None) -> str:
    """TFLOP/s of a row, or a dash."""
    return f"{row['tflops']:.0f}" if row else "-"


def speedup(slow: Row | None, fast: Row | None) -> float | None:
    """How many times faster `fast` is, if both were timed."""
    return slow["ms"] / fast["ms"] if slow and fast else None


def failure(rows: list[Row], case: dict[str, Any]) -> str:
    """Why Tawa has no time for a case."""
    texts = [r["error_text"] for r in rows if r["case"] == case and r["impl"] == "tawa"]
    return f"failed: {texts[0]}" if texts else ""


def geometric_mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


if __name__ == "__main__":
    main()
