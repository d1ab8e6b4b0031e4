"""What of this package a result depends on: the modules it is made by, and all that they import.

A result that is kept for other processes is valid as long as the source that made it is the same.
The modules are found by following `import` statements, wherever in a file they stand, so nothing
has to be listed by hand. Reading them takes tens of milliseconds; the digest is therefore kept with
the size, the inode and the times of each file, and is made again when one of them differs.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

__all__ = ["Store", "import_closure", "installed_versions", "outside_imports", "source_digest"]

PACKAGE = Path(__file__).parents[1]
ROOT = PACKAGE.name
INFO = ".dist-info"
"""Ending of the folder that says which version of a package is installed (PEP 376)."""

_NAMES = r"\((?:[^)#]|#[^\n]*)*\)|(?:[^\n\\]|\\\n)*"
_IMPORT = re.compile(
    rf"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]*({_NAMES})|import[ \t]+({_NAMES}))", re.M
)
_COMMENT = re.compile(r"#[^\n]*")
_NEVER_RUN = re.compile(
    r"^([ \t]*)if TYPE_CHECKING:[^\n]*\n(?:\1[ \t]+[^\n]*\n|[ \t]*\n)*" + r'|""".*?"""', re.M | re.S
)
"""Imports for type checkers alone, and texts, which may have examples in them."""

_FUNCTION = re.compile(r"^def [^\n]*\n(?:[ \t)][^\n]*\n|\n)*", re.M)


class Store(Protocol):
    """Entries by key, each a mapping from names to bytes."""

    def get(self, key: str) -> dict[str, bytes] | None:
        """An entry, or None."""
        ...

    def put(self, key: str, entry: Mapping[str, bytes]) -> None:
        """Keep an entry."""
        ...


def source_digest(*modules: str, store: Store | None = None) -> str:
    """A digest of the source of some modules and of all that they import of this package.

    Cheap where `store` has it from an earlier process and no file was touched since.
    """
    return _source_digest(modules, PACKAGE, store)


def import_closure(*modules: str, package: Path = PACKAGE) -> list[Path]:
    """The files of some modules and of all that they import, directly or not, in order."""
    return sorted(_scan(modules, package))


def outside_imports(*modules: str) -> set[str]:
    """Packages that the closure of some modules imports besides this one and Python's own."""
    own = {ROOT, "__future__", *sys.stdlib_module_names}
    return {
        name.partition(".")[0]
        for path in _scan(modules, PACKAGE)
        for name, _ in _imports(path.read_text(encoding="utf-8"))
    } - own


@cache
def installed_versions(*distributions: str) -> tuple[str, ...]:
    """The versions of installed packages, `""` for one that is not installed.

    What `importlib.metadata` says, which takes longer to load than a kept kernel's first launch;
    it is asked only for packages that have no folder of metadata where Python looks for them.
    """
    found: dict[str, str] = {}
    for folder in sys.path:
        try:
            with os.scandir(folder or ".") as entries:
                names = [entry.name for entry in entries if entry.name.endswith(INFO)]
        except OSError:
            continue
        for entry in names:
            name, _, number = entry.removesuffix(INFO).rpartition("-")
            found.setdefault(_normal(name), number)
    return tuple(found.get(_normal(name)) or _asked(name) for name in distributions)


def _normal(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def _asked(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return ""


_DIGESTS: dict[tuple[tuple[str, ...], Path], str] = {}


def _source_digest(modules: tuple[str, ...], package: Path, store: Store | None) -> str:
    known = _DIGESTS.get((modules, package))
    if known is None:
        known = _kept_digest(modules, package, store)
        _DIGESTS[modules, package] = known
    return known


def _kept_digest(modules: tuple[str, ...], package: Path, store: Store | None) -> str:
    asked = "\0".join(("source digest 1", sys.version, str(package), *modules))
    key = sha256(asked.encode()).hexdigest()
    entry = None if store is None else store.get(key)
    if entry is not None:
        digest = _still_valid(entry, package)
        if digest is not None:
            return digest
    files = sorted(_scan(modules, package))
    # The stamps come first: a file that changes while it is read has another one afterwards.
    stamps = {path.relative_to(package).as_posix(): _stamp(path) for path in files}
    digest = sha256()
    for path in files:
        data = path.read_bytes()
        digest.update(f"{path.relative_to(package).as_posix()} {len(data)} ".encode())
        digest.update(data)
    if store is not None:
        kept = {"digest": digest.hexdigest(), "files": stamps}
        store.put(key, {"json": json.dumps(kept).encode()})
    return digest.hexdigest()


def _still_valid(entry: Mapping[str, bytes], package: Path) -> str | None:
    """The digest that an entry holds, if the files are those that it was made of."""
    try:
        kept: Any = json.loads(entry["json"])
        for name, stamp in kept["files"].items():
            if _stamp(f"{package}/{name}") != stamp:
                return None
        return str(kept["digest"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _stamp(path: Path | str) -> list[int]:
    """What changes whenever a file is written: a program can set the first time, not the other."""
    status = os.stat(path)  # noqa: PTH116  # making paths takes longer than all the rest
    return [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def _scan(modules: tuple[str, ...], package: Path) -> set[Path]:
    """The files that some modules and their imports lie in."""
    files = _modules(package)
    whole: dict[str, bool] = {}
    found: set[Path] = set()
    pending = [(name, True) for name in modules]
    while pending:
        name, used = pending.pop()
        if whole.get(name, False) or whole.get(name) == used:
            continue
        whole[name] = used
        path = files.get(name)
        if path is None:
            continue  # of another package
        found.add(path)
        if name == ROOT and not used:
            continue  # it hands names on to users, and no part of it depends on that
        text = path.read_text(encoding="utf-8")
        # The packages around a module are imported first, but their functions are not called.
        pending.append((name.rpartition(".")[0], False))
        for module, names in _imports(text if used else _FUNCTION.sub("", text)):
            parts = [(n, True) for n in names if n in files]
            pending.extend(parts)
            pending.append((module, len(parts) < len(names) or not names))
    return found


def _modules(package: Path) -> dict[str, Path]:
    """The file of each module of a package: one look at its folders, not one for each import."""
    found: dict[str, Path] = {}
    for folder, _, files in os.walk(package):
        inside = folder.removeprefix(str(package)).replace(os.sep, ".")
        for file in files:
            if file.endswith(".py"):
                name = f"{ROOT}{inside}.{file.removesuffix('.py')}"
                found[name.removesuffix(".__init__")] = Path(folder, file)
    return found


def _imports(text: str) -> Iterator[tuple[str, list[str]]]:
    """The modules that a text imports, each with what is taken from it, by its whole name."""
    for match in _IMPORT.finditer(_NEVER_RUN.sub("", text)):
        module, names, modules = match.groups()
        if module is not None:
            yield module, [f"{module}.{name}" for name in _listed(names)]
        else:
            yield from ((name, []) for name in _listed(modules))


def _listed(names: str) -> Iterator[str]:
    for item in _COMMENT.sub("", names).strip("() \t").replace("\\\n", " ").split(","):
        words = item.split()
        if words:
            yield words[0]
