"""Products that warps do by themselves: done when they are issued, from tiles in shared memory."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import base, irdl_op_definition, operand_def, prop_def, result_def, traits_def

from tawa.aref.dialect.channel_ops import ArefOp
from tawa.aref.dialect.types import ViewType
from tawa.base.warp_matrix import Product
from tawa.ir.effects import SLOT, Collective, Effects, reads


@irdl_op_definition
class WarpDot(ArefOp):
    """`accumulator + a @ b` of views, for products that no warp-group instruction does."""

    name: ClassVar[str] = "aref.warp_dot"
    a: SSAValue = operand_def(ViewType)
    b: SSAValue = operand_def(ViewType)
    accumulator: SSAValue = operand_def(base(TensorType))
    precision: StringAttr = prop_def(StringAttr)
    result: SSAValue = result_def(base(TensorType))
    traits = traits_def(Collective(), Effects(reads(SLOT, "a"), reads(SLOT, "b")))
    assembly_format = (
        "$a `,` $b `,` $accumulator `precision` $precision attr-dict "
        "`:` type($a) `,` type($b) `,` type($accumulator) `->` type($result)"
    )

    def __init__(self, a: SSAValue, b: SSAValue, accumulator: SSAValue, precision: str):
        super().__init__(
            operands=[a, b, accumulator],
            properties={"precision": StringAttr(precision)},
            result_types=[accumulator.type],
        )

    @property
    def product(self) -> Product:
        """What is multiplied."""
        assert isinstance(self.a.type, ViewType) and isinstance(self.b.type, ViewType)
        a, b = self.a.type.tile, self.b.type.tile
        shapes = tuple(a.get_shape()), tuple(b.get_shape())
        return Product.of(*shapes, a.element_type, self.precision.data)


WARP_OPS = (WarpDot,)
