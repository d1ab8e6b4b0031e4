"""L2 is asked for the next tile's own loads while this tile is under way.

A persistent kernel loads some operands once a tile, such as the rows of a product whose weights
pass by. If shared memory holds only one of them, the next tile's can't be loaded before the last
product of this tile has read it; then all multiprocessors ask device memory for theirs at about
the same time. As soon as this tile's are loaded, L2 is asked to fetch those of the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.aref.load_ahead import PUTS, tile_loop
from tawa.aref.ops import Fetch, LoadInto, PutEnter, RefType, WarpGroup
from tawa.base.elementwise import Map
from tawa.base.remarks import Remarks
from tawa.base.spans import copy_span, span_of


@dataclass(frozen=True)
class FetchAhead:
    """Ask L2 for what the next tile loads into a ring of one slot."""

    remarks: Remarks
    name: ClassVar[str] = "fetch-ahead"

    def apply(self, module: ModuleOp) -> None:
        """Rewrite the loops over tiles of every loading role."""
        for group in [op for op in module.walk() if isinstance(op, WarpGroup)]:
            if group.single is not None:
                for outer in [op for op in group.body.block.ops if isinstance(op, scf.ForOp)]:
                    inner = tile_loop(outer)
                    if inner is not None:
                        self._fetch(outer, inner)

    def _fetch(self, outer: scf.ForOp, inner: scf.ForOp) -> None:
        """Fetch the next tile's before the loop of this one."""
        body = outer.body.block
        before = list(body.ops)[: body.get_operation_index(inner)]
        alone = [op for op in before if isinstance(op, LoadInto) and _slots(op) == 1]
        if not alone:
            return
        following = Map("addi", [body.args[0], outer.step])
        more = Map("cmpi_slt", [following.result, outer.ub])
        tile = _next_tile(before, alone, {body.args[0]: following.result})
        branch = scf.IfOp(more.result, [], Region(tile))
        copy_span(alone[0], [following, more, branch])
        body.insert_ops_before([following, more, branch], inner)
        where = ", ".join(str(span_of(op)) for op in alone)
        self.remarks.say(self.name, f"L2 fetches the next tile's load ahead ({where})")


def _slots(load: LoadInto) -> int:
    assert isinstance(load.ref.type, RefType)
    return load.ref.type.depth.data


def _next_tile(
    ops: list[Operation], loads: list[LoadInto], values: dict[SSAValue, SSAValue]
) -> Block:
    """What a tile computes before its loop, with fetches in the place of some loads."""
    block = Block()
    for op in ops:
        if isinstance(op, LoadInto) and op in loads:
            enter = op.token.owner
            assert isinstance(enter, PutEnter)
            at = [values.get(c, c) for c in op.coordinates]
            new: Operation = Fetch(op.desc, at, op.ref, list(enter.views).index(op.view))
            copy_span(op, [new])
        elif isinstance(op, PUTS):
            continue
        else:
            inputs = (v for inner in op.walk() for v in inner.operands)
            new = op.clone({v: values[v] for v in inputs if v in values})
            values |= dict(zip(op.results, new.results, strict=True))
        block.add_op(new)
    block.add_op(scf.YieldOp())
    return block
