"""Which tests run a line of the compiler: noted in one run of the tests, and asked afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
FIRST = ("simulate", "partition", "codegen", "tile", "aref", "pipeline", "hopper", "runtime",
         "frontend", "base", "compiler")  # fmt: skip
"""Folders of tests that are run first, if there is not time for all."""
ELSEWHERE = ("axon", "cuppl", "site", "typing", "benchmarks", "gpu", "meta", "examples", "tasks",
             "workloads")  # fmt: skip
"""Folders that are not asked: tests of other parts, or of whole documents."""
LONGEST = 6.0
"""Seconds of a test that is asked."""


class Covers:
    """The tests that passed, what they took, and the lines of the compiler that they ran."""

    def __init__(self, file: Path) -> None:
        kept: Any = np.load(file)
        about = json.loads(str(kept["about"]))
        self.tests: list[str] = about["tests"]
        self.seconds: list[float] = about["seconds"]
        self.places: dict[str, int] = about["places"]
        """The first column of a file of the sources."""
        self.bits: Any = kept["bits"]

    def running(self, file: str, first: int, last: int) -> list[int]:
        """The tests that run one of some lines of a file in `src/tawa`, by their index."""
        if file not in self.places:
            return []
        begin = self.places[file] + first
        columns = np.arange(begin, begin + last - first + 1)
        columns = columns[columns < 8 * self.bits.shape[1]]
        found = self.bits[:, columns // 8] >> (7 - columns % 8).astype(np.uint8) & 1
        return np.flatnonzero(found.any(axis=1)).tolist()

    def lines(self, index: int) -> dict[str, int]:
        """The lines that a test runs, as bits, by file."""
        row = np.packbits(np.unpackbits(self.bits[index]), bitorder="little")
        starts = [*self.places.values(), 8 * len(row)]
        ends = zip(self.places, starts, starts[1:], strict=False)
        bits = ((f, int.from_bytes(row[a // 8 : b // 8].tobytes(), "little")) for f, a, b in ends)
        return {file: found for file, found in bits if found}


def folders() -> list[str]:
    """Of the tests, those that matter most first."""
    found = [p for p in (ROOT / "tests").iterdir() if p.is_dir() and list(p.glob("test_*.py"))]
    names = sorted(p.name for p in found if p.name not in (*FIRST, *ELSEWHERE))
    loose = sorted(p.name for p in (ROOT / "tests").glob("test_*.py"))
    return [f"tests/{name}" for name in (*FIRST, *loose, *names)]


def note(out: Path, jobs: int, limit: float, again: list[str]) -> None:
    """Run the tests, for so many seconds, and keep what each ran; of some files beside the others.

    Those of `again` take the places of what was kept of them. Lines are those of now: files of the
    compiler that were changed since should have all their tests run again.
    """
    slow = [line.split(maxsplit=1) for line in (ROOT / "tests" / "slow.txt").read_text().split("\n")
            if line and line[0] != "#"]  # fmt: skip
    left_out = [f"--deselect={name}" for seconds, name in slow if float(seconds) > LONGEST]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "covering", "-p", "no:cacheprovider",
               "-n", str(jobs), "--maxschedchunk", "6", "--timeout", "60", "--tb", "line",
               "-p", "no:benchmark",
               "--continue-on-collection-errors", *left_out, *(again or folders())]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join(
            filter(None, (f"{ROOT / 'src'}", f"{ROOT / 'scripts'}", os.environ.get("PYTHONPATH")))
        )
        environment = {**os.environ, "PYTHONPATH": path, "TAWA_COVERING": folder,
                       "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
        running = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
        try:
            running.wait(limit)
        except subprocess.TimeoutExpired:
            print("not all tests were run in", limit, "s", flush=True)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
        keep(Path(folder), out, Covers(out) if again else None, tuple(again))


@dataclass
class Noted:
    """Tests, what they took, and the lines that they ran, as bits, by file."""

    tests: list[str] = field(default_factory=list[str])
    seconds: list[float] = field(default_factory=list[float])
    lines: list[dict[str, int]] = field(default_factory=list[dict[str, int]])

    def add(self, test: str, seconds: float, lines: dict[str, int]) -> None:
        """Note a test."""
        self.tests.append(test)
        self.seconds.append(seconds)
        self.lines.append(lines)

    def write(self, out: Path) -> None:
        """As a table of bits: a row a test, some columns a file."""
        lengths: dict[str, int] = {}
        for name, bits in (item for seen in self.lines for item in seen.items()):
            lengths[name] = max(lengths.get(name, 0), bits.bit_length())
        places: dict[str, int] = {}
        width = 0
        for name, length in sorted(lengths.items()):
            places[name] = width
            width += -(-length // 8) * 8
        table = np.zeros((len(self.tests), width // 8), np.uint8)
        for row, seen in zip(table, self.lines, strict=True):
            for name, bits in seen.items():
                first = places[name] // 8
                count = -(-lengths[name] // 8)
                packed = np.frombuffer(bits.to_bytes(count, "little"), np.uint8)
                row[first : first + count] = np.packbits(np.unpackbits(packed, bitorder="little"))
        about = json.dumps({"tests": self.tests, "seconds": self.seconds, "places": places})
        np.savez_compressed(out, about=np.array(about), bits=table)


def keep(folder: Path, out: Path, old: Covers | None = None, again: tuple[str, ...] = ()) -> None:
    """Join what the processes wrote, and what was kept of other files of tests."""
    noted, left = Noted(), 0
    for text in (line for file in sorted(folder.glob("*.jsonl")) for line in file.open()):
        try:
            row = json.loads(text)
        except ValueError:  # its process was ended while it wrote
            continue
        if row["passed"] and row["seconds"] <= 3 * LONGEST:
            lines = {name: int(bits, 16) for name, bits in row["lines"].items()}
            noted.add(row["test"], row["seconds"], lines)
        else:
            left += 1
    for index, test in enumerate(old.tests) if old is not None else ():
        if not test.startswith(again):
            noted.add(test, old.seconds[index], old.lines(index))
    noted.write(out)
    print(len(noted.tests), "tests passed and are kept;", left, "failed, were skipped or took long")
