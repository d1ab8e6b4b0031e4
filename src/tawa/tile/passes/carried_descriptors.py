"""Descriptors that differ from iteration to iteration are carried as what they are made of.

A loop that makes a descriptor for its next iteration, or a branch that makes one of two, passes on
its base, sizes and strides; each access sees a descriptor made of these, whose blocks are then
addressed by pointers. Descriptors that the host can make stay as they are: of those a number is
carried (`tile.passes.chosen_descriptors`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.rewriter import Rewriter

from tawa.base.spans import copy_span
from tawa.base.types import DescType
from tawa.ir.contracts import Contract
from tawa.ir.properties import ONE_PROGRAM, TIDY
from tawa.ir.walking import all_of, every
from tawa.tile.dialect.ops import MakeDesc
from tawa.tile.passes.chosen_descriptors import passing_values, sources_of, what_it_may_be
from tawa.tile.passes.descriptor_pointers import of_arguments


@dataclass(frozen=True)
class CarriedDescriptors:
    """Pass the parts of descriptors on that no host can make."""

    name: ClassVar[str] = "carried-descriptors"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Rewrite the kernel, if it passes any on."""
        kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
        chosen = _taken_apart(kernel)
        if not chosen:
            return
        around = [op for op in every(kernel) if isinstance(op, scf.ForOp | scf.WhileOp | scf.IfOp)]
        ends: list[Operation] = []
        for op in around:
            if any(value in chosen for value in _passed_on_by(op)):
                ends += _rewrite(op, chosen)
        for end in ends:
            end.operands = [part for value in end.operands for part in _parts(value)]
        for op in all_of(kernel, MakeDesc):
            if not op.result.uses:
                Rewriter.erase_op(op)


def _taken_apart(kernel: func.FuncOp) -> set[SSAValue]:
    """What loops and branches pass on that the host can not make, and what that comes from."""
    found: set[SSAValue] = set()
    for value in passing_values(kernel):
        if not isinstance(value.type, DescType):
            continue
        made = what_it_may_be(value)
        owners = [v.op for v in made if isinstance(v, OpResult) and isinstance(v.op, MakeDesc)]
        by_host = all(of_arguments(o) and o.parent is kernel.body.block for o in owners)
        if len(owners) == len(made) and not by_host and len({o.padding for o in owners}) == 1:
            work = [value]
            while work:
                one = work.pop()
                if one not in found and sources_of(one):
                    found.add(one)
                    work += sources_of(one)
    return found


def _passed_on_by(op: Operation) -> list[SSAValue]:
    arguments = [a for region in op.regions for block in region.blocks for a in block.args]
    return [*op.results, *arguments]


def _parts(value: SSAValue) -> Iterable[SSAValue]:
    """What a descriptor is made of; any other value by itself."""
    if not isinstance(value.type, DescType):
        return [value]
    assert isinstance(value, OpResult)
    made = value.op
    assert isinstance(made, MakeDesc)
    return [made.base, *made.shape, *made.strides]


def _like(value: SSAValue) -> MakeDesc:
    """One of the descriptors that a value may be: all have parts of the same types."""
    found = what_it_may_be(value)[0]
    assert isinstance(found, OpResult)
    assert isinstance(found.op, MakeDesc)
    return found.op


def _made_of(parts: Sequence[SSAValue], like: MakeDesc, at: Operation) -> MakeDesc:
    """A descriptor of parts that were passed on."""
    rank = len(like.shape)
    padding = like.padding.data if like.padding else None
    block = like.result.type.block.get_shape()
    made = MakeDesc(parts[0], parts[1 : 1 + rank], parts[1 + rank :], block, padding)
    copy_span(at, [made])
    return made


def _rewrite(op: Operation, chosen: set[SSAValue]) -> list[Operation]:
    """Let an op pass parts on; gives the ends of its regions, whose operands are to follow."""
    likes = {v: _like(v) for v in _passed_on_by(op) if v in chosen}
    ends: list[Operation] = []
    for region in op.regions:
        for block in region.blocks:
            _take_arguments(block, likes, op)
            assert block.last_op is not None
            ends.append(block.last_op)
    types = [
        part.type
        for result in op.results
        for part in (_parts(likes[result].result) if result in likes else [result])
    ]
    regions: list[Region] = [op.detach_region(region) for region in list(op.regions)]
    new = type(op).create(
        operands=[part for value in op.operands for part in _parts(value)],
        result_types=types,
        attributes=dict(op.attributes),
        properties=dict(op.properties),
        regions=regions,
    )
    assert op.parent is not None
    op.parent.insert_op_before(new, op)
    results = iter(new.results)
    for old in op.results:
        if old in likes:
            own = [next(results) for _ in _parts(likes[old].result)]
            made = _made_of(own, likes[old], op)
            op.parent.insert_op_before(made, op)
            made.result.name_hint = old.name_hint
            old.replace_all_uses_with(made.result)
        else:
            fresh = next(results)
            fresh.name_hint = old.name_hint
            old.replace_all_uses_with(fresh)
    Rewriter.erase_op(op)
    return ends


def _take_arguments(block: Block, likes: dict[SSAValue, MakeDesc], op: Operation) -> None:
    """Let a block take parts, and make its descriptors of them."""
    for argument in [a for a in block.args if a in likes]:
        like = likes[argument]
        own: list[SSAValue] = []
        for part in _parts(like.result):
            own.append(block.insert_arg(part.type, argument.index))
        made = _made_of(own, like, op)
        made.result.name_hint = argument.name_hint
        assert block.first_op is not None
        block.insert_op_before(made, block.first_op)
        argument.replace_all_uses_with(made.result)
        block.erase_arg(argument)
