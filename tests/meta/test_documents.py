"""The documents do what they say.

Code blocks of README.md and docs/ are executed, in order, in a folder that holds links to the
repository's files. Recorded outputs are compared; `--update` rewrites them.

    ```python            runs; blocks of one document share their names
    ```python NAME.py    is written to NAME.py, then runs
    ```text              right after a Python block: what that block prints; or, for a block that
                         raises one of Tawa's errors, the error
    ```console           lines after `$ ` are run by bash; the lines below are what they print
    <!-- not run: WHY --> on the line before a block: the block is only shown

In a recorded output, `...` stands for any text within a line, and on a line of its own for any
number of lines. Blocks of other languages are only shown.
"""

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tawa.base.errors import TawaError

ROOT = Path(__file__).parents[2]
WRITTEN_BY_TESTS = ROOT / "docs" / "errors.md"  # see test_error_index.py
DOCUMENTS = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if path != WRITTEN_BY_TESTS
]

FENCE = re.compile(
    r"^(?P<skip><!-- not run: [^\n]+ -->\n)?```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.M | re.S
)
TIMEOUT = 300  # seconds for one command


@dataclass
class Block:
    """A fenced block: its first word, the rest of that line, its text, and where the text is."""

    language: str
    title: str
    text: str
    start: int
    end: int
    line: int
    shown_only: bool


def blocks(document: str) -> Iterator[Block]:
    """The fenced blocks of a Markdown text."""
    for match in FENCE.finditer(document):
        language, _, title = match["info"].strip().partition(" ")
        line = document.count("\n", 0, match.start("info")) + 1
        span = match.span("body")
        yield Block(language, title, match["body"], *span, line, match["skip"] is not None)


def run_document(document: str, folder: Path) -> Iterator[tuple[Block, str]]:
    """Run the blocks of `document` in `folder`: each recorded block with what is printed now."""
    names: dict[str, object] = {"__name__": "__main__"}
    printed: str | None = None
    for index, block in enumerate(blocks(document)):
        if block.shown_only:
            printed = None
        elif block.language == "python":
            printed = run_python(block, names, folder / (block.title or f"block_{index}.py"))
        elif block.language == "console":
            yield block, run_console(block.text, folder)
            printed = None
        elif block.language == "text" and printed is not None:
            yield block, printed
            printed = None
    assert not printed, f"what the last Python block prints is not shown: {printed}"


def run_python(block: Block, names: dict[str, object], path: Path) -> str:
    """What a Python block prints, or the error of ours that it raises."""
    path.write_text(block.text)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(block.text, str(path), "exec"), names)
        except TawaError as error:
            print(error.render())
    return out.getvalue()


def run_console(text: str, folder: Path) -> str:
    """The block again, with what its commands print now."""
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
    lines = []
    for command in re.findall(r"^\$ (.*(?:\\\n.*)*)$", text, re.M):
        script = f'set -e; tawa() {{ {sys.executable} -m tawa "$@"; }}; {command}'
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            check=False,
        )
        lines.append(f"$ {command}\n{done.stdout}")
        if done.returncode and "Error" not in text and "error" not in text:
            raise AssertionError(f"`{command}` fails:\n{done.stdout}")
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def matches(recorded: str, printed: str) -> bool:
    """Whether `printed` is `recorded`, in which `...` stands for anything."""
    parts = []
    for line in recorded.splitlines():
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            pieces = (re.escape(piece) for piece in line.rstrip().split("..."))
            parts.append(r".*?".join(pieces) + r"[ ]*\n")
    ended = printed if printed.endswith("\n") or not printed else printed + "\n"
    return re.fullmatch("".join(parts), ended) is not None


def furnish(folder: Path) -> Path:
    """Fill `folder` with links to the repository's files and return it."""
    for path in ROOT.iterdir():
        if not path.name.startswith("."):
            (folder / path.name).symlink_to(path)
    return folder


def check(document: str, folder: Path) -> tuple[list[str], str]:
    """The blocks that differ from what is printed now, and the document brought up to date."""
    found, updated = [], document
    for block, printed in reversed(list(run_document(document, folder))):
        if not matches(block.text, printed):
            found.append(f"line {block.line}: prints\n{printed}")
            updated = updated[: block.start] + printed + updated[block.end :]
    return found[::-1], updated


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_document(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    monkeypatch.chdir(furnish(tmp_path))
    found, updated = check(path.read_text(), tmp_path)
    if request.config.getoption("--update"):
        path.write_text(updated)
        return
    assert found == [], "\n".join(found)


def test_links_lead_somewhere():
    broken = []
    for path in DOCUMENTS:
        prose = re.sub(r"`[^`\n]+`", "", FENCE.sub("", path.read_text()))
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
            if not (path.parent / target).exists():
                broken.append(f"{path.relative_to(ROOT)}: {target}")
    assert broken == []


def test_every_document_can_be_found_from_the_readme():
    linked: set[Path] = set()
    new = {ROOT / "README.md"}
    while new:
        path = new.pop()
        linked.add(path)
        targets = re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", FENCE.sub("", path.read_text()))
        new |= {(path.parent / target).resolve() for target in targets} - linked
    assert {*DOCUMENTS, WRITTEN_BY_TESTS} - linked == set()


def test_tables_are_made_of_the_benchmarks_rows():
    tables = runpy.run_path(str(ROOT / "benchmarks" / "tables.py"), run_name="tables")
    stale = [
        path.relative_to(ROOT).as_posix()
        for path in DOCUMENTS
        if tables["filled"](path.read_text(), tables["RESULTS"]) != path.read_text()
    ]
    assert stale == [], "run `make docs`"


def test_plots_are_drawn_of_the_benchmarks_rows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    plots = runpy.run_path(str(ROOT / "benchmarks" / "plots.py"), run_name="plots")
    drawn = plots["drawn"](plots["RESULTS"])
    kept = {path.name: path.read_text() for path in plots["DRAWN"].glob("*.svg")}
    stale = [name for name, text in drawn.items() if kept.get(name) != text]
    stale += sorted(kept.keys() - drawn.keys())
    for path in DOCUMENTS:
        text = path.read_text()
        if plots["filled"](text, path, plots["RESULTS"]) != text:
            stale.append(path.relative_to(ROOT).as_posix())
    assert stale == [], "run `make docs`"


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {
        target for path in DOCUMENTS for target in re.findall(r"\bmake ([a-z-]+)", _code(path))
    }
    assert {"demo", "test"} <= named <= targets


def _code(path: Path) -> str:
    """What stands in code blocks and between backquotes in a document."""
    text = path.read_text()
    return "\n".join([block.text for block in blocks(text)] + re.findall(r"`([^`\n]+)`", text))


# The check is seen to fail.


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ("```python\nprint(1 + 1)\n```\n```text\n2\n```\n", []),
        ("```python\nprint(1 + 1)\n```\n```text\n3\n```\n", ["line 4: prints\n2\n"]),
        ("```python\nx = 4\n```\n\n```python\nprint(x)\n```\n```text\n4\n```\n", []),
        ("```console\n$ echo a; echo b\na\nb\n```\n", []),
        ("```console\n$ echo a\nc\n```\n", ["line 1: prints\n$ echo a\na\n"]),
        ("```python kernel.py\nx = 1\n```\n```console\n$ cat kernel.py\nx = 1\n```\n", []),
        ("<!-- not run: shown -->\n```python\nraise SystemExit\n```\n", []),
        ("```console\n$ seq 9\n1\n...\n9\n```\n", []),
        ("```console\n$ echo took 12 ms\ntook ... ms\n```\n", []),
    ],
)
def test_differences_are_found(document: str, found: list[str], tmp_path: Path):
    assert check(document, tmp_path)[0] == found


def test_updating_makes_it_right(tmp_path: Path):
    stale = "A\n```python\nprint(5)\n```\n```text\n6\n```\nB\n```console\n$ echo a\n```\nC\n"
    assert check(check(stale, tmp_path)[1], tmp_path)[0] == []


def test_our_errors_are_shown_as_they_are_rendered(tmp_path: Path):
    document = (
        "```python\nfrom tawa.base.knobs import BadKnob\nraise BadKnob('no')\n```\n"
        "```text\nerror[BadKnob]: no\n```\n"
    )
    assert check(document, tmp_path)[0] == []


@pytest.mark.parametrize(
    "document",
    ["```console\n$ false\n```\n", "```python\nprint(1)\n```\n", "```python\n1/0\n```\n"],
)
def test_what_goes_wrong_unseen_is_an_error(document: str, tmp_path: Path):
    with pytest.raises((AssertionError, ZeroDivisionError)):
        check(document, tmp_path)
