"""z = x + y: plain masked loads and stores through pointers."""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def vector_add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    """One program adds BLOCK elements."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x + y, mask=mask)


def launch(x, y, z, block=1024, **options):
    """Z = x + y for one-dimensional arrays of any library."""
    (n,) = x.shape
    return vector_add[(tawa.cdiv(n, block),)](x, y, z, n, BLOCK=block, **options)


def reference(x, y):
    """The sum, by NumPy."""
    return x + y


def example_vector_add():
    """A length that is no multiple of the block."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 2500)).astype(np.float32)
    z = np.full(2500, np.nan, np.float32)
    launch(x, y, z)
    return {"z": (z, reference(x.astype(np.float64), y))}
