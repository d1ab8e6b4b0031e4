"""Run notebooks from top to bottom, without Jupyter: each in a process and a folder of its own.

    python scripts/notebooks.py docs/notebooks/*.ipynb    # run them and keep their outputs

IPython runs the cells as it does in Jupyter. A cell that raises ends the run with its traceback.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
CHILD = "--cells-from-stdin"


def main() -> None:
    """Run the notebooks that are named, and write their outputs into them."""
    if sys.argv[1:] == [CHILD]:
        print(json.dumps(outputs_of([str(cell) for cell in json.load(sys.stdin)])))
        return
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(text_of(with_outputs(json.loads(path.read_text()))))


def text_of(notebook: dict[str, Any]) -> str:
    """The file of a notebook, as Jupyter writes it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def with_outputs(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook, run now. Raises CalledProcessError, with what it printed, if a cell fails."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    sources = json.dumps(["".join(cell["source"]) for cell in cells])
    command = [sys.executable, str(Path(__file__).resolve()), CHILD]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command,
            input=sources,
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    for number, (cell, outputs) in enumerate(zip(cells, found, strict=True), 1):
        cell["execution_count"], cell["outputs"] = number, outputs
    return notebook


def environment() -> dict[str, str]:
    """What a notebook runs in: `tawa` is found, and prints plain text."""
    paths = [str(SOURCE), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "IPYTHONDIR": tempfile.gettempdir(),
    }


def outputs_of(cells: list[str]) -> list[list[dict[str, Any]]]:
    """The outputs of each cell: what it prints, and the value of its last expression."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    settings = Config()
    settings.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=settings)
    shell.system = shell.system_piped  # type: ignore[method-assign]  # what `!` prints is kept
    for part in ("write_output_prompt", "write_format_data", "finish_displayhook"):
        setattr(shell.displayhook, part, lambda *_: None)  # values are asked for, not printed
    found: list[list[dict[str, Any]]] = []
    for cell in cells:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            result = shell.run_cell(cell, store_history=True)
        if not result.success:
            print(out.getvalue(), file=sys.stderr)
            raise SystemExit(f"this cell fails:\n{cell}")
        found.append(printed(out.getvalue()) + shown(shell, result.result))
    return found


def printed(text: str) -> list[dict[str, Any]]:
    """The output of what a cell printed."""
    lines = text.replace("\r\n", "\n").splitlines(keepends=True)
    return [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []


def shown(shell: Any, value: Any) -> list[dict[str, Any]]:
    """The output of a cell's last expression, as text and as a picture."""
    if value is None:
        return []
    data, metadata = shell.display_formatter.format(value)
    kept = {
        kind: text.splitlines(keepends=True)
        for kind, text in data.items()
        if kind in ("text/plain", "image/svg+xml")
    }
    if "image/svg+xml" in kept:
        kept["text/plain"] = ["<SVG>"]  # without its address in memory
    number = shell.execution_count - 1
    result = {"output_type": "execute_result", "execution_count": number}
    return [{**result, "data": kept, "metadata": metadata}]


if __name__ == "__main__":
    main()
