"""Statistics of a matrix tile by tile: sums of rows and columns, extremes, the transposed tile."""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def row_statistics(
    x_ptr,
    row_sum_ptr,
    column_max_ptr,
    total_ptr,
    turned_ptr,
    folded_ptr,
    limit_ptr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One program looks at one ROWS x COLUMNS tile; `limit` is a scalar in memory."""
    tile = tl.program_id(0)
    rows = tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    at = tile * ROWS * COLUMNS + rows[:, None] * COLUMNS + columns[None, :]
    limit = tl.load(limit_ptr)
    x = tl.load(x_ptr + at)
    x = tl.where(x > limit, limit, x)
    tl.store(row_sum_ptr + tile * ROWS + rows, tl.sum(x, axis=1))
    tl.store(column_max_ptr + tile * COLUMNS + columns, tl.max(x, axis=0))
    tl.store(total_ptr + tile, tl.min(x))
    turned = tile * ROWS * COLUMNS + columns[:, None] * ROWS + rows[None, :]
    tl.store(turned_ptr + turned, tl.trans(x * 2))
    folded = tl.reshape(x + 1, (ROWS // 2, 2 * COLUMNS))
    wide = tl.arange(0, ROWS // 2)[:, None] * (2 * COLUMNS) + tl.arange(0, 2 * COLUMNS)[None, :]
    tl.store(folded_ptr + tile * ROWS * COLUMNS + wide, folded)


def launch(x, row_sum, column_max, total, turned, folded, limit, **options):
    """All statistics of [tiles, rows, columns] arrays of any library."""
    tiles, rows, columns = x.shape
    outputs = (row_sum, column_max, total, turned, folded)
    return row_statistics[(tiles,)](x, *outputs, limit, ROWS=rows, COLUMNS=columns, **options)


def reference(x, limit):
    """The statistics, by NumPy."""
    x = np.minimum(x, limit)
    folded = (x + 1).reshape(len(x), x.shape[1] // 2, -1)
    return x.sum(axis=2), x.max(axis=1), x.min(axis=(1, 2)), 2 * x.swapaxes(1, 2), folded


def example_row_statistics():
    """Three tiles."""
    x = np.random.default_rng(0).standard_normal((3, 32, 64)).astype(np.float32)
    limit = np.array([0.7], np.float32)
    expected = reference(x.astype(np.float64), limit)
    outputs = [np.full(e.shape, np.nan, np.float32) for e in expected]
    launch(x, *outputs, limit)
    names = ("row_sum", "column_max", "total", "turned", "folded")
    return dict(zip(names, zip(outputs, expected, strict=True), strict=True))
