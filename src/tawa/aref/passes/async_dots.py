"""Matrix products become asynchronous: issued, waited for, and their slots returned afterwards.

A product whose accumulator is only carried round its loop stays in flight over the back-edge:
`depth` iterations' products remain unfinished (P), and iteration k returns the slot of iteration k
- P, whose reader has then completed. Every other product is waited for before its value is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i1, i32
from xdsl.ir import Block, Operation, SSAValue

from tawa.aref.analysis.dot_waits import (
    erase_consumed,
    move_consumed,
    slots_of,
    wait_at_once,
    wait_before_use,
)
from tawa.aref.analysis.layouts import operand_words, same_values
from tawa.aref.analysis.products import from_registers, is_view, is_window, needs_transpose, view_of
from tawa.aref.analysis.slots import slot_bytes
from tawa.aref.analysis.staging import copied_turned, drop_unread, staged, turned
from tawa.aref.dialect.ops import (
    Consumed,
    Create,
    DotIssue,
    DotWait,
    GetEnter,
    NoToken,
    OpensSlot,
    Restage,
    Stage,
    Unset,
    ViewChange,
    ViewTrans,
    WarpGroup,
    ZeroUnless,
)
from tawa.base.options import Options
from tawa.base.spans import copy_span, span_of
from tawa.base.types import byte_size, element_of, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.loops import ProductsInFlight
from tawa.ir.effects import MEETING, SLOT, only_on
from tawa.ir.elementwise import Map
from tawa.ir.loops import carry, extend_yield, integer_constant, terminator
from tawa.ir.properties import (
    AS_PARTITIONED,
    ASYNCHRONOUS,
    DOTS,
    GROUP_PRODUCTS,
    OPEN_SLOTS,
    SCHEDULED,
    TIDY,
)
from tawa.ir.walking import all_of, every
from tawa.tile.analysis.zero import is_zero
from tawa.tile.dialect.ops import Dot, Trans


@dataclass
class Chain:
    """Products of one loop body that accumulate into one carried value, one after the other."""

    index: int
    dots: list[Dot] = field(default_factory=list[Dot])


def find_chains(block: Block) -> list[Chain] | None:
    """The chains of a loop body if they hold all of its products, else None."""
    loop = block.parent_op()
    if not isinstance(loop, scf.ForOp):
        return None
    chains: list[Chain] = []
    last = terminator(block)
    for i, argument in enumerate(block.args[1:]):
        chain, value = Chain(i), argument
        while value.has_one_use():
            use = next(iter(value.uses))
            if not (
                isinstance(use.operation, Dot) and use.index == 2 and use.operation.parent is block
            ):
                break
            chain.dots.append(use.operation)
            value = use.operation.result
        if chain.dots and value is last.operands[i] and value.has_one_use():
            chains.append(chain)
    inside = all_of(block, Dot)
    return chains if inside and len(inside) == sum(len(c.dots) for c in chains) else None


@dataclass(frozen=True)
class AsyncDots:
    """`tile.dot` -> `aref.dot_issue` and `aref.dot_wait`."""

    options: Options
    decided: Decisions
    in_flight: bool = True
    """Whether products may stay in flight where no option says so."""
    one_by_one: bool = False
    """Whether each is waited for by itself."""
    name: ClassVar[str] = "async-dots"
    contract: ClassVar[Contract] = Contract(
        requires=(DOTS, GROUP_PRODUCTS, SCHEDULED, OPEN_SLOTS),
        establishes=(ASYNCHRONOUS,),
        invalidates=(AS_PARTITIONED, DOTS, TIDY),
    )

    def apply(self, module: ModuleOp) -> None:
        """Rewrite every warp group of the module."""
        for group in all_of(module, WarpGroup):
            blocks = {op.parent: None for op in every(group) if isinstance(op, Dot)}
            for block in blocks:
                assert block is not None
                chains = find_chains(block)
                if chains and not self.one_by_one:
                    self._in_flight(block, chains)
                else:
                    self._waited(block, group)
            drop_unread(group)
            _return_after_copies(group)

    def _issue(self, dot: Dot, accumulate: SSAValue | None) -> DotIssue:
        block = dot.parent
        assert block is not None
        computed = not is_view(dot.a) and from_registers(dot.a)
        narrow = byte_size(element_of(dot.a.type)) == 1
        b = self._view(dot, 1, interleaved=computed and narrow)
        b = b or self._stage(dot.b, dot, 0)
        a = self._view(dot, 0)
        if a is None:
            keep = computed and (_is_interleaved(b) if narrow else _has_pairs(dot.a))
            a = dot.a if keep else self._stage(dot.a, dot, 1)
        new = DotIssue((a, b, dot.acc), accumulate, dot.precision)
        new.result.name_hint = dot.result.name_hint
        copy_span(dot, [new])
        block.insert_op_before(new, dot)
        dot.result.replace_all_uses_with(new.result)
        dot.detach()
        dot.erase()
        return new

    def _view(self, dot: Dot, index: int, *, interleaved: bool = False) -> SSAValue | None:
        """An operand where it lies in a slot, or copied from there with K contiguous."""
        wrong = needs_transpose(dot, index)
        if wrong and is_window(dot.operands[index]):
            return None
        view = view_of(dot.operands[index], dot)
        if view is None or not wrong:
            return view
        block = dot.parent
        assert block is not None
        new = Restage(view, interleaved=interleaved)
        copy_span(dot, [new])
        new.result.name_hint = view.name_hint
        block.insert_op_before(new, dot)
        return new.result

    def _stage(self, value: SSAValue, before: Operation, inner: int) -> SSAValue:
        """A view of a copy in shared memory, where K (dimension `inner`) is contiguous.

        Elements of 16 bits may lie either way there, and are copied as they lie in memory.
        """
        block = before.parent
        assert block is not None
        owner, source = value.owner, value
        transposes = copied_turned(value) if byte_size(element_of(value.type)) == 2 else inner == 0
        if transposes and isinstance(owner, Trans) and owner.permutation == (1, 0):
            source = owner.value
        elif transposes:
            source = turned(value, before)
        copy = staged(source, before, shared=True)
        if source is value:
            return copy
        view = ViewTrans(copy)
        block.insert_op_before(view, before)
        return view.result

    def _in_flight(self, block: Block, chains: list[Chain]) -> None:
        loop = block.parent_op()
        assert isinstance(loop, scf.ForOp)
        depth = self._depth(block)
        dots = [dot for chain in chains for dot in chain.dots]
        if not all(map(_in_place, dots)):
            # An operand in registers is made anew by the next iteration; one in a staging buffer
            # is if that has two.
            depth = min(depth, int(all(map(_in_memory, dots)) and self._fits_twice(block, dots)))
        first = {chain.dots[0] for chain in chains}
        started = Map("cmpi_ne", [block.args[0], loop.lb])
        started.result.name_hint = "accumulate"
        inits = {c.index: _unset(loop, c.index) for c in chains}
        assert block.first_op is not None
        block.insert_op_before(started, block.first_op)
        issued: list[DotIssue] = []
        for op in list(block.ops):
            if isinstance(op, Dot):
                flag = op in first and inits[next(c.index for c in chains if op in c.dots)]
                issued.append(self._issue(op, started.result if flag else None))
        gets = slots_of(issued)
        end = issued[-1]
        if depth:
            loop = _alternate_stages(loop)
        if depth == 0:
            self._drain_inside(block, end, gets)
        else:
            loop = self._lag(loop, end, gets, depth, len(issued))
        self.decided.add(ProductsInFlight(depth, span=span_of(issued[0])))
        _after_loop(loop, [c.index for c in chains], inits, depth)

    def _depth(self, block: Block) -> int:
        """P: as asked, or 1 if shared memory holds the slots of two iterations."""
        if self.options.mma_depth is not None:
            return self.options.mma_depth
        if not self.in_flight:
            return 0
        if self.options.num_stages is not None:
            return min(1, self.options.num_stages - 1)
        gets = (op for op in block.ops if isinstance(op, GetEnter))
        size = sum(slot_bytes(get.ref) for get in gets)
        return int(2 * size <= self.options.machine.shared_bytes)

    def _fits_twice(self, block: Block, dots: list[Dot]) -> bool:
        """Whether shared memory holds two copies of all staged operands, beside the slots."""
        operands = {v: None for d in dots for v in (d.a, d.b)}
        staged = [v for v in operands if not is_view(v)]
        copies = sum(prod(shape_of(v.type)) * byte_size(element_of(v.type)) for v in staged)
        slots = sum(slot_bytes(get.ref) for get in block.ops if isinstance(get, GetEnter))
        return 2 * copies + slots <= self.options.machine.shared_bytes

    def _drain_inside(self, block: Block, end: Operation, gets: list[OpensSlot]) -> None:
        last = terminator(block)
        values = [v for v in last.operands if isinstance(v.owner, DotIssue)]
        wait = DotWait(0, values)
        copy_span(end, [wait])
        block.insert_op_after(wait, end)
        for old, new in zip(values, wait.results_, strict=True):
            new.name_hint = old.name_hint
            for i, operand in enumerate(last.operands):
                if operand is old:
                    last.operands[i] = new
        move_consumed(gets, wait)

    def _lag(
        self,
        loop: scf.ForOp,
        end: Operation,
        gets: list[OpensSlot],
        depth: int,
        products: int,
    ) -> scf.ForOp:
        block = loop.body.block
        outer = loop.parent
        assert outer is not None
        none = NoToken()
        outer.insert_op_before(none, loop)
        none.token.name_hint = "previous"
        new, arguments, results = carry(loop, [none.token] * (depth * len(gets)))
        wait = DotWait(depth * products)
        tail: list[Operation] = [wait]
        passed: list[SSAValue] = []
        after: list[Operation] = [DotWait(0)]
        for g, get in enumerate(gets):
            shared = erase_consumed(get)
            old = arguments[g * depth : (g + 1) * depth]
            tail.append(Consumed(get.ref, old[0], "wgmma", shared))
            passed += [*old[1:], get.token]
            left = results[g * depth : (g + 1) * depth]
            after += [Consumed(get.ref, token, "wgmma", shared) for token in left]
        copy_span(end, [*tail, *after])
        block.insert_ops_after(tail, end)
        extend_yield(block, passed)
        outer.insert_ops_after(after, new)
        return new

    def _waited(self, block: Block, group: WarpGroup) -> None:
        """Issue and wait: the value is used in the same iteration."""
        loop = block.parent_op()
        if isinstance(loop, scf.ForOp) and loop.parent is not None:
            # A fill before a loop that also touches the accumulator by ordinary code must be closed
            # by a wait, or ptxas takes the registers for those of an open group (C7517).
            wait = DotWait(0)
            copy_span(loop, [wait])
            loop.parent.insert_op_before(wait, loop)
        issued: list[DotIssue] = []
        for op in list(block.ops):
            if isinstance(op, Dot):
                issued.append(self._issue(op, _fresh_start(op)))
        if self.one_by_one:
            wait_at_once(issued)
            return
        same = same_values(every(group))
        wait_before_use({issue: _operands(issue, same) for issue in issued})


def _return_after_copies(group: WarpGroup) -> None:
    """Return a slot that was read into registers after the copy that is made of it.

    The warps meet there anyway.
    """
    for op in all_of(group, Consumed):
        following = op.next_op
        while following is not None and not following.regions:
            if isinstance(following, Stage):
                _after_stages(op, following)
                break
            if not only_on(following, (SLOT, MEETING)):
                break
            following = following.next_op


def _after_stages(op: Consumed, stage: Operation) -> None:
    while isinstance(stage.next_op, Stage):
        stage = stage.next_op
    block = op.parent
    if op.completion.data == "none" and block is not None:
        op.detach()
        block.insert_op_after(op, stage)


def _in_place(dot: Dot) -> bool:
    """Whether the product reads both operands from slots."""
    return all(is_view(dot.operands[i]) and not needs_transpose(dot, i) for i in (0, 1))


def _in_memory(dot: Dot) -> bool:
    """Whether the product reads both operands from slots or staging buffers."""
    for i in (0, 1):
        value = dot.operands[i]
        if is_view(value) and needs_transpose(dot, i):
            return False
        if i == 0 and not is_view(value) and from_registers(value):
            return False
    return True


def _alternate_stages(loop: scf.ForOp) -> scf.ForOp:
    """Give a loop's copies for its products two buffers, for odd and for even iterations."""
    outer = loop.parent
    assert outer is not None
    if not any(isinstance(op, Stage) for op in loop.body.block.ops):
        return loop
    zero, one = (integer_constant(n, i32) for n in (0, 1))
    outer.insert_ops_before([zero, one], loop)
    new, (buffer,), _ = carry(loop, [zero.result])
    buffer.name_hint = "buffer"
    block = new.body.block
    other = Map("xori", [buffer, one.result])
    block.insert_op_before(other, terminator(block))
    extend_yield(block, [other.result])
    for op in [op for op in block.ops if isinstance(op, Stage)]:
        copy = Stage(op.value, buffer)
        copy_span(op, [copy])
        copy.view.name_hint = op.view.name_hint
        block.insert_op_before(copy, op)
        op.view.replace_all_uses_with(copy.view)
        op.detach()
        op.erase()
    return new


def _has_pairs(value: SSAValue) -> bool:
    """Whether two elements make a register, as matrix instructions want A operands."""
    return byte_size(element_of(value.type)) == 2


def _is_interleaved(view: SSAValue) -> bool:
    """Whether K lies in the order in which registers have it."""
    while isinstance(view.owner, ViewChange):
        view = view.owner.view
    if isinstance(view.owner, OpensSlot):
        create = view.owner.ref.owner
        return isinstance(create, Create) and create.interleaved is not None
    return isinstance(view.owner, Restage) and view.owner.interleaved is not None


def _fresh_start(dot: Dot) -> SSAValue | None:
    """The false flag of a product that starts from zero, whose accumulator need not be filled."""
    block = dot.parent
    if block is None or not is_zero(dot.acc):
        return None
    false, unset = arith.ConstantOp(IntegerAttr(0, i1)), Unset(dot.acc.type)
    block.insert_ops_before([false, unset], dot)
    dot.operands[2] = unset.result
    return false.result


def _operands(issue: DotIssue, same: Mapping[SSAValue, list[SSAValue]]) -> set[SSAValue]:
    """What has the registers of a product's A operand: values that are carried as it is."""
    return operand_words(issue.a, same) if shape_of(issue.a.type) else set()


def _unset(loop: scf.ForOp, index: int) -> bool:
    """Replace a zero start value by an unset one; returns whether it was zero."""
    init = loop.iter_args[index]
    if not is_zero(init):
        return False
    unset = Unset(init.type)
    unset.result.name_hint = init.name_hint
    assert loop.parent is not None
    loop.parent.insert_op_before(unset, loop)
    loop.operands[3 + index] = unset.result
    return True


def _after_loop(loop: scf.ForOp, indices: list[int], inits: dict[int, bool], depth: int) -> None:
    """Give the loop's results out only after the last wait, and zeros if it never ran."""
    outer = loop.parent
    assert outer is not None
    place: Operation = loop
    following = loop.next_op
    results = [loop.results[i] for i in indices]
    uses = [list(r.uses) for r in results]
    if depth and isinstance(following, DotWait):
        following.detach()
        following.erase()
    wait = DotWait(0, results) if depth else None
    if wait is not None:
        issue = terminator(loop.body.block).operands[indices[0]].owner
        copy_span(issue if isinstance(issue, Operation) else loop, [wait])
        outer.insert_op_after(wait, loop)
        place = wait
    for n, index in enumerate(indices):
        value: SSAValue = wait.results_[n] if wait is not None else results[n]
        if inits[index]:
            ran = Map("cmpi_slt", [loop.lb, loop.ub])
            ran.result.name_hint = "ran"
            final = ZeroUnless(ran.result, value)
            outer.insert_ops_after([ran, final], place)
            place, value = final, final.result
        value.name_hint = results[n].name_hint
        for use in uses[n]:
            use.operation.operands[use.index] = value
