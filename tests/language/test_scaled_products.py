"""Products whose operands share scales: what has none is multiplied where it lies."""

from __future__ import annotations

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def product(x, y, scales, z, N: tl.constexpr, K: tl.constexpr, HOW: tl.constexpr):
    rows, inner = tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + rows[:, None] * K + inner[None, :])
    b = tl.load(y + inner[:, None] + rows[None, :] * K)
    s = tl.load(scales + rows[:, None] * (K // 32) + tl.arange(0, K // 32)[None, :])
    if HOW == "right":
        c = tl.dot_scaled(a, None, "fp16", b, s, "e5m2")
    else:
        c = tl.dot_scaled(b.T, s, "e5m2", a.T, None, "fp16")
    tl.store(z + rows[:, None] * N + rows[None, :], c)


def test_an_operand_without_scales_is_not_converted() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 64)).astype(np.float16)
    bits = rng.integers(40, 64, (32, 64)).astype(np.uint8)
    scales = rng.integers(126, 129, (32, 2)).astype(np.uint8)
    y = (bits.astype(np.uint16) << 8).view(np.float16).astype(float)  # e5m2 is half of a half
    y *= np.repeat(2.0 ** (scales.astype(float) - 127), 32, axis=1)
    expected = x.astype(float) @ y.T
    for how, wanted in (("right", expected), ("left", expected.T)):
        z = np.zeros((32, 32), np.float32)
        product[(1,)](x, bits, scales, z, 32, 64, how)
        np.testing.assert_allclose(z, wanted, rtol=1e-3, atol=1e-3)


def test_a_product_that_needs_no_copy_fits() -> None:
    """64 KB of halves, and 64 KB that bytes become."""
    kernel = product.compile("*f16:16", "*e5m2:16", "*u8:16", "*f32:16", 64, 512, "right")
    assert kernel.spec.shared_bytes <= 3 * 64 * 1024
