"""Reductions: blocks that combine into the same elements, in any order or in the program's."""

from typing import Any

import numpy as np
import pytest

import tawa.language as tl
from tawa.tasks import (
    READ,
    READ_WRITE,
    REDUCE,
    WRITE,
    Instance,
    Mapping,
    launch,
    partition_by_blocks,
    prange,
    srange,
    task,
    tunable,
)
from tawa.tasks.language.errors import AliasingIterations, PrivilegeViolation, UnknownReduction


def sum_tile(total, x):
    return tl.sum(x, axis=0)


def max_tile(total, x):
    return tl.max(x, axis=0)


def min_tile(total, x):
    return tl.min(x, axis=0)


NEUTRAL = {"sum": None, "max": -float("inf"), "min": float("inf")}
LEAVES = {"sum": sum_tile, "max": max_tile, "min": min_tile}


def reducing(operator: str, ordered: bool) -> Any:
    """A task that reduces x's blocks into all of `total`, a block of a grid for each."""

    @task(total=REDUCE(operator, ordered=ordered), x=READ)
    def over(total, x):
        """`total` [N] combines the rows of x [M, N]."""

    @over.inner
    def over_grid(total, x):
        rows, width = tunable("rows", 16), tunable("width", 32)
        of_x = partition_by_blocks(x, (rows, width), past_end=NEUTRAL[operator])
        of_total = partition_by_blocks(total, (width,))
        for i, j in prange(*of_x.shape):
            launch(over, of_total[j], of_x[i, j])

    @over.inner
    def over_block(total, x):
        of_x = partition_by_blocks(x, (8, x.shape[1]))
        for i in srange(of_x.shape[0]):
            launch(over, total, of_x[i, 0])

    over.leaf(LEAVES[operator])
    return over


@pytest.mark.parametrize("operator", ["sum", "max", "min"])
@pytest.mark.parametrize("ordered", [False, True])
def test_blocks_reduce_into_the_same_elements(operator: str, ordered: bool):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((75, 70)).astype(np.float32)
    start = rng.standard_normal(70).astype(np.float32)
    over = reducing(operator, ordered)
    combine = {"sum": np.sum, "max": np.max, "min": np.min}[operator]
    expected = combine(np.vstack([start[None], x]).astype(np.float64), axis=0)
    interpreted, found = start.copy(), start.copy()
    over.interpret(interpreted, x)
    assert np.abs(interpreted - expected).max() < 1e-5
    program = over.compile(found, x)
    program.simulate((found, x))
    assert np.abs(found - expected).max() < 1e-5
    text = program.stages["over_block_kernel"]
    if ordered:
        assert "atomic" not in text
        assert np.array_equal(found, interpreted)
        assert text.count("load(") == 2  # what is reduced into stays in registers
    else:
        assert text.count("tl.atomic") == 1


@pytest.mark.parametrize("memory", ["register", "shared", "none", "global"])
def test_order_is_kept_under_every_mapping(memory: str):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((75, 70)).astype(np.float32)
    over = reducing("sum", True)
    mapping = Mapping(Instance("over_block", memories={"total": memory}))
    one, other = np.zeros(70, np.float32), np.zeros(70, np.float32)
    over.interpret(one, x, mapping=mapping)
    over.compile(other, x, mapping=mapping).simulate((other, x))
    assert np.array_equal(one, other)


@task(c=READ_WRITE, a=READ, b=READ)
def split_product(c, a, b):
    """C += A B, the sum over K cut among blocks."""


@task(c=REDUCE("sum"), a=READ, b=READ)
def part(c, a, b):
    """A part of the sum."""


@split_product.inner
def split_grid(c, a, b):
    of_c = partition_by_blocks(c, (32, 32))
    of_a, of_b = partition_by_blocks(a, (32, 32)), partition_by_blocks(b, (32, 32))
    for i, j, k in prange(*of_c.shape, of_a.shape[1]):
        launch(part, of_c[i, j], of_a[i, k], of_b[k, j])


@part.leaf
def part_tile(c, a, b):
    return tl.dot(a, b)


def test_a_product_split_along_k():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((40, 80)).astype(np.float16), rng.standard_normal((80, 48))
    b = b.astype(np.float16)
    expected = a.astype(float) @ b.astype(float)
    for run in (split_product.interpret, lambda *x: split_product.compile(*x).simulate(x)):
        c = np.zeros((40, 48), np.float32)
        run(c, a, b)
        assert np.abs(c - expected).max() < 1e-3


@task(total=REDUCE("sum"), x=READ)
def spied(total, x):
    """A task of which the wrong variants are written below."""


def test_a_leaf_does_not_look_at_what_it_reduces_into():
    with pytest.raises(PrivilegeViolation, match="`tile` reads `total`") as found:

        @spied.leaf
        def tile(total, x):
            return total + x

    assert "return what is combined into it" in str(found.value)


def test_rights_to_reduce():
    @task(total=REDUCE("max"), x=READ)
    def other(total, x):
        """Another operator."""

    @task(total=REDUCE("sum"), x=READ)
    def wrong(total, x):
        """Launches what it must not."""

    @wrong.inner
    def wrong_grid(total, x):
        launch(other, total, x)

    x = np.ones(16, np.float32)
    with pytest.raises(PrivilegeViolation, match="more rights") as found:
        wrong.compile(x.copy(), x)
    assert "reduce by sum" in str(found.value)
    assert "in the task tree: wrong_grid" in str(found.value)
    with pytest.raises(UnknownReduction, match="by 'product'"):
        REDUCE("product")  # pyright: ignore[reportArgumentType]


@task(to=WRITE, of=READ)
def pour(to, of):
    """A leaf that reads what others reduce into."""


@task(total=READ_WRITE, out=WRITE, x=READ)
def mixed(total, out, x):
    """One launch reduces, another reads."""


@pour.leaf
def pour_tile(to, of):
    return of


@mixed.inner
def mixed_grid(total, out, x):
    of_x, of_out = partition_by_blocks(x, (16,)), partition_by_blocks(out, (16,))
    for i in prange(of_x.shape[0]):
        launch(pour, of_out[i], total)
        launch(part, total, of_x[i], of_x[i])


def test_what_is_reduced_into_is_not_read_by_others():
    x = np.ones(32, np.float32)
    with pytest.raises(AliasingIterations, match="iterations 0 and 1") as found:
        mixed.compile(np.zeros(16, np.float32), np.zeros_like(x), x)
    assert "in the task tree: mixed_grid" in str(found.value)


def test_integers():
    @task(count=REDUCE("max"), x=READ)
    def highest(count, x):
        """The highest element."""

    @highest.inner
    def highest_grid(count, x):
        of_x = partition_by_blocks(x, (16,))
        for i in prange(of_x.shape[0]):
            launch(highest, count, of_x[i])

    @highest.leaf
    def highest_tile(count, x):
        return tl.max(x, axis=0, keep_dims=True)

    x = -np.arange(5, 53, dtype=np.int32)
    found = np.full(1, -1000, np.int32)
    highest.compile(found, x).simulate((found, x))
    assert found[0] == -5
