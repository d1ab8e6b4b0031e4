"""Descriptors that loops carry and branches choose become numbers; accesses branch on them.

A tensor map is a parameter of the kernel, which no register holds: what a program can carry is
which of them it means. Where only one is possible, it is that one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.rewriter import Rewriter

from tawa.base.errors import TawaError
from tawa.base.spans import copy_span, span_of
from tawa.base.types import DescType
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant, passed_out, passed_to
from tawa.ir.properties import ONE_PROGRAM, TIDY
from tawa.ir.walking import every


class DescriptorChosenWhereMade(TawaError):
    """A program chooses between descriptors of several paddings, one of them made on the way."""

    explanation = (
        "A program may choose between descriptors that it makes on the way, or carry one from "
        "iteration to iteration: base, sizes and strides are passed on. But all of them must read "
        "the same outside of the tensor. Give them one `padding_option`, or make all of them at "
        "the kernel's beginning, where the host does it."
    )
    example = """
import tawa
import tawa.language as tl


@tawa.jit
def either(x, y, o, n):
    if n > 3:
        tiles = tl.make_tensor_descriptor(x, [64, 64], [64, 1], [64, 64], "nan")
    else:
        tiles = tl.make_tensor_descriptor(y, [64, 64], [64, 1], [64, 64])
    tl.make_tensor_descriptor(o, [64, 64], [64, 1], [64, 64]).store([0, 0], tiles.load([0, 0]))


either.compile("*f16:16", "*f16:16", "*f16:16", "i32")
"""


@dataclass(frozen=True)
class ChosenDescriptors:
    """Carry and choose numbers of descriptors instead of descriptors."""

    name: ClassVar[str] = "chosen-descriptors"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Rewrite the kernel, if it carries or chooses any."""
        kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
        chosen = [value for value in passing_values(kernel) if isinstance(value.type, DescType)]
        choices = {value: what_it_may_be(value) for value in chosen}
        if not choices:
            return
        made = list(dict.fromkeys(one for found in choices.values() for one in found))
        for one in made:
            _require_first(one, kernel)
        numbers = _numbered(kernel.body.block, made)
        for one, number in numbers.items():
            one.replace_uses_with_if(number, lambda use: _passes_on(use.operation))
        for value, found in choices.items():
            _branch(Rewriter.replace_value_with_new_type(value, i32), found, made)


def passing_values(kernel: func.FuncOp) -> list[SSAValue]:
    """What loops and branches pass on and out."""
    found: list[SSAValue] = []
    for op in every(kernel):
        if isinstance(op, scf.ForOp | scf.WhileOp | scf.IfOp):
            found += op.results
            found += [a for region in op.regions for block in region.blocks for a in block.args]
    return found


def _passes_on(op: Operation) -> bool:
    kinds = scf.ForOp, scf.WhileOp, scf.IfOp, scf.YieldOp, scf.ConditionOp
    return isinstance(op, kinds)


def what_it_may_be(value: SSAValue) -> list[SSAValue]:
    """The descriptors that one may be: arguments, and those that the kernel makes."""
    found: dict[SSAValue, None] = {}
    seen: set[SSAValue] = set()
    work = [value]
    while work:
        one = work.pop()
        if one in seen:
            continue
        seen.add(one)
        sources = sources_of(one)
        if sources:
            work += sources
        else:
            found[one] = None
    return list(found)


def sources_of(value: SSAValue) -> list[SSAValue]:
    """What a loop or a branch may pass on as a value; empty of what they do not pass on."""
    if isinstance(value, BlockArgument):
        inside = isinstance(value.owner.parent_op(), scf.ForOp | scf.WhileOp)
        return passed_to(value) if inside else []
    assert isinstance(value, OpResult)
    return passed_out(value) if _passes_on(value.op) else []


def _require_first(value: SSAValue, kernel: func.FuncOp) -> None:
    """Raise for a descriptor that is not made before all loops and branches."""
    if isinstance(value, OpResult) and value.op.parent is not kernel.body.block:
        raise DescriptorChosenWhereMade(
            "a descriptor is made in the loop or branch that passes it on",
            span=span_of(value.op),
            expected="descriptors that are made at the kernel's beginning, to choose from",
            hint="make all of them before, and choose one",
        )


def _numbered(block: Block, made: list[SSAValue]) -> dict[SSAValue, SSAValue]:
    """A constant for each descriptor, at the kernel's beginning."""
    constants = [integer_constant(number, i32) for number in range(len(made))]
    assert block.first_op is not None
    block.insert_ops_before(constants, block.first_op)
    return {one: op.result for one, op in zip(made, constants, strict=True)}


def _branch(value: SSAValue, found: list[SSAValue], made: list[SSAValue]) -> None:
    """Let every access be one of an access to each descriptor that its number may mean."""
    for use in [u for u in value.uses if not _passes_on(u.operation)]:
        op = use.operation
        results = _one_of(op, use.index, found, made)
        for old, new in zip(op.results, results, strict=True):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        Rewriter.erase_op(op)


def _one_of(
    op: Operation, operand: int, found: list[SSAValue], made: list[SSAValue]
) -> list[SSAValue]:
    """Before an op, one for each descriptor that it may access, in branches on which it is."""
    value, block = op.operands[operand], op.parent
    assert block is not None
    if len(found) == 1:
        alone = _of(op, operand, found[0])
        block.insert_op_before(alone, op)
        return list(alone.results)
    number = integer_constant(made.index(found[0]), i32)
    is_first = Map("cmpi_eq", [value, number.result])
    branches: list[Region] = []
    for which in ([found[0]], found[1:]):
        end = scf.YieldOp()
        inside = Block([end])
        copy = op.clone()
        inside.insert_op_before(copy, end)
        results = _one_of(copy, operand, which, made)
        Rewriter.erase_op(copy)
        end.operands = results
        branches.append(Region(inside))
    types = [result.type for result in op.results]
    branch = scf.IfOp(is_first, types, branches[0], branches[1])
    copy_span(op, [number, is_first, branch])
    block.insert_ops_before([number, is_first, branch], op)
    return list(branch.results)


def _of(op: Operation, operand: int, desc: SSAValue) -> Operation:
    """The same op on one descriptor."""
    found = op.clone()
    found.operands[operand] = desc
    return found
