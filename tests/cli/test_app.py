import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tawa import __version__


def tawa(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tawa", *arguments],
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_version():
    first, *rest = tawa("--version").stdout.splitlines()
    assert first == f"tawa {__version__}"
    for what in ("Python 3.", "numpy ", "assembler: NVRTC ", "driver: "):
        assert any(line.strip().startswith(what) for line in rest)


def test_help_lists_the_commands():
    shown = tawa("--help").stdout
    for command in ("explain", "doctor"):
        assert command in shown


def test_help_breaks_no_line_where_the_source_does():
    lines = tawa("check", "--help").stdout.splitlines()
    assert not [line for line in lines if line.strip() in ("accesses of global", "nobody wrote.")]


def test_help_is_quick():
    """No compiler is loaded for it."""
    code = (
        "import sys; from tawa.cli.app import command_line\n"
        "try: command_line(['--help'])(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'xdsl', 'numpy', 'cuda', 'llvmlite'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_explain_prints_what_a_message_means():
    shown = tawa("explain", "BadKnob")
    assert shown.returncode == 0
    assert "An environment variable has a value that Tawa can't read." in shown.stdout


def test_explain_suggests_what_was_meant():
    shown = tawa("explain", "BadKnop")
    assert shown.returncode == 1
    assert shown.stderr.startswith("error[UnknownErrorName]: no error is called BadKnop")
    assert "BadKnob" in shown.stderr


def test_errors_hide_the_compilers_frames_unless_asked():
    assert "Traceback" not in tawa("explain", "BadKnop").stderr
    assert "Traceback" in tawa("explain", "BadKnop", TAWA_TRACEBACK="1").stderr


def test_doctor_says_what_is_there():
    shown = tawa("doctor")
    assert shown.returncode == 0, shown.stdout
    lines = shown.stdout.splitlines()
    assert any(line.split()[:2] == ["ok", "Python"] for line in lines)
    assert any(line.split()[:2] == ["ok", "NVRTC"] for line in lines)
    assert any(line.split()[1:2] == ["driver"] for line in lines)


def test_doctor_fails_without_a_compiler(monkeypatch: pytest.MonkeyPatch):
    from tawa.cli import doctor

    finding = doctor.Finding("NVRTC", "missing", "not found")
    monkeypatch.setattr(doctor, "LOOKS", (lambda: iter([finding]),))
    assert doctor.report() == 1


def test_an_unreadable_knob_is_an_error():
    shown = tawa("doctor", TAWA_TRACEBACK="perhaps")
    assert shown.returncode == 1
    assert "error[BadKnob]" in shown.stderr


def test_doctor_shows_what_to_install_as_it_is_typed(monkeypatch: pytest.MonkeyPatch, capsys):
    from tawa.cli import doctor

    monkeypatch.setattr(doctor, "installed", lambda package: None)
    monkeypatch.setattr(doctor, "LOOKS", (doctor._optional_packages,))
    doctor.report()
    shown = " ".join(capsys.readouterr().out.split())
    assert "pip install 'tawa[cuppl]'" in shown
    assert "pip install 'tawa[axon]'" in shown


def test_doctor_names_every_package_that_an_extra_brings():
    from tawa.cli.doctor import OPTIONAL_PACKAGES, REQUIRED_PACKAGES

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    brought = {re.split(r"[<>=\[]", text)[0] for e in doctor_extras(extras) for text in extras[e]}
    programs = {"nvidia-cuda-nvdisasm"}  # found as a program, wherever it comes from
    assert brought - programs <= {*OPTIONAL_PACKAGES, "tawa"}
    required = {re.split(r"[<>=]", text)[0] for text in project["dependencies"]}
    assert required - {"rich", "typer"} == set(REQUIRED_PACKAGES)  # without these nothing is shown


def doctor_extras(extras):
    return set(extras) - {"dev", "peers"}  # of those who work on Tawa


def test_run_says_where_and_takes_options(tmp_path: Path):
    (tmp_path / "own.py").write_text(
        "import numpy as np, tawa\n@tawa.jit\ndef f(x): pass\n"
        "def example_f():\n    print(f[(1,)](np.zeros(4, np.float32), num_warps=8).spec.threads)\n"
        "def example_g(): pass\n"
    )
    shown = tawa("run", f"{tmp_path}/own.py:f", "--option", "num_warps=2").stdout
    assert re.fullmatch(r"64\nf: ran in the simulator in [\d.]+ s\n", shown)
    assert "error[BadOption]" in tawa("run", f"{tmp_path}/own.py", "--option", "num_warps=3").stderr


def test_an_error_of_the_users_file_starts_there(tmp_path: Path):
    file = tmp_path / "own.py"
    file.write_text("import tawa\n@tawa.jit\ndef f(x): pass\ndef example_f(): return 1 / 0\n")
    done = tawa("run", f"{file}:f")
    assert done.returncode == 1
    first, second, *_ = done.stderr.splitlines()
    assert first == "Traceback (most recent call last):"
    assert str(file) in second
    assert done.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"


def test_an_error_of_the_compiler_is_shown_whole_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys
):
    from tawa import cli
    from tawa.cli import doctor

    def fails() -> None:
        raise KeyError("lost")

    monkeypatch.setattr(doctor, "LOOKS", (fails,))
    monkeypatch.setattr(sys, "argv", ["tawa", "doctor"])
    fails.__globals__["__name__"], own = "tawa.cli.doctor", fails.__globals__["__name__"]
    try:
        with pytest.raises(SystemExit):
            cli.main()
    finally:
        fails.__globals__["__name__"] = own
    shown = capsys.readouterr().err
    assert "KeyError: 'lost'" in shown
    assert "tawa bug KERNEL" in shown


def test_a_reader_that_stops_is_no_error():
    code = f"{sys.executable} -m tawa doctor | head -n 1"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
