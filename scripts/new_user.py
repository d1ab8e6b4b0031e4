"""A new user's hour on a bare machine, timed: what the pages say, and nothing else.

    python -m pip wheel --no-deps --wheel-dir dist .
    python scripts/new_user.py dist/tawa-*.whl

Makes an environment, installs the wheel as the pages do, and follows the pages in an empty folder:
each block is written or run as a reader would, and has to print what the page shows. Then come
users' mistakes (`tests/mistakes/mistakes.py`): each ends in its error in at most 15 lines, and its
name is on the page of errors. Nothing of the repository can be imported but the documents' runner.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests" / "mistakes"))
import mistakes  # noqa: E402

PAGES = {
    "first kernel": "docs/getting-started.md",
    "vector add": "docs/tutorials/vector-add.md",
    "softmax": "docs/tutorials/softmax.md",
    "matrix product": "docs/tutorials/gemm.md",
    "attention": "docs/tutorials/attention.md",
    "PyTorch operator": "docs/tutorials/pytorch.md",
    "own kernel, with its report": "docs/tutorials/fused-kernel.md",
    "from Triton": "docs/tutorials/from-triton.md",
    "Axon model": "docs/tutorials/axon.md",
    "CuPPL model": "docs/tutorials/cuppl.md",
}
"""The steps after the installation, and the page of each."""

MOST_LINES = 15


def main() -> None:
    """Go through all steps; the exit status is 1 if one of them went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the Python to install it for")
    given = parser.parse_args()
    right = True
    with tempfile.TemporaryDirectory() as name:
        user = User(Path(name))
        wheel = f"{given.wheel.resolve()}[report,all]"
        right &= timed("install", lambda: user.install(given.python, wheel))
        right &= timed("install PyTorch", lambda: user.add("torch"))
        for step, page in PAGES.items():
            right &= timed(step, lambda page=page: user.follow(ROOT / page))
        for mistake in mistakes.MISTAKES:
            right &= timed(f"mistake: {mistake.name}", lambda m=mistake: user.err(m))
    raise SystemExit(not right)


def timed(step: str, do: Callable[[], str]) -> bool:
    """Do a step and print how long it took; what it returns is what went wrong."""
    start = time.monotonic()
    wrong = do()
    print(f"{time.monotonic() - start:7.1f} s  {step}{'  WRONG' * bool(wrong)}", flush=True)
    if wrong:
        print(wrong, flush=True)
    return not wrong


class User:
    """Somebody with an empty folder and a Python of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.binaries = home / "venv" / "bin"
        shutil.copy(ROOT / "scripts" / "documents.py", home / "documents.py")
        self.errors = set(
            re.findall(r"^## (\w+)$", (ROOT / "docs" / "errors.md").read_text(), re.M)
        )

    def install(self, python: str, wheel: str) -> str:
        """Make the environment and install the wheel."""
        subprocess.run([python, "-m", "venv", str(self.home / "venv")], check=True)
        return self.add(wheel)

    def add(self, package: str) -> str:
        """Install a package; the result is what pip says where it fails."""
        status, said = self.said("python", "-m", "pip", "install", "--quiet", package)
        return said if status else ""

    def follow(self, page: Path) -> str:
        """Do what a page says, in an empty folder; the result is what is not as it says."""
        folder = self.home / page.stem
        folder.mkdir()
        shutil.copy(page, folder / "page.md")
        status, said = self.said("python", str(self.home / "documents.py"), "page.md", at=folder)
        return said if status else ""

    def err(self, mistake: mistakes.Mistake) -> str:
        """Make a mistake; the result is what is wrong with the error."""
        (self.home / "kernels.py").write_text(mistakes.KERNELS)
        (self.home / "mistake.py").write_text(mistake.program)
        command = mistake.command or ("python", "mistake.py")
        status, said = self.said(*command)
        if status == 0 or mistake.error not in said:
            return f"{mistake.error} is not in\n{said}"
        if len(said.splitlines()) > MOST_LINES:
            return f"more than {MOST_LINES} lines:\n{said}"
        return "" if mistake.error in self.errors else f"{mistake.error} is not on the page"

    def said(self, *command: str, at: Path | None = None) -> tuple[int, str]:
        """The status of a command, and what it prints."""
        own = {"TAWA_CACHE_DIR": str(self.home / "cache"), "HOME": str(self.home)}
        done = subprocess.run(
            [str(self.binaries / command[0]), *command[1:]],
            cwd=at or self.home,
            env={
                "PATH": f"{self.binaries}:/usr/bin:/bin",
                "NO_COLOR": "1",
                "COLUMNS": "100",
                **own,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout


if __name__ == "__main__":
    main()
