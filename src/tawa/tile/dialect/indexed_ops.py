"""The tile level's ops that pick and count elements by computed positions."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tawa.base.numerics import Array
from tawa.base.types import element_of, i32, shape_of
from tawa.ir.effects import Collective
from tawa.tile.dialect.value_ops import I32Attr, Tensor, TileOp, require


@irdl_op_definition
class Gather(TileOp):
    """Element `i` along `axis` of the result is element `indices[i]` of the operand.

    The result has the shape of `indices`, which agrees with that of `value` in all dimensions but
    `axis`. What an index outside of the operand gives is not specified.
    """

    name = "tile.gather"
    value = operand_def(Tensor)
    indices = operand_def(Tensor)
    axis = prop_def(I32Attr)
    result = result_def(Tensor)
    traits = traits_def(Pure(), Collective())
    assembly_format = (
        "$value `,` $indices `axis` $axis attr-dict "
        "`:` type($value) `,` type($indices) `->` type($result)"
    )

    def __init__(
        self, value: SSAValue | Operation, indices: SSAValue | Operation, axis: int
    ) -> None:
        source, where = SSAValue.get(value), SSAValue.get(indices)
        super().__init__(
            operands=[source, where],
            properties={"axis": IntegerAttr(axis, i32)},
            result_types=[TensorType(element_of(source.type), shape_of(where.type))],
        )

    def verify_(self) -> None:
        """Check the axis, the shapes and that indices are integers."""
        source, where = shape_of(self.value.type), shape_of(self.indices.type)
        axis = self.axis.value.data
        require(len(source) == len(where), "indices of the operand's rank expected")
        require(0 <= axis < len(source), f"axis {axis} is out of range")
        same = all(a == b for d, (a, b) in enumerate(zip(source, where, strict=True)) if d != axis)
        require(same, "one shape, but along the axis, expected")
        require(element_of(self.indices.type) == i32, "i32 indices expected")
        require(shape_of(self.result.type) == where, "a result of the indices' shape expected")

    def evaluate(self, value: Array, indices: Array) -> Array:
        """See the class; an index outside counts from the start again."""
        axis = self.axis.value.data
        return np.take_along_axis(value, indices.astype(np.int64) % value.shape[axis], axis)


@irdl_op_definition
class Histogram(TileOp):
    """How often each of 0, 1, ... occurs among the elements; other numbers are left out."""

    name = "tile.histogram"
    value = operand_def(Tensor)
    result = result_def(Tensor)
    traits = traits_def(Pure(), Collective())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation, bins: int) -> None:
        super().__init__(operands=[value], result_types=[TensorType(i32, [bins])])

    def verify_(self) -> None:
        """Check that rows of i32 become a row of i32."""
        types = (self.value.type, self.result.type)
        require(all(element_of(t) == i32 and len(shape_of(t)) == 1 for t in types), "i32 in a row")

    def evaluate(self, value: Array) -> Array:
        """See the class."""
        (bins,) = shape_of(self.result.type)
        inside = value[(value >= 0) & (value < bins)].astype(np.int64)
        return np.bincount(inside, minlength=bins).astype(np.int32)


INDEXED_OPS = (Gather, Histogram)
