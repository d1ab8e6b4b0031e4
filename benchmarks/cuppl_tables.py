"""The tables of docs/cuppl.md, from the rows that `cuppl.py` and `cuppl_gpu.py` write."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "cuppl.jsonl"
PLACE = re.compile(r"(<!-- table: (cuppl-[\w]+) -->\n).*?(<!-- end of table -->)", re.S)
Row = dict[str, Any]


def table(rows: list[Row]) -> str:
    """The Markdown table of the latest run."""
    if not rows:
        return "(no rows)"
    rows = [row for row in rows if row["run"] == rows[-1]["run"]]
    lines = [
        "| case | system | processor seconds | x Tawa, one thread | wall seconds (median) "
        "| times as fast as one |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        case = ", ".join(f"{k} {v}" if k != "model" else str(v) for k, v in row["case"].items())
        if "ms" not in row and "ms_wall" not in row:
            lines.append(f"| {case} | {row['impl']} | {row.get('error_text', '')} | | | |")
            continue
        same = {**row["case"], "threads": 1} if "threads" in row["case"] else row["case"]
        ours = next((r for r in rows if r["case"] == same and r["impl"] == "tawa"), None)
        compared = ours is not None and ours is not row and "ms" in row and "ms" in ours
        ratio = f"{milliseconds(row) / milliseconds(ours):.2f}" if ours and compared else ""
        seconds = f"{milliseconds(row) / 1000:.4g}" if "ms" in row else ""
        lines.append(f"| {case} | {row['impl']} | {seconds} | {ratio} | {walls(row, rows)} |")
    first = rows[0]
    loads = [row["load"] for row in rows]
    origin = f"{first['device']}, commit {first['commit']}, {first['date'][:10]}; "
    origin += f"the machine's load was {min(loads)} to {max(loads)}."
    return "\n".join([*lines, "", f"Run {first['run']}: {origin}"])


def milliseconds(row: Row) -> float:
    """What a row counts with: the least, or the mean over seeds of the least of each."""
    return row.get("ms_mean", row.get("ms_min", 0.0))


def walls(row: Row, rows: list[Row]) -> str:
    """Wall time, least and median, and how many times as much work is done as by one."""
    if "ms_wall_median" not in row:
        return "|"
    text = f"{row['ms_wall'] / 1000:.4g} ({row['ms_wall_median'] / 1000:.4g}) |"
    for what, work in (("threads", 1), ("processes at once", 2)):
        if row["case"].get(what) == 2:
            one = next(
                r for r in rows
                if r["case"] == {**row["case"], what: 1} and r["impl"] == row["impl"]
            )  # fmt: skip
            least, median = (work * one[key] / row[key] for key in ("ms_wall", "ms_wall_median"))
            text += f" {least:.2f} ({median:.2f})"
    return text


def gpu_table(rows: list[Row]) -> str:
    """The Markdown table of the latest run on a GPU (`cuppl_gpu.py`)."""
    if not rows:
        return "(no rows)"
    rows = [row for row in rows if row["run"] == rows[-1]["run"]]
    lines = [
        "| model | particles | ms | ns a particle | from exact | MiB of the device |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        case = row["case"]
        if "ms" not in row or "particles" not in case or "variant" in case:
            continue
        n, away = case["particles"], row.get("standard_errors")
        size = f"{row['bytes_by_driver'] / 2**20:.0f}" if "bytes_by_driver" in row else ""
        others = {"tawa": "", "tawa one core": ", one core of the host"}
        what = case["model"] + others.get(row["impl"], f", {row['impl']}")
        if case.get("ess_threshold", 1.0) != 1.0:
            what += f", ess_threshold {case['ess_threshold']}"
        lines.append(
            f"| {what} | {n:,} | {row['ms_min']:.1f} | {1e6 * row['ms_min'] / n:.0f} | "
            f"{'' if away is None else f'{away} standard errors'} | {size} |"
        )
    first = rows[0]
    origin = f"{first['device']}, commit {first['commit']}, {first['date'][:10]}."
    return "\n".join([*lines, "", f"Run {first['run']}: {origin}"])


def reference_table(rows: list[Row]) -> str:
    """The latest row of each posterior: how far its figures are from the reference draws'."""
    latest = {row["case"]["posterior"]: row for row in rows if "away" in row}
    if not latest:
        return "(no rows)"
    lines = [
        "| posterior | figures | beyond 3 errors | farthest | least ESS | diverged |",
        "|---|---|---|---|---|---|",
    ]
    all_sizes: list[float] = []
    for name, row in sorted(latest.items()):
        sizes = [abs(value) for one in row["away"] for value in one.values()]
        all_sizes += sizes
        lines.append(
            f"| {name} | {len(sizes)} | {sum(s > 3 for s in sizes)} | {max(sizes):.2f} "
            f"| {min(row['ess']):.0f} | {sum(row['divergent']):.0f} |"
        )
    beyond = sum(s > 3 for s in all_sizes)
    total = f"{len(latest)} posteriors, {len(all_sizes)} figures: {beyond} beyond 3 errors"
    commits = sorted({row["commit"] for row in latest.values()})
    return "\n".join([*lines, "", f"{total}. Commits {', '.join(commits)}."])


TABLES = {
    "cuppl-cpu": table, "cuppl-gpu": gpu_table, "cuppl-posteriordb": reference_table,
}  # fmt: skip


def read(name: str = "cuppl") -> list[Row]:
    """All rows of a suite."""
    path = RESULTS.with_stem(name)
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def made(match: re.Match[str]) -> str:
    """A table of a document, anew."""
    suite = match[2].removesuffix("-cpu")
    return f"{match[1]}{TABLES[match[2]](read(suite))}\n{match[3]}"
