"""The matrix instructions of a compiled kernel: shapes, layouts, and the lines they came of."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tawa.base.layout import Layout
from tawa.base.source import Span
from tawa.base.spans import span_of
from tawa.hopper.dialect.matrix import Wgmma, WgmmaWait
from tawa.hopper.dialect.types import FragType
from tawa.hopper.dialect.warp_matrix import WarpProduct


@dataclass(frozen=True)
class MatrixInstruction:
    """One matrix instruction: what holds its result, and where it comes from.

    - `columns`: of a warp group's instruction; None for those of single warps.
    - `layout`: which thread has which elements of the result.
    """

    name: str
    columns: int | None
    layout: Layout
    span: Span | None


def matrix_instructions(module: ModuleOp) -> list[MatrixInstruction]:
    """Those of a module of the machine level, in its order."""
    return [_found(op) for op in module.walk() if isinstance(op, Wgmma | WarpProduct)]


def _found(op: Wgmma | WarpProduct) -> MatrixInstruction:
    kind = op.results[0].type
    assert isinstance(kind, FragType)
    columns = op.n.value.data if isinstance(op, Wgmma) else None
    return MatrixInstruction(op.name, columns, kind.layout, span_of(op))


def products_in_flight(module: ModuleOp) -> int | None:
    """The most groups of matrix instructions that a wait inside a loop leaves in flight."""
    waits = [op for op in module.walk() if isinstance(op, WgmmaWait)]
    inside = [op.pending.value.data for op in waits if _in_loop(op)]
    return max(inside, default=0) if waits else None


def _in_loop(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, scf.ForOp | scf.WhileOp):
        parent = parent.parent_op()
    return parent is not None
