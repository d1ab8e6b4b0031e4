"""Functions stay under 60 lines; files that stand out by their length are named, with the reason.

A file is one idea, however long it takes to tell. The list shows where to look for two ideas.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "benchmarks", "examples")
SUFFIXES = {".py", ".cu", ".cuh", ".lark", ".pyi"}

MAX_FUNCTION = 60
LONG_FILE = 600

# Files of LONG_FILE lines or more: the one idea of each. A file that is no longer so long fails too.
LONG: dict[str, str] = {}


def function_lengths(path: Path) -> Iterator[tuple[str, int]]:
    """The qualified name and number of lines of each function, its docstring not counted."""

    def visit(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + child.name, _length(child)
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            yield from visit(child, f"{prefix}{child.name}." if named else prefix)

    yield from visit(ast.parse(path.read_text(), str(path)), "")


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    length = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    is_docstring = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    if is_docstring:
        length -= (first.end_lineno or first.lineno) - first.lineno + 1
    return length


def outliers(root: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Long files and long functions below `root`'s folders, with their lengths."""
    files: dict[str, int] = {}
    functions: dict[str, int] = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            name = path.relative_to(root).as_posix()
            lines = len(path.read_text().splitlines())
            if lines >= LONG_FILE:
                files[name] = lines
            if path.suffix == ".py":
                for function, length in function_lengths(path):
                    if length >= MAX_FUNCTION:
                        functions[f"{name}:{function}"] = length
    return files, functions


def test_sizes():
    files, functions = outliers(ROOT)
    assert functions == {}
    assert set(files) == set(LONG), "name long files with their idea, and no others"


def test_catches_a_long_function_and_a_long_file(tmp_path: Path):
    source = tmp_path / "src"
    source.mkdir()
    body = "        x = 1\n" * 59
    documented = '        """One.\n\n        Two.\n        """\n' + "        x = 1\n" * 58
    (source / "a.py").write_text(
        f"class A:\n    def long(self):\n{body}\n    def fits(self):\n{documented}"
    )
    (source / "b.cuh").write_text("//\n" * 600)
    assert outliers(tmp_path) == ({"src/b.cuh": 600}, {"src/a.py:A.long": 60})
