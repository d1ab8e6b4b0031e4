"""Global memory of the simulators: views of strided blocks, bounds, and what an access says."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import f16, f32, i8

from tawa.simulate.interpret.memory import SPACING, Access, IllegalAccess, Memory

READ, WRITE = Access("reads", (1, 2, 0), None), Access("writes", (0, 0, 0), None)


class Watch:
    """Notes the bytes that are accessed."""

    def __init__(self) -> None:
        self.seen: dict[str, list[tuple[str, list[int], int]]] = {"read": [], "write": []}

    def read(self, buffer: Any, offsets: Any, size: int, access: Any) -> None:
        self.seen["read"].append((buffer.name, sorted(map(int, np.ravel(offsets))), size))

    def write(self, buffer: Any, offsets: Any, size: int, access: Any) -> None:
        self.seen["write"].append((buffer.name, sorted(map(int, np.ravel(offsets))), size))


@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (3, 1), (2, 3, 2), (4,)], ids=str)
@pytest.mark.parametrize("access", [READ, WRITE], ids=["read", "written"])
def test_windows_show_the_elements_that_strides_name(
    shape: tuple[int, ...], access: Access
) -> None:
    """Also backwards and several times the same; those alone are looked at."""
    x = np.arange(60, dtype=np.float16)
    for strides in product((1, 5, -3, 0), repeat=len(shape)):
        memory = Memory()
        memory.watch = watch = Watch()
        base = memory.add("x", x, f16)
        found = memory.window(base + 2 * 30, shape, strides, f16, access)
        at = [30 + sum(i * s for i, s in zip(where, strides, strict=True))
              for where in np.ndindex(*shape)]  # fmt: skip
        np.testing.assert_array_equal(found.ravel(), x[at])
        kind = "read" if access is READ else "write"
        assert watch.seen == {"read": [], "write": []} | {
            kind: [("x", sorted(2 * n for n in at), 2)]
        }


@pytest.mark.parametrize(
    ("first", "shape", "strides", "inside"),
    [
        (0, (4,), (3,), True), (1, (4,), (3,), False), (9, (4,), (-3,), True),
        (8, (4,), (-3,), False), (0, (2, 5), (5, 1), True), (1, (2, 5), (5, 1), False),
        (5, (2, 5), (-5, 1), True), (0, (1,), (100,), True), (9, (1, 1), (100, -100), True),
        (10, (1,), (1,), False), (-1, (1,), (1,), False), (4, (2, 2), (5, -4), True),
        (4, (2, 2), (5, -5), False),
    ],
)  # fmt: skip
def test_windows_end_where_their_array_does(
    first: int, shape: tuple[int, ...], strides: tuple[int, ...], inside: bool
) -> None:
    memory = Memory()
    base = memory.add("x", np.zeros(10, np.float32), f32)
    if inside:
        memory.window(base + 4 * first, shape, strides, f32, READ)
        return
    with pytest.raises(IllegalAccess, match=r"program \[1, 2, 0\] reads memory outside of `x`"):
        memory.window(base + 4 * first, shape, strides, f32, READ)


@pytest.mark.parametrize(
    ("offset", "size", "problem", "found"),
    [
        (40, 4, "memory outside of `x`", "element 10 of `x`, which has 10"),
        (-4, 4, "memory outside of `x`", "element -1 of `x`, which has 10"),
        (38, 4, "an address of `x` that 4 does not divide", "element 9 of `x`, which has 10"),
        (40, 2, "memory outside of `x`", "element 20 of `x`, which has 20"),
    ],
)  # fmt: skip
def test_what_is_said_of_places_outside(offset: int, size: int, problem: str, found: str) -> None:
    memory = Memory()
    base = memory.add("x", np.zeros(10, np.float32), f32)
    good = np.array([base, base + 8])
    bad = np.append(good, base + offset)
    element = {2: f16, 4: f32}[size]
    memory.read(good, element, READ)
    with pytest.raises(IllegalAccess) as caught:
        memory.read(bad, element, READ)
    assert problem in caught.value.message
    assert caught.value.found == found
    assert "mask the access" in str(caught.value.hint)


def test_several_arrays_at_once() -> None:
    """A tile of addresses may name elements of all arrays; nothing lies between them."""
    memory = Memory()
    memory.watch = watch = Watch()
    x, y = np.arange(4, dtype=np.float32), np.arange(10, 14, dtype=np.float32)
    bases = [memory.add("x", x, f32), memory.add("y", y, f32)]
    assert bases == [SPACING, 2 * SPACING]
    at = np.array([[bases[0], bases[1] + 4], [bases[1], bases[0] + 12]])
    np.testing.assert_array_equal(memory.read(at, f32, READ), [[0, 11], [10, 3]])
    memory.write(at, np.array([[5, 6], [7, 8]], np.float32), f32, WRITE)
    assert (x.tolist(), y.tolist()) == ([5, 1, 2, 8], [7, 6, 12, 13])
    touched = [("x", [0, 12], 4), ("y", [0, 4], 4)]
    assert watch.seen == {"read": touched, "write": touched}
    third = memory.add("z", np.array([20, 21], np.float32), f32)
    mixed = np.array([third + 4, bases[0], bases[1], third])
    np.testing.assert_array_equal(memory.read(mixed, f32, READ), [21, 5, 7, 20])
    named = [getattr(memory.buffer_at(n), "name", None) for n in
             (0, SPACING - 1, SPACING, SPACING * 3 // 2 - 1, SPACING * 3 // 2, 2 * SPACING, 3 * SPACING)]  # fmt: skip
    assert named == [None, "x", "x", "x", "y", "y", "z"]
    with pytest.raises(IllegalAccess, match="made from no argument"):
        memory.read(np.array([0]), f32, READ)


def test_stores_that_change_something() -> None:
    memory = Memory()
    x = np.zeros(4, np.float32)
    base = memory.add("x", x, f32)
    at = base + 4 * np.arange(2)
    for values, changes in (([0, 0], 0), ([0, 1], 1), ([0, 1], 1), ([2, 1], 2)):
        memory.write(at, np.array(values, np.float32), f32, WRITE)
        assert memory.changes == changes
    memory.write(np.zeros(0, np.int64), np.zeros(0, np.float32), f32, WRITE)
    assert memory.changes == 2
    x.flags.writeable = False
    memory.add("y", x, f32)
    with pytest.raises(IllegalAccess, match="`y`") as caught:
        memory.write(at + SPACING, np.array([1, 1], np.float32), f32, WRITE)
    assert caught.value.found == "a read-only array"
    assert caught.value.hint == "pass an array that may be written"


def test_strided_arrays_begin_at_their_first_element() -> None:
    """Their memory is as it is, from the lowest to the highest element."""
    whole = np.arange(20, dtype=np.int8)
    for view in (whole[5:15], whole[5:15:3], whole[15:5:-1], whole[5:6]):
        memory = Memory()
        base = memory.add("x", view, i8)
        step = view.strides[0]
        at = base + step * np.arange(len(view))
        np.testing.assert_array_equal(memory.read(at, i8, READ), view)
        low = base + min(0, step * (len(view) - 1))
        assert low == SPACING
        high = base + max(0, step * (len(view) - 1))
        for outside in (low - 1, high + 1):
            with pytest.raises(IllegalAccess):
                memory.read(np.array([outside]), i8, READ)
