"""Axon: a tensor language whose types, ranks and shapes are inferred.

After the abstract of A. Collins and V. Grover, "Axon: A Language for Dynamic Shapes in Deep
Learning Graphs" (arXiv 2210.02374). `docs/axon.md` is the guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tawa.base.extras import require

require("axon", "Axon", "lark")

from tawa.axon.onnx.model import OnnxModel, from_onnx  # noqa: E402
from tawa.axon.running.call import Function, LoadedModule, load  # noqa: E402
from tawa.axon.running.contract import Contract, contract  # noqa: E402
from tawa.base.user_frames import entry  # noqa: E402

if TYPE_CHECKING:
    from tawa.axon.gpu.compile import CompiledFunction  # loaded when something is compiled


@entry
def compile(function: Function, *, precision: str = "f32") -> CompiledFunction:
    """A function of a loaded module as GPU kernels. See `tawa.axon.gpu.compile`.

    `precision` concerns products of f32 matrices: `f32` computes them from three tf32 products,
    accurate to about 22 bits; `tf32` from one, accurate to 11. Raises BadPrecision.
    """
    from tawa.axon.gpu.compile import CompiledFunction

    return CompiledFunction(function, precision)


def compilations() -> int:
    """How many GPU kernels of Axon programs were compiled in this process."""
    from tawa.axon.gpu import library

    return library.compilations()


__all__ = [
    "Contract",
    "Function",
    "LoadedModule",
    "OnnxModel",
    "compilations",
    "compile",
    "contract",
    "from_onnx",
    "load",
]
