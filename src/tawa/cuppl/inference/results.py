"""What a program gives for positions that were kept."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tawa.cuppl.cpu.executable import FIELD
from tawa.cuppl.cpu.memory import mask_of_results
from tawa.cuppl.inference.density import Density

__all__ = ["results_of"]

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.int64]


def results_of(density: Density, positions: Floats) -> tuple[Words, list[Words]]:
    """The results of draws, run again, and copied out of the heap with all they refer to."""
    objects = density.executable.objects
    mask = mask_of_results(density.executable.lowered.elaborated, objects)
    rows = np.zeros((len(density.references), len(positions)), dtype=np.int64)
    memory: list[Words] = [np.empty(1 << 16, dtype=np.int64)]
    used = 0
    for index, q in enumerate(positions):
        density(q)
        low, now = density.heap.ctypes.data, int(density.context[FIELD["heap"]])
        need = (now - low) // 8
        if used + need > len(memory[-1]):
            density.check_memory(8 * (sum(map(len, memory)) + need))
            memory.append(np.empty(max(need, 2 * len(memory[-1])), dtype=np.int64))
            used = 0
        density.context[FIELD["heap"]] = memory[-1].ctypes.data + 8 * used
        row = density.results.copy()
        given = [row.ctypes.data, len(row), mask, 1, low, now, objects.ctypes.data]
        density.executable.collect("collect_results", density.context, given)
        used = (int(density.context[FIELD["heap"]]) - memory[-1].ctypes.data) // 8
        rows[:, index] = row
    return rows, memory
