"""The ops inside an op, a block or a region, as a list made at once, in the order of the text.

A pass asks first whether there is anything for it, so most walks find nothing. xDSL's `walk` hands
each op through a generator for each region around it, and `isinstance` of an op's class goes
through the machinery of abstract classes: together several times the time of what is asked here.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias, TypeVar

from xdsl.ir import Block, Operation, Region

Op = TypeVar("Op", bound=Operation)
Top: TypeAlias = Operation | Block | Region


def every(top: Top) -> list[Operation]:
    """All ops in `top`, itself included if it is one."""
    found: list[Operation] = []
    if isinstance(top, Block):
        _of_block(top, found)
    elif isinstance(top, Region):
        _of_region(top, found)
    else:
        found.append(top)
        for region in top.regions:
            _of_region(region, found)
    return found


def all_of(top: Top, kind: type[Op]) -> list[Op]:
    """The ops of a class in `top`, itself included if it is one."""
    return [op for op in every(top) if _is(type(op), kind)]  # pyright: ignore[reportReturnType]


def has(top: Top, kind: type[Operation]) -> bool:
    """Whether there is an op of a class in `top`, or it is one."""
    if isinstance(top, Operation) and not top.regions:
        return _is(type(top), kind)
    return any(_is(type(op), kind) for op in every(top))


@cache
def _is(found: type[Any], kind: type[Any]) -> bool:
    return issubclass(found, kind)


def _of_region(region: Region, found: list[Operation]) -> None:
    block = region.first_block
    while block is not None:
        _of_block(block, found)
        block = block.next_block


def _of_block(block: Block, found: list[Operation]) -> None:
    op = block.first_op
    while op is not None:
        found.append(op)
        if op.regions:
            for region in op.regions:
                _of_region(region, found)
        op = op.next_op


def between(first: Operation, last: Operation) -> list[Operation]:
    """The ops of a block after one and before another, in order."""
    found: list[Operation] = []
    op = first.next_op
    while op is not None and op is not last:
        found.append(op)
        op = op.next_op
    return found
