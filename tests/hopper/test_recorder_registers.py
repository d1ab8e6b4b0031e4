"""Registers for recorders: what roles of one thread do not need goes to those that compute."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import FunctionType, IntegerAttr, i32
from xdsl.dialects.func import FuncOp

from tawa.hopper.dialect.core import number
from tawa.hopper.recording.recorder_registers import shift_registers, threads_of
from tawa.machine.chips import H200


class Stand:
    """Stands for a role."""

    def __init__(self, warps: int, registers: int | None, *, single: bool = False, teams: int = 1):
        self.warps, self.teams, self.single = number(warps), number(teams), single
        self.registers = None if registers is None else number(registers)


def shifted(threads: int, *roles: Any) -> list[int | None]:
    kernel = FuncOp("kernel", FunctionType.from_lists([], []))
    kernel.attributes["hopper.threads"] = IntegerAttr(threads, i32)
    shift_registers(kernel, list(roles), H200)
    return [None if r.registers is None else r.registers.value.data for r in roles]


@pytest.mark.parametrize(
    ("warps", "teams", "threads"), [(1, 1, 128), (4, 1, 128), (5, 1, 256), (4, 2, 256), (2, 2, 128)]
)
def test_registers_are_set_for_whole_warp_groups(warps: int, teams: int, threads: int) -> None:
    assert threads_of(Stand(warps, 24, teams=teams)) == threads  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("threads", "loading", "computing", "groups"),
    [(256, 56, 200, 1), (384, 40, 232, 2), (384, 24, 240, 2), (384, 56, 160, 2), (512, 40, 152, 3)],
)
def test_what_is_free_goes_to_those_that_compute(
    threads: int, loading: int, computing: int, groups: int
) -> None:
    """As far as it goes in whole steps, and no further than a thread may have."""
    step, most = H200.register_step, H200.max_registers // H200.register_step * H200.register_step
    loader, math = Stand(1, loading, single=True), Stand(4 * groups, computing)
    found = shifted(threads, loader, math)
    assert found[0] == H200.min_role_registers
    each = min(H200.max_registers, H200.registers // threads) // step * step
    pool = each * threads - H200.min_role_registers * 128
    assert found[1] is not None
    assert found[1] % step == 0
    assert found[1] <= most
    assert found[1] == min(
        most, computing + (pool - computing * 128 * groups) // (128 * groups) // step * step
    )


def test_all_that_compute_get_as_many_more() -> None:
    one, other = Stand(4, 120), Stand(4, 160)
    found = shifted(384, Stand(1, 56, single=True), one, other)
    assert found[1] is not None
    assert found[2] is not None
    assert (found[1] - 120, found[2] > 160) == (found[2] - 160, True)


def test_without_counts_nothing_is_moved() -> None:
    assert shifted(256, Stand(1, None, single=True), Stand(4, 200)) == [None, 200]
    assert shifted(256, Stand(1, 56, single=True)) == [56]
