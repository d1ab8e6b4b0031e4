"""Products that warps do by themselves: done when they are issued."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.utils.hints import isa

from tawa.aref.dialect.channel_ops import ArefOp
from tawa.aref.dialect.types import ViewType
from tawa.base.layout import Layout
from tawa.base.warp_matrix import Product
from tawa.ir.effects import SLOT, Collective, Effects, reads


@irdl_op_definition
class WarpDot(ArefOp):
    """`accumulator + a @ b`, for products that no warp-group instruction does.

    Each operand is a view, or a tensor value that threads hold as the instruction takes it: along
    K in the instruction's own order, or so many elements of a thread in a row (`run`).
    """

    name: ClassVar[str] = "aref.warp_dot"
    a: SSAValue = operand_def()
    b: SSAValue = operand_def()
    accumulator: SSAValue = operand_def(base(TensorType))
    precision: StringAttr = prop_def(StringAttr)
    run: IntegerAttr | None = opt_prop_def(IntegerAttr)
    result: SSAValue = result_def(base(TensorType))
    traits = traits_def(Collective(), Effects(reads(SLOT, "a"), reads(SLOT, "b")))
    assembly_format = (
        "$a `,` $b `,` $accumulator `precision` $precision (`run` $run^)? attr-dict "
        "`:` type($a) `,` type($b) `,` type($accumulator) `->` type($result)"
    )

    def __init__(
        self, a: SSAValue, b: SSAValue, accumulator: SSAValue, precision: str, run: int = 0
    ):
        super().__init__(
            operands=[a, b, accumulator],
            properties={
                "precision": StringAttr(precision),
                "run": IntegerAttr(run, i64) if run else None,
            },
            result_types=[accumulator.type],
        )

    @property
    def product(self) -> Product:
        """What is multiplied."""
        a, b = (_tile(operand) for operand in (self.a, self.b))
        shapes = tuple(a.get_shape()), tuple(b.get_shape())
        return Product.of(*shapes, a.element_type, self.precision.data)

    def layout(self, side: int, warps: int) -> Layout:
        """The layout of an operand that is a tensor value: A (`side` 0) or B (1)."""
        return self.product.operand(warps, side, self.run.value.data if self.run else 0)


def _tile(operand: SSAValue) -> TensorType[Attribute]:
    kind = operand.type
    found = kind.tile if isinstance(kind, ViewType) else kind
    assert isa(found, TensorType[Attribute])
    return found


WARP_OPS = (WarpDot,)
