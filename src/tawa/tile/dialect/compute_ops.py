"""The tile level's dot products, reductions and scans."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from tawa.base.numerics import Array
from tawa.base.types import element_of, f16, f32, f64, i8, i32, shape_of
from tawa.ir.effects import Collective, CollectiveOfRows
from tawa.tile.dialect import arithmetic
from tawa.tile.dialect.value_ops import I32Attr, Tensor, TileOp, require, tensor_type

REDUCTION_KINDS = arithmetic.REDUCTION_KINDS
PRECISIONS = ("tf32", "tf32x3", "ieee")

SUMS = "sums"
"""The precision `sums64`, say: of fp8, the tensor core sums 64 products at most by itself."""


def products_summed(precision: StringAttr | None) -> int | None:
    """How many products of fp8 the tensor core may sum by itself; None if all of them."""
    name = "" if precision is None else precision.data
    count = name.removeprefix(SUMS)
    return int(count) if count != name and count.isdecimal() and int(count) > 0 else None


@irdl_op_definition
class Dot(TileOp):
    """`acc + a @ b`, accumulated in its own type or wider; rank 3 operands are batches.

    `precision` says what happens to f32 operands: `tf32` drops their low 13 bits, `tf32x3` and
    `ieee` keep them. Of fp8, `sumsN` has sums of N products added in f32: within them, the tensor
    core keeps fewer bits.
    """

    name = "tile.dot"
    a = operand_def(Tensor)
    b = operand_def(Tensor)
    T: ClassVar = VarConstraint("T", Tensor)
    acc = operand_def(T)
    precision = opt_prop_def(StringAttr)
    result = result_def(T)
    traits = traits_def(Pure(), CollectiveOfRows())
    assembly_format = (
        "$a `,` $b `,` $acc (`precision` $precision^)? attr-dict "
        "`:` type($a) `,` type($b) `->` type($result)"
    )

    def __init__(
        self,
        a: SSAValue | Operation,
        b: SSAValue | Operation,
        acc: SSAValue | Operation,
        precision: str | None = None,
    ) -> None:
        super().__init__(
            operands=[a, b, acc],
            properties={"precision": StringAttr(precision) if precision else None},
            result_types=[SSAValue.get(acc).type],
        )

    def verify_(self) -> None:
        """Check shapes, element types and the precision's name."""
        a, b, acc = (shape_of(v.type) for v in (self.a, self.b, self.acc))
        agrees = len(a) == len(b) == len(acc) in (2, 3) and a[-1] == b[-2]
        agrees = agrees and acc == (*a[:-1], b[-1]) and a[:-2] == b[:-2]
        require(agrees, f"shapes {a} @ {b} do not give {acc}")
        element = element_of(self.acc.type)
        require(element in (f16, f32, f64, i32), "an accumulator of f16, f32, f64 or i32 expected")
        require(
            (element_of(self.a.type) == i8) == (element == i32),
            "i8 accumulates in i32, only i8 does",
        )
        require(self.result.type == self.acc.type, "the result has the accumulator's type")
        precision = self.precision
        require(
            precision is None
            or precision.data in PRECISIONS
            or products_summed(precision) is not None,
            f"precision is one of {PRECISIONS}, or `{SUMS}` with a number",
        )

    def evaluate(self, a: Array, b: Array, acc: Array) -> Array:
        """See the class."""
        precision = self.precision.data if self.precision else "ieee"
        return arithmetic.dot(a, b, acc, element_of(self.acc.type), precision)


@irdl_op_definition
class Reduce(TileOp):
    """Combine the elements along `axis` with the associative scalar function `kind`.

    The order is not specified. A reduction of the only axis gives a scalar.
    """

    name = "tile.reduce"
    value = operand_def(Tensor)
    axis = prop_def(I32Attr)
    kind = prop_def(StringAttr)
    result = result_def()
    traits = traits_def(Pure(), CollectiveOfRows())
    assembly_format = "$kind $value `axis` $axis attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation, axis: int, kind: str) -> None:
        source = SSAValue.get(value)
        super().__init__(
            operands=[source],
            properties={"axis": IntegerAttr(axis, i32), "kind": StringAttr(kind)},
            result_types=[self._result(source.type, axis)],
        )

    @staticmethod
    def _result(source: Attribute, axis: int) -> Attribute:
        shape = shape_of(source)
        return tensor_type(element_of(source), (*shape[:axis], *shape[axis + 1 :]))

    def verify_(self) -> None:
        """Check kind, axis and result."""
        axis, kind = self.axis.value.data, self.kind.data
        require(kind in REDUCTION_KINDS, f"{kind} is no kind of reduction")
        require(0 <= axis < len(shape_of(self.value.type)), f"axis {axis} is out of range")
        expected = self._result(self.value.type, axis)
        require(self.result.type == expected, f"{expected} expected as result")

    def evaluate(self, value: Array) -> Array:
        """See the class."""
        element = element_of(self.value.type)
        return arithmetic.reduce(value, self.axis.value.data, self.kind.data, element)


@irdl_op_definition
class ArgReduce(TileOp):
    """The extreme along `axis` and its position; `kind` is `argmax` or `argmin`.

    The lowest position of equal elements wins. `unsigned` says how integers compare. A NaN loses
    against any number; where there are only NaN, the first one wins.
    """

    name = "tile.arg_reduce"
    value = operand_def(Tensor)
    axis = prop_def(I32Attr)
    kind = prop_def(StringAttr)
    unsigned = opt_prop_def(UnitAttr)
    extreme = result_def()
    index = result_def()
    traits = traits_def(Pure(), Collective())
    assembly_format = (
        "$kind $value `axis` $axis (`unsigned` $unsigned^)? attr-dict "
        "`:` type($value) `->` type($extreme) `,` type($index)"
    )

    def __init__(
        self, value: SSAValue | Operation, axis: int, kind: str, *, unsigned: bool = False
    ) -> None:
        source = SSAValue.get(value)
        shape = shape_of(source.type)
        rest = (*shape[:axis], *shape[axis + 1 :])
        super().__init__(
            operands=[source],
            properties={
                "axis": IntegerAttr(axis, i32),
                "kind": StringAttr(kind),
                "unsigned": UnitAttr() if unsigned else None,
            },
            result_types=[tensor_type(element_of(source.type), rest), tensor_type(i32, rest)],
        )

    def verify_(self) -> None:
        """Check kind and axis."""
        axis = self.axis.value.data
        require(self.kind.data in ("argmax", "argmin"), "kind is argmax or argmin")
        require(0 <= axis < len(shape_of(self.value.type)), f"axis {axis} is out of range")

    def evaluate(self, value: Array) -> tuple[Array, Array]:
        """See the class."""
        largest = self.kind.data == "argmax"
        return arithmetic.arg_reduce(
            value, self.axis.value.data, largest=largest, unsigned=self.unsigned is not None
        )


@irdl_op_definition
class Scan(TileOp):
    """Running combination along `axis` with `kind`, from the end when `reverse`."""

    name = "tile.scan"
    value = operand_def(Tensor)
    axis = prop_def(I32Attr)
    kind = prop_def(StringAttr)
    reverse = opt_prop_def(UnitAttr)
    result = result_def(Tensor)
    traits = traits_def(Pure(), Collective())
    assembly_format = (
        "$kind $value `axis` $axis (`reverse` $reverse^)? attr-dict `:` type($value)"
        " `->` type($result)"
    )

    def __init__(
        self, value: SSAValue | Operation, axis: int, kind: str, *, reverse: bool = False
    ) -> None:
        source = SSAValue.get(value)
        super().__init__(
            operands=[source],
            properties={
                "axis": IntegerAttr(axis, i32),
                "kind": StringAttr(kind),
                "reverse": UnitAttr() if reverse else None,
            },
            result_types=[source.type],
        )

    def verify_(self) -> None:
        """Check kind, axis and result."""
        axis, kind = self.axis.value.data, self.kind.data
        require(kind in REDUCTION_KINDS, f"{kind} is no kind of scan")
        require(0 <= axis < len(shape_of(self.value.type)), f"axis {axis} is out of range")
        require(self.result.type == self.value.type, "the result has the operand's type")

    def evaluate(self, value: Array) -> Array:
        """See the class."""
        element, axis = element_of(self.value.type), self.axis.value.data
        if self.reverse is None:
            return arithmetic.scan(value, axis, self.kind.data, element)
        turned = arithmetic.scan(np.flip(value, axis), axis, self.kind.data, element)
        return np.flip(turned, axis)


COMPUTE_OPS = (Dot, Reduce, ArgReduce, Scan)
