"""A user's project of 300 lines is accepted by strict type checkers, and runs."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tawa
import tawa.language as tl

PROJECT = Path(__file__).parent / "project.py"
SOURCES = str(Path(tawa.__file__).parents[1])
WRONG = """
import tawa

x: str = tawa.Options().num_warps
tawa.Options(num_stages="3")
tawa.TensorDescriptor.from_tensor()
"""


def mypy(file: Path, folder: Path) -> str:
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    command += ["--cache-dir", str(folder), str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=PATHS).stdout


def pyright(file: Path, folder: Path) -> list[str]:
    """The messages of the errors that it finds in a file, as in a project of its own."""
    (folder / file.name).write_text(file.read_text())
    settings = {"include": [file.name], "typeCheckingMode": "strict", "extraPaths": [SOURCES]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    found = subprocess.run(
        [*command, "-p", str(folder)], capture_output=True, text=True, check=False
    )
    return [f"{d['range']['start']['line'] + 1}: {d['message']}" for d in found_in(found.stdout)]


def found_in(output: str) -> list[dict]:
    return json.loads(output)["generalDiagnostics"]


PATHS = {"MYPYPATH": SOURCES, "PATH": ""}


def test_the_project_is_large_enough():
    assert len(PROJECT.read_text().splitlines()) >= 290


def test_mypy(tmp_path: Path):
    assert mypy(PROJECT, tmp_path).splitlines()[-1] == "Success: no issues found in 1 source file"


def test_pyright(tmp_path: Path):
    assert pyright(PROJECT, tmp_path) == []


def test_mistakes_are_found(tmp_path: Path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    by_mypy = mypy(wrong, tmp_path / "cache")
    (tmp_path / "own").mkdir()
    by_pyright = pyright(wrong, tmp_path / "own")
    for line in (4, 5, 6):
        assert f"wrong.py:{line}: error" in by_mypy
        assert any(message.startswith(f"{line}: ") for message in by_pyright)


def test_it_runs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(PROJECT.parent))
    import project

    outcome = project.walk()
    assert outcome.kernels == ["scale_kernel", "add_kernel"]
    assert (outcome.products == 1).sum() == 64
    assert abs(outcome.mean - 8 / 12) < 0.05
    assert outcome.message.startswith("192: a grid is one to three whole numbers")


def test_the_language_exports_what_it_has():
    own = {n for n in vars(tl) if not n.startswith("_")}
    modules = {n for n in own if isinstance(getattr(tl, n), ModuleType)}  # more as they are loaded
    assert set(tl.__all__) - modules == own - modules - {"annotations"}


def test_the_package_says_that_it_is_typed():
    assert (Path(tawa.__file__).parent / "py.typed").exists()
