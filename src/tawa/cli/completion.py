"""What a shell offers after `tawa ...<TAB>`: kernels of files, and launch options.

Kernels are found in a file's text, which is not run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

DECORATORS = "jit", "autotune", "heuristics"
"""Names of the decorators that make a kernel, whatever module they are taken from."""


def kernels(incomplete: str) -> list[str]:
    """`FILE.py:NAME` for the kernels of a file, or Python files and folders that begin so."""
    file, colon, name = incomplete.partition(":")
    path = Path(file)
    if colon or (path.suffix == ".py" and path.is_file()):
        return [f"{file}:{kernel}" for kernel in kernels_of(path) if kernel.startswith(name)]
    folder = path if incomplete.endswith("/") else path.parent
    return sorted(_offered(folder, "" if incomplete.endswith("/") else path.name))


def _offered(folder: Path, start: str) -> Iterator[str]:
    for found in folder.iterdir() if folder.is_dir() else ():
        if not found.name.startswith(start) or found.name.startswith("."):
            continue
        if found.is_dir():
            yield f"{found}/"
        elif found.suffix == ".py":
            names = kernels_of(found)
            yield from (f"{found}:{name}" for name in names)


def kernels_of(path: Path) -> list[str]:
    """The names of the kernels at the top level of a file; none if it can't be read."""
    try:
        tree = ast.parse(path.read_text())
    except (OSError, SyntaxError, ValueError):
        return []
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return [f.name for f in functions if any(map(_makes_kernel, f.decorator_list))]


def _makes_kernel(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in DECORATORS


def launch_options(incomplete: str) -> list[str]:
    """`NAME=` for the launch options that begin so."""
    from dataclasses import fields

    from tawa.base.options import Options

    return [f"{f.name}=" for f in fields(Options) if f.name.startswith(incomplete)]
