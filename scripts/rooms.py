"""The rooms of the source: folders, what each imports, and the floors that follow from it.

    python scripts/rooms.py             print the table
    python scripts/rooms.py --write     and put it into docs/architecture.md

A room is a folder with modules of its own; a room's arrow goes to a room that it imports. The
ground floor imports no room; any other room stands one floor above the highest that it imports.
A package's `__init__` that only hands on names is not drawn. The last lines count the same for the
folders at the top, each with all that is in it.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
DOCUMENT = ROOT / "docs" / "architecture.md"
START, END = "<!-- rooms -->\n", "<!-- end of rooms -->\n"


@dataclass(frozen=True)
class Import:
    """One edge: `importer` imports `imported`, on `line` of its file."""

    importer: str
    imported: str
    line: int
    for_types: bool = False


def module_names(root: Path) -> dict[str, Path]:
    """The modules below `root`, by dotted name."""
    names = {}
    for path in sorted(root.rglob("*.py")):
        parts = list(path.relative_to(root).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        names[".".join(parts)] = path
    return names


def imports_of(root: Path) -> list[Import]:
    """Every import in the modules below `root`, those inside functions too."""
    modules = module_names(root)
    edges = [edge for name, path in modules.items() for edge in _imports(name, path, modules)]
    return list(dict.fromkeys(edges))


def _imports(name: str, path: Path, modules: dict[str, Path]) -> Iterator[Import]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = read(path)
    for node in found.imports:
        for imported in _targets(node, package, modules):
            yield Import(name, imported, node.lineno, node.lineno in found.for_types)


@dataclass(frozen=True)
class Read:
    """What is read of a file: its imports, the lines for types alone, whether it defines names."""

    imports: list[ast.Import | ast.ImportFrom]
    for_types: set[int]
    defines: bool


def read(path: Path) -> Read:
    """What a file says now; it is parsed once until it changes."""
    status = path.stat()
    return _read(path, status.st_mtime_ns, status.st_size)


@cache
def _read(path: Path, _changed: int, _size: int) -> Read:
    nodes = list(ast.walk(ast.parse(path.read_text(), str(path))))
    return Read(
        [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)],
        {line for node in nodes if isinstance(node, ast.If) for line in _lines_for_types(node)},
        any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in nodes),
    )


def _lines_for_types(branch: ast.If) -> Iterator[int]:
    test = branch.test
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    if name == "TYPE_CHECKING":
        for statement in branch.body:
            yield from range(statement.lineno, (statement.end_lineno or 0) + 1)


def _targets(
    node: ast.Import | ast.ImportFrom, package: str, modules: dict[str, Path]
) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        levels = package.split(".")
        above = levels[: len(levels) - node.level + 1]
        base = ".".join([*above, base] if base else above)
    for alias in node.names:
        full = f"{base}.{alias.name}"
        yield full if full in modules else base


@dataclass(frozen=True)
class House:
    """Rooms with their numbers of files, and which rooms each imports."""

    files: dict[str, int]
    arrows: dict[str, set[str]]

    @staticmethod
    def of(root: Path, package: str = "tawa", depth: int = 9) -> House:
        """The house of the package below `root`; folders deeper than `depth` are a part of it."""
        modules = module_names(root)
        faces = {name for name, path in modules.items() if path.name == "__init__.py"}
        folder = {n: n if n in faces else n.rpartition(".")[0] for n in modules}
        room = {n: ".".join(f.split(".")[: depth + 1]) for n, f in folder.items()}
        plain = [n for n in modules if n not in faces or not _is_face(modules[n])]
        files = Counter(room[n] for n in plain if n != package and room[n] != package)
        arrows: dict[str, set[str]] = {name: set() for name in files}
        for edge in imports_of(root):
            start, end = room.get(edge.importer), room.get(edge.imported)
            drawn = edge.importer in plain and not edge.for_types and start != end
            if drawn and start in files and end in files:
                arrows[start].add(end)
        return House(dict(files), arrows)

    def circle(self) -> list[str]:
        """Rooms that import each other in a circle, the first one repeated; empty if none do."""
        try:
            TopologicalSorter(self.arrows).prepare()
        except CycleError as error:
            return error.args[1]
        return []

    def floors(self) -> dict[str, int]:
        """The floor of each room, from 1. The rooms must have no circle."""
        found: dict[str, int] = {}
        for room in TopologicalSorter(self.arrows).static_order():
            found[room] = 1 + max((found[r] for r in self.arrows[room]), default=0)
        return found


def _is_face(path: Path) -> bool:
    """Whether a module defines nothing but what it hands on."""
    return not read(path).defines


def table(house: House) -> str:
    """Rooms by floor, as Markdown."""
    lines = ["| floor | room | files | imports |", "|---|---|---|---|"]
    floors = house.floors()
    for room in sorted(floors, key=lambda r: (floors[r], r)):
        names = ", ".join(sorted(r.removeprefix("tawa.") for r in house.arrows[room]))
        short = room.removeprefix("tawa.")
        lines.append(f"| {floors[room]} | {short} | {house.files[room]} | {names} |")
    return "\n".join(lines) + "\n"


def summary(house: House) -> str:
    """How many rooms, floors and arrows there are, and whether some arrow goes up."""
    arrows = sum(map(len, house.arrows.values()))
    if circle := house.circle():
        return f"{len(house.files)} rooms, {arrows} arrows, a circle: {' -> '.join(circle)}"
    floors = max(house.floors().values())
    return f"{len(house.files)} rooms on {floors} floors, {arrows} arrows, none upwards"


def report(root: Path) -> str:
    """The table of all rooms, and the sums."""
    house = House.of(root)
    rows = "" if house.circle() else table(house) + "\n"
    top = summary(House.of(root, depth=1))
    return f"{rows}All folders: {summary(house)}.\n\nFolders at the top: {top}.\n"


def main() -> int:
    """Print the table, or what keeps it from being made."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"rewrite {DOCUMENT.name}")
    parser.add_argument("--source", type=Path, default=SOURCE)
    chosen = parser.parse_args()
    text = report(chosen.source)
    print(text, end="")
    if chosen.write:
        before, _, rest = DOCUMENT.read_text().partition(START)
        DOCUMENT.write_text(before + START + text + END + rest.partition(END)[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
