"""The library's attention, in the simulator, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.frontend import lower_to_tile, parse_argument
from tawa.jit import Kernel
from tawa.kernels.attention import Configuration, attention, configuration, reference
from tawa.kernels.attention_kernel import alibi, masked
from tawa.simulate.hopper import run as run_hopper
from tawa.simulate.tile import HostDescriptor
from tawa.simulate.tile import run as run_tile

DTYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
ERRORS = {"f16": 1e-3, "bf16": 6e-3, "e4m3": 6e-3, "e5m2": 6e-3}
"""Relative Frobenius error of the output: its rounding, and that of the weights."""

SMALL = Configuration(64, 64)


@dataclass(frozen=True)
class Case:
    """Sizes, element type and options of one attention.

    `modify` is the score modification in NumPy, if the options have one.
    """

    heads: int = 1
    kv_heads: int = 1
    queries: int = 100
    keys: int = 100
    d: int = 64
    dv: int | None = None
    batch: int = 1
    dtype: str = "f16"
    using: Configuration = SMALL
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    modify: Callable[..., Any] | None = None

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Standard normal q, k and v."""
        rng = np.random.default_rng(0)
        dv = self.dv or self.d
        shapes = [(self.heads, self.queries, self.d), (self.kv_heads, self.keys, self.d)]
        shapes.append((self.kv_heads, self.keys, dv))
        q, k, v = (
            rng.standard_normal((self.batch, *shape)).astype(DTYPES[self.dtype]) for shape in shapes
        )
        return q, k, v


def stored(value: Any) -> Any:
    """An argument as the simulator takes it: NumPy has no bf16 and no fp8."""
    if isinstance(value, tawa.TensorDescriptor):
        return HostDescriptor(stored(value.base), value.shape, value.strides)
    if not isinstance(value, np.ndarray) or value.dtype.kind != "V":
        return value
    return value.view(f"u{value.itemsize}")


class Runs:
    """Runs launches at one level, without the parts of a compilation that it does not need."""

    def __init__(self, level: str) -> None:
        self.level = level
        self.findings: list[str] = []

    def launch(self, kernel: Kernel, grid: tuple[int, ...], /, *args: Any, **kwargs: Any) -> None:
        """What stands in for a launch."""
        named = dict(zip((p.name for p in kernel.parameters), args, strict=False)) | kwargs
        if self.level == "tile":
            request = kernel.request(*args, **kwargs)
            types = [parse_argument(text) for text in request.types.values()]
            module = lower_to_tile(kernel, types, request.constants)
            run_tile(module, grid, [stored(named[name]) for name in request.types])
            return
        compiled = kernel.compile(*args, **kwargs)
        self.findings += compiled.findings
        values = [stored(named[name]) for name in compiled.spec.arguments]
        run_hopper(compiled.module("hopper"), grid, values, multiprocessors=2)


@pytest.fixture
def tile_level(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs("tile")
    monkeypatch.setattr(
        Kernel, "_launch", lambda kernel, grid, *a, **k: runs.launch(kernel, grid, *a, **k)
    )


@pytest.fixture
def hopper_level(monkeypatch: pytest.MonkeyPatch) -> Runs:
    runs = Runs("hopper")
    monkeypatch.setattr(
        Kernel, "_launch", lambda kernel, grid, *a, **k: runs.launch(kernel, grid, *a, **k)
    )
    return runs


def check(case: Case, arrays: tuple[Any, Any, Any] | None = None, **more: Any) -> None:
    """Run a case on a poisoned output; compare output and log-sum-exp."""
    q, k, v = arrays or case.arrays()
    shape = (*q.shape[:-1], v.shape[-1])
    dtype = "float16" if case.dtype == "f16" else "bfloat16"
    out, lse = np.full(shape, np.nan, dtype), np.full(shape[:-1], np.nan, np.float32)
    attention(q, k, v, out, lse=lse, using=case.using, **(case.options | more))
    described = {n: x for n, x in case.options.items() if n not in ("score_mod", "captured")}
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    exact, exact_lse = reference(q, k, v, return_lse=True, score_mod=case.modify, **described)
    error = np.linalg.norm(out.astype(np.float64) - exact)
    assert error <= ERRORS[case.dtype] * np.linalg.norm(exact), error / np.linalg.norm(exact)
    empty = np.isneginf(exact_lse)
    assert np.array_equal(np.isneginf(lse), empty)
    assert (out[empty] == 0).all()
    assert np.abs(np.where(empty, 0, lse) - np.where(empty, 0, exact_lse)).max(initial=0) < 1e-4


@tawa.jit
def distance(score: Any, batch: Any, head: Any, q_idx: Any, k_idx: Any):
    return score - tl.abs(q_idx - k_idx) * 0.01 * (head + 1) - batch


def numpy_distance(score: Any, batch: Any, head: Any, q_idx: Any, k_idx: Any) -> Any:
    return score - np.abs(q_idx - k_idx) * 0.01 * (head + 1) - batch


@tawa.jit
def only_even(score: Any, batch: Any, head: Any, q_idx: Any, k_idx: Any):
    return tl.where(k_idx % 2 == 0, score, -float("inf"))


SLOPES = np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
MASK = np.random.default_rng(1).random((2, 1, 90, 100)) < 0.5
MASK[:, :, 3] = False
BIAS = np.random.default_rng(1).standard_normal((1, 4, 1, 100)).astype(np.float16)

CASES = {
    "plain": Case(queries=200, keys=200),
    "one row": Case(queries=1, keys=1),
    "batch and heads": Case(batch=2, heads=4, kv_heads=2),
    "one head of keys": Case(heads=3, queries=65, keys=127),
    "no keys": Case(queries=10, keys=0),
    "values of other width": Case(d=40, dv=96),
    "narrow": Case(d=8),
    "d 96": Case(d=96, keys=70),
    "d 192": Case(d=192, dv=128, keys=70),
    "d 256": Case(d=256, keys=70),
    "causal": Case(queries=200, keys=200, options={"causal": True}),
    "causal, more keys": Case(queries=70, keys=200, options={"causal": True}),
    "causal, more queries": Case(queries=200, keys=70, options={"causal": True}),
    "causal, top left": Case(
        queries=70, keys=200, options={"causal": True, "alignment": "top-left"}
    ),
    "causal, top left, more queries": Case(
        queries=200, keys=70, options={"causal": True, "alignment": "top-left"}
    ),
    "window": Case(queries=300, keys=300, options={"window": (70, 20)}),
    "window, left": Case(queries=300, keys=300, options={"window": (70, None)}),
    "window, right": Case(queries=300, keys=300, options={"window": (-1, 70)}),
    "window of one": Case(queries=130, keys=130, options={"window": (0, 0)}),
    "window, causal": Case(queries=300, keys=200, options={"window": (90, 7), "causal": True}),
    "scale": Case(options={"scale": 0.3}),
    "scale 0": Case(options={"scale": 0.0}),
    "negative scale": Case(options={"scale": -0.2, "causal": True}),
    "soft cap": Case(options={"softcap": 2.0, "causal": True}),
    "score mod": Case(batch=2, heads=2, options={"score_mod": distance}, modify=numpy_distance),
    "score mod that masks": Case(
        options={"score_mod": only_even, "window": (1, 0)},
        modify=lambda s, b, h, q, k: np.where(k % 2 == 0, s, -np.inf),
    ),
    "alibi": Case(
        heads=4,
        keys=130,
        options={"score_mod": alibi, "captured": (SLOPES, 30), "softcap": 20.0},
        modify=lambda s, b, h, q, k: s - SLOPES[h] * np.abs(q + 30 - k),
    ),
    "mask": Case(
        batch=2,
        queries=90,
        options={"score_mod": masked, "captured": (MASK, 9000, 0, 100, 1)},
        modify=lambda s, b, h, q, k: np.where(MASK[b, 0, q, k], s, -np.inf),
    ),
    "bias": Case(
        heads=4,
        options={"score_mod": masked, "captured": (BIAS, 0, 100, 0, 1), "causal": True},
        modify=lambda s, b, h, q, k: s + BIAS[0, h, 0, k],
    ),
    "bf16": Case(dtype="bf16", options={"causal": True}),
    "e4m3": Case(dtype="e4m3", d=128, options={"causal": True}),
    "e5m2": Case(dtype="e5m2", d=32),
    "rows of 192": Case(queries=400, keys=200, using=Configuration(192, 96)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.usefixtures("tile_level")
def test_meaning(case: Case) -> None:
    check(case)


ON_HOPPER = {
    "causal": Case(
        heads=2, queries=200, keys=264, d=128, using=configuration(128, masked=True),
        options={"causal": True},
    ),
    "window": Case(
        batch=2, queries=260, keys=300, dv=96, dtype="bf16",
        using=Configuration(128, 64, {"persistent": True}), options={"window": (70, 20)},
    ),
    "fp8": Case(queries=140, keys=200, d=128, dtype="e4m3", using=configuration(128, 1)),
    "three consumers": Case(queries=200, keys=300, using=configuration(64)),
    "bias": Case(
        heads=4, queries=130, using=configuration(64, modified=True),
        options={"score_mod": masked, "captured": (BIAS, 0, 100, 0, 1), "softcap": 3.0},
        modify=lambda s, b, h, q, k: s + BIAS[0, h, 0, k],
    ),
    "one role": Case(
        queries=130, keys=130, using=Configuration(64, 64, {"specialize": False}),
        options={"causal": True},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ON_HOPPER.values(), ids=ON_HOPPER)
def test_machine_level(case: Case, hopper_level: Runs) -> None:
    """The compiled program in the simulator, and nothing spilled or serialised in its machine code."""
    check(case)
    assert hopper_level.findings == []
