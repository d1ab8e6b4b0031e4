"""The CUDA C++ of a kernel, line by line, with the op that wrote each."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tawa.hopper.emit import program_of


@dataclass(frozen=True)
class CudaText:
    """A kernel's CUDA C++: which op wrote a line (from 1), and the line where the kernel begins."""

    text: str
    writers: dict[int, Operation]
    kernel: int


def cuda_text(module: ModuleOp) -> CudaText:
    """The text of a module of the machine level."""
    program = program_of(module)
    lines = enumerate(program.text.splitlines(), 1)
    kernel = next(n for n, line in lines if line.startswith('extern "C" __global__'))
    return CudaText(program.text, program.writers, kernel)
