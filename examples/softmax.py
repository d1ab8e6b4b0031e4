"""Row softmax through pointers: a row a program, masked to the row's length."""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def softmax(x_ptr, y_ptr, x_stride, y_stride, columns, BLOCK: tl.constexpr):
    """One program normalises one row of at most BLOCK columns."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * x_stride + offsets, mask=mask, other=-float("inf"))
    x = x.to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(y_ptr + row * y_stride + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


def launch(x, y, **options):
    """Y = softmax(x) along the rows of two-dimensional arrays of any library."""
    rows, columns = x.shape
    block = tawa.next_power_of_2(columns)
    strides = x.shape[1], y.shape[1]
    return softmax[(rows,)](x, y, *strides, columns, BLOCK=block, **options)


def reference(x):
    """The softmax, by NumPy."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def example_softmax():
    """Rows of a length that is no power of two."""
    x = np.random.default_rng(0).standard_normal((7, 781)).astype(np.float32)
    y = np.full_like(x, np.nan)
    launch(x, y)
    return {"y": (y, reference(x.astype(np.float64)))}
