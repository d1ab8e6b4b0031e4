"""Narrow loads go by one pointer that a loop carries, not by a pointer for each element.

`a_ptrs += BK` moves a tile of pointers, which takes two registers for each element that a thread
loads: many where neighbours in memory are not known to be aligned, so that each is a load of its
own. What all of them start from is one pointer. The loop carries that, and the elements' offsets
from it stay the same: most are constants of load instructions.

Tiles whose pointers repeat are moved that way too, before repeated loads are looked for: the
pointers that differ can then be computed anew in an iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tawa.base.spans import copy_span
from tawa.base.types import PtrType, byte_size, element_of, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map
from tawa.ir.loops import carry, extend_yield, terminator
from tawa.ir.properties import ONE_PROGRAM, TIDY
from tawa.ir.walking import all_of
from tawa.tile.analysis.axis_info import AxisAnalysis, fastest
from tawa.tile.dialect.ops import Broadcast, Splat, spreads

WIDE = 4
"""Bytes of an access that takes no more registers for its address than for what it moves."""


@dataclass(frozen=True)
class CarriedPointers:
    """Carry the scalar pointer that a tile of pointers is made from, where its loads are narrow.

    Or, if `repeated`, where neighbours in the tile are the same pointer.
    """

    repeated: bool = False
    name: ClassVar[str] = "carried-pointers"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Rewrite every loop that carries such a tile."""
        axes = AxisAnalysis()
        for loop in all_of(module, scf.ForOp):
            body = loop.body.block
            wanted = _repeats if self.repeated else _is_narrow
            tiles = [arg for arg in body.args[1:] if _is_pointer_tile(arg) and wanted(arg, axes)]
            found = [_moved(arg, arg.index - 1, loop) for arg in tiles]
            moved = [tile for tile in found if tile is not None]
            if moved:
                _rewrite(loop, moved)


@dataclass(frozen=True)
class _Moved:
    """A tile of pointers, the ops that make it from a scalar, and the scalars that move it."""

    argument: BlockArgument
    root: SSAValue
    chain: list[Operation]
    steps: list[SSAValue]


def _is_pointer_tile(argument: SSAValue) -> bool:
    return bool(shape_of(argument.type)) and isinstance(element_of(argument.type), PtrType)


def _is_narrow(pointers: SSAValue, axes: AxisAnalysis) -> bool:
    element = element_of(pointers.type)
    assert isinstance(element, PtrType)
    _, count = fastest(axes, pointers)
    return count * byte_size(element.pointee) < WIDE


def _repeats(pointers: SSAValue, axes: AxisAnalysis) -> bool:
    return any(run > 1 for run in axes.of(pointers).constant)


def _moved(argument: BlockArgument, index: int, loop: scf.ForOp) -> _Moved | None:
    steps = _steps(terminator(loop.body.block).operands[index], argument)
    made = _made(loop.iter_args[index])
    return _Moved(argument, *made, steps) if steps and made else None


def _steps(value: SSAValue, argument: SSAValue) -> list[SSAValue]:
    """The scalars that an iteration adds to each pointer; [] if it does anything else."""
    steps: list[SSAValue] = []
    while value is not argument:
        op = value.owner
        if not isinstance(op, Map) or op.function.data != "addptr":
            return []
        value, offset = op.arguments
        while isinstance(offset.owner, Broadcast):
            offset = offset.owner.value
        if not isinstance(offset.owner, Splat):
            return []
        steps.append(offset.owner.value)
    return steps


def _made(value: SSAValue) -> tuple[SSAValue, list[Operation]] | None:
    """The scalar pointer that a tile of pointers is made from, and by which ops, in order."""
    chain: list[Operation] = []
    while isinstance(op := value.owner, Operation):
        chain.append(op)
        if isinstance(op, Splat):
            return op.value, chain[::-1]
        if not spreads(op) and not (isinstance(op, Map) and op.function.data == "addptr"):
            return None
        value = op.operands[0]
    return None


def _anew(tile: _Moved, base: SSAValue, old: SSAValue, before: Operation) -> None:
    """Make a tile of pointers from where its scalar is now, in place of a carried one."""
    if old.first_use is None:
        return
    block = before.parent_block()
    assert block is not None
    values: dict[SSAValue, SSAValue] = {tile.root: base}
    for op in tile.chain:
        new = op.clone(values)
        block.insert_op_before(new, before)
        values[op.results[0]] = new.results[0]
    old.replace_all_uses_with(values[tile.chain[-1].results[0]])


def _rewrite(loop: scf.ForOp, moved: list[_Moved]) -> None:
    loop, bases, ends = carry(loop, [tile.root for tile in moved])
    body = loop.body.block
    first, last, after = body.first_op, terminator(body), loop.next_op
    assert first is not None and after is not None
    passed: list[SSAValue] = []
    for tile, base, end in zip(moved, bases, ends, strict=True):
        # The loop's own result, which another part of a split loop goes on from.
        _anew(tile, end, loop.results[tile.argument.index - 1], after)
        _anew(tile, base, tile.argument, first)
        following: SSAValue = base
        for step in tile.steps:
            advance = Map("addptr", [following, step])
            copy_span(tile.chain[-1], [advance])
            body.insert_op_before(advance, last)
            following = advance.result
        passed.append(following)
    extend_yield(body, passed)
