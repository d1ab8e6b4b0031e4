"""How much work a program of a kernel is, as far as it is known before a launch.

The bounds of loops count where they are computed from program ids, the grid's sizes and scalar
arguments; a loop with other bounds counts as one iteration. The unit is a cycle of a
multiprocessor: of the tensor core for products, of 128 lanes for other tiles, whichever takes a
block of code longer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tawa.base.tile_scheduler import FUNCTIONS, Step, Work
from tawa.base.types import bits, element_of, shape_of
from tawa.ir.elementwise import Map
from tawa.ir.kernels import made_by_host
from tawa.ir.walking import every
from tawa.machine.chips import DEFAULT
from tawa.tile.dialect.ops import Dot, NumPrograms, ProgramId

MULTIPLY_ADDS = DEFAULT.tensor_flops // 2
"""Of 16-bit elements, by the tensor core in a cycle."""

LANES = DEFAULT.schedulers * DEFAULT.lanes
"""Elements that ordinary instructions handle in a cycle."""


class _Unknown(Exception):
    """A scalar is not known before the launch."""


@dataclass
class _Steps:
    """The steps of a `Work` that are made of a kernel's scalars."""

    kernel: func.FuncOp
    steps: list[Step] = field(default_factory=list[Step])
    _found: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def add(self, *step: object) -> int:
        """Append a step, or find it; returns its number."""
        if step in self.steps:
            return self.steps.index(step)
        self.steps.append(step)
        return len(self.steps) - 1

    def number(self, value: int) -> int:
        """A constant."""
        return self.add("constant", value)

    def of(self, value: SSAValue) -> int:
        """The step that computes a scalar. Raises _Unknown."""
        if value not in self._found:
            self._found[value] = self._made(value)
        return self._found[value]

    def _made(self, value: SSAValue) -> int:
        if not isinstance(value.type, IntegerType):
            raise _Unknown
        if isinstance(value, BlockArgument):
            given, _ = made_by_host(self.kernel)
            if value.owner is not self.kernel.body.block or value.index >= given:
                raise _Unknown
            return self.add("argument", value.index)
        assert isinstance(value, OpResult)
        match op := value.op:
            case ProgramId():
                return self.add("program", op.axis.value.data)
            case NumPrograms():
                return self.add("grid", op.axis.value.data)
            case arith.ConstantOp() if isinstance(attribute := op.value, IntegerAttr):
                return self.number(attribute.value.data)
            case Map() if op.function.data in FUNCTIONS:
                return self.add(op.function.data, *map(self.of, op.arguments))
            case scf.IfOp() if op.false_region.blocks:
                either = (r.block.last_op for r in op.regions)
                yielded = [self.of(last.operands[value.index]) for last in either if last]
                return self.add("select", self.of(op.cond), *yielded)
            case _:
                raise _Unknown

    def iterations(self, loop: scf.ForOp) -> int:
        """The iterations of a loop; one if that is not known."""
        try:
            return self.known_iterations(loop)
        except _Unknown:
            return self.number(1)

    def known_iterations(self, loop: scf.ForOp) -> int:
        """The iterations of a loop. Raises _Unknown."""
        lb, ub, step = (self.of(v) for v in (loop.lb, loop.ub, loop.step))
        zero, one = self.number(0), self.number(1)
        rest = self.add("subi", self.add("addi", self.add("subi", ub, lb), step), one)
        return self.add("maxsi", self.add("divsi", rest, step), zero)


def iterations_of(kernel: func.FuncOp) -> dict[scf.ForOp, Work | None]:
    """How many iterations each loop of a plain grid's program makes; None if that is not known."""
    found: dict[scf.ForOp, Work | None] = {}
    for loop in every(kernel):
        if isinstance(loop, scf.ForOp):
            steps = _Steps(kernel)
            try:
                last = steps.known_iterations(loop)
            except _Unknown:
                found[loop] = None
            else:
                found[loop] = Work(tuple(steps.steps[: last + 1]))
    return found


def work_of(kernel: func.FuncOp) -> Work:
    """The work of a program of a plain grid, at least that of one iteration of its longest loop.

    That much is what a program takes besides its iterations: a pipeline fills and drains.
    """
    steps = _Steps(kernel)
    total = _block_work(kernel.body.block, steps)
    loops = (_cycles(op.body.block) for op in every(kernel) if isinstance(op, scf.ForOp))
    least = steps.number(max(loops, default=1))
    steps.steps.append(("addi", total, least))
    return Work(tuple(steps.steps))


def _block_work(block: Block, steps: _Steps) -> int:
    """The step of a block's work."""
    total = steps.number(_cycles(block))
    for op in block.ops:
        if isinstance(op, scf.ForOp):
            iteration = _block_work(op.body.block, steps)
            total = steps.add("addi", total, steps.add("muli", steps.iterations(op), iteration))
        elif isinstance(op, scf.IfOp):
            total = steps.add("addi", total, _branch_work(op, steps))
        else:
            for region in op.regions:
                for inner in region.blocks:
                    total = steps.add("addi", total, _block_work(inner, steps))
    return total


def _branch_work(op: scf.IfOp, steps: _Steps) -> int:
    """Of the branch that is taken, or of the longer one if that is not known."""
    then, other = (_block_work(r.block, steps) if r.blocks else steps.number(0) for r in op.regions)
    try:
        return steps.add("select", steps.of(op.cond), then, other)
    except _Unknown:
        return steps.add("maxsi", then, other)


def _cycles(block: Block) -> int:
    """Cycles of a block's own ops, without those inside of loops and branches."""
    products = sum(_product_cycles(op) for op in block.ops if isinstance(op, Dot))
    others = sum(_elements(op) for op in block.ops if not isinstance(op, Dot)) / LANES
    return max(1, math.ceil(max(products, others)))


def _product_cycles(op: Dot) -> float:
    depth = shape_of(op.a.type)[-1]
    wide = bits(element_of(op.a.type)) / 16
    return math.prod(shape_of(op.result.type)) * depth * wide / MULTIPLY_ADDS


def _elements(op: Operation) -> int:
    return max((math.prod(shape_of(r.type)) for r in op.results if shape_of(r.type)), default=0)
