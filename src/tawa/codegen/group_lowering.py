"""The state of lowering one warp group's region: what each value of the aref level has become."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from tawa.aref.analysis.layouts import Layouts
from tawa.aref.analysis.staging import memory_shared
from tawa.aref.analysis.windows import GROUP
from tawa.aref.dialect import ops as aref
from tawa.aref.passes.warp_products import multiplies_by_warps
from tawa.base.errors import TawaError
from tawa.base.layout import Layout
from tawa.base.spans import copy_span, span_of
from tawa.base.types import byte_size, element_of, shape_of
from tawa.codegen.kernel_lowering import KernelLowering
from tawa.hopper.dialect.matrix import words_type
from tawa.hopper.dialect.structure import GroupIndex, OneThread, Ring, TeamIndex
from tawa.hopper.dialect.sync import CtaSync, NamedBarrierSync
from tawa.hopper.dialect.types import FragType
from tawa.ir.elementwise import Map, scalar_constant
from tawa.machine.chips import SM_90A

GROUP_WARPS = SM_90A.group_warps


class TileNotSupported(TawaError):
    """An edited `.aref` stage holds an op that earlier passes replace."""

    explanation = (
        "Every op of the tile level has a lowering, but some are replaced before the last level: "
        "descriptor loads by puts and gets, products by those of warp groups or of warps. They may "
        "not stand in a stage that is given with `--start` or `--override`."
    )
    example = '''
from tawa.base.options import Options
from tawa.driver.compilation import Compilation
from tawa.driver.compiler import resume

text = """
builtin.module {
  func.func @product() {
    "aref.warp_group"() <{role = "main", warps = 4 : i64, teams = 1 : i64}> ({
      %zero = arith.constant 0.0 : f32
      %tile = tile.splat %zero : f32 -> tensor<8x8xf32>
      %sum = tile.dot %tile, %tile, %tile : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
    }) : () -> ()
    func.return
  }
}
"""
resume("product", ("aref", text), Compilation(Options()))
'''


@dataclass(frozen=True)
class RowWindow:
    """Rows of a tile in groups of 8: the first of them, and rows from group to group."""

    start: SSAValue
    pitch: int

    def row(self, number: int) -> int:
        """Where a row of the window lies, counted from its first."""
        return number // GROUP * self.pitch + number % GROUP


@dataclass(frozen=True)
class View:
    """A tile in shared memory as an operand: its value, its shape, and whether it is transposed.

    `interleaved`: its rows hold K in the order in which registers of a product's result do.
    `window`: which of the tile's rows it has, if not all.
    """

    tile: SSAValue
    shape: tuple[int, ...]
    transposed: bool = False
    interleaved: bool = False
    window: RowWindow | None = None


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
    staged: dict[aref.Stage | None, Ring] = field(default_factory=dict[aref.Stage | None, Ring])
    """Where copies of computed tiles are, for those that take their place later."""
    last_exchange: tuple[Block | None, int] = (None, 0)
    """The block of the last small exchange (see `fragments.exchanged`), and its area."""
    conditional: Block | None = None
    """The region's block that is being lowered, while ops are for some of its iterations alone."""
    anew: bool = False
    """Whether what is made is made where it is needed, of all that threads differ in, too."""
    _block: list[Block] = field(default_factory=list[Block])
    _levels: dict[Block, int] = field(default_factory=dict[Block, int])
    """Of the region's blocks that are being lowered: how many blocks of `_block` are around."""
    _span: Operation | None = None

    @cached_property
    def memory_shared(self) -> dict[aref.Stage, aref.Stage]:
        """Copies of computed tiles that go where an earlier one went, and that one."""
        return memory_shared(self.group)

    @property
    def warps(self) -> int:
        """Warps of a team."""
        return self.group.warps.value.data

    @property
    def groups(self) -> int:
        """Warp groups of a team."""
        return max(1, self.warps // GROUP_WARPS)

    @property
    def storing(self) -> int:
        """Teams that store: the first alone where all of them add up to one tile."""
        return 1 if self.group.sliced is not None else self.teams

    @property
    def teams(self) -> int:
        """Teams of the region."""
        return self.group.teams.value.data

    @cached_property
    def multiplies_by_warps(self) -> bool:
        """Whether the region has products, and warps do all of them by themselves."""
        return multiplies_by_warps(self.group)

    @property
    def single(self) -> bool:
        """Whether one thread runs the region."""
        return self.group.single is not None

    def add(self, op: Operation, hint: str | None = None) -> SSAValue:
        """Append an op to the current block; returns its first result."""
        self.do(op)
        result = op.results[0]
        if hint:
            result.name_hint = hint
        return result

    @contextmanager
    def made_for(self, op: Operation) -> Generator[None]:
        """What is appended meanwhile has the source range of `op`."""
        before, self._span = self._span, op
        yield
        self._span = before

    def do(self, op: Operation) -> None:
        """Append an op to the current block."""
        if self._span is not None:
            copy_span(self._span, [op])
        self._block[-1].add_op(op)

    def constant(self, value: int) -> SSAValue:
        """A constant of type i32."""
        return self.add(scalar_constant(IntegerAttr(value, i32)))

    def map(self, function: str, *operands: SSAValue, type_: Attribute | None = None) -> SSAValue:
        """A scalar function of values."""
        return self.add(Map(function, operands, type_))

    def plus(self, value: SSAValue, offset: int) -> SSAValue:
        """An i32 and a number known now."""
        return self.map("addi", value, self.constant(offset)) if offset else value

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

    def meet(self) -> Operation:
        """All warps of this team meet; of a single warp, its lanes."""
        alone = self.kernel.only_group and self.teams == 1 and self.warps > 1
        meeting = CtaSync() if alone else NamedBarrierSync(self.team_barrier(), 32 * self.warps)
        self.do(meeting)
        return meeting

    def meeting(self) -> list[Operation]:
        """Ops by which all warps of this team meet."""
        block = Block()
        self._block.append(block)
        self.meet()
        self._block.pop()
        made = list(block.ops)
        for op in made:
            op.detach()
        return made

    def turn_barrier(self) -> int:
        """The first of the named barriers by which teams take turns."""
        if self.groups == 1:
            return self.first_barrier + self.teams
        return self.group_turn_barrier() + self.groups

    def group_turn_barrier(self) -> int:
        """The first of the named barriers by which the groups of a team take turns."""
        return self.first_barrier + self.teams * self.groups + self.teams

    def next_barrier(self) -> int:
        """The first named barrier that is not this role's."""
        if self.group.sliced is not None:  # its teams take no turns
            return self.first_barrier + self.teams * (self.groups + (self.groups > 1))
        return self.turn_barrier() + self.teams

    @property
    def block(self) -> Block:
        """The block to which ops are appended now."""
        return self._block[-1]

    def inside(self, block: Block, body: Callable[[], None]) -> None:
        """Append what `body` makes to another block; what it makes is not reused outside."""
        self._block.append(block)
        self.made.append({})
        body()
        self.made.pop()
        self._block.pop()

    @contextmanager
    def where_defined(self, value: SSAValue) -> Generator[None]:
        """What is appended meanwhile goes to the end of the block in which a value is defined.

        So a role that copies computes what does not change in a loop before the loop. What changes
        and only some iterations need (those of `conditional`'s block), it computes where they do.
        """
        home = value.owner if isinstance(value.owner, Block) else value.owner.parent
        if home is self.conditional or self.anew:
            yield
            return
        level = self._levels.get(home, 0) + 1 if home is not None else 1
        blocks, made = self._block, self.made
        self._block, self.made = blocks[:level], made[:level]
        yield
        self._block, self.made = blocks, made

    def inside_loop(self, value: SSAValue) -> bool:
        """Whether what is appended now is done again and again, and a value made before."""
        home = value.owner if isinstance(value.owner, Block) else value.owner.parent
        around, looped = self._span, False
        while around is not None and around.parent is not home:
            around = around.parent_op()
            looped |= isinstance(around, scf.ForOp | scf.WhileOp)
        return looped and around is not None

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
        self._levels[block] = len(self._block) - 1
        for op in block.ops:
            if isinstance(op, scf.YieldOp | scf.ConditionOp):
                continue
            handler = self.table.get(type(op))
            if handler is None:
                raise TileNotSupported(
                    f"{op.name} can't stand in a warp group at this level",
                    span=span_of(op),
                    hint="leave the stage before to the compiler, or write what it makes of the op",
                )
            with self.made_for(op):
                handler(self, op)

    # --- carried values: one old value is one or two new ones -------------------------------------

    def carried_types(self, value: SSAValue) -> list[Attribute]:
        """The types of the new values that stand for an old one."""
        if isinstance(value.type, aref.CursorType):
            return [i32, i32]
        if isinstance(value.type, aref.TokenType):
            return [i32]
        if value in self.layouts.packed:
            size = byte_size(element_of(value.type))
            return [words_type(shape_of(value.type), self.warps, size)]
        if shape_of(value.type):
            return [FragType.of(element_of(value.type), self.layouts.of[value])]
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

    def bind_all(self, old: Sequence[SSAValue], new: Sequence[SSAValue]) -> None:
        """Let new values stand for old ones, in order."""
        rest = list(new)
        for value in old:
            count = len(self.carried_types(value))
            self.bind(value, rest[:count])
            rest = rest[count:]
