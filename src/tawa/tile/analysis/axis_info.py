"""What is known of integer and pointer tiles along each dimension: runs, multiples, constants.

After Triton's axis analysis (public documentation): `contiguous[d]` elements in a row along `d`
grow by one, the first of them a multiple of `multiple[d]`; `constant[d]` elements in a row are
equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import Block, BlockArgument, OpResult, SSAValue

from tawa.base.types import PtrType, byte_size, element_of, shape_of
from tawa.ir.elementwise import Map
from tawa.ir.kernels import CONSTANT, CONTIGUOUS, MULTIPLE
from tawa.ir.loops import passed_out, passed_to
from tawa.tile.analysis.zero import scalar_constant
from tawa.tile.dialect.ops import (
    Arange,
    Broadcast,
    ExpandDims,
    NumPrograms,
    ProgramId,
    Splat,
    Trans,
    spreads,
)

LARGE = 1 << 30
PROMISES = {MULTIPLE, CONTIGUOUS, CONSTANT}
EXTREMES = ("maxsi", "minsi", "maxui", "minui")
"""Scalar functions whose result is one of their operands."""


@dataclass(frozen=True)
class AxisInfo:
    """Facts of one tile, a number a dimension; a scalar has rank 0 and only `whole`."""

    contiguous: tuple[int, ...]
    multiple: tuple[int, ...]
    constant: tuple[int, ...]
    whole: int = 1
    """A scalar's known divisor (a pointer's: of its address, in elements)."""


def _power(value: int) -> int:
    return LARGE if value == 0 else value & -value


def unknown(shape: Sequence[int]) -> AxisInfo:
    """Nothing is known."""
    ones = (1,) * len(shape)
    return AxisInfo(ones, ones, ones)


def _meet(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """What holds of a value that may be either of two."""

    def both(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(map(math.gcd, left, right))

    return AxisInfo(
        both(a.contiguous, b.contiguous),
        both(a.multiple, b.multiple),
        both(a.constant, b.constant),
        math.gcd(a.whole, b.whole),
    )


class AxisAnalysis:
    """Answers for one kernel.

    What a loop carries is taken to be what it starts with, until an iteration is seen to change
    that.
    """

    def __init__(self) -> None:
        self._known: dict[SSAValue, AxisInfo] = {}

    def of(self, value: SSAValue) -> AxisInfo:
        """The facts of a value."""
        if value not in self._known:
            self._known[value] = _promised(value, self._find(value))
        return self._known[value]

    def _find(self, value: SSAValue) -> AxisInfo:
        shape = shape_of(value.type)
        if isinstance(value, BlockArgument):
            return self._argument(value, shape)
        op = value.owner
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            return AxisInfo((), (), (), _power(op.value.value.data))
        if isinstance(op, Arange):
            return AxisInfo((shape[0],), (_power(op.start.value.data),), (1,))
        if isinstance(op, Splat):
            whole = self.of(op.value).whole
            return AxisInfo((1,) * len(shape), (whole,) * len(shape), shape)
        if isinstance(op, ExpandDims):
            return self._expanded(self.of(op.value), op.axis.value.data)
        if isinstance(op, Broadcast):
            return self._broadcast(self.of(op.value), shape_of(op.value.type), shape)
        if isinstance(op, Trans):
            return _turned(self.of(op.value), op.permutation)
        if isinstance(op, Map):
            return self._map(op, shape)
        assert isinstance(value, OpResult)
        return self._carried(value, passed_out(value))

    def _carried(self, value: SSAValue, sources: Sequence[SSAValue]) -> AxisInfo:
        """A value that is one of several, perhaps computed from itself an iteration before.

        What was derived from an assumption that fails is forgotten with it.
        """
        if not sources:
            return unknown(shape_of(value.type))
        before = dict(self._known)
        assumed = self.of(sources[0])
        while True:
            self._known = {**before, value: assumed}
            found = assumed
            for source in sources:
                found = _meet(found, self.of(source))
            if found == assumed:
                return found
            assumed = found

    def _argument(self, value: BlockArgument, shape: tuple[int, ...]) -> AxisInfo:
        kernel = value.owner.parent_op()
        if isinstance(kernel, scf.ForOp) and value.index == 0:
            bounds = (self.of(kernel.lb).whole, self.of(kernel.step).whole)
            return AxisInfo((), (), (), math.gcd(*bounds))
        if not isinstance(kernel, func.FuncOp):
            return self._carried(value, passed_to(value))
        whole = 1
        if kernel.arg_attrs is not None:
            facts = kernel.arg_attrs.data[value.index].data
            divisor = facts.get("tawa.divisible")
            if isinstance(divisor, IntegerAttr):
                whole = divisor.value.data
        if isinstance(value.type, PtrType):
            whole = max(1, whole // byte_size(value.type.pointee))
        return AxisInfo((), (), (), whole)

    @staticmethod
    def _expanded(info: AxisInfo, axis: int) -> AxisInfo:
        def insert(numbers: tuple[int, ...], new: int) -> tuple[int, ...]:
            return (*numbers[:axis], new, *numbers[axis:])

        # Along the new dimension every element begins a run of its own, not only the first.
        alone = all(run == 1 for run in info.contiguous)
        first = max(info.multiple, default=1) if alone else 1
        return AxisInfo(
            insert(info.contiguous, 1), insert(info.multiple, first), insert(info.constant, 1)
        )

    @staticmethod
    def _broadcast(info: AxisInfo, old: tuple[int, ...], new: tuple[int, ...]) -> AxisInfo:
        grown = [o == 1 and n > 1 for o, n in zip(old, new, strict=True)]
        constant = tuple(n if g else c for g, n, c in zip(grown, new, info.constant, strict=True))
        return AxisInfo(info.contiguous, info.multiple, constant)

    def _map(self, op: Map, shape: tuple[int, ...]) -> AxisInfo:
        infos = [self.of(v) for v in op.arguments]
        name = op.function.data
        if name in ("extsi", "extui", "trunci"):
            return infos[0]
        if not shape:
            divisor = scalar_constant(op.arguments[-1])
            return AxisInfo((), (), (), _scalar(name, [i.whole for i in infos], divisor))
        if name in ("addi", "addptr", "subi"):
            return _sum(infos[0], infos[1], name == "subi")
        if name == "muli":
            return _product(infos[0], infos[1])
        if name in ("remsi", "remui"):
            return _remainder(infos[0], infos[1])
        if name in ("divsi", "divui") and _not_negative(op.arguments[0]):
            return _quotient(infos[0], infos[1])
        if name.startswith("cmpi_"):
            return _comparison(name, infos[0], infos[1])
        constant = tuple(math.gcd(*(i.constant[d] for i in infos)) for d in range(len(shape)))
        ones = (1,) * len(shape)
        return AxisInfo(ones, ones, constant)


def _turned(info: AxisInfo, order: Sequence[int]) -> AxisInfo:
    def turned(numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(numbers[d] for d in order)

    return AxisInfo(turned(info.contiguous), turned(info.multiple), turned(info.constant))


def _promised(value: SSAValue, info: AxisInfo) -> AxisInfo:
    """What is known, or promised by the user where that is more.

    A promise of runs holds inside of the tile; one of multiples is of the first elements of runs,
    and of bytes for pointers, as in Triton.
    """
    op = value.owner
    if isinstance(op, Block) or not PROMISES & op.attributes.keys():
        return info
    shape, element = shape_of(value.type), element_of(value.type)
    size = byte_size(element.pointee) if isinstance(element, PtrType) else 1

    def more(fact: str, known: tuple[int, ...]) -> tuple[int, ...]:
        given = op.attributes.get(fact)
        if not isinstance(given, DenseArrayBase):
            return known
        numbers = (int(n) for n in given.get_values())
        return tuple(max(k, n) for k, n in zip(known, numbers, strict=True))

    multiple = more(MULTIPLE, tuple(m * size for m in info.multiple or (info.whole,)))
    multiple = tuple(max(1, m // size) for m in multiple)
    if not shape:
        return replace(info, whole=multiple[0])
    runs = (more(CONTIGUOUS, info.contiguous), more(CONSTANT, info.constant))
    contiguous, constant = (tuple(map(math.gcd, run, shape)) for run in runs)
    return AxisInfo(contiguous, multiple, constant)


def _scalar(name: str, wholes: list[int], last: float | None) -> int:
    """What a scalar function is a multiple of; `last` is its last operand if that is a constant."""
    if name in ("addi", "subi", "addptr", *EXTREMES):
        return math.gcd(*wholes)
    if name == "select":
        return math.gcd(*wholes[1:])
    if name == "muli":
        return min(LARGE, wholes[0] * wholes[1])
    if name in ("divsi", "divui") and last and last > 0 and wholes[0] % last == 0:
        return wholes[0] // int(last)
    return 1


def _each(a: AxisInfo, b: AxisInfo, rule: Callable[[int], int]) -> tuple[int, ...]:
    return tuple(rule(d) for d in range(len(a.contiguous)))


def _sum(a: AxisInfo, b: AxisInfo, difference: bool) -> AxisInfo:
    def contiguous(d: int) -> int:
        left = math.gcd(a.contiguous[d], b.constant[d])
        return left if difference else max(left, math.gcd(a.constant[d], b.contiguous[d]))

    return _common(a, b, contiguous)


def _common(a: AxisInfo, b: AxisInfo, contiguous: Callable[[int], int]) -> AxisInfo:
    """What two operands have in common, with runs of their own."""
    return AxisInfo(
        _each(a, b, contiguous),
        _each(a, b, lambda d: math.gcd(a.multiple[d], b.multiple[d])),
        _each(a, b, lambda d: math.gcd(a.constant[d], b.constant[d])),
    )


def _product(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    # `multiple` speaks of the first element of a run; a product has runs of one element, so a
    # factor that runs counts with 1.
    def multiple(d: int) -> int:
        factors = (i.multiple[d] if i.contiguous[d] == 1 else 1 for i in (a, b))
        return min(LARGE, math.prod(factors))

    return AxisInfo(
        (1,) * len(a.contiguous),
        _each(a, b, multiple),
        _each(a, b, lambda d: math.gcd(a.constant[d], b.constant[d])),
    )


def _remainder(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """Runs go on up to multiples of the divisor."""

    def run(d: int) -> int:
        return math.gcd(a.contiguous[d], a.multiple[d], b.multiple[d], b.constant[d])

    return _common(a, b, run)


def _quotient(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """Of what is not negative: runs that lie between two multiples of the divisor become equal."""

    def constant(d: int) -> int:
        run = math.gcd(a.contiguous[d], a.multiple[d], b.multiple[d], b.constant[d])
        return max(run, math.gcd(a.constant[d], b.constant[d]))

    ones = (1,) * len(a.contiguous)
    return AxisInfo(ones, ones, _each(a, b, constant))


def _not_negative(value: SSAValue) -> bool:
    """Whether an integer is known to have no negative element, as long as no sum wraps."""
    work, seen = [value], {value}
    while work:
        inputs = _not_negative_with(work.pop())
        if inputs is None:
            return False
        work += [v for v in inputs if v not in seen]
        seen.update(inputs)
    return True


def _not_negative_with(value: SSAValue) -> Sequence[SSAValue] | None:
    """What must have no negative element for a value to have none; None if it may have one."""
    op = value.owner
    if isinstance(value, BlockArgument):
        loop = value.owner.parent_op()
        counts = isinstance(loop, scf.ForOp) and value.index == 0
        return (loop.lb, loop.step) if counts and isinstance(loop, scf.ForOp) else None
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return () if op.value.value.data >= 0 else None
    if isinstance(op, Arange):
        return () if op.start.value.data >= 0 else None
    if isinstance(op, ProgramId | NumPrograms):
        return ()
    if isinstance(op, Splat) or spreads(op):
        return (op.operands[0],)
    if isinstance(op, Map) and op.function.data == "remsi":
        return (op.arguments[0],)
    kept = ("addi", "muli", "divsi", "minsi", "maxsi", "extsi")
    return op.arguments if isinstance(op, Map) and op.function.data in kept else None


def _comparison(name: str, a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """Runs that begin at multiples of what they are compared with lie on one side of it.

    So it is only for comparisons that tell what lies below from the number itself.
    """
    name = name.removeprefix("cmpi_")[1:]
    if name in ("gt", "le"):
        a, b, name = b, a, {"gt": "lt", "le": "ge"}[name]

    def constant(d: int) -> int:
        equal = math.gcd(a.constant[d], b.constant[d])
        if name not in ("lt", "ge"):
            return equal
        run = math.gcd(a.contiguous[d], math.gcd(a.multiple[d], b.multiple[d]))
        return max(equal, math.gcd(run, b.constant[d]))

    ones = (1,) * len(a.contiguous)
    return AxisInfo(ones, ones, _each(a, b, constant))


def fastest(analysis: AxisAnalysis, pointers: SSAValue) -> tuple[int, int]:
    """The dimension along which addresses run, and how many elements one access may move there."""
    info, shape = analysis.of(pointers), shape_of(pointers.type)
    if not shape:
        return 0, 1
    d = max(range(len(shape)), key=lambda i: (info.contiguous[i], i))
    element = element_of(pointers.type)
    assert isinstance(element, PtrType)
    limit = max(1, 16 // byte_size(element.pointee))
    return d, max(1, min(limit, math.gcd(info.contiguous[d], info.multiple[d])))


def access_run(
    analysis: AxisAnalysis, pointers: SSAValue, mask: SSAValue | None
) -> tuple[int, int]:
    """As `fastest`, but elements of one access also have the same mask."""
    dim, count = fastest(analysis, pointers)
    if mask is not None:
        count = math.gcd(count, analysis.of(mask).constant[dim])
    return dim, max(1, count)
