"""Small rules of lowering, at their edges: room for shared memory, axes of matrices, edge rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from xdsl.dialects.builtin import f16

from tawa.aref.dialect.ops import EdgeRow
from tawa.codegen.control import lower_edge_row
from tawa.codegen.shared_memory import SharedMemory, SharedMemoryExceeded, tile_for
from tawa.codegen.stores import matrix_axes
from tawa.machine.chips import H200


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((64, 32), (0, 1)), ((1, 32), (0, 1)), ((64, 1), (0, 1)), ((1, 1), (0, 1)), ((64,), None),
        ((), None), ((1, 64, 32), (1, 2)), ((64, 1, 32), (0, 2)), ((64, 32, 1), None),
        ((2, 64, 32), None), ((1, 1, 32), None), ((1, 64, 1, 32), (1, 3)),
    ],
)  # fmt: skip
def test_rows_and_columns_of_a_matrix(shape: tuple[int, ...], expected: tuple[int, int] | None):
    assert matrix_axes(shape) == expected


def filled(room: int) -> SharedMemory:
    """Two rings, scratch that two share, and ten barriers, where so many bytes are left."""
    memory = SharedMemory(replace(H200, shared_bytes=room))
    tile = tile_for((64, 64), f16)
    memory.ring("a", 3, tile)
    memory.ring("b", 1, tile_for((8, 64), f16))
    memory.scratch(tile, 1)
    memory.scratch(tile_for((128, 64), f16), 1)
    memory.barriers("full", 1, 3)
    memory.barriers("empty", 2, 7)
    return memory


def test_what_just_fits_has_room():
    whole = filled(1 << 20).finish(None)
    assert whole == 3 * 8192 + 1024 + 16384 + 8 * 10
    assert filled(whole).finish(None) == whole
    with pytest.raises(SharedMemoryExceeded) as caught:
        filled(whole - 1).finish(None)
    assert caught.value.excess == 1


def test_barriers_follow_each_other_behind_the_rest():
    memory = filled(1 << 20)
    end = memory.finish(None)
    rows = memory._rows  # pyright: ignore[reportPrivateUsage]
    assert [op.offset.value.data - end for op, _ in rows] == [-80, -56]


@dataclass
class Numbers:
    """Stands for the lowering of one warp group: ops are their numbers."""

    groups: int
    index: int

    def __post_init__(self) -> None:
        self.scalars: dict[Any, int] = {}

    def constant(self, number: int) -> int:
        return number

    def group_index(self) -> int:
        return self.index

    def map(self, function: str, a: int, b: int) -> int:
        assert function == "muli"
        return a * b

    def plus(self, a: int, b: int) -> int:
        return a + b


@pytest.mark.parametrize(("groups", "index", "first", "last"), [
    (1, 0, 0, 127), (2, 0, 0, 63), (2, 1, 64, 127),
])  # fmt: skip
def test_the_edges_of_a_group_s_rows(groups: int, index: int, first: int, last: int):
    for edge, expected in (("first", first), ("last", last)):
        op, lowering = EdgeRow(128, edge), Numbers(groups, index)
        lower_edge_row(lowering, op)  # pyright: ignore
        assert lowering.scalars == {op.result: expected}
