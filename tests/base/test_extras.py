"""What `pip install tawa` brings alone: the tile compiler; the rest says what to install."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tawa.base import extras, import_closure
from tawa.base.errors import TawaError
from tawa.base.extras import MissingExtra, require

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]

BLOCK = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        return None

import importlib.util
plain = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: (
    None if name in {blocked!r} else plain(name, package)
)
sys.meta_path.insert(0, Missing())
"""


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w-]", text)[0].replace("-", "_") for text in requirements} - {"tawa"}


CORE, AXON, CUPPL = names(PROJECT["dependencies"]), names(EXTRAS["axon"]), names(EXTRAS["cuppl"])
ALONE = tuple(sorted(AXON | CUPPL))


def run(folder: Path, text: str, blocked: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    script = folder / "program.py"
    script.write_text(BLOCK.format(blocked=set(blocked)) + text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment |= {"TAWA_CACHE_DIR": str(folder / "cache"), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_extras_are_apart() -> None:
    assert {"llvmlite", "lark", "ml_dtypes", "onnx", "onnxruntime", "pygls"} == AXON | CUPPL
    assert not CORE & (AXON | CUPPL)
    assert EXTRAS["all"] == ["tawa[axon,cuppl]"]
    assert any("all" in text for text in EXTRAS["dev"] if text.startswith("tawa["))


def test_the_tile_compiler_needs_no_extra(tmp_path: Path) -> None:
    text = """
from tawa.cli import main
for command in (
    ["--version"], ["compile", "examples/gemm.py:gemm"], ["run", "examples/gemm.py:gemm"],
    ["report", "examples/gemm.py:gemm", "-o", "{page}"], ["explain", "BadKnob"],
    ["explain", "MissingExtra"],
):
    sys.argv = ["tawa", *command]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (command, end.code)
import tawa.kernels.gemm, tawa.kernels.attention
print("all ran", (set(sys.modules) & {blocked!r}) or "")
"""
    done = run(tmp_path, text.format(page=tmp_path / "page.html", blocked=set(ALONE)), ALONE)
    assert done.stdout.endswith("all ran \n"), done.stderr
    assert (tmp_path / "page.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("blocked", "program", "said"),
    [
        (("llvmlite", "lark"), "import tawa.cuppl", "tawa[cuppl]"),
        (("llvmlite",), "from tawa import cuppl", "tawa[cuppl]"),
        (("lark",), "import tawa.cuppl.model", "tawa[cuppl]"),
        (("lark", "onnx"), "import tawa.axon", "tawa[axon]"),
        (("lark",), "import tawa.axon.running.call", "tawa[axon]"),
        (("onnx",), "from tawa import axon; axon.from_onnx('x.onnx')", "tawa[axon]"),
        (("lark",), "sys.argv = ['tawa', 'axon', '--help']; from tawa.cli import main; main()", "tawa[axon]"),
        (("llvmlite",), "sys.argv = ['tawa', 'cuppl', 'run', 'x.ppl']; from tawa.cli import main; main()", "tawa[cuppl]"),
        (("pygls",), "sys.argv = ['tawa', 'axon', 'lsp']; from tawa.cli import main; main()", "tawa[axon]"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said(
    blocked: tuple[str, ...], program: str, said: str, tmp_path: Path
) -> None:
    """The error is one of Tawa's, and an ImportError."""
    program = (
        f"try:\n    {program}\nexcept ImportError as e:\n    print(e.render(), file=sys.stderr)"
    )
    done = run(tmp_path, program, blocked)
    assert "error[MissingExtra]" in done.stderr
    assert f"pip install '{said}'" in done.stderr
    assert "Traceback" not in done.stderr


def test_axon_needs_nothing_of_onnx(tmp_path: Path) -> None:
    program = "from tawa import axon\nprint(axon.load('let f x = x + 1\\n')['f'](1))"
    done = run(tmp_path, program, ("onnx", "onnxruntime", "pygls", "llvmlite"))
    assert "MissingExtra" not in done.stderr, done.stderr


def test_too_old_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "installed_versions", lambda *names: ("0.44.0",))
    with pytest.raises(MissingExtra, match="CuPPL needs packages") as found:
        require("cuppl", "CuPPL", "lark", "llvmlite>=0.45")
    assert found.value.found == "llvmlite 0.44.0"
    assert isinstance(found.value, TawaError)
    monkeypatch.setattr(extras, "installed_versions", lambda *names: ("0.45.0rc1",))
    require("cuppl", "CuPPL", "lark", "llvmlite>=0.45")


def test_the_least_version_is_that_of_the_project() -> None:
    (wanted,) = [text for text in EXTRAS["cuppl"] if text.startswith("llvmlite")]
    assert f'"{wanted}"' in (ROOT / "src" / "tawa" / "cuppl" / "__init__.py").read_text()


def test_what_the_compiler_imports_is_required() -> None:
    roots = ("tawa.driver.compiler", "tawa.driver.jit", "tawa.cli.app", "tawa.cli.report.page")
    needed = import_closure.outside_imports(*roots) - {"cuda"}
    assert needed - {"torch", "triton"} <= CORE
