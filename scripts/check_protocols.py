"""Check every library and example kernel under many launch options; the table of docs/protocols.md.

python scripts/check_protocols.py             print the table
python scripts/check_protocols.py --write     and put it into docs/protocols.md
python scripts/check_protocols.py --bound 1000000 --pairs      the long way round

The last column is made of the rows that scripts/proofs.py keeps.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / p) for p in ("tests/simulate", "src", "scripts")]

DOCUMENT = ROOT / "docs" / "protocols.md"
TABLE = re.compile(r"(?<=<!-- table: sweep -->\n).*?(?=<!-- end -->)", re.DOTALL)
HEAD = (
    "| kernel | combinations | bound | states | most | verdict | every launch |\n"
    "|---|---|---|---|---|---|---|\n"
)


def line(small, rows, bound: int, every: str) -> str:
    """A row of the table; `every` says of how many modules every launch is proved."""
    possible = [row for row in rows if row.possible]
    states = [row.states for row in possible if row.same_as is None]
    counts = Counter(row.verdict.partition(":")[0] for row in possible)
    verdict = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    which = f"{len(possible)} of {len(rows)}" if len(possible) < len(rows) else str(len(rows))
    kind = "in pairs" if small.pairs else ""
    numbers = f"{bound:,} | {sum(states):,} | {max(states, default=0):,}"
    return f"| {small.name} | {f'{which} {kind}'.strip()} | {numbers} | {verdict} | {every} |\n"


def main() -> int:
    """Run the sweep; 1 if something is unsafe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="rewrite docs/protocols.md")
    parser.add_argument("--bound", type=int, help="states of one combination")
    parser.add_argument("--pairs", action="store_true", help="pairs of options for every kernel")
    parser.add_argument("--only", help="kernels, by name, separated by commas")
    chosen = parser.parse_args()
    from dataclasses import replace

    import launches
    import proofs

    launches.BOUND = bound = chosen.bound or launches.BOUND
    table, unsafe = HEAD, False
    names = chosen.only.split(",") if chosen.only else [s.name for s in launches.LAUNCHES]
    for number, small in enumerate(launches.LAUNCHES):
        if small.name not in names:
            continue
        rows = (replace(small, pairs=True) if chosen.pairs else small).rows()
        table += line(small, rows, bound, proofs.every(number, proofs.kept()))
        print(table.splitlines()[-1], flush=True)
        for row in rows:
            if row.possible and not row.safe:
                unsafe = True
                print(row.render(), row.detail, sep="\n")
    if chosen.write:
        text = DOCUMENT.read_text()
        DOCUMENT.write_text(TABLE.sub(lambda _: table, text))
    return int(unsafe)


if __name__ == "__main__":
    sys.exit(main())
