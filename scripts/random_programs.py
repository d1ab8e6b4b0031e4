"""Random programs at every level against NumPy: accesses that meet, products, tiles of any shape.

python scripts/random_programs.py --count 3000            the first 3,000, and what they cover
python scripts/random_programs.py --first 291 --count 1   one, made smaller if it is wrong
python scripts/random_programs.py --kind products         others: `products`, `shapes`, `control`
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "simulate"), str(ROOT / "src")]

import control_programs  # noqa: E402
import memory_programs  # noqa: E402
import product_programs  # noqa: E402
import shape_programs  # noqa: E402
from comparison import GOOD, Outcome, Program, compared, shrunk  # noqa: E402
from memory_programs import OPTIONS, RELATIONS  # noqa: E402
from on_device import compared_on_device  # noqa: E402

KINDS: dict[str, Callable[[int, int], Program]] = {
    "memory": memory_programs.program,
    "products": product_programs.program,
    "shapes": shape_programs.program,
    "control": control_programs.program,
}
MOST = {"memory": 8, "products": 10, "shapes": 12, "control": 14}
"""Statements of a program, if not said."""

PROXIES = ("threads", "engine", "both")


def noted(kind: str, seed: int, program: Any, outcome: Outcome) -> dict[str, Any]:
    """What `tables` needs of a program."""
    found: dict[str, Any] = {
        "kind": kind, "seed": seed, "verdict": outcome.verdict, "roles": outcome.roles,
        "options": sorted(program.options) if outcome.options else [],
    }  # fmt: skip
    if isinstance(program, memory_programs.Program):
        found |= {"arrays": program.shape.relation, "proxies": program.proxies}
    return found


def tables(rows: Sequence[dict[str, Any]]) -> str:
    """How many programs of each kind there were, and which options they were compiled with."""
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    lines = [] if "memory" not in kinds else meetings([r for r in rows if r["kind"] == "memory"])
    options = Counter((name, row["kind"]) for row in rows for name in row["options"])
    names = sorted({name for name, _ in options})
    counts = {name: [options[name, kind] for kind in kinds] for name in names}
    return "\n".join([*lines, *lines_of("option", kinds, counts)])


def meetings(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Programs whose accesses meet: their arrays, who accesses them, and with which options."""
    met = Counter((row["arrays"], row["roles"], row["proxies"]) for row in rows)
    ways = [(roles, who) for roles in (False, True) for who in PROXIES]
    head = [f"{who}, {'roles' if roles else 'one role'}" for roles, who in ways]
    counts = {arrays: [met[arrays, *way] for way in ways] for arrays in RELATIONS}
    lines = lines_of("arrays", head, counts)
    with_ = Counter((name, row["arrays"]) for row in rows for name in row["options"])
    given = {
        name: [with_[name, arrays] for arrays in RELATIONS]
        for name in ("num_warps", *OPTIONS, "ping_pong")
    }
    return [*lines, *lines_of("option", RELATIONS, given)]


def lines_of(what: str, head: Sequence[str], counts: dict[str, list[int]]) -> list[str]:
    """A table, with an empty line behind it."""
    body = [row(name, cells) for name, cells in counts.items()]
    return [row(what, head), row("---", ["---"] * len(head)), *body, ""]


def row(name: str, cells: Sequence[object]) -> str:
    """A line of a table."""
    return f"| {name} | {' | '.join(map(str, cells))} |"


def main() -> int:
    """Run them; 1 if one is wrong, crashes or hangs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=300, help="how many programs")
    parser.add_argument("--kind", choices=KINDS, default="memory", help="what they are about")
    parser.add_argument("--most", type=int, help="statements of a program")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no program begins later")
    parser.add_argument("--ptx", action="store_true", help="run what NVRTC makes of them, too")
    parser.add_argument("--device", action="store_true", help="run them on a GPU instead")
    parser.add_argument("--whole", action="store_true", help="do not make what is wrong smaller")
    parser.add_argument("--rows", type=Path, help="add a line a program to this file")
    parser.add_argument("--table", type=Path, nargs="+", help="what such files cover, no more")
    chosen = parser.parse_args()
    if chosen.table:
        print(tables([json.loads(line) for file in chosen.table for line in file.open()]))
        return 0
    done: list[dict[str, Any]] = []
    begin, end = time.process_time(), time.monotonic() + chosen.seconds
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(chosen.first, chosen.first + chosen.count):
            if time.monotonic() > end:
                break
            found = KINDS[chosen.kind](seed, chosen.most or MOST[chosen.kind])
            if chosen.device:
                print(f"next: {seed}", flush=True)  # the last one hangs, if it ends so
                outcome = compared_on_device(found, Path(folder))
            else:
                outcome = compared(found, Path(folder), (None, seed), ptx=chosen.ptx)
            done.append(noted(chosen.kind, seed, found, outcome))
            if chosen.rows:
                with chosen.rows.open("a") as out:
                    out.write(json.dumps(done[-1]) + "\n")
            if not outcome.bad:
                continue
            print(f"seed {seed}: {outcome.verdict} {outcome.where}\n{outcome.text}", flush=True)
            if not chosen.whole and not chosen.device:
                small = shrunk(found, Path(folder), outcome, ptx=chosen.ptx)
                print(small.source, replace(small, body=[]), flush=True)
    each = (time.process_time() - begin) / len(done)
    print(tables(done))
    counts, roles = Counter(row["verdict"] for row in done), sum(row["roles"] for row in done)
    print(f"{dict(counts)}, {roles} with roles, {each:.2f} s of processor time each")
    return int(not counts.keys() <= GOOD)


if __name__ == "__main__":
    sys.exit(main())
