"""The error index lists every message, with what its example prints today.

`docs/errors.md` is written by this test (`--update`) from the classes themselves.
"""

import linecache
import os
import runpy
import sys
from pathlib import Path
from unittest import mock

import pytest

from tawa.base.errors import TawaError, explain
from tawa.cli.explain import error_classes, explained

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "errors.md"

# Messages whose class has no example, and why none can be given.
WITHOUT_EXAMPLE: dict[str, str] = {
    "DisassemblerMissing": "needs a machine without nvdisasm",
    "DriverFailure": "needs a GPU, and an error that would end the process's use of it",
    "LaunchFailed": "needs a GPU, and an error that would end the process's use of it",
    "LinesDiffer": "only a bug in the compiler raises it",
    "NoDevice": "needs a machine without a GPU",
    "NvrtcMissing": "needs a machine without NVRTC",
    "PassFailed": "only a bug in the compiler raises it",
    "PillowMissing": "needs a machine without Pillow",
    "ScalarOutOfRange": "needs a kernel that is loaded on a GPU",
    "ScheduleRejected": "which schedules the assembler spills depends on its version",
    "StoreNotAligned": "needs a kernel that is loaded on a GPU",
    "TensorMapRejected": "the rules that are checked before leave nothing to reject",
}

HEADER = """\
# Error index

Every message of Tawa, what it means and what to do about it. `tawa explain NAME` prints an entry.
This file is written from the error classes; its examples are run, and their output is compared, by
`tests/meta/test_error_index.py`.
"""

Classes = dict[str, type[TawaError]]


@pytest.fixture(scope="module")
def classes() -> Classes:
    return error_classes()


def test_every_class_is_found_without_importing_it(classes: Classes):
    assert explained() == {name: cls.__module__ for name, cls in classes.items()}


def output_of(cls: type[TawaError], folder: Path) -> str:
    """What the class's example, as the file `example.py` in `folder`, makes Tawa print."""
    path = folder / "example.py"
    path.write_text(cls.example.lstrip("\n"))
    modules, sources = mock.patch.dict(sys.modules), mock.patch.dict(linecache.cache)
    environment = mock.patch.dict(os.environ)
    with environment, modules, sources, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with pytest.raises(cls) as raised:
            runpy.run_path(str(path), run_name="__main__")
        # Places in Tawa's own libraries are named from the repository's root.
        return raised.value.render().replace(f"{ROOT}{os.sep}", "")


def entry(cls: type[TawaError], recorded: str, folder: Path) -> str:
    """The index's entry of one class; an output that can't be had here is taken over."""
    text = (explain(cls.__name__) or "") + "\n"
    if not cls.example:
        return text
    if cls.example_needs:
        at = recorded.find(text)
        return text if at < 0 else recorded[at : at + len(text)] + _output_after(recorded, at, text)
    return f"{text}\n```text\n{output_of(cls, folder)}\n```\n"


def _output_after(recorded: str, at: int, text: str) -> str:
    rest = recorded[at + len(text) :]
    return rest.split("\n## ")[0] if rest.startswith("\n```text") else ""


def test_a_name_stands_for_one_message(classes: Classes):
    assert classes
    clashes = [f"{a.__module__} and {b.__module__}: {a.__name__}" for a, b in TawaError.clashes]
    assert clashes == []


def test_every_class_explains_itself(classes: Classes):
    silent = [name for name, cls in classes.items() if not cls.explanation.strip()]
    undocumented = [name for name, cls in classes.items() if not (cls.__doc__ or "").strip()]
    assert silent == []
    assert undocumented == []


def test_every_class_has_an_example_or_a_reason(classes: Classes):
    assert {name for name, cls in classes.items() if not cls.example} == set(WITHOUT_EXAMPLE)


def test_index(classes: Classes, tmp_path: Path, request: pytest.FixtureRequest):
    recorded = INDEX.read_text() if INDEX.exists() else ""
    texts, problems = [HEADER], []
    for name in sorted(classes):
        try:
            texts.append(entry(classes[name], recorded, tmp_path))
        except (Exception, pytest.fail.Exception) as error:
            problems.append(f"{name}: its example ends with {type(error).__name__}: {error}")
    text = "\n".join(texts)
    if request.config.getoption("--update"):
        INDEX.write_text(text)
    assert problems == []
    assert text == INDEX.read_text(), "docs/errors.md is not what the classes say: see `make docs`"


def test_an_example_that_raises_nothing_is_caught(tmp_path: Path):
    class Quiet(TawaError, group=True):
        """Never raised."""

        example = "x = 1\n"

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        output_of(Quiet, tmp_path)


def test_an_example_that_raises_another_error_is_caught(tmp_path: Path):
    class Expected(TawaError, group=True):
        """Not what the example raises."""

        example = "from tawa.base.errors import TawaError\nraise TawaError('other')\n"

    with pytest.raises(TawaError, match="other"):
        output_of(Expected, tmp_path)
