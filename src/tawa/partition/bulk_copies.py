"""Tiles that are loaded through pointers are copied by the copy engine, where they are boxes.

A loading role that copies through pointers is held up by its own instructions: each thread starts
dozens of copies of 16 bytes a slot. Most tiles of addresses are boxes, though: rows at a stride, of
neighbours, cut off by masks at the end of a dimension. One thread can have the copy engine copy
those.

A tensor map says what the engine needs. It is made on the host, so it may not know where in the
array a box begins, nor where a mask ends, which programs compute or even load. So it describes
nothing of the array but its rows' stride: three dimensions, the box's own rows and columns, and one
that moves the box by 16 bytes. The last one's coordinate says where the box begins. The other two
say what is masked off: a box that begins c rows further than the map ends c rows before its own
last, where the engine writes zeros.

Whether a tile is such a box may differ from program to program: `(start + arange) % M` begins again
in the last one. What must hold for that is a scalar, which the loading role tests; where it does
not hold, it copies through pointers, as it would have done. So nothing has to be proved, and a tile
that is seldom a box is right all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from tawa.aref.analysis.product_check import product_obstacle
from tawa.base.options import Options
from tawa.base.spans import copy_span, span_of
from tawa.base.types import PtrType, byte_size, element_of, i32, i64, shape_of
from tawa.ir.boxes import REGULAR, Box
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.roles import CopiedInBulk, NotCopiedInBulk
from tawa.ir.effects import is_pure
from tawa.ir.elementwise import Map
from tawa.ir.loops import carry, extend_yield, integer_constant, terminator
from tawa.ir.properties import ONE_PROGRAM, TIDY
from tawa.ir.walking import all_of
from tawa.machine.chips import SM_90A
from tawa.partition.pointer_loads import reason_against, run_of, wanted_loads
from tawa.partition.strided_tiles import (
    Bounds,
    NotStrided,
    Stride,
    Strided,
    StridedTiles,
    constant_integer,
)
from tawa.tile.analysis.axis_info import AxisAnalysis
from tawa.tile.analysis.host_expressions import host_expression
from tawa.tile.dialect.ops import Dot, Load, MakeDesc, Splat, spreads

PIECE = SM_90A.copy_unit
"""Bytes that addresses and strides of a tensor map are multiples of."""

MOST_PIECES = 2**31 - 1
"""Pieces that a box may be moved by: an i32."""

MOST_STRIDE = 2**32
"""Elements between rows, at most; tensor maps have strides of less than 2^40 bytes."""


@dataclass(frozen=True)
class BulkCopies:
    """Say of loads through pointers as which boxes the copy engine may copy them."""

    options: Options
    decided: Decisions
    name: ClassVar[str] = "bulk-copies"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Give loads that a loading role may do a descriptor, coordinates and a condition."""
        options = self.options
        if options.specialize is False or options.cluster != 1 or options.bulk_copies is False:
            return  # what tests a box costs an only role as much as its copies
        for kernel in module.ops:
            asked = options.bulk_copies is not None
            if isinstance(kernel, func.FuncOp) and (asked or not self._by_warps(kernel)):
                self._kernel(kernel)

    def _by_warps(self, kernel: func.FuncOp) -> bool:
        """Whether warps do all products of a kernel by themselves: they have few bytes to copy."""
        dots = all_of(kernel, Dot)
        target, warps = self.options.machine, min(self.options.num_warps, SM_90A.group_warps)
        obstacles = (product_obstacle(dot, warps, target) for dot in dots)
        return bool(dots) and None not in list(obstacles)

    def _kernel(self, kernel: func.FuncOp) -> None:
        axes, warps = AxisAnalysis(), self.options.num_warps
        loads = [op for op in wanted_loads(kernel) if not reason_against(op, kernel, axes, warps)]
        for load in loads:
            _separate(load)
        axes, tiles, found = AxisAnalysis(), StridedTiles(), list[str]()
        for load in loads:
            name = load.result.name_hint or "a tile"
            try:
                _Box(load, axes, tiles).describe()
                found.append(name)
            except NotStrided as error:
                self.decided.add(NotCopiedInBulk(name, str(error), load.name, span=span_of(load)))
        if found:
            self.decided.add(CopiedInBulk(tuple(found), span=span_of(loads[0])))


# --- pointers that loops carry ------------------------------------------------------------------


def _separate(load: Load) -> None:
    """Let loops carry how far a load's pointers have moved, apart from where they started."""
    work, seen = [load.ptr], set[SSAValue]()
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, BlockArgument):
            made = _moved(value)
            if made is not None:
                work.append(made)
        elif isinstance(value.owner, Operation) and is_pure(value.owner):
            of_pointers = (v for v in value.owner.operands if _points(v))
            work += of_pointers


def _points(value: SSAValue) -> bool:
    return isinstance(element_of(value.type), PtrType)


def _moved(argument: BlockArgument) -> SSAValue | None:
    """What a loop's pointers are replaced by: those it starts with, and a distance that it carries.

    None if an iteration does anything to them but add scalars.
    """
    loop = argument.owner.parent_op()
    if not isinstance(loop, scf.ForOp) or argument.index == 0:
        return None
    steps = _steps(terminator(loop.body.block).operands[argument.index - 1], argument)
    if steps is None:
        return None
    start = loop.iter_args[argument.index - 1]
    zero = integer_constant(0, i64)
    assert loop.parent is not None
    loop.parent.insert_op_before(zero, loop)
    loop, (distance,), _ = carry(loop, [zero.result])
    body = loop.body.block
    first, last = body.first_op, terminator(body)
    assert first is not None
    new: list[Operation] = []
    total: SSAValue = distance
    for step in steps:
        wide = step if step.type == i64 else _append(new, Map("extsi", [step], i64))
        total = _append(new, Map("addi", [total, wide]))
    body.insert_ops_before(new, last)
    extend_yield(body, [total])
    shape, made = shape_of(argument.type), list[Operation]()
    offset = _append(made, Splat(distance, shape)) if shape else distance
    pointers = _append(made, Map("addptr", [start, offset]))
    pointers.name_hint = argument.name_hint
    copy_span(loop, [zero, *new, *made])
    argument.replace_all_uses_with(pointers)
    made[-1].operands[0] = start
    body.insert_ops_before(made, first)
    return pointers


def _append(ops: list[Operation], new: Operation) -> SSAValue:
    ops.append(new)
    return new.results[0]


def _steps(value: SSAValue, argument: SSAValue) -> list[SSAValue] | None:
    """The scalars that an iteration adds to pointers; None if it does anything else."""
    steps: list[SSAValue] = []
    while value is not argument:
        op = value.owner
        if not isinstance(op, Map) or op.function.data != "addptr":
            return None
        value, offset = op.arguments
        while isinstance(offset.owner, Splat) or spreads(offset.owner):
            offset = offset.owner.operands[0]
        if shape_of(offset.type):
            return None
        steps.append(offset)
    return steps


def _narrow(value: SSAValue) -> SSAValue:
    """The same signed integer before it was extended to 64 bits, if it was no more than that."""
    op = value.owner
    if not isinstance(op, Map):
        return value
    if op.function.data == "subi" and constant_integer(_narrow(op.arguments[1])) == 0:
        return _narrow(op.arguments[0])
    return op.arguments[0] if op.function.data == "extsi" else value


def _cuts_ends_alone(bounds: Bounds) -> bool:
    """Whether a mask does nothing but end dimensions."""
    return not bounds.holds and not any(bounds.least)


# --- boxes --------------------------------------------------------------------------------------


class _Box:
    """The box that a load's tile is, in the order of its slot: rows of neighbours."""

    def __init__(self, load: Load, axes: AxisAnalysis, tiles: StridedTiles) -> None:
        self.load, self.axes, self.tiles = load, axes, tiles
        pointer = element_of(load.ptr.type)
        assert isinstance(pointer, PtrType)
        self.element = pointer.pointee
        self.unit = PIECE // byte_size(self.element)
        """Elements of a piece."""
        self.inner = run_of(axes, load)[0]
        self.shape = shape_of(load.result.type)

    def describe(self) -> None:
        """Give the load its descriptor, coordinates and condition. Raises NotStrided."""
        base, address = self.tiles.addresses(self.load.ptr)
        row = self._stride(base, address)
        outer = 1 - self.inner
        rows, columns = self.shape[outer], self.shape[self.inner]
        bounds = self.tiles.bounds(self.load.mask) if self.load.mask is not None else None
        stride = self._product(row)
        limits = self.constant(columns), self.constant(MOST_STRIDE)
        safe = self.add("minsi", self.add("maxsi", stride, limits[0]), limits[1])
        holds = [*address.holds]
        if row.factors:
            holds.append(self.add("cmpi_eq", stride, safe))
        cut: dict[int, SSAValue] = {}
        regular = not address.holds and (bounds is None or _cuts_ends_alone(bounds))
        if bounds is not None:
            holds += bounds.holds
            for d, extent in enumerate(self.shape):
                holds += [self.add("cmpi_sle", v, self.constant(0)) for v in bounds.least[d]]
                if bounds.end[d]:
                    cut[d] = self._cut(bounds.end[d], extent)
        place = address.first
        if outer in cut:
            place = self.add("subi", place, self.add("muli", cut[outer], safe))
        if self.inner in cut:
            self._begins_with_pieces(cut[self.inner], holds)
            place = self.add("subi", place, cut[self.inner])
        pieces = self._pieces(place, holds)
        where = [pieces, *(cut.get(d, self.constant(0)) for d in (outer, self.inner))]
        coordinates = [self._put(Map("trunci", [v], i32)) for v in where]
        sizes = [self.constant(n, i32) for n in (MOST_PIECES, rows, columns)]
        strides = [self.constant(self.unit), safe, self.constant(1)]
        desc = self._put(MakeDesc(base, sizes, strides, (1, rows, columns)))
        desc.name_hint = base.name_hint
        every = reduce(lambda a, b: self.add("andi", a, b), holds)
        self._replace(Box(desc, coordinates, every), regular)

    def _stride(self, base: BlockArgument, address: Strided) -> Stride:
        """The stride of rows, if a tensor map can have it."""
        along, row = address.strides[self.inner], address.strides[1 - self.inner]
        if along != Stride(1):
            raise NotStrided("the neighbours of its rows are not known to be neighbours in memory")
        if self.shape[self.inner] % self.unit:
            raise NotStrided(f"its rows are no multiple of {PIECE} bytes")
        if self.axes.of(base).whole % self.unit:
            raise NotStrided(f"`{base.name_hint}` is not known to be aligned to {PIECE} bytes")
        if any(host_expression(factor) is None for factor in row.factors):
            raise NotStrided("the stride of its rows is not computed from arguments alone")
        whole = row.count
        for factor in row.factors:
            whole *= self.axes.of(factor).whole
        if whole % self.unit or whole <= 0:
            raise NotStrided(f"the stride of its rows is no known multiple of {PIECE} bytes")
        if not row.factors and row.count < self.shape[self.inner]:
            raise NotStrided("its rows overlap")
        return row

    def _product(self, stride: Stride) -> SSAValue:
        found = self.constant(stride.count)
        for factor in stride.factors:
            found = self.add("muli", found, self.tiles.wide(self.load, factor))
        return found

    def _pieces(self, place: SSAValue, holds: list[SSAValue]) -> SSAValue:
        """By how many pieces the box is moved; `holds` is given what must hold for that.

        Negative places are many pieces, as an unsigned number. Whether a place is a whole number of
        pieces is mostly known: an iteration of few products has no time for tests.
        """
        bits = self.constant(self.unit.bit_length() - 1)
        pieces = self.add("shrsi", place, bits)
        if self.axes.of(place).whole % self.unit:
            holds.append(self.add("cmpi_eq", self.add("shli", pieces, bits), place))
        holds.append(self.add("cmpi_ult", pieces, self.constant(MOST_PIECES)))
        return pieces

    def _begins_with_pieces(self, cut: SSAValue, holds: list[SSAValue]) -> None:
        """A box that begins so many elements further may not begin inside of a piece.

        The engine stops the device there, though it would begin the row's next one in its place.
        """
        if (constant_integer(cut) or 0) % self.unit:
            raise NotStrided(f"its rows end inside of {PIECE} bytes")
        if self.axes.of(cut).whole % self.unit:
            inside = self.add("andi", cut, self.constant(self.unit - 1))
            holds.append(self.add("cmpi_eq", inside, self.constant(0)))

    def _cut(self, ends: list[SSAValue], extent: int) -> SSAValue:
        """How many of a dimension's last places are masked off: of an i32 in 32 bits."""
        ends = [_narrow(end) for end in ends]
        known = [constant_integer(end) for end in ends]
        if None not in known:
            last = min(number for number in [*known, extent] if number is not None)
            return self.constant(extent - max(last, 0))
        kind = i32 if all(end.type == i32 for end in ends) else i64
        whole = self.constant(extent, kind)
        if kind == i64:
            ends = [self.tiles.wide(self.load, end) for end in ends]
        end = reduce(lambda a, b: self.add("minsi", a, b), [*ends, whole])
        cut = self.add("subi", whole, self.add("maxsi", end, self.constant(0, kind)))
        return self.tiles.wide(self.load, cut)

    def add(self, name: str, *values: SSAValue) -> SSAValue:
        """A scalar, before the load."""
        return self.tiles.add(self.load, name, values)

    def constant(self, number: int, type_: object = i64) -> SSAValue:
        """A constant, before the load."""
        return self.tiles.constant(self.load, number, i32 if type_ is i32 else i64)

    def _replace(self, box: Box, regular: bool) -> None:
        """Put a load that has the box in the load's place."""
        old = self.load
        new = Load(
            old.ptr, old.mask, old.other, box=box,
            cache=old.cache.data if old.cache else None,
            eviction=old.eviction.data if old.eviction else None,
        )  # fmt: skip
        new.attributes |= old.attributes
        if regular:
            new.attributes[REGULAR] = UnitAttr()
        new.result.name_hint = old.result.name_hint
        self._put(new)
        old.result.replace_all_uses_with(new.result)
        old.detach()
        old.erase()

    def _put(self, op: Operation) -> SSAValue:
        copy_span(self.load, [op])
        assert self.load.parent is not None
        self.load.parent.insert_op_before(op, self.load)
        return op.results[0]
