"""Operands that the matrix instructions take only with K contiguous are transposed on the way.

Elements of 16 bits may be contiguous along either dimension; others have to be along K. Where the
tile that is loaded is not, a warp group of its own stands between the copy engine and the
consumers: it gets the tile from the ring of loads and puts its transpose into a second ring. Both
rings are arefs as any other, so slots, phases and waits follow as everywhere. Where no loading role
exists, consumers transpose for themselves (`aref.restage`).

An operand that meets another one in registers may have its K in any order that both agree on: it is
*interleaved*, as the registers of a product's result hold columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from tawa.aref.analysis.products import from_products, is_view, needs_transpose
from tawa.aref.dialect.ops import (
    Consumed,
    Create,
    GetEnter,
    LoadInto,
    PutEnter,
    PutExit,
    RefType,
    TransposeInto,
    ViewRead,
    WarpGroup,
)
from tawa.base.spans import copy_span, span_of
from tawa.base.types import byte_size, element_of
from tawa.base.warp_transpose import IN_FLIGHT, Shares
from tawa.ir.contracts import Contract
from tawa.ir.copying import copied_region
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.roles import TransposedByRole
from tawa.ir.loops import prune
from tawa.ir.properties import AS_PARTITIONED, DOTS, FINAL_RINGS, GROUP_PRODUCTS, OPEN_SLOTS, TIDY
from tawa.ir.walking import every
from tawa.tile.dialect.ops import Dot, Reshape, Trans

WARPS = (2, 3)
"""That the role may have which transposes; it shares a warp group with the loading thread."""


@dataclass(frozen=True)
class _Use:
    """A product's operand that is read from a slot, transposed or not."""

    dot: Dot
    index: int
    turned: bool
    """The operand is the transpose of what the slot holds."""


def _uses(value: SSAValue, turned: bool = False) -> list[_Use] | None:
    """Where products take a slot's tile; None if something else does."""
    found: list[_Use] = []
    for use in value.uses:
        op = use.operation
        if isinstance(op, Dot) and use.index < 2:
            found.append(_Use(op, use.index, turned))
        elif isinstance(op, Trans | Reshape) and is_view(op.result):
            inner = _uses(op.result, turned ^ isinstance(op, Trans))
            if inner is None:
                return None
            found += inner
        else:
            return None
    return found


@dataclass(frozen=True)
class _Tile:
    """A tile of a ring that is to be transposed, and the rings that it then goes through."""

    index: int
    uses: list[_Use]
    loaded: Create
    transposed: Create


@dataclass(frozen=True)
class Transposes:
    """Put a transposing role between loads and products that need one."""

    decided: Decisions
    name: ClassVar[str] = "transposes"
    contract: ClassVar[Contract] = Contract(
        requires=(AS_PARTITIONED, DOTS, GROUP_PRODUCTS, OPEN_SLOTS),
        establishes=(FINAL_RINGS,),
        invalidates=(TIDY,),
    )

    def apply(self, module: ModuleOp) -> None:
        """Split the rings whose tiles need it, and add the role."""
        kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
        groups = [op for op in kernel.body.block.ops if isinstance(op, WarpGroup)]
        loader = next((g for g in groups if g.single is not None), None)
        consumer = next((g for g in groups if g.computes), None)
        if loader is None or consumer is None:
            return
        found: list[_Tile] = []
        for create in [op for op in kernel.body.block.ops if isinstance(op, Create)]:
            uses = (use.operation for use in create.ref.uses)
            gets = [op for op in uses if isinstance(op, GetEnter)]
            tiles = [t for i in range(len(_tiles(create))) if (t := self._tile(create, gets, i))]
            if tiles:
                _split(create, gets, tiles)
                found += tiles
        if found:
            kernel.body.block.insert_op_before(_role(loader, found), consumer)

    def _tile(self, create: Create, gets: Sequence[GetEnter], index: int) -> _Tile | None:
        """The plan for one tile of a ring; None if it stays as it is loaded."""
        uses: list[_Use] = []
        for read in (use.operation for get in gets for use in get.views[index].uses):
            mine = _uses(read.results[0]) if isinstance(read, ViewRead) else None
            if mine is None:
                return None
            uses += mine
        if not uses or not all(needs_transpose(u.dot, u.index) for u in uses):
            return None
        tile = _tiles(create)[index]
        *outer, columns = tile.get_shape()
        turned = TensorType(tile.element_type, [columns, math.prod(outer)])
        interleaved = all(_meets_registers(u) for u in uses)
        loaded = Create(1, [tile], multicast=create.multicast is not None)
        transposed = Create(1, [turned], interleaved=interleaved)
        stem = gets[0].views[index].name_hint or "tile"
        loaded.ref.name_hint, transposed.ref.name_hint = f"{stem}_loaded", stem
        copy_span(create, [loaded, transposed])
        self.decided.add(TransposedByRole(stem, interleaved, span=span_of(uses[0].dot)))
        return _Tile(index, uses, loaded, transposed)


def _tiles(create: Create) -> Sequence[TensorType[Attribute]]:
    assert isinstance(create.ref.type, RefType)
    return create.ref.type.tiles.data


def _meets_registers(use: _Use) -> bool:
    """Whether the product's A operand comes from another product, in registers."""
    a = use.dot.a
    return use.index == 1 and byte_size(element_of(a.type)) == 1 and from_products(a)


def _split(create: Create, gets: Sequence[GetEnter], tiles: Sequence[_Tile]) -> None:
    """Give every tile that is transposed rings of its own; the others keep theirs."""
    block = create.parent
    assert block is not None
    chosen = {t.index for t in tiles}
    kept = [i for i in range(len(_tiles(create))) if i not in chosen]
    block.insert_ops_before([op for t in tiles for op in (t.loaded, t.transposed)], create)
    puts = [use.operation for use in create.ref.uses if isinstance(use.operation, PutExit)]
    rest: Create | None = None
    if kept:
        rest = Create(1, [_tiles(create)[i] for i in kept], multicast=create.multicast is not None)
        rest.ref.name_hint = create.ref.name_hint
        copy_span(create, [rest])
        block.insert_op_before(rest, create)
    for exit_ in puts:
        _split_put(exit_, kept, rest, tiles)
    for get in gets:
        _split_get(get, kept, rest, tiles)
    _erase([create])


def _split_put(
    exit_: PutExit, kept: list[int], rest: Create | None, tiles: Sequence[_Tile]
) -> None:
    """One put of each ring instead of one for all tiles."""
    block, enter = exit_.parent, exit_.token.owner
    assert block is not None and isinstance(enter, PutEnter)
    loads = {_place(use.operation.view): use.operation for use in enter.token.uses
             if isinstance(use.operation, LoadInto)}  # fmt: skip
    plan = [(rest.ref, kept)] if rest is not None else []
    plan += [(t.loaded.ref, [t.index]) for t in tiles]
    for ref, indices in plan:
        new = PutEnter(ref)
        new.token.name_hint = enter.token.name_hint
        ops: list[Operation] = [new]
        for view, i in zip(new.views, indices, strict=True):
            old = loads[i]
            view.name_hint = old.view.name_hint
            place = old.desc, old.coordinates, view, ref, new.token
            load = LoadInto(*place, old.shared, old.eviction)
            copy_span(old, [load])
            ops.append(load)
        ops.append(PutExit(ref, new.token, exit_.completion.data))
        copy_span(exit_, [new, ops[-1]])
        block.insert_ops_before(ops, exit_)
    _erase([exit_, *loads.values(), enter])


def _place(view: SSAValue) -> int:
    """Which tile of its slot a view is."""
    assert isinstance(view, OpResult) and isinstance(view.op, PutEnter)
    return view.op.views.index(view)


def _split_get(get: GetEnter, kept: list[int], rest: Create | None, tiles: Sequence[_Tile]) -> None:
    """One get of each ring instead of one for all tiles; products take the transposed ones."""
    block = get.parent
    assert block is not None
    returns = [use.operation for use in get.token.uses if isinstance(use.operation, Consumed)]
    if rest is not None:
        new = GetEnter(rest.ref)
        _take_over(get, new, returns)
        for view, i in zip(new.views, kept, strict=True):
            view.name_hint = get.views[i].name_hint
            get.views[i].replace_all_uses_with(view)
    for tile in tiles:
        new = GetEnter(tile.transposed.ref)
        _take_over(get, new, returns, shared=False)
        new.views[0].name_hint = get.views[tile.index].name_hint
        for read in [use.operation for use in get.views[tile.index].uses]:
            assert isinstance(read, ViewRead)
            _replace(read, new.views[0])
    _erase([*returns, get])


def _take_over(
    get: GetEnter, new: GetEnter, returns: Sequence[Consumed], *, shared: bool = True
) -> None:
    """Put a get of another ring, and the returns of its slots, where those of the old ones are."""
    block = get.parent
    assert block is not None
    new.token.name_hint = get.token.name_hint
    copy_span(get, [new])
    block.insert_op_before(new, get)
    for old in returns:
        back = Consumed(new.ref, new.token, old.completion.data, old.shared if shared else None)
        copy_span(old, [back])
        assert old.parent is not None
        old.parent.insert_op_before(back, old)


def _replace(read: ViewRead, view: SSAValue) -> None:
    """Let products take the transposed tile, transposed back where they want it so."""
    block = read.parent
    assert block is not None
    new = ViewRead(view)
    new.result.name_hint = read.result.name_hint
    copy_span(read, [new])
    block.insert_op_before(new, read)
    for use in _uses(read.result) or []:
        value: SSAValue = new.result
        if not use.turned:
            back = Trans(new.result, (1, 0))
            copy_span(read, [back])
            assert use.dot.parent is not None
            use.dot.parent.insert_op_before(back, use.dot)
            value = back.result
        use.dot.operands[use.index] = value
    _erase_tree(read)


def _erase_tree(op: Operation) -> None:
    """Erase an op and what alone uses it."""
    for use in list(op.results[0].uses):
        _erase_tree(use.operation)
    _erase([op])


def _erase(ops: Sequence[Operation]) -> None:
    for op in ops:
        op.detach()
        op.erase()


def _role(loader: WarpGroup, tiles: Sequence[_Tile]) -> WarpGroup:
    """The transposing role: the loading role's control flow around gets and puts."""
    body = copied_region(loader.body)
    to = {t.loaded.ref: t.transposed.ref for t in tiles}
    for exit_ in [op for op in every(body) if isinstance(op, PutExit) and op.ref in to]:
        _transpose(exit_.parent, exit_, to[exit_.ref])
    kinds = (GetEnter, PutEnter, TransposeInto, PutExit, Consumed)
    mine = {*to.keys(), *to.values()}

    def keep(op: Operation) -> bool:
        loads = isinstance(op, PutEnter | PutExit) and op.ref in to
        return isinstance(op, kinds) and op.ref in mine and not loads

    prune(body.block, keep)
    return WarpGroup("transpose", min(WARPS, key=partial(_rounds, tiles)), 1, body, moves=True)


def _rounds(tiles: Sequence[_Tile], warps: int) -> int:
    """How often so many warps load blocks of the tiles and store them."""
    found = 0
    for tile in tiles:
        (shape,) = (t.get_shape() for t in _tiles(tile.loaded))
        columns, rows = shape[-1], math.prod(shape[:-1])
        shares = Shares.of(rows, columns, warps, IN_FLIGHT)
        found += shares.rounds if shares else -(-rows * columns // (32 * warps))
    return found


def _transpose(block: Block | None, exit_: PutExit, target: SSAValue) -> None:
    """Write the get of a loaded tile and the put of its transpose where the load was."""
    assert block is not None
    load = next(use.operation for use in exit_.token.uses if isinstance(use.operation, LoadInto))
    get, put = GetEnter(exit_.ref), PutEnter(target)
    get.token.name_hint = put.token.name_hint = "slot"
    fill = TransposeInto(get.views[0], put.views[0], target, put.token)
    get.views[0].name_hint, put.views[0].name_hint = load.view.name_hint, target.name_hint
    done = PutExit(target, put.token, "none")
    back = Consumed(exit_.ref, get.token, "none", load.shared)
    new = [get, put, fill, done, back]
    copy_span(load, new)
    block.insert_ops_before(new, exit_)
