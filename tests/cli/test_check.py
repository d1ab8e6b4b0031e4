import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tawa.cli.check import NOT_PROVED, PROVED, check_example
from tawa.cli.check_launch import CheckedLaunch
from tawa.cli.compile import CompileCommand
from tawa.cli.empty_arrays import EmptyArrays
from tawa.simulate.interpret.errors import MissingProxyFence, ReadBeforeFull
from tawa.simulate.interpret.limits import Limits
from tawa.simulate.interpret.races import NeverWritten
from tawa.simulate.prove import fixpoint

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
    said = capsys.readouterr().out
    assert "no conflict between programs" in said
    assert "proved for this launch" in said
    assert "proved for every launch" in said
    assert "levels tile, hopper, PTX: the same results" in said


SCALE = """
import numpy as np
import tawa
import tawa.language as tl


@tawa.jit
def scale(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load({array} + at, mask=at < n, other=0.0) * 2.0, mask=at < n)


def example_scale():
    x, out = np.ones(100, np.float32), np.empty(100, np.float32)
    {before}
    scale[(2,)](x, out, 100, B=64)
"""


@pytest.mark.parametrize(("array", "before"), [("x", "pass"), ("out", "out[:] = 3.0")])
def test_what_the_host_or_nobody_reads_is_no_mistake(tmp_path: Path, array: str, before: str):
    (tmp_path / "scale.py").write_text(SCALE.format(array=array, before=before))
    assert check_example(f"{tmp_path}/scale.py:scale", [], schedules=1) == 0


def test_what_nobody_wrote_is_not_read(tmp_path: Path):
    (tmp_path / "scale.py").write_text(SCALE.format(array="out", before="out[:50] = 1.0"))
    with pytest.raises(NeverWritten, match="element 50 of `out`"):
        check_example(f"{tmp_path}/scale.py:scale", [], schedules=1)


def test_levels_that_differ_are_named(tmp_path: Path):
    (tmp_path / "scale.py").write_text(SCALE.format(array="x", before="pass"))
    command = CompileCommand(f"{tmp_path}/scale.py:scale")
    record = command.found.recorded_launch()
    compiled = command.compile()
    ptx = str(compiled.stages["ptx"])
    assert "add.f32" in ptx  # twice a number is its sum with itself
    stages = {**compiled.stages, "ptx": ptx.replace("add.f32", "mul.f32")}
    named = record.named(command.found.kernel)
    launch = CheckedLaunch(replace(compiled, stages=stages), (2, 1, 1), named, Limits())
    launch.check_memory(EmptyArrays())
    launch.check_communication(schedules=1)
    agreement = launch.compare()
    assert not agreement.same
    assert (
        "LEVELS DIFFER: `out` at the PTX level is 5.0e-01 from the tile level" in agreement.render()
    )


def test_a_bound_that_is_reached_proves_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fixpoint, "STATES", 1)
    assert check_example(f"{GEMM}:gemm", [], schedules=1, limits=Limits(10)) == NOT_PROVED
    said = capsys.readouterr().out
    assert "not proved: the bound of 10 states was reached" in said
    assert "not proved for every launch: there are more than 1 states" in said


def test_a_proof_for_every_launch_is_one_for_this(capsys: pytest.CaptureFixture[str]):
    assert check_example(f"{GEMM}:gemm", [], schedules=1, limits=Limits(10)) == PROVED
    said = capsys.readouterr().out
    assert "not proved: the bound of 10 states was reached" in said
    assert "proved for every launch: no deadlock" in said


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
