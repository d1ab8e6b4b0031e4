"""Which memory pointers and descriptors reach, and whether two may touch the same bytes.

Memory is told apart by the kernel's arguments that an address is made from: arrays of different
arguments are apart, but for the pairs that the kernel's attribute `OVERLAPS` lists. A descriptor
that the host makes of a pointer argument (`tile.passes.descriptors`) reaches that argument's
memory, too.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import TypeAlias

from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from tawa.base.types import DescType, PtrType, element_of
from tawa.ir.effects import GLOBAL, WRITE, is_pure, through
from tawa.ir.kernels import made_by_host
from tawa.ir.loops import passed_out, passed_to

OVERLAPS = "tawa.overlaps"
"""Attribute of a kernel: pairs of arguments whose memory may overlap."""
ALIKE = "tawa.alike"
"""Two arrays' numbers and those of two integers which count addresses of one and of the other."""
APART = "tawa.apart"
"""Attribute of a kernel: pairs of arguments that it takes to be apart, where that matters."""

STORED_BEFORE = "tawa.stored_before"
"""Attribute of a store of a block, to bytes that another of the program may have been stored to."""

OUT_OF_ORDER = "tawa.out_of_order"
"""Attribute of a kernel of which a load may read what its program has stored before."""

Memory: TypeAlias = SSAValue | None
"""An argument, for all memory that is reached through it; None is any memory."""


def may_alias(first: SSAValue | None, second: SSAValue | None) -> bool:
    """Whether two pointers (or tiles of them) or descriptors may reach the same bytes."""
    return may_overlap(_reached(first), _reached(second))


def may_overlap(one: Collection[Memory], other: Collection[Memory]) -> bool:
    """Whether some of one memory may be some of another."""
    return any(_may_be(a, b) for a in one for b in other)


def _may_be(one: Memory, other: Memory) -> bool:
    if one is None or other is None or one is other:
        return True
    assert isinstance(one, BlockArgument) and isinstance(other, BlockArgument)
    kernel = one.owner.parent_op()
    pair = sorted((one.index, other.index))
    return kernel is not None and pair in pairs(kernel, OVERLAPS)


def pairs(kernel: Operation, attribute: str) -> list[list[int]]:
    """The pairs of arguments' numbers that an attribute of a kernel lists."""
    text = kernel.attributes.get(attribute)
    return json.loads(text.data) if isinstance(text, StringAttr) else []


def written(ops: Iterable[Operation]) -> set[Memory]:
    """The memory that some ops, or those in them, may write."""
    return {m for op in ops for value in through(op, GLOBAL, WRITE) for m in _reached(value)}


def may_be_written(op: Operation, memory: Collection[Memory]) -> bool:
    """Whether an op may read some of the memory."""
    return any(may_overlap(_reached(value), memory) for value in through(op, GLOBAL))


def _reached(value: SSAValue | None) -> set[Memory]:
    return {None} if value is None else origins(value)


def origins(address: SSAValue) -> set[Memory]:
    """The arguments that a pointer or descriptor may have been made from; None if it may be any."""
    found: set[Memory] = set()
    seen: set[SSAValue] = set()
    work = [address]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, BlockArgument) and isinstance(value.owner.parent_op(), func.FuncOp):
            found.add(_argument(value))
            continue
        sources = _sources(value)
        if not sources:
            found.add(None)
        work += sources
    return found


def _argument(value: BlockArgument) -> SSAValue:
    """The argument whose memory an argument reaches: another one, if it is made of that."""
    given, recipes = made_by_host(value.owner.parent_op())
    number = value.index - given
    if not 0 <= number < len(recipes) or not isinstance(value.type, DescType | PtrType):
        return value
    recipe = recipes[number]
    argument: int = recipe["arg"] if "arg" in recipe else recipe["base"]
    return value.owner.args[argument]


def _sources(value: SSAValue) -> list[SSAValue]:
    """The addresses that one was computed from, or is passed on from; [] if that is not known."""
    if isinstance(value, BlockArgument):
        return passed_to(value)
    assert isinstance(value, OpResult)
    if is_pure(value.op) and not value.op.regions:
        return [v for v in value.op.operands if isinstance(element_of(v.type), PtrType | DescType)]
    return passed_out(value)
