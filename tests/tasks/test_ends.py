"""Boxes past an end: what is there must not count, or is what the partition says."""

from typing import Any

import numpy as np
import pytest

import tawa.language as tl
from tawa.tasks import (
    READ,
    READ_WRITE,
    WRITE,
    clear,
    copy,
    launch,
    make_tensor,
    partition_by_blocks,
    prange,
    srange,
    task,
)
from tawa.tasks.language.errors import BadPartition, PastTheEnd


@task(y=WRITE, x=READ)
def rows(y, x, columns, kind, fill):
    """Something of each row of x."""


@rows.inner
def rows_grid(y, x, columns, kind, fill):
    of_y = partition_by_blocks(y, (16,))
    of_x = partition_by_blocks(x, (16, 64), past_end=-float("inf") if fill else None)
    for i in prange(*of_y.shape):
        launch(rows, of_y[i], of_x[i, 0], columns, kind, fill)


@rows.leaf
def rows_tile(y, x, columns, kind: tl.constexpr, fill: tl.constexpr):
    inside = tl.arange(0, 64)[None, :] < columns
    if kind == "max":
        return tl.max(x, axis=1)
    if kind == "sum":
        return tl.sum(x * 2, axis=1)
    if kind == "exponentials":
        return tl.sum(tl.exp(x), axis=1)
    if kind == "greatest":
        return tl.max(tl.abs(x), axis=1)
    if kind == "masked":
        return tl.sum(tl.where(inside, tl.exp(x), 0.0), axis=1)
    if kind == "masked too early":
        return tl.sum(tl.exp(tl.where(inside, x, 0.0)), axis=1)
    if kind == "softmax":
        highest = tl.max(tl.where(inside, x, -float("inf")), axis=1)
        return tl.sum(tl.exp(tl.where(inside, x, -float("inf")) - highest[:, None]), axis=1)
    if kind == "variance":
        centred = x - (tl.sum(x, axis=1) / columns)[:, None]
        return tl.sum(centred * centred, axis=1)
    if kind == "first":
        return tl.argmax(x, axis=1).to(tl.float32)
    return tl.sum(tl.sqrt(x * x + 1.0) * x, axis=1)


MEANINGS: dict[str, Any] = {
    "max": lambda x: x.max(1),
    "sum": lambda x: x.sum(1) * 2,
    "exponentials": lambda x: np.exp(x).sum(1),
    "greatest": lambda x: abs(x).max(1),
    "masked": lambda x: np.exp(x).sum(1),
    "softmax": lambda x: np.exp(x - x.max(1, keepdims=True)).sum(1),
    "first": lambda x: x.argmax(1),
    "roots": lambda x: (np.sqrt(x * x + 1) * x).sum(1),
}

DATA = -np.random.default_rng(0).random((40, 50)).astype(np.float32) - 0.5


def run(kind: str, x: Any, fill: bool) -> Any:
    y = np.full(len(x), np.nan, np.float32)
    given = y, x, x.shape[1], kind, fill
    rows.compile(*given).simulate(given)
    return y


@pytest.mark.parametrize("kind", ["sum", "greatest", "masked", "softmax", "roots"])
def test_zeros_do_not_count(kind: str):
    assert np.abs(run(kind, DATA, False) - MEANINGS[kind](DATA)).max() < 1e-4


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("max", "a maximum"),
        ("exponentials", "a sum"),
        ("masked too early", "a sum"),
        ("variance", "a sum"),
        ("first", "an extreme's position"),
    ],
)
def test_zeros_count(kind: str, what: str):
    with pytest.raises(PastTheEnd) as found:
        run(kind, DATA, False)
    assert found.value.message == f"{what} counts elements past the end of `x`"
    assert "in the task tree: rows_grid > rows_tile" in str(found.value)
    assert found.value.span is not None
    assert (found.value.span.source_line() or "").strip().startswith(("return tl.", "centred"))
    with pytest.raises(PastTheEnd) as interpreted:
        rows.interpret(np.empty(40, np.float32), DATA, 50, kind, False)
    assert interpreted.value.message == found.value.message


@pytest.mark.parametrize("kind", ["max", "exponentials", "first"])
def test_the_neutral_element_is_said(kind: str):
    assert np.abs(run(kind, DATA, True) - MEANINGS[kind](DATA)).max() < 1e-4
    y = np.empty(40, np.float32)
    rows.interpret(y, DATA, 50, kind, True)
    assert np.abs(y - MEANINGS[kind](DATA)).max() < 1e-4


def test_sizes_that_boxes_divide_have_no_such_elements():
    x = np.hstack([DATA, DATA[:, :14]])
    assert np.array_equal(run("max", x, False), x.max(1))
    with pytest.raises(PastTheEnd):
        run("max", DATA, False)


@task(y=WRITE, x=READ)
def by_way(y, x):
    """The highest element of each row, by way of tensors of the block's own."""


@task(highest=READ_WRITE, x=READ)
def higher(highest, x):
    """Take a tile into the maximum."""


@task(to=WRITE, of=READ)
def doubled(to, of):
    """Twice the elements."""


@by_way.inner
def by_way_grid(y, x):
    of_y, of_x = partition_by_blocks(y, (16,)), partition_by_blocks(x, (16, x.shape[1]))
    for i in prange(*of_y.shape):
        launch(by_way, of_y[i], of_x[i, 0])


@by_way.inner
def by_way_block(y, x):
    of_x = partition_by_blocks(x, (16, 32))
    kept = make_tensor((16, 32), x.dtype)
    highest = make_tensor((16,), tl.float32)
    launch(clear, highest)
    for k in srange(of_x.shape[1]):
        launch(doubled, kept, of_x[0, k])
        launch(higher, highest, kept)
    launch(copy, y, highest)


@doubled.leaf
def doubled_tile(to, of):
    return of + of


@higher.leaf
def higher_tile(highest, x):
    return tl.maximum(highest, tl.max(x, axis=1))


def test_tiles_that_a_block_keeps_are_followed():
    y = np.empty(40, np.float32)
    with pytest.raises(PastTheEnd, match="a maximum counts elements past the end of `x`"):
        by_way.compile(y, DATA)


@task(y=WRITE, x=READ)
def scaled(y, x):
    """A leaf whose tensors lie as bfloat16 in NumPy's uint16."""


@scaled.leaf
def scaled_tile(y, x):
    return tl.max(x, axis=1)


@scaled.inner
def scaled_grid(y, x):
    launch(
        scaled, partition_by_blocks(y, (16,))[0],
        partition_by_blocks(x, (16, 16), past_end=-float("inf"))[0, 0],
    )  # fmt: skip


def test_past_the_end_of_narrow_types():
    x, y = -np.ones((16, 10), np.float16), np.empty(16, np.float16)
    scaled.variants.reverse()
    scaled.compile(y, x).simulate((y, x))
    assert (y == -1).all()
    y[:] = 0
    scaled.interpret(y, x)
    assert (y == -1).all()


def test_what_is_read_past_the_end_is_a_number():
    @task(y=WRITE, x=READ)
    def filled(y, x, number):
        """Fills boxes up with a number of the launch."""

    @filled.inner
    def filled_grid(y, x, number):
        partition_by_blocks(x, (16,), past_end=number)

    with pytest.raises(BadPartition, match="not a number"):
        filled.compile(np.zeros(16, np.float32), np.zeros(16, np.float32), 1.0)


@task(y=WRITE, x=READ)
def groups(y, x, count):
    """Sums of `count` groups of columns of each row, added up with the row's largest sum."""


@groups.inner
def groups_grid(y, x, count):
    of_y, of_x = partition_by_blocks(y, (16,)), partition_by_blocks(x, (16, 64))
    for i in prange(*of_y.shape):
        launch(groups, of_y[i], of_x[i, 0], count)


@groups.leaf
def groups_tile(y, x, count: tl.constexpr):
    sums = tl.sum((x + 1).reshape(16 * count, 64 // count), axis=1)
    return tl.max(sums.reshape(16, count), axis=1)


def test_rows_that_are_regrouped_end_where_they_did():
    """Rows past the end stay apart from the others; columns past the end are among others."""
    x = np.random.default_rng(0).standard_normal((20, 64)).astype(np.float32)
    y = np.full(20, np.nan, np.float32)
    groups.interpret(y, x, 4)
    exact = (x.astype(float) + 1).reshape(20, 4, 16).sum(2).max(1)
    np.testing.assert_allclose(y, exact, rtol=1e-5)
    for number in (4, 8):  # compiled in, so that each has a program
        groups.compile(y, x, number).simulate((y, x, number))
        exact = (x.astype(float) + 1).reshape(20, number, -1).sum(2).max(1)
        np.testing.assert_allclose(y, exact, rtol=1e-5)
    with pytest.raises(PastTheEnd, match="dimension 1 of `x`"):
        groups.interpret(y, x[:, :60], 4)


@task(counts=READ_WRITE, x=READ)
def count(counts, x, fill):
    """How often each number is in x."""


@count.inner
def count_all(counts, x, fill):
    of_x = partition_by_blocks(x, (32,), past_end=-1 if fill else None)
    for i in srange(of_x.shape[0]):
        launch(count, counts, of_x[i], fill)


@count.leaf
def count_tile(counts, x, fill):
    numbers = tl.arange(0, counts.shape[0])
    return counts + tl.sum((x[:, None] == numbers[None, :]).to(tl.int32), axis=0)


def test_numbers_that_equal_none_of_a_range_do_not_count():
    x = np.random.default_rng(0).integers(0, 16, 70).astype(np.int32)
    counts = np.zeros(16, np.int32)
    count.interpret(counts, x, True)
    np.testing.assert_array_equal(counts, np.bincount(x, minlength=16))
    with pytest.raises(PastTheEnd):
        count.interpret(counts, x, False)
