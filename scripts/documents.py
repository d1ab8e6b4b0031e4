"""The blocks of documents: run them, and compare what they print with what is shown.

    python documents.py PAGE.md ...    # in the folder that the blocks are to run in

Blocks of a document are executed in order, in one folder.

    ```python            runs; blocks of one document share their names
    ```python NAME.py    is written to NAME.py, then runs
    ```text              right after a Python block: what that block prints; or, for a block that
                         raises one of Tawa's errors, the error
    ```console           lines after `$ ` are run by bash; the lines below are what they print
    <!-- not run: WHY --> on the line before a block: the block is only shown
    <!-- needs NAME -->   on the line before a block: it is only shown where no module is called so

In a recorded output, `...` stands for any text within a line, and on a line of its own for any
number of lines. Blocks of other languages are only shown. The file needs nothing of the repository
but Tawa itself, so that `new_user.py` can take it away.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tawa.base.errors import TawaError

SOURCE = Path(__file__).resolve().parents[1] / "src"
"""Tawa's modules, where this file lies in its repository."""

FENCE = re.compile(
    r"^(?:<!-- (?:(?P<skip>not run: [^\n]+)|needs (?P<needs>\w+)) -->\n)?"
    r"```(?P<info>[^\n]*)\n(?P<body>.*?)^```$",
    re.M | re.S,
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
        missing = match["needs"] is not None and find_spec(match["needs"]) is None
        yield Block(
            language, title, match["body"], *span, line, missing or match["skip"] is not None
        )


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
    paths = [str(path) for path in (SOURCE,) if path.is_dir()] + [os.environ.get("PYTHONPATH", "")]
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


def check(document: str, folder: Path) -> tuple[list[str], str]:
    """The blocks that differ from what is printed now, and the document brought up to date."""
    found, updated = [], document
    for block, printed in reversed(list(run_document(document, folder))):
        if not matches(block.text, printed):
            found.append(f"line {block.line}: prints\n{printed}")
            updated = updated[: block.start] + printed + updated[block.end :]
    return found[::-1], updated


def main() -> None:
    """Run the documents that are named; the exit status is 1 if one is not as it says."""
    wrong: list[str] = []
    for name in sys.argv[1:]:
        wrong += check(Path(name).read_text(), Path.cwd())[0]
    print("\n".join(wrong))
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
