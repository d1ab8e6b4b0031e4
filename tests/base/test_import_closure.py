"""What a result depends on: the import graph, found by statements, and seen to change the digest."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tawa.base import import_closure
from tawa.base.import_closure import PACKAGE, installed_versions, outside_imports
from tawa.cuppl.translation.kept_natives import MAKERS
from tawa.driver.compile_cache import MAKER, PACKAGES

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))
from rooms import imports_of, module_names  # noqa: E402


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package in another place, which tests may edit (and put back)."""
    place = tmp_path_factory.mktemp("copy") / "tawa"
    return Path(shutil.copytree(PACKAGE, place, ignore=shutil.ignore_patterns("__pycache__")))


class Memory:
    """A store in memory that counts what is asked of it."""

    def __init__(self) -> None:
        self.entries: dict[str, dict[str, bytes]] = {}
        self.puts = 0

    def get(self, key: str) -> dict[str, bytes] | None:
        return self.entries.get(key)

    def put(self, key: str, entry: Mapping[str, bytes]) -> None:
        self.puts += 1
        self.entries[key] = dict(entry)


def named(text: str) -> set[str]:
    found = list(import_closure._imports(text))
    return {module for module, _ in found} | {name for _, names in found for name in names}


def test_imports_are_those_of_the_syntax_tree() -> None:
    names = module_names(PACKAGE.parent)
    exact_of: dict[str, set[str]] = {module: set() for module in names}
    for edge in imports_of(PACKAGE.parent):
        if not edge.for_types:
            exact_of[edge.importer].add(edge.imported)
    for module, path in names.items():
        exact = exact_of[module]
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        found = named(path.read_text())
        missed = {e for e in exact if e in names and e not in found and not package.startswith(e)}
        assert missed == set(), module


FORMS = """
from __future__ import annotations
import os, tawa.one as o
from typing import TYPE_CHECKING
from tawa.two import (
    a,  # says (why)
    b as c,
)
from tawa.three import x, \\
    y
if TYPE_CHECKING:
    from tawa.never import t

    from tawa.never.either import u
def f():
    from tawa.four import inner
    example = \"\"\"
from tawa.text import z
\"\"\"
"""


def test_every_form_of_import() -> None:
    found = {name for name in named(FORMS) if name.startswith("tawa")}
    assert found == {
        *("tawa.one", "tawa.two", "tawa.two.a", "tawa.two.b", "tawa.three", "tawa.three.x"),
        *("tawa.three.y", "tawa.four", "tawa.four.inner"),
    }


LOADED = """
import sys
import tawa, tawa.language as tl
@tawa.jit
def kernel(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        acc = tl.dot(a_desc.load([m, k * BK]), b_desc.load([n, k * BK]).T, acc)
    c_desc.store([m, n], acc.to(tl.float16))
kernel.compile("desc<f16,128x64>", "desc<f16,128x64>", "desc<f16,128x128>", "i32", BM=128, BN=128,
               BK=64, timeline=True)
print(*(name for name in sys.modules if name == "tawa" or name.startswith("tawa.")))
"""

LAUNCHING = {
    "tawa.driver.jit", "tawa.driver.compile_cache", "tawa.driver.host_launch", "tawa.driver.warm",
    "tawa.driver.entries", "tawa.driver.progress", "tawa.base.user_frames",
    "tawa.base.indices", "tawa.base.launch_plans", "tawa.base.import_closure", "tawa.base.exact",
    "tawa.runtime.cache", "tawa.runtime.own_folder", "tawa.driver.variants",
    "tawa.driver.launch_options", "tawa.driver.wishes", "tawa.driver.decorator", "tawa.driver.request",
}  # fmt: skip
"""What asks for a compilation, and keeps it."""

CHOOSING = {
    "tawa.driver.fitting", "tawa.driver.choosing", "tawa.ir.decisions.choice", "tawa.driver.choice",
    "tawa.driver.choice.candidates", "tawa.driver.choice.choose", "tawa.driver.choice.model", "tawa.driver.choice.profile",
}  # fmt: skip
"""What says with which options, which are in the key."""


def test_all_that_compiling_loads_is_in_the_key(tmp_path: Path) -> None:
    script = tmp_path / "kernel.py"
    script.write_text(LOADED)
    environment = {**os.environ, "TAWA_CACHE_DIR": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    files = set(import_closure.import_closure(MAKER))
    names = module_names(PACKAGE.parent)
    loaded = set(done.stdout.split())
    assert MAKER in loaded
    outside = {name for name in loaded if names[name] not in files}
    # The run time's modules come with launching; none of them says what a kernel compiles to.
    assert {n for n in outside - LAUNCHING - CHOOSING if not n.startswith("tawa.runtime.")} == set()


def test_packages_that_compiling_uses_are_in_the_key() -> None:
    assert outside_imports(MAKER) - {"cuda"} == set(PACKAGES)
    assert all(installed_versions(*PACKAGES))
    assert installed_versions("no-such-package-as-this") == ("",)


@pytest.mark.parametrize(
    ("makers", "edited", "counts"),
    [
        # rooms that a list of folders once left out
        ((MAKER,), "pipeline/modulo.py", True),
        ((MAKER,), "codegen/lower.py", True),
        ((MAKER,), "partition/partition.py", True),
        ((MAKER,), "machine/limits.py", True),
        ((MAKER,), "ir/scalars/table.py", True),
        ((MAKER,), "ir/loops.py", True),
        ((MAKER,), "cli/report/page.py", False),
        ((MAKER,), "cuppl/model.py", False),
        (MAKERS, "functional/infer.py", True),
        (MAKERS, "base/source.py", True),
        (MAKERS, "cuppl/lowering/tail.py", True),
        (MAKERS, "pipeline/modulo.py", False),
        (("tawa.cuppl.typing.language",), "functional/solver.py", True),
        (("tawa.cuppl.typing.language",), "cuppl/typing/prelude.py", True),
        (("tawa.axon.typing.language",), "axon/sizes/solver.py", True),
    ],
)
def test_an_edit_is_a_miss(copy: Path, makers: tuple[str, ...], edited: str, counts: bool) -> None:
    store = Memory()

    def digest() -> str:
        return import_closure._kept_digest(makers, copy, store)

    before = digest()
    assert digest() == before
    assert store.puts == 1, "the second time no file is read"
    path = copy / edited
    times = path.stat()
    text = path.read_text()
    path.write_text(text[:-2] + "#\n")  # as long as before
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (digest() != before) == counts
    path.write_text(text)
    assert digest() == before


def test_a_file_that_goes_is_a_miss(copy: Path) -> None:
    store = Memory()
    before = import_closure._kept_digest((MAKER,), copy, store)
    path = copy / "pipeline" / "flatten.py"
    text = path.read_text()
    path.unlink()
    assert import_closure._kept_digest((MAKER,), copy, store) != before
    path.write_text(text)


@pytest.mark.parametrize(
    "broken", [b"", b"{}", b'{"files": 5}', b'{"digest": 1, "files": {"a": 1}}']
)
def test_a_broken_entry_is_made_again(tmp_path: Path, broken: bytes) -> None:
    store = Memory()
    before = import_closure._kept_digest((MAKER,), PACKAGE, store)
    (key,) = store.entries
    store.entries[key] = {"json": broken}
    assert import_closure._kept_digest((MAKER,), PACKAGE, store) == before
    assert store.puts == 2
