"""Mutants of the compiler: one operator or condition changed, and the nearest tests run.

python scripts/mutants.py --count 150 --jobs 16          all of them, in so many processes
python scripts/mutants.py --first 40 --count 20          a share of them
python scripts/mutants.py --show 17                      one mutant's change
python scripts/mutants.py --summary rows.jsonl           what rows say

A number is a mutant: a file of the compiler, run time or simulator, drawn evenly, and a place in
it. Tests that name the file's module come first, then others of its room (of the compiler, if it
has none); a mutant is caught if one fails.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

ROOT = Path(__file__).parents[1]
ROOMS = ("tile", "partition", "aref", "pipeline", "codegen", "hopper", "frontend", "driver",
         "runtime", "simulate", "ir")  # fmt: skip
SECONDS = 80.0
"""For the tests of one mutant."""

COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not",
            "is not": "is", "in": "not in", "not in": "in"}  # fmt: skip
COMPUTED = {"+": "-", "-": "+", "*": "+", "//": "*", "%": "//", "|": "&", "&": "|", "<<": ">>"}


@dataclass(frozen=True)
class Edit:
    """A text in a file, from one place to another, and what stands there instead."""

    start: int
    end: int
    new: str


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
                return [Edit(begin + match.start(), begin + match.end(), names[old])]
        return []

    def edits(self, node: ast.AST) -> list[Edit]:
        """What else an expression or a statement may say."""
        match node:
            case ast.Compare(left=left, comparators=[right]):
                return self.between(left, right, COMPARED)
            case ast.BinOp(left=left, right=right):
                return self.between(left, right, COMPUTED)
            case ast.BoolOp(values=[left, right, *_]):
                return self.between(left, right, {"and": "or", "or": "and"})
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                begin, end = self.span(test)
                return [Edit(begin, end, f"(not ({self.raw[begin:end].decode()}))")]
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return [Edit(self.span(node)[0], self.span(operand)[0], "")]
            case ast.Constant(value=value) if type(value) is int:
                return [Edit(*self.span(node), str(value + 1))]
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
        work += [(child, inside) for child in ast.iter_child_nodes(node)]


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    number: int
    file: Path
    line: int
    old: str
    new: str
    text: str
    """The file, changed."""


def mutant(number: int) -> Mutant:
    """The mutant of a number."""
    draw = random.Random(number)
    files = sorted(f for room in ROOMS for f in (ROOT / "src" / "tawa" / room).rglob("*.py"))
    while True:
        file = draw.choice(files)
        text = file.read_text()
        found = places(text)
        if not found:
            continue
        edit = draw.choice(found)
        raw = text.encode()
        line = raw[: edit.start].count(b"\n") + 1
        changed = (raw[: edit.start] + edit.new.encode() + raw[edit.end :]).decode()
        ast.parse(changed)
        old, new = text.splitlines()[line - 1].strip(), changed.splitlines()[line - 1].strip()
        return Mutant(number, file.relative_to(ROOT), line, old, new, changed)


def python_path(copy: Path) -> str:
    """A copy's sources, before what is found already: packages may be there alone."""
    return os.pathsep.join(filter(None, (str(copy / "src"), os.environ.get("PYTHONPATH"))))


def collected(folder: Path) -> set[str]:
    """The test files of a folder that can be run here: what they need may be missing."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider",
               "--continue-on-collection-errors", str(folder)]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": python_path(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True,
                          text=True)  # fmt: skip
    return {line.split("::")[0] for line in done.stdout.splitlines() if "::" in line}


def tests_of(file: Path) -> list[str]:
    """Test files that name a file's module, those of its room first, then others of the room."""
    _, _, room, *rest = file.with_suffix("").parts
    folder = ROOT / "tests" / room
    if not folder.exists():
        folder = ROOT / "tests" / "compiler"
    module = ".".join(("tawa", room, *(part for part in rest if part != "__init__")))
    near: dict[tuple[bool, bool], list[Path]] = {}
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        named = module in test.read_text() or test.stem == f"test_{rest[-1]}"
        near.setdefault((named, folder in test.parents), []).append(test)
    order = [
        test for key in ((True, True), (True, False), (False, True)) for test in near.get(key, [])
    ]
    return [str(test.relative_to(ROOT)) for test in order]


def pytest(copy: Path, tests: list[str], seconds: float) -> tuple[int, str]:
    """Run tests in a copy of the repository: the exit status and what was said. May time out."""
    environment = {**os.environ, "PYTHONPATH": python_path(copy), "PYTHONDONTWRITEBYTECODE": "1",
                   "TAWA_CACHE_DIR": str(copy / "cache")}  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(command, cwd=copy, env=environment, timeout=seconds, check=False,
                              capture_output=True, text=True)  # fmt: skip
    finally:
        shutil.rmtree(copy / "cache", ignore_errors=True)
    return done.returncode, done.stdout + done.stderr


def judged(number: int, copy: Path, seconds: float, usable: set[str]) -> dict[str, Any]:
    """Run the tests of a mutant in a copy of the repository; a row.

    What fails must pass without the change.
    """
    made = mutant(number)
    place = copy / made.file
    row = {"number": number, "file": str(made.file), "line": made.line, "old": made.old,
           "new": made.new}  # fmt: skip
    before, begin = place.read_text(), time.monotonic()
    tests, said, by = [test for test in tests_of(made.file) if test in usable], "", ""
    if not tests:
        return {**row, "verdict": "no tests", "by": "", "seconds": 0.0, "said": ""}
    place.write_text(made.text)
    try:
        status, said = pytest(copy, tests, seconds)
        verdict = "caught" if status else "not caught"
    except subprocess.TimeoutExpired:
        verdict = "not caught in time"
    finally:
        place.write_text(before)
    if verdict == "caught":
        lines = [x for x in said.splitlines() if x.startswith(("FAILED ", "ERROR "))]
        by = lines[0].split(" ", 1)[1].split(" - ")[0] if lines else ""
        try:
            status, said = pytest(copy, [by] if by else tests, seconds)
            verdict = "fails without the change" if status else "caught"
        except subprocess.TimeoutExpired:
            verdict = "fails, not tried without the change"
    took = round(time.monotonic() - begin, 1)
    tail = "" if verdict == "caught" else said[-600:]
    return {**row, "verdict": verdict, "by": by, "seconds": took, "said": tail}


def summary(rows: list[dict[str, Any]]) -> str:
    """How many were caught, and the others."""
    counts = Counter(row["verdict"] for row in rows)
    lines = [f"{counts['caught']} of {len(rows)} caught; {dict(counts)}"]
    for row in rows:
        if row["verdict"] != "caught":
            lines += [f"{row['number']} {row['verdict']} {row['file']}:{row['line']}",
                      f"  - {row['old']}", f"  + {row['new']}"]  # fmt: skip
    return "\n".join(lines)


def run(numbers: list[int], jobs: int, seconds: float, out: Path) -> list[dict[str, Any]]:
    """Judge mutants, each process in a copy of its own; rows are written as they come."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for job in range(min(jobs, len(numbers))):
            copy = Path(folder) / str(job)
            for part in ("src", "tests", "examples", "docs", "scripts", "benchmarks"):
                shutil.copytree(ROOT / part, copy / part, symlinks=True)
            shutil.copy(ROOT / "pyproject.toml", copy)
            copies.put(copy)
        folders = sorted({test.parent for test in (ROOT / "tests").glob("*/**/test_*.py")})
        usable = set[str]().union(*pool.map(collected, folders))
        print(len(usable), "test files can be run", flush=True)

        def one(number: int) -> dict[str, Any]:
            copy = copies.get()
            try:
                return judged(number, copy, seconds, usable)
            finally:
                copies.put(copy)

        for done in as_completed([pool.submit(one, number) for number in numbers]):
            rows.append(done.result())
            with out.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first number")
    parser.add_argument("--count", type=int, default=150, help="how many")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for the tests of one")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"), help="for the rows")
    parser.add_argument("--show", type=int, help="print one mutant")
    parser.add_argument("--summary", type=Path, help="of a file of rows")
    chosen = parser.parse_args()
    if chosen.show is not None:
        made = mutant(chosen.show)
        print(
            f"{made.file}:{made.line}\n- {made.old}\n+ {made.new}", *tests_of(made.file), sep="\n"
        )
    elif chosen.summary:
        print(summary([json.loads(line) for line in chosen.summary.read_text().splitlines()]))
    else:
        numbers = list(range(chosen.first, chosen.first + chosen.count))
        print(summary(run(numbers, chosen.jobs, chosen.seconds, chosen.out)))


if __name__ == "__main__":
    main()
