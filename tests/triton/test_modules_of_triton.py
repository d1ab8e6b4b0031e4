"""The modules that stand for Triton's: which there are, and what they hold."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import tawa.language as tl
from tawa.triton.modules import contents
from tawa.triton.objects import NotProvided


def _module(path: str) -> Any:
    module = ModuleType(path)
    module.__dict__.update(contents()[path])
    return module


def test_no_name_hides_a_module_but_the_driver() -> None:
    """`triton.runtime.jit` is a module, of which libraries take `JITFunction`."""
    found = contents()
    parts = {path: path.rpartition(".") for path in found}
    hidden = {path for path, (above, _, name) in parts.items() if name in found.get(above, ())}
    assert hidden == {"triton.runtime.driver"}


def test_files_in_gluon_can_be_imported_and_their_kernels_are_refused() -> None:
    gluon, gl = (_module(f"triton.experimental.gluon{part}") for part in ("", ".language"))
    assert gl.constexpr is tl.constexpr
    assert gl.float32 is tl.float32

    def kernel(x: Any) -> None:
        """A kernel."""

    kernel.__annotations__ = {"x": gl.tensor, "layout": gl.SharedLayout}
    with pytest.raises(NotProvided, match="kernel is written in Gluon"):
        gluon.jit(kernel)[(1,)](None)
    assert gluon.jit(kernel).arg_names == ["x"]  # tuners ask for them
    with pytest.raises(NotProvided, match="BlockedLayout"):
        gl.BlockedLayout([1], [32], [4], [0])
    assert not hasattr(gl, "__wrapped__")
