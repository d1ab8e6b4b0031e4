import re
import subprocess
import sys
from pathlib import Path

import pytest

from tawa.cli.bug import NotReproducible, as_python, write_reproduction

KERNEL = '''
"""A kernel with a \\\\ and \\"\\"\\" in its file."""
import tawa
import tawa.language as tl
from sizes import SIZE


@tawa.jit
def add_one(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    {line}


def example_add_one():
    import numpy as np

    add_one[(1,)](np.zeros(128, np.float32), 128, BLOCK=SIZE, num_warps=2)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("own", "sizes"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "sizes.py").write_text("SIZE = 128\n")
    return tmp_path


def reproduction(folder: Path, line: str) -> tuple[str, subprocess.CompletedProcess[str]]:
    """The text of the file that is written, and what it does where there is no other file."""
    (folder / "own.py").write_text(KERNEL.format(line=line))
    said = write_reproduction("own.py:add_one", [], [], [], None)
    assert said.startswith("bug_add_one.py: 2 file(s) of source")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    moved = (folder / "bug_add_one.py").rename(elsewhere / "bug_add_one.py")
    for file in ("own.py", "sizes.py"):
        (folder / file).unlink()
    command = [sys.executable, moved.name]
    done = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, check=False)
    return moved.read_text(), done


def test_shows_an_error_elsewhere(folder: Path):
    text, done = reproduction(folder, "tl.store(x + i, lost)")
    assert "error[UndefinedName]: `lost` is not defined" in text
    assert "num_warps=2" in text
    assert done.returncode == 1
    assert "UndefinedName: `lost` is not defined" in done.stderr


def test_shows_what_was_compiled_elsewhere(folder: Path):
    text, done = reproduction(folder, "tl.store(x + i, 1.0, mask=i < n)")
    assert done.returncode == 0, done.stderr
    shown = done.stdout.splitlines()[0]
    assert shown.startswith("<compiled add_one: 64 threads")
    assert shown in text
    assert re.search(r"^tawa \d", text, re.MULTILINE)
    assert re.search(r"^  xdsl \d", text, re.MULTILINE)


def test_values_without_a_text_are_refused():
    assert as_python("A", (1, "b", None)) == "(1, 'b', None)"
    with pytest.raises(NotReproducible, match="`A` can't be written"):
        as_python("A", object())
