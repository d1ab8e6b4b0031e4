"""A process that answers lines of JSON by lines of JSON, and is killed where it takes too long."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any


class Problem(Exception):
    """What a process answered instead; `over` if it answers no more, `whose` names it."""

    def __init__(self, whose: str, text: str, *, over: bool = False) -> None:
        super().__init__(text)
        self.whose = whose
        self.over = over


class Process:
    """One process; what it writes to its errors is added to a file."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> None:
        self.name = name
        self._answers: queue.Queue[str | None] = queue.Queue()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, text=True,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, within: float, do: str, **words: Any) -> Any:
        """What it answers. Raises `Problem`, also if it does not answer in so many seconds."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **words}) + "\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=within)
        except queue.Empty:
            raise Problem(self.name, f"{do} took over {within:.0f} s", over=True) from None
        except (OSError, ValueError):  # it reads no more
            line = None
        if line is None:
            code = self._process.wait()
            raise Problem(self.name, f"ended with {code} in {do}", over=True)
        answer = json.loads(line)
        if "problem" in answer:
            raise Problem(self.name, answer["problem"], over=answer.get("over", False))
        return answer["found"]

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):  # what it never read
                pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)
