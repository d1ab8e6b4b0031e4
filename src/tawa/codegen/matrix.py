"""Lowering of matrix products to the instructions of warp groups, or of warps by themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i1
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from tawa.aref.analysis.windows import GROUP
from tawa.aref.dialect import ops as aref
from tawa.aref.dialect.warp_ops import WarpDot
from tawa.base.errors import TawaError
from tawa.base.layout import accumulator, operand
from tawa.base.spans import span_of
from tawa.base.types import byte_size, element_of, i8, shape_of
from tawa.codegen.fragments import convert, copied, fragment, natural, rearranged, team_sync
from tawa.codegen.group_lowering import GROUP_WARPS, GroupLowering, RowWindow, View
from tawa.codegen.shared_memory import tile_for
from tawa.hopper.dialect.core import number
from tawa.hopper.dialect.fragment import Copy, Relabel, Undefined, Window, ZeroUnless
from tawa.hopper.dialect.matrix import (
    MatrixDesc,
    PackOperand,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from tawa.hopper.dialect.memory import SharedStore, Slot, Stmatrix, Subtile, SubtileColumn
from tawa.hopper.dialect.sync import FenceProxyAsync
from tawa.hopper.dialect.transpose import TransposeTile
from tawa.hopper.dialect.types import FragType, RingType, TileType
from tawa.hopper.dialect.warp_matrix import WarpProduct
from tawa.tile.dialect.ops import ViewLike, products_summed, spreads


class ProductNotSupported(TawaError):
    """An edited `.aref` stage asks for a product that no warp-group instruction does."""

    explanation = (
        "Hopper's warp-group instructions multiply 64 rows by up to 256 columns, 32 bytes of K at "
        "a time. Other products are done by warps (`aref.warp_dot`). In a stage that is given "
        "with `--start` or `--override`, an `aref.dot_issue` has to fit a warp-group instruction."
    )
    example = '''
from tawa.base.options import Options
from tawa.driver.compilation import Compilation
from tawa.driver.compiler import resume

text = """
builtin.module {
  func.func @product() {
    "aref.warp_group"() <{role = "main", warps = 4 : i64, teams = 1 : i64}> ({
      %zero = arith.constant 0.0 : f16
      %start = aref.unset : tensor<32x32xf32>
      %tile = tile.splat %zero : f16 -> tensor<32x32xf16>
      %view = aref.stage %tile : tensor<32x32xf16> -> !aref.view<tensor<32x32xf16>>
      %sum = aref.dot_issue %view, %view, %start : !aref.view<tensor<32x32xf16>>,
        !aref.view<tensor<32x32xf16>>, tensor<32x32xf32> -> tensor<32x32xf32>
    }) : () -> ()
    func.return
  }
}
"""
resume("product", ("aref", text), Compilation(Options()))
'''


@dataclass(frozen=True)
class Operand:
    """A tile as an operand: its descriptor, and byte offsets of its parts."""

    desc: SSAValue
    tile: TileType
    k_major: bool
    window: RowWindow | None = None

    def offset(self, outer: int, k: int) -> int:
        """Offset, in 16-byte units, of row (or column) `outer` and element `k` of its K."""
        swizzle, stride = self.tile.panel_bytes, self.tile.panel_stride
        row = outer if self.k_major else k
        first = (self.window.row(row) if self.window else row) * swizzle
        if self.k_major:
            byte = k * byte_size(self.tile.element_type)
            total = first + byte // swizzle * stride + byte % swizzle
        else:
            total = outer // self.tile.panel_columns * stride + first
        return total // 16


@dataclass(frozen=True)
class Product:
    """A warp group's share of a product: `rows` x `inner` times `inner` x `columns`.

    `a` is a tile, or the packed registers that hold all of the group's rows.
    """

    a: Operand | SSAValue
    b: Operand
    rows: int
    columns: int
    inner: int
    element: Attribute


def _refuse(op: Operation, what: str, expected: str, found: str, hint: str) -> ProductNotSupported:
    return ProductNotSupported(what, span=span_of(op), expected=expected, found=found, hint=hint)


def _operand(
    g: GroupLowering, op: aref.DotIssue, view: View, k_major: bool, own: tuple[int, SSAValue] | None
) -> Operand:
    """The descriptor of a view; `own` is the number of rows of M (or columns of N) a group has."""
    tile = view.tile.type
    assert isinstance(tile, TileType)
    if not tile.swizzle.data:
        width = tile.columns.data * byte_size(tile.element_type)
        raise _refuse(
            op, "this tile is too narrow for a matrix instruction",
            "rows of 32, 64 or a multiple of 128 bytes", f"rows of {width} bytes",
            "use wider blocks",
        )  # fmt: skip
    assert k_major or byte_size(tile.element_type) == 2, "other operands are transposed before"
    value, window = view.tile, view.window
    first = window.start if window else None
    if own is not None:
        count, index = own
        if k_major and window is not None:
            share = g.map("muli", index, g.constant(window.row(count)))
            first = g.map("addi", window.start, share)
        elif k_major:
            row = g.map("muli", index, g.constant(count))
            value = g.add(Subtile(value, row, 0, count, tile.columns.data))
        else:
            if count % tile.panel_columns:
                raise _refuse(
                    op, "this operand cannot be split between consumers",
                    f"a share in multiples of {tile.panel_columns}", f"{count}",
                    "use fewer consumers",
                )  # fmt: skip
            panel = g.map("muli", index, g.constant(count // tile.panel_columns))
            value = g.add(SubtileColumn(value, panel, count))
    lbo = 16 if k_major else tile.panel_stride
    pitch = window.pitch if window else GROUP
    desc = g.add(MatrixDesc(value, lbo, pitch * tile.panel_bytes, first))
    return Operand(desc, tile, k_major, window)


def lower_dot_issue(g: GroupLowering, op: aref.DotIssue) -> None:
    """Fence, one instruction for each 64 rows, 256 columns and 32 bytes of K, commit."""
    product = _product(g, op)
    value = fragment(g, op.accumulator, g.layouts.of[op.result])
    most = products_summed(op.precision)
    if most is not None:
        _in_partial_sums(g, op, product, (value, most))
        return
    carried = isinstance(op.accumulator, BlockArgument)
    later = _read_later(op)
    if later:
        value = g.add(Copy(value))
    elif not carried:
        value = copied(g, value, op.accumulator)
    flag = g.scalar(op.accumulate) if op.accumulate else None
    written = [value] if later or not (carried or op.accumulate is not None) else []
    if not isinstance(product.a, Operand) and not isinstance(op.a.owner, aref.ViewRead):
        written.append(product.a)
    g.do(WgmmaFence(written))
    value = _instructions(g, product, value, (0, product.inner), flag)
    g.do(WgmmaCommit())
    value.name_hint = op.result.name_hint
    g.fragments[op.result] = value


def _read_later(op: aref.DotIssue) -> bool:
    """Whether what a product adds to is needed as it was, once the product has begun.

    By an op behind it, an iteration's end included, or by the next iteration of a loop around it
    that does not carry it.
    """
    value, at = op.accumulator, op
    home = value.owner if isinstance(value.owner, Block) else value.owner.parent
    uses = [use for name in _names(value) for use in name.uses]
    while True:
        block = at.parent
        assert block is not None
        users = (block.find_ancestor_op_in_block(use.operation) for use in uses)
        if any(user is not None and at.is_before_in_block(user) for user in users):
            return True
        if block is home:
            return False
        around = block.parent_op()
        if not isinstance(around, scf.IfOp):
            return True
        at = around


def _names(value: SSAValue) -> list[SSAValue]:
    """A value, and those that lie in its registers: turned, or with other dimensions."""
    found = [value]
    for name in found:
        for use in name.uses:
            if isinstance(use.operation, ViewLike) or spreads(use.operation):
                found += use.operation.results
    return found


def _instructions(
    g: GroupLowering,
    product: Product,
    value: SSAValue,
    span: tuple[int, int],
    flag: SSAValue | None,
) -> SSAValue:
    """The instructions for the elements of K from the first to before the second of `span`."""
    target = g.kernel.target
    step = target.mma_k_bytes // byte_size(product.element)
    for k in range(*span, step):
        for row in range(0, product.rows, target.mma_m):
            for column, n in parts(product.columns, product.element, target.mma_max_n):
                value = g.add(_instruction(product, value, (row, column, k), n, flag))
        flag = None
    return value


def _in_partial_sums(
    g: GroupLowering, op: aref.DotIssue, product: Product, start: tuple[SSAValue, int]
) -> None:
    """Sums of a number of products, each started from zero and added when it is complete.

    Nothing is left in flight, so whoever waits for the product has nothing to wait for.
    """
    value, most = start
    if op.accumulate is not None:
        value = copied(g, value, op.accumulator)
        value = g.add(ZeroUnless(g.scalar(op.accumulate), value))
    step = g.kernel.target.mma_k_bytes // byte_size(product.element)
    length = -(-most // step) * step
    from_registers = [] if isinstance(product.a, Operand) else [product.a]
    kind = value.type
    assert isinstance(kind, FragType)
    fresh = g.add(arith.ConstantOp(IntegerAttr(0, i1)))
    for k in range(0, product.inner, length):
        part = g.add(Undefined(kind))
        g.do(WgmmaFence([part, *from_registers]))
        end = min(k + length, product.inner)
        part = _instructions(g, product, part, (k, end), fresh)
        g.do(WgmmaCommit())
        wait = WgmmaWait(0, [part])
        g.do(wait)
        value = g.map("addf", value, wait.results_[0])
    value.name_hint = op.result.name_hint
    g.fragments[op.result] = value


def _product(g: GroupLowering, op: aref.DotIssue) -> Product:
    """The operands of this warp group; raises ProductNotSupported."""
    rows, columns = shape_of(op.result.type)
    own_rows = rows if g.layouts.columns else rows // g.groups
    own_columns = columns // g.groups if g.layouts.columns else columns
    _check(g, op, own_rows, own_columns)
    share = g.group_index() if g.groups > 1 else None
    b_view = g.views[op.b]
    b_share = (own_columns, share) if share is not None and g.layouts.columns else None
    b = _operand(g, op, b_view, b_view.transposed, b_share)
    if op.a in g.views:
        a_view = g.views[op.a]
        a_share = (own_rows, share) if share is not None and not g.layouts.columns else None
        a = _operand(g, op, a_view, not a_view.transposed, a_share)
        return Product(a, b, own_rows, own_columns, a_view.shape[-1], a.tile.element_type)
    inner, element = shape_of(op.a.type)[-1], element_of(op.a.type)
    if op.a in g.layouts.packed:
        packed = g.fragments[op.a]
    else:
        layout = operand((rows, inner), g.warps, byte_size(element))
        packed = g.add(PackOperand(fragment(g, op.a, layout)))
    resident = isinstance(op.a.owner, aref.ViewRead)
    ordered = byte_size(element) == 1 and not resident
    assert b_view.interleaved == ordered, "operands agree on the order of K"
    return Product(packed, b, own_rows, own_columns, inner, element)


def parts(columns: int, element: Attribute, most: int) -> list[tuple[int, int]]:
    """Start and width, at most `most`, of the pieces of N that one instruction each covers."""
    if element == i8:
        # Widths beyond 32 come in multiples of 16 (PTX ISA, wgmma shapes of integer types).
        whole = columns // 16 * 16 if columns > 24 else columns
        narrow = [(s, min(most, whole - s)) for s in range(0, whole, most)]
        return [*narrow, *([(whole, columns - whole)] if columns > whole else [])]
    count = -(-columns // most)
    width = -(-columns // count // 8) * 8
    return [(s, min(width, columns - s)) for s in range(0, columns, width)]


def _instruction(
    product: Product, value: SSAValue, at: tuple[int, int, int], n: int, flag: SSAValue | None
) -> Wgmma:
    """The instruction for 64 rows and `n` columns from `at` (row, column, element of K) on."""
    a, b = product.a, product.b
    row, column, k = at
    if isinstance(a, Operand):
        a_value, a_offset, transposed = a.desc, a.offset(row, k), not a.k_major
    else:
        # 64 rows of a fragment are half a register a column in each of 128 threads.
        a_value, a_offset, transposed = a, row // 64 * product.inner // 2 + k // 2, False
    return Wgmma.build(
        operands=[value, a_value, b.desc, flag],
        result_types=[value.type],
        properties={
            "n": number(n),
            "first_register": number(row // 64 * product.columns // 2 + column // 2),
            "a_offset": number(a_offset),
            "b_offset": number(b.offset(column, k)),
            "a_type": product.element,
            "b_type": b.tile.element_type,
            "transpose_a": UnitAttr() if transposed else None,
            "transpose_b": None if b.k_major else UnitAttr(),
        },
    )


def _check(g: GroupLowering, op: aref.DotIssue, own_rows: int, own_columns: int) -> None:
    view = g.views.get(op.a)
    element = element_of(op.a.type if view is None else view.tile.type)
    inner = view.shape[-1] if view is not None else shape_of(op.a.type)[-1]
    k_bytes = g.kernel.target.mma_k_bytes
    if g.warps % GROUP_WARPS:
        raise _refuse(op, "a matrix product needs whole warp groups", "num_warps in multiples of 4",
                      f"{g.warps} warps", "set num_warps=4 or 8")  # fmt: skip
    rows = g.kernel.target.mma_m
    if own_rows % rows or own_rows == 0:
        raise _refuse(op, "the rows of this product do not fill the matrix instruction",
                      f"a multiple of {rows * g.groups} rows", f"{own_rows * g.groups} rows",
                      "use a larger block or fewer consumers")  # fmt: skip
    if own_columns % 8:
        raise _refuse(op, "the columns of this product do not fit the matrix instruction",
                      "a multiple of 8 columns", f"{own_columns} columns",
                      "change the block")  # fmt: skip
    if inner * byte_size(element) % k_bytes:
        raise _refuse(op, "K of this product does not fit the matrix instruction",
                      f"a multiple of {k_bytes // byte_size(element)}", f"{inner}",
                      "change the block")  # fmt: skip
    if op.precision is not None and op.precision.data != "tf32" and byte_size(element) == 4:
        raise _refuse(op, f"precision {op.precision.data!r} has no matrix instruction", "tf32",
                      op.precision.data, "leave input_precision unset")  # fmt: skip


def lower_dot_wait(g: GroupLowering, op: aref.DotWait) -> None:
    """Wait; the waited values may be read."""
    values = [natural(g, v) for v in op.values]
    wait = WgmmaWait(op.pending.value.data, values)
    g.do(wait)
    for old, new in zip(op.results_, wait.results_, strict=True):
        new.name_hint = old.name_hint
        g.fragments[old] = new


def lower_zero_unless(g: GroupLowering, op: aref.ZeroUnless) -> None:
    """In place."""
    value = copied(g, natural(g, op.value), op.value)
    g.fragments[op.result] = g.add(ZeroUnless(g.scalar(op.condition), value), op.result.name_hint)


def lower_stage(g: GroupLowering, op: aref.Stage) -> None:
    """Write the tile to shared memory where the tensor core reads it.

    Copies that follow each other are visible after one meeting. The memory is the copy's own, so
    only in a loop are there readers to wait for: of two buffers, each waits for its product before
    it issues the next one, so those of the iteration before the last. Only asynchronous products
    need the fence. The tile lies so that a thread's neighbours are neighbours in memory.
    """
    value, shape = natural(g, op.value), shape_of(op.value.type)
    assert isinstance(value.type, FragType)
    turned = _runs_down(value.type, read_by_warps(op.view))
    tile = tile_for(shape[::-1] if turned else shape, value.type.element_type)
    buffers = op.BUFFERS if op.buffer is not None else 1
    earlier = g.staged.get(g.memory_shared.get(op))
    if earlier is None or not isinstance(kind := earlier.ring.type, RingType) or kind.tile != tile:
        earlier = None
        made = g.kernel.memory.ring(op.view.name_hint or "staged", buffers * g.teams, tile)
    else:
        made = g.kernel.memory.again(earlier, tile)
    g.staged[op] = made
    ring = g.add(made)
    index = g.team_index() if g.teams > 1 else g.constant(0)
    if op.buffer is not None:
        first = g.map("muli", index, g.constant(buffers)) if g.teams > 1 else index
        index = g.map("addi", first, g.scalar(op.buffer))
    place = g.add(Slot(ring, index))
    if not isinstance(op.prev_op, aref.Stage) and (_repeats(op) or _takes_a_place(g, op)):
        team_sync(g)
    if turned:
        g.do(SharedStore(g.add(Relabel(value, value.type.layout.permuted((1, 0)))), place))
    else:
        write(g, along_rows(g, value), place)
    if not read_by_warps(op.view):
        g.do(FenceProxyAsync())
    if not isinstance(op.next_op, aref.Stage):
        team_sync(g)
    g.views[op.view] = View(place, shape, turned)


def _takes_a_place(g: GroupLowering, first: Operation | None) -> bool:
    """Whether one of the copies that follow each other goes where an earlier one went."""
    while isinstance(first, aref.Stage):
        if first in g.memory_shared:
            return True
        first = first.next_op
    return False


def along_rows(g: GroupLowering, value: SSAValue) -> SSAValue:
    """A tile's registers in the order of a row's elements, if a thread has neighbours there."""
    assert isinstance(value.type, FragType)
    layout = value.type.layout
    last = len(layout.shape) - 1
    neighbours = [m for m in layout.reg if m.dim == last and m.stride == 1]
    if not neighbours or layout.reg[0] == neighbours[0]:
        return value
    others = (m for m in layout.reg if m != neighbours[0])
    return rearranged(g, value, replace(layout, reg=(neighbours[0], *others)))


def _runs_down(kind: FragType, by_warps: bool) -> bool:
    """Whether a thread has more neighbours down a column than along a row.

    Products read halves either way, warps by themselves words, too; other elements only along K.
    """
    layout, size = kind.layout, byte_size(kind.element_type)
    if len(layout.shape) != 2 or (size != 2 and not (by_warps and size == 4)):
        return False
    swizzled = tile_for(layout.shape[::-1], kind.element_type).swizzle.data > 0
    return swizzled and layout.vector(0) > layout.vector(1)


def _repeats(op: Operation) -> bool:
    """Whether a loop is around an op."""
    around = op.parent_op()
    while around is not None and not isinstance(around, scf.ForOp | scf.WhileOp):
        around = around.parent_op()
    return around is not None


def read_by_warps(view: SSAValue) -> bool:
    """Whether only products that warps do by themselves read a view."""
    users = [use.operation for use in view.uses]
    return all(
        isinstance(u, aref.WarpDot) or (isinstance(u, aref.ViewTrans) and read_by_warps(u.result))
        for u in users
    )


def write(g: GroupLowering, value: SSAValue, place: SSAValue) -> None:
    """Registers to a tile: 8x8 elements at a time if products left them there, else by threads."""
    tile, found = place.type, value.type
    assert isinstance(tile, TileType) and isinstance(found, FragType)
    rows, columns = tile.rows.data, tile.columns.data
    own_rows, width = rows // g.groups, min(columns, tile.panel_columns)
    whole = not (
        g.warps % GROUP_WARPS or own_rows % g.kernel.target.mma_m or columns % width or width % 16
    )
    by_matrix = whole and byte_size(found.element_type) == 2 and not g.layouts.columns
    if not by_matrix or found.layout != accumulator((rows, columns), g.warps):
        g.do(SharedStore(value, place))
        return
    part = accumulator((64 * g.groups, width), g.warps)
    share = g.map("muli", g.group_index(), g.constant(own_rows)) if g.groups > 1 else g.constant(0)
    for block in range(own_rows // 64):
        for start in range(0, columns, width):
            window = g.add(Window(value, (block * columns + start) // 2, part))
            own = g.add(Subtile(place, g.plus(share, 64 * block), start, 64, width))
            g.do(Stmatrix(window, 0, own))


def lower_restage(g: GroupLowering, op: aref.Restage) -> None:
    """Transpose the slot's tile with all warps of the team, for the tensor core to read."""
    view = g.views[op.view]
    source = view.tile.type
    assert isinstance(source, TileType)
    tile = tile_for(source.extents[::-1], source.element_type)
    ring = g.add(g.kernel.memory.ring(op.result.name_hint or "turned", g.teams, tile))
    place = g.add(Slot(ring, g.team_index() if g.teams > 1 else g.constant(0)))
    order = op.interleaved is not None
    team_sync(g)
    g.do(TransposeTile(view.tile, place, g.warps, interleaved=order))
    g.do(FenceProxyAsync())
    team_sync(g)
    g.views[op.result] = View(place, view.shape, not view.transposed, order)


def lower_warp_dot(g: GroupLowering, op: WarpDot) -> None:
    """One op for all of K; an accumulator of other products too may have their layout."""
    product, layout = op.product, g.layouts.accumulator(op)
    views = g.views.get(op.a), g.views.get(op.b)
    a, b = (
        view.tile if view else fragment(g, value, op.layout(side, g.warps))
        for side, (view, value) in enumerate(zip(views, (op.a, op.b), strict=True))
    )
    new = WarpProduct(
        fragment(g, op.accumulator, layout),
        (a, b),
        (bool(views[0] and views[0].transposed), bool(views[1] and views[1].transposed)),
        product.inner,
        product.precision,
        op.run.value.data if op.run else 0,
    )
    result = g.add(new, op.result.name_hint)
    g.fragments[op.result] = convert(g, result, g.layouts.of[op.result])


MATRIX: dict[type[Operation], Callable[..., None]] = {
    aref.DotIssue: lower_dot_issue,
    aref.DotWait: lower_dot_wait,
    aref.ZeroUnless: lower_zero_unless,
    aref.Stage: lower_stage,
    aref.Restage: lower_restage,
    WarpDot: lower_warp_dot,
}
"""Lowering of matrix products."""
