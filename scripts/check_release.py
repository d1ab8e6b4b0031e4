"""Checks that a tag, the package's version and the changelog agree, and writes the release's notes.

    python scripts/check_release.py v0.2.0

The notes are the version's part of CHANGELOG.md, in dist/notes.md.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def notes_of(version: str, changes: str) -> str | None:
    """The part of a changelog that is about a version; None if there is none."""
    parts = re.split(r"^## (.+)$", changes, flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    return next(
        (text.strip() for title, text in found.items() if title.split()[0] == version), None
    )


def version_of(source: str) -> str:
    """The version that the package's `__init__.py` states."""
    found = re.search(r'^__version__ = "([^"]+)"$', source, re.MULTILINE)
    assert found is not None
    return found[1]


def main() -> None:
    """Check the tag that the command line names."""
    (tag,) = sys.argv[1:]
    version = version_of((ROOT / "src/tawa/__init__.py").read_text())
    notes = notes_of(version, (ROOT / "CHANGELOG.md").read_text())
    if tag != f"v{version}":
        sys.exit(f"the tag is {tag}, the package's version {version}")
    if not notes:
        sys.exit(f"CHANGELOG.md has no part `## {version}`")
    (ROOT / "dist").mkdir(exist_ok=True)
    (ROOT / "dist" / "notes.md").write_text(notes + "\n")


if __name__ == "__main__":
    main()
