"""Checks a wheel in a bare environment of a Python: what a user does first has to work.

    python scripts/check_wheel.py dist/tawa-*.whl --python python3.13

Makes a virtual environment, installs the wheel alone (timed, its size counted), and then, away from
the repository: imports, compiles, simulates, writes a report, and asks the command line.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOST_MEGABYTES, MOST_SECONDS = 420, 40
"""What an installation may take, in processor time.

The assembler is 228 MB of it.
"""

KERNEL = """
import numpy as np
import tawa
import tawa.language as tl


@tawa.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


def example_add():
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    out = np.empty_like(x)
    add[(tawa.cdiv(1000, 256),)](x, y, out, 1000, BLOCK=256)
    return {"out": (out, x + y)}


if __name__ == "__main__":
    compiled = add.compile("*f32", "*f32", "*f32", "i32", BLOCK=256)
    assert compiled.cubin[:4] == b"\\x7fELF"
    out, expected = example_add()["out"]
    assert np.array_equal(out, expected)
    assert dir(tawa) and tawa.__version__
    print("compiled and simulated")
"""
COMMANDS = (
    (["--version"], "tawa "),
    (["doctor"], "NVRTC"),
    (["run", "kernel.py:add"], "relative error 0.0e+00"),
    (["compile", "kernel.py:add", "--explain"], "assembler"),
    (["check", "kernel.py:add"], "proved"),
    (["bug", "kernel.py:add"], "bug_add.py"),
    (["explain", "BadGrid"], "BadGrid"),
)
"""What is asked of the command line, and a part of what it has to say."""


def main() -> None:
    """Check the wheel that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the Python to install it for")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        binaries = install(given.wheel.resolve(), given.python, folder)
        use(binaries, folder)


def install(wheel: Path, python: str, folder: Path) -> Path:
    """Make the environment; the result is the folder of its programs."""
    subprocess.run([python, "-m", "venv", str(folder / "bare")], check=True)
    binaries = folder / "bare" / "bin"
    before, start, used = size(folder), time.monotonic(), processor_seconds()
    pip = [str(binaries / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--disable-pip-version-check", str(wheel)], check=True)
    seconds, megabytes = processor_seconds() - used, size(folder) - before
    whole = time.monotonic() - start
    print(f"installed in {whole:.0f} s ({seconds:.0f} s of the processor), {megabytes:.0f} MB")
    largest = sorted(Path(next(folder.glob("bare/lib/python*/site-packages"))).iterdir(), key=size)
    print("largest:", ", ".join(f"{path.name} {size(path):.0f}" for path in largest[-6:]))
    assert megabytes < MOST_MEGABYTES, f"more than {MOST_MEGABYTES} MB"
    assert seconds < MOST_SECONDS, f"more than {MOST_SECONDS} s"
    return binaries


def processor_seconds() -> float:
    """What the processes that were waited for have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def size(path: Path) -> float:
    """Megabytes of a file, or of all files below a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(f.stat().st_size for f in files if f.is_file() and not f.is_symlink()) / 1e6


def use(binaries: Path, folder: Path) -> None:
    """Do what a user does first, in a folder of its own and with an empty cache."""
    work = folder / "work"
    work.mkdir()
    (work / "kernel.py").write_text(KERNEL)
    own = {"TAWA_CACHE_DIR": str(folder / "cache"), "HOME": str(folder)}
    environment = {"PATH": "/usr/bin:/bin", **own}
    said = run([str(binaries / "python"), "kernel.py"], work, environment)
    assert "compiled and simulated" in said
    for arguments, expected in COMMANDS:
        said = run([str(binaries / "tawa"), *arguments], work, environment)
        assert expected in said, f"tawa {' '.join(arguments)} says:\n{said}"
    print("import, compile, simulate, check, bug: all right")
    subprocess.run(
        [str(binaries / "python"), "-m", "pip", "install", "--quiet", "nvidia-cuda-nvdisasm==13.*"],
        check=True,
    )
    said = run([str(binaries / "tawa"), "report", "kernel.py:add"], work, environment)
    assert said.startswith("add.html"), said
    print("report: all right")


def run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    """What a command prints. Fails where it does."""
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
    return done.stdout


if __name__ == "__main__":
    main()
