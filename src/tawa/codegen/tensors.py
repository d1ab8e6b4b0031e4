"""Lowering of tile values to fragments: elementwise ops, layouts, reductions, pointer access."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, i1, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.aref.analysis.spread_rows import Halving, halvings, lane_parts, summed
from tawa.aref.dialect import ops as aref
from tawa.base.layout import REPLICA, Layout, operand, point, register_map
from tawa.base.types import byte_size, element_of, f32, shape_of
from tawa.codegen.coalesce import store_layout
from tawa.codegen.fragments import (
    agreed,
    convert,
    exchange,
    fragment,
    made_for,
    mapped,
    natural,
    reducible,
    scratch,
    team_sync,
)
from tawa.codegen.gathers import picked
from tawa.codegen.group_lowering import GROUP_WARPS, GroupLowering
from tawa.codegen.warp_parts import across_warps
from tawa.hopper.dialect.access_text import CACHE_POLICIES, Manner
from tawa.hopper.dialect.fragment import (
    Coordinate,
    Extract,
    Fill,
    Rearrange,
    ReduceRegisters,
    Relabel,
    ShuffleXor,
    VoteAny,
    layout_of,
)
from tawa.hopper.dialect.global_memory import GlobalLoad, GlobalStore, ScalarLoad, ScalarStore
from tawa.hopper.dialect.lane_reduction import REPEATABLE, ReduceLanes, reduces_lanes
from tawa.hopper.dialect.matrix import PackOperand, RoundOperand, TileWords, words_type
from tawa.hopper.dialect.memory import SharedLoad
from tawa.hopper.dialect.sync import FenceProxyAsync, NamedBarrierSync
from tawa.hopper.dialect.types import FragType, TileType
from tawa.ir.elementwise import Map
from tawa.tile.analysis.axis_info import fastest
from tawa.tile.dialect.ops import (
    Arange,
    Barrier,
    Broadcast,
    ExpandDims,
    Load,
    Reduce,
    Repeat,
    Reshape,
    Splat,
    Store,
    Trans,
)

VOLATILE_SCOPE = "gpu"
"""Whose releases a volatile load acquires: those of the programs that run beside this one."""


def lower_map(g: GroupLowering, op: Map) -> None:
    """A scalar or elementwise op; lazy ones are made when they are used."""
    result = op.result
    if not shape_of(result.type):
        operands = [g.scalar(v) for v in op.arguments]
        g.scalars[result] = g.add(Map(op.function.data, operands, result.type), result.name_hint)
    elif result in g.layouts.packed:
        _packed(g, op)
    elif not g.layouts.lazy(result):
        layout = g.layouts.of[result]
        operands = [fragment(g, v, layout) for v in op.arguments]
        new = mapped(g, op, operands, layout)
        new.name_hint = result.name_hint
        g.fragments[result] = new


def _packed(g: GroupLowering, op: Map) -> None:
    """An operand of a product, rounded and packed into words."""
    shape, element = shape_of(op.result.type), element_of(op.result.type)
    layout = operand((shape[0], shape[1]), g.warps, byte_size(element))
    operands = [fragment(g, v, layout) for v in op.arguments]
    if op.function.data == "truncf" and element_of(op.arguments[0].type) == f32:
        word = g.add(RoundOperand(operands[0], element))
    else:
        word = g.add(PackOperand(g.add(Map(op.function.data, operands, element))))
    word.name_hint = op.result.name_hint
    g.fragments[op.result] = word


def lower_lazy(g: GroupLowering, op: Operation) -> None:
    """Made when it is used."""


def lower_trans(g: GroupLowering, op: Trans) -> None:
    """The same registers under exchanged dimensions."""
    if g.layouts.lazy(op.result):
        return
    source = natural(g, op.value)
    assert isinstance(source.type, FragType)
    turned = g.add(Relabel(source, source.type.layout.permuted(op.permutation)))
    g.fragments[op.result] = convert(g, turned, g.layouts.of[op.result])


def lower_reshape(g: GroupLowering, op: Reshape) -> None:
    """The same registers where the layout's digits allow it, else through shared memory."""
    shape, wanted = shape_of(op.result.type), g.layouts.of.get(op.result)
    wanted = wanted or g.layouts.default(op.result)
    source = made_for(g, op.value, wanted.reshaped(shape_of(op.value.type)))
    assert isinstance(source.type, FragType)
    same = source.type.layout.reshaped(shape)
    if same is not None:
        g.fragments[op.result] = convert(g, g.add(Relabel(source, same)), wanted)
        return
    total = math.prod(shape)
    place = scratch(g, TileType.of(1, total, source.type.element_type, 0))
    exchange(g, g.add(Relabel(source, source.type.layout.linear())), place)
    flat = g.add(SharedLoad(place, FragType.of(source.type.element_type, wanted.linear())))
    g.fragments[op.result] = g.add(Relabel(flat, wanted))


def lower_repeat(g: GroupLowering, op: Repeat) -> None:
    """The same registers, each several times, where the threads of the result hold them."""
    axis, times = op.axis.value.data, op.times.value.data
    wanted = g.layouts.of.get(op.result)
    source = made_for(g, op.value, wanted.grouped(axis, times) if wanted else None)
    assert isinstance(source.type, FragType)
    layout = source.type.layout.repeated(axis, times)
    wanted = wanted or layout
    if (needed := wanted.grouped(axis, times)) is not None:
        found = register_map(source.type.layout, needed, tuple(range(len(layout.shape))))
        if found is not None:
            order = _groups(wanted, needed, axis, times)
            g.fragments[op.result] = g.add(Rearrange(source, [found[r] for r in order], wanted))
            return
    registers = [r // times for r in range(layout.registers)]
    value = g.add(Rearrange(source, registers, layout))
    g.fragments[op.result] = convert(g, value, wanted)


def _groups(layout: Layout, grouped: Layout, axis: int, times: int) -> list[int]:
    """For each register of a layout, the one of the layout of its groups that it is a copy of."""
    places = layout.offsets(layout.reg)
    places[:, axis] //= times
    known = {tuple(p): i for i, p in enumerate(grouped.offsets(grouped.reg).tolist())}
    return [known[tuple(p)] for p in places.tolist()]


def lower_reduce(g: GroupLowering, op: Reduce) -> None:
    """In each thread, then across lanes, then across warps; of a tile with one place, a pick."""
    value = picked(g, op) or _reduced(g, op)
    if shape_of(op.result.type):
        wanted = g.layouts.of.get(op.result)
        value.name_hint = op.result.name_hint
        g.fragments[op.result] = convert(g, value, wanted) if wanted else value
    else:
        g.scalars[op.result] = g.add(Extract(value), op.result.name_hint)


def _reduced(g: GroupLowering, op: Reduce) -> SSAValue:
    axis, kind = op.axis.value.data, op.kind.data
    source = reducible(g, op.value, axis)
    layout = layout_of(source)
    own = g.add(ReduceRegisters(source, axis, kind))
    shared = halvings(layout, axis) if g.layouts.of.get(op.result) != layout.without(axis) else []
    if shared and shared[-1].layout == g.layouts.of.get(op.result):
        value = shared_out(g, own, layout, (axis, shared), kind)
    else:
        value = across_lanes(g, own, layout, axis, kind)
    if any(m.dim == axis for m in layout.warp):
        rows = across_warps(g, value, layout, axis)
        parts = across_lanes(g, g.add(ReduceRegisters(rows, 0, kind)), layout_of(rows), 0, kind)
        value = g.add(Relabel(parts, layout.without(axis)))
    return value


def across_lanes(
    g: GroupLowering, value: SSAValue, layout: Layout, axis: int, kind: str
) -> SSAValue:
    """Combine what the lanes of a warp hold along a dimension of a tile's layout.

    One instruction does it where all lanes take part: those that hold the same element may, if
    combining an element with itself changes nothing.
    """
    assert isinstance(value.type, FragType)
    along = (axis, REPLICA) if kind in REPEATABLE else (axis,)
    lanes = [m for m in layout.lane if m.dim == axis]
    if lanes and reduces_lanes(kind, value.type) and all(m.dim in along for m in layout.lane):
        return g.add(ReduceLanes(value, kind))
    below = 1
    for mode in layout.lane:
        if mode.dim == axis:
            if mode.extent & (mode.extent - 1):
                raise ValueError("lanes along a dimension are a power of two")
            for bit in range(mode.extent.bit_length() - 1):
                other = g.add(ShuffleXor(value, below << bit))
                value = g.add(Map(kind, [value, other]))
        below *= mode.extent
    return value


def shared_out(
    g: GroupLowering, value: SSAValue, layout: Layout, by: tuple[int, list[Halving]], kind: str
) -> SSAValue:
    """Combine what lanes hold along a dimension; each keeps a share of the elements."""
    axis, exchanges = by
    for halving in exchanges:
        kept, given = _halves(g, value, halving)
        value = g.add(Map(kind, [kept, g.add(ShuffleXor(given, halving.lanes))]))
    left = exchanges[-1].layout
    done = {halving.lanes for halving in exchanges}
    below = 1
    for mode in layout.lane:
        for bit in range(mode.extent.bit_length() - 1 if mode.dim == axis else 0):
            if below << bit not in done:
                value = g.add(Map(kind, [value, g.add(ShuffleXor(value, below << bit))]))
        below *= mode.extent
    assert layout_of(value) == left
    return value


def _halves(g: GroupLowering, value: SSAValue, halving: Halving) -> tuple[SSAValue, SSAValue]:
    """The half of a thread's registers that it keeps, and the one for the lane across."""
    layout = halving.layout
    row, numbers = g.add(Coordinate(halving.dim, 0, layout)), FragType.of(i32, layout)
    step, zero = (g.add(Fill(g.constant(n), numbers)) for n in (halving.step, 0))
    upper = g.add(Map("cmpi_ne", [g.add(Map("andi", [row, step])), zero]))
    low, high = (g.add(Rearrange(value, r, layout)) for r in (halving.low, halving.high))
    return g.add(Map("select", [upper, high, low])), g.add(Map("select", [upper, low, high]))


def lower_any(g: GroupLowering, op: aref.Any) -> None:
    """A vote of the warp."""
    g.scalars[op.result] = g.add(VoteAny(natural(g, op.value)))


def lower_any_above(g: GroupLowering, op: aref.AnyAbove) -> None:
    """The largest element that each thread holds of a row against the bound, then a vote."""
    source = natural(g, op.value)
    own = g.add(ReduceRegisters(source, op.axis.value.data, "maxnumf"))
    assert isinstance(own.type, FragType)
    bound = fragment(g, op.bound, own.type.layout)
    of_rows = own.type
    for scale in op.scales:
        own = g.add(Map("mulf", [own, g.add(Fill(g.scalar(scale), of_rows))]))
    if op.unsure is None:
        g.scalars[op.result] = g.add(VoteAny(g.add(Map("cmpf_ogt", [own, bound]))))
        return
    below = g.add(Map("cmpf_ole", [own, bound]))
    infinity = _filled(g, FloatAttr(math.inf, f32), bound)
    finite = g.add(Map("cmpf_olt", [g.add(Map("absf", [bound])), infinity]))
    sure = g.add(Map("andi", [below, finite]))
    unsure = g.add(Map("xori", [sure, _filled(g, IntegerAttr(1, i1), sure)]))
    g.scalars[op.result] = g.add(VoteAny(unsure))


def _filled(g: GroupLowering, number: FloatAttr | IntegerAttr, like: SSAValue) -> SSAValue:
    """A fragment of one number, as another lies."""
    assert isinstance(like.type, FragType)
    return g.add(Fill(g.add(arith.ConstantOp(number)), like.type))


def lower_lane_partials(g: GroupLowering, op: aref.LanePartials) -> None:
    """What each thread holds of a row, added up."""
    layout = summed(op, g.layouts.of.get(op.value), g.warps)
    source = fragment(g, op.value, layout)
    own = g.add(ReduceRegisters(source, 1, "addf"))
    parts = g.add(Relabel(own, lane_parts(layout)))
    g.fragments[op.result] = convert(g, parts, g.layouts.of[op.result])


def lower_load(g: GroupLowering, op: Load) -> None:
    """Loads of scalars or tiles through pointers."""
    if not shape_of(op.result.type):
        g.scalars[op.result] = _scalar_load(g, op)
        return
    layout = g.layouts.of[op.result]
    parts = [fragment(g, v, layout) if v else None for v in (op.ptr, op.mask, op.other)]
    loaded = load_fragment(g, op, parts, layout)
    g.fragments[op.result] = loaded if op.volatile is None else agreed(g, loaded, VOLATILE_SCOPE)


def load_fragment(
    g: GroupLowering, op: Load, parts: Sequence[SSAValue | None], layout: Layout
) -> SSAValue:
    """Load a tile, or a part of one, whose pointers, mask and substitute are fragments."""
    pointers, mask, other = parts
    assert pointers is not None
    count, run = access_width(g, op.ptr, op.mask, layout)
    new = GlobalLoad(pointers, mask, other, count, run, manner=_manner(op))
    return g.add(new, op.result.name_hint)


def _manner(op: Load | Store) -> Manner:
    """What an access asks of the caches; `evict_normal` is what they do anyway."""
    cache, eviction = (None if hint is None else hint.data for hint in (op.cache, op.eviction))
    volatile = isinstance(op, Load) and op.volatile is not None
    return Manner(volatile, cache, eviction if eviction in CACHE_POLICIES else None)


def _scalar_load(g: GroupLowering, op: Load) -> SSAValue:
    volatile = op.volatile is not None
    if op.mask is None and not volatile:
        return g.add(ScalarLoad(g.scalar(op.ptr), _manner(op)), op.result.name_hint)
    # A masked or volatile scalar is a tile of rank 0 that every thread holds.
    layout = point(g.warps)

    def filled(value: SSAValue) -> SSAValue:
        scalar = g.scalar(value)
        return g.add(Fill(scalar, FragType.of(scalar.type, layout)))

    mask, other = (filled(v) if v else None for v in (op.mask, op.other))
    loaded = g.add(GlobalLoad(filled(op.ptr), mask, other, 1, manner=_manner(op)))
    return g.add(Extract(agreed(g, loaded, VOLATILE_SCOPE) if volatile else loaded))


def access_width(
    g: GroupLowering, pointers: SSAValue, mask: SSAValue | None, layout: Layout
) -> tuple[int, int]:
    """Consecutive registers that one access moves, and how many of them surely share a mask."""
    dim, count = fastest(g.layouts.axes, pointers)
    held = layout.vector(dim)
    while count > 1 and held % count:
        count //= 2
    run = count if mask is None else math.gcd(count, g.layouts.axes.of(mask).constant[dim])
    return count, max(1, run)


def lower_store(g: GroupLowering, op: Store) -> None:
    """Stores of scalars or tiles through pointers."""
    if not shape_of(op.value.type):
        _scalar_store(g, op)
        return
    layout = g.layouts.of.get(op.value)
    if layout is None:
        _, vector = fastest(g.layouts.axes, op.ptr)
        layout = g.layouts.default(op.value, vector)
    else:
        layout = store_layout(g, op, layout)
    value = fragment(g, op.value, layout)
    pointers = fragment(g, op.ptr, layout)
    mask = fragment(g, op.mask, layout) if op.mask else None
    count, run = access_width(g, op.ptr, op.mask, layout)
    g.do(GlobalStore(pointers, value, mask, count, run, manner=_manner(op)))


def _scalar_store(g: GroupLowering, op: Store) -> None:
    pointer, value = g.scalar(op.ptr), g.scalar(op.value)

    def write() -> None:
        g.do(ScalarStore(pointer, value, _manner(op)))

    if op.mask is None:
        g.one_thread("team", write)
        return
    block = Block()

    def body() -> None:
        g.one_thread("team", write)
        g.do(scf.YieldOp())

    g.inside(block, body)
    g.do(scf.IfOp(g.scalar(op.mask), [], Region(block)))


def lower_view_read(g: GroupLowering, op: aref.ViewRead) -> None:
    """Read a slot's tile into registers; warps that meet afterwards have no load in flight."""
    layout, element = g.layouts.of[op.result], element_of(op.result.type)
    tile, frag = g.views[op.view].tile, FragType.of(element, layout)
    if op.result in g.layouts.packed:
        tile = g.add(TileWords(tile))
        frag = words_type(shape_of(op.result.type), g.warps, byte_size(element))
    g.fragments[op.result] = g.add(SharedLoad(tile, frag), op.result.name_hint)
    if op.meets is not None:
        g.do(FenceProxyAsync())
        g.do(NamedBarrierSync(g.group_barrier(), 32 * min(g.warps, GROUP_WARPS)))


def lower_barrier(g: GroupLowering, op: Barrier) -> None:
    """All warps of the program meet."""
    team_sync(g)


TENSORS: dict[type[Operation], Callable[..., None]] = {
    Map: lower_map,
    Splat: lower_lazy,
    Arange: lower_lazy,
    ExpandDims: lower_lazy,
    Broadcast: lower_lazy,
    aref.Unset: lower_lazy,
    Trans: lower_trans,
    Repeat: lower_repeat,
    Reshape: lower_reshape,
    Reduce: lower_reduce,
    aref.Any: lower_any,
    aref.AnyAbove: lower_any_above,
    aref.LanePartials: lower_lane_partials,
    Load: lower_load,
    Store: lower_store,
    aref.ViewRead: lower_view_read,
    Barrier: lower_barrier,
}
"""Lowering of tile values."""
