"""A pytest plugin (`-p covering`): notes which lines of the compiler each test runs.

TAWA_COVERING names a folder; each process appends a line a test to a file of its own there: the
test, whether it passed, its seconds and, for each file of `src/tawa`, the bits of the lines run.
TAWA_CHOSEN names a file of tests, one a line: these alone run, in that order, and the first that
fails is written behind the file's name with `.failed`.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
MEMORY = 8 << 30
"""Bytes that one process may take: a changed loop may never end."""


class Lines:
    """The lines of the compiler that were run since `begin`."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.seen: defaultdict[str, int] = defaultdict(int)
        if sys.version_info >= (3, 12):
            monitor = sys.monitoring
            monitor.use_tool_id(monitor.COVERAGE_ID, "covering")
            monitor.register_callback(monitor.COVERAGE_ID, monitor.events.LINE, self.line)

    def line(self, code: CodeType, line: int) -> Any:
        """Note a line, once."""
        if code.co_filename.startswith(self.source):
            self.seen[code.co_filename] |= 1 << line
        return sys.monitoring.DISABLE  # type: ignore[attr-defined]

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        """Note lines as older Pythons can."""
        if not frame.f_code.co_filename.startswith(self.source):
            return None
        if event == "line":
            self.seen[frame.f_code.co_filename] |= 1 << frame.f_lineno
        return self.trace

    def begin(self) -> None:
        """Forget what was seen; look again."""
        self.seen.clear()
        if sys.version_info >= (3, 12):
            sys.monitoring.restart_events()
            sys.monitoring.set_events(sys.monitoring.COVERAGE_ID, sys.monitoring.events.LINE)
        else:
            sys.settrace(self.trace)

    def end(self) -> dict[str, str]:
        """The lines of each file, as bits."""
        if sys.version_info >= (3, 12):
            sys.monitoring.set_events(sys.monitoring.COVERAGE_ID, 0)
        else:
            sys.settrace(None)
        return {file.removeprefix(self.source): f"{bits:x}" for file, bits in self.seen.items()}


class Covering:
    """Writes what each test runs."""

    def __init__(self, folder: Path) -> None:
        self.lines = Lines(str(ROOT / "src" / "tawa") + os.sep)
        self.out = folder / f"{os.getpid()}.jsonl"
        self.failed = False
        self.file = ""
        self.cache = tempfile.mkdtemp(prefix="tawa-covering-")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Around a test, with what is set up for it; kernels are kept for the tests of a file."""
        file, self.failed, begin = item.nodeid.split("::")[0], False, time.monotonic()
        if file != self.file:
            self.file = file
            shutil.rmtree(self.cache, ignore_errors=True)
            os.environ["TAWA_CACHE_DIR"] = self.cache
        self.lines.begin()
        try:
            return (yield)
        finally:
            lines = self.lines.end()
            row = {"test": item.nodeid, "passed": not self.failed, "lines": lines,
                   "seconds": round(time.monotonic() - begin, 2)}  # fmt: skip
            with self.out.open("a") as out:
                out.write(json.dumps(row) + "\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Skipped tests are no use either."""
        self.failed |= not report.passed


class Chosen:
    """Runs some tests, in their order."""

    def __init__(self, file: Path) -> None:
        self.out = file.with_suffix(".failed")
        self.order = {name: index for index, name in enumerate(file.read_text().splitlines())}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Those alone."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self.order),
            key=lambda item: self.order[item.nodeid],
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the first that fails."""
        if report.failed and not self.out.exists():
            self.out.write_text(report.nodeid)


def pytest_configure(config: pytest.Config) -> None:
    """Note, or choose."""
    if folder := os.environ.get("TAWA_COVERING"):
        worker = hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
        if worker:
            config.pluginmanager.register(Covering(Path(folder)), "tawa-covering")
    if file := os.environ.get("TAWA_CHOSEN"):
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        config.pluginmanager.register(Chosen(Path(file)), "tawa-chosen")
