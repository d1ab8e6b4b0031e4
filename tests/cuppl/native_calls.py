"""Natives compiled for this machine and called from Python, for comparison with their reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tawa.cuppl.core.ir import CONTEXT_FIELDS, Program, Type
from tawa.cuppl.cpu.engine import compile_llvm
from tawa.cuppl.cpu.llvm import emit_llvm
from tawa.cuppl.lowering.guards import mark_fallible
from tawa.cuppl.translation import native

FIELD = {name: index for index, name in enumerate(CONTEXT_FIELDS)}


class Natives:
    """Some natives by name; vectors go in as arrays and come out as lists of words."""

    def __init__(self, names: list[str]) -> None:
        program = Program()
        for name in names:
            if name not in program.functions:
                program.add(native.translate(name))
        native.link(program)
        mark_fallible(program)
        self.program = program
        self.compiled = compile_llvm(emit_llvm(program, {n: f"call_{n}" for n in names}))
        self.functions = {n: self.compiled.function(f"call_{n}") for n in names}
        self.context = np.zeros(len(CONTEXT_FIELDS), dtype=np.int64)
        self.heap = np.zeros(1 << 16, dtype=np.int64)

    def reset(self, seed: int = 0, particle: int = 0) -> None:
        """Start a stream of random numbers, with an empty heap."""
        self.context[:] = 0
        self.context[FIELD["key0"]] = seed
        self.context[FIELD["particle"]] = particle
        self.context[FIELD["heap"]] = self.heap.ctypes.data
        self.context[FIELD["heap_end"]] = self.heap.ctypes.data + self.heap.nbytes

    def __call__(self, name: str, *arguments: Any) -> Any:
        """Call a native; one result comes back as a Python number."""
        function = self.program.functions[name]
        keep = [self.vector(a) for a in arguments]
        words = np.zeros(max(1, len(arguments)), dtype=np.int64)
        for index, (value, param) in enumerate(zip(keep, function.params, strict=True)):
            if isinstance(value, np.ndarray):
                words[index] = value.ctypes.data
            elif param.type is Type.F64:
                words[index : index + 1].view(np.float64)[0] = value
            else:
                words[index] = value
        out = np.zeros(max(1, len(function.results)), dtype=np.int64)
        self.functions[name](self.context.ctypes.data, words.ctypes.data, out.ctypes.data)
        found = [self.result(t, out[k : k + 1]) for k, t in enumerate(function.results)]
        return found[0] if len(found) == 1 else tuple(found)

    @staticmethod
    def vector(value: Any) -> Any:
        """An array as a vector of the language."""
        if not isinstance(value, np.ndarray):
            return value
        words = np.zeros(len(value) + 2, dtype=np.int64)
        words[0], words[1] = 2, len(value)
        words[2:] = value.view(np.int64)
        return words

    def result(self, type_: Type, word: npt.NDArray[np.int64]) -> Any:
        if type_ is Type.F64:
            return float(word.view(np.float64)[0])
        if type_ is Type.BOOL:
            return bool(word[0])
        if type_ is Type.REF:
            start = (int(word[0]) - self.heap.ctypes.data) // 8
            return self.heap[start + 2 : start + 2 + self.heap[start + 1]].copy()
        return int(word[0])
