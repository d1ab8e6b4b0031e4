"""Lower bounds of integer values: enough to know that a loop runs at least once."""

from __future__ import annotations

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from tawa.aref.dialect.ops import CtaCount, CtaIndex
from tawa.ir.elementwise import Map
from tawa.ir.kernels import AT_LEAST
from tawa.tile.dialect.ops import NumPrograms, ProgramId


def at_least(value: SSAValue) -> int | None:
    """A number that the value reaches unless it overflows; None if none is known."""
    promised = _promised(value)
    found = _computed(value)
    known = [n for n in (promised, found) if n is not None]
    return max(known, default=None)


def _promised(value: SSAValue) -> int | None:
    if isinstance(value, BlockArgument):
        kernel = value.owner.parent_op()
        if not isinstance(kernel, func.FuncOp) or kernel.arg_attrs is None:
            return None
        fact = kernel.arg_attrs.data[value.index].data.get(AT_LEAST)
    else:
        assert isinstance(value.owner, Operation)
        fact = value.owner.attributes.get(AT_LEAST)
    return fact.value.data if isinstance(fact, IntegerAttr) else None


def _computed(value: SSAValue) -> int | None:
    if isinstance(value, BlockArgument):
        loop = value.owner.parent_op()
        if isinstance(loop, scf.ForOp) and value.index == 0 and (at_least(loop.step) or 0) > 0:
            return at_least(loop.lb)
        return None
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value.data
    if isinstance(op, ProgramId | CtaIndex):
        return 0
    if isinstance(op, NumPrograms | CtaCount):
        return 1
    return _of_map(op) if isinstance(op, Map) else None


def _of_map(op: Map) -> int | None:
    known = [at_least(v) for v in op.arguments]
    name = op.function.data
    if name == "maxsi":
        return max((n for n in known if n is not None), default=None)
    numbers = [n for n in known if n is not None]
    if len(numbers) != len(known):
        return None
    match name, numbers:
        case "addi", [a, b]:
            return a + b
        case "muli", [a, b] if a >= 0 and b >= 0:
            return a * b
        case "divsi", [a, _] if a >= 0 and (divisor := _constant(op.arguments[1])) is not None:
            return a // divisor if divisor > 0 else None
        case "divsi" | "remsi", [a, b] if a >= 0 and b > 0:
            return 0
        case "minsi", [a, b]:
            return min(a, b)
        case _:
            return None


def iterations_around(op: Operation) -> int | None:
    """How often loops of constant bounds run an op; None if one of its loops has others."""
    count, parent = 1, op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.WhileOp):
            return None
        if isinstance(parent, scf.ForOp):
            start, end, step = (_constant(v) for v in (parent.lb, parent.ub, parent.step))
            if start is None or end is None or not step:
                return None
            count *= max(0, -((start - end) // step))
        parent = parent.parent_op()
    return count


def _constant(value: SSAValue) -> int | None:
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value.data
    return None


def runs(loop: scf.ForOp) -> bool:
    """Whether the loop is known to run at least once."""
    start, end = _constant(loop.lb), at_least(loop.ub)
    return start is not None and end is not None and end > start
