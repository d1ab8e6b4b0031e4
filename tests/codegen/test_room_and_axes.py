"""Small rules of lowering, at their edges: room for shared memory, axes of matrices, edge rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from xdsl.dialects.builtin import ArrayAttr, IntAttr, TensorType, f16, f32, i8
from xdsl.dialects.func import FuncOp
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, SSAValue

from tawa.aref.dialect.ops import Consumed, EdgeRow, RefType, TokenType
from tawa.base.options import Options
from tawa.codegen import channels
from tawa.codegen.control import lower_edge_row
from tawa.codegen.fragments import copied
from tawa.codegen.group_lowering import GroupLowering
from tawa.codegen.kernel_lowering import KernelLowering
from tawa.codegen.matrix import parts
from tawa.codegen.shared_memory import SharedMemory, SharedMemoryExceeded, tile_for
from tawa.codegen.stores import matrix_axes
from tawa.hopper.dialect.structure import Ring
from tawa.machine.chips import H200
from tawa.simulate.interpret.cta import ALIAS


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


@pytest.mark.parametrize(
    ("shape", "element", "swizzle", "panels", "panel_rows"),
    [
        ((64,), f16, 0, 1, 1), ((1, 64), f16, 0, 1, 1), ((1, 32), i8, 0, 1, 1),
        ((2, 64), f16, 128, 1, 8), ((8, 64), f16, 128, 1, 8), ((12, 32), f16, 64, 1, 16),
        ((16, 16), f16, 32, 1, 16), ((16, 32), i8, 32, 1, 16), ((16, 8), f16, 0, 1, 16),
        ((64, 128), f16, 128, 2, 64), ((2, 8, 128), f16, 128, 2, 16), ((1, 1, 256), i8, 0, 1, 1),
    ],
)  # fmt: skip
def test_how_blocks_lie_in_shared_memory(
    shape: tuple[int, ...], element: Any, swizzle: int, panels: int, panel_rows: int
):
    """Only what has several rows is swizzled: others are read as they are copied."""
    tile = tile_for(shape, element)
    found = tile.swizzle.data, tile.panels, tile.panel_rows.data
    assert found == (swizzle, panels, panel_rows)


@pytest.mark.parametrize(
    ("tile", "slots", "by_group", "shared"),
    [
        ((64, 128, f16), 2, True, True), ((64, 64, f32), 2, True, True),
        ((64, 64, f32), 2, False, False), ((64, 64, f32), 1, True, False),
        ((128, 64, f16), 2, True, False), ((64, 64, f16), 2, True, False),
    ],
)  # fmt: skip
def test_who_stages_in_the_same_buffers(
    tile: tuple[int, int, Any], slots: int, by_group: bool, shared: bool
):
    """As many slots of as many rows of as many bytes, and each warp group has its own part."""
    kernel = KernelLowering(FuncOp("kernel", ((), ())), Options(), SharedMemory(H200))
    first, _ = kernel.staging_ring(tile_for((64, 128), f16), 2, by_group=True)
    other, _ = kernel.staging_ring(tile_for(tile[:2], tile[2]), slots, by_group=by_group)
    assert (ring_of(first).offset == ring_of(other).offset) is shared


def test_groups_do_not_stage_where_all_do():
    kernel = KernelLowering(FuncOp("kernel", ((), ())), Options(), SharedMemory(H200))
    all_of, _ = kernel.staging_ring(tile_for((64, 128), f16), 2)
    own, _ = kernel.staging_ring(tile_for((64, 64), f32), 2, by_group=True)
    assert ring_of(all_of).offset != ring_of(own).offset
    assert len(kernel.declarations) == 2


def ring_of(value: SSAValue) -> Ring:
    assert isinstance(value.owner, Ring)
    return value.owner


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


@pytest.mark.parametrize("most", [64, 128, 256])
@pytest.mark.parametrize("element", [f16, i8])
def test_pieces_of_columns(element: Any, most: int):
    """Together all columns once, each as wide as an instruction may be."""
    for columns in range(8, 520, 8):
        found = parts(columns, element, most)
        assert [start for start, _ in found] == [
            sum(width for _, width in found[:n]) for n in range(len(found))
        ]
        assert sum(width for _, width in found) == columns
        for _, width in found:
            assert 8 <= width <= most
            assert width % 8 == 0
            assert element == f16 or width <= 32 or width % 16 == 0


class Grouped:
    """Stands for the lowering of a role's warp groups: values are numbers."""

    def __init__(self, teams: int, groups: int, team: int, group: int) -> None:
        self.teams, self.groups, self.first_barrier = teams, groups, 3
        self.own = team, group

    def constant(self, number: int) -> int:
        return number

    def team_index(self) -> int:
        return self.own[0]

    def group_index(self) -> int:
        return self.own[1] if self.groups > 1 else self.own[0] * 0

    def map(self, function: str, a: int, b: int) -> int:
        return a * b if function == "muli" else a + b

    def group_barrier(self) -> int:
        return GroupLowering.group_barrier(cast(Any, self))  # pyright: ignore[reportReturnType]

    def team_barrier(self) -> int:
        return GroupLowering.team_barrier(cast(Any, self))  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("teams", [1, 2, 3])
def test_groups_and_teams_have_barriers_of_their_own(teams: int, groups: int):
    """One for each group, then, where a team has several groups, one for each team."""
    all_of = [Grouped(teams, groups, t, g) for t in range(teams) for g in range(groups)]
    own = [one.group_barrier() for one in all_of]
    assert own == list(range(3, 3 + teams * groups))
    together = [one.team_barrier() for one in all_of]
    if groups == 1:
        assert together == own
    else:
        first = 3 + teams * groups
        assert together == [first + t for t in range(teams) for _ in range(groups)]


@pytest.mark.parametrize("uses", [1, 2])
@pytest.mark.parametrize("lazy", [False, True])
def test_who_may_change_registers_in_place(uses: int, lazy: bool):
    """Whoever alone has them: what is made again where it is used has them, too."""
    old = Made(result_types=[f32]).results[0]
    for _ in range(uses):
        Made(operands=[old])
    value, copies = Made(result_types=[f32]).results[0], list[Any]()
    g: Any = SimpleNamespace(layouts=SimpleNamespace(lazy=lambda _: lazy), add=copies.append)
    found = copied(g, value, old)
    assert (found is value) is (uses == 1 and not lazy)
    assert len(copies) == (uses == 2 or lazy)


@pytest.mark.parametrize("after", ["none", "tma", None])
@pytest.mark.parametrize("of_engine", [(False, False), (False, True), (True, False), (True, True)])
def test_a_slot_given_back_after_another(
    monkeypatch: pytest.MonkeyPatch, of_engine: tuple[bool, bool], after: str | None
):
    """Threads have met there, unless the engine fills this slot alone: that takes a fence, too."""
    kind = RefType(IntAttr(1), ArrayAttr([TensorType(f16, (64, 64))]))
    ring = Made(result_types=[kind]).results[0]
    token = Made(result_types=[TokenType()]).results[0]
    given = [Consumed(ring, token, how) for how in (after or "none", "none")]
    Block(given if after else [Made(), given[1]])
    filled = dict(zip(given, of_engine, strict=True))
    monkeypatch.setattr(channels, "_filled_by_engine", lambda _, op: filled[op])
    g: Any = SimpleNamespace(group=SimpleNamespace(moves=None, converts=None))
    met = channels._has_met(g, given[1])  # pyright: ignore[reportPrivateUsage]
    assert met is (after == "none" and (of_engine[0] or not of_engine[1]))


@pytest.mark.parametrize(
    ("asked", "areas"),
    [
        ([(64, 1, ""), (128, 1, ""), (32, 1, "")], [0, 0, 0]),
        ([(64, 2, ""), (128, 2, ""), (64, 2, "")], [0, 1, 0]),
        ([(64, 1, ""), (64, 2, ""), (64, 1, "")], [0, 1, 0]),
        ([(64, 1, ""), (64, 1, "math"), (128, 1, "math")], [0, 1, 1]),
        ([(64, 2, "math"), (64, 2, "")], [0, 1]), ([(64, 3, ""), (128, 3, "")], [0, 1]),
        ([(64, 2, ""), (64, 3, "")], [0, 0]),
    ],
)  # fmt: skip
def test_who_shares_scratch(asked: list[tuple[int, int, str]], areas: list[int]):
    """Users that come one after the other; teams at once only with slots as large."""
    memory = SharedMemory(H200)
    rings = [memory.scratch(tile_for((rows, 64), f16), n, owner) for rows, n, owner in asked]
    memory.finish(None)
    begins = [ring.offset.value.data for ring in rings]
    order = list(dict.fromkeys(begins))
    assert [order.index(at) for at in begins] == areas
    sizes = [rows * 128 * n for rows, n, _ in asked]
    for area, at in enumerate(order):
        inside = [size for size, own in zip(sizes, areas, strict=True) if own == area]
        end = order[area + 1] if area + 1 < len(order) else memory.used
        assert end - at == max(inside)
        named = [ring for ring, begin in zip(rings, begins, strict=True) if begin == at]
        assert sum(ALIAS not in ring.attributes for ring in named) == 1
