"""Random programs of CuPPL against exact enumeration, and the CPU's two ways against each other.

python scripts/cuppl_programs.py --count 2000            half of finite choices, half with densities
python scripts/cuppl_programs.py --first 17 --count 1 --kind mixed --show
python scripts/cuppl_programs.py --count 40 --kind host  the GPU's text too, compiled for the host
python scripts/cuppl_programs.py --count 2000 --kind gpu the bits of a GPU

Programs run in processes of their own, some at a time, so that one that crashes is found and
counted. Results go to `--out`, a line of JSON for each program.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "cuppl"), str(ROOT / "src")]

import mixed_writer  # noqa: E402
import random_writer  # noqa: E402
from random_programs import on_gpu, on_host, problems  # noqa: E402

AT_ONCE = 20
SECONDS = 60
"""That a program may take before it counts as one that hangs."""


def written(kind: str, seed: int) -> tuple[str, str | None]:
    """A program, and its twin if it has one."""
    finite = kind == "finite" or (kind == "gpu" and seed % 2)
    return (random_writer.program(seed), None) if finite else mixed_writer.pair(seed)


def judged(kind: str, seed: int, folder: Path) -> dict[str, Any]:
    """What came of a program."""
    source, finite = written(kind, seed)
    try:
        if kind == "gpu":
            found = on_gpu(source)
        else:
            found = on_host(source, folder) if kind == "host" else problems(source, finite)
    except Exception:
        return {"kind": kind, "seed": seed, "verdict": "traceback", "text": traceback.format_exc()}
    return {"kind": kind, "seed": seed, "verdict": "wrong" if found else "right", "text": found}


def here(kind: str, first: int, count: int) -> None:
    """Judge programs in this process: a line for each."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            print(json.dumps(judged(kind, seed, Path(folder))), flush=True)


def apart(kind: str, first: int, count: int) -> list[dict[str, Any]]:
    """Judge programs in another process, and go on after one that ends it."""
    rows: list[dict[str, Any]] = []
    while len(rows) < count:
        at = first + len(rows)
        command = [
            sys.executable, __file__, "--here", "--kind", kind,
            "--first", str(at), "--count", str(first + count - at),
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS * (first + count - at)
            )
            out, ended = done.stdout, f"crash: {done.returncode} {done.stderr[-200:]}"
        except subprocess.TimeoutExpired as late:
            out, ended = (late.stdout or b"").decode(), "hang"
        rows += [json.loads(line) for line in out.splitlines() if line.endswith("}")]
        if len(rows) < count:
            seed = first + len(rows)
            rows.append({"kind": kind, "seed": seed, "verdict": ended.split(":")[0], "text": ended})
    return rows


def main() -> int:
    """Judge programs, and say how many are wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument(
        "--kind", choices=("both", "finite", "mixed", "host", "gpu"), default="both"
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print the programs, judge none")
    parser.add_argument("--here", action="store_true", help="in this process")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.show:
        for seed in range(given.first, given.first + given.count):
            print(*filter(None, written(given.kind, seed)), sep="\n\n")
        return 0
    if given.here:
        here(given.kind, given.first, given.count)
        return 0
    judged_as = ("finite", "mixed") if given.kind == "both" else (given.kind,)
    each = given.count // len(judged_as)
    jobs = [
        (kind, at, min(AT_ONCE, given.first + each - at))
        for at in range(given.first, given.first + each, AT_ONCE)
        for kind in judged_as
    ]
    verdicts: Counter[str] = Counter()
    with ThreadPoolExecutor(given.processes) as pool:
        for rows in pool.map(lambda job: apart(*job), jobs):
            for row in rows:
                verdicts[row["verdict"]] += 1
                if row["verdict"] != "right":
                    print(
                        f"{row['kind']} {row['seed']}: {row['verdict']}: {row['text']}", flush=True
                    )
                if given.out:
                    with given.out.open("a") as file:
                        file.write(json.dumps(row) + "\n")
    print(f"{sum(verdicts.values())} programs: {dict(verdicts)}")
    return 1 if set(verdicts) - {"right"} else 0


if __name__ == "__main__":
    sys.exit(main())
