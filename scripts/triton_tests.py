"""Run Triton's own unit tests with Tawa in Triton's place; count them by file, failures by cause.

python scripts/triton_tests.py FOLDER                     a sample: 2 cases of each test function
python scripts/triton_tests.py FOLDER --cases 1000000     all of them
python scripts/triton_tests.py FOLDER --files core tuple --limit 120 -o results.jsonl

FOLDER holds the tests, unmodified (`python/test/unit/language` of Triton 3.6); PyTorch and pytest
have to be installed and Triton must not be. On a machine with a GPU kernels run on it, without one
in the simulator. A test ends in one of these ways: passed; skipped, by itself; refused, by an error
of Tawa's; wrong: what it asserts about values or objects does not hold; accepted: an error was
expected and did not come; crashed: another exception in Tawa, or the process died; failed: another
exception in the test; slow: it took longer than its limit.
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
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENDED, OUT_OF_BUDGET = (0, 1, 5), None  # how pytest ends: all passed, some failed, none ran
ENDS = "passed", "refused", "wrong", "accepted", "crashed", "failed", "slow", "skipped"


def run_file(path: Path, options: argparse.Namespace) -> list[dict]:
    """The ends of a file's tests. A process that dies is followed by one for the tests left."""
    ends: dict[str, dict] = {}
    chosen = 0
    until = time.monotonic() + options.budget
    with tempfile.TemporaryDirectory() as folder:
        log, done = Path(folder) / "log.jsonl", Path(folder) / "done.json"
        while True:
            log.write_text("")
            done.write_text(json.dumps(list(ends)))
            code = _process(path, log, done, options, until - time.monotonic())
            rows = [json.loads(line) for line in log.read_text().splitlines()]
            tests = [row for row in rows if "test" in row]
            chosen = max([chosen, *(row["collected"] for row in rows if "collected" in row)])
            for row in tests:
                died = {"outcome": "crashed", "why": f"the process ended with {code}"}
                ends[row["test"]] = {"test": row["test"], **died} if "began" in row else row
            if code in ENDED or not tests:
                break
        if code is OUT_OF_BUDGET:
            print(f"{path.name}: out of time, {chosen - len(ends)} tests not run")
            ends = {name: row for name, row in ends.items() if "ended with None" not in row["why"]}
        elif code not in ENDED:
            ends[path.name] = {"test": path.name, "outcome": "crashed", "why": "not collected"}
    return list(ends.values())


def _process(
    path: Path, log: Path, done: Path, options: argparse.Namespace, seconds: float
) -> int | None:
    """The code that pytest ended with; None if the time was over."""
    env = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'scripts'}",
        "TRITON_TESTS_LOG": str(log), "TRITON_TESTS_DONE": str(done),
        "TRITON_TESTS_CASES": str(options.cases), "TRITON_TESTS_LIMIT": str(options.limit),
        "PYTHONHASHSEED": "0",  # some cases come from sets
    }  # fmt: skip
    own = ["-p", "triton_plugin", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    own += ["-k", options.keyword]
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", *own, path.name]
    output = log.with_suffix(".txt")
    with output.open("w") as file:
        running = subprocess.Popen(command, cwd=path.parent, env=env, stdout=file, stderr=file)
        try:
            code = running.wait(max(1, seconds))
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
            return OUT_OF_BUDGET
    if code not in ENDED:
        print(output.read_text()[-1500:], file=sys.stderr)
    return code


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
    parser.add_argument("--limit", type=int, default=60, help="seconds that a test may take")
    parser.add_argument("--budget", type=int, default=36000, help="seconds that a file may take")
    parser.add_argument("--files", nargs="*", default=[], help="names without test_ and .py")
    parser.add_argument("-k", dest="keyword", default="", help="tests to run, as pytest has it")
    parser.add_argument("-o", "--output", type=Path, help="a line of JSON for each test")
    options = parser.parse_args()
    rows: list[dict] = []
    for path in sorted(options.folder.resolve().glob("test_*.py")):
        if options.files and path.stem.removeprefix("test_") not in options.files:
            continue
        rows += run_file(path, options)
        if options.output:
            options.output.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(table(rows), causes(rows), sep="\n\n")


if __name__ == "__main__":
    main()
