"""What a tile loads once is loaded while the tile before is under way.

A loading role follows the program: the operands of a tile's loop, then the next tile's own loads.
By then the consumers are about to need those. Where the consumers run on from tile to tile, the
loading role issues the next tile's own loads after the first iteration of this tile's loop instead:
not before it, since their slots are free only when the tile before is finished, and that needs the
first operands of this one.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.aref.analysis.ranges import runs
from tawa.aref.dialect.ops import LoadInto, WarpGroup
from tawa.ir.effects import FILLED, is_pure, touches
from tawa.ir.elementwise import Map
from tawa.ir.loops import terminator
from tawa.ir.walking import all_of, every


def load_ahead(module: ModuleOp) -> None:
    """Move the tiles' own loads of every loading role ahead."""
    for group in all_of(module, WarpGroup):
        if group.single is not None:
            for outer in [op for op in group.body.block.ops if isinstance(op, scf.ForOp)]:
                inner = _inner(outer)
                if inner is not None and runs(inner):
                    _move(outer, inner)


def _inner(outer: scf.ForOp) -> scf.ForOp | None:
    """The loop of a tile, if the tile consists of scalars, own loads and this loop after them."""
    *before, last = list(outer.body.block.ops)[:-1]
    if outer.iter_args or not isinstance(last, scf.ForOp) or last.iter_args:
        return None
    own = [op for op in before if touches(op, FILLED)]
    alone = all(op.shared is None for op in own if isinstance(op, LoadInto))
    plain = all(not op.regions or is_pure(op) for op in before)
    return last if own and alone and plain else None


def _move(outer: scf.ForOp, inner: scf.ForOp) -> None:
    place = outer.parent
    assert place is not None
    index = outer.body.block.args[0]
    before = list(outer.body.block.ops)[:-2]
    some = Map("cmpi_slt", [outer.lb, outer.ub])
    first = scf.IfOp(some.result, [], Region(_tile(before, {index: outer.lb})))
    place.insert_ops_before([some, first], outer)
    body = inner.body.block
    start = Map("cmpi_eq", [body.args[0], inner.lb])
    following = Map("addi", [index, outer.step])
    more = Map("cmpi_slt", [following.result, outer.ub])
    now = Map("andi", [start.result, more.result])
    ahead = scf.IfOp(now.result, [], Region(_tile(before, {index: following.result})))
    body.insert_ops_before([start, following, more, now, ahead], terminator(body))
    for op in reversed(before):
        if touches(op, FILLED):
            op.detach()
            op.erase()


def _tile(ops: list[Operation], known: Mapping[SSAValue, SSAValue]) -> Block:
    """A copy of what a tile does before its loop."""
    block, values = Block(), dict(known)
    for op in ops:
        inputs = (v for inner in every(op) for v in inner.operands)
        new = op.clone({v: values[v] for v in inputs if v in values})
        block.add_op(new)
        values |= dict(zip(op.results, new.results, strict=True))
    block.add_op(scf.YieldOp())
    return block
