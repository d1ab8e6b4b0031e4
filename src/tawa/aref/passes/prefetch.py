"""One role: its loads run ahead of its products by as many iterations as the ring has room for.

The iteration that returns slot k - P fills the slot of iteration k + D - 1 - P, so a kernel without
roles keeps D - 1 - P loads in flight. What the loads' coordinates need is computed twice, once for
each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tawa.aref.dialect.ops import DotIssue, PutEnter, RefType, WarpGroup
from tawa.base.options import Options
from tawa.base.spans import span_of
from tawa.base.types import shape_of
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.memory import LoadsRunAhead, LoadsStay
from tawa.ir.effects import FILLED, acquires, is_pure, only_reads, touches
from tawa.ir.elementwise import Map
from tawa.ir.loops import carry, extend_yield, integer_constant, terminator
from tawa.ir.properties import ASYNCHRONOUS, DEPTHS, OPEN_SLOTS, TIDY
from tawa.ir.walking import all_of
from tawa.tile.analysis.alias import OUT_OF_ORDER, may_be_written, written


@dataclass
class _Slice:
    """The ops of a loop body that its puts need, and the carried values among their inputs."""

    loop: scf.ForOp
    ops: list[Operation]
    carried: list[int]

    def copy(self, into: Block, index: SSAValue, state: list[SSAValue]) -> list[SSAValue]:
        """Append a copy of the slice for another iteration; returns the carried values after it."""
        body = self.loop.body.block
        mapping: dict[SSAValue, SSAValue] = {body.args[0]: index}
        mapping |= {body.args[i + 1]: v for i, v in zip(self.carried, state, strict=True)}
        for op in self.ops:
            new = op.clone(mapping)
            into.add_op(new)
            mapping |= dict(zip(op.results, new.results, strict=True))
        passed = terminator(body).operands
        return [mapping.get(passed[i], passed[i]) for i in self.carried]


def find_slice(loop: scf.ForOp) -> _Slice | None:
    """The slice of a loop's own puts; None if it needs loaded tiles, branches or what is written.

    Nor is there one where the loop acquires what others write.
    """
    body = loop.body.block
    memory = written(body.ops)
    if _ordered(loop):
        return None
    wanted: set[Operation] = set()
    carried: set[int] = set()
    work: list[SSAValue] = []
    for op in body.ops:
        if touches(op, FILLED) and not op.regions:
            wanted.add(op)
            work += op.operands
    while work:
        value = work.pop()
        if isinstance(value, BlockArgument):
            if value.owner is body and value.index > 0 and value.index - 1 not in carried:
                carried.add(value.index - 1)
                work.append(terminator(body).operands[value.index - 1])
            continue
        op = value.owner
        assert isinstance(op, Operation)
        if op.parent is not body or op in wanted:
            continue
        if op.regions or (any(shape_of(r.type) for r in op.results) and not is_pure(op)):
            return None
        if not only_reads(op) or may_be_written(op, memory):
            return None
        wanted.add(op)
        work += op.operands
    return _Slice(loop, [op for op in body.ops if op in wanted], sorted(carried))


def _ordered(loop: scf.ForOp) -> bool:
    """Whether the loop's loads have to come after what it, or another program, has written."""
    ops = loop.body.block.ops
    if any(acquires(op) for op in ops):
        return True
    memory = written(ops)
    return _loads_stay(loop) and any(touches(o, FILLED) and may_be_written(o, memory) for o in ops)


@dataclass(frozen=True)
class Prefetch:
    """Let the puts of a role that also gets run ahead."""

    options: Options
    decided: Decisions
    name: ClassVar[str] = "prefetch"
    contract: ClassVar[Contract] = Contract(
        requires=(DEPTHS, ASYNCHRONOUS, OPEN_SLOTS), invalidates=(TIDY,)
    )

    def apply(self, module: ModuleOp) -> None:
        """Rewrite the loops of every warp group that loads for itself."""
        for group in all_of(module, WarpGroup):
            if not group.computes or group.converts is not None:
                continue
            for loop in all_of(group, scf.ForOp):
                puts = [op for op in loop.body.block.ops if isinstance(op, PutEnter)]
                if puts:
                    self._loop(loop, puts)

    def _loop(self, loop: scf.ForOp, puts: list[PutEnter]) -> None:
        depth = min(_depth(put) // sum(o.ref is put.ref for o in puts) for put in puts)
        lag = 1 if self.options.mma_depth is None else self.options.mma_depth
        dots = any(isinstance(op, DotIssue) for op in loop.body.block.ops)
        distance = depth - 1 - (lag if dots else 0)
        found = find_slice(loop)
        span = span_of(puts[0])
        if found is None or distance < 1:
            why = (
                "their coordinates need a tile or memory that the loop writes, or others release it"
                if found is None
                else f"the ring has {depth} slots"
            )
            self.decided.add(LoadsStay(why, span=span))
            return
        self._rewrite(loop, found, distance)
        self.decided.add(LoadsRunAhead(distance, span=span))

    def _rewrite(self, loop: scf.ForOp, found: _Slice, distance: int) -> None:
        outer = loop.parent
        assert outer is not None
        type_ = loop.lb.type
        count = integer_constant(distance, type_)
        ahead = Map("muli", [count.result, loop.step])
        end = Map("addi", [loop.lb, ahead.result])
        limit = Map("minsi", [end.result, loop.ub])
        inits = [loop.iter_args[i] for i in found.carried]
        first = Block(arg_types=[type_, *(v.type for v in inits)])
        first.args[0].name_hint = loop.body.block.args[0].name_hint
        first.add_op(scf.YieldOp(*found.copy(first, first.args[0], list(first.args[1:]))))
        prologue = scf.ForOp(loop.lb, limit.result, loop.step, inits, first)
        outer.insert_ops_before([count, ahead, end, limit, prologue], loop)
        new, arguments, _ = carry(loop, list(prologue.results))
        found.loop = new
        body = new.body.block
        index = Map("addi", [body.args[0], ahead.result])
        more = Map("cmpi_slt", [index.result, new.ub])
        then = Block()
        then.add_op(scf.YieldOp(*found.copy(then, index.result, list(arguments))))
        branch = scf.IfOp(
            more.result,
            [a.type for a in arguments],
            Region(then),
            Region(Block([scf.YieldOp(*arguments)])),
        )
        start = body.first_op
        assert start is not None
        body.insert_ops_before([index, more, branch], start)
        extend_yield(body, list(branch.results))
        for op in reversed([op for op in found.ops if touches(op, FILLED)]):
            op.detach()
            op.erase()


def _loads_stay(loop: scf.ForOp) -> bool:
    """Whether a load of the kernel may read what the program has stored."""
    op: Operation | None = loop
    while op is not None and not isinstance(op, func.FuncOp):
        op = op.parent_op()
    return op is not None and OUT_OF_ORDER in op.attributes


def _depth(put: PutEnter) -> int:
    assert isinstance(put.ref.type, RefType)
    return put.ref.type.depth.data
