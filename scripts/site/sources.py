"""Pages that show files of the repository: the documents' links into it stay within the site."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable
from pathlib import Path

FOLDER = "source/"
LINK = re.compile(r"\]\((?P<target>(?:\.\./)+[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
LANGUAGES = {".py": "python", ".jsonl": "json", ".toml": "toml", ".ax": "ocaml", ".ppl": "ocaml"}
LONGEST = 60_000
"""Characters of a file that are shown."""


def pages(texts: Iterable[str], root: Path) -> dict[str, str]:
    """A page, by its address, for each file and folder of the repository that is linked to."""
    found: dict[str, str] = {}
    for text in texts:
        for match in LINK.finditer(text):
            inside = re.sub(r"^(\.\./)+", "", match["target"]).rstrip("/")
            path = root / inside
            if path.exists() and not (root / "docs" / inside).exists():
                found[address(path, root)] = shown(path, root)
    return found


def led(text: str, uri: str, root: Path) -> str:
    """The text with its links out of `docs/` led to those pages."""
    folder = (root / "docs" / uri).parent

    def target(match: re.Match[str]) -> str:
        path = Path(os.path.normpath(folder / match["target"]))
        if path.is_relative_to(root / "docs") or not path.exists():
            return match[0]
        place = os.path.relpath(address(path, root), Path(uri).parent)
        return f"]({place})"

    return LINK.sub(target, text)


def address(path: Path, root: Path) -> str:
    """The page of a file or a folder."""
    inside = path.relative_to(root).as_posix()
    return f"{FOLDER}{inside}/folder.md" if path.is_dir() else f"{FOLDER}{inside}.md"


def shown(path: Path, root: Path) -> str:
    """A page with a file's text, or with what a folder's files are for."""
    title = path.relative_to(root).as_posix()
    head = f"---\nsearch:\n  exclude: true\nhide:\n  - toc\n---\n\n# {title}\n\n"
    if path.is_dir():
        names = [child for child in sorted(path.iterdir()) if child.suffix in LANGUAGES]
        return head + "\n".join(f"- `{child.name}`: {purpose(child)}" for child in names) + "\n"
    text = path.read_text(errors="replace")
    cut = "" if len(text) <= LONGEST else "\n\nThe rest is not shown.\n"
    language = LANGUAGES.get(path.suffix, "text")
    return f"{head}~~~~~~ {language}\n{text[:LONGEST].rstrip()}\n~~~~~~\n{cut}"


def purpose(path: Path) -> str:
    """The first sentence of a file."""
    if path.suffix == ".py":
        words = ast.get_docstring(ast.parse(path.read_text())) or ""
        return " ".join(words.split("\n\n")[0].split()).replace("<", "&lt;")
    return path.read_text().partition("\n")[0].lstrip("# ").replace("<", "&lt;")
