"""Try to prove every launch of each library and example kernel; a row for each distinct module.

python scripts/proofs.py                       all kernels, a new file of rows
python scripts/proofs.py --only gemm,softmax   some of them, whose rows are replaced
python scripts/proofs.py --failed              those that were not proved, again
python scripts/proofs.py --summary             what the rows say, nothing run
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "simulate"), str(ROOT / "src")]

from xdsl.dialects.builtin import ModuleOp  # noqa: E402

from tawa.cli.check_sweep import Chosen, Row, Sweep  # noqa: E402
from tawa.simulate import prove  # noqa: E402

ROWS = ROOT / "benchmarks" / "results" / "proofs.jsonl"
SECONDS = 60.0
EVERY = "every launch"


@dataclass
class Proofs(Sweep):
    """Combinations of options of which only the proof is tried."""

    times: list[float] = field(default_factory=list[float])
    """Seconds of a processor, of each proof."""

    def _searched(self, module: ModuleOp, options: Chosen) -> Row:
        begin = time.process_time()
        found = prove(module, self.prove)
        self.times.append(time.process_time() - begin)
        return Row(options, EVERY if found.proved else f"not proved: {found.why}", found.states)


def proofs_of(small: Any, seconds: float) -> list[tuple[Row, float]]:
    """The distinct modules of a kernel's option sets, and how long each proof took."""
    sweep = small.sweep()
    tried = Proofs(sweep.kernel, sweep.grid, sweep.named, prove=seconds)
    rows = [row for row in small.rows_of(tried) if row.possible and row.same_as is None]
    return list(zip(rows, tried.times, strict=True))


def as_kept(number: int, name: str, row: Row, seconds: float) -> dict[str, Any]:
    """A row as it is written."""
    proved = row.verdict == EVERY
    why = {} if proved else {"why": row.verdict.partition(": ")[2]}
    known = {"number": number, "kernel": name, "options": row.options, "proved": proved, **why}
    return {**known, "states": row.states, "seconds": round(seconds, 1)}


def kept() -> list[dict[str, Any]]:
    """The rows of earlier runs."""
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []


def write(rows: list[dict[str, Any]]) -> None:
    """Write all rows, in the order of kernels."""
    ROWS.write_text("".join(json.dumps(row) + "\n" for row in rows))


def summary(rows: list[dict[str, Any]]) -> str:
    """How many are proved, how long it took, and what stands in the way of the others."""
    proved = [row for row in rows if row["proved"]]
    times = sorted(row["seconds"] for row in proved) or [0.0]
    lines = [
        f"{len(proved)} of {len(rows)} modules proved ({len(proved) / max(len(rows), 1):.1%}); "
        f"seconds: median {times[len(times) // 2]:.1f}, most {times[-1]:.1f}"
    ]
    lines += [
        f"{row['kernel']} {row['options']}: {row['why']}" for row in rows if not row["proved"]
    ]
    counts = Counter(row["why"] for row in rows if not row["proved"])
    return "\n".join([*lines, *(f"{count:4} {why}" for why, count in counts.most_common())])


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="kernels, by name, separated by semicolons")
    parser.add_argument("--failed", action="store_true", help="kernels with unproved modules")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for one module")
    parser.add_argument("--summary", action="store_true", help="of the rows that are kept")
    chosen = parser.parse_args()
    rows = kept()
    if chosen.summary:
        print(summary(rows))
        return
    from launches import LAUNCHES

    for number, small in enumerate(LAUNCHES):
        before = [row for row in rows if row["number"] == number]
        if chosen.only and small.name not in chosen.only.split(";"):
            continue
        if chosen.failed and before and all(row["proved"] for row in before):
            continue
        rows = [row for row in rows if row["number"] != number]
        for row, seconds in proofs_of(small, chosen.seconds):
            rows.append(as_kept(number, small.name, row, seconds))
            print(json.dumps(rows[-1]), flush=True)
        write(sorted(rows, key=lambda row: row["number"]))
    print(summary(rows))


if __name__ == "__main__":
    main()
