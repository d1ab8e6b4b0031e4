"""Which arrays of a launch may have bytes in common."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tawa
from tawa.runtime.binding import BoundParameter, compile_guard
from tawa.runtime.kinds import kind_of
from tawa.runtime.overlaps import end_of, goes_around, meet, overlapping, reach


def may_meet(one: Any, other: Any) -> bool:
    return bool(overlapping([("a", "b")], {"a": one, "b": other})[0])


def test_ranges() -> None:
    x = np.zeros(100, np.float32)
    assert may_meet(x, x)
    assert may_meet(x[:51], x[50:])
    assert not may_meet(x[:50], x[50:])
    assert not may_meet(x, np.zeros(100, np.float32))
    assert not may_meet(x[:0], x)
    assert not may_meet(x, 3)


def test_columns_of_one_matrix() -> None:
    x = np.zeros((64, 96), np.float16)
    assert not may_meet(x[:, :32], x[:, 32:])
    assert may_meet(x[:, :33], x[:, 32:])
    assert may_meet(x, x.T)


def test_packed_queries_and_keys() -> None:
    packed = np.zeros((2, 16, 3, 4, 32), np.float16)
    q, k, v = (packed[:, :, i] for i in range(3))
    assert not may_meet(q, k)
    assert not may_meet(v, q)
    assert may_meet(packed, v)
    assert not may_meet(q.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3))


def test_descriptors() -> None:
    x = np.zeros((64, 128), np.float16)
    left = tawa.TensorDescriptor(x, [64, 64], [128, 1], [16, 16])
    right = tawa.TensorDescriptor(x[:, 64:], [64, 64], [128, 1], [16, 16])
    assert not may_meet(left, right)
    assert may_meet(left, tawa.TensorDescriptor.from_tensor(x, [16, 16]))


@pytest.mark.parametrize("seed", range(40))
def test_it_never_says_apart_of_arrays_that_are_not(seed: int) -> None:
    rng = np.random.default_rng(seed)
    memory = np.zeros(400, np.int8)
    for _ in range(50):
        views: list[Any] = []
        for _ in range(2):
            shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 4)))
            strides = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 8, 12, 24], len(shape)))
            start = int(rng.integers(0, 100))
            views.append(np.lib.stride_tricks.as_strided(memory[start:], shape, strides))
        touched = [
            {
                v.__array_interface__["data"][0]
                + sum(map(np.prod, zip(at, v.strides, strict=True)))
                for at in product(*map(range, v.shape))
            }
            for v in views
        ]
        one, other = map(reach, views)
        assert one is not None
        assert other is not None
        assert meet(one, other) or not touched[0] & touched[1]


class Strided:
    """Memory with PyTorch's names for what a launch asks."""

    def __init__(self, array: Any) -> None:
        self.array, self.nbytes, self.shape = array, array.nbytes, array.shape

    def data_ptr(self) -> int:
        return self.array.__array_interface__["data"][0]

    def is_contiguous(self) -> bool:
        return self.array.flags["C_CONTIGUOUS"]

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def element_size(self) -> int:
        return self.array.itemsize


GUARD = compile_guard(
    [BoundParameter("x"), BoundParameter("BLOCK", constexpr=True), BoundParameter("y")],
    [("x", "y")],
    {"x": kind_of("*f32"), "y": kind_of("*f32")},
    "copy",
)
MEMORY = np.zeros((8, 16), np.float32)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        (MEMORY[:4], MEMORY[4:], ()),
        (MEMORY[4:], MEMORY[:4], ()),
        (MEMORY[:5], MEMORY[4:], None),
        (MEMORY, MEMORY, (("x", "y"),)),
        (MEMORY[:4], MEMORY, (("x", "y"),)),
        (MEMORY[:, :8], MEMORY[:, 8:], None),  # it takes the long way to find out
        (MEMORY[:4, :8], MEMORY[4:], ()),
        (MEMORY[:4].T, MEMORY[4:], ()),
        (MEMORY[:5, 1:], MEMORY[4:], None),
        (MEMORY[:0, 1:], MEMORY[4:], ()),
        (MEMORY, np.zeros(3), ()),
    ],
)
def test_the_quick_look_of_a_launch(one: Any, other: Any, found: Any) -> None:
    x, y = Strided(one), Strided(other)
    assert GUARD((x.data_ptr(), y.data_ptr()), (x, y)) == found
    assert found is None or overlapping([("x", "y")], {"x": one, "y": other}) == (found, found)


def test_the_quick_look_at_descriptors() -> None:
    guard = compile_guard(
        [BoundParameter("a"), BoundParameter("c")],
        [("a", "c")],
        {"a": kind_of("desc<f32,4x4>"), "c": kind_of("desc<f32,4x4>")},
        "copy",
    )

    def rows(array: Any) -> tawa.TensorDescriptor:
        return tawa.TensorDescriptor.from_tensor(array, [4, 4])

    top, bottom, every = rows(MEMORY[:4]), rows(MEMORY[4:]), rows(MEMORY)
    assert guard((top, bottom), (top, bottom)) == ()
    assert guard((bottom, top), (bottom, top)) == ()
    assert guard((top, rows(MEMORY[:4])), (top, top)) == (("a", "c"),)
    assert guard((every, bottom), (every, bottom)) is None
    left = tawa.TensorDescriptor(MEMORY, [8, 8], [16, 1], [4, 4])
    right = tawa.TensorDescriptor(MEMORY[:, 8:], [8, 8], [16, 1], [4, 4])
    assert guard((left, right), (left, right)) is None  # the long way finds out


@pytest.mark.parametrize("seed", range(8))
def test_how_far_arrays_reach(seed: int) -> None:
    """From the first byte to behind the last; what is between is met, whatever way strides go."""
    rng = np.random.default_rng(seed)
    memory = np.zeros((9, 9, 9), [np.int8, np.int32][seed % 2])
    for _ in range(20):
        cut = tuple(slice(*sorted(rng.choice(10, 2, False)), rng.choice([1, 2, 3])) for _ in "012")
        turn = tuple(slice(None, None, rng.choice([1, -1])) for _ in "012")
        view = memory[cut][turn].transpose(rng.permutation(3))
        touched = [
            view.__array_interface__["data"][0]
            + sum(map(np.prod, zip(at, view.strides, strict=True)))
            for at in product(*map(range, view.shape))
        ]
        found = reach(view)
        assert found is not None
        assert (found.begin, found.end) == (min(touched), max(touched) + view.itemsize)
        if not found.step:
            assert found.block == found.end - found.begin


X = np.zeros(64, np.float32)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (X, X, True), (X[:8], X, True), (X, X[1:], False), (X, X.view(np.int32), False),
        (X.view(np.int32), X.view(np.int32), True), (X[1:], X.view(np.int32)[2:], False),
        (X, X.reshape(8, 8), True),
    ],
)  # fmt: skip
def test_one_array(one: Any, other: Any, same: bool) -> None:
    """It begins at the same address, with elements of the same type."""
    assert overlapping([("a", "b")], {"a": one, "b": other})[1] == ((("a", "b"),) if same else ())


def test_one_tensor_of_descriptors() -> None:
    rows = tawa.TensorDescriptor(X, [4, 16], [16, 1], [4, 8])
    again = tawa.TensorDescriptor(X, [4, 16], [16, 1], [4, 8])
    fewer = tawa.TensorDescriptor(X, [2, 16], [16, 1], [4, 8])
    later = tawa.TensorDescriptor(X[16:], [4, 16], [16, 1], [4, 8])
    pair = (("a", "b"),)
    for other, same in ((again, pair), (fewer, ()), (later, ()), (X, ())):
        assert overlapping(pair, {"a": rows, "b": other}) == (pair, same)
        assert overlapping(pair, {"a": other, "b": rows}) == (pair, same)


def test_equal_integers_of_one_array() -> None:
    """Strides that are equal are one, for arrays that are one; types of examples are not."""
    alike = [("a", "b", "m", "n")]
    for m, n, equal in ((4, 4, True), (4, 5, False), ("i32", "i32", False)):
        given = {"a": X, "b": X, "m": m, "n": n}
        same = overlapping([("a", "b")], given, alike)[1]
        assert same == (("a", "b"), *([("m", "n")] if equal else []))
        given["b"] = X[1:]
        assert overlapping([("a", "b")], given, alike)[1] == ()
    given = {"a": X, "b": X, "c": X, "m": 4, "n": 4}
    twice = [("a", "b", "m", "n"), ("b", "c", "m", "n")]
    assert overlapping([("a", "b"), ("b", "c")], given, twice)[1].count(("m", "n")) == 1


@pytest.mark.parametrize("shape", [(), (1,), (4, 6), (0, 6), (3, 1, 5)], ids=str)
def test_where_a_tensor_ends(shape: tuple[int, ...]) -> None:
    array = np.zeros(shape, np.int16)
    for view in (array, array.T, array[..., ::2] if shape else array):
        tensor = Strided(view)
        last = sum((n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)) + 2
        assert end_of(tensor) == tensor.data_ptr() + (last if view.size else 0)


@pytest.mark.parametrize("stride", [1 << 62, (1 << 62) + 8, -(1 << 40)])
def test_a_tensor_that_reaches_around_all_addresses(stride: int) -> None:
    """Blocks that exist are those of its base, from half of all addresses on."""
    far = SimpleNamespace(geometry=SimpleNamespace(reach=2 * abs(stride)))
    assert goes_around(far) is (abs(stride) >= 1 << 62)  # type: ignore[arg-type]
    near = SimpleNamespace(geometry=SimpleNamespace(reach=(1 << 63) - 1))
    assert not goes_around(near)  # type: ignore[arg-type]


def test_tensors_that_lie_without_gaps() -> None:
    class OnDevice(Strided):
        def get_device(self) -> int:
            return 0

    tensor = OnDevice(MEMORY[2:4])
    begin = tensor.data_ptr()
    assert reach(tensor) == (begin, begin + 128, 128, 0)
    assert reach(OnDevice(MEMORY[:0])) is None
