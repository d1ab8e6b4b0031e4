"""Mutants of the compiler: one operator or condition changed, and the nearest tests run.

python scripts/mutants.py --cover covers.npz --jobs 16   which lines each test runs (Python 3.12)
python scripts/mutants.py --cover covers.npz --again tests/tile     those of some tests, anew
python scripts/mutants.py --covers covers.npz --count 150 --jobs 16 --seconds 40
python scripts/mutants.py --first 40 --count 20          a share of them
python scripts/mutants.py --only 3,17                    some of them
python scripts/mutants.py --show 17                      one mutant's change
python scripts/mutants.py --summary rows.jsonl           what rows say

A number is a mutant: a file of the compiler, run time or simulator, drawn evenly, and a place in
it. Its tests are those that run the place: first of its room and of files that name its module
("near"), the quickest first, then others. It is caught if one fails, or never ends, which passes
without the change. Places that no test runs are counted apart. Mutants that change nothing are
listed with the reason in scripts/equivalent_mutants.toml.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from covers import Covers, note

ROOT = Path(__file__).parents[1]
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
ROOMS = ("tile", "partition", "aref", "pipeline", "codegen", "hopper", "frontend", "driver",
         "runtime", "simulate", "ir")  # fmt: skip
SECONDS = 40.0
"""For the tests of one mutant, as they take without it; others that run its line get half."""

COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not",
            "is not": "is", "in": "not in", "not in": "in"}  # fmt: skip
COMPUTED = {"+": "-", "-": "+", "*": "+", "//": "*", "%": "//", "|": "&", "&": "|", "<<": ">>"}


@dataclass(frozen=True)
class Edit:
    """A text in a file, from one place to another, and what stands there instead."""

    start: int
    end: int
    new: str
    lines: tuple[int, int]
    """The first and the last line of the expression that is changed."""


class Source:
    """A file's text, and where its expressions lie in it."""

    def __init__(self, text: str) -> None:
        self.raw = text.encode()
        self.starts = [0]
        for line in self.raw.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def span(self, node: Any) -> tuple[int, int]:
        """From its first byte to the one after its last."""
        begin = self.starts[node.lineno - 1] + node.col_offset
        return begin, self.starts[node.end_lineno - 1] + node.end_col_offset

    def between(self, left: ast.expr, right: ast.expr, names: dict[str, str]) -> list[Edit]:
        """Another operator for the one between two expressions."""
        begin, end = self.span(left)[1], self.span(right)[0]
        for old in sorted(names, key=len, reverse=True):
            edge = r"\b" if old[0].isalpha() else ""
            match = re.search(edge + re.escape(old) + edge, self.raw[begin:end].decode())
            if match:
                lines = (left.lineno, right.end_lineno or right.lineno)
                return [Edit(begin + match.start(), begin + match.end(), names[old], lines)]
        return []

    def edits(self, node: ast.AST) -> list[Edit]:
        """What else an expression or a statement may say."""
        match node:
            case ast.Compare(left=left, comparators=[right]):
                return self.between(left, right, COMPARED)
            case ast.BinOp(left=left, op=op, right=right) if not isinstance(op, ast.Pow):
                return self.between(left, right, COMPUTED)
            case ast.BoolOp(values=[left, right, *_]):
                return self.between(left, right, {"and": "or", "or": "and"})
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                begin, end = self.span(test)
                text, lines = self.raw[begin:end].decode(), (test.lineno, test.end_lineno or 0)
                return [Edit(begin, end, f"(not ({text}))", lines)]
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                lines = (node.lineno, operand.lineno)
                return [Edit(self.span(node)[0], self.span(operand)[0], "", lines)]
            case ast.Constant(value=value) if type(value) is int:
                return [Edit(*self.span(node), str(value + 1), (node.lineno, node.lineno))]
            case _:
                return []


def places(text: str) -> list[Edit]:
    """Every edit of a file's text that changes what a function computes."""
    source = Source(text)
    return [edit for node in _inside_functions(ast.parse(text)) for edit in source.edits(node)]


def _inside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes of functions' bodies; not of messages, types and assertions, which compute nothing."""
    work: list[tuple[ast.AST, bool]] = [(tree, False)]
    while work:
        node, inside = work.pop()
        if isinstance(node, (ast.Assert, ast.Raise, ast.JoinedStr)):
            continue
        if inside:
            yield node
        if isinstance(node, ast.FunctionDef):
            work += [(child, True) for child in node.body]
            continue
        if isinstance(node, ast.AnnAssign):
            work += [(node.value, inside)] if node.value else []
            continue
        work += [(child, inside) for child in ast.iter_child_nodes(node)]


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: Path
    line: int
    old: str
    new: str
    text: str
    """The file, changed."""
    lines: tuple[int, int]
    """Those of the expression that is changed."""


def mutant(number: int) -> Mutant:
    """The mutant of a number; the same one as long as its file and its line are there."""
    files = [f for room in ROOMS for f in (ROOT / "src" / "tawa" / room).rglob("*.py")]
    files.sort(key=lambda file: _drawn(number, str(file.relative_to(ROOT))))
    file = next(file for file in files if changes(file))
    return min(changes(file), key=lambda one: _drawn(number, one.old, one.new))


def _drawn(*parts: object) -> str:
    """A number that is drawn for some texts."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@cache
def changes(file: Path) -> list[Mutant]:
    """Every mutant of a file."""
    text = file.read_text()
    return [_changed(file, text, edit) for edit in places(text)]


def _changed(file: Path, text: str, edit: Edit) -> Mutant:
    raw = text.encode()
    line = raw[: edit.start].count(b"\n") + 1
    changed = (raw[: edit.start] + edit.new.encode() + raw[edit.end :]).decode()
    old, new = text.splitlines()[line - 1].strip(), changed.splitlines()[line - 1].strip()
    return Mutant(file.relative_to(ROOT), line, old, new, changed, edit.lines)


def distinct(first: int, count: int) -> list[int]:
    """So many numbers from the first on whose mutants differ from each other."""
    found: dict[tuple[Path, str], int] = {}
    number = first
    while len(found) < count:
        made = mutant(number)
        found.setdefault((made.file, made.text), number)
        number += 1
    return list(found.values())


@cache
def equivalents() -> dict[tuple[str, str, str], str]:
    """Why mutants that change nothing do so: by their file, and their line before and after."""
    listed = tomllib.loads(EQUIVALENT.read_text())["mutant"]
    return {(one["file"], one["old"], one["new"]): one["why"] for one in listed}


@cache
def near(file: Path) -> dict[str, int]:
    """Test files near a file of the compiler: 1 if it names the module, else 3, of the room."""
    _, _, room, *rest = file.with_suffix("").parts
    folders = [ROOT / "tests" / part for part in (room, *rest[:-1])]
    folders = [folder for folder in folders if folder.exists()]
    if not folders or room in ("driver", "ir"):
        folders.append(ROOT / "tests" / "compiler")
    module = ".".join(("tawa", room, *(part for part in rest if part != "__init__")))
    found: dict[str, int] = {}
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        if module in test.read_text() or test.stem == f"test_{rest[-1]}":
            found[str(test.relative_to(ROOT))] = 1
        elif any(folder in test.parents for folder in folders):
            found[str(test.relative_to(ROOT))] = 3
    return found


@dataclass(frozen=True)
class Stage:
    """Tests that one process runs, in their order."""

    tests: list[str]
    seconds: float
    """What they take together."""
    longest: float


def stages(made: Mutant, covers: Covers, seconds: float) -> list[Stage]:
    """The tests that run a mutant's line: a few of the nearest and quickest, then the others."""
    close = near(made.file)
    file = "/".join(made.file.parts[2:])
    cases: Counter[str] = Counter()
    costs: list[tuple[bool, float, int]] = []
    for index in sorted(covers.running(file, *made.lines), key=lambda i: covers.seconds[i]):
        test, took = covers.tests[index], covers.seconds[index] + 0.02
        cases[test.partition("[")[0]] += 1  # other tests say more than other cases of one
        weight = close.get(test.partition("::")[0], 0)
        cost = took * cases[test.partition("[")[0]] * (weight or 1)
        costs.append((weight == 0, cost, index))
    found: list[Stage] = []
    for far, ends in ((False, (4.0, seconds)), (True, (4.0, seconds / 2))):
        begin, chosen = 0.0, list[int]()
        for _, _, index in sorted(c for c in costs if c[0] is far):
            took = covers.seconds[index] + 0.02
            if begin and begin + took > ends[1]:
                continue
            if begin <= ends[0] < begin + took and chosen:
                found.append(stage(chosen, covers))
                chosen = []
            chosen.append(index)
            begin += took
        if chosen:
            found.append(stage(chosen, covers))
    return found


def stage(chosen: list[int], covers: Covers) -> Stage:
    """Tests for one process; those of a file together, the quickest file first."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for index in chosen:
        files[covers.tests[index].partition("::")[0]].append(covers.tests[index])
    took = [covers.seconds[index] for index in chosen]
    return Stage([test for tests in files.values() for test in tests], sum(took), max(took))


def pytest(copy: Path, asked: Stage) -> tuple[str, str]:
    """Run tests in a copy of the repository: the one that failed ("" if none), what was said."""
    list_of, failed = copy / "chosen.txt", copy / "chosen.failed"
    list_of.write_text("\n".join(asked.tests))
    failed.unlink(missing_ok=True)
    path = os.pathsep.join(
        filter(None, (f"{copy / 'src'}", f"{copy / 'scripts'}", os.environ.get("PYTHONPATH")))
    )
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1",
                   "TAWA_CACHE_DIR": str(copy / "cache"), "TAWA_CHOSEN": str(list_of),
                   "CUDA_VISIBLE_DEVICES": ""}  # fmt: skip
    each, limit = 15 + 5 * asked.longest, 40 + 3 * asked.seconds
    files = list(dict.fromkeys(test.partition("::")[0] for test in asked.tests))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb", "short", "-p", "covering",
               "-p", "no:cacheprovider", "-p", "no:benchmark", "--timeout", str(int(each)),
               *files]  # fmt: skip
    try:
        done = subprocess.run(command, cwd=copy, env=environment, timeout=limit, check=False,
                              capture_output=True, text=True,
                              start_new_session=True)  # fmt: skip
    except subprocess.TimeoutExpired:
        return "all: no end", ""
    finally:
        shutil.rmtree(copy / "cache", ignore_errors=True)
    said = (done.stdout + done.stderr)[-1500:]
    if done.returncode == 0:
        return "", said
    if failed.exists():
        return failed.read_text(), said
    return "all: not started" if done.returncode != 5 else "", said


BROKEN: set[str] = set()
"""Tests that failed without a change: they judge no mutant."""


def judged(number: int, copy: Path, seconds: float, covers: Covers) -> dict[str, Any]:
    """Run the tests of a mutant in a copy of the repository; a row."""
    made, begin = mutant(number), time.monotonic()
    row: dict[str, Any] = {"number": number, "file": str(made.file), "line": made.line,
                           "old": made.old, "new": made.new, "verdict": "not caught",
                           "near": False, "by": "", "tests": 0, "said": ""}  # fmt: skip
    if (str(made.file), made.old, made.new) in equivalents():
        return {**row, "verdict": "equivalent"}
    asked = stages(made, covers, seconds)
    if not asked:
        return {**row, "verdict": "not covered"}
    for one in asked:
        row["tests"] += len(one.tests)
        by, said = _failing(made, one, copy)
        if by:
            first = one.tests[0] if by.startswith("all:") else by
            close = first.partition("::")[0] in near(made.file)
            row |= {"verdict": "caught", "near": close, "by": by, "said": said[-500:]}
            break
    return {**row, "seconds": round(time.monotonic() - begin, 1)}


def _failing(made: Mutant, asked: Stage, copy: Path) -> tuple[str, str]:
    """The test that fails with a change; "" if there is none.

    If all are said not to have ended or begun, they do without the change.
    """
    place = copy / made.file
    before = place.read_text()
    tests = [test for test in asked.tests if test not in BROKEN]
    if not tests:
        return "", ""
    asked = replace(asked, tests=tests)
    place.write_text(made.text)
    try:
        by, said = pytest(copy, asked)
    finally:
        place.write_text(before)
    return ("", "") if by.startswith("all:") and pytest(copy, asked)[0] else (by, said)


def failing_anyway(rows: list[dict[str, Any]], copy: Path, covers: Covers) -> set[str]:
    """Of the tests that caught mutants, those that fail without a change, too."""
    seconds = dict(zip(covers.tests, covers.seconds, strict=True))
    left = sorted({row["by"] for row in rows if row["by"] in seconds})
    found: set[str] = set()
    while left:
        took = [seconds[test] for test in left]
        by, _ = pytest(copy, Stage(left, sum(took), max(took)))
        if not by:
            break
        whole = by.startswith("all:")
        found |= set(left) if whole else {by}
        left = [] if whole else left[left.index(by) + 1 :]
    return found


def summary(rows: list[dict[str, Any]]) -> str:
    """How many were caught, and the others."""
    counts = Counter(row["verdict"] for row in rows)
    tried = len(rows) - counts["equivalent"] - counts["not covered"]
    close = sum(row["verdict"] == "caught" and row["near"] for row in rows)
    lines = [f"{counts['caught']} of {tried} caught ({counts['caught'] / max(tried, 1):.1%}), "
             f"{close} by the nearest tests; {dict(counts)}"]  # fmt: skip
    rooms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        rooms[Path(row["file"]).parts[2]][row["verdict"]] += 1
    lines += [f"  {room}: {dict(found)}" for room, found in sorted(rooms.items())]
    for row in sorted(rows, key=lambda row: row["file"]):
        if row["verdict"] not in ("caught", "equivalent"):
            lines += [f"{row['number']} {row['verdict']} {row['file']}:{row['line']}",
                      f"  - {row['old']}", f"  + {row['new']}"]  # fmt: skip
    return "\n".join(lines)


def run(
    numbers: list[int], jobs: int, seconds: float, out: Path, covers: Covers, until: float
) -> list[dict[str, Any]]:
    """Judge mutants, each process in a copy of its own; rows are written as they come.

    None is begun after `until` seconds: those that are slow to judge are not the ones left out.
    """
    rows: list[dict[str, Any]] = []
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for job in range(min(jobs, len(numbers))):
            copy = Path(folder) / str(job)
            for part in ("src", "tests", "examples", "docs", "scripts", "benchmarks"):
                shutil.copytree(ROOT / part, copy / part, symlinks=True)
            shutil.copy(ROOT / "pyproject.toml", copy)
            copies.put(copy)

        def one(number: int) -> dict[str, Any] | None:
            copy = copies.get()
            try:
                late = time.monotonic() - begin > until
                return None if late else judged(number, copy, seconds, covers)
            finally:
                copies.put(copy)

        for done in as_completed([pool.submit(one, number) for number in numbers]):
            row = done.result()
            if row is None:
                continue
            rows.append(row)
            write(out, row)
        if rows:
            BROKEN.update(failing_anyway(rows, Path(folder) / "0", covers))
        for index, row in enumerate(rows):
            if row["by"] in BROKEN:
                rows[index] = judged(row["number"], Path(folder) / "0", seconds, covers)
                write(out, rows[index])
    return rows


def write(out: Path, row: dict[str, Any]) -> None:
    """Add a row; of two of a mutant the last one counts."""
    with out.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print({k: v for k, v in row.items() if k != "said"}, flush=True)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cover", type=Path, help="note which lines tests run, in this file")
    parser.add_argument(
        "--limit", type=float, default=1800, help="seconds for all: none begins after"
    )
    parser.add_argument("--again", nargs="+", default=[], help="with --cover: these tests alone")
    parser.add_argument("--covers", type=Path, help="what `--cover` wrote")
    parser.add_argument("--first", type=int, default=0, help="the first number")
    parser.add_argument("--count", type=int, default=150, help="how many")
    parser.add_argument("--only", help="numbers, with commas between")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for the tests of one")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"), help="for the rows")
    parser.add_argument("--show", type=int, help="print one mutant")
    parser.add_argument("--summary", type=Path, nargs="+", help="of files of rows")
    chosen = parser.parse_args()
    if chosen.cover:
        note(chosen.cover, chosen.jobs, chosen.limit, chosen.again)
    elif chosen.show is not None:
        show(mutant(chosen.show), chosen.covers and Covers(chosen.covers), chosen.seconds)
    elif chosen.summary:
        texts = [file.read_text() for file in chosen.summary]
        rows = [json.loads(line) for text in texts for line in text.splitlines()]
        print(summary(list({row["number"]: row for row in rows}.values())))
    else:
        numbers = [int(number) for number in (chosen.only or "").split(",") if number]
        numbers = numbers or distinct(chosen.first, chosen.count)
        if chosen.covers is None:
            parser.error("--covers is missing: write it with --cover")
        covers = Covers(chosen.covers)
        rows = run(numbers, chosen.jobs, chosen.seconds, chosen.out, covers, chosen.limit)
        print(summary(rows))


def show(made: Mutant, covers: Covers | None, seconds: float) -> None:
    """Print a mutant, and the tests that are asked."""
    print(f"{made.file}:{made.line}\n- {made.old}\n+ {made.new}")
    for one in stages(made, covers, seconds) if covers else []:
        print(f"{one.seconds:.1f} s:", *one.tests, sep="\n  ")


if __name__ == "__main__":
    main()
