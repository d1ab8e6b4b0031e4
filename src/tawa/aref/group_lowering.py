"""One warp group's region, aref -> hopper: control flow, scalars and the table of ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, i32
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from tawa.aref import ops as aref
from tawa.aref.layouts import Layouts
from tawa.base.elementwise import Map
from tawa.base.layout import Layout
from tawa.base.loops import terminator
from tawa.base.spans import copy_span
from tawa.base.types import shape_of
from tawa.hopper.ops.structure import BlockId, GroupIndex, NumBlocks, OneThread, TeamIndex
from tawa.hopper.types import FragType
from tawa.tile.ops import NumPrograms, ProgramId

if TYPE_CHECKING:
    from tawa.aref.lower import KernelLowering


GROUP_WARPS = 4


@dataclass(frozen=True)
class View:
    """A tile in shared memory as an operand: its value, its logical shape, and if it is transposed."""

    tile: SSAValue
    shape: tuple[int, ...]
    transposed: bool = False


@dataclass(frozen=True)
class Cursor:
    """Slot and phase, two i32 values."""

    slot: SSAValue
    phase: SSAValue


@dataclass
class GroupLowering:
    """The state of lowering one warp group: what each old value has become."""

    kernel: KernelLowering
    group: aref.WarpGroup
    layouts: Layouts
    first_barrier: int
    table: dict[type[Operation], Callable[..., None]]
    scalars: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    cursors: dict[SSAValue, Cursor] = field(default_factory=dict[SSAValue, Cursor])
    views: dict[SSAValue, View] = field(default_factory=dict[SSAValue, View])
    fragments: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    made: list[dict[tuple[SSAValue, Layout], SSAValue]] = field(default_factory=lambda: [{}])
    pending_puts: dict[SSAValue, list[Operation]] = field(
        default_factory=dict[SSAValue, "list[Operation]"]
    )
    stores_seen: dict[int, int] = field(default_factory=dict[int, int])
    _block: list[Block] = field(default_factory=list[Block])
    _span: Operation | None = None

    @property
    def warps(self) -> int:
        """Warps of a team."""
        return self.group.warps.value.data

    @property
    def groups(self) -> int:
        """Warp groups of a team."""
        return max(1, self.warps // GROUP_WARPS)

    @property
    def teams(self) -> int:
        """Teams of the region."""
        return self.group.teams.value.data

    @property
    def single(self) -> bool:
        """Whether one thread runs the region."""
        return self.group.single is not None

    def add(self, op: Operation, hint: str | None = None) -> SSAValue:
        """Append an op to the current block; returns its first result."""
        if self._span is not None:
            copy_span(self._span, [op])
        self._block[-1].add_op(op)
        if op.results and hint:
            op.results[0].name_hint = hint
        return op.results[0] if op.results else op  # pyright: ignore[reportReturnType]

    def do(self, op: Operation) -> None:
        """Append an op without a result."""
        self.add(op)

    def constant(self, value: int, type_: Attribute = i32) -> SSAValue:
        """An integer constant."""
        return self.add(arith.ConstantOp(IntegerAttr(value, type_)))  # pyright: ignore[reportArgumentType]

    def map(self, function: str, *operands: SSAValue, type_: Attribute | None = None) -> SSAValue:
        """A scalar function of values."""
        return self.add(Map(function, operands, type_))

    def group_index(self) -> SSAValue:
        """Which warp group of its team this is."""
        return self.add(GroupIndex(), "group")

    def team_index(self) -> SSAValue:
        """Which team this is."""
        return self.add(TeamIndex(), "team_id")

    def group_barrier(self) -> SSAValue:
        """The named barrier of this warp group."""
        base = self.first_barrier
        if self.teams == 1 and self.groups == 1:
            return self.constant(base)
        index = self.group_index()
        if self.teams > 1:
            scaled = self.map("muli", self.team_index(), self.constant(self.groups))
            index = scaled if self.groups == 1 else self.map("addi", index, scaled)
        return self.map("addi", index, self.constant(base))

    def team_barrier(self) -> SSAValue:
        """The named barrier of all warps of this team."""
        if self.groups == 1:
            return self.group_barrier()
        base = self.first_barrier + self.teams * self.groups
        if self.teams == 1:
            return self.constant(base)
        return self.map("addi", self.team_index(), self.constant(base))

    def turn_barrier(self) -> int:
        """The first of the named barriers by which teams take turns."""
        own = self.teams * self.groups
        return self.first_barrier + own + (self.teams if self.groups > 1 else 0)

    def inside(self, block: Block, body: Callable[[], None]) -> None:
        """Append what `body` makes to another block; what it makes is not reused outside."""
        self._block.append(block)
        self.made.append({})
        body()
        self.made.pop()
        self._block.pop()

    def one_thread(self, scope: str, body: Callable[[], None]) -> None:
        """Ops that one thread of the scope runs."""
        block = Block()
        self.inside(block, body)
        self.do(OneThread(scope, Region(block)))

    def scalar(self, value: SSAValue) -> SSAValue:
        """What a scalar has become; a kernel argument is looked up (and counted as used)."""
        if value not in self.scalars:
            assert isinstance(value, BlockArgument)
            return self.kernel.argument(value)
        return self.scalars[value]

    def run(self, block: Block) -> None:
        """Lower the region into `block`."""
        self._block.append(block)
        self.ops(self.group.body.block)
        self._block.pop()

    def ops(self, block: Block) -> None:
        """Lower the ops of a block, terminator excluded."""
        for op in block.ops:
            if isinstance(op, scf.YieldOp | scf.ConditionOp):
                continue
            before, self._span = self._span, op
            handler = self.table.get(type(op))
            if handler is None:
                raise NotImplementedError(f"{op.name} has no lowering to the hopper level")
            handler(self, op)
            self._span = before

    # --- carried values: one old value is one or two new ones -------------------------------------

    def expand(self, value: SSAValue, layout: Layout | None) -> list[SSAValue]:
        """The new values that stand for an old one."""
        from tawa.aref.tensors import fragment  # the two modules lower each other's operands

        if isinstance(value.type, aref.CursorType):
            cursor = self.cursors[value]
            return [cursor.slot, cursor.phase]
        if layout is not None:
            return [fragment(self, value, layout)]
        return [self.scalar(value)]

    def carried_types(self, value: SSAValue) -> list[Attribute]:
        """The types of the new values that stand for an old one."""
        if isinstance(value.type, aref.CursorType):
            return [i32, i32]
        if isinstance(value.type, aref.TokenType):
            return [i32]
        if shape_of(value.type):
            return [FragType.of(value.type.element_type, self.layouts.of[value])]  # pyright: ignore[reportAttributeAccessIssue]
        return [value.type]

    def bind(self, old: SSAValue, new: list[SSAValue]) -> None:
        """Let new values stand for an old one."""
        for n in new:
            n.name_hint = n.name_hint or old.name_hint
        if isinstance(old.type, aref.CursorType):
            new[0].name_hint, new[1].name_hint = f"{old.name_hint}_slot", f"{old.name_hint}_phase"
            self.cursors[old] = Cursor(new[0], new[1])
        elif shape_of(old.type):
            self.fragments[old] = new[0]
        else:
            self.scalars[old] = new[0]

    def expand_all(self, values: Sequence[SSAValue], like: Sequence[SSAValue]) -> list[SSAValue]:
        """Expand values in the layouts of the values they are carried to."""
        found: list[SSAValue] = []
        for value, target in zip(values, like, strict=True):
            found += self.expand(value, self.layouts.of.get(target))
        return found

    def bind_all(self, old: Sequence[SSAValue], new: Sequence[SSAValue]) -> None:
        """Let new values stand for old ones, in order."""
        rest = list(new)
        for value in old:
            count = len(self.carried_types(value))
            self.bind(value, rest[:count])
            rest = rest[count:]


def lower_for(g: GroupLowering, op: scf.ForOp) -> None:
    """A loop; its carried values are expanded."""
    body = op.body.block
    inits = g.expand_all(op.iter_args, body.args[1:])
    types = [t for a in body.args[1:] for t in g.carried_types(a)]
    block = Block(arg_types=[body.args[0].type, *types])
    block.args[0].name_hint = body.args[0].name_hint
    g.scalars[body.args[0]] = block.args[0]
    g.bind_all(body.args[1:], block.args[1:])
    bounds = [g.scalar(v) for v in (op.lb, op.ub, op.step)]

    def inner() -> None:
        g.ops(body)
        g.do(scf.YieldOp(*g.expand_all(terminator(body).operands, body.args[1:])))

    g.inside(block, inner)
    loop = scf.ForOp(bounds[0], bounds[1], bounds[2], inits, block)
    g.do(loop)
    g.bind_all(op.results, loop.results)


def lower_if(g: GroupLowering, op: scf.IfOp) -> None:
    """A branch; its results are expanded."""
    types = [t for r in op.results for t in g.carried_types(r)]
    regions: list[Region] = []
    for region in op.regions:
        if not region.blocks:
            regions.append(Region())
            continue
        block, source = Block(), region.block

        def inner(source: Block = source) -> None:
            g.ops(source)
            g.do(scf.YieldOp(*g.expand_all(terminator(source).operands, op.results)))

        g.inside(block, inner)
        regions.append(Region(block))
    branch = scf.IfOp(g.scalar(op.cond), types, regions[0], regions[1])
    g.do(branch)
    g.bind_all(op.results, branch.results)


def lower_while(g: GroupLowering, op: scf.WhileOp) -> None:
    """A while loop; its carried values are expanded."""
    before, after = op.before_region.block, op.after_region.block
    inits = g.expand_all(op.arguments, before.args)
    first = Block(arg_types=[t for a in before.args for t in g.carried_types(a)])
    second = Block(arg_types=[t for a in after.args for t in g.carried_types(a)])
    g.bind_all(before.args, first.args)
    g.bind_all(after.args, second.args)

    def check() -> None:
        g.ops(before)
        condition, *passed = terminator(before).operands
        g.do(scf.ConditionOp(g.scalar(condition), *g.expand_all(passed, after.args)))

    def step() -> None:
        g.ops(after)
        g.do(scf.YieldOp(*g.expand_all(terminator(after).operands, before.args)))

    g.inside(first, check)
    g.inside(second, step)
    types = [a.type for a in second.args]
    loop = scf.WhileOp(inits, types, Region(first), Region(second))
    g.do(loop)
    g.bind_all(op.results, loop.results)


def lower_constant(g: GroupLowering, op: arith.ConstantOp) -> None:
    """A scalar constant."""
    assert isinstance(op.value, IntegerAttr | FloatAttr)
    g.scalars[op.result] = g.add(arith.ConstantOp(op.value), op.result.name_hint)


def lower_program(g: GroupLowering, op: ProgramId | NumPrograms) -> None:
    """The CTA's place in the grid, or the grid's size."""
    kind = BlockId if isinstance(op, ProgramId) else NumBlocks
    g.scalars[op.result] = g.add(kind(op.axis.value.data), op.result.name_hint)


def lower_cta(g: GroupLowering, op: aref.CtaIndex | aref.CtaCount) -> None:
    """Start and step of a persistent kernel's loop."""
    kind = BlockId if isinstance(op, aref.CtaIndex) else NumBlocks
    g.scalars[op.result] = g.add(kind(0), op.result.name_hint)


def lower_team(g: GroupLowering, op: aref.TeamIndex) -> None:
    """Which team this is."""
    g.scalars[op.result] = g.team_index()


CONTROL: dict[type[Operation], Callable[..., None]] = {
    scf.ForOp: lower_for,
    scf.IfOp: lower_if,
    scf.WhileOp: lower_while,
    arith.ConstantOp: lower_constant,
    ProgramId: lower_program,
    NumPrograms: lower_program,
    aref.CtaIndex: lower_cta,
    aref.CtaCount: lower_cta,
    aref.TeamIndex: lower_team,
}
"""Lowering of control flow and scalars."""
