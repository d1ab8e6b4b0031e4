"""Persistent kernels: one CTA runs several programs of a plain grid, one after the other."""

from __future__ import annotations

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block

from tawa.aref import ops as aref
from tawa.base.elementwise import Map
from tawa.base.kernels import add_arguments
from tawa.tile.ops import NumPrograms, ProgramId


def make_persistent(kernel: func.FuncOp) -> None:
    """Wrap a plain grid's program into a loop over the programs of one CTA.

    The logical grid's sizes become three new arguments; `program_id` is computed from the loop's
    counter, which starts at the CTA's index and steps by the number of CTAs.
    """
    block = kernel.body.block
    sizes = add_arguments(kernel, [i32] * 3)
    for axis, size in enumerate(sizes):
        size.name_hint = f"grid_{'xyz'[axis]}"
    inner = [op for op in block.ops if not isinstance(op, func.ReturnOp)]
    start, count = aref.CtaIndex(), aref.CtaCount()
    area = Map("muli", [sizes[0], sizes[1]])
    total = Map("muli", [area.result, sizes[2]])
    body = Block(arg_types=[i32])
    program = body.args[0]
    program.name_hint = "program"
    for op in inner:
        op.detach()
    x = Map("remsi", [program, sizes[0]])
    rest = Map("divsi", [program, sizes[0]])
    y, z = Map("remsi", [rest.result, sizes[1]]), Map("divsi", [rest.result, sizes[1]])
    body.add_ops([x, rest, y, z, *inner, scf.YieldOp()])
    loop = scf.ForOp(start.result, total.result, count.result, [], body)
    loop.attributes["tawa.tile_loop"] = IntegerAttr(1, i32)
    last = block.last_op
    assert last is not None
    block.insert_ops_before([start, count, area, total, loop], last)
    for op in list(body.walk()):
        if isinstance(op, ProgramId | NumPrograms):
            axis = op.axis.value.data
            new = (x, y, z)[axis].result if isinstance(op, ProgramId) else sizes[axis]
            op.result.replace_all_uses_with(new)
            op.detach()
            op.erase()
    kernel.attributes["tawa.persistent"] = IntegerAttr(1, i32)
