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


def test_tasks(folder: Path):
    (folder / "graph.py").write_text("@task(a=READ)\ndef total(a): pass\n@total.leaf\ndef f(a): 0")
    assert completion.tasks("gr") == ["graph.py:total"]


def test_names_of_errors_are_offered_once_one_is_begun(folder: Path):
    assert completion.explainable("UnknownErr") == ["UnknownErrorName"]
    assert completion.explainable("") == completion.kernels("")


@pytest.mark.parametrize(
    ("words", "joined"),
    [
        (["tawa", "run", "own.py", ":", "t"], ["tawa", "run", "t"]),
        (["tawa", "run", "own.py", ":", ""], ["tawa", "run", ""]),
        (["tawa", "run", "own.py", ":"], ["tawa", "run", ""]),
        (["tawa", "run", "own.py", ":", "t", "--op"], ["tawa", "run", "own.py:t", "--op"]),
        (["tawa", "run", ""], ["tawa", "run", ""]),
    ],
)
def test_bashs_words_are_joined_at_colons(words: list[str], joined: list[str]):
    asked = {"_TAWA_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words)}
    environment = {**asked, "COMP_CWORD": str(len(words) - 1)}
    completion.join_at_colons(environment)
    assert environment["COMP_WORDS"].split("\n") == joined
    assert environment["COMP_CWORD"] == str(len(joined) - 1)


def test_launch_options():
    assert completion.launch_options("num_") == ["num_warps=", "num_stages=", "num_ctas="]


def completed(words: str) -> list[str]:
    """What bash is offered for the last of the words, which it cuts at colons."""
    cut = words.replace(":", " : ").split(" ")
    asked = {"_TAWA_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(cut)}
    last = str(len(cut) - 1)
    found = subprocess.run(
        [sys.executable, "-m", "tawa"],
        env={**os.environ, **asked, "COMP_CWORD": last},
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.split()


def test_a_shell_is_offered_them(folder: Path):
    assert completed("tawa compile ow") == ["own.py:one", "own.py:other", "own.py:two"]
    assert completed("tawa compile own.py:t") == ["two"]
    assert completed("tawa run own.py:one --option num_s") == ["num_stages="]
    assert "infer" in completed("tawa axon i")
