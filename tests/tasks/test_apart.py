"""Boxes of one tensor that are apart for all indices of their loops, and some that are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa.language as tl
from tawa.tasks import READ, READ_WRITE, launch, partition_by_blocks, prange, srange, task
from tawa.tasks.language.errors import AliasingArguments, AliasingIterations


@task(x=READ_WRITE, lower=READ, inverse=READ)
def solve(x, lower, inverse, below):
    """L X = B in place, by blocks: `inverse` has those of L's diagonal blocks."""


@task(x=READ_WRITE, d=READ)
def divide(x, d):
    """x = d x."""


@task(x=READ_WRITE, lower=READ, y=READ)
def subtract(x, lower, y):
    """x -= L y."""


@solve.inner
def solve_columns(x, lower, inverse, below):
    of_x = partition_by_blocks(x, (x.shape[0], 32))
    for j in prange(of_x.shape[1]):
        launch(solve, of_x[0, j], lower, inverse, below)


@solve.inner
def solve_rows(x, lower, inverse, below):
    """Rows of blocks in order, whose loop inside is shorter each time."""
    of_x = partition_by_blocks(x, (32, x.shape[1]))
    of_lower, of_inverse = (
        partition_by_blocks(lower, (32, 32)),
        partition_by_blocks(inverse, (32, 32)),
    )
    for i in srange(of_x.shape[0]):
        launch(divide, of_x[i, 0], of_inverse[i, 0])
        for r in srange(of_x.shape[0] - 1 - i):
            row = i + (1 if below else 0) + r
            launch(subtract, of_x[row, 0], of_lower[row, i], of_x[i, 0])


@divide.leaf
def divide_tile(x, d):
    return tl.dot(d, x, input_precision="ieee")


@subtract.leaf
def subtract_tile(x, lower, y):
    return x - tl.dot(lower, y, input_precision="ieee")


def operands(n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    lower = np.tril(rng.standard_normal((n, n)) / 8).astype(np.float32)
    lower += 2 * np.eye(n, dtype=np.float32)
    x = rng.standard_normal((n, 40)).astype(np.float32)
    inverse = [np.linalg.inv(lower[i : i + 32, i : i + 32]) for i in range(0, n, 32)]
    exact = np.linalg.solve(lower.astype(float), x.astype(float))
    return x, lower, np.concatenate(inverse), exact


def test_rows_behind_an_index_are_apart_from_it() -> None:
    """For all sizes: the same program serves two."""
    programs = set[int]()
    for n in (128, 96):
        x, lower, inverse, exact = operands(n)
        program = solve.compile(x, lower, inverse, True)
        program.simulate((x, lower, inverse, True))
        programs.add(id(program))
        np.testing.assert_allclose(x, exact, rtol=1e-3, atol=1e-3)
    assert len(programs) == 1


def test_rows_from_an_index_on_are_not() -> None:
    x, lower, inverse, _ = operands(96)
    with pytest.raises(AliasingArguments, match="`x` and `y` of `subtract` overlap"):
        solve.compile(x, lower, inverse, False)


@task(x=READ_WRITE)
def sweep(x, above):
    """Each row is added to all below, or `above`, to the one below."""


@task(x=READ_WRITE, y=READ)
def add(x, y):
    """x += y."""


@sweep.inner
def sweep_grid(x, above):
    rows = partition_by_blocks(x, (1, x.shape[1]))
    for i in srange(rows.shape[0]):
        for r in prange(rows.shape[0] - 1 - i):
            launch(add, rows[i + 1 + r, 0], rows[i + r if above else i, 0])


@add.leaf
def add_tile(x, y):
    return x + y


def test_parallel_loops_whose_extent_shrinks() -> None:
    x = np.arange(5 * 16, dtype=np.float32).reshape(5, 16)
    expected = x.copy()
    for i in range(5):
        expected[i + 1 :] += expected[i]
    program = sweep.compile(x, False)
    program.simulate((x, False))
    np.testing.assert_array_equal(x, expected)


def test_an_iteration_that_reads_what_another_writes() -> None:
    with pytest.raises(AliasingIterations):
        sweep.compile(np.zeros((5, 16), np.float32), True)
