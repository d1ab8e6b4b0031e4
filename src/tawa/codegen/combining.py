"""Lowering of reductions and scans that combine several tiles at once with any function.

`Combine` takes the tiles of a left and a right side, all in one layout, and gives as many. It is
associative; reductions may also exchange its sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import scf
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tawa.base.layout import Layout, Mode
from tawa.base.types import element_of, i32, is_float, shape_of
from tawa.codegen.fragments import convert, fragment, reducible
from tawa.codegen.group_lowering import GroupLowering
from tawa.codegen.tensors import across_lanes
from tawa.codegen.warp_parts import across_warps
from tawa.hopper.dialect.fragment import (
    Coordinate,
    Extract,
    Fill,
    Rearrange,
    ReduceRegisters,
    Relabel,
    ShuffleXor,
    Window,
    layout_of,
)
from tawa.hopper.dialect.types import FragType
from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import ArgReduce, ReduceWith, Yield

Values = list[SSAValue]
Combine = Callable[[Values, Values], Values]

NOWHERE = 2**31 - 1
"""The position of what is found at none."""


def combine_with(g: GroupLowering, block: Block) -> Combine:
    """The function of a region of scalars, on fragments; both sides of a branch are computed."""

    def run(inner: Block, known: dict[SSAValue, SSAValue], layout: Layout) -> Values:
        for op in inner.ops:
            if isinstance(op, Yield | scf.YieldOp):
                return [known[v] for v in op.operands]
            if isinstance(op, ConstantOp):
                scalar = g.add(op.clone())
                known[op.result] = g.add(Fill(scalar, FragType.of(scalar.type, layout)))
            elif isinstance(op, scf.IfOp):
                sides = [run(r.block, dict(known), layout) for r in op.regions]
                for result, yes, no in zip(op.results, *sides, strict=True):
                    known[result] = g.add(Map("select", [known[op.cond], yes, no]))
            else:
                assert isinstance(op, Map)
                operands = [known[v] for v in op.arguments]
                known[op.result] = g.add(Map(op.function.data, operands, op.result.type))
        return []

    def combine(left: Values, right: Values) -> Values:
        known: dict[SSAValue, SSAValue] = dict(zip(block.args, [*left, *right], strict=True))
        return run(block, known, layout_of(left[0]))

    return combine


def _along(layout: Layout, axis: int, count: int) -> Layout:
    """The layout of a tile reduced to `count` elements along the axis, all in each thread."""
    flat = layout.flattened(axis)
    shape = (*flat.shape[:axis], count, *flat.shape[axis + 1 :])
    reg = (*flat.reg, Mode(count, axis, 1)) if count > 1 else flat.reg
    return Layout(shape, reg, flat.lane, flat.warp)


def in_thread(g: GroupLowering, values: Values, axis: int, combine: Combine) -> Values:
    """Combine the registers of each thread along the axis."""
    layout = layout_of(values[0])
    kept = layout.flattened(axis)
    own = [tuple(p) for p in kept.offsets(kept.reg).tolist()]
    places = layout.offsets(layout.reg)
    order = sorted(range(layout.registers), key=lambda r: int(places[r, axis]))
    rows: dict[tuple[int, ...], list[int]] = {}
    for r in order:
        rows.setdefault(
            (*places[r, :axis].tolist(), 0, *places[r, axis + 1 :].tolist()), []
        ).append(r)
    count = layout.registers // kept.registers
    source = [rows[p][i] for i in range(count) for p in own]
    values = [g.add(Rearrange(v, source, _along(layout, axis, count))) for v in values]
    rest: list[Values] = []

    def part(first: int, size: int) -> Values:
        start = first * kept.registers
        return [g.add(Window(v, start, _along(layout, axis, size))) for v in values]

    while count > 1:
        half = count // 2
        if count % 2:
            rest.append(part(count - 1, 1))
        values = combine(part(0, half), part(half, half))
        count = half
    for other in reversed(rest):
        values = combine(values, other)
    return values


def reduce(g: GroupLowering, values: Values, axis: int, combine: Combine) -> Values:
    """Combine along the axis: in each thread, across lanes, across warps; the axis is gone."""
    layout = layout_of(values[0])
    values = over_lanes(g, in_thread(g, values, axis, combine), layout, axis, combine)
    result = layout.without(axis)
    values = [g.add(Relabel(v, result)) for v in values]
    return across_parts(g, values, layout, axis, combine)


def over_lanes(
    g: GroupLowering, values: Values, layout: Layout, axis: int, combine: Combine
) -> Values:
    """Combine what the lanes of a warp hold along a dimension of a tile's layout."""
    below = 1
    for mode in layout.lane:
        if mode.dim == axis:
            for bit in range(mode.extent.bit_length() - 1):
                others = [g.add(ShuffleXor(v, below << bit)) for v in values]
                values = combine(values, others)
        below *= mode.extent
    return values


def across_parts(
    g: GroupLowering, values: Values, layout: Layout, axis: int, combine: Combine
) -> Values:
    """Combine what each warp found of a tile of some layout, if several share the axis."""
    result = layout.without(axis)
    if any(m.dim == axis for m in layout.warp):
        rows = [across_warps(g, v, layout, axis) for v in values]
        own = in_thread(g, rows, 0, combine)
        whole = over_lanes(g, own, layout_of(rows[0]), 0, combine)
        values = [g.add(Relabel(v, result)) for v in whole]
    return values


def _give(g: GroupLowering, results: Sequence[SSAValue], values: Values) -> None:
    for old, new in zip(results, values, strict=True):
        if shape_of(old.type):
            new.name_hint = old.name_hint
            wanted = g.layouts.of.get(old)
            g.fragments[old] = convert(g, new, wanted) if wanted else new
        else:
            g.scalars[old] = g.add(Extract(new), old.name_hint)


def lower_reduce_with(g: GroupLowering, op: ReduceWith) -> None:
    """Any combination of several tiles."""
    first = reducible(g, op.values[0], op.axis.value.data)
    values = [first, *(fragment(g, v, layout_of(first)) for v in op.values[1:])]
    _give(g, op.outputs, reduce(g, values, op.axis.value.data, combine_with(g, op.body.block)))


def lower_arg_reduce(g: GroupLowering, op: ArgReduce) -> None:
    """An extreme, then the lowest of the positions that hold it; NaN counts as the least.

    Each warp finds both for its part; of the parts both are found in the same way. Where all of a
    row is NaN no position holds the extreme: the first stands for it.
    """
    axis = op.axis.value.data
    value = reducible(g, op.value, axis)
    layout, element = layout_of(value), element_of(op.value.type)
    sign = "f" if is_float(element) else "si" if op.unsigned is None else "ui"
    kind = ("max" if op.kind.data == "argmax" else "min") + ("numf" if sign == "f" else sign)
    values = _extreme(g, value, g.add(Coordinate(axis, 0, layout)), axis, kind)
    if any(m.dim == axis for m in layout.warp):
        extremes, positions = (across_warps(g, v, layout, axis) for v in values)
        found = _extreme(g, extremes, positions, 0, kind)
        values = [g.add(Relabel(v, layout.without(axis))) for v in found]
    if sign == "f":
        nothing = g.add(Map("cmpi_eq", [values[1], _number(g, NOWHERE, values[1])]))
        values[1] = g.add(Map("select", [nothing, _number(g, 0, values[1]), values[1]]))
    _give(g, (op.extreme, op.index), values)


def _extreme(g: GroupLowering, value: SSAValue, position: SSAValue, axis: int, kind: str) -> Values:
    """What is the extreme of a warp's elements, and the lowest of the positions that hold it."""
    layout = layout_of(value)
    own = across_lanes(g, g.add(ReduceRegisters(value, axis, kind)), layout, axis, kind)
    equal = "cmpf_oeq" if kind.endswith("numf") else "cmpi_eq"
    found = g.add(Map(equal, [value, _spread(g, own, layout, axis)]))
    candidates = g.add(Map("select", [found, position, _number(g, NOWHERE, position)]))
    index = g.add(ReduceRegisters(candidates, axis, "minsi"))
    return [own, across_lanes(g, index, layout, axis, "minsi")]


def _spread(g: GroupLowering, value: SSAValue, layout: Layout, axis: int) -> SSAValue:
    """What a thread holds of a reduced tile, in each of the registers of the tile's layout."""
    kept = layout_of(value)
    own = {tuple(p): r for r, p in enumerate(kept.offsets(kept.reg).tolist())}
    places = layout.offsets(layout.reg).tolist()
    return g.add(Rearrange(value, [own[(*p[:axis], *p[axis + 1 :])] for p in places], layout))


def _number(g: GroupLowering, number: int, like: SSAValue) -> SSAValue:
    """A fragment of one number, as another lies."""
    constant = g.add(ConstantOp(IntegerAttr(number, i32)))
    return g.add(Fill(constant, FragType.of(i32, layout_of(like))))


COMBINING: dict[type[Operation], Callable[..., None]] = {
    ReduceWith: lower_reduce_with,
    ArgReduce: lower_arg_reduce,
}
"""Lowering of reductions by any function."""
