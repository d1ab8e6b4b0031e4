"""What a kernel's report lists: areas of shared memory, roles with their registers, the rest."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import IntAttr, IntegerAttr, ModuleOp, UnitAttr, f16, i64
from xdsl.ir import Block, Region

from tawa.codegen.shared_memory import tile_for
from tawa.driver.inspection.occupancy import Buffer, RoleUse, occupancy
from tawa.hopper.dialect.structure import Barriers, Ring, Role, SharedWarpGroup
from tawa.hopper.dialect.types import RingType
from tawa.machine.chips import H100
from tawa.runtime.compile_log import FunctionUsage
from tawa.simulate.interpret.cta import ALIAS


def report(
    *ops: Any, threads: int = 384, shared: int = 9000, registers: int = 100, cluster: int = 2
) -> Any:
    kernel = func.FuncOp("k", ((), ()), Region(Block([*ops, func.ReturnOp()])))
    for key, value in (("threads", threads), ("shared_bytes", shared), ("cluster", cluster)):
        kernel.attributes[f"hopper.{key}"] = IntegerAttr(value, i64)
    return occupancy(ModuleOp([kernel]), FunctionUsage("k", registers), H100)


def ring(name: str | None, at: int, shape: tuple[int, int] = (8, 64), slots: int = 2) -> Ring:
    op = Ring(at, RingType(IntAttr(slots), tile_for(shape, f16)))
    op.ring.name_hint = name
    return op


def row(name: str | None, at: int, arrivals: int, slots: int) -> Barriers:
    op = Barriers(at, arrivals, slots)
    op.barrier.name_hint = name
    return op


def test_areas_by_their_places() -> None:
    """Those that take another's place are not shown again."""
    again = ring("c", 0)
    again.attributes[ALIAS] = UnitAttr()
    found = report(row("full", 8192, 2, 3), ring("b", 4096, (8, 8), 1), ring("a", 0), again,
                   row(None, 8300, 1, 1), ring(None, 6144)).buffers  # fmt: skip
    assert list(found) == [
        Buffer("a", 0, 2048, 2, "8 x 64 f16, swizzle 128"), Buffer("b", 4096, 128, 1, "8 x 8 f16"),
        Buffer("tile", 6144, 2048, 2, "8 x 64 f16, swizzle 128"),
        Buffer("full", 8192, 24, 3, "arrivals 2"), Buffer("mbarrier", 8300, 8, 1, "arrivals 1"),
    ]  # fmt: skip


@pytest.mark.parametrize(("threads", "rest"), [(384, 0), (416, 1), (512, 4)])
def test_roles_and_who_has_none(threads: int, rest: int) -> None:
    """Registers are a role's own, its warp group's, or those that all begin with."""
    load = Role("load", 0, 4, 1, single=True, registers=24)
    math = Role("math", 4, 4, 2)
    found = report(load, math, threads=threads).roles
    expected = [RoleUse("load", 4, 1, 24, True, True), RoleUse("math", 4, 2, 100, False, False)]
    if rest:
        expected.append(RoleUse("no role", rest, 1, 100, False, False))
    assert list(found) == expected


def test_roles_that_share_a_warp_group_have_its_registers() -> None:
    roles = [Role("load", 0, 1, 1), Role("store", 1, 1, 1)]
    shared = SharedWarpGroup(0, 40, roles)
    found = report(shared, threads=64).roles
    assert list(found) == [
        RoleUse("load", 1, 1, 40, False, True), RoleUse("store", 1, 1, 40, False, True)
    ]  # fmt: skip


def test_what_it_takes_of_a_multiprocessor() -> None:
    found = report(threads=384, shared=9000, registers=168, cluster=2)
    assert (found.threads, found.entry_registers, found.shared_bytes, found.cluster) == (
        384,
        168,
        9000,
        2,
    )
    assert found.limits == {
        "shared memory": H100.ctas_with(9000), "registers": 1, "threads": 5, "CTAs": H100.ctas
    }  # fmt: skip
