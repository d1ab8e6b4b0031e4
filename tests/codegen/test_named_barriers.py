"""Named barriers of roles: each group, team and turn has its own, and the next role begins behind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from xdsl.dialects import arith
from xdsl.ir import Block, SSAValue

from tawa.codegen.group_lowering import GroupLowering, RowWindow
from tawa.hopper.dialect.structure import GroupIndex, TeamIndex
from tawa.hopper.dialect.sync import CtaSync, NamedBarrierSync
from tawa.ir.elementwise import Map


def lowering(
    teams: int, warps: int, first: int = 1, *, sliced: bool = False, only: bool = False
) -> tuple[GroupLowering, Block]:
    def number(value: int) -> Any:
        return SimpleNamespace(value=SimpleNamespace(data=value))

    group: Any = SimpleNamespace(
        warps=number(warps), teams=number(teams), sliced=number(1) if sliced else None, single=None
    )
    kernel: Any = SimpleNamespace(only_group=only)
    made = GroupLowering(kernel, group, SimpleNamespace(), first, {})  # type: ignore[arg-type]
    block = Block()
    made._block.append(block)  # pyright: ignore[reportPrivateUsage]
    return made, block


def value_of(value: SSAValue, group: int, team: int) -> int:
    """What a scalar is in a group of a team; groups are counted in their team."""
    op = value.owner
    if isinstance(op, arith.ConstantOp):
        return op.value.value.data  # type: ignore[union-attr]
    if isinstance(op, GroupIndex):
        return group
    if isinstance(op, TeamIndex):
        return team
    assert isinstance(op, Map)
    one, other = (value_of(v, group, team) for v in op.arguments)
    return one + other if op.function.data == "addi" else one * other


SHAPES = [(1, 1), (1, 4), (1, 8), (2, 4), (2, 8), (3, 4), (3, 8), (2, 12)]


@pytest.mark.parametrize(("teams", "warps"), SHAPES)
@pytest.mark.parametrize("first", [1, 5])
def test_no_two_meetings_have_the_same_barrier(teams: int, warps: int, first: int) -> None:
    g, _ = lowering(teams, warps, first)
    groups = max(1, warps // 4)
    own, whole = g.group_barrier(), g.team_barrier()
    of_groups = {(t, k): value_of(own, k, t) for t in range(teams) for k in range(groups)}
    of_teams = {t: {value_of(whole, k, t) for k in range(groups)} for t in range(teams)}
    assert all(len(found) == 1 for found in of_teams.values()), "all of a team meet at one"
    used = sorted(of_groups.values())
    if groups > 1:
        used += sorted(n for found in of_teams.values() for n in found)
    else:
        assert [*of_teams.values()] == [{of_groups[t, 0]} for t in range(teams)]
    turns = [g.turn_barrier() + t for t in range(teams)]
    if groups > 1:
        turns += [g.group_turn_barrier() + k for k in range(groups)]
    assert sorted(used + turns) == list(range(first, g.next_barrier())), "each once, none left out"


@pytest.mark.parametrize(("teams", "warps"), SHAPES)
def test_teams_that_share_iterations_take_no_turns(teams: int, warps: int) -> None:
    g, _ = lowering(teams, warps, 3, sliced=True)
    groups = max(1, warps // 4)
    assert g.next_barrier() == 3 + teams * groups + (teams if groups > 1 else 0)
    assert g.storing == 1
    assert lowering(teams, warps)[0].storing == teams


@pytest.mark.parametrize(("teams", "warps"), SHAPES)
@pytest.mark.parametrize("only", [False, True])
def test_how_a_team_meets(teams: int, warps: int, only: bool) -> None:
    """All of a kernel's threads by the barrier of the CTA; a warp and parts of them by a named one."""
    g, block = lowering(teams, warps, only=only)
    meeting = g.meet()
    assert block.last_op is meeting
    if only and teams == 1 and warps > 1:
        assert isinstance(meeting, CtaSync)
    else:
        assert isinstance(meeting, NamedBarrierSync)
        assert meeting.threads.value.data == 32 * warps
    before = len(list(block.ops))
    again = g.meeting()
    assert len(list(block.ops)) == before, "they are for whoever asked"
    assert type(again[-1]) is type(meeting)
    assert all(op.parent is None for op in again)


def test_sums_with_numbers() -> None:
    g, block = lowering(1, 4)
    value = g.constant(7)
    assert g.plus(value, 0) is value
    assert value_of(g.plus(value, -3), 0, 0) == 4
    assert g.block is block


@pytest.mark.parametrize("pitch", [8, 16, 40])
def test_rows_of_a_window(pitch: int) -> None:
    """Eight at a time, each group so many rows behind the one before."""
    window = RowWindow(lowering(1, 4)[0].constant(0), pitch)
    assert [window.row(n) for n in (0, 7, 8, 9, 16, 23)] == [
        0, 7, pitch, pitch + 1, 2 * pitch, 2 * pitch + 7]  # fmt: skip
