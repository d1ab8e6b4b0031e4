"""Roles, threads and places: who runs what, and where buffers lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntAttr, IntegerAttr, StringAttr, UnitAttr, i32
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.traits import NoTerminator, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from tawa.base.types import PlanType
from tawa.hopper.dialect.core import HopperOp, Number, number
from tawa.hopper.dialect.machine import Actor, Steps
from tawa.hopper.dialect.memory import TmaLoad
from tawa.hopper.dialect.text import Writer
from tawa.hopper.dialect.types import BarrierType, RingType, TensorMapType
from tawa.ir.effects import HINT, ORDER, Effects, writes


@irdl_op_definition
class Role(HopperOp):
    """`teams` teams of `warps` warps run the region; with `single`, one thread of them does.

    `gives`: its threads give registers up, as one thread's warp group does. `whole`: all threads of
    the CTA run it, so that none has to ask, and no instruction asks for a warp-uniform number.
    """

    name: ClassVar[str] = "hopper.role"
    role: StringAttr = prop_def(StringAttr)
    first_warp: IntegerAttr = prop_def(Number)
    warps: IntegerAttr = prop_def(Number)
    teams: IntegerAttr = prop_def(Number)
    single: StringAttr | None = opt_prop_def(StringAttr)
    gives: UnitAttr | None = opt_prop_def(UnitAttr)
    whole: UnitAttr | None = opt_prop_def(UnitAttr)
    registers: IntegerAttr | None = opt_prop_def(Number)
    body: Region = region_def("single_block")
    traits = traits_def(NoTerminator(), Effects(writes(ORDER)))

    def __init__(
        self,
        role: str,
        first_warp: int,
        warps: int,
        teams: int,
        body: Region | None = None,
        *,
        single: bool = False,
        gives: bool = False,
        whole: bool = False,
        registers: int | None = None,
    ):
        super().__init__(
            properties={
                "role": StringAttr(role),
                "first_warp": number(first_warp),
                "warps": number(warps),
                "teams": number(teams),
                "single": StringAttr("one thread") if single else None,
                "gives": UnitAttr() if gives else None,
                "whole": UnitAttr() if whole else None,
                "registers": None if registers is None else number(registers),
            },
            regions=[body or Region(Block())],
        )

    @property
    def threads(self) -> int:
        """Threads of one team."""
        return 32 * self.warps.value.data

    @property
    def gives_up(self) -> bool:
        """Whether its threads keep fewer registers than they are launched with."""
        gives = self.single is not None or self.gives is not None
        return gives and self.registers is not None

    def verify_(self) -> None:
        """Register counts are what `setmaxnreg` takes."""
        if self.registers and (
            self.registers.value.data % 8 or not 24 <= self.registers.value.data <= 256
        ):
            raise VerifyException("registers of a role are a multiple of 8 from 24 to 256")
        alone = self.teams.value.data == 1 and self.first_warp.value.data == 0
        if self.whole and (self.single or self.registers or not alone):
            raise VerifyException("a role of all threads is one team, with all registers")

    def cuda(self, w: Writer) -> None:
        """One branch of the kernel's if-else over warps; none around the only role."""
        if self.whole:
            self._all_threads(w)
            return
        first, warps, teams = (p.value.data for p in (self.first_warp, self.warps, self.teams))
        last = first + warps * teams
        with w.block(f"if (warp_id >= {first} && warp_id < {last})"):
            w.line(f"// role {self.role.data}")
            if self.registers:
                way = "down" if self.gives_up else "up"
                w.line(f"set_registers_{way}<{self.registers.value.data}>();")
            w.line(f"const int team = (warp_id - {first}) / {warps};")
            w.line(f"const int warp = (warp_id - {first}) % {warps};")
            w.line("const int thread = warp * 32 + lane;")
            # A reduction leaves its result in a uniform register, where descriptors are computed.
            group = "warp_uniform(warp / 4)" if warps > 4 else "0"
            w.line(f"const int warp_group = {group};")
            w.line("(void)team; (void)warp; (void)thread; (void)warp_group;")
            with w.block(f"if (threadIdx.x == {first * 32})" if self.single else ""):
                w.region(self.body)

    def _all_threads(self, w: Writer) -> None:
        with w.block(""):
            w.line(f"// role {self.role.data}")
            # Else a warp's number has unknown bits, and every coordinate's bits depend on it.
            w.line(f"__builtin_assume(threadIdx.x < {32 * self.warps.value.data});")
            w.line("const int team = 0, warp = threadIdx.x / 32, thread = threadIdx.x;")
            group = "warp / 4" if self.warps.value.data > 4 else "0"
            w.line(f"const int lane = threadIdx.x % 32, warp_group = {group};")
            w.line("(void)team; (void)warp; (void)thread; (void)lane; (void)warp_group;")
            w.region(self.body)

    def run(self, m: Actor) -> Steps:
        """The actors of its warps run the region."""
        return m.role(self)


@irdl_op_definition
class SharedWarpGroup(HopperOp):
    """Roles of fewer than four warps each that share one warp group, from `first_warp` on.

    They compute little, and all four warps give registers up together: `setmaxnreg` is an
    instruction of the whole warp group.
    """

    name: ClassVar[str] = "hopper.shared_warp_group"
    WARPS: ClassVar[int] = 4
    first_warp: IntegerAttr = prop_def(Number)
    registers: IntegerAttr | None = opt_prop_def(Number)
    body: Region = region_def("single_block")
    traits = traits_def(NoTerminator(), Effects(writes(ORDER)))

    def __init__(self, first_warp: int, registers: int | None, roles: Sequence[Role]):
        super().__init__(
            properties={
                "first_warp": number(first_warp),
                "registers": None if registers is None else number(registers),
            },
            regions=[Region(Block(roles))],
        )

    @property
    def gives_up(self) -> bool:
        """Whether its threads keep fewer registers than they are launched with."""
        return self.registers is not None

    def verify_(self) -> None:
        """The roles' warps are the group's, and none sets registers for itself."""
        first = self.first_warp.value.data
        for role in self.body.block.ops:
            if not isinstance(role, Role) or role.registers is not None:
                raise VerifyException("a shared warp group consists of roles without registers")
            begin = role.first_warp.value.data
            end = begin + role.warps.value.data * role.teams.value.data
            if first % self.WARPS or begin < first or end > first + self.WARPS:
                raise VerifyException("a role's warps are not those of its shared warp group")

    def cuda(self, w: Writer) -> None:
        """One branch over warps, with the roles' own branches in it."""
        first = self.first_warp.value.data
        with w.block(f"if (warp_id >= {first} && warp_id < {first + self.WARPS})"):
            if self.registers:
                w.line(f"set_registers_down<{self.registers.value.data}>();")
            w.region(self.body)

    def run(self, m: Actor) -> Steps:
        """The actors of the roles run them."""
        return m.region(self.body)


ANEW = "hopper.anew"
"""Attribute of a branch whose other side is seldom taken: registers hold nothing for that side but
what is the same for all threads."""


@irdl_op_definition
class OneThread(HopperOp):
    """One thread of the CTA, of each team or of each warp group runs the region."""

    name: ClassVar[str] = "hopper.one_thread"
    scope: StringAttr = prop_def(StringAttr)
    body: Region = region_def("single_block")
    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())
    CONDITIONS: ClassVar[dict[str, str]] = {
        "cta": "threadIdx.x == 0",
        "team": "thread == 0",
        "group": "threadIdx.x % 128 == 0",
    }

    def __init__(self, scope: str, body: Region | None = None):
        super().__init__(properties={"scope": StringAttr(scope)}, regions=[body or Region(Block())])

    def verify_(self) -> None:
        """The scope is one that has a first thread."""
        if self.scope.data not in self.CONDITIONS:
            raise VerifyException(f"scope is one of {', '.join(self.CONDITIONS)}")

    def cuda(self, w: Writer) -> None:
        """`if (first thread) { ... }`, and a place where its threads meet the others."""
        condition = self.CONDITIONS[self.scope.data]
        if self.scope.data == "team" and any(isinstance(op, TmaLoad) for op in self.body.walk()):
            # The assembler sees that one thread is left, and loops over no threads that copy.
            condition = "warp == 0 && elected()"
        with w.block(f"if ({condition})"):
            w.region(self.body)
        # Else the branch may end where a loop begins again, whose uniform values then look as if
        # they differed between threads: two moves to uniform registers before each product.
        w.line("rejoin();")

    def run(self, m: Actor) -> Steps:
        """The region, in the actor that holds the thread."""
        return m.one_thread(self.scope.data, self.body)


ALIAS = "hopper.alias"
"""Attribute of a ring whose bytes are also another's: its users keep apart in time."""


@irdl_op_definition
class Ring(HopperOp):
    """Equal tiles at a byte offset of the CTA's shared memory."""

    name: ClassVar[str] = "hopper.smem"
    offset: IntegerAttr = prop_def(Number)
    ring: SSAValue = result_def(RingType)
    traits = traits_def(Pure())
    assembly_format = "`at` $offset attr-dict `:` type($ring)"

    def __init__(self, offset: int, ring: RingType):
        super().__init__(properties={"offset": number(offset)}, result_types=[ring])

    def cuda(self, w: Writer) -> None:
        """The address of the first tile."""
        w.let(self.ring, f"smem + {self.offset.value.data}")

    def run(self, m: Actor) -> None:
        """The offset: shared memory starts at address 0."""
        m.bind(self.ring, self.offset.value.data)


@irdl_op_definition
class Barriers(HopperOp):
    """A row of mbarriers at a byte offset; each phase completes after `arrivals` arrivals."""

    name: ClassVar[str] = "hopper.mbarrier"
    offset: IntegerAttr = prop_def(Number)
    arrivals: IntegerAttr = prop_def(Number)
    barrier: SSAValue = result_def(BarrierType)
    traits = traits_def(Pure())
    assembly_format = "`at` $offset `arrivals` $arrivals attr-dict `:` type($barrier)"

    def __init__(self, offset: int, arrivals: int, slots: int):
        super().__init__(
            properties={"offset": number(offset), "arrivals": number(arrivals)},
            result_types=[BarrierType(IntAttr(slots))],
        )

    def cuda(self, w: Writer) -> None:
        """The address of the first barrier."""
        w.let(self.barrier, f"smem + {self.offset.value.data}")

    def run(self, m: Actor) -> None:
        """The offset: shared memory starts at address 0."""
        m.bind(self.barrier, self.offset.value.data)


class _Place(HopperOp):
    """An i32 that says where the thread is."""

    TEXT: ClassVar[str] = ""
    result: SSAValue = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[i32])

    def cuda(self, w: Writer) -> None:
        """A named constant."""
        w.let(self.result, self.TEXT)


@irdl_op_definition
class TeamIndex(_Place):
    """Which team of the role this is."""

    name: ClassVar[str] = "hopper.team_index"
    TEXT: ClassVar[str] = "team"

    def run(self, m: Actor) -> None:
        """The actor's team."""
        m.bind(self.result, m.team)


@irdl_op_definition
class GroupIndex(_Place):
    """Which warp group of the team this is."""

    name: ClassVar[str] = "hopper.group_index"
    TEXT: ClassVar[str] = "warp_group"

    def run(self, m: Actor) -> None:
        """Groups of 128 threads before the actor's."""
        m.bind(self.result, m.first_thread // 128)


@irdl_op_definition
class ClusterRank(_Place):
    """Which CTA of the cluster this is."""

    name: ClassVar[str] = "hopper.cluster_rank"
    TEXT: ClassVar[str] = "cluster_rank()"

    def run(self, m: Actor) -> None:
        """The CTA's rank."""
        m.bind(self.result, m.rank)


class _Axis(HopperOp):
    """An i32 of the launch grid along one axis."""

    TEXT: ClassVar[str] = ""
    axis: IntegerAttr = prop_def(Number)
    result: SSAValue = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$axis attr-dict"

    def __init__(self, axis: int):
        super().__init__(properties={"axis": number(axis)}, result_types=[i32])

    def cuda(self, w: Writer) -> None:
        """`blockIdx.x` or its like."""
        w.let(self.result, f"{self.TEXT}.{'xyz'[self.axis.value.data]}")


@irdl_op_definition
class BlockId(_Axis):
    """The CTA's index in the launch grid."""

    name: ClassVar[str] = "hopper.block_id"
    TEXT: ClassVar[str] = "blockIdx"

    def run(self, m: Actor) -> None:
        """The CTA's index."""
        m.bind(self.result, m.block[self.axis.value.data])


@irdl_op_definition
class NumBlocks(_Axis):
    """CTAs of the launch grid."""

    name: ClassVar[str] = "hopper.num_blocks"
    TEXT: ClassVar[str] = "gridDim"

    def run(self, m: Actor) -> None:
        """The grid's size."""
        m.bind(self.result, m.grid[self.axis.value.data])


@irdl_op_definition
class PlanEntry(HopperOp):
    """A number of the plan of which CTA runs which programs, a kernel parameter."""

    name: ClassVar[str] = "hopper.plan_entry"
    plan: SSAValue = operand_def(PlanType)
    index: SSAValue = operand_def(i32)
    result: SSAValue = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$plan `[` $index `]` attr-dict"

    def __init__(self, plan: SSAValue, index: SSAValue) -> None:
        super().__init__(operands=[plan, index], result_types=[i32])

    def cuda(self, w: Writer) -> None:
        """A read of the parameter."""
        w.let(self.result, f"{w.name(self.plan)}.entries[{w.name(self.index)}]")

    def run(self, m: Actor) -> None:
        """The entry."""
        m.bind(self.result, np.asarray(m.value(self.plan)[m.integer(self.index)], np.int32))


@irdl_op_definition
class PrefetchTensorMap(HopperOp):
    """Bring a tensor map into the descriptor cache."""

    name: ClassVar[str] = "hopper.prefetch_tensormap"
    map: SSAValue = operand_def(TensorMapType)
    traits = traits_def(Effects(writes(HINT)))
    assembly_format = "$map attr-dict `:` type($map)"

    def __init__(self, map_: SSAValue):
        super().__init__(operands=[map_])

    def cuda(self, w: Writer) -> None:
        """One instruction."""
        w.line(f"prefetch_tensormap({w.name(self.map)});")

    def run(self, m: Actor) -> None:
        """Nothing: a hint."""


STRUCTURE: Sequence[type[HopperOp]] = (
    Role, SharedWarpGroup, OneThread, Ring, Barriers, TeamIndex, GroupIndex, ClusterRank, BlockId,
    NumBlocks, PlanEntry, PrefetchTensorMap,
)  # fmt: skip
