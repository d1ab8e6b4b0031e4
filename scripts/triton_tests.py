"""Run Triton's own unit tests with Tawa in Triton's place; count them by file, failures by cause.

python scripts/triton_tests.py FOLDER                     a sample: 2 cases of each test function
python scripts/triton_tests.py FOLDER --cases 1000000     all of them
python scripts/triton_tests.py FOLDER --files core tuple --limit 120 -o results.jsonl
python scripts/triton_tests.py FOLDER --mode triton --again results.jsonl    failures, without Tawa
python scripts/triton_tests.py FOLDER --without results.jsonl    those that were not run before

FOLDER holds the tests, unmodified (`python/test/unit/language` of Triton 3.6); PyTorch and pytest
have to be installed. On a machine with a GPU kernels run on it, without one in the simulator.
`--mode` says what `triton` is: "provide", ours (one that is installed is hidden); "enable", the
installed one under `tawa.enable(strict=True)`; "triton", the installed one alone. A test ends in
one of these ways: passed; skipped, by itself or because it looks at Triton's own IR or compiles for
another kind of GPU; refused, by an error of Tawa's; wrong: what it asserts about values or objects
does not hold; accepted: an error was expected and did not come; crashed: another exception in Tawa,
or the process died; failed: another exception in the test; slow: it took longer than its limit.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENDED = (0, 1, 5)  # how pytest ends: all passed, some failed, none ran
ENDS = "passed", "refused", "wrong", "accepted", "crashed", "failed", "slow", "skipped"
MODES = "provide", "enable", "triton"
GRACE = 60  # seconds that a process may be silent beyond a test's limit: collecting takes some


@dataclass
class Shard:
    """A part of the tests, run by one process after another: a process may die of a test."""

    index: int
    files: list[Path]
    options: argparse.Namespace
    until: float
    ends: dict[str, dict] = field(default_factory=dict)
    chosen: int = 0

    def run(self) -> None:
        """Run processes until no test is left, or the time is over."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            while True:
                code = self._process(folder)
                rows = self._read(folder / "log.jsonl", code)
                if code in ENDED or time.monotonic() > self.until:
                    return
                if not rows:
                    why = f"not collected: the process ended with {code}"
                    self._note(f"shard {self.index}", "crashed", why)
                    return

    def _read(self, log: Path, code: int | None) -> list[dict]:
        """Take the ends from a log: of the test that was running too, unless time was over."""
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        self.chosen = max([self.chosen, *(row["collected"] for row in rows if "collected" in row)])
        tests = {row["test"]: row for row in rows if "test" in row}
        for name, row in tests.items():
            if "began" not in row:
                self.ends[name] = row
            elif time.monotonic() < self.until:
                slow = code == -9
                why = "out of time" if slow else f"the process ended with {code}"
                self._note(name, "slow" if slow else "crashed", why)
        return list(tests.values())

    def _note(self, name: str, outcome: str, why: str) -> None:
        self.ends[name] = {"test": name, "outcome": outcome, "why": why}

    def _process(self, folder: Path) -> int | None:
        """The code that pytest ended with; a process that says nothing for long is killed."""
        log, done = folder / "log.jsonl", folder / "done.json"
        log.write_text("")
        done.write_text(json.dumps(list(self.ends)))
        options = self.options
        here = [str(ROOT / "src"), str(ROOT / "scripts"), os.environ.get("PYTHONPATH", "")]
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in here if path),
            "TRITON_TESTS_LOG": str(log), "TRITON_TESTS_DONE": str(done),
            "TRITON_TESTS_CASES": str(options.cases), "TRITON_TESTS_LIMIT": str(options.limit),
            "TRITON_TESTS_SHARD": f"{self.index}/{options.shards}",
            "TRITON_TESTS_MODE": options.mode, "TRITON_TESTS_SEED": options.seed,
            "TRITON_TESTS_AGAIN": str(options.again.resolve()) if options.again else "",
            "TRITON_TESTS_WITHOUT": str(options.without.resolve()) if options.without else "",
            "PYTHONHASHSEED": "0",  # some cases come from sets
        }  # fmt: skip
        own = ["-p", "triton_plugin", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
        own += ["-k", options.keyword, *(path.name for path in self.files)]
        output = log.with_suffix(".txt")
        with output.open("w") as file:
            running = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-q", "--tb=short", *own],
                cwd=self.files[0].parent, env=env, stdout=file, stderr=file,
            )  # fmt: skip
            code = self._wait(running, log)
        if code not in (*ENDED, None):
            print(output.read_text()[-1500:], file=sys.stderr)
        return code

    def _wait(self, running: subprocess.Popen, log: Path) -> int | None:
        while True:
            try:
                return running.wait(1)
            except subprocess.TimeoutExpired:
                silent = time.time() - log.stat().st_mtime
                over = time.monotonic() > self.until
                if over or silent > self.options.limit + GRACE:
                    running.kill()
                    code = running.wait()
                    return None if over else code


def run(options: argparse.Namespace) -> list[dict]:
    """The ends of all tests, from as many processes at a time as there are shards."""
    files = [
        path
        for path in sorted(options.folder.resolve().glob("test_*.py"))
        if not options.files or path.stem.removeprefix("test_") in options.files
    ]
    until = time.monotonic() + options.budget
    shards = [Shard(index, files, options, until) for index in range(options.shards)]
    with ThreadPoolExecutor(options.shards) as threads:
        list(threads.map(Shard.run, shards))
    rows = [row for shard in shards for row in shard.ends.values()]
    left = max(shard.chosen for shard in shards) - len(rows)
    if left > 0:
        print(f"out of time, {left} tests not run")
    return sorted(rows, key=lambda row: row["test"])


def table(rows: list[dict]) -> str:
    """How many tests of each file ended in which way."""
    counts: defaultdict[str, Counter] = defaultdict(Counter)
    for row in rows:
        counts[row["test"].partition("::")[0]][row["outcome"]] += 1
        counts["all"][row["outcome"]] += 1
    lines = [f"{'':32}" + "".join(f"{end:>9}" for end in ENDS)]
    for name, count in counts.items():
        lines.append(f"{name:32}" + "".join(f"{count[end] or '':>9}" for end in ENDS))
    return "\n".join(lines)


def causes(rows: list[dict]) -> str:
    """Failures by what they say, the most frequent first, each with a test."""
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row["outcome"] not in ("passed", "skipped"):
            text = re.sub(r"\d+", "N", row["why"])[:150]
            groups[row["outcome"], text].append(row["test"])
    found = sorted(groups.items(), key=lambda item: -len(item[1]))
    return "\n".join(f"{len(t):4} {end:8} {why}\n{'':14}{t[0]}" for (end, why), t in found)


def main() -> None:
    """Run the files and print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the tests lie")
    parser.add_argument("--cases", type=int, default=2, help="cases of each test function")
    parser.add_argument("--seed", default="", help="draws other cases, in another order")
    parser.add_argument("--limit", type=int, default=60, help="seconds that a test may take")
    parser.add_argument("--budget", type=int, default=36000, help="seconds for all of it")
    parser.add_argument("--shards", type=int, default=1, help="processes at a time")
    parser.add_argument("--mode", choices=MODES, default="provide", help="what `triton` is")
    parser.add_argument("--again", type=Path, help="only what failed according to this file")
    parser.add_argument("--without", type=Path, help="none that has a line in this file")
    parser.add_argument("--files", nargs="*", default=[], help="names without test_ and .py")
    parser.add_argument("-k", dest="keyword", default="", help="tests to run, as pytest has it")
    parser.add_argument("-o", "--output", type=Path, help="a line of JSON for each test")
    options = parser.parse_args()
    rows = run(options)
    if options.output:
        options.output.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(table(rows), causes(rows), sep="\n\n")


if __name__ == "__main__":
    main()
