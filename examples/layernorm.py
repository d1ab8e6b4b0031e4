"""Layer normalisation of rows through pointers, in blocks: rows of any length."""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def layernorm(x_ptr, weight_ptr, bias_ptr, y_ptr, columns, eps, BLOCK: tl.constexpr):
    """One program normalises one row: mean, then variance, then the result."""
    row = tl.program_id(0)
    x_ptr += row * columns
    y_ptr += row * columns
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + at, mask=at < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < columns, other=0.0).to(tl.float32)
        centred = tl.where(at < columns, x - mean, 0.0)
        squares += centred * centred
    scale = tl.rsqrt(tl.sum(squares, axis=0) / columns + eps)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < columns
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + at, mask=mask)
        bias = tl.load(bias_ptr + at, mask=mask)
        y = (x - mean) * scale * weight + bias
        tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=mask)


def launch(x, weight, bias, y, eps=1e-5, block=256, **options):
    """Y = layernorm(x) along the rows of contiguous arrays of any library."""
    rows, columns = x.shape
    return layernorm[(rows,)](x, weight, bias, y, columns, eps, BLOCK=block, **options)


def reference(x, weight, bias, eps=1e-5):
    """The layer normalisation, by NumPy."""
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt(x.var(axis=1, keepdims=True) + eps) * weight + bias


def example_layernorm():
    """Rows that are no multiple of the block."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 700)).astype(np.float16)
    weight, bias = rng.standard_normal((2, 700)).astype(np.float32)
    y = np.full_like(x, np.nan)
    launch(x, weight, bias, y)
    return {"y": (y, reference(x.astype(np.float64), weight, bias))}
