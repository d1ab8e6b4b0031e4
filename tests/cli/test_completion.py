import os
import subprocess
import sys
from pathlib import Path

import pytest

from tawa.cli import completion


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()
    (tmp_path / "text.txt").touch()
    (tmp_path / "broken.py").write_text("def (")
    (tmp_path / "own.py").write_text(
        "import tawa, triton\nfrom tawa import jit\n"
        "@tawa.jit\ndef one(): pass\n"
        "@triton.autotune([], key=[])\n@triton.jit\ndef two(): pass\n"
        "@jit(debug=True)\ndef other(): pass\n"
        "def helper(): pass\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", ["inner/", "own.py:one", "own.py:other", "own.py:two"]),
        ("ow", ["own.py:one", "own.py:other", "own.py:two"]),
        ("own.py:o", ["own.py:one", "own.py:other"]),
        ("own.py:x", []),
        ("missing/", []),
        ("text", []),
    ],
)
def test_kernels(folder: Path, typed: str, offered: list[str]):
    assert completion.kernels(typed) == offered


def test_launch_options():
    assert completion.launch_options("num_") == ["num_warps=", "num_stages=", "num_ctas="]


def completed(words: str) -> list[str]:
    """What bash is offered for the last of the words."""
    asked = {"_TAWA_COMPLETE": "complete_bash", "COMP_WORDS": words}
    last = str(len(words.split(" ")) - 1)
    found = subprocess.run(
        [sys.executable, "-m", "tawa"],
        env={**os.environ, **asked, "COMP_CWORD": last},
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.split()


def test_a_shell_is_offered_them(folder: Path):
    assert completed("tawa compile own.py:t") == ["own.py:two"]
    assert completed("tawa run own.py:one --option num_s") == ["num_stages="]
    assert "infer" in completed("tawa axon i")
