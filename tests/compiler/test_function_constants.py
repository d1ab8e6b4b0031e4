"""Functions as values of `constexpr` parameters: the kernel depends on their text."""

from __future__ import annotations

import importlib.util
import linecache
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tawa.driver.compiled import Compiled

KERNEL = """
import tawa
import tawa.language as tl


@tawa.jit
def apply(x, F: tl.constexpr):
    at = x + tl.arange(0, 128)
    tl.store(at, F(tl.load(at)))


@tawa.jit
def scaled(x):
    return x * {factor}
"""


@pytest.fixture(autouse=True)
def without_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is written twice in a second would be found compiled."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def module(path: Path, factor: int) -> ModuleType:
    path.write_text(KERNEL.format(factor=factor))
    linecache.clearcache()
    spec = importlib.util.spec_from_file_location("function_constants", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_an_edited_function_makes_another_kernel(tmp_path: Path) -> None:
    def compiled(factor: int) -> Compiled:
        found = module(tmp_path / "kernels.py", factor)
        return found.apply.compile("*f32", found.scaled)

    assert compiled(2).stages["cu"] != compiled(3).stages["cu"]
