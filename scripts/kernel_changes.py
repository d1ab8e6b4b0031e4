"""The table in docs/architecture.md of the commits that changed kernels since the re-cut.

    python scripts/blame_kernels.py FROM TO --kept --json scripts/kernel_changes.json
    python scripts/kernel_changes.py --write

What changed is found by compiling (`blame_kernels.py`), with where the commit wrote into the log of
what was tried; why is said in `kernel_changes.toml`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOUND, REASONS = (ROOT / "scripts" / f"kernel_changes.{kind}" for kind in ("json", "toml"))
LOG = ROOT / "docs" / "performance-log.md"
PAGE = ROOT / "docs" / "architecture.md"
MARKS = "<!-- changed kernels -->\n", "<!-- end of changed kernels -->\n"


def table(found: dict[str, Any], reasons: dict[str, str], log: str) -> str:
    """A row for each commit, or for neighbours of which one or more did it."""
    headings = re.findall(r"^## (.*)$", log, re.MULTILINE)
    lines = ["| commit | what it did | why | kernels | log |", "|---|---|---|---|---|"]
    for row in found["changes"]:
        meant = [commit for commit in row["commits"] if commit in reasons]
        if not meant:
            raise ValueError(f"no reason for one of {', '.join(row['commits'])}")
        others = len(row["commits"]) - len(meant)
        told = "; ".join(row["commits"][commit] for commit in meant).replace("|", "\\|")
        beside = f" (or {others} beside)" if others else ""
        kinds = ", ".join(dict.fromkeys(reasons[commit] for commit in meant))
        written = dict.fromkeys(name for commit in meant for name in row["logged"][commit])
        logs = ", ".join(linked(name) for name in written if name in headings)
        which = kernels(row["kernels"], found)
        lines.append(f"| {', '.join(meant)}{beside} | {told} | {kinds} | {which} | {logs} |")
    return "\n".join(lines) + "\n"


def kernels(names: list[str], found: dict[str, Any]) -> str:
    """Kernels' names, or that it is all of them."""
    if len(names) == found["kernels"]:
        return "all"
    return ", ".join(name.removeprefix("suite ") for name in names)


def linked(heading: str) -> str:
    """A link to a heading of the log."""
    anchor = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
    shown = re.split(r"[,:(]", heading)[0].strip()
    return f"[{shown}](performance-log.md#{anchor})"


def drawn() -> str:
    """The table of the files here."""
    found = json.loads(FOUND.read_text())
    return table(found, tomllib.loads(REASONS.read_text()), LOG.read_text())


def main() -> int:
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write it into the page")
    if not parser.parse_args().write:
        print(drawn(), end="")
        return 0
    before, _, rest = PAGE.read_text().partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    PAGE.write_text(before + MARKS[0] + drawn() + MARKS[1] + after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
