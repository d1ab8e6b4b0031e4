import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tawa.cli import compile as command
from tawa.cli.compile import (
    ArgumentsMissing,
    BinaryOutput,
    CompileCommand,
    NotAStageFile,
    UnknownParameter,
    stage_file,
    stage_table,
    write_output,
)
from tawa.cli.kernel_file import NoExample
from tawa.cli.run import compared, relative_error

SOURCE = """
import numpy as np
import tawa
import tawa.language as tl


@tawa.jit
def scale(x, y, n, factor=2.0, BLOCK: tl.constexpr = 256):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


@tawa.jit
def silent(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, at.to(tl.float32), mask=at < n)


def example_scale():
    x = np.arange(1000, dtype=np.float32)
    y = np.empty_like(x)
    scale[(4,)](x, y, 1000, 3.0, num_warps=8)
    return {"y": (y, 3 * x)}


@tawa.jit
def wrong(x, y):
    tl.store(y, tl.load(x) + 1)


def example_wrong():
    x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
    wrong[(1,)](x, y)
    return {"y": (y, x)}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "kernels.py"
    path.write_text(SOURCE)
    return str(path)


def tawa(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tawa", *arguments],
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_examples_launch_says_what_to_compile(file: str):
    request = CompileCommand(f"{file}:scale").request()
    assert list(request.types) == ["x", "y", "n", "factor"]
    assert request.types["x"].startswith("*f32")
    assert request.constants == {"BLOCK": 256}
    assert request.options.num_warps == 8


def test_the_command_line_changes_what_the_example_says(file: str):
    request = CompileCommand(
        f"{file}:scale", types=["x=ptr:f16"], constants=["BLOCK=512"], options=["num_warps=4"]
    ).request()
    assert request.types["x"] == "*f16"
    assert request.types["y"].startswith("*f32")
    assert request.constants == {"BLOCK": 512}
    assert request.options.num_warps == 4


def test_everything_given_needs_no_example(file: str):
    request = CompileCommand(
        f"{file}:silent", types=["x=ptr:f32:16", "n=i32"], constants=["BLOCK=64"]
    ).request()
    assert request.types == {"x": "*f32:16", "n": "i32"}
    assert request.constants == {"BLOCK": 64}


def test_a_run_time_parameter_can_be_compiled_in(file: str):
    request = CompileCommand(
        f"{file}:silent", types=["x=ptr:f32"], constants=["BLOCK=64", "n=1"]
    ).request()
    assert request.constants == {"BLOCK": 64, "n": 1}


def test_what_is_missing_is_named(file: str):
    with pytest.raises(NoExample):
        CompileCommand(f"{file}:silent").request()
    with pytest.raises(ArgumentsMissing, match="--arg or --const for n, BLOCK"):
        CompileCommand(f"{file}:silent", types=["x=ptr:f32"]).request()


def test_names_that_the_kernel_does_not_have(file: str):
    with pytest.raises(UnknownParameter, match="no parameter `B`"):
        CompileCommand(f"{file}:silent", constants=["B=1"]).request()
    with pytest.raises(UnknownParameter, match="it is constexpr: --const BLOCK=VALUE"):
        CompileCommand(f"{file}:silent", types=["BLOCK=i32"]).request()


def test_stages_can_be_dumped_edited_and_gone_on_from(file: str, tmp_path: Path):
    first = CompileCommand(f"{file}:scale")
    dumped = first.compile(dump=tmp_path / "stages")
    written = {path.suffix[1:]: path for path in (tmp_path / "stages").iterdir()}
    assert {"tile", "aref", "hopper", "cu", "cubin"} <= set(written)
    assert written["cubin"].read_bytes() == dumped.cubin
    for stage in ("tile", "aref", "hopper", "cu"):
        again = first.compile(start=str(written[stage]))
        assert again.stages["cu"] == dumped.stages["cu"], f"starting from {stage}"
    edited = tmp_path / "edited.cu"
    edited.write_text(written["cu"].read_text() + "// the end\n")
    assert str(first.compile(override=[str(edited)]).stages["cu"]).endswith("// the end\n")


def test_stage_files(tmp_path: Path):
    with pytest.raises(NotAStageFile):
        stage_file(str(tmp_path / "missing.cu"))
    (tmp_path / "kernel.ptx").write_text("")
    with pytest.raises(NotAStageFile):
        stage_file(str(tmp_path / "kernel.ptx"))


def test_output(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]):
    write_output(b"\x7fELF", tmp_path / "k.cubin", terminal=True)
    assert (tmp_path / "k.cubin").read_bytes() == b"\x7fELF"
    with pytest.raises(BinaryOutput):
        write_output(b"\x7fELF", None, terminal=True)
    write_output("text", None, terminal=True)
    assert capfdbinary.readouterr().out == b"text\n"


def test_table():
    stages = {"tile": "a\nb\n", "cubin": b"x" * 1234}
    assert [line.split() for line in stage_table(stages, {"tile": 0.0015})] == [
        ["tile", "2", "lines", "1.5", "ms"],
        ["cubin", "1,234", "bytes"],
    ]
    assert "cache" in stage_table(stages, {})[-1]


@pytest.mark.parametrize(
    ("stage", "word"),
    [
        ("tile", "tile.load"),
        ("hopper", "hopper."),
        ("cuda", "__global__"),
        ("ptx", ".target sm_90a"),
        ("sass", "LDG"),
    ],
)
def test_every_stage_can_be_printed(file: str, stage: str, word: str):
    compiled = CompileCommand(f"{file}:scale").compile()
    text = command.stage_of(compiled, stage)
    assert isinstance(text, str)
    assert word in text


def test_the_commands(file: str, tmp_path: Path):
    shown = tawa("compile", f"{file}:scale", "--emit", "cuda", "--explain")
    assert shown.returncode == 0, shown.stderr
    assert "__global__" in shown.stdout
    assert "assembler" in shown.stderr
    ran = tawa("run", f"{file}:scale")
    assert ran.returncode == 0, ran.stderr
    assert "y: relative error 0.0e+00" in ran.stdout
    ran = tawa("run", f"{file}:wrong")
    assert ran.returncode == 1
    assert "WRONG" in ran.stdout


def test_errors_of_results():
    assert relative_error([1.0, 2.0], [1.0, 2.0]) == 0
    assert relative_error([3.0, 4.0], [0.0, 0.0]) == 5
    assert relative_error([float("nan")], [1.0]) == float("inf")


@pytest.mark.parametrize(
    ("value", "said"),
    [(float("nan"), "1 of 2 elements are NaN"), (float("-inf"), "1 of 2 elements are infinite")],
)
def test_what_is_no_number_is_counted(value, said, capsys):
    assert compared({"y": (np.array([1.0, value]), np.array([1.0, 2.0]))}) == 1
    assert capsys.readouterr().out == f"  y: {said}  WRONG\n"
