"""Tasks that most programs launch, with a leaf each: clear, fill, copy, multiply."""

# Leaves are code of the tile language: their values have no Python types.
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import tawa.language as tl
from tawa.tasks.language.privileges import READ, READ_WRITE, WRITE
from tawa.tasks.runnable import task


@task(to=WRITE)
def clear(to):
    """All elements are zero."""


@clear.leaf
def clear_tile(to):
    """A tile of zeros."""
    return tl.zeros(to.shape, to.dtype)


@task(to=WRITE)
def fill(to, value):
    """All elements are a number."""


@fill.leaf
def fill_tile(to, value):
    """A tile of one number."""
    return tl.full(to.shape, value, to.dtype)


@task(to=WRITE, of=READ)
def copy(to, of):
    """The elements of one tensor, converted to the type of the other."""


@copy.leaf
def copy_tile(to, of):
    """The tile itself: results are converted to the type of what they are written to."""
    return of


@task(acc=READ_WRITE, a=READ, b=READ)
def multiply(acc, a, b):
    """acc += A B, for `acc` [M, N], `a` [M, K] and `b` [K, N]."""


@multiply.leaf
def multiply_tile(acc, a, b):
    """One product of tiles."""
    return tl.dot(a, b, acc)
