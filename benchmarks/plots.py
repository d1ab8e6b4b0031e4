"""Plots of the benchmarks' rows, for the documents: the same rows that `tables.py` shows.

    python benchmarks/plots.py                       # draw all anew, in docs/plots
    python benchmarks/plots.py --write README.md     # and rewrite the pictures the file asks for

A file asks for a plot with a pair of lines, between which the picture is put, light and dark:

    <!-- plot: gemm -->
    <!-- end of plot -->
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from drawing import THEMES, Bars, Curves, Plot, Strips, draw, geometric_mean
from tables import RESULTS, Row, by_case, chosen_rows, speedup

DRAWN = Path(__file__).parents[1] / "docs" / "plots"
PLACE = re.compile(r"(<!-- plot: ([\w-]+) -->\n).*?(<!-- end of plot -->)", re.S)
FASTER = "to the right Tawa is faster; bars and figures: geometric means"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, default=RESULTS, help="folder of the rows")
    parser.add_argument("--write", type=Path, nargs="*", default=[], help="documents to rewrite")
    options = parser.parse_args()
    DRAWN.mkdir(exist_ok=True)
    for name, content in drawn(options.rows).items():
        (DRAWN / name).write_text(content)
    for path in options.write:
        path.write_text(filled(path.read_text(), path, options.rows))


def drawn(folder: Path) -> dict[str, str]:
    """Every plot in both themes, by the name of its file."""
    files: dict[str, str] = {}
    for suite in PLOTS:
        plot = plotted(suite, folder)
        for theme in THEMES:
            files[file_name(suite, theme)] = draw(plot, theme)
    return files


def filled(document: str, path: Path, folder: Path) -> str:
    """The document with its pictures made anew."""

    def made(match: re.Match[str]) -> str:
        return f"{match[1]}{picture(match[2], path, folder)}\n{match[3]}"

    return PLACE.sub(made, document)


def picture(suite: str, path: Path, folder: Path) -> str:
    """The HTML of a plot in a document: the dark file where a reader's colours are dark."""
    place = Path(os.path.relpath(DRAWN, path.resolve().parent)).as_posix()
    plot = plotted(suite, folder)
    dark, light = (f"{place}/{file_name(suite, theme)}" for theme in ("dark", "light"))
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img alt="{escape(in_words(plot))}" src="{light}"></picture>'
    )


def in_words(plot: Plot) -> str:
    """What a plot shows, for readers who do not see it."""
    if isinstance(plot, Strips):
        said: list[str] = []
        for name, group in plot.groups.items():
            several = len(plot.series) > 1
            means = (
                f"{geometric_mean(found):.2f}" + f" ({series})" * several
                for series, found in group.items()
            )
            said.append(f"{name} {', '.join(means)}")
        return f"{plot.title}. Geometric means: {'; '.join(said)}"
    if isinstance(plot, Bars):
        rows = (f"{name} {v:.3g}" for panel in plot.panels.values() for name, v in panel)
        return f"{plot.title}, in {plot.unit}: {', '.join(rows)}"
    return f"{plot.title}: {plot.says} across {plot.across}, {', '.join(plot.panels)}"


def file_name(suite: str, theme: str) -> str:
    """The file of a plot in a theme."""
    return f"{suite}{'-dark' if theme == 'dark' else ''}.svg"


def plotted(suite: str, folder: Path) -> Plot:
    """The plot of a suite's latest rows."""
    return PLOTS[suite](chosen_rows(suite, folder))


def device(rows: list[Row]) -> str:
    """The device that rows come from, or all of them, as one speaks of it."""
    names = {str(row["device"]): None for row in rows}
    short = {next((chip for chip in ("H100", "H200") if chip in n), n): None for n in names}
    return " and ".join(short)


Group = Callable[[Row], str]
"""Which row of a plot a case belongs to."""

Peers = dict[str, Sequence[str]]
"""The contenders that a series is the fastest of."""

Groups = dict[str, dict[str, list[float]]]
"""Of each row of a plot and each series: the ratios."""


def ratios(rows: list[Row], group: Group, peers: Peers) -> Groups:
    """Of each group and peer (the fastest of several contenders): its time over Tawa's."""
    groups: Groups = {}
    for case, found in by_case(rows):
        for peer, names in peers.items():
            timed = [found[name] for name in names if name in found]
            ratio = speedup(min(timed, key=lambda row: row["ms"], default=None), found.get("tawa"))
            if ratio is not None:
                groups.setdefault(group(case), {}).setdefault(peer, []).append(ratio)
    return groups


def same_source(rows: list[Row]) -> Plot:
    """Ordinary kernels under both compilers."""
    families = {"form": "engines' forms", "fla": "flash-linear-attention", "liger": "Liger"}

    def group(case: Row) -> str:
        if case["source"] in families:
            kind = "products" if case["kind"] == "products" else "no products"
            return f"{families[case['source']]}, {kind}"
        names = {"gemm": "GEMM, descriptors", "matmul_pointers": "GEMM, pointers"}
        name = names.get(case["kernel"], case["kernel"].replace("_", " "))
        if case["kernel"] == "attention":
            name += f" D={case['d']}" + (", causal" if case["causal"] else "")
        return name

    found = ratios(rows, group, {"Triton 3.6": ["triton"]})
    title = f"The same source under both compilers, {device(rows)}: time of Triton over Tawa's"
    return Strips(title, FASTER, found)


def gemm(rows: list[Row]) -> Plot:
    """Rates of large products over K."""
    names = {"cublas": "cuBLAS", "triton": "Triton", "tawa": "Tawa"}
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for case, found in by_case(rows):
        for impl, name in names.items():
            if impl in found:
                lines = panels.setdefault(case["dtype"], {}).setdefault(name, [])
                lines.append((case["k"], found[impl]["tflops"]))
    title = f"Matrix products of 8192 x 8192 x K, {device(rows)}"
    return Curves(title, "TFLOP/s of the fastest configuration", "K", panels)


def gemm_ablation(rows: list[Row]) -> Plot:
    """What each step of the compiler adds."""
    timed = [row for row in rows if "ms" in row]
    cublas = next(row["tflops"] for row in timed if row["impl"] == "cublas")
    steps = [(row["case"]["step"], row["tflops"]) for row in timed if row["impl"] != "cublas"]
    title = f"A product of 8192 x 8192 x 16384, step by step, {device(rows)}"
    return Bars(title, "TFLOP/s", {"": steps}, ("cuBLAS", cublas))


def host(rows: list[Row]) -> Plot:
    """Host time of warm launches."""
    found = [
        (f"{row['impl']}, {row['case'].get('how') or row['case']['kernel']}", row["ms"] * 1e3)
        for row in rows
        if row["case"]["what"] == "warm launch" and "ms" in row
    ]
    return Bars(f"Host time of a launch, {device(rows)}", "microseconds", {"": found})


def attention(rows: list[Row]) -> Plot:
    """Rates of 16-bit attention over lengths, of each head dimension and mask."""
    names = {"cudnn": "cuDNN", "fa3": "FlashAttention-3", "triton": "Triton", "tawa": "Tawa"}
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for case, found in by_case(rows):
        if case["dtype"] == "fp8":
            continue
        mask = "causal" if case["causal"] else "full"
        panel = panels.setdefault(f"D = {case['d']}, {mask}", {})
        for impl, name in names.items():
            if impl in found:
                panel.setdefault(name, []).append((case["rows"], found[impl]["tflops"]))
    title = f"Attention, bf16, 16384 tokens, {device(rows)}"
    return Curves(title, "TFLOP/s", "length", panels)


def attention_ablation(rows: list[Row]) -> Plot:
    """The same attention kernel with parts of the compiler's work left out."""
    panels: dict[str, list[tuple[str, float]]] = {}
    for row in rows:
        if "ms" in row:
            name = f"D = {row['case']['d']}, {row['case']['rows']} rows"
            panels.setdefault(name, []).append((row["impl"], row["tflops"]))
    return Bars(f"Attention, step by step, {device(rows)}", "TFLOP/s", panels)


def attention_options(rows: list[Row]) -> Plot:
    """Attention with options beside the fastest of its peers."""
    peers = {"fastest peer": ["cudnn", "fa3", "fa3 split", "flex"]}
    found = ratios(rows, lambda case: case["group"], peers)
    title = f"Attention with options, {device(rows)}: time of the fastest peer over Tawa's"
    return Strips(title, FASTER, found)


def fused(rows: list[Row]) -> Plot:
    """Fused kernels beside Triton and torch's operators."""
    peers = {"torch": ["torch"], "Triton, tutorial": ["tutorial"], "Triton, tuned": ["triton"]}
    found = ratios(rows, lambda case: case["kernel"].replace("_", " "), peers)
    return Strips(f"Fused kernels, {device(rows)}: time of a peer over Tawa's", FASTER, found)


def shapes(title: str) -> Callable[[list[Row]], Plot]:
    """Products of sizes that nobody tuned, by their layouts."""

    def plot(rows: list[Row]) -> Plot:
        found = ratios(rows, lambda c: f"{c['layout']}, {c['dtype']}", {"cuBLAS": ["cublas"]})
        ordered = dict(sorted(found.items()))
        return Strips(f"{title}, {device(rows)}: time of cuBLAS over Tawa's", FASTER, ordered)

    return plot


def families(rows: list[Row]) -> Plot:
    """Random products of every kind."""
    found = ratios(rows, lambda case: case["family"], {"PyTorch": ["cublas"]})
    title = f"Random products of every kind, {device(rows)}: time of PyTorch over Tawa's"
    return Strips(title, FASTER, found)


def conv(rows: list[Row]) -> Plot:
    """Convolutions by network and pass, beside the fastest of cuDNN's operators."""

    def group(case: Row) -> str:
        name = f"{case['pass']}, bias and ReLU" if case["bias"] else case["pass"]
        return f"{case['layer'].rstrip('0123456789').split()[0]}: {name}"

    peers = sorted({row["impl"] for row in rows if not row["impl"].startswith("tawa")})
    found = ratios(rows, group, {"cuDNN": peers})
    title = f"Convolution, {device(rows)}: time of the fastest peer over Tawa's"
    return Strips(title, FASTER, found)


def axon(rows: list[Row]) -> Plot:
    """Axon programs beside torch.compile."""
    groups: dict[str, dict[str, list[float]]] = {}
    times: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        if "ms" in row:
            times.setdefault((str(row["case"]), row["config"]), {})[row["impl"]] = row
    for (_, way), by in times.items():
        ratio = speedup(by.get("torch.compile"), by.get("tawa"))
        if ratio is not None:
            program = by["tawa"]["case"]["program"].replace("_", " ")
            groups.setdefault(program, {}).setdefault(f"as a {way}", []).append(ratio)
    title = f"Axon programs, {device(rows)}: time of torch.compile over Tawa's"
    return Strips(title, FASTER, groups)


def prediction(rows: list[Row]) -> Plot:
    """Predicted over measured times."""
    groups: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        ratio = row["predicted_ms"] / row["ms"]
        groups.setdefault(row["of"]["suite"], {}).setdefault("predicted", []).append(ratio)
    title = f"Predicted time over measured time, {device(rows)}"
    return Strips(title, "at 1 the prediction is right; bars and figures: geometric means", groups)


def ranking(rows: list[Row]) -> Plot:
    """How much longer than the best the schedules take that are predicted to be among the best."""
    kernels: dict[str, list[Row]] = {}
    for row in rows:
        if "config" in row and "ms" in row:
            kernels.setdefault(row["case"].get("kernel", "attention"), []).append(row)
    groups: dict[str, dict[str, list[float]]] = {}
    for name, found in kernels.items():
        order = sorted(found, key=lambda row: row["predicted_ms"])
        best, third = min(row["ms"] for row in found), -(-len(order) // 3)
        for index, part in enumerate(("first", "second", "last")):
            times = [row["ms"] / best for row in order[index * third : (index + 1) * third]]
            groups[f"{name.replace('_', ' ')}, {part} third"] = {"measured": times}
    title = f"Schedules by their predictions, {device(rows)}: time over that of the best"
    return Strips(title, "at 1 is the fastest; bars and figures: geometric means", groups)


PLOTS: dict[str, Callable[[list[Row]], Plot]] = {
    "same-source": same_source,
    "gemm": gemm,
    "gemm-ablation": gemm_ablation,
    "gemm-shapes": shapes("Products of sizes that nobody tuned"),
    "gemm-random": shapes("Random products of layers"),
    "gemm-families": families,
    "attention": attention,
    "attention-options": attention_options,
    "attention-ablation": attention_ablation,
    "fused": fused,
    "conv": conv,
    "conv-models": conv,
    "axon-gpu": axon,
    "prediction": prediction,
    "ranking": ranking,
    "host": host,
}


if __name__ == "__main__":
    main()
