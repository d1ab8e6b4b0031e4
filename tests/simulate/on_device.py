"""Runs a random program on a GPU, and says whether it does what Python and NumPy do there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from comparison import CANNOT_BE_MET, Outcome, Program, difference
from lowering import kernel_in

import tawa
from tawa.base.errors import TawaError
from tawa.ir.decisions.roles import Specialised

ON_DEVICES = {"BaseNotAligned"}
"""Refusals that only a device's memory knows."""


def compared_on_device(program: Program, folder: Path, launches: int = 3) -> Outcome:
    """Launch it some times on fresh memory; without its options if they are refused."""
    found = _launched(program, folder, program.options, launches)
    if found.verdict != "refused":
        return found
    return replace(_launched(program, folder, {}, launches), options=False)


def _launched(program: Program, folder: Path, options: dict[str, Any], launches: int) -> Outcome:
    expected = program.expected()
    roles = False
    try:
        kernel = kernel_in(folder, program.source)
        for _ in range(launches):
            memories = program.memories()
            held = _Held(memories)
            named = {k: held.moved(v) for k, v in program.arguments(memories).items()}
            compiled = kernel[program.grid](**named, **options)
            roles = bool(compiled.decided(Specialised))
            found = held.back(memories)
            if not all(map(np.array_equal, expected, found)):
                text = difference(program.names, expected, found)
                return Outcome("wrong", "device", text, roles)
    except TawaError as error:
        name = type(error).__name__
        verdict = "refused" if name in CANNOT_BE_MET | ON_DEVICES else "crash"
        return Outcome(verdict, name, error.render())
    except Exception as error:
        return Outcome("crash", type(error).__name__, repr(error))
    return Outcome("right", roles=roles)


class _Held:
    """Memories on the device, one for each that is not another's."""

    def __init__(self, memories: tuple[np.ndarray, ...]) -> None:
        import torch

        self.torch, self.memories = torch, memories
        self.tensors = {m.ctypes.data: torch.from_numpy(m).cuda() for m in memories}

    def moved(self, value: Any) -> Any:
        """An argument with its arrays on the device, wherever in a memory they begin."""
        if isinstance(value, tawa.TensorDescriptor):
            base = self.moved(value.base)
            return tawa.TensorDescriptor(base, value.shape, value.strides, value.block_shape)
        if not isinstance(value, np.ndarray):
            return value
        first = value.ctypes.data
        memory = next(m for m in self.memories if 0 <= first - m.ctypes.data < m.nbytes)
        strides = [stride // value.itemsize for stride in value.strides]
        start = (first - memory.ctypes.data) // value.itemsize
        tensor = self.tensors[memory.ctypes.data]
        return self.torch.as_strided(tensor, value.shape, strides, start)

    def back(self, memories: tuple[np.ndarray, ...]) -> list[np.ndarray]:
        """What the memories hold now."""
        return [self.tensors[m.ctypes.data].cpu().numpy() for m in memories]
