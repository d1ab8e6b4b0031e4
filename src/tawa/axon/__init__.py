"""Axon: a tensor language whose types, ranks and shapes are inferred.

After the abstract of A. Collins and V. Grover, "Axon: A Language for Dynamic Shapes in Deep
Learning Graphs" (arXiv 2210.02374). `docs/axon.md` is the guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from tawa.base.extras import require

require("axon", "Axon", "lark")

from tawa.axon.onnx.model import OnnxModel, from_onnx  # noqa: E402
from tawa.axon.running.call import Function, LoadedModule, load  # noqa: E402
from tawa.axon.running.contract import Contract, contract  # noqa: E402
from tawa.axon.running.weights import weights  # noqa: E402
from tawa.axon.typing.errors import FunctionNotChosen  # noqa: E402
from tawa.base.user_frames import entry  # noqa: E402

if TYPE_CHECKING:
    from tawa.axon.cpu.compile import CpuFunction
    from tawa.axon.gpu.compile import CompiledFunction  # loaded when something is compiled


@overload
def compile(
    function: Function, *, precision: str = "f32", device: Literal["gpu"] = "gpu"
) -> CompiledFunction: ...
@overload
def compile(function: Function, *, device: Literal["cpu"], threads: int = 0) -> CpuFunction: ...
@entry
def compile(
    function: Function, *, precision: str = "f32", device: str = "gpu", threads: int = 0
) -> CompiledFunction | CpuFunction:
    """A function of a loaded module as GPU kernels, or on the CPU as a model in onnxruntime.

    See `tawa.axon.gpu.compile` and `tawa.axon.cpu.compile`. `precision` concerns products of f32
    matrices on a GPU: `f32` computes them from three tf32 products, accurate to about 22 bits;
    `tf32` from one, accurate to 11. `threads` limits onnxruntime's threads, 0 for all cores.
    Raises BadPrecision, FunctionNotChosen.
    """
    if isinstance(function, LoadedModule):
        raise FunctionNotChosen(
            "a whole module is given, not one of its functions",
            expected="a function of it, by name",
            found=repr(function),
            hint=f'write module["{next(iter(function), "name")}"]',
        )
    if device == "cpu":
        from tawa.axon.cpu.compile import CpuFunction

        return CpuFunction(function, threads)
    from tawa.axon.gpu.compile import CompiledFunction

    return CompiledFunction(function, precision)


@entry
def torch_module(
    function: Function, weights: tuple[Any, ...], *, precision: str = "f32",
    **statics: int | tuple[int, ...],
) -> Any:  # fmt: skip
    """A `torch.nn.Module` of a function, whose first arguments are its parameters.

    See `tawa.axon.gpu.torch_module`. Raises WeightMismatch.
    """
    from tawa.axon.gpu.torch_module import torch_module

    return torch_module(function, weights, precision=precision, **statics)


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
    "torch_module",
    "weights",
]


def __dir__() -> list[str]:
    return list(__all__)
