"""The vocabulary of the aref level: tile's ops in warp-group regions that talk through arefs.

The regions of a module run concurrently, and tiles cross from one to another through arefs alone
(`channel_ops`). What can no longer appear here: descriptor loads that give a value, and products
that are done when they are issued. What cannot appear yet: an mbarrier, a shared-memory address.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i32, i64
from xdsl.ir import Block, Dialect, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.traits import NoTerminator, Pure

from tawa.aref.dialect.channel_ops import (
    CHANNEL_OPS,
    COMPLETIONS,
    Advance,
    Agree,
    ArefOp,
    Consumed,
    CopyInto,
    Create,
    GetEnter,
    LoadInto,
    NoToken,
    OpensSlot,
    PutEnter,
    PutExit,
    Start,
    StoreInto,
    TransposeInto,
    ViewChange,
    ViewRead,
    ViewReshape,
    Views,
    ViewSlice,
    ViewTrans,
)
from tawa.aref.dialect.compute_ops import (
    COMPUTE_OPS,
    Any,
    AnyAbove,
    DotIssue,
    DotWait,
    LanePartials,
    Restage,
    Stage,
    Unset,
    ZeroUnless,
)
from tawa.aref.dialect.types import CursorType, RefType, TokenType, ViewType
from tawa.aref.dialect.warp_ops import WARP_OPS, WarpDot
from tawa.base.types import PlanType
from tawa.ir.effects import MEETING, ORDER, Effects, writes

__all__ = [
    "AREF",
    "Advance",
    "Agree",
    "Any",
    "AnyAbove",
    "ArefOp",
    "COMPLETIONS",
    "Consumed",
    "CopyInto",
    "Create",
    "CtaCount",
    "CtaIndex",
    "CursorType",
    "DotIssue",
    "DotWait",
    "GetEnter",
    "GroupTurn",
    "LanePartials",
    "EdgeRow",
    "LoadInto",
    "NoToken",
    "PlanEntry",
    "PutEnter",
    "PutExit",
    "RefType",
    "Restage",
    "Stage",
    "Start",
    "StoreInto",
    "TeamIndex",
    "TokenType",
    "TransposeInto",
    "TurnPass",
    "TurnWait",
    "Unset",
    "OpensSlot",
    "ViewChange",
    "ViewRead",
    "ViewReshape",
    "ViewSlice",
    "ViewTrans",
    "Views",
    "ViewType",
    "WarpDot",
    "WarpGroup",
    "ZeroUnless",
]


@irdl_op_definition
class WarpGroup(ArefOp):
    """`teams` teams of `warps` warps run the region concurrently with the other regions.

    `single`: one thread of it suffices. `copies`: it loads as such a role does, but through
    pointers, with all its threads. `moves`: it moves tiles between rings and computes nothing, so
    it needs few registers and shares a warp group with other such roles. `converts`: it computes
    what the products of another role read. The warp groups of a team share the rows of a matrix
    product, or with `split_columns` its columns. Teams take turns on tiles or, where they are
    `sliced`, on the iterations of one tile's loop.
    """

    name: ClassVar[str] = "aref.warp_group"
    role: StringAttr = prop_def(StringAttr)
    warps: IntegerAttr = prop_def(IntegerAttr)
    teams: IntegerAttr = prop_def(IntegerAttr)
    single: UnitAttr | None = opt_prop_def(UnitAttr)
    copies: UnitAttr | None = opt_prop_def(UnitAttr)
    moves: UnitAttr | None = opt_prop_def(UnitAttr)
    converts: UnitAttr | None = opt_prop_def(UnitAttr)
    split_columns: UnitAttr | None = opt_prop_def(UnitAttr)
    sliced: UnitAttr | None = opt_prop_def(UnitAttr)
    body: Region = region_def("single_block")
    traits = traits_def(NoTerminator(), Effects(writes(ORDER)))

    def __init__(
        self,
        role: str,
        warps: int,
        teams: int,
        body: Region | None = None,
        *,
        single: bool = False,
        copies: bool = False,
        moves: bool = False,
        converts: bool = False,
        split_columns: bool = False,
    ):
        super().__init__(
            properties={
                "role": StringAttr(role),
                "warps": IntegerAttr(warps, i64),
                "teams": IntegerAttr(teams, i64),
                "single": UnitAttr() if single else None,
                "copies": UnitAttr() if copies else None,
                "moves": UnitAttr() if moves else None,
                "converts": UnitAttr() if converts else None,
                "split_columns": UnitAttr() if split_columns else None,
            },
            regions=[body or Region(Block())],
        )

    @property
    def computes(self) -> bool:
        """Whether its warps compute, rather than load or move tiles."""
        return not self.loads and self.moves is None

    @property
    def slices(self) -> int:
        """Teams that share the iterations of its loop."""
        return self.teams.value.data if self.sliced is not None else 1

    @property
    def loads(self) -> bool:
        """Whether it fills rings from memory: one thread of it, or all."""
        return self.single is not None or self.copies is not None


@irdl_op_definition
class TeamIndex(ArefOp):
    """Which team of the warp group's region this is."""

    name: ClassVar[str] = "aref.team_index"
    result: SSAValue = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[i32])


class _Cta(ArefOp):
    """An i32 about the launch's CTAs."""

    result: SSAValue = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[i32])


@irdl_op_definition
class CtaIndex(_Cta):
    """The CTA's index along x: where a persistent kernel's loop over programs starts."""

    name: ClassVar[str] = "aref.cta_index"


@irdl_op_definition
class CtaCount(_Cta):
    """CTAs along x: the step of a persistent kernel's loop over programs."""

    name: ClassVar[str] = "aref.cta_count"


@irdl_op_definition
class PlanEntry(ArefOp):
    """A number of the plan of which CTA runs which programs (`base.tile_scheduler`)."""

    name: ClassVar[str] = "aref.plan_entry"
    plan: SSAValue = operand_def(PlanType)
    index: SSAValue = operand_def(i32)
    result: SSAValue = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$plan `[` $index `]` attr-dict"

    def __init__(self, plan: SSAValue, index: SSAValue) -> None:
        super().__init__(operands=[plan, index], result_types=[i32])


@irdl_op_definition
class EdgeRow(ArefOp):
    """The first or last row that this warp group has of a tile's `rows`, which its team shares."""

    name: ClassVar[str] = "aref.edge_row"
    rows: IntegerAttr = prop_def(IntegerAttr)
    edge: StringAttr = prop_def(StringAttr)
    result: SSAValue = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$edge `of` $rows attr-dict"

    def __init__(self, rows: int, edge: str) -> None:
        properties = {"rows": IntegerAttr(rows, i64), "edge": StringAttr(edge)}
        super().__init__(properties=properties, result_types=[i32])


class _Turn(ArefOp):
    """Teams of a warp group that take turns."""

    traits = traits_def(Effects(writes(MEETING)))
    assembly_format = "attr-dict"


@irdl_op_definition
class TurnWait(_Turn):
    """Wait until it is this team's iteration."""

    name: ClassVar[str] = "aref.turn_wait"


@irdl_op_definition
class TurnPass(_Turn):
    """Give the iteration to the next team."""

    name: ClassVar[str] = "aref.turn_pass"


@irdl_op_definition
class GroupTurn(ArefOp):
    """The warp groups of a team take turns: `wait` for the own one, `pass` it on, or `start`.

    At the start, once, it is the first group's iteration.
    """

    name: ClassVar[str] = "aref.group_turn"
    step: StringAttr = prop_def(StringAttr)
    traits = traits_def(Effects(writes(MEETING)))
    assembly_format = "$step attr-dict"

    def __init__(self, step: str):
        super().__init__(properties={"step": StringAttr(step)})


ROLE_OPS: tuple[type[ArefOp], ...] = (
    WarpGroup, TeamIndex, CtaIndex, CtaCount, PlanEntry, EdgeRow, TurnWait, TurnPass, GroupTurn,
)  # fmt: skip

AREF = Dialect(
    "aref",
    [*ROLE_OPS, *CHANNEL_OPS, *COMPUTE_OPS, *WARP_OPS],
    [RefType, ViewType, CursorType, TokenType],
)
