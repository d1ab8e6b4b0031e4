import sys
from pathlib import Path

import pytest

from tawa.cli.kernel_file import (
    OR_GIVE_TYPES,
    KernelFileNotFound,
    KernelNotFound,
    NoExample,
    find_kernel,
)

SOURCE = """
import numpy as np
import tawa
import tawa.language as tl
from neighbour import SIZE


@tawa.jit
def scale(x, n, BLOCK: tl.constexpr):
    pass


@tawa.jit
def silent(x):
    pass


@tawa.autotune([tawa.Config({"BLOCK": 64}, num_stages=3), tawa.Config({"BLOCK": 32})], key=["n"])
@tawa.jit
def tuned(x, n, BLOCK: tl.constexpr):
    pass


def launch_scale(x):
    scale[(4,)](x, len(x), BLOCK=SIZE, num_stages=2)


def example_scale():
    try:
        launch_scale([1, 2])
    except Exception:
        raise SystemExit
    raise AssertionError("goes on after the launch")


def example_tuned():
    tuned[(4,)](np.zeros(4, np.float32), 2)
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "kernels.py").write_text(SOURCE)
    (tmp_path / "neighbour.py").write_text("SIZE = 16\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("kernels", "neighbour"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return str(tmp_path / "kernels.py")


def test_the_example_says_how_a_kernel_is_launched(file: str):
    found = find_kernel(f"{file}:scale")
    record = found.recorded_launch()
    assert (record.grid, record.args) == ((4,), ([1, 2], 2))
    assert record.kwargs == {"BLOCK": 16, "num_stages": 2}
    assert found.module.scale is found.kernel


def test_an_autotuned_kernels_first_configuration_is_recorded(file: str):
    found = find_kernel(f"{file}:tuned")
    record = found.recorded_launch()
    assert record.kwargs == {"BLOCK": 64, "num_stages": 3}
    assert found.module.tuned.fn is found.kernel


def test_names_that_are_not_there(file: str, tmp_path: Path):
    with pytest.raises(KernelFileNotFound):
        find_kernel(str(tmp_path / "other.py"))
    with pytest.raises(KernelNotFound, match="expected: one of scale, silent, tuned"):
        find_kernel(f"{file}:launch_scale")
    with pytest.raises(KernelNotFound, match="which kernel"):
        find_kernel(file)
    (tmp_path / "empty.py").write_text("from kernels import scale\n")
    with pytest.raises(KernelNotFound, match="no kernel at the file's top level"):
        find_kernel(str(tmp_path / "empty.py"))


def test_a_single_kernel_needs_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "one.py").write_text("import tawa\n\n\n@tawa.jit\ndef only(x):\n    pass\n")
    assert find_kernel(str(tmp_path / "one.py")).name == "only"


def test_of_several_kernels_the_one_with_an_example_needs_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "path", [*sys.path])
    kernels = "import tawa\n@tawa.jit\ndef one(x): pass\n@tawa.jit\ndef part(x): pass\n"
    (tmp_path / "parts.py").write_text(f"{kernels}def example_one(): pass\n")
    assert find_kernel(str(tmp_path / "parts.py")).name == "one"
    with pytest.raises(KernelNotFound, match=r"write parts\.py:part"):
        find_kernel(f"{tmp_path}/parts.py:prat")


def test_a_task_is_no_kernel_and_the_command_that_runs_it_is_named(tmp_path: Path):
    (tmp_path / "graph.py").write_text(
        "from tawa.tasks import WRITE, task\n@task(a=WRITE)\ndef total(a): pass\n"
    )
    with pytest.raises(KernelNotFound, match=r"tawa tasks run .*graph\.py:total"):
        find_kernel(f"{tmp_path}/graph.py:total")


def test_without_an_example(file: str):
    with pytest.raises(NoExample, match="example_silent"):
        find_kernel(f"{file}:silent").recorded_launch()
    with pytest.raises(NoExample, match="--arg"):
        find_kernel(f"{file}:silent").recorded_launch(OR_GIVE_TYPES)
