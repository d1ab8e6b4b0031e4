"""How a tile lies in shared memory while its threads exchange it."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from tawa.base.layout import Layout, Mode, blocked
from tawa.codegen.exchanges import BANKS, along_last, layouts_of_exchange, wavefronts

ROWS = blocked((32, 64), 4, 4)
"""Four elements of a row in each thread."""
COLUMNS = blocked((64, 32), 4, 4).permuted((1, 0))
"""Four of a column."""
SOME = Layout((32, 64), (Mode(8, 0, 1), Mode(2, 1, 1)), (Mode(32, 1, 2),), (Mode(4, 0, 8),))
"""Two of a row and eight of a column."""


@pytest.mark.parametrize("source", [ROWS, COLUMNS, SOME])
@pytest.mark.parametrize("result", [ROWS, COLUMNS, SOME])
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_no_order_is_quicker(source: Layout, result: Layout, size: int) -> None:
    """Writing and reading together; their own order where no other one is quicker."""
    order, write, read = layouts_of_exchange(source, result, size)
    found = wavefronts(write, size) + wavefronts(read, size)
    plain = source.permuted(order), result.permuted(order)
    assert (write, read) in (plain, (along_last(plain[0]), along_last(plain[1])))
    every = []
    for other in permutations(range(2)):
        sides = source.permuted(other), result.permuted(other)
        every.append(sum(wavefronts(side, size) for side in sides))
        every.append(sum(wavefronts(along_last(side), size) for side in sides))
    assert found == min(every)
    if every[0] == found:
        assert (order, write, read) == ((0, 1), source, result)


@pytest.mark.parametrize("layout", [ROWS, COLUMNS, SOME])
def test_neighbours_of_a_row_come_first(layout: Layout) -> None:
    """A thread has the same elements, in another order."""
    turned = along_last(layout)
    elements = [{tuple(map(int, c)) for c in thread} for thread in layout.coordinates]
    assert elements == [{tuple(map(int, c)) for c in thread} for thread in turned.coordinates]
    first = turned.coordinates[0][:, 1]
    width = len(np.unique(first))
    assert (np.diff(first[:width]) > 0).all()


@pytest.mark.parametrize(
    ("stride", "size", "times"),
    [(1, 4, 1), (2, 4, 2), (32, 4, 32), (33, 4, 1), (0, 4, 1), (1, 2, 1), (2, 2, 1), (4, 2, 2),
     (1, 8, 2), (1, 16, 4)],
)  # fmt: skip
def test_lanes_that_want_words_of_one_bank_wait(stride: int, size: int, times: int) -> None:
    """One element of each lane, so far apart: every bank gives a word at a time."""
    extent = max(1, stride) * 32
    lane = Mode(32, 0, stride) if stride else Mode(32, -1, 0)
    layout = Layout((extent,), (), (lane,), ())
    words = {(n * stride * size // 4 + k) for n in range(32) for k in range(max(1, size // 4))}
    banks = [word % BANKS for word in words]
    assert max(map(banks.count, banks)) == times
    assert wavefronts(layout, size) == times


def halves(*order: int) -> Layout:
    """A tile of two elements along each dimension: the first of `order` in lanes, others in one."""
    modes = [Mode(2, d, 1) for d in order]
    return Layout((2,) * len(order), tuple(modes[5:]), tuple(modes[:5]), ())


def test_of_the_orders_of_a_sort_none_is_quicker() -> None:
    """As for two dimensions, each of 720 by itself."""
    source, result = halves(0, 1, 2, 3, 4, 5), halves(5, 4, 3, 2, 0, 1)
    order, write, read = layouts_of_exchange(source, result, 4)
    every: list[tuple[int, tuple[int, ...], Layout, Layout]] = []
    for other in permutations(range(6)):
        plain = source.permuted(other), result.permuted(other)
        for sides in (plain, (along_last(plain[0]), along_last(plain[1]))):
            every.append((sum(wavefronts(side, 4) for side in sides), other, *sides))
    assert (order, write, read) == min(every, key=lambda way: way[0])[1:]


def test_of_many_dimensions_the_last_three_are_chosen():
    source, result = halves(*range(9)), halves(*reversed(range(9)))
    order, write, read = layouts_of_exchange(source, result, 4)
    assert list(order[:6]) == sorted(order[:6])
    taken = wavefronts(write, 4) + wavefronts(read, 4)
    assert taken < wavefronts(source, 4) + wavefronts(result, 4)
