"""The example programs of tasks, with small inputs of odd sizes and float64 references."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "examples" / "tasks"))

import attention_tasks as attention
import batched_gemm_tasks as batched_gemm
import dual_gemm_tasks as dual_gemm
import gemm_levels_tasks as gemm_levels  # noqa: F401  (for device tests)
import gemm_reduction_tasks as gemm_reduction
import gemm_tasks as gemm
import grouped_gemm_tasks as grouped_gemm
import mlp_tasks as mlp
import stencil_tasks as stencil
import tree_sum_tasks as tree_sum


@dataclass(frozen=True)
class Case:
    """A task, its arguments (outputs first), and what the outputs should be."""

    task: Any
    outputs: tuple[Any, ...]
    inputs: tuple[Any, ...]
    expected: tuple[Any, ...]
    tolerance: float

    def check(self, run: Callable[..., Any]) -> None:
        """Run the task on fresh outputs, and compare."""
        outs = tuple(np.full_like(out, np.nan) for out in self.outputs)
        run(*outs, *self.inputs)
        for out, expected in zip(outs, self.expected, strict=True):
            scale = max(1.0, float(np.abs(expected).max()))
            assert np.abs(out.astype(np.float64) - expected).max() <= self.tolerance * scale


def _wide(*arrays: Any) -> tuple[Any, ...]:
    return tuple(a.astype(np.float64) for a in arrays)


def _half(rng: Any, *shape: int, scale: float = 1.0) -> Any:
    return (rng.standard_normal(shape) * scale).astype(np.float16)


def case(name: str, seed: int = 0, *, odd: bool = False) -> Case:
    """A program with inputs; `odd`: rows that the copy engine can't copy."""
    rng = np.random.default_rng(seed)
    m, n, k = (75, 131, 67) if odd else (152, 136, 72)
    if name in ("gemm", "batched_gemm"):
        batch = (3,) if name == "batched_gemm" else ()
        a, b = _half(rng, *batch, m, k), _half(rng, *batch, k, n)
        module = batched_gemm if batch else gemm
        task = batched_gemm.batched_gemm if batch else gemm.gemm
        out = np.empty((*batch, m, n), np.float16)
        return Case(task, (out,), (a, b), (module.reference(*_wide(a, b)),), 2e-3)
    if name == "dual_gemm":
        given = _half(rng, m, k), _half(rng, k, n), _half(rng, k, n)
        out = np.empty((m, n), np.float16)
        expected = dual_gemm.reference(*_wide(*given))
        return Case(dual_gemm.dual_gemm, (out,), given, (expected,), 2e-3)
    if name == "gemm_reduction":
        a, b = _half(rng, m, k), _half(rng, k, n)
        blocks = -(-n // 128)
        outs = np.empty((m, n), np.float16), np.empty((blocks, m), np.float32)
        expected = gemm_reduction.reference(*_wide(a, b), blocks)
        return Case(gemm_reduction.gemm_reduction, outs, (a, b), expected, 2e-3)
    if name == "grouped_gemm":
        offsets = np.array([0, m // 2, m // 2, m // 2 + 7, m], np.int32)
        a, b = _half(rng, m, k), _half(rng, 4, k, n)
        expected = grouped_gemm.reference(*_wide(a, b), offsets)
        out = np.empty((m, n), np.float16)
        return Case(grouped_gemm.grouped_gemm, (out,), (a, b, offsets), (expected,), 2e-3)
    if name == "attention":
        q, keys, v = (_half(rng, 2, m, 64), _half(rng, 2, n, 64), _half(rng, 2, n, 64))
        expected = attention.reference(*_wide(q, keys, v), 0.125)
        task = attention.attention
        return Case(task, (np.empty_like(q),), (q, keys, v, 0.125), (expected,), 2e-3)
    if name == "stencil":
        x = rng.standard_normal((m, n + (odd is False) * 2)).astype(np.float32)
        expected = stencil.reference(x.astype(np.float64), 2, 0.125)
        return Case(stencil.diffuse, (np.empty_like(x),), (x, 2, 0.125), (expected,), 1e-6)
    if name == "mlp":
        given = _half(rng, m, k), _half(rng, k, n, scale=0.1), _half(rng, n, k, scale=0.1)
        out = np.empty((m, k), np.float16)
        return Case(mlp.mlp, (out,), given, (mlp.reference(*_wide(*given)),), 4e-3)
    x = rng.standard_normal(9001 if odd else 5000).astype(np.float32)
    expected = tree_sum.reference(x.astype(np.float64))
    return Case(tree_sum.tree_sum, (np.empty(1, np.float32),), (x,), (expected,), 1e-5)


NAMES = (
    "gemm", "batched_gemm", "grouped_gemm", "dual_gemm", "gemm_reduction", "attention", "stencil",
    "mlp", "tree_sum",
)  # fmt: skip
