"""The library's attention, in the simulator, against NumPy in float64."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import Create
from tawa.driver.jit import Kernel
from tawa.frontend import lower_to_tile, parse_argument
from tawa.kernels.attention import Configuration, attention, reference
from tawa.kernels.attention_kernel import alibi, masked
from tawa.simulate.interpret.hopper import run as run_hopper
from tawa.simulate.interpret.tile import HostDescriptor
from tawa.simulate.interpret.tile import run as run_tile

DTYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
ERRORS = {"f16": 1e-3, "bf16": 6e-3, "e4m3": 3e-2, "e5m2": 6e-3}
"""Weights of e4m3 have 3 bits of mantissa; those of e5m2 arrays are of fp16."""
WIDENED = 6e-3
"""Relative Frobenius error of the output: its rounding, and that of the weights."""

SMALL = Configuration(64, 64)
PERSISTENT = {"persistent": True}
EVEN = PERSISTENT | {"deal": "even"}
THREE = {"consumers": 3, "alternate": True}
FOUR = {"consumers": 4, "load_together": True, "alternate": True}
IN_ORDER = Configuration(64, 64, {"overlap": False})
"""Compiled quickly: loops keep their order."""


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
    own = ("score_mod", "captured", "widen_values")
    described = {n: x for n, x in case.options.items() if n not in own}
    limit = WIDENED if "widen_values" in case.options else ERRORS[case.dtype]
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    exact, exact_lse = reference(q, k, v, return_lse=True, score_mod=case.modify, **described)
    error = np.linalg.norm(out.astype(np.float64) - exact)
    assert error <= limit * np.linalg.norm(exact), error / np.linalg.norm(exact)
    empty = np.isneginf(exact_lse)
    assert np.array_equal(np.isneginf(lse), empty)
    assert (out[empty] == 0).all()
    np.testing.assert_allclose(lse[~empty], exact_lse[~empty], rtol=2e-7, atol=1e-4)


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
    "window, left, of rows past the keys": Case(
        queries=300, keys=64, options={"window": (20, None), "alignment": "top-left"}
    ),
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
    "e4m3, widened": Case(dtype="e4m3", options={"widen_values": True}),
    "e5m2": Case(dtype="e5m2", d=32),
    "rows of 192": Case(queries=400, keys=200, using=Configuration(192, 96)),
    "splits": Case(queries=70, keys=300, using=Configuration(64, 64, splits=3)),
    "more splits than blocks": Case(queries=20, using=Configuration(64, 64, splits=5)),
    "splits, no keys": Case(queries=10, keys=0, using=Configuration(64, 64, splits=2)),
    "splits, causal": Case(
        batch=2, heads=2, queries=200, keys=330, using=Configuration(64, 64, splits=3),
        options={"causal": True},
    ),
    "splits, window": Case(
        queries=300, keys=300, using=Configuration(64, 64, splits=4), options={"window": (70, 20)}
    ),
    "splits, of rows past the keys": Case(
        queries=300, keys=64, using=Configuration(64, 32, splits=2),
        options={"window": (20, None), "alignment": "top-left"},
    ),
    "splits, score mod": Case(
        batch=2, heads=2, using=Configuration(64, 64, splits=2), options={"score_mod": distance},
        modify=numpy_distance,
    ),
    "splits, e4m3": Case(dtype="e4m3", d=128, using=Configuration(64, 32, splits=2)),
    "packed heads": Case(
        heads=8, kv_heads=2, queries=5, keys=130, using=Configuration(64, 64, packed=4)
    ),
    "packed heads, several tiles": Case(
        heads=4, queries=75, dv=96, using=Configuration(64, 64, packed=2)
    ),
    "packed heads, causal, splits": Case(
        batch=2, heads=6, kv_heads=3, queries=40, keys=130, options={"causal": True},
        using=Configuration(64, 64, packed=2, splits=2),
    ),
    "packed heads, window": Case(
        heads=16, queries=9, keys=90, using=Configuration(64, 64, packed=16),
        options={"window": (30, 2)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.usefixtures("tile_level")
def test_meaning(case: Case) -> None:
    check(case)


ON_HOPPER = {
    "causal": Case(
        heads=2, queries=200, keys=264, d=128, using=Configuration(192, 80, EVEN | THREE, ascending=True),
        options={"causal": True},
    ),
    "window": Case(
        batch=2, queries=260, keys=300, dv=96, dtype="bf16",
        using=Configuration(128, 64, {"persistent": True}), options={"window": (70, 20)},
    ),
    "fp8": Case(queries=140, keys=200, d=128, dtype="e4m3", using=Configuration(128, 128, PERSISTENT)),
    "fp8, 64 columns": Case(
        queries=200, keys=200, d=64, dtype="e4m3", options={"causal": True},
        using=Configuration(192, 128, EVEN | {"consumers": 3}, ascending=True),
    ),
    "fp8, widened": Case(
        queries=140, keys=200, d=128, dtype="e4m3", using=Configuration(128, 64),
        options={"widen_values": True},
    ),
    "three consumers": Case(queries=200, keys=300, using=Configuration(192, 128, PERSISTENT | THREE)),
    "three consumers, causal": Case(
        heads=2, queries=200, keys=200, dtype="bf16",
        using=Configuration(192, 128, EVEN | THREE, ascending=True, own_ends=False), options={"causal": True},
    ),
    "four consumers": Case(queries=300, keys=200, using=Configuration(256, 64, PERSISTENT | FOUR)),
    "four consumers, causal": Case(
        heads=3, queries=280, keys=280, dtype="bf16", using=Configuration(256, 64, EVEN | FOUR, ascending=True),
        options={"causal": True},
    ),
    "three consumers, 128 columns": Case(queries=200, keys=170, d=128, using=Configuration(192, 80, PERSISTENT | THREE)),
    "bias": Case(
        heads=4, queries=130, using=Configuration(128, 128, PERSISTENT),
        options={"score_mod": masked, "captured": (BIAS, 0, 100, 0, 1), "softcap": 3.0},
        modify=lambda s, b, h, q, k: s + BIAS[0, h, 0, k],
    ),
    "one role": Case(
        queries=130, keys=130, using=Configuration(64, 64, {"specialize": False}),
        options={"causal": True},
    ),
    "packed heads, splits": Case(
        batch=2, heads=4, kv_heads=2, queries=12, keys=300, dtype="bf16", options={"causal": True},
        using=Configuration(64, 64, {"persistent": True}, packed=2, splits=3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ON_HOPPER.values(), ids=ON_HOPPER)
def test_machine_level(case: Case, hopper_level: Runs) -> None:
    """The compiled program in the simulator, and nothing spilled or serialised in its machine code."""
    check(case)
    assert hopper_level.findings == []


@pytest.mark.usefixtures("tile_level")
def test_rows_whose_maximum_keeps_growing() -> None:
    """The running maximum moves with every block, whichever way they are visited."""
    for slope in (3.0, -3.0):
        q = np.ones((1, 1, 64, 64), np.float16)
        k = (np.linspace(0, slope, 192)[None, None, :, None] * np.ones(64)).astype(np.float16)
        v = np.random.default_rng(1).standard_normal((1, 1, 192, 64)).astype(np.float16)
        check(Case(), (q, k, v))


@pytest.mark.usefixtures("tile_level")
def test_large_scores_do_not_overflow() -> None:
    q = np.full((1, 1, 64, 64), 200, np.float16)
    v = np.random.default_rng(1).standard_normal((1, 1, 64, 64)).astype(np.float16)
    check(Case(options={"causal": True}), (q, -q, v))


@pytest.mark.usefixtures("tile_level")
def test_nan_shows_in_its_rows_only() -> None:
    q, k, v = Case(queries=70).arrays()
    q[0, 0, 5] = np.nan
    out = attention(q, k, v, using=SMALL)
    assert np.isnan(out[0, 0, 5]).all()
    assert not np.isnan(np.delete(out, 5, axis=2)).any()


@pytest.mark.usefixtures("tile_level")
def test_transposed_views_are_read_in_place() -> None:
    rng = np.random.default_rng(0)
    packed = rng.standard_normal((2, 100, 3, 4, 64)).astype(np.float16)
    q, k, v = (packed[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    check(Case(), (q, k, v))


@pytest.mark.usefixtures("tile_level")
def test_factors_of_fp8_arrays() -> None:
    q, k, v = Case(batch=2, heads=4, kv_heads=2, dtype="e4m3").arrays()
    factors = np.random.default_rng(0).uniform(0.5, 2, (3, 2, 2)).astype(np.float32)
    wide = np.repeat(factors, 2, axis=2)[..., None, None]
    exact, exact_lse = reference(
        q.astype(float) * wide[0], k.astype(float) * factors[1, ..., None, None],
        v.astype(float) * factors[2, ..., None, None], return_lse=True,
    )  # fmt: skip
    for descale in (tuple(factors), (factors[0], factors[1], factors[2])):
        out, lse = attention(q, k, v, descale=descale, return_lse=True, using=SMALL)
        assert out.dtype == "bfloat16"
        assert np.linalg.norm(out.astype(float) - exact) < ERRORS["e4m3"] * np.linalg.norm(exact)
        assert np.abs(lse - exact_lse).max() < 1e-4
    out = attention(q, k, v, descale=(0.5, None, 3.0), softcap=4.0, using=SMALL)
    exact = reference(q.astype(float) * 0.5, k, v, softcap=4.0) * 3.0
    assert np.linalg.norm(out.astype(float) - exact) < ERRORS["e4m3"] * np.linalg.norm(exact)


@pytest.mark.usefixtures("tile_level")
@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    queries=st.integers(1, 200),
    keys=st.integers(0, 200),
    left=st.none() | st.integers(0, 150),
    right=st.none() | st.integers(0, 150),
    alignment=st.sampled_from(["bottom-right", "top-left"]),
    block=st.sampled_from([(64, 32), (64, 64), (128, 48)]),
    packed=st.sampled_from([1, 2, 4]),
    splits=st.integers(1, 4),
)
def test_any_window(
    queries: int, keys: int, left: int | None, right: int | None, alignment: str,
    block: tuple[int, int], packed: int, splits: int,
) -> None:  # fmt: skip
    options = {"window": (left, right), "alignment": alignment}
    using = Configuration(*block, packed=packed, splits=splits)
    check(Case(packed, 1, queries, keys, d=16, using=using, options=options))


def test_output_without_batch_is_made() -> None:
    q = np.ones((2, 3, 64), np.float16)
    out, lse = attention(q, q, q, return_lse=True, using=IN_ORDER)
    assert (out == 1).all()
    assert lse.shape == (2, 3)


def test_loops_share_their_rings() -> None:
    """Three loops over key blocks load through one ring of keys and one of values."""
    compiled = []
    q = np.zeros((1, 1, 64, 64), np.float16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Kernel, "_launch", lambda k, grid, *a, **o: compiled.append(k.compile(*a, **o))
        )
        attention(q, q, q, window=(10, 10), using=IN_ORDER)
    rings = [op for op in compiled[0].module("aref").walk() if isinstance(op, Create)]
    assert len(rings) == 3  # and one of queries


H = np.float16
REFUSED = {
    "rank": (((2, 8, 8), (1, 2, 8, 8), (1, 2, 8, 8)), {}, "do not fit"),
    "keys and values": (((2, 8, 8), (2, 8, 8), (2, 9, 8)), {}, "do not fit"),
    "heads": (((4, 8, 8), (3, 8, 8), (3, 8, 8)), {}, "a multiple of 3 query heads"),
    "d": (((4, 8, 12),) * 3, {}, "multiples of 8 up to 256"),
    "large d": (((4, 8, 264),) * 3, {}, "split the heads"),
    "window": (((4, 8, 8),) * 3, {"window": (-2, 0)}, "each at least 0"),
    "soft cap": (((4, 8, 8),) * 3, {"softcap": -1.0}, "above 0"),
    "scale": (((4, 8, 8),) * 3, {"scale": float("nan")}, "a finite number"),
    "alignment": (((4, 8, 8),) * 3, {"alignment": "left"}, "'bottom-right' or 'top-left'"),
    "plain function": (((4, 8, 8),) * 3, {"score_mod": print}, "decorated with `@tawa.jit`"),
    "captured": (((4, 8, 8),) * 3, {"captured": (1,)}, "for a `score_mod`"),
    "factors": (((4, 8, 8),) * 3, {"descale": (1, 1, 1)}, "none for elements of 16 bits"),
    "packed": (((4, 8, 8), (2, 8, 8), (2, 8, 8)), {"using": Configuration(64, 64, packed=4)},
               "a divisor of the 2 heads of a group"),
    "packed, modified": (((4, 8, 8), (2, 8, 8), (2, 8, 8)), {
        "using": Configuration(64, 64, packed=2), "score_mod": distance}, "which sees one"),
    "splits": (((4, 8, 8),) * 3, {"using": Configuration(64, 64, splits=0)}, "at least 1"),
    "out": (((4, 8, 8),) * 3, {"out": np.zeros((4, 9, 8), H)}, "an output of 4x8x8"),
    "out's type": (((4, 8, 8),) * 3, {"out": np.zeros((4, 8, 8), np.int8)}, "f16, bf16 or f32"),
    "lse": (((4, 8, 8),) * 3, {"lse": np.zeros((4, 8), H)}, "contiguous array of f32"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    shapes, options, message = REFUSED[name]
    with pytest.raises(tawa.TawaError, match=re.escape(message)):
        attention(*(np.zeros(shape, H) for shape in shapes), **options)


def test_unaligned_array_is_named() -> None:
    q = np.zeros((4, 8, 64), H)
    k = np.zeros((4, 8, 67), H)[..., :64]
    with pytest.raises(tawa.TawaError, match="argument `k` of attention"):
        attention(q, k, k)


def test_mixed_types() -> None:
    q = np.zeros((4, 8, 64), H)
    with pytest.raises(tawa.TawaError, match="f16, f16, f32"):
        attention(q, q, q.astype(np.float32))
