"""Random programs at every level against NumPy: accesses that meet, products, tiles of any shape.

python scripts/random_programs.py --count 3000            the first 3,000, and what they cover
python scripts/random_programs.py --first 291 --count 1   one, made smaller if it is wrong
python scripts/random_programs.py --kind products         others: `products`, `shapes`, `control`
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "simulate"), str(ROOT / "src")]

import control_programs  # noqa: E402
import memory_programs  # noqa: E402
import product_programs  # noqa: E402
import shape_programs  # noqa: E402
from comparison import Outcome, Program, compared, shrunk  # noqa: E402
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


def table(done: list[tuple[memory_programs.Program, Outcome]]) -> str:
    """How many programs whose accesses meet there were of each kind."""
    kinds = Counter((p.shape.relation, o.roles, p.proxies) for p, o in done)
    head = [
        f"{who}, {'roles' if roles else 'one role'}" for roles in (False, True) for who in PROXIES
    ]
    lines = [row("arrays", head), row("---", ["---"] * len(head))]
    for relation in RELATIONS:
        cells = [kinds[relation, roles, who] for roles in (False, True) for who in PROXIES]
        lines.append(row(relation, cells))
    with_ = Counter((name, p.shape.relation) for p, o in done if o.options for name in p.options)
    lines += ["", row("option", RELATIONS), row("---", ["---"] * len(RELATIONS))]
    for name in ("num_warps", *OPTIONS, "ping_pong"):
        lines.append(row(name, [with_[name, relation] for relation in RELATIONS]))
    return "\n".join(lines)


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
    chosen = parser.parse_args()
    done: list[tuple[Program, Outcome]] = []
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
            done.append((found, outcome))
            if not outcome.bad:
                continue
            print(f"seed {seed}: {outcome.verdict} {outcome.where}\n{outcome.text}", flush=True)
            if not chosen.whole and not chosen.device:
                small = shrunk(found, Path(folder), outcome, ptx=chosen.ptx)
                print(small.source, replace(small, body=[]), flush=True)
    counts = Counter(outcome.verdict for _, outcome in done)
    each = (time.process_time() - begin) / len(done)
    if chosen.kind == "memory":
        print(table([(p, o) for p, o in done if isinstance(p, memory_programs.Program)]))
    roles = sum(outcome.roles for _, outcome in done)
    print(f"{dict(counts)}, {roles} with roles, {each:.2f} s of processor time each")
    return 1 if any(outcome.bad for _, outcome in done) else 0


if __name__ == "__main__":
    sys.exit(main())
