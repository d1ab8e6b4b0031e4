"""Operands that are computed from what is loaded are computed ahead, by a role of their own.

A product's operand may be no tile of a slot, but made of one: 8-bit weights become halves, packed
weights of 4 bits are shifted and scaled. The warps that multiply would convert it, copy it to
shared memory and fence that, all between two products. Where a loop only adds up products, other
warps can do so instead: they get the loaded tile, compute, and put the operand into a ring, from
which products read it as they read what is loaded.

    load -> loaded tiles -> convert -> operands -> math

The role is a copy of the computing role in which only that survives. Nothing that the operand is
made of may come from products or from what the kernel writes, and the slots that it is made of may
serve nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from tawa.aref.analysis.products import is_view
from tawa.aref.analysis.registers import Sharing, accumulator_registers
from tawa.aref.analysis.staging import copied_turned
from tawa.aref.dialect.ops import (
    Consumed,
    Create,
    GetEnter,
    PutEnter,
    PutExit,
    StoreInto,
    ViewRead,
    WarpGroup,
)
from tawa.aref.passes.async_dots import find_chains
from tawa.base.options import Options
from tawa.base.spans import copy_span, span_of
from tawa.base.types import byte_size, element_of, shape_of, words_of
from tawa.ir.contracts import Contract
from tawa.ir.copying import copied_region
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.roles import ConvertedByRole
from tawa.ir.effects import has_effect, is_pure, only_reads
from tawa.ir.loops import passed_out, passed_to, prune
from tawa.ir.properties import AS_PARTITIONED, DOTS, GROUP_PRODUCTS, OPEN_SLOTS, TIDY
from tawa.ir.walking import all_of, every
from tawa.machine.chips import SM_90A
from tawa.tile.analysis.alias import may_be_written, written
from tawa.tile.dialect.ops import Dot, Load, Trans

BESIDE = SM_90A.thresholds.addresses
"""Registers beside its accumulators that a computing thread keeps when it shares with the role."""


@dataclass
class _Operand:
    """A tile that is computed for products, and which operands of which products it is."""

    value: SSAValue
    dots: list[tuple[Dot, int]] = field(default_factory=list[tuple[Dot, int]])

    @property
    def turned(self) -> bool:
        """Whether its slot holds the transpose: products of other than halves want K contiguous."""
        _, index = self.dots[0]
        narrow = byte_size(element_of(self.value.type)) != 2
        return index == 1 if narrow else copied_turned(self.value)

    @property
    def tile(self) -> TensorType[Attribute]:
        """What a slot holds."""
        shape = shape_of(self.value.type)
        return TensorType(element_of(self.value.type), shape[::-1] if self.turned else shape)


@dataclass(frozen=True)
class Conversions:
    """Put a role that computes operands between loads and the products of a loop that adds up."""

    options: Options
    decided: Decisions
    enabled: bool = True
    """Not where an attempt found too few registers."""
    name: ClassVar[str] = "conversions"
    contract: ClassVar[Contract] = Contract(
        requires=(AS_PARTITIONED, DOTS, GROUP_PRODUCTS, OPEN_SLOTS), invalidates=(TIDY,)
    )

    def apply(self, module: ModuleOp) -> None:
        """Add the role where an operand has one."""
        if not self.enabled:
            return
        kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
        groups = [op for op in kernel.body.block.ops if isinstance(op, WarpGroup)]
        consumer = next((g for g in groups if g.computes), None)
        loaders = [g for g in groups if g.loads]
        if consumer is None or not loaders or not self._may_wait(consumer):
            return
        made = _Slices(consumer)
        operands = [o for o in _operands(consumer) if made.from_loads(o)]
        warps = self._warps(consumer, loaders, operands)
        if not warps or not made.apart(operands):
            return
        rings = {id(o): Create(1, [o.tile]) for o in operands}
        for operand in operands:
            create = rings[id(operand)]
            create.ref.name_hint = operand.value.name_hint or "operand"
            copy_span(operand.dots[0][0], [create])
            name = create.ref.name_hint
            self.decided.add(ConvertedByRole(name, warps, span=span_of(operand.dots[0][0])))
        block = kernel.body.block
        block.insert_ops_before(list(rings.values()), groups[0])
        refs = [rings[id(o)].ref for o in operands]
        block.insert_op_after(_role(consumer, operands, refs, made.rings, warps), consumer)
        _take(operands, refs)
        prune(consumer.body.block, has_effect)
        _leave(consumer, made.rings)

    def _may_wait(self, consumer: WarpGroup) -> bool:
        """Whether one team of several warp groups has the multiprocessor for itself.

        Another team or CTA would multiply while this one converts.
        """
        alone = self.options.ctas_per_sm == 1 and self.options.cluster == 1
        several = consumer.warps.value.data > SM_90A.group_warps
        return alone and several and consumer.teams.value.data == 1

    def _warps(
        self, consumer: WarpGroup, loaders: Sequence[WarpGroup], operands: Sequence[_Operand]
    ) -> int:
        """The warps of the role; 0 if registers are too few, or there is nothing to do.

        With fewer than compute it would fall behind: they convert as fast, and products wait.
        """
        if not operands:
            return 0
        own = consumer.warps.value.data
        dots = all_of(consumer, Dot)
        last = [words_of(d.result.type) for d in dots if not _goes_on(d)]
        held = accumulator_registers(last, own)
        copiers = sum(g.warps.value.data for g in loaders if g.copies is not None)
        if 2 * own + sum(g.warps.value.data for g in loaders) > SM_90A.cta_warps:
            return 0
        largest = max(math.prod(shape_of(o.value.type)) for o in operands)
        shares = Sharing(own, held, copiers, 0, own, largest // (SM_90A.lanes * own))
        split = shares.split(self.options.machine, narrow=False, spare=0)
        # The assembler takes no product that does not fit in what threads are launched with.
        return own if min(split.limit, split.entry) >= held + BESIDE else 0


def _goes_on(dot: Dot) -> bool:
    """Whether another product of the block adds to this one's result."""
    users = [use.operation for use in dot.result.uses]
    return any(isinstance(user, Dot) and user.parent is dot.parent for user in users)


def _operands(consumer: WarpGroup) -> list[_Operand]:
    """The computed operands of loops that only add up products, where they are computed."""
    found: dict[SSAValue, _Operand] = {}
    blocks = dict.fromkeys(op.parent for op in every(consumer) if isinstance(op, Dot))
    for block in blocks:
        chains = find_chains(block) if block is not None else None
        for dot in (dot for chain in chains or [] for dot in chain.dots):
            for index, value in enumerate((dot.a, dot.b)):
                home = value.owner.parent if isinstance(value.owner, Operation) else None
                if home is block and not is_view(value):
                    found.setdefault(value, _Operand(value)).dots.append((dot, index))
    return [o for o in found.values() if len({index for _, index in o.dots}) == 1]


class _Slices:
    """What the operands of a computing role are made of."""

    def __init__(self, consumer: WarpGroup) -> None:
        self.consumer = consumer
        self.memory = written(every(consumer))
        self.gets: set[GetEnter] = set()
        """The slots of which operands are made."""

    @property
    def rings(self) -> set[SSAValue]:
        """Their rings."""
        return {get.ref for get in self.gets}

    def from_loads(self, operand: _Operand) -> bool:
        """Whether an operand is made of slots and of memory that the role does not write."""
        gets: set[GetEnter] = set()
        seen, work = {operand.value}, [operand.value]
        while work:
            sources = self._sources(work.pop(), gets)
            if sources is None:
                return False
            new = [v for v in sources if v not in seen]
            seen.update(new)
            work += new
        if gets:
            self.gets |= gets
        return bool(gets)

    def _sources(self, value: SSAValue, gets: set[GetEnter]) -> Sequence[SSAValue] | None:
        """What a value is made of; None if the role can not make it."""
        op = value.owner
        if isinstance(value, BlockArgument):
            loop = value.owner.parent_op()
            if isinstance(loop, scf.ForOp) and value.index == 0:
                return [loop.lb, loop.step]
            return passed_to(value)
        if isinstance(op, ViewRead):
            get = op.view.owner
            if not isinstance(get, GetEnter) or get.parent is not op.parent:
                return None
            gets.add(get)
            return []
        if isinstance(op, Dot) or (isinstance(op, Load) and _is_looped(op)):
            return None  # the role would wait for memory in every iteration
        assert isinstance(op, Operation)
        if op.regions:
            return passed_out(value) or None  # pyright: ignore[reportArgumentType]
        if isinstance(op, Load):
            free = only_reads(op) and not may_be_written(op, self.memory)
            return op.operands if free else None
        return op.operands if is_pure(op) else None

    def apart(self, operands: Sequence[_Operand]) -> bool:
        """Whether the slots serve these operands alone."""
        taken = all_of(self.consumer, GetEnter)
        if any(get.ref in self.rings and get not in self.gets for get in taken):
            return False
        values = {o.value: {(d, i) for d, i in o.dots} for o in operands}
        work = [view for get in self.gets for view in get.views]
        seen = set(work)
        while work:
            value = work.pop()
            for use in value.uses:
                op = use.operation
                if value in values and (op, use.index) in values[value]:
                    continue
                if not isinstance(op, ViewRead) and (isinstance(op, Dot) or not is_pure(op)):
                    return False
                if not op.results or op.regions:
                    return False
                new = [r for r in op.results if r not in seen]
                seen.update(new)
                work += new
        return True


def _is_looped(op: Operation) -> bool:
    """Whether a loop with products is around an op."""
    block = op.parent
    return block is not None and any(isinstance(other, Dot) for other in block.ops)


def _role(
    consumer: WarpGroup,
    operands: Sequence[_Operand],
    refs: Sequence[SSAValue],
    rings: set[SSAValue],
    warps: int,
) -> WarpGroup:
    """The computing role's control flow around gets of loaded tiles and puts of operands."""
    body = copied_region(consumer.body)
    twins = dict(zip(every(consumer.body), every(body), strict=True))
    puts: dict[Block, Operation] = {}
    for operand, ref in zip(operands, refs, strict=True):
        dot, index = operand.dots[0]
        twin = twins[dot]
        exit_ = _put(twin, twin.operands[index], ref, turned=operand.turned)
        assert twin.parent is not None
        puts[twin.parent] = exit_
    for op in [op for op in every(body) if isinstance(op, Consumed) and op.ref in rings]:
        assert op.parent is not None
        if (exit_ := puts.get(op.parent)) is not None and op.is_before_in_block(exit_):
            op.detach()
            exit_.parent.insert_op_after(op, exit_)  # pyright: ignore[reportOptionalMemberAccess]

    def keep(op: Operation) -> bool:
        fills = isinstance(op, PutEnter | StoreInto | PutExit)
        return fills or (isinstance(op, GetEnter | Consumed) and op.ref in rings)

    prune(body.block, keep)
    return WarpGroup("convert", warps, 1, body, converts=True)


def _put(dot: Operation, value: SSAValue, ref: SSAValue, *, turned: bool) -> PutExit:
    """Put a tile into a ring where a product takes it."""
    new: list[Operation] = []
    if turned and isinstance(value.owner, Trans) and value.owner.permutation == (1, 0):
        value = value.owner.value
    elif turned:
        new.append(Trans(value, (1, 0)))
        value = new[0].results[0]
    enter = PutEnter(ref)
    enter.token.name_hint = "slot"
    enter.views[0].name_hint = ref.name_hint
    exit_ = PutExit(ref, enter.token, "none")
    new += [enter, StoreInto(value, enter.views[0], ref, enter.token), exit_]
    copy_span(dot, new)
    assert dot.parent is not None
    dot.parent.insert_ops_before(new, dot)
    return exit_


def _take(operands: Sequence[_Operand], refs: Sequence[SSAValue]) -> None:
    """Let products read the rings."""
    for operand, ref in zip(operands, refs, strict=True):
        block = operand.dots[0][0].parent
        assert block is not None
        order = sorted((d for d, _ in operand.dots), key=block.get_operation_index)
        get = GetEnter(ref)
        get.token.name_hint, get.views[0].name_hint = "slot", ref.name_hint
        read = ViewRead(get.views[0])
        read.result.name_hint = ref.name_hint
        new: list[Operation] = [get, read]
        if operand.turned:
            new.append(Trans(read.result, (1, 0)))
        done = Consumed(ref, get.token, "none")
        copy_span(order[0], [*new, done])
        block.insert_ops_before(new, order[0])
        block.insert_op_after(done, order[-1])
        for dot, index in operand.dots:
            dot.operands[index] = new[-1].results[0]


def _leave(consumer: WarpGroup, rings: set[SSAValue]) -> None:
    """Take no slots any more that only the operands were made of."""
    mine = [op for op in every(consumer) if isinstance(op, GetEnter | Consumed) and op.ref in rings]
    for op in reversed(mine):
        for result in op.results:
            for use in list(result.uses):
                if isinstance(use.operation, ViewRead):
                    use.operation.detach()
                    use.operation.erase()
        op.detach()
        op.erase()
