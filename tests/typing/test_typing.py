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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project, and a file of mistakes, as a project of their own."""
    place = tmp_path_factory.mktemp("project")
    (place / PROJECT.name).write_text(PROJECT.read_text())
    (place / "wrong.py").write_text(WRONG)
    return place


@pytest.fixture(scope="module")
def by_mypy(folder: Path) -> list[str]:
    """The errors that mypy finds, as FILE:LINE: TEXT."""
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    done = subprocess.run(
        [*command, "--cache-dir", str(folder / "cache"), PROJECT.name, "wrong.py"],
        cwd=folder,
        env={"MYPYPATH": SOURCES, "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1].startswith("Found "), done.stdout + done.stderr
    return done.stdout.splitlines()[:-1]


@pytest.fixture(scope="module")
def by_pyright(folder: Path) -> list[str]:
    """The errors that pyright finds, as FILE:LINE: TEXT."""
    files = [PROJECT.name, "wrong.py"]
    settings = {"include": files, "typeCheckingMode": "strict", "extraPaths": [SOURCES]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "-p", str(folder)], capture_output=True, text=True, check=False
    )
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == len(files)
    return [
        f"{Path(d['file']).name}:{d['range']['start']['line'] + 1}: {d['message']}"
        for d in found["generalDiagnostics"]
    ]


def test_the_project_is_large_enough():
    assert len(PROJECT.read_text().splitlines()) >= 290


def test_the_project_is_accepted(by_mypy: list[str], by_pyright: list[str]):
    assert [line for line in (*by_mypy, *by_pyright) if line.startswith(PROJECT.name)] == []


def test_mistakes_are_found(by_mypy: list[str], by_pyright: list[str]):
    for line in (4, 5, 6):
        assert any(text.startswith(f"wrong.py:{line}: ") for text in by_mypy)
        assert any(text.startswith(f"wrong.py:{line}: ") for text in by_pyright)


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
