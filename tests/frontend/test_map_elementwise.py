"""`tl.map_elementwise`: functions of scalars, with branches and of several elements at once."""

from __future__ import annotations

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.frontend.source.errors import BadArgument, NotSupported, TypeMismatch

N = 32


@tawa.jit
def order(x, y):
    if x < y:
        return -1
    elif x == y:  # noqa: RET505
        return 0
    else:
        return 1


@tawa.jit
def nested(x):
    r = x
    if x > 4:
        if x > 8:
            r = x * 10
        r += 1
    return r


@tawa.jit
def quotients(a0, a1, a2, a3, b0, b1, b2, b3):
    return (a0 // b0, a1 // b1, a2 // b2, a3 // b3, a0 % b0, a1 % b1, a2 % b2, a3 % b3)


@tawa.jit
def exchanged(a, b):
    return b, a


@tawa.jit
def one_of(a, b):
    return a + b


@tawa.jit
def three_of(a, b):
    return a, b, a + b


@tawa.jit
def of_two_types(a, b):
    return a, b * 1.5


@tawa.jit
def summed(x):
    total = x
    for i in range(3):
        total += x * i
    return total


@tawa.jit
def nothing(x):
    tl.static_assert(True)


@tawa.jit
def map_one(x, y, F: tl.constexpr, PACK: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.map_elementwise(F, tl.load(x + i), pack=PACK))


@tawa.jit
def compare(x, y, z, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(z + i, tl.map_elementwise(order, tl.load(x + i), tl.load(y + i)))
    tl.store(z + N + i, tl.map_elementwise(order, tl.load(x + i), 3))


@tawa.jit
def divide(x, y, z, N: tl.constexpr):
    i = tl.arange(0, N)
    q, r = tl.map_elementwise(quotients, tl.load(x + i), tl.load(y + i), pack=4)
    tl.store(z + i, q)
    tl.store(z + N + i, r)


def numbers(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 12, N, dtype=np.int32)


def test_each_element_takes_its_own_branch():
    x, y, z = numbers(0), numbers(1), np.zeros(2 * N, np.int32)
    compare[(1,)](x, y, z, N)
    np.testing.assert_array_equal(z, [*np.sign(x - y), *np.sign(x - 3)])


def test_branches_may_lie_in_branches():
    x, y = numbers(2), np.zeros(N, np.int32)
    map_one[(1,)](x, y, nested, 1, N)
    np.testing.assert_array_equal(y, np.where(x > 8, x * 10 + 1, np.where(x > 4, x + 1, x)))


def test_several_elements_at_once_and_several_results():
    x, y, z = numbers(3) * 7, numbers(4), np.zeros(2 * N, np.int32)
    divide[(1,)](x, y, z, N)
    np.testing.assert_array_equal(z, [*(x // y), *(x % y)])


def test_elements_that_are_taken_together_are_neighbours():
    x, y = numbers(5), np.zeros(N, np.int32)
    map_one[(1,)](x, y, exchanged, 2, N)
    np.testing.assert_array_equal(y, x.reshape(-1, 2)[:, ::-1].ravel())


def test_what_can_not_be_done_on_tensors_is_an_error():
    x, y = numbers(6), np.zeros(N, np.int32)
    with pytest.raises(BadArgument, match="pack=3"):
        map_one[(1,)](x, y, exchanged, 3, N)
    with pytest.raises(TypeMismatch, match="no tensor can be made of"):
        map_one[(1,)](x, y, nothing, 1, N)
    with pytest.raises(NotSupported, match=r"scf\.for"):
        map_one[(1,)](x, y, summed, 1, N)


@pytest.mark.parametrize("function", [one_of, three_of, of_two_types])
def test_as_many_results_as_elements_are_taken_together(function):
    x, y = numbers(5), np.zeros(N, np.int32)
    with pytest.raises(TypeMismatch, match="no tensor can be made of"):
        map_one[(1,)](x, y, function, 2, N)
