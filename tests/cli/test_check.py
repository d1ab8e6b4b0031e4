import shutil
from pathlib import Path

import pytest

from tawa.cli.check import NOT_PROVED, check_example
from tawa.cli.compile import CompileCommand
from tawa.simulate.interpret.errors import MissingProxyFence, ReadBeforeFull
from tawa.simulate.interpret.limits import Limits

GEMM = Path(__file__).parents[2] / "examples" / "gemm.py"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("stages")
    CompileCommand(f"{GEMM}:gemm").compile(dump=folder)
    (path,) = folder.glob("*.hopper")
    return shutil.copy(path, folder / "gemm.hopper")


def without(stage: str, op: str) -> str:
    """The stage's file with the first line that has `op` left out."""
    path = Path(stage)
    lines = path.read_text().splitlines()
    del lines[next(number for number, line in enumerate(lines) if op in line)]
    broken = path.with_name(f"without-{op}.hopper")
    broken.write_text("\n".join(lines))
    return str(broken)


def test_what_the_compiler_makes_is_safe(capsys: pytest.CaptureFixture[str]):
    assert check_example(f"{GEMM}:gemm", ["num_stages=3"], schedules=1) == 0
    assert "proved for this launch" in capsys.readouterr().out


def test_a_bound_that_is_reached_proves_nothing(capsys: pytest.CaptureFixture[str]):
    assert check_example(f"{GEMM}:gemm", [], schedules=1, limits=Limits(10)) == NOT_PROVED
    assert "not proved: the bound of 10 states was reached" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("op", "error"),
    [
        ("hopper.mbarrier_wait", ReadBeforeFull),
        ("hopper.fence_proxy_async", MissingProxyFence),
    ],
)
def test_an_edited_stage_that_is_unsafe_is_caught(stage: str, op: str, error: type[Exception]):
    with pytest.raises(error) as raised:
        check_example(f"{GEMM}:gemm", [], without(stage, op))
    assert "gemm.py:" in str(raised.value)
