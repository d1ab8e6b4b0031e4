"""A process that runs workloads on a GPU, replaced when one hangs or breaks its context."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
START_SECONDS = 60
SUITE = "suite "
"""Before a name: it is that of one of the suite's cases, not of a workload."""


class Worker:
    """Runs one workload at a time; a hanging kernel costs its own time limit and a new process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def run(self, name: str, seconds: float) -> str:
        """What went wrong with the workload of this name; "" if nothing."""
        try:
            process = self._started()
            assert process.stdin is not None
            process.stdin.write(f"{name}\n".encode())
            process.stdin.flush()
            answer = self._line(seconds)
        except (TimeoutError, OSError, EOFError) as error:
            self.stop()
            return f"{name}: {error or type(error).__name__} (limit {seconds:.0f} s)"
        if answer:
            self.stop()  # an error of the device ends its context
        return answer

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
        self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [sys.executable, str(HERE / "device.py")]
            path = [str(HERE.parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in path if p)}
            self._rest = b""
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
            )
            self._line(START_SECONDS)
        return self._process

    def _line(self, seconds: float) -> str:
        """The next answer. Raises TimeoutError, EOFError."""
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            ready, _, _ = select.select([descriptor], [], [], seconds)
            if not ready:
                raise TimeoutError("no answer: the kernel hangs, or takes too long")
            part = os.read(descriptor, 1 << 16)
            if not part:
                raise EOFError("the process ended")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)
