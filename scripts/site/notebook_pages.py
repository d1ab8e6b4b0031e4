"""Notebooks as pages: their cells, with the outputs that they were kept with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def page(path: Path) -> str:
    """The Markdown of a notebook."""
    cells: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    parts: list[str] = []
    for cell in cells:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        parts += [shown(output) for output in cell["outputs"]]
    note = f"*This page is the notebook `docs/notebooks/{path.name}`, with its outputs.*"
    title, _, rest = "\n\n".join(parts).partition("\n")
    return f"{title}\n\n{note}\n{rest}\n"


def shown(output: dict[str, Any]) -> str:
    """What a cell printed, gave or raised."""
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text']).rstrip()}\n```"
    if output["output_type"] == "error":
        return f"```text\n{output['ename']}: {output['evalue'].rstrip()}\n```"
    data = output["data"]
    if "image/svg+xml" in data:
        return "".join(data["image/svg+xml"]).strip()
    return f"```text\n{''.join(data['text/plain']).rstrip()}\n```"
