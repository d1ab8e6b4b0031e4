"""Loops that load a little, compute and store it: several iterations become one, loads first.

A thread that loads 4 bytes in each iteration has 4 bytes on the way, and waits for them: all that a
multiprocessor holds of such threads asks for a fifth of what memory could bring meanwhile. Of four
iterations at once it has 16. What is left over when iterations are counted by fours is done by the
loop as it was.

Loads come before the stores of iterations before theirs, so they read nothing that the loop writes.
Loops that store nothing are left to the assembler (`hopper/passes/free_loops.py`), programs with
products to their pipelines, and loops whose threads combine a tile in each iteration to
`aref/passes/register_prefetch.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp, i64
from xdsl.ir import Block, Operation, SSAValue

from tawa.base.layout import LANES
from tawa.base.options import Options
from tawa.base.spans import span_of
from tawa.base.types import byte_size, element_of, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.loops import IterationsBatched
from tawa.ir.effects import ORDER, is_collective, is_pure, only_reads, touches
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant, terminator
from tawa.ir.properties import ONE_PROGRAM, TIDY
from tawa.ir.walking import every
from tawa.tile.analysis.alias import may_be_written, written
from tawa.tile.analysis.host_expressions import host_expression
from tawa.tile.dialect.ops import Dot, Load, Store
from tawa.tile.passes.split_loops import Before

MOST = 8
"""Iterations that become one, at most."""
MOST_OPS = 256
"""Operations of a body that is written several times."""


@dataclass(frozen=True)
class BatchedLoads:
    """Do several iterations of loops that wait for memory together."""

    options: Options
    decided: Decisions
    name: ClassVar[str] = "batched-loads"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Look at the innermost loops of kernels that multiply nothing."""
        for kernel in module.ops:
            if not isinstance(kernel, func.FuncOp):
                continue
            ops = every(kernel)
            if any(isinstance(op, Dot) for op in ops):
                continue
            for loop in [op for op in ops if isinstance(op, scf.ForOp)]:
                count = self._count(loop)
                if count > 1:
                    self.decided.add(IterationsBatched(count, span=span_of(loop)))
                    _batch(loop, count)

    def _count(self, loop: scf.ForOp) -> int:
        """How many iterations to do together; one or less for a loop that stays."""
        body = list(loop.body.block.ops)[:-1]
        step, loads = host_expression(loop.step), [op for op in body if isinstance(op, Load)]
        if not isinstance(step, int) or step <= 0 or not loads or len(body) > MOST_OPS:
            return 1
        if not any(isinstance(op, Store) for op in body) or not all(map(_may_move, body)):
            return 1
        memory = written([loop])
        if any(may_be_written(load, memory) for load in loads):
            return 1
        threads = LANES * self.options.num_warps
        loaded = sum(_bytes_of_a_thread(load, threads) for load in loads)
        enough = self.options.machine.copy_unit  # the widest load; more hides no more latency
        wanted = min(MOST, 1 << max(0, math.ceil(math.log2(enough / loaded))))
        begin, end = host_expression(loop.lb), host_expression(loop.ub)
        if isinstance(begin, int) and isinstance(end, int):
            wanted = min(wanted, -((begin - end) // step))
        return wanted


def _may_move(op: Operation) -> bool:
    """Whether an op of an iteration may be done after loads of later ones, or is such a load."""
    if op.regions or touches(op, ORDER) or is_collective(op):
        return False
    return is_pure(op) or isinstance(op, Store) or (isinstance(op, Load) and only_reads(op))


def _bytes_of_a_thread(load: Load, threads: int) -> int:
    size = byte_size(element_of(load.result.type))
    return size * max(1, math.prod(shape_of(load.result.type)) // threads)


def _batch(loop: scf.ForOp, count: int) -> None:
    """Put a loop of so many iterations at once before a loop, which does the rest."""
    wide, step = _Wide(loop), host_expression(loop.step)
    assert isinstance(step, int)
    width = Before(loop).constant(count * step)
    first, last = wide.of(loop.lb), wide.of(loop.ub)
    left = wide.add("addi", wide.add("subi", last, first), wide.constant(step - 1))
    left = wide.greatest(left, wide.constant(0))
    rounds = wide.add("divsi", left, wide.constant(count * step))
    whole = wide.add("muli", rounds, wide.constant(count * step))
    end = wide.back(wide.add("addi", first, whole), loop.lb)
    body = Block(arg_types=[a.type for a in loop.body.block.args])
    for new, old in zip(body.args, loop.body.block.args, strict=True):
        new.name_hint = old.name_hint
    _fill(body, loop, count, step)
    batched = scf.ForOp(loop.lb, end, width, loop.iter_args, body)
    batched.attributes |= loop.attributes
    assert loop.parent is not None
    loop.parent.insert_op_before(batched, loop)
    loop.operands[0] = end
    for place, result in enumerate(batched.results):
        loop.operands[3 + place] = result


class _Wide(Before):
    """Arithmetic of bounds, before a loop, that does not overflow their type."""

    def __init__(self, loop: scf.ForOp) -> None:
        super().__init__(loop)
        self.type = i64

    def of(self, value: SSAValue) -> SSAValue:
        """A bound, wide enough."""
        return value if value.type == i64 else self.insert(Map("extsi", [value], i64))

    def back(self, value: SSAValue, like: SSAValue) -> SSAValue:
        """A bound with the type of another one."""
        return value if like.type == i64 else self.insert(Map("trunci", [value], like.type))


def _fill(body: Block, loop: scf.ForOp, count: int, step: int) -> None:
    """Write iterations one after the other, what their loads need before all else."""
    old = loop.body.block
    carried: list[SSAValue] = list(body.args[1:])
    made: list[Operation] = []
    for number in range(count):
        values: dict[SSAValue, SSAValue] = dict(zip(old.args[1:], carried, strict=True))
        values[old.args[0]] = body.args[0]
        if number:
            far = integer_constant(number * step, loop.lb.type)
            counter = Map("addi", [body.args[0], far.results[0]])
            made += [far, counter]
            values[old.args[0]] = counter.result
        made += [op.clone(values) for op in list(old.ops)[:-1]]
        carried = [values.get(v, v) for v in terminator(old).operands]
    early = _needed_by_loads(made)
    ordered = [op for op in made if op in early] + [op for op in made if op not in early]
    body.add_ops([*ordered, scf.YieldOp(*carried)])


def _needed_by_loads(ops: Iterable[Operation]) -> set[Operation]:
    """Loads, and what their addresses and masks are computed from, of some ops."""
    ours, found = set(ops), set[Operation]()
    work: list[Operation] = [op for op in ours if isinstance(op, Load)]
    while work:
        op = work.pop()
        if op in found:
            continue
        found.add(op)
        work += [v.owner for v in op.operands if v.owner in ours]  # pyright: ignore
    return found
