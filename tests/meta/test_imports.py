"""Imports go in one direction.

The rules are the tables below. Every import counts, also those inside functions and under
`TYPE_CHECKING` (of which only cycles are allowed: they never run); `from tawa.tile import ops`
counts as an import of `tawa.tile.ops`.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

# What each part may import besides itself. A part is named by the longest prefix of a module's
# name that stands in this table; `.` is the package itself, what `import tawa` gives.
PARTS: dict[str, set[str]] = {
    "base": set(),
    # vocabularies
    "tile.ops": {"base"},
    "aref.ops": {"base"},
    "hopper.ops": {"base"},
    # levels: their own vocabulary and the next level's; aref regions hold tile ops
    "tile": {"base", "tile.ops", "aref.ops"},
    "aref": {"base", "tile.ops", "aref.ops", "hopper.ops"},
    "hopper": {"base", "hopper.ops", "runtime.spec"},
    # from Python to the first level
    "language": {"base"},
    "frontend": {"base", "language", "tile.ops"},
    # what a compiled kernel tells the run time, and the run time, which knows no IR
    "runtime.spec": {"base"},
    "runtime.plans": {"base", "runtime.spec"},
    "runtime": {"base", "runtime.spec", "runtime.plans"},
    # runs any level
    "simulate": {"base", "tile.ops", "aref.ops", "hopper.ops", "runtime.spec", "runtime.plans"},
    # these join levels
    "compiler": {
        *("base", "language", "frontend", "tile", "aref", "hopper"),
        *("runtime", "simulate"),
    },
    "prediction": {"compiler", "runtime", "simulate"},
    "host_launch": {"base", "frontend", "tile", "aref", "compiler", "runtime", "simulate"},
    "report": {
        *("base", "frontend", "tile.ops", "aref.ops", "hopper", "hopper.ops"),
        *("compiler", "runtime", "simulate"),
    },
    "jit": {
        *("base", "language", "frontend", "compiler", "host_launch", "prediction"),
        *("runtime", "simulate"),
    },
    ".": {"base", "language", "jit", "runtime", "simulate"},
    # users of the public interface
    "kernels": {".", "language"},
    "tasks": {"base", "language", "tile.ops"},
    "functional": {"base"},
    "axon": {"base", "functional", "kernels", ".", "language", "jit", "runtime"},
    "cuppl": {"base", "functional", "runtime", ".", "language"},
    "cli": {"*"},
    "__main__": {"cli"},
}

# Modules that belong to another part than their folder's: a vocabulary may take several files.
BELONGS_TO: dict[str, str] = {
    "aref.channel_ops": "aref.ops",
    "aref.compute_ops": "aref.ops",
    "aref.types": "aref.ops",
    "aref.warp_ops": "aref.ops",
    "candidates": "compiler",
    "compiled": "compiler",
    "kept": "compiler",
    "neighbours": "compiler",
    "recording": "compiler",
    "hopper.prelude": "hopper.ops",
    "hopper.text": "hopper.ops",
    "hopper.types": "hopper.ops",
    "tile.arithmetic": "tile.ops",
    "tile.assembly_ops": "tile.ops",
    "tile.axis_info": "tile.ops",
    "tile.combine_ops": "tile.ops",
    "tile.indexed_ops": "tile.ops",
    "tile.compute_ops": "tile.ops",
    "tile.memory_ops": "tile.ops",
    "tile.pointers": "tile.ops",
    "tile.value_ops": "tile.ops",
    "tile.zero": "tile.ops",
}

# Who may import which package of others, wherever it matters. A part that is not named may not.
FOREIGN: dict[str, set[str]] = {
    "cuda": {"runtime"},  # compiling touches no device
    "ortools": {"aref"},
    "llvmlite": {"cuppl"},
    "lark": {"functional", "axon", "cuppl", "tasks"},
    "onnx": {"axon"},
    "onnxruntime": {"axon"},
    "rich": {"cli", "axon", "cuppl", "jit"},
    "typer": {"cli", "axon", "cuppl"},
    "torch": set(),  # arrays come in through DLPack
    "cupy": set(),
    "jax": set(),
    "triton": set(),  # its names are resolved by name
}

# Parts that must work without the IR library, at run time too (see the test at the end).
WITHOUT_IR = {"runtime", "runtime.spec", "language"}

# (importing module, imported module): why it is allowed all the same.
EXCEPTIONS: dict[tuple[str, str], str] = {}


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
    """Every import in the modules below `root`."""
    modules = module_names(root)
    edges = [edge for name, path in modules.items() for edge in _imports(name, path, modules)]
    return list(dict.fromkeys(edges))


def _imports(name: str, path: Path, modules: dict[str, Path]) -> Iterator[Import]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    tree = ast.parse(path.read_text(), str(path))
    typing_only = set(_type_checking_lines(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for imported in _targets(node, package, modules):
                yield Import(name, imported, node.lineno, node.lineno in typing_only)


def _type_checking_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for statement in node.body:
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


def part_of(module: str) -> str | None:
    """The part that a module of tawa belongs to; None if the table has none."""
    rest = module.removeprefix("tawa").removeprefix(".")
    if not rest:
        return "."
    while rest:
        if rest in PARTS or rest in BELONGS_TO:
            return BELONGS_TO.get(rest, rest)
        rest = rest.rpartition(".")[0]
    return None


def violations(root: Path) -> list[str]:
    """A line for every import that the tables forbid."""
    found = []
    for edge in imports_of(root):
        if (edge.importer, edge.imported) in EXCEPTIONS:
            continue
        reason = _forbidden(edge)
        if reason:
            found.append(f"{edge.importer}:{edge.line} imports {edge.imported}: {reason}")
    return found


def _forbidden(edge: Import) -> str | None:
    part = part_of(edge.importer)
    if part is None:
        return "the importing module belongs to no part of the table"
    top = edge.imported.partition(".")[0]
    if top == "xdsl" and part in WITHOUT_IR:
        return f"{part} works without the IR"
    if top in FOREIGN and part not in FOREIGN[top]:
        return f"only {sorted(FOREIGN[top])} may import {top}"
    if top != "tawa":
        return None
    target = part_of(edge.imported)
    allowed = PARTS[part]
    if target == part or "*" in allowed or target in allowed:
        return None
    if target is not None and target.rpartition(".")[0] in allowed:
        return None  # a whole folder is allowed
    return f"{part} may import {sorted(allowed)}"


def cycle(root: Path) -> list[str]:
    """Modules that import each other in a circle, the first one repeated; empty if none do."""
    modules = module_names(root)
    edges: dict[str, set[str]] = {name: set() for name in modules}
    for edge in imports_of(root):
        if edge.imported in modules and edge.imported != edge.importer and not edge.for_types:
            edges[edge.importer].add(edge.imported)
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_imports_go_in_one_direction():
    assert violations(SOURCE) == []


def test_no_import_cycles():
    assert cycle(SOURCE) == []


def test_exceptions_are_still_needed():
    edges = {(edge.importer, edge.imported) for edge in imports_of(SOURCE)}
    assert set(EXCEPTIONS) <= edges


def test_the_tables_are_a_direction():
    """The allowed imports between parts form no cycle, so that none can arise."""
    TopologicalSorter({part: targets - {"*"} for part, targets in PARTS.items()}).prepare()


@pytest.mark.parametrize(
    "module", ["tawa", "tawa.base.errors", "tawa.jit", "tawa.kept", "tawa.runtime", "tawa.language"]
)
def test_works_without_the_ir(module: str):
    """Importing what a warm launch needs doesn't load the IR library."""
    code = f"import sys, {module}; sys.exit('xdsl' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Bad trees: each check is seen to fail.

BAD_TREES = {
    "backwards": (
        {"tile/ops.py": "from tawa.aref import ops", "aref/ops.py": ""},
        "tawa.tile.ops:1 imports tawa.aref.ops: tile.ops may import ['base']",
    ),
    "base imports ours": (
        {"base/types.py": "import tawa.tile.ops", "tile/ops.py": ""},
        "tawa.base.types:1 imports tawa.tile.ops: base may import []",
    ),
    "relative": (
        {"tile/simplify.py": "from ..hopper import ops", "hopper/ops.py": ""},
        "tawa.tile.simplify:1 imports tawa.hopper.ops: "
        "tile may import ['aref.ops', 'base', 'tile.ops']",
    ),
    "inside a function": (
        {"kernels/gemm.py": "def f():\n    from tawa.hopper import emit", "hopper/emit.py": ""},
        "tawa.kernels.gemm:2 imports tawa.hopper.emit: kernels may import ['.', 'language']",
    ),
    "the run time and the IR": (
        {"runtime/launch.py": "from xdsl.ir import Operation"},
        "tawa.runtime.launch:1 imports xdsl.ir: runtime works without the IR",
    ),
    "a device in a pass": (
        {"hopper/emit.py": "import cuda.core"},
        "tawa.hopper.emit:1 imports cuda.core: only ['runtime'] may import cuda",
    ),
    "for types": (
        {"base/a.py": "if TYPE_CHECKING:\n    from tawa.tile import ops", "tile/ops.py": ""},
        "tawa.base.a:2 imports tawa.tile.ops: base may import []",
    ),
    "unknown part": (
        {"extras/thing.py": "import tawa.base", "base/__init__.py": ""},
        "tawa.extras.thing:1 imports tawa.base: "
        "the importing module belongs to no part of the table",
    ),
}


def write_tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / "tawa" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize("name", BAD_TREES)
def test_catches(name: str, tmp_path: Path):
    files, expected = BAD_TREES[name]
    assert violations(write_tree(tmp_path, files)) == [expected]


def test_catches_a_cycle(tmp_path: Path):
    files = {
        "base/a.py": "from tawa.base import b",
        "base/b.py": "def f():\n    import tawa.base.c",
        "base/c.py": "from .a import x",
        "base/d.py": "from .a import x",
        "base/e.py": "from .f import x",
        "base/f.py": "if typing.TYPE_CHECKING:\n    from .e import x",
    }
    assert set(cycle(write_tree(tmp_path, files))) == {"tawa.base.a", "tawa.base.b", "tawa.base.c"}
