"""Try to prove every launch of each library and example kernel; a row for each distinct module.

python scripts/proofs.py                       all kernels
python scripts/proofs.py --only gemm;softmax   some of them
python scripts/proofs.py --jobs 16             in so many processes
python scripts/proofs.py --failed              those again that were not proved
python scripts/proofs.py --summary             what the rows say, nothing run
python scripts/proofs.py --write               the last column of the table in docs/protocols.md

New rows take the places of old ones of the same options.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / p) for p in ("tests/simulate", "src")]

from xdsl.dialects.builtin import ModuleOp  # noqa: E402
from xdsl.parser import Parser  # noqa: E402

from tawa.cli.check_sweep import Chosen, Row, Sweep  # noqa: E402
from tawa.driver.compiled import context  # noqa: E402
from tawa.simulate import prove  # noqa: E402

DOCUMENT = ROOT / "docs" / "protocols.md"
TABLE = re.compile(r"(?<=<!-- table: sweep -->\n).*?(?=<!-- end -->)", re.DOTALL)
HEAD = "every launch"
ROWS = ROOT / "benchmarks" / "results" / "proofs.jsonl"
SECONDS = 60.0
Kept = dict[str, Any]
"""A row as it is written: the launch's number and name, options, and what was found."""


@dataclass
class Modules(Sweep):
    """Combinations of options that are compiled, and nothing else."""

    texts: list[tuple[Chosen, str]] = field(default_factory=list[tuple[Chosen, str]])

    def _searched(self, module: ModuleOp, options: Chosen) -> Row:
        self.texts.append((options, str(module)))
        return Row(options, "compiled")


def modules_of(number: int) -> list[tuple[Chosen, str]]:
    """The distinct modules of a launch's option sets, as text."""
    from launches import LAUNCHES

    small = LAUNCHES[number]
    sweep = small.sweep()
    found = Modules(sweep.kernel, sweep.grid, sweep.named)
    small.rows_of(found)
    return found.texts


def proved(text: str, seconds: float) -> Kept:
    """What is found of one module; the time is a processor's."""
    module = Parser(context(), text).parse_module()
    begin = time.process_time()
    found = prove(module, seconds)
    took = round(time.process_time() - begin, 1)
    why = {} if found.proved else {"why": found.why}
    return {"proved": found.proved, **why, "states": found.states, "seconds": took}


def found_of(numbers: Iterable[int], seconds: float) -> Iterator[tuple[int, Chosen, Kept]]:
    """Launches, their options and what is found of each module, one after the other."""
    for number in numbers:
        for options, text in modules_of(number):
            yield number, options, proved(text, seconds)


def at_once(
    numbers: Iterable[int], seconds: float, jobs: int
) -> Iterator[tuple[int, Chosen, Kept]]:
    """The same in several processes, as each ends: a module is tried as soon as it is compiled."""
    with ProcessPoolExecutor(jobs) as pool:
        compiled: dict[Future[Any], int] = {pool.submit(modules_of, n): n for n in numbers}
        tried: dict[Future[Any], tuple[int, Chosen]] = {}
        while compiled or tried:
            for done in wait([*compiled, *tried], return_when=FIRST_COMPLETED).done:
                if done in tried:
                    yield *tried.pop(done), done.result()
                    continue
                number = compiled.pop(done)
                for options, text in done.result():
                    tried[pool.submit(proved, text, seconds)] = number, options


def kept() -> list[Kept]:
    """The rows of earlier runs."""
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []


def write(rows: Iterable[Kept]) -> None:
    """Write all rows, in the order of kernels."""
    ordered = sorted(rows, key=lambda row: (row["number"], str(row["options"])))
    ROWS.write_text("".join(json.dumps(row) + "\n" for row in ordered))


def summary(rows: list[Kept]) -> str:
    """How many are proved, how long it took, and what stands in the way of the others."""
    done = [row for row in rows if row["proved"]]
    others = [row for row in rows if not row["proved"]]
    times = sorted(row["seconds"] for row in done) or [0.0]
    lines = [
        f"{len(done)} of {len(rows)} modules proved ({len(done) / max(len(rows), 1):.1%}); "
        f"seconds: median {times[len(times) // 2]:.1f}, most {times[-1]:.1f}"
    ]
    lines += [f"{row['number']} {row['kernel']} {row['options']}: {row['why']}" for row in others]
    counts = Counter(row["why"] for row in others)
    return "\n".join([*lines, *(f"{count:4} {why}" for why, count in counts.most_common())])


def every(number: int, rows: list[Kept]) -> str:
    """How many of a launch's modules are proved for every launch; nothing if none was tried."""
    own = [row for row in rows if row["number"] == number]
    return f"{sum(row['proved'] for row in own)} of {len(own)}" if own else ""


def with_column(text: str, names: list[str], rows: list[Kept]) -> str:
    """The table of a document with the column `every launch` made anew."""
    left = {name: [n for n, found in enumerate(names) if found == name] for name in names}

    def line(old: str) -> str:
        cells = [cell.strip() for cell in old.strip("|").split("|")][:6]
        if cells[0] == "kernel":
            return f"| {' | '.join([*cells, HEAD])} |"
        if set(cells[0]) == {"-"}:
            return "|---" * 7 + "|"
        return f"| {' | '.join([*cells, every(left[cells[0]].pop(0), rows)])} |"

    def table(found: re.Match[str]) -> str:
        return "".join(f"{line(old)}\n" for old in found.group().splitlines())

    return TABLE.sub(table, text)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="kernels, by name, separated by semicolons")
    parser.add_argument("--failed", action="store_true", help="kernels with unproved modules")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for one module")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--summary", action="store_true", help="of the rows that are kept")
    parser.add_argument("--write", action="store_true", help="them into docs/protocols.md")
    chosen = parser.parse_args()
    rows = {(row["number"], str(row["options"])): row for row in kept()}
    from launches import LAUNCHES

    names = [small.name for small in LAUNCHES]
    if chosen.write:
        text = DOCUMENT.read_text()
        DOCUMENT.write_text(with_column(text, names, list(rows.values())))
    elif not chosen.summary:
        wanted = set(chosen.only.split(";")) if chosen.only else set(names)
        if chosen.failed:
            wanted &= {row["kernel"] for row in rows.values() if not row["proved"]}
        numbers = [n for n, name in enumerate(names) if name in wanted]
        numbers.sort(key=lambda n: LAUNCHES[n].pairs)  # what takes long to compile comes last
        results = found_of(numbers, chosen.seconds)
        if chosen.jobs > 1:
            results = at_once(numbers, chosen.seconds, chosen.jobs)
        for number, options, found in results:
            row = {"number": number, "kernel": names[number], "options": options, **found}
            rows[number, str(options)] = row
            print(json.dumps(row), flush=True)
            write(rows.values())
    print(summary(list(rows.values())))


if __name__ == "__main__":
    main()
