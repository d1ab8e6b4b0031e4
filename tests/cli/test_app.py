import os
import subprocess
import sys

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
    assert tawa("--version").stdout == f"tawa {__version__}\n"


def test_help_lists_the_commands():
    shown = tawa("--help").stdout
    for command in ("explain", "doctor"):
        assert command in shown


def test_help_is_quick():
    """No compiler is loaded for it."""
    code = (
        "import sys; from tawa.cli.app import command_line\n"
        "try: command_line(['--help'])(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'xdsl', 'numpy', 'ortools', 'cuda', 'llvmlite'} & set(sys.modules)))"
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
