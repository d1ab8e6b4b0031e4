"""Imports go in one direction.

The rules are the tables below; they have no exceptions. Every import counts, also those inside
functions and under `TYPE_CHECKING` (of which only cycles are allowed: they never run);
`from tawa.tile.dialect import ops` counts as an import of `tawa.tile.dialect.ops`.
"""

import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))
from rooms import DOCUMENT, House, Import, imports_of, module_names, report  # noqa: E402

SOURCE = ROOT / "src"

BASE = {"base", "ir.scalars", "ir"}
PASSES = {*BASE, "ir.decisions"}
TILE, AREF = "tile.dialect", "aref.dialect"

# What each room may import besides itself. A room is a folder, named by the longest prefix of a
# module's name that stands in this table; a folder's name stands for all rooms in it, too. `.` is
# the package itself, what `import tawa` gives.
ROOMS: dict[str, set[str]] = {
    "machine": set(),
    "base": {"machine"},
    "ir.scalars": {"base"},  # what an elementwise op computes
    "ir": {"base", "ir.scalars"},
    "ir.decisions": {"base"},  # what passes chose
    # levels: a vocabulary, what can be known of its programs, passes; aref regions hold tile ops
    "tile.dialect": BASE,
    "tile.analysis": {*BASE, "tile.dialect"},
    "tile.passes": {*PASSES, "machine", "tile.dialect", "tile.analysis"},
    "aref.dialect": BASE,
    "aref.analysis": {*BASE, "machine", TILE, "tile.analysis", AREF},
    "aref.passes": {*PASSES, "machine", TILE, "tile.analysis", AREF, "aref.analysis"},
    "hopper.dialect": {*BASE, "machine"},
    "hopper.passes": {*PASSES, "machine", "hopper.dialect"},
    "hopper.recording": {*BASE, "machine", "hopper.dialect"},
    "hopper": {*BASE, "hopper.dialect"},
    # from one level to the next
    "partition": {*PASSES, "machine", TILE, "tile.analysis", AREF, "aref.analysis"},
    "pipeline": {*PASSES, "machine", TILE, "tile.analysis", AREF, "aref.analysis", "aref.passes"},
    "codegen": {*PASSES, "machine", TILE, "tile.analysis", "aref", "hopper.dialect"},
    # which options suit a launch
    "driver.choice": {*BASE, "machine", TILE, AREF, "aref.analysis", "partition"},
    # from Python to the first level
    "language": {"base"},
    "frontend.source": {"base", "language"},
    "frontend.values": {*BASE, "language", TILE, "frontend.source"},
    "frontend.syntax": {*BASE, "language", TILE, "frontend.source", "frontend.values"},
    "frontend.builtins": {
        *(*BASE, "machine", "language", TILE),
        *("frontend.source", "frontend.values", "frontend.syntax"),
    },
    "frontend": {*BASE, "language", TILE},
    # compiles, loads and launches cubins: knows no IR
    "runtime": {"base", "machine"},
    # runs any level
    "simulate.interpret": {*BASE, "machine", TILE, AREF, "hopper.dialect"},
    "simulate.ptx": {*BASE, "machine", "simulate.interpret"},
    "simulate.prove": {*BASE, "machine", "hopper.dialect", "simulate.interpret"},
    "simulate.check": {
        *(*BASE, "machine", "hopper.dialect", "simulate.interpret", "simulate.prove"),
    },
    "simulate.timing": {*BASE, "machine", "hopper.dialect", "simulate.interpret"},
    "simulate": {"base"},
    # joins the levels
    "driver": {
        *(*PASSES, "machine", "language", "frontend", "tile", "partition", "aref", "pipeline"),
        *("codegen", "hopper", "runtime", "simulate", "driver.choice"),
    },
    # what others ask of a kernel: they know no level
    "driver.inspection": {
        *BASE,
        "machine",
        "hopper",
        "hopper.dialect",
        "driver",
        "runtime",
        "simulate",
        "tile.analysis",
    },
    # beside Triton: takes over its launches, or stands for it
    "triton": {"base", "language", "driver", "runtime"},
    ".": {"base", "language", "driver", "runtime", "simulate", "triton"},
    # users of the public interface
    "kernels.convolution": {".", "language", "machine"},
    "kernels": {"base", ".", "language", "machine"},
    "tasks.language": {"base", "language", "driver", "runtime"},
    "tasks.graph": {"base", "language", "tasks.language"},
    "tasks.lowering": {
        *("base", "language", "driver", "runtime"),
        *("tasks.language", "tasks.graph"),
    },
    "tasks.devices": {"base", "runtime", "tasks.language", "tasks.graph"},
    "tasks": {"base", "language", "driver", "runtime", "simulate"},
    "functional": {"base"},
    "axon.sizes": {"base", "functional"},
    "axon.typing": {"base", "functional", "axon.sizes"},
    "axon.running": {"base", "functional", "axon.sizes", "axon.typing"},
    "axon.onnx": {"base", "functional", "axon.sizes", "axon.typing"},
    "axon.cpu": {"base", "functional", "axon.typing", "axon.running"},
    "axon.gpu": {
        *("base", "functional", "axon.sizes", "axon.typing", "axon.running"),
        *("machine", "kernels", ".", "language", "driver", "runtime"),
    },
    "axon": {"base"},
    "axon.tools": {"base", "functional", "axon", "."},
    "cuppl.core": {"functional"},
    "cuppl.translation": {"base", "runtime", "cuppl.core"},
    "cuppl.numeric": {"cuppl.translation"},
    "cuppl.distributions": {"cuppl.numeric", "cuppl.translation"},
    "cuppl.typing": {"base", "functional", "runtime", "cuppl.distributions"},
    "cuppl.natives": {"cuppl.numeric", "cuppl.translation", "cuppl.typing"},
    "cuppl.elaboration": {
        *("base", "functional", "cuppl.core", "cuppl.distributions"),
        *("cuppl.natives", "cuppl.typing"),
    },
    "cuppl.lowering": {
        *("cuppl.core", "cuppl.elaboration", "cuppl.natives", "cuppl.numeric"),
        *("cuppl.translation", "cuppl.typing"),
    },
    "cuppl.cpu": {
        *("base", "functional", "runtime", "cuppl.core", "cuppl.elaboration", "cuppl.lowering"),
        *("cuppl.natives", "cuppl.numeric", "cuppl.translation", "cuppl.typing"),
    },
    "cuppl.inference": {
        *("base", "functional", "cuppl.core", "cuppl.cpu", "cuppl.elaboration"),
        *("cuppl.lowering", "cuppl.natives", "cuppl.numeric", "cuppl.typing"),
    },
    "cuppl.gpu": {
        *("runtime", "cuppl.core", "cuppl.cpu", "cuppl.inference", "cuppl.lowering"),
        *("cuppl.natives", "cuppl.translation", "cuppl.typing"),
    },
    "cuppl.results": {
        *(
            "base",
            "functional",
            "cuppl.cpu",
            "cuppl.elaboration",
            "cuppl.inference",
            "cuppl.numeric",
            "cuppl.typing",
        ),
    },
    "cuppl": {"base", "functional", "runtime", ".", "language"},
    "cli.report": {*BASE, "machine", "driver", "driver.inspection", "runtime", "simulate"},
    "cli.tasks": {
        *("base", "runtime", "simulate", "cli", "tasks", "tasks.language", "tasks.lowering"),
    },
    "cli": {"*"},
    "__main__": {"cli"},
}

# Who may import which package of others, wherever it matters. A room that is not named may not.
FOREIGN: dict[str, set[str]] = {
    "cuda": {"runtime"},  # compiling touches no device
    "llvmlite": {"cuppl"},
    "lark": {"functional", "axon", "cuppl"},
    "onnx": {"axon"},
    "onnxruntime": {"axon"},
    "rich": {"cli", "axon", "cuppl", "driver"},
    "typer": {"cli", "axon", "cuppl"},
    "torch": set(),  # arrays come in through DLPack
    "cupy": set(),
    "jax": set(),
    "triton": set(),  # its names are resolved by name
}

# Rooms that must work without the IR library, at run time too (see the test at the end).
WITHOUT_IR = {"runtime", "language", "machine"}

MOST_FILES = 25


def room_of(module: str) -> str | None:
    """The room that a module of tawa is in; None if the table has none."""
    rest = module.removeprefix("tawa").removeprefix(".")
    if not rest:
        return "."
    while rest:
        if rest in ROOMS:
            return rest
        rest = rest.rpartition(".")[0]
    return None


def violations(root: Path) -> list[str]:
    """A line for every import that the tables forbid."""
    found = []
    for edge in imports_of(root):
        reason = _forbidden(edge)
        if reason:
            found.append(f"{edge.importer}:{edge.line} imports {edge.imported}: {reason}")
    return found


def _forbidden(edge: Import) -> str | None:
    room = room_of(edge.importer)
    if room is None:
        return "the importing module is in no room of the table"
    top = edge.imported.partition(".")[0]
    if top == "xdsl" and room in WITHOUT_IR:
        return f"{room} works without the IR"
    if top in FOREIGN and not _within(room, FOREIGN[top]):
        return f"only {sorted(FOREIGN[top])} may import {top}"
    if top != "tawa":
        return None
    target, allowed = room_of(edge.imported), ROOMS[room]
    if target is None or target == room or "*" in allowed or _within(target, allowed):
        return None
    if target.startswith(f"{room}."):
        return None  # a package's own module joins the rooms in it
    return f"{room} may import {sorted(allowed)}"


def _within(room: str, folders: set[str]) -> bool:
    """Whether a room, or a folder that it is in, is one of these."""
    return any(room == folder or room.startswith(f"{folder}.") for folder in folders)


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


def crowded(root: Path) -> list[str]:
    """Rooms with more files than one can keep in mind."""
    files = House.of(root).files
    return [f"{room}: {count} files" for room, count in files.items() if count > MOST_FILES]


def test_imports_go_in_one_direction():
    assert violations(SOURCE) == []


def test_no_import_cycles():
    assert cycle(SOURCE) == []


def test_no_arrow_goes_up():
    assert House.of(SOURCE).circle() == []
    assert House.of(SOURCE, depth=1).circle() == []


def test_rooms_are_small():
    assert crowded(SOURCE) == []


def test_the_document_shows_the_rooms_as_they_are():
    """`python scripts/rooms.py --write` writes them."""
    assert report(SOURCE) in DOCUMENT.read_text()


def test_the_row_of_today_counts_what_is_there():
    """The row of `before` and `after` above the table, which is written by hand."""
    top = House.of(SOURCE, depth=1)
    arrows, floors = sum(map(len, top.arrows.values())), max(top.floors().values())
    most = max(House.of(SOURCE).files.values())
    row = next(x for x in DOCUMENT.read_text().splitlines() if x.startswith("| today:"))
    assert row.endswith(f"| {len(top.files)} | {floors} | {arrows} | {most} |")


@pytest.mark.parametrize(
    "module",
    ["tawa", "tawa.base.errors", "tawa.driver.jit", "tawa.driver.compile_cache", "tawa.runtime"],
)
def test_works_without_the_ir(module: str):
    """Importing what a warm launch needs doesn't load the IR library."""
    code = f"import sys, {module}; sys.exit('xdsl' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Bad trees: each check is seen to fail.

BAD_TREES = {
    "backwards": (
        {
            "tile/dialect/ops.py": "from tawa.aref.dialect import ops",
            "aref/dialect/ops.py": "",
        },
        "tawa.tile.dialect.ops:1 imports tawa.aref.dialect.ops: "
        "tile.dialect may import ['base', 'ir', 'ir.scalars']",
    ),
    "the tile level and arefs": (
        {"tile/passes/simplify.py": "import tawa.aref.dialect.ops", "aref/dialect/ops.py": ""},
        "tawa.tile.passes.simplify:1 imports tawa.aref.dialect.ops: "
        "tile.passes may import ['base', 'ir', 'ir.decisions', 'ir.scalars', 'machine', 'tile.analysis', 'tile.dialect']",
    ),
    "relative": (
        {"base/types.py": "from ..machine.chips import Chip\nfrom ..ir import loops",
         "machine/target.py": "", "ir/loops.py": ""},
        "tawa.base.types:2 imports tawa.ir.loops: base may import ['machine']",
    ),
    "the dependence graph and hopper": (
        {"pipeline/dependence_graph.py": "from tawa.hopper.dialect import types",
         "hopper/dialect/types.py": ""},
        "tawa.pipeline.dependence_graph:1 imports tawa.hopper.dialect.types: pipeline may import "
        "['aref.analysis', 'aref.dialect', 'aref.passes', 'base', 'ir', 'ir.decisions', 'ir.scalars', 'machine', "
        "'tile.analysis', 'tile.dialect']",
    ),
    "inside a function": (
        {"kernels/gemm.py": "def f():\n    from tawa.hopper import emit", "hopper/emit.py": ""},
        "tawa.kernels.gemm:2 imports tawa.hopper.emit: kernels may import ['.', 'base', 'language', 'machine']",
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
        {"base/a.py": "if TYPE_CHECKING:\n    from tawa.tile.dialect import ops",
         "tile/dialect/ops.py": ""},
        "tawa.base.a:2 imports tawa.tile.dialect.ops: base may import ['machine']",
    ),
    "unknown room": (
        {"extras/thing.py": "import tawa.base", "base/__init__.py": ""},
        "tawa.extras.thing:1 imports tawa.base: the importing module is in no room of the table",
    ),
}  # fmt: skip


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


def test_catches_arrows_that_go_up(tmp_path: Path):
    files = {
        "base/a.py": "from tawa.ir import x",
        "ir/x.py": "",
        "ir/y.py": "from tawa.base import b",
        "base/b.py": "",
    }
    assert set(House.of(write_tree(tmp_path, files)).circle()) == {"tawa.base", "tawa.ir"}


def test_catches_crowded_rooms(tmp_path: Path):
    files = {f"base/m{i}.py": "x = 1" for i in range(MOST_FILES + 1)}
    assert crowded(write_tree(tmp_path, files)) == ["tawa.base: 26 files"]
