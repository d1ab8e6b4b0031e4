"""Register prefetch: what loops with long iterations load through pointers comes one ahead.

A loop loads tiles that can't go through rings (`partition.pointer_loads`), copies them to shared
memory and multiplies them there; or it loads a little beside its products: the gates of a chunk, a
scale, the bias of a row. Such loads wait for memory in every iteration, with nothing to do. So the
loop carries what it loads: while the products of an iteration run, the next iteration's loads are
under way. What their addresses and masks need is computed for the next iteration, from what this
iteration passes on.

Of the loads that no product's staging buffer reads, those of a few registers are taken: larger ones
would hold registers through the products. They are started with the iteration before, if their
addresses are known by then: what comes before its products and after them hides their latency, too.

So are loops of roles without products whose threads combine a tile in each iteration, as the
products of a row with all rows of a block: the assembler begins no iteration before the one before
is over. What such a loop computes has to be more than what it loads, and all that it loads a
little: registers and the question whether there is a next iteration cost what is gained otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, ModuleOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.utils.hints import isa

from tawa.aref.dialect.ops import DotIssue, Stage, StoreInto, WarpDot, WarpGroup
from tawa.base.spans import copy_span, span_of
from tawa.base.types import PtrType, byte_size, element_of, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.loops import LoadedIntoRegistersAhead
from tawa.ir.effects import ORDER, is_collective, is_pure, only_reads, touches
from tawa.ir.elementwise import Map
from tawa.ir.loops import carry, extend_yield, terminator
from tawa.ir.properties import ASYNCHRONOUS, TIDY
from tawa.ir.walking import all_of, every
from tawa.machine.chips import SM_90A
from tawa.tile.analysis.alias import may_be_written, written
from tawa.tile.dialect.ops import ArgReduce, Load, Reduce, ReduceWith, Scan, ScanWith, Splat

REGISTERS = SM_90A.room_registers
"""Registers of a thread that the tiles of a loop may take."""

FEW_REGISTERS = SM_90A.few_registers
"""Registers of a thread that one load beside the products may take."""


class _NotComputable(Exception):
    """A value of the next iteration is not known before this iteration's products."""


@dataclass(frozen=True)
class RegisterPrefetch:
    """Load what is staged for the products of a loop an iteration ahead."""

    decided: Decisions
    enabled: bool = True
    name: ClassVar[str] = "register-prefetch"
    contract: ClassVar[Contract] = Contract(requires=(ASYNCHRONOUS,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Rewrite every loop whose body has a product of a tile that it loads through pointers."""
        if not self.enabled:
            return
        for group in [op for op in every(module) if isinstance(op, WarpGroup) and op.computes]:
            for loop in all_of(group, scf.ForOp):
                self._loop(loop, group.warps.value.data)

    def _loop(self, loop: scf.ForOp, warps: int) -> None:
        body = loop.body.block
        first = next(
            (op for op in body.ops if isinstance(op, DotIssue | WarpDot | StoreInto)), None
        )
        if first is None:
            first = None if _multiplies(loop) else _long_combining(body, warps)
        if first is None:
            return
        loads = self._chosen(_Ahead(loop, first), warps)
        small, start = _small_loads(body, warps), body.first_op
        assert start is not None
        early = [op for op in loads if op in small and _may_be_ahead(_Ahead(loop, start), [op])]
        late = [op for op in loads if op not in early]
        if loads:
            self.decided.add(LoadedIntoRegistersAhead(len(loads), span=span_of(loop)))
        if late:
            loop = _Ahead(loop, first).rewrite(late)
        if early:
            start = loop.body.block.first_op
            assert start is not None
            _Ahead(loop, start).rewrite(early)

    @staticmethod
    def _chosen(ahead: _Ahead, warps: int) -> list[Load]:
        """The loads of a loop that are done ahead: all that are staged, or none, and small ones."""
        body = ahead.body
        staged = _staged_loads(body)
        if _registers(staged, warps) > REGISTERS or not _may_be_ahead(ahead, staged):
            staged = []
        found = set(staged)
        for load in _small_loads(body, warps):
            room = _registers([*found, load], warps) <= REGISTERS
            if load not in found and room and _may_be_ahead(ahead, [load]):
                found.add(load)
        return [op for op in body.ops if op in found and isinstance(op, Load)]


def _combines(op: Operation) -> bool:
    """Whether threads combine what they hold of a tile."""
    combines = isinstance(op, Reduce | ReduceWith | ArgReduce | Scan | ScanWith)
    return combines and any(shape_of(v.type) for v in op.operands)


def _multiplies(loop: scf.ForOp) -> bool:
    """Whether a loop's role multiplies somewhere."""
    role: Operation | None = loop
    while role is not None and not isinstance(role, WarpGroup):
        role = role.parent_op()
    return role is None or any(isinstance(op, DotIssue | WarpDot) for op in every(role))


def _long_combining(body: Block, warps: int) -> Operation | None:
    """What combines a tile in a body that loads a little, and computes more than it loads."""
    loads = _small_loads(body, warps)
    first = next((op for op in body.ops if _combines(op)), None)
    if first is None or len(loads) < sum(isinstance(op, Load) for op in every(body)):
        return None
    return first if _computes_more(first, loads, warps) else None


def _computes_more(combining: Operation, loads: Sequence[Load], warps: int) -> bool:
    """Whether a thread combines more elements than it loads, of rows those that lie as the tile."""
    if not loads:
        return False
    tile = max(math.prod(shape_of(v.type)) for v in combining.operands)
    own = tile // (SM_90A.lanes * warps)
    sizes = [byte_size(element_of(load.result.type)) for load in loads]
    held = 0
    for load in loads:
        count = math.prod(shape_of(load.result.type))
        held += own if count >= tile else min(own, count, SM_90A.copy_unit // min(sizes))
    return own > held


def _staged_loads(body: Block) -> list[Load]:
    """The loads of a body that only staging buffers, and what is computed for them, read."""
    found: list[Load] = []
    for op in body.ops:
        if isinstance(op, Stage | StoreInto):
            value = op.value
            work, seen = [value], set[SSAValue]()
            while work:
                v = work.pop()
                if v in seen or not isinstance(v.owner, Operation) or v.owner.parent is not body:
                    continue
                seen.add(v)
                if isinstance(v.owner, Load):
                    if shape_of(v.type) and v.owner not in found:
                        found.append(v.owner)
                elif not v.owner.regions and is_pure(v.owner):
                    work += v.owner.operands
    return [load for load in body.ops if isinstance(load, Load) and load in found]


def _small_loads(body: Block, warps: int) -> list[Load]:
    """The loads of a body that take few registers: scalars, and short rows or columns."""
    return [
        op
        for op in body.ops
        if isinstance(op, Load)
        and not isinstance(element_of(op.result.type), PtrType)
        and _registers([op], warps) <= FEW_REGISTERS
    ]


def _may_be_ahead(ahead: _Ahead, loads: Sequence[Load]) -> bool:
    """Whether loads may be done an iteration early, and what they need is known then."""
    if not _may_move(ahead.body, loads):
        return False
    try:
        _check(ahead, loads)
    except _NotComputable:
        return False
    return True


def _registers(loads: Iterable[Load], warps: int) -> int:
    sizes = [
        math.prod(shape_of(v.result.type)) * byte_size(element_of(v.result.type)) for v in loads
    ]
    return sum(max(1, size // (4 * 32 * warps)) for size in sizes)


def _may_move(body: Block, loads: Sequence[Load]) -> bool:
    """Whether nothing in the loop writes, or may write, what the loads read."""
    if any(touches(op, ORDER) for op in body.ops):
        return False
    memory = written(body.ops)
    return all(only_reads(load) and not may_be_written(load, memory) for load in loads)


def _check(ahead: _Ahead, loads: Sequence[Load]) -> None:
    """Raise _NotComputable if some load's operands are not known ahead."""
    for load in loads:
        for operand in load.operands:
            ahead.computable(operand, following=True)


@dataclass
class _Ahead:
    """One loop, whose loads for the next iteration go before an op of its body."""

    loop: scf.ForOp
    before: Operation
    _computable: set[tuple[SSAValue, bool]] = field(default_factory=set[tuple[SSAValue, bool]])
    """What is known to be there: not what was only asked for."""

    @property
    def body(self) -> Block:
        """The loop's block."""
        return self.loop.body.block

    def _outside(self, value: SSAValue) -> bool:
        block = value.owner if isinstance(value.owner, Block) else value.owner.parent
        while block is not None and block is not self.body:
            parent = block.parent_op()
            block = parent.parent if parent is not None else None
        return block is None

    def _is_early(self, op: Operation) -> bool:
        return op.parent is self.body and op.is_before_in_block(self.before)

    def computable(self, value: SSAValue, *, following: bool) -> None:
        """Raise unless a value of this iteration, or the next one, is there before the op."""
        if (value, following) not in self._computable and not self._outside(value):
            self._compute(value, following)
            self._computable.add((value, following))

    def _compute(self, value: SSAValue, following: bool) -> None:
        if isinstance(value, BlockArgument):
            if value.owner is not self.body:
                raise _NotComputable
            if following and value.index:
                passed = terminator(self.body).operands[value.index - 1]
                self.computable(passed, following=False)
            return
        op = value.owner
        assert isinstance(op, Operation)
        if not following and self._is_early(op):
            return
        if op.regions or op.parent is not self.body or not _repeats(op):
            raise _NotComputable
        for operand in op.operands:
            self.computable(operand, following=following)

    def rewrite(self, loads: Sequence[Load]) -> scf.ForOp:
        """Carry the tiles: the first iteration's come from before the loop, which is returned."""
        firsts = self._first_iteration(loads)
        loop, arguments, _ = carry(self.loop, firsts)
        self.loop = loop
        following = self._following(loads, arguments)
        extend_yield(loop.body.block, following)
        for load, argument in zip(loads, arguments, strict=True):
            argument.name_hint = load.result.name_hint
            load.result.replace_all_uses_with(argument)
        for load in reversed(loads):
            load.detach()
            load.erase()
        return loop

    def _first_iteration(self, loads: Sequence[Load]) -> list[SSAValue]:
        """The tiles of the first iteration, if there is one."""
        outer = self.loop.parent
        assert outer is not None
        runs = Map("cmpi_slt", [self.loop.lb, self.loop.ub])
        values: dict[tuple[SSAValue, bool], SSAValue] = {(self.body.args[0], False): self.loop.lb}
        for argument, init in zip(self.body.args[1:], self.loop.iter_args, strict=True):
            values[argument, False] = init
        block = Block()
        copied = [self._copy(load.result, False, block, values) for load in loads]
        block.add_op(scf.YieldOp(*copied))
        without = Block()
        blanks = [_blank(load.result.type, without) for load in loads]
        without.add_op(scf.YieldOp(*blanks))
        branch = scf.IfOp(runs.result, [v.result.type for v in loads], [block], [without])
        copy_span(loads[0], [runs, branch])
        outer.insert_ops_before([runs, branch], self.loop)
        return list(branch.results)

    def _following(
        self, loads: Sequence[Load], arguments: Sequence[BlockArgument]
    ) -> list[SSAValue]:
        """The tiles of the following iteration, if there is one, else this iteration's."""
        loop, body = self.loop, self.body
        index = Map("addi", [body.args[0], loop.step])
        more = Map("cmpi_slt", [index.result, loop.ub])
        values: dict[tuple[SSAValue, bool], SSAValue] = {(body.args[0], True): index.result}
        block = Block()
        copied = [self._copy(load.result, True, block, values) for load in loads]
        block.add_op(scf.YieldOp(*copied))
        branch = scf.IfOp(
            more.result,
            [v.result.type for v in loads],
            [block],
            [Block([scf.YieldOp(*arguments)])],
        )
        copy_span(loads[0], [index, more, branch])
        body.insert_ops_before([index, more, branch], self.before)
        return list(branch.results)

    def _copy(
        self,
        value: SSAValue,
        following: bool,
        into: Block,
        values: dict[tuple[SSAValue, bool], SSAValue],
    ) -> SSAValue:
        """A value of this iteration or the following one, computed at the end of a block."""
        key = (value, following)
        if key in values:
            return values[key]
        first = (self.body.args[0], False) in values
        if self._outside(value):
            return value
        if isinstance(value, BlockArgument):
            found = value
            if following:
                passed = terminator(self.body).operands[value.index - 1]
                found = self._copy(passed, False, into, values)
        elif not following and not first and self._is_early(value.owner):  # pyright: ignore
            found = value
        else:
            op = value.owner
            assert isinstance(op, Operation)
            inputs = {v: self._copy(v, following, into, values) for v in op.operands}
            new = op.clone(inputs)
            into.add_op(new)
            for old, result in zip(op.results, new.results, strict=True):
                values[old, following] = result
            found = values[key]
        values[key] = found
        return found


def _repeats(op: Operation) -> bool:
    """Whether an op may be done once more, and earlier."""
    return only_reads(op) and not is_collective(op)


def _blank(type_: Attribute, into: Block) -> SSAValue:
    """A tile of zeros, or a zero."""
    element = element_of(type_)
    if isa(element, AnyFloat):
        zero: FloatAttr[AnyFloat] | IntegerAttr[IntegerType] = FloatAttr(0.0, element)
    else:
        assert isa(element, IntegerType)
        zero = IntegerAttr(0, element)
    constant = arith.ConstantOp(zero)
    into.add_op(constant)
    if not shape_of(type_):
        return constant.result
    fill = Splat(constant.result, shape_of(type_))
    into.add_op(fill)
    return fill.result
