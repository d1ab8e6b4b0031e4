"""Reductions and scans of several tensors at once, with any combination as a region.

The region takes the elements of the left side and then those of the right side, as scalars, and
yields as many; it must be associative, and for a reduction commutative. `tile.reduce` and
`tile.scan` are the common cases.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import base as of_class
from xdsl.irdl import (
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure

from tawa.base.numerics import Array, value_dtype
from tawa.base.types import element_of, shape_of
from tawa.ir.effects import Collective
from tawa.ir.elementwise import Map
from tawa.tile.dialect.value_ops import I32Attr, TileOp, require, tensor_type


@irdl_op_definition
class Yield(TileOp):
    """The combined elements."""

    name = "tile.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, values: Sequence[SSAValue | Operation]) -> None:
        super().__init__(operands=[list(values)])


def apply_region(block: Block, arguments: Sequence[Array]) -> list[Array]:
    """Run a region of scalars on whole arrays, element by element.

    Both sides of an `scf.if` are computed and selected from: the region has no effects.
    """
    values: dict[SSAValue, Array] = dict(zip(block.args, arguments, strict=True))
    return _run(block, values)


def _run(block: Block, values: dict[SSAValue, Array]) -> list[Array]:
    for op in block.ops:
        if isinstance(op, Yield | scf.YieldOp):
            return [values[v] for v in op.operands]
        if isinstance(op, ConstantOp):
            assert isinstance(op.value, IntegerAttr | FloatAttr), "regions hold scalars only"
            number = op.value.value.data
            values[op.result] = np.asarray(number).astype(value_dtype(op.result.type))
        elif isinstance(op, scf.IfOp):
            sides = [_run(r.block, dict(values)) for r in (op.true_region, op.false_region)]
            for result, yes, no in zip(op.results, *sides, strict=True):
                values[result] = np.where(values[op.cond], yes, no)
        else:
            assert isinstance(op, Map)
            values[op.result] = op.evaluate(*(values[v] for v in op.operands))
    return []


class _Combining(TileOp):
    """What the two ops share."""

    def check(self, values: Sequence[SSAValue], axis: int, block: Block) -> None:
        """Check the operands' shapes and the region's types."""
        shapes = {shape_of(v.type) for v in values}
        require(len(shapes) == 1, "tensors of one shape expected")
        require(0 <= axis < len(shapes.pop()), f"axis {axis} is out of range")
        elements = [element_of(v.type) for v in values]
        require([a.type for a in block.args] == elements * 2, "the region takes both sides")
        last = block.last_op
        yielded = [v.type for v in last.operands] if isinstance(last, Yield) else None
        require(yielded == elements, "the region yields one element of each tensor")


@irdl_op_definition
class ReduceWith(_Combining):
    """Combine the elements of several tensors along `axis`; the order is not specified."""

    name = "tile.reduce_with"
    values = var_operand_def(of_class(TensorType))
    axis = prop_def(I32Attr)
    outputs = var_result_def()
    body = region_def("single_block")
    traits = traits_def(Pure(), Collective(), IsolatedFromAbove())
    assembly_format = "$values `axis` $axis attr-dict `:` type($values) `->` type($outputs) $body"

    def __init__(self, values: Sequence[SSAValue], axis: int, body: Region) -> None:
        super().__init__(
            operands=[list(values)],
            properties={"axis": IntegerAttr(axis, 32)},
            result_types=[[_without(v.type, axis) for v in values]],
            regions=[body],
        )

    def verify_(self) -> None:
        """Check shapes and the region."""
        self.check(self.values, self.axis.value.data, self.body.block)

    def evaluate(self, *arrays: Array) -> list[Array]:
        """See the class."""
        rows = [np.moveaxis(a, self.axis.value.data, 0) for a in arrays]
        while len(rows[0]) > 1:
            half = len(rows[0]) // 2
            left, right = [r[:half] for r in rows], [r[half : 2 * half] for r in rows]
            paired = apply_region(self.body.block, [*left, *right])
            rest = [r[2 * half :] for r in rows]
            rows = [np.concatenate(pair) for pair in zip(paired, rest, strict=True)]
        return [np.asarray(r[0]) for r in rows]


@irdl_op_definition
class ScanWith(_Combining):
    """Running combination of several tensors along `axis`, from the end when `reverse`."""

    name = "tile.scan_with"
    values = var_operand_def(of_class(TensorType))
    axis = prop_def(I32Attr)
    reverse = opt_prop_def(UnitAttr)
    outputs = var_result_def()
    body = region_def("single_block")
    traits = traits_def(Pure(), Collective(), IsolatedFromAbove())
    assembly_format = (
        "$values `axis` $axis (`reverse` $reverse^)? attr-dict "
        "`:` type($values) `->` type($outputs) $body"
    )

    def __init__(
        self, values: Sequence[SSAValue], axis: int, body: Region, *, reverse: bool = False
    ) -> None:
        super().__init__(
            operands=[list(values)],
            properties={
                "axis": IntegerAttr(axis, 32),
                "reverse": UnitAttr() if reverse else None,
            },
            result_types=[[v.type for v in values]],
            regions=[body],
        )

    def verify_(self) -> None:
        """Check shapes and the region."""
        self.check(self.values, self.axis.value.data, self.body.block)

    def evaluate(self, *arrays: Array) -> list[Array]:
        """See the class."""
        axis, step = self.axis.value.data, -1 if self.reverse is not None else 1
        rows = [np.moveaxis(a, axis, 0)[::step] for a in arrays]
        running = [[r[0]] for r in rows]
        for index in range(1, len(rows[0])):
            right = [r[index] for r in rows]
            combined = apply_region(self.body.block, [*(r[-1] for r in running), *right])
            for total, value in zip(running, combined, strict=True):
                total.append(value)
        return [np.moveaxis(np.stack(r)[::step], 0, axis) for r in running]


def _without(source: Attribute, axis: int) -> Attribute:
    shape = shape_of(source)
    return tensor_type(element_of(source), (*shape[:axis], *shape[axis + 1 :]))


COMBINE_OPS = (ReduceWith, ScanWith, Yield)
