"""What can be seen in a module of the properties that passes establish; tests look after passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tawa.aref.analysis.product_check import product_obstacle
from tawa.aref.dialect.ops import ArefOp, DotIssue, GetEnter, PutEnter, WarpGroup
from tawa.ir import properties as of
from tawa.ir.contracts import Property
from tawa.ir.tidy import Tidy
from tawa.ir.walking import all_of
from tawa.machine.chips import Chip
from tawa.tile.analysis.narrow_sums import too_narrow
from tawa.tile.dialect.ops import Dot, MakeDesc, RowEnds, TileOp

Check = Callable[[ModuleOp, Chip], Iterator[Operation]]
"""The ops of a module by which a property does not hold."""


def _none(*kinds: type[Operation]) -> Check:
    """No op is of these kinds."""
    return lambda module, target: (op for op in module.walk() if isinstance(op, kinds))


def _wide(module: ModuleOp, _target: Chip) -> Iterator[Operation]:
    dots = (op for op in module.walk() if isinstance(op, Dot))
    return (op for op in dots if too_narrow(op))


def _in_roles(module: ModuleOp, _target: Chip) -> Iterator[Operation]:
    for kernel in module.ops:
        for op in kernel.walk():
            parent: Operation | None = op
            while parent is not None and not isinstance(parent, WarpGroup):
                parent = parent.parent_op()
            if parent is None and isinstance(op, TileOp):
                yield op


def _of_groups(module: ModuleOp, target: Chip) -> Iterator[Operation]:
    for group in all_of(module, WarpGroup):
        dots = (op for op in group.walk() if isinstance(op, Dot))
        yield from (
            d
            for d in dots
            if product_obstacle(
                d, group.warps.value.data, target, by_columns=group.split_columns is not None
            )
        )


def _enters(module: ModuleOp) -> Iterator[PutEnter | GetEnter]:
    return (op for op in module.walk() if isinstance(op, PutEnter | GetEnter))


def _tidy(module: ModuleOp, _target: Chip) -> Iterator[Operation]:
    again = module.clone()
    Tidy().apply(again)
    if sum(1 for _ in again.walk()) < sum(1 for _ in module.walk()):
        yield module


CHECKS: dict[Property, Check] = {
    of.ONE_PROGRAM: _none(ArefOp),
    of.ARGUMENT_DESCRIPTORS: _none(MakeDesc),
    of.WIDE_SUMS: _wide,
    of.ROLES: _in_roles,
    of.GROUP_PRODUCTS: _of_groups,
    of.OWN_ENDS: _none(RowEnds),
    of.DOTS: _none(DotIssue),
    of.ASYNCHRONOUS: _none(Dot),
    of.OPEN_SLOTS: lambda module, _: (op for op in _enters(module) if op.cursor is not None),
    of.SLOTS: lambda module, _: (op for op in _enters(module) if op.cursor is None),
    of.LOWERED: _none(TileOp, ArefOp),
    of.TIDY: _tidy,
}
"""How to see them; the others say what a pass has looked at, which a module does not show."""


def broken(module: ModuleOp, properties: set[Property], target: Chip) -> list[str]:
    """Properties that a module does not have, and an op that shows it."""
    found: list[str] = []
    for seen in properties & CHECKS.keys():
        op = next(CHECKS[seen](module, target), None)
        if op is not None:
            found.append(f"{seen}: {op.name}")
    return sorted(found)
