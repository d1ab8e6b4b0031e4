"""Matrix products in flight: issued and waited for, with operands in slots or registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType, UnitAttr, i1, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tawa.aref.dialect.channel_ops import ArefOp
from tawa.aref.dialect.types import ViewType
from tawa.base.numerics import Array
from tawa.base.types import element_of, f32, shape_of
from tawa.ir.effects import (
    MEETING,
    PRODUCTS,
    REGISTERS,
    SLOT,
    CollectiveOfRows,
    Effects,
    makes,
    reads,
    writes,
)
from tawa.ir.traits import Lazy


@irdl_op_definition
class Unset(ArefOp):
    """A tile that has no value yet; only a dot that does not accumulate may take it."""

    name: ClassVar[str] = "aref.unset"
    result: SSAValue = result_def(base(TensorType))
    traits = traits_def(Effects(makes(REGISTERS, "result")), Lazy())
    # Not pure: each stands for registers of its own.
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, type_: Attribute):
        super().__init__(result_types=[type_])


@irdl_op_definition
class ZeroUnless(ArefOp):
    """The accumulator if the condition holds, else zeros: it may never have been written."""

    name: ClassVar[str] = "aref.zero_unless"
    condition: SSAValue = operand_def(i1)
    value: SSAValue = operand_def(base(TensorType))
    result: SSAValue = result_def(base(TensorType))
    traits = traits_def(Effects(writes(REGISTERS, "value"), makes(REGISTERS, "result")))
    assembly_format = "$condition `,` $value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, condition: SSAValue, value: SSAValue):
        super().__init__(operands=[condition, value], result_types=[value.type])


@irdl_op_definition
class Stage(ArefOp):
    """Copy a computed tile to shared memory, where a matrix instruction can read it.

    With `buffer` (0 or 1) it has two buffers, and this is the one that the copy goes to: products
    of a loop's iteration before may still read the other.
    """

    BUFFERS: ClassVar[int] = 2
    name: ClassVar[str] = "aref.stage"
    value: SSAValue = operand_def(base(TensorType))
    buffer: SSAValue | None = opt_operand_def(i32)
    view: SSAValue = result_def(ViewType)
    traits = traits_def(Effects(writes(SLOT, "view"), writes(MEETING)))
    assembly_format = "$value (`to` $buffer^)? attr-dict `:` type($value) `->` type($view)"

    def __init__(self, value: SSAValue, buffer: SSAValue | None = None):
        tile = TensorType(element_of(value.type), shape_of(value.type))
        super().__init__(operands=[value, buffer], result_types=[ViewType(tile)])


@irdl_op_definition
class Restage(ArefOp):
    """Copy a slot's tile to shared memory so that its other dimension is the contiguous one.

    `interleaved`: K lies in the order in which registers have it (see `aref.create`).
    """

    name: ClassVar[str] = "aref.restage"
    view: SSAValue = operand_def(ViewType)
    interleaved: UnitAttr | None = opt_prop_def(UnitAttr)
    result: SSAValue = result_def(ViewType)
    traits = traits_def(Effects(reads(SLOT, "view"), writes(SLOT, "result"), writes(MEETING)))
    assembly_format = (
        "$view (`interleaved` $interleaved^)? attr-dict `:` type($view) `->` type($result)"
    )

    def __init__(self, view: SSAValue, *, interleaved: bool = False):
        super().__init__(
            operands=[view],
            properties={"interleaved": UnitAttr() if interleaved else None},
            result_types=[view.type],
        )


@irdl_op_definition
class DotIssue(ArefOp):
    """Start `accumulator + a @ b`; the result may be read after `dot_wait`, or be accumulated into.

    `a` is a view or a tensor value, `b` a view. `accumulate` false: the accumulator's old value
    is ignored (zero).
    """

    name: ClassVar[str] = "aref.dot_issue"
    a: SSAValue = operand_def()
    b: SSAValue = operand_def()
    accumulator: SSAValue = operand_def(base(TensorType))
    accumulate: SSAValue | None = opt_operand_def(i1)
    precision: StringAttr | None = opt_prop_def(StringAttr)
    result: SSAValue = result_def(base(TensorType))
    traits = traits_def(
        Effects(
            reads(SLOT, "a"), reads(SLOT, "b"), writes(REGISTERS, "accumulator"), writes(PRODUCTS)
        )
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$a `,` $b `,` $accumulator (`if` $accumulate^ `:` type($accumulate))? "
        "(`precision` $precision^)? attr-dict "
        "`:` type($a) `,` type($b) `,` type($accumulator) `->` type($result)"
    )

    def __init__(
        self,
        operands: tuple[SSAValue, SSAValue, SSAValue],
        accumulate: SSAValue | None = None,
        precision: StringAttr | None = None,
    ):
        a, b, accumulator = operands
        super().__init__(
            operands=[a, b, accumulator, accumulate],
            properties={"precision": precision},
            result_types=[accumulator.type],
        )

    def verify_(self) -> None:
        """The accumulator and the result have one type."""
        if self.accumulator.type != self.result.type:
            raise VerifyException("a dot's result has its accumulator's type")


@irdl_op_definition
class DotWait(ArefOp):
    """Wait until at most `pending` dots are unfinished; the results are the finished values."""

    name: ClassVar[str] = "aref.dot_wait"
    pending: IntegerAttr = prop_def(IntegerAttr)
    values: Sequence[SSAValue] = var_operand_def(base(TensorType))
    results_: Sequence[SSAValue] = var_result_def(base(TensorType))
    traits = traits_def(Effects(writes(PRODUCTS)))
    assembly_format = "$pending (`,` $values^ `:` type($values) `->` type($results_))? attr-dict"

    def __init__(self, pending: int, values: Sequence[SSAValue] = ()):
        super().__init__(
            operands=[values],
            properties={"pending": IntegerAttr(pending, i64)},
            result_types=[[v.type for v in values]],
        )


@irdl_op_definition
class Any(ArefOp):
    """Whether some element is true, as far as the asking warp holds it.

    Warps may get different answers, so it may only choose whether to skip what changes nothing.
    """

    name: ClassVar[str] = "aref.any"
    value: SSAValue = operand_def(base(TensorType))
    result: SSAValue = result_def(i1)
    traits = traits_def(Pure(), CollectiveOfRows())
    assembly_format = "$value attr-dict `:` type($value)"

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value], result_types=[i1])

    def evaluate(self, value: Array) -> Array:
        """Of the whole tile: a skip that changes nothing may as well not be taken."""
        return np.asarray(np.any(value))


@irdl_op_definition
class AnyAbove(ArefOp):
    """Whether some element is above its row's bound, as far as the asking warp holds the row.

    The elements lie along dimension `axis`, which `bound` lacks. As with `aref.any`, the answer
    may only choose whether to skip what changes nothing. `unsure`: the answer is also yes where
    nothing can be said, because a bound is infinite or NaN, or all elements are NaN. `scales`:
    positive numbers that elements are multiplied by first, one after the other.
    """

    name: ClassVar[str] = "aref.any_above"
    value: SSAValue = operand_def(base(TensorType))
    bound: SSAValue = operand_def(base(TensorType))
    scales: Sequence[SSAValue] = var_operand_def(f32)
    axis: IntegerAttr = prop_def(IntegerAttr)
    unsure: UnitAttr | None = opt_prop_def(UnitAttr)
    result: SSAValue = result_def(i1)
    traits = traits_def(Pure(), CollectiveOfRows())
    assembly_format = (
        "$value `,` $bound (`times` $scales^)? `axis` $axis (`unsure` $unsure^)? attr-dict `:` "
        "type($value) `,` type($bound)"
    )

    def __init__(
        self,
        value: SSAValue,
        bound: SSAValue,
        axis: int,
        *,
        unsure: bool = False,
        scales: Sequence[SSAValue] = (),
    ):
        super().__init__(
            operands=[value, bound, list(scales)],
            properties={
                "axis": IntegerAttr(axis, i64),
                "unsure": UnitAttr() if unsure else None,
            },
            result_types=[i1],
        )

    def evaluate(self, value: Array, bound: Array, *scales: Array) -> Array:
        """Of the whole tile."""
        bounds = np.expand_dims(bound, self.axis.value.data)
        for scale in scales:
            value = (value * scale).astype(value.dtype)
        if self.unsure is None:
            return np.asarray(np.any(value > bounds))
        return np.asarray(np.any(~(value <= bounds)) or not np.all(np.isfinite(bound)))


@irdl_op_definition
class LanePartials(ArefOp):
    """Sums of rows as far as each of the four lanes that share a row holds it: [rows, 4].

    A lane holds two elements of every eight, as matrix products leave them.
    """

    LANES: ClassVar[int] = 4
    """Lanes that share a row of a product's accumulator."""

    name: ClassVar[str] = "aref.lane_partials"
    value: SSAValue = operand_def(base(TensorType))
    result: SSAValue = result_def(base(TensorType))
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue):
        shape = (shape_of(value.type)[0], self.LANES)
        super().__init__(operands=[value], result_types=[TensorType(element_of(value.type), shape)])

    def evaluate(self, value: Array) -> Array:
        """Add up what each lane holds."""
        rows, columns = value.shape
        held = value.reshape(rows, columns // (2 * self.LANES), self.LANES, 2)
        return np.asarray(held.sum(axis=(1, 3), dtype=value.dtype))


COMPUTE_OPS: tuple[type[ArefOp], ...] = (
    Unset, ZeroUnless, Stage, Restage, DotIssue, DotWait, Any, AnyAbove, LanePartials,
)  # fmt: skip
