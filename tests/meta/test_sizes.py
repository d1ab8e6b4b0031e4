"""Functions stay under 60 lines and files under 500; what is longer is named below."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "benchmarks", "examples")
SUFFIXES = {".py", ".cu", ".cuh", ".lark", ".pyi"}

MAX_FUNCTION = 60
MAX_FILE = 500

# "path" or "path:function": why it may be longer. An entry that is no longer needed fails too.
EXCEPTIONS: dict[str, str] = {}


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


def too_long(root: Path) -> dict[str, int]:
    """Every file and function below `root`'s folders that is over its limit, with its length."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            name = path.relative_to(root).as_posix()
            lines = len(path.read_text().splitlines())
            if lines >= MAX_FILE:
                found[name] = lines
            if path.suffix == ".py":
                for function, length in function_lengths(path):
                    if length >= MAX_FUNCTION:
                        found[f"{name}:{function}"] = length
    return found


def test_sizes():
    found = too_long(ROOT)
    assert {name: length for name, length in found.items() if name not in EXCEPTIONS} == {}
    assert set(EXCEPTIONS) <= set(found), "exceptions that are no longer needed"


def test_catches_a_long_function_and_a_long_file(tmp_path: Path):
    source = tmp_path / "src"
    source.mkdir()
    body = "        x = 1\n" * 59
    documented = '        """One.\n\n        Two.\n        """\n' + "        x = 1\n" * 58
    (source / "a.py").write_text(
        f"class A:\n    def long(self):\n{body}\n    def fits(self):\n{documented}"
    )
    (source / "b.cuh").write_text("//\n" * 500)
    assert too_long(tmp_path) == {"src/a.py:A.long": 60, "src/b.cuh": 500}
