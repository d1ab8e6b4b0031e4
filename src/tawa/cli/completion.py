"""What a shell offers after `tawa ...<TAB>`: kernels and tasks of files, launch options, errors.

Kernels and tasks are found in a file's text, which is not run.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, MutableMapping
from pathlib import Path

KERNELS = "jit", "autotune", "heuristics"
"""Names of the decorators that make a kernel, whatever module they are taken from."""
TASKS = ("task",)
"""Names of the decorators that make a task."""

FILE = "_TAWA_COMPLETE_FILE"
"""The file whose kernel is completed, where bash completes only what follows the colon."""


def join_at_colons(environment: MutableMapping[str, str]) -> None:
    """Make one word again of each `FILE.py:NAME`, which bash cuts at the colon before it asks.

    Of the word that is completed only the name stays: bash adds what is offered to the colon.
    """
    typed = environment.get("COMP_WORDS", "")
    if environment.get("_TAWA_COMPLETE") != "complete_bash" or "\n" not in typed:
        return
    words: list[str] = []
    for word in typed.split("\n")[: int(environment["COMP_CWORD"]) + 1]:
        if words and (word == ":" or words[-1].endswith(":")):
            words[-1] += word
        else:
            words.append(word)
    file, colon, words[-1] = words[-1].rpartition(":")
    if colon:
        environment[FILE] = file
    environment.update(COMP_WORDS="\n".join(words), COMP_CWORD=str(len(words) - 1))


def kernels(incomplete: str) -> list[str]:
    """`FILE.py:NAME` for the kernels of a file, or Python files and folders that begin so."""
    return _in_files(incomplete, KERNELS)


def tasks(incomplete: str) -> list[str]:
    """`FILE.py:NAME` for the tasks of a file, or Python files and folders that begin so."""
    return _in_files(incomplete, TASKS)


def explainable(incomplete: str) -> list[str]:
    """What `tawa explain` takes: names of errors, and kernels."""
    from tawa.cli.explain import explained

    names = [name for name in explained() if incomplete and name.startswith(incomplete)]
    return sorted(names) + kernels(incomplete)


def _in_files(incomplete: str, decorators: tuple[str, ...]) -> list[str]:
    if FILE in os.environ:
        found = _decorated(Path(os.environ[FILE]), decorators)
        return [name for name in found if name.startswith(incomplete)]
    file, colon, name = incomplete.partition(":")
    path = Path(file)
    if colon or (path.suffix == ".py" and path.is_file()):
        return [f"{file}:{n}" for n in _decorated(path, decorators) if n.startswith(name)]
    folder = path if incomplete.endswith("/") else path.parent
    return sorted(_offered(folder, "" if incomplete.endswith("/") else path.name, decorators))


def _offered(folder: Path, start: str, decorators: tuple[str, ...]) -> Iterator[str]:
    for found in folder.iterdir() if folder.is_dir() else ():
        if not found.name.startswith(start) or found.name.startswith("."):
            continue
        if found.is_dir():
            yield f"{found}/"
        elif found.suffix == ".py":
            yield from (f"{found}:{name}" for name in _decorated(found, decorators))


def _decorated(path: Path, decorators: tuple[str, ...]) -> list[str]:
    """The names of such functions at the top level of a file; none if it can't be read."""
    try:
        tree = ast.parse(path.read_text())
    except (OSError, SyntaxError, ValueError):
        return []
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return [f.name for f in functions if any(_name(d) in decorators for d in f.decorator_list)]


def _name(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def launch_options(incomplete: str) -> list[str]:
    """`NAME=` for the launch options that begin so."""
    from dataclasses import fields

    from tawa.base.options import Options

    return [f"{f.name}=" for f in fields(Options) if f.name.startswith(incomplete)]
