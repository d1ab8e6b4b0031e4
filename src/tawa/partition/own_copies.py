"""What a kernel of one role copies into rings itself, iterations ahead of its products.

Kernels of one or two warps, and others that have no loading role, wait for memory in every
iteration of a loop unless its loads run ahead. In registers a tile can be one iteration ahead, and
takes registers all the while; copied into a ring (`cp.async`), it can be as many as the ring has
slots. So what products of a loop read through pointers goes through rings here, too: the role fills
a slot and takes it in the same iteration, and `prefetch` moves the filling ahead. All that an
iteration copies fills one slot, so that it waits once.

That needs addresses and masks that follow from the loop's counter and from what it carries, without
memory that is loaded and without products. A tile that is computed with on its way to a product is
read from its slot into registers.
"""

from __future__ import annotations

import math

from xdsl.dialects import func, scf
from xdsl.ir import BlockArgument, Operation, SSAValue

from tawa.base.options import Options
from tawa.base.types import byte_size, element_of, shape_of
from tawa.ir.effects import is_pure, only_reads
from tawa.ir.loops import terminator
from tawa.partition.in_place import load_after_acquire
from tawa.partition.pointer_loads import choose, obstacle_to_copies, products_of, wanted_loads
from tawa.partition.rows_beside import rows_beside
from tawa.tile.analysis.alias import may_be_written, written
from tawa.tile.analysis.axis_info import AxisAnalysis
from tawa.tile.dialect.ops import Dot, Load

LEAST_SHARE = 6
"""A slot takes at most this part of shared memory: three of them leave half of it to the rest."""


def own_copies(kernel: func.FuncOp, options: Options) -> list[Load]:
    """The loads through pointers that a kernel of one role copies ahead of its products.

    They, and what their addresses need, come to stand at the start of an iteration.
    """
    axes = AxisAnalysis()
    may = [op for op in wanted_loads(kernel) if may_copy_itself(op, kernel, axes, options)]
    found: list[Load] = []
    for loop in dict.fromkeys(load.parent_op() for load in may):
        assert isinstance(loop, scf.ForOp)
        loads = [load for load in may if load.parent_op() is loop]
        loads += rows_beside(loads, lambda row: _may_run_ahead(row, kernel, AxisAnalysis()))
        if sum(map(_bytes, loads)) <= options.machine.shared_bytes // LEAST_SHARE:
            found += loads
            _come_first(loop, loads)
    for load in found:
        choose(load, axes)
    return found


def _bytes(load: Load) -> int:
    return math.prod(shape_of(load.result.type)) * byte_size(element_of(load.result.type))


def may_copy_itself(load: Load, kernel: func.FuncOp, axes: AxisAnalysis, options: Options) -> bool:
    """Whether a kernel's only role may copy what it loads ahead of a loop's products."""
    loop = load.parent_op()
    if options.num_stages == 1 or options.cluster != 1 or not isinstance(loop, scf.ForOp):
        return False
    if not any(dot.parent is loop.body.block for dot, _, _ in products_of(load.result)):
        return False
    return _may_run_ahead(load, kernel, axes)


def _may_run_ahead(load: Load, kernel: func.FuncOp, axes: AxisAnalysis) -> bool:
    """Whether threads may copy a loop's load iterations ahead."""
    if obstacle_to_copies(load, kernel, axes) or load_after_acquire([load], kernel):
        return False
    loop = load.parent_op()
    return isinstance(loop, scf.ForOp) and _known_ahead(load, loop)


def _come_first(loop: scf.ForOp, loads: list[Load]) -> None:
    """Move loads, and what their addresses need, to the start of an iteration."""
    body = loop.body.block
    wanted, work = set[Operation](loads), [v for load in loads for v in load.operands]
    while work:
        op = work.pop().owner
        if isinstance(op, Operation) and op.parent is body and op not in wanted:
            wanted.add(op)
            work += op.operands
    moved = [op for op in body.ops if op in wanted]
    rest = next(op for op in body.ops if op not in wanted)
    for op in moved:
        op.detach()
        body.insert_op_before(op, rest)


def _known_ahead(load: Load, loop: scf.ForOp) -> bool:
    """Whether a load's addresses and mask can be computed iterations before it."""
    body = loop.body.block
    memory = written(body.ops)
    work, seen = list(load.operands), set[SSAValue]()
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, BlockArgument):
            if value.owner is body and value.index:
                work.append(terminator(body).operands[value.index - 1])
            continue
        op = value.owner
        assert isinstance(op, Operation)
        if op.parent is not body:
            continue
        scalar = only_reads(op) and not any(shape_of(r.type) for r in op.results)
        if op.regions or not (is_pure(op) or scalar) or may_be_written(op, memory):
            return False
        if isinstance(op, Dot):
            return False
        work += op.operands
    return True
