"""Linear algebra on matrices that are vectors of their rows, one after the other.

All of it is made of products of parts of rows, of which differentiation makes one entry of the tape
each: the gradient of a factorisation costs n^2 entries, not n^3.
"""

from __future__ import annotations

from tawa.cuppl.numeric.elementary import log
from tawa.cuppl.numeric.primitives import Context, FloatVector, new_floats, sqrt
from tawa.cuppl.translation.native import native, outlined, vectorised

LONG_RUN = 8
"""Products that are worth a call."""


@native
def four_sums(v: FloatVector, i: int, w: FloatVector, j: int, n: int) -> float:
    """The sum of v[i + k] * w[j + k] over k < n, of which each fourth is added up apart."""
    first = 0.0
    second = 0.0
    third = 0.0
    fourth = 0.0
    for k in range(0, n - 3, 4):
        first = first + v[i + k] * w[j + k]
        second = second + v[i + k + 1] * w[j + k + 1]
        third = third + v[i + k + 2] * w[j + k + 2]
        fourth = fourth + v[i + k + 3] * w[j + k + 3]
    for k in range(n - n % 4, n):
        first = first + v[i + k] * w[j + k]
    return (first + second) + (third + fourth)


@native
def dot_range(v: FloatVector, i: int, w: FloatVector, j: int, n: int) -> float:
    """The sum of v[i + k] * w[j + k] over k < n."""
    return four_sums(v, i, w, j, n)


@vectorised
@outlined
@native
def dot_run(v: FloatVector, i: int, w: FloatVector, j: int, n: int) -> float:
    """The same, with the four sums as a vector."""
    return four_sums(v, i, w, j, n)


@native
def dot_range_wide(v: FloatVector, i: int, w: FloatVector, j: int, n: int) -> float:
    """`dot_range`, by vector instructions where that is worth a call."""
    return four_sums(v, i, w, j, n) if n < LONG_RUN else dot_run(v, i, w, j, n)


@native
def dot_product(v: FloatVector, w: FloatVector) -> float:
    """The sum of the products of two vectors' elements."""
    return dot_range(v, 0, w, 0, len(v))


@native
def side_of(cells: int) -> int:
    """The number of rows of a square matrix with so many cells; -1 if none has."""
    n = int(sqrt(float(cells)))
    if n * n == cells:
        return n
    return n + 1 if (n + 1) * (n + 1) == cells else -1


@native
def transpose(ctx: Context, m: FloatVector, rows: int, columns: int) -> FloatVector:
    """Columns become rows."""
    out = new_floats(ctx, rows * columns)
    for i in range(columns):
        for j in range(rows):
            out[i * rows + j] = m[j * columns + i]
    return out


@native
def matrix_product(
    ctx: Context, a: FloatVector, b: FloatVector, rows: int, inner: int, columns: int
) -> FloatVector:
    """The product of a rows * inner and an inner * columns matrix."""
    turned = transpose(ctx, b, inner, columns)
    out = new_floats(ctx, rows * columns)
    for i in range(rows):
        for j in range(columns):
            out[i * columns + j] = dot_range(a, i * inner, turned, j * inner, inner)
    return out


@native
def matrix_vector(ctx: Context, a: FloatVector, v: FloatVector, rows: int) -> FloatVector:
    """The product of a matrix and a vector."""
    n = len(v)
    out = new_floats(ctx, rows)
    for i in range(rows):
        out[i] = dot_range(a, i * n, v, 0, n)
    return out


@native
def row_products(ctx: Context, a: FloatVector, b: FloatVector, n: int) -> FloatVector:
    """a @ b^T of two square matrices of which the upper triangles are 0."""
    out = new_floats(ctx, n * n)
    for i in range(n):
        for j in range(n):
            out[i * n + j] = dot_range(a, i * n, b, j * n, min(i, j) + 1)
    return out


@native
def cholesky(ctx: Context, matrix: FloatVector, n: int) -> FloatVector:
    """Cholesky factor of a symmetric n*n matrix; NaN where it isn't positive definite."""
    out = new_floats(ctx, n * n)
    for k in range(n * n):
        out[k] = 0.0
    for i in range(n):
        for j in range(i):
            rest = matrix[i * n + j] - dot_range(out, i * n, out, j * n, j)
            out[i * n + j] = rest / out[j * n + j]
        out[i * n + i] = sqrt(matrix[i * n + i] - dot_range(out, i * n, out, i * n, i))
    return out


@native
def solve_lower(ctx: Context, factor: FloatVector, b: FloatVector, start: int) -> FloatVector:
    """x with `factor @ x` the part of `b` from `start` on; the factor is lower triangular."""
    n = side_of(len(factor))
    out = new_floats(ctx, n)
    for i in range(n):
        rest = b[start + i] - dot_range(factor, i * n, out, 0, i)
        out[i] = rest / factor[i * n + i]
    return out


@native
def solve_upper(ctx: Context, turned: FloatVector, b: FloatVector, start: int) -> FloatVector:
    """The same for an upper triangular matrix."""
    n = side_of(len(turned))
    out = new_floats(ctx, n)
    for i in range(n):
        out[i] = 0.0
    for i in range(n - 1, -1, -1):
        rest = b[start + i] - dot_range(turned, i * n + i + 1, out, i + 1, n - 1 - i)
        out[i] = rest / turned[i * n + i]
    return out


@native
def solve_columns(
    ctx: Context, triangle: FloatVector, b: FloatVector, columns: int, lower: bool
) -> FloatVector:
    """X with `triangle @ X = b`, for a matrix `b` of so many columns."""
    n = side_of(len(triangle))
    turned = transpose(ctx, b, n, columns)
    out = new_floats(ctx, n * columns)
    for j in range(columns):
        if lower:
            x = solve_lower(ctx, triangle, turned, j * n)
            for i in range(n):
                out[i * columns + j] = x[i]
        else:
            y = solve_upper(ctx, triangle, turned, j * n)
            for i in range(n):
                out[i * columns + j] = y[i]
    return out


@native
def log_diagonal(factor: FloatVector, n: int) -> float:
    """The sum of the logarithms of the diagonal: half the log determinant of the square."""
    total = 0.0
    for i in range(n):
        total = total + log(factor[i * n + i])
    return total


@native
def positive_diagonal(factor: FloatVector, n: int) -> bool:
    """Whether an n*n matrix has positive finite numbers on its diagonal."""
    if n < 0 or len(factor) != n * n:
        return False
    for i in range(n):
        if not (factor[i * n + i] > 0.0 and factor[i * n + i] - factor[i * n + i] == 0.0):
            return False
    return True
