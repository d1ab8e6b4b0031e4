"""Every public module, class, function and method of the package says what it is."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "tawa"

# Files whose classes have a method for each rule of a grammar: the grammar is their documentation.
GRAMMAR_FILES = {"parser.py"}

Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def undocumented(root: Path) -> list[str]:
    """`file:line name` of every public definition below `root` without a docstring."""
    found = []
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        tree = ast.parse(path.read_text(), str(path))
        rules = path.name in GRAMMAR_FILES
        for line, what in _missing(tree, ""):
            if not (rules and "." in what):
                found.append(f"{name}:{line} {what}")
    return found


def _missing(node: Definition, prefix: str) -> Iterator[tuple[int, str]]:
    if not (ast.get_docstring(node) or "").strip():
        yield getattr(node, "lineno", 1), prefix.rstrip(".") or "module"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    for child in node.body:
        if isinstance(child, Definition) and not child.name.startswith("_"):
            if any(_is_overload(decorator) for decorator in child.decorator_list):
                continue
            yield from _missing(child, f"{prefix}{child.name}.")


def _is_overload(decorator: ast.expr) -> bool:
    """Whether the decorator says that the documentation stands elsewhere."""
    name = decorator.attr if isinstance(decorator, ast.Attribute) else decorator
    return (name.id if isinstance(name, ast.Name) else name) in {"overload", "override", "setter"}


def test_public_names_are_documented():
    assert undocumented(SOURCE) == []


def test_catches_what_is_undocumented(tmp_path: Path):
    (tmp_path / "a.py").write_text(
        '"""A."""\n'
        "def f():\n    pass\n"
        "def _private():\n    pass\n"
        "class C:\n"
        '    """C."""\n'
        "    def m(self):\n        def inner(): pass\n"
        "    def __repr__(self): return ''\n"
        "    @override\n    def o(self): pass\n"
    )
    (tmp_path / "b.py").write_text("")
    (tmp_path / "parser.py").write_text('"""P."""\nclass C:\n    def rule(self): pass\n')
    assert undocumented(tmp_path) == ["a.py:2 f", "a.py:8 C.m", "b.py:1 module", "parser.py:2 C"]
