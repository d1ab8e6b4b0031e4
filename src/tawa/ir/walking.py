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
    if isinstance(top, Operation):
        found.append(top)
    _collect(top, found)
    return found


def all_of(top: Top, kind: type[Op]) -> list[Op]:
    """The ops of a class in `top`, itself included if it is one."""
    return [op for op in every(top) if _is(type(op), kind)]  # pyright: ignore[reportReturnType]


def has(top: Top, kind: type[Operation]) -> bool:
    """Whether there is an op of a class in `top`, or it is one."""
    return any(_is(type(op), kind) for op in every(top))


@cache
def _is(found: type[Any], kind: type[Any]) -> bool:
    return issubclass(found, kind)


def _collect(top: Top, found: list[Operation]) -> None:
    if isinstance(top, Block):
        op = top.first_op
        while op is not None:
            found.append(op)
            if op.regions:
                _collect(op, found)
            op = op.next_op
    elif isinstance(top, Region):
        for block in top.blocks:
            _collect(block, found)
    else:
        for region in top.regions:
            for block in region.blocks:
                _collect(block, found)


def between(first: Operation, last: Operation) -> list[Operation]:
    """The ops of a block after one and before another, in order."""
    found: list[Operation] = []
    op = first.next_op
    while op is not None and op is not last:
        found.append(op)
        op = op.next_op
    return found
