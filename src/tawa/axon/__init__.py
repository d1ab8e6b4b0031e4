"""Axon: a tensor language whose types, ranks and shapes are inferred.

After the abstract of A. Collins and V. Grover, "Axon: A Language for Dynamic Shapes in Deep
Learning Graphs" (arXiv 2210.02374). `docs/axon.md` is the guide.
"""

from tawa.axon.call import Function, LoadedModule, load
from tawa.axon.contract import Contract, contract
from tawa.axon.gpu.compile import CompiledFunction, compilations, compile
from tawa.axon.model import OnnxModel, from_onnx

__all__ = [
    "CompiledFunction",
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
