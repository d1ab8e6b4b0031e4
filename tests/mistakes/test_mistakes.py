"""Users' mistakes as a user sees them: in a script, in pytest and in IPython.

Each is an error of one class. It leaves the compiler without the compiler's frames, is shown in a
few lines, and says where, what was expected, what was found and what to do.
"""

import os
import re
import subprocess
import sys
import textwrap
import traceback
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

import mistakes
import tawa
from tawa.base.errors import TawaError
from tawa.cli import main

MOST_LINES = 15
PROGRAMS = [m for m in mistakes.MISTAKES if not m.command]
COMMANDS = [m for m in mistakes.MISTAKES if m.command]
SOURCES = str(Path(tawa.__file__).parent)


def named(mistake):
    return mistake.name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The mistakes as scripts, and as tests of pytest."""
    place = tmp_path_factory.mktemp("mistakes")
    (place / "kernels.py").write_text(mistakes.KERNELS)
    for mistake in PROGRAMS:
        (place / f"{mistake.file}.py").write_text(mistake.program)
        before, last = mistake.parts
        test = f"def test_it():\n{textwrap.indent(last, '    ')}"
        (place / f"test_{mistake.file}.py").write_text(before + "\n" + test)
    return place


def shown(mistake, folder):
    """The error, and what Python prints of a script that ends at it."""
    path = str(folder / f"{mistake.file}.py")
    code = compile(mistake.program, path, "exec")
    try:
        exec(code, {"__name__": "__main__"})
    except TawaError as error:
        error.__traceback__ = error.__traceback__.tb_next  # this file's own frame
        return error, "".join(traceback.format_exception(error))
    raise AssertionError(f"{mistake.name} is no mistake")


def test_there_are_enough():
    assert len(mistakes.MISTAKES) >= 30
    assert len({m.name for m in mistakes.MISTAKES}) == len(mistakes.MISTAKES)


@pytest.mark.parametrize("mistake", PROGRAMS, ids=named)
def test_script(mistake, folder, monkeypatch):
    monkeypatch.chdir(folder)
    error, text = shown(mistake, folder)
    assert type(error).__name__ == mistake.error
    assert len(text.splitlines()) <= MOST_LINES, text
    assert SOURCES not in text
    assert error.expected, text
    assert error.found, text
    assert error.hint or not mistake.advice, text
    assert error.span.text() == mistake.caret, text
    carets = [line for line in text.splitlines() if re.fullmatch(r"[ |\t]*\^+", line)]
    assert any(line.count("^") == max(1, len(mistake.caret)) for line in carets)


@pytest.mark.parametrize("mistake", COMMANDS, ids=named)
def test_command(mistake, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", list(mistake.command))
    with pytest.raises(SystemExit):
        main()
    text = capsys.readouterr().err
    assert text.startswith(f"error[{mistake.error}]: ")
    assert len(text.splitlines()) <= MOST_LINES
    for label in ("expected", "found", "help"):
        assert f"\n  {label}: " in text


def test_pytest(folder):
    command = [sys.executable, "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", "."]
    own = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=own)
    found = run.stdout
    assert f"{len(PROGRAMS)} failed" in found, run.stderr
    assert SOURCES not in found
    _, *sections = re.split(
        r"^_+ test_it _+$", found.partition("= short test summary")[0], flags=re.M
    )
    assert len(sections) == len(PROGRAMS)
    for section in sections:
        source = len(re.findall(r"^(>|    )   ", section, re.M))
        assert len(section.strip().splitlines()) - source <= MOST_LINES, section


def test_ipython(capsys):
    shell = InteractiveShell.instance(colors="nocolor")
    shell.history_manager.enabled = False
    try:
        for mistake in PROGRAMS:
            before, last = mistake.parts
            assert shell.run_cell(before).success
            capsys.readouterr()
            assert not shell.run_cell(last).success
            text = "".join(capsys.readouterr())
            assert mistake.error in text
            assert SOURCES not in text
            assert len(text.strip().splitlines()) <= MOST_LINES, text
    finally:
        InteractiveShell.clear_instance()


def test_the_knob_shows_all_frames(folder, monkeypatch):
    monkeypatch.setenv("TAWA_TRACEBACK", "1")
    monkeypatch.chdir(folder)
    _, text = shown(mistakes.MISTAKES[0], folder)
    assert SOURCES in text
    assert len(text.splitlines()) > 40
