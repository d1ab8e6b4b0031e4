"""The library's attention, in the simulator, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.kernels.attention import Configuration, attention, configuration, reference

CASES = [
    ((2, 200, 200, 64), True, Configuration(64, 64)),
    ((1, 130, 70, 32), False, Configuration(128, 64)),
    ((1, 1, 127, 64), False, Configuration(64, 64)),
    ((2, 128, 128, 128), False, Configuration(128, 128, {"overlap": False})),
]


@pytest.mark.parametrize(("shape", "causal", "using"), CASES, ids=str)
def test_attention(shape: tuple[int, int, int, int], causal: bool, using: Configuration):
    heads, queries, keys, d = shape
    rng = np.random.default_rng(0)
    q, k, v = (
        rng.standard_normal((heads, rows, d)).astype(np.float16) for rows in (queries, keys, keys)
    )
    out = np.full_like(q, np.nan)
    attention(q, k, v, out, causal=causal, using=using)
    exact = reference(q, k, v, causal=causal)
    assert np.linalg.norm(out - exact) < 1e-3 * np.linalg.norm(exact)


def test_rows_whose_maximum_keeps_growing():
    """The running maximum moves with every block, so every block rescales."""
    rng = np.random.default_rng(1)
    q = np.ones((1, 64, 64), np.float16)
    k = (np.linspace(0, 3, 192)[None, :, None] * np.ones((1, 192, 64))).astype(np.float16)
    v = rng.standard_normal((1, 192, 64)).astype(np.float16)
    out = attention(q, k, v, np.full_like(q, np.nan), using=Configuration(64, 64))
    exact = reference(q, k, v)
    assert np.linalg.norm(out - exact) < 1e-3 * np.linalg.norm(exact)


def test_every_head_dimension_has_a_configuration():
    assert {configuration(d).block_m % 64 for d in range(16, 257, 16)} == {0}
