"""The tile level's ops on values: program indices and shapes.

Values are scalars and tensors of any static shape. Nothing here names a layout, a memory space or
a barrier. A pure op has `evaluate`, its meaning on NumPy value arrays (`base.numerics`); ops that
touch memory get theirs from the evaluator that owns the memory (`simulate.interpret.tile`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, TypeGuard

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    TensorType,
)
from xdsl.dialects.builtin import i64 as i64_attr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    EqAttrConstraint,
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import OpTrait, Pure
from xdsl.utils.exceptions import VerifyException

from tawa.base.numerics import Array
from tawa.base.types import element_of, i32, shape_of
from tawa.ir.effects import HINT, Collective, Effects, writes
from tawa.ir.traits import Lazy

I32Attr = IntegerAttr.constr(EqAttrConstraint(i32))
I64List = DenseArrayBase.constr(i64_attr)
Tensor = base(TensorType)


def require(condition: bool, message: str) -> None:
    """Raise a `VerifyException` unless `condition` holds."""
    if not condition:
        raise VerifyException(message)


def tensor_type(element: Attribute, shape: Sequence[int]) -> Attribute:
    """The tensor type, or the element type itself for an empty shape."""
    return TensorType(element, shape) if shape else element


class Spreads(OpTrait):
    """The result has all elements of the one operand, a tile, each once or more, and no others."""


def spreads(op: object) -> TypeGuard[Operation]:
    """Whether an op only says where the elements of its operand are."""
    return isinstance(op, Operation) and op.has_trait(Spreads)


class TileOp(IRDLOperation):
    """Base of the tile level's ops."""


class ViewLike(TileOp):
    """Its result may be a view of its operand, wherever that lies."""

    if TYPE_CHECKING:  # each op defines them
        value: SSAValue
        result: SSAValue


@irdl_op_definition
class ProgramId(TileOp):
    """Index of this program instance along grid axis 0, 1 or 2."""

    name = "tile.program_id"
    axis = prop_def(I32Attr)
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$axis attr-dict"

    def __init__(self, axis: int) -> None:
        super().__init__(properties={"axis": IntegerAttr(axis, i32)}, result_types=[i32])

    def verify_(self) -> None:
        """Check the axis."""
        require(0 <= self.axis.value.data < 3, "a grid has axes 0, 1 and 2")


@irdl_op_definition
class NumPrograms(TileOp):
    """Size of the grid along axis 0, 1 or 2."""

    name = "tile.num_programs"
    axis = prop_def(I32Attr)
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$axis attr-dict"

    def __init__(self, axis: int) -> None:
        super().__init__(properties={"axis": IntegerAttr(axis, i32)}, result_types=[i32])

    def verify_(self) -> None:
        """Check the axis."""
        require(0 <= self.axis.value.data < 3, "a grid has axes 0, 1 and 2")


@irdl_op_definition
class Arange(TileOp):
    """The integers `start` to `end` - 1."""

    name = "tile.arange"
    start = prop_def(I32Attr)
    end = prop_def(I32Attr)
    result = result_def(Tensor)
    traits = traits_def(Pure(), Lazy())
    assembly_format = "$start `to` $end attr-dict `:` type($result)"

    def __init__(self, start: int, end: int) -> None:
        super().__init__(
            properties={"start": IntegerAttr(start, i32), "end": IntegerAttr(end, i32)},
            result_types=[TensorType(i32, [end - start])],
        )

    def verify_(self) -> None:
        """Check that the type has one element for each integer."""
        length = self.end.value.data - self.start.value.data
        expected = TensorType(i32, [length])
        require(length > 0 and self.result.type == expected, f"{expected} expected as result")

    def evaluate(self) -> Array:
        """See the class."""
        return np.arange(self.start.value.data, self.end.value.data, dtype=np.int32)


@irdl_op_definition
class Splat(TileOp):
    """A tensor whose elements are all the scalar `value`. Tensor constants are splats."""

    name = "tile.splat"
    value = operand_def()
    result = result_def(Tensor)
    traits = traits_def(Pure(), Lazy())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation, shape: Sequence[int]) -> None:
        scalar = SSAValue.get(value)
        super().__init__(operands=[scalar], result_types=[TensorType(scalar.type, shape)])

    def verify_(self) -> None:
        """Check that the scalar has the tensor's element type."""
        element = element_of(self.result.type)
        require(self.value.type == element, f"a scalar {element} expected as operand")

    def evaluate(self, value: Array) -> Array:
        """See the class."""
        return np.broadcast_to(value, shape_of(self.result.type))


@irdl_op_definition
class Broadcast(TileOp):
    """Repeat a tensor along its dimensions of size 1."""

    name = "tile.broadcast"
    value = operand_def(Tensor)
    result = result_def(Tensor)
    traits = traits_def(Pure(), Spreads(), Lazy())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation, shape: Sequence[int]) -> None:
        source = SSAValue.get(value)
        result = TensorType(element_of(source.type), shape)
        super().__init__(operands=[source], result_types=[result])

    def verify_(self) -> None:
        """Check that only dimensions of size 1 grow."""
        source, target = shape_of(self.value.type), shape_of(self.result.type)
        fits = len(source) == len(target) and all(
            a in (1, b) for a, b in zip(source, target, strict=True)
        )
        same = element_of(self.value.type) == element_of(self.result.type)
        require(fits and same, f"cannot broadcast {self.value.type} to {self.result.type}")

    def evaluate(self, value: Array) -> Array:
        """See the class."""
        return np.broadcast_to(value, shape_of(self.result.type))


@irdl_op_definition
class Repeat(TileOp):
    """Each element along `axis` as often as `times` says, one after the other."""

    name = "tile.repeat"
    value = operand_def(Tensor)
    axis = prop_def(I32Attr)
    times = prop_def(I32Attr)
    result = result_def(Tensor)
    traits = traits_def(Pure(), Spreads())
    assembly_format = (
        "$value `axis` $axis `times` $times attr-dict `:` type($value) `->` type($result)"
    )

    def __init__(self, value: SSAValue | Operation, axis: int, times: int) -> None:
        source = SSAValue.get(value)
        shape = list(shape_of(source.type))
        shape[axis] *= times
        result = TensorType(element_of(source.type), shape)
        properties = {"axis": IntegerAttr(axis, 32), "times": IntegerAttr(times, 32)}
        super().__init__(operands=[source], properties=properties, result_types=[result])

    def verify_(self) -> None:
        """Check that one dimension grows."""
        shape = list(shape_of(self.value.type))
        axis = self.axis.value.data
        fits = 0 <= axis < len(shape)
        if fits:
            shape[axis] *= self.times.value.data
        fits = fits and tuple(shape) == shape_of(self.result.type)
        require(fits, f"cannot repeat {self.value.type} to {self.result.type}")

    def evaluate(self, value: Array) -> Array:
        """See the class."""
        return np.repeat(value, self.times.value.data, self.axis.value.data)


@irdl_op_definition
class ExpandDims(TileOp):
    """Insert a dimension of size 1 before `axis`."""

    name = "tile.expand_dims"
    value = operand_def(Tensor)
    axis = prop_def(I32Attr)
    result = result_def(Tensor)
    traits = traits_def(Pure(), Spreads(), Lazy())
    assembly_format = "$value `axis` $axis attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation, axis: int) -> None:
        source = SSAValue.get(value)
        super().__init__(
            operands=[source],
            properties={"axis": IntegerAttr(axis, i32)},
            result_types=[self._result(source.type, axis)],
        )

    @staticmethod
    def _result(source: Attribute, axis: int) -> Attribute:
        shape = shape_of(source)
        return TensorType(element_of(source), (*shape[:axis], 1, *shape[axis:]))

    def verify_(self) -> None:
        """Check the axis and the result's shape."""
        axis = self.axis.value.data
        require(0 <= axis <= len(shape_of(self.value.type)), f"axis {axis} is out of range")
        expected = self._result(self.value.type, axis)
        require(self.result.type == expected, f"{expected} expected as result")

    def evaluate(self, value: Array) -> Array:
        """See the class."""
        return np.expand_dims(value, self.axis.value.data)


@irdl_op_definition
class Reshape(ViewLike):
    """The same elements in row-major order under another shape."""

    name = "tile.reshape"
    value = operand_def(Tensor)
    result = result_def(Tensor)
    traits = traits_def(Pure(), Spreads())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation, shape: Sequence[int]) -> None:
        source = SSAValue.get(value)
        result = TensorType(element_of(source.type), shape)
        super().__init__(operands=[source], result_types=[result])

    def verify_(self) -> None:
        """Check that the number of elements stays."""
        source, target = shape_of(self.value.type), shape_of(self.result.type)
        same = element_of(self.value.type) == element_of(self.result.type)
        require(
            same and math.prod(source) == math.prod(target),
            f"cannot reshape {self.value.type} to {self.result.type}",
        )

    def evaluate(self, value: Array) -> Array:
        """See the class."""
        return value.reshape(shape_of(self.result.type))


@irdl_op_definition
class Trans(ViewLike):
    """Permute dimensions: dimension i of the result is dimension `order[i]` of the operand."""

    name = "tile.trans"
    value = operand_def(Tensor)
    order = prop_def(I64List)
    result = result_def(Tensor)
    traits = traits_def(Pure(), Spreads())
    assembly_format = "$value `order` $order attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation, order: Sequence[int] = (1, 0)) -> None:
        source = SSAValue.get(value)
        shape = shape_of(source.type)
        super().__init__(
            operands=[source],
            properties={"order": DenseArrayBase.from_list(i64_attr, order)},
            result_types=[TensorType(element_of(source.type), [shape[i] for i in order])],
        )

    @property
    def permutation(self) -> tuple[int, ...]:
        """`order` as integers."""
        return tuple(int(i) for i in self.order.get_values())

    def verify_(self) -> None:
        """Check that `order` is a permutation and the result has it."""
        shape, order = shape_of(self.value.type), self.permutation
        require(sorted(order) == list(range(len(shape))), f"{list(order)} is no permutation")
        expected = TensorType(element_of(self.value.type), [shape[i] for i in order])
        require(self.result.type == expected, f"{expected} expected as result")

    def evaluate(self, value: Array) -> Array:
        """See the class."""
        return np.transpose(value, self.permutation)


@irdl_op_definition
class ExtractSlice(ViewLike):
    """The elements of a window: from `offsets` on, as many along each dimension as the result has.

    A window that leaves the operand is an error of the program; its elements are not specified.
    """

    name = "tile.extract_slice"
    value = operand_def(Tensor)
    offsets = var_operand_def(i32)
    result = result_def(Tensor)
    traits = traits_def(Pure(), Collective())
    assembly_format = "$value `[` $offsets `]` attr-dict `:` type($value) `->` type($result)"

    def __init__(
        self,
        value: SSAValue | Operation,
        offsets: Sequence[SSAValue | Operation],
        sizes: Sequence[int],
    ) -> None:
        source = SSAValue.get(value)
        result = TensorType(element_of(source.type), sizes)
        super().__init__(operands=[source, offsets], result_types=[result])

    def verify_(self) -> None:
        """Check that the window has the operand's rank and fits."""
        source, sizes = shape_of(self.value.type), shape_of(self.result.type)
        same = element_of(self.value.type) == element_of(self.result.type)
        require(same and len(source) == len(sizes) == len(self.offsets), "one rank expected")
        require(all(n <= m for n, m in zip(sizes, source, strict=True)), "the window is too large")

    def evaluate(self, value: Array, *offsets: Array) -> Array:
        """See the class; IndexError for a window that leaves the operand."""
        starts, sizes = [int(o) for o in offsets], shape_of(self.result.type)
        for start, size, extent in zip(starts, sizes, value.shape, strict=True):
            if not 0 <= start <= extent - size:
                raise IndexError(f"a window from {start} to {start + size} of {extent} elements")
        return value[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))]


@irdl_op_definition
class Join(TileOp):
    """Interleave two tensors along a new last dimension of size 2."""

    name = "tile.join"
    T: ClassVar = VarConstraint("T", Tensor)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(Tensor)
    traits = traits_def(Pure(), Collective())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)"

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation) -> None:
        source = SSAValue.get(lhs).type
        result = TensorType(element_of(source), (*shape_of(source), 2))
        super().__init__(operands=[lhs, rhs], result_types=[result])

    def verify_(self) -> None:
        """Check that both operands have one type."""
        require(self.lhs.type == self.rhs.type, "operands of one type expected")

    def evaluate(self, lhs: Array, rhs: Array) -> Array:
        """See the class."""
        return np.stack([lhs, rhs], axis=-1)


@irdl_op_definition
class Split(TileOp):
    """The two halves of a tensor whose last dimension is 2."""

    name = "tile.split"
    value = operand_def(Tensor)
    first = result_def(Tensor)
    second = result_def(Tensor)
    traits = traits_def(Pure(), Collective())
    assembly_format = "$value attr-dict `:` type($value) `->` type($first) `,` type($second)"

    def __init__(self, value: SSAValue | Operation) -> None:
        source = SSAValue.get(value).type
        half = tensor_type(element_of(source), shape_of(source)[:-1])
        super().__init__(operands=[value], result_types=[half, half])

    def verify_(self) -> None:
        """Check the last dimension."""
        shape = shape_of(self.value.type)
        require(len(shape) > 1 and shape[-1] == 2, "a last dimension of 2 expected")

    def evaluate(self, value: Array) -> tuple[Array, Array]:
        """See the class."""
        return value[..., 0], value[..., 1]


@irdl_op_definition
class Cat(TileOp):
    """Put two tensors one after the other along the first dimension."""

    name = "tile.cat"
    lhs = operand_def(Tensor)
    rhs = operand_def(Tensor)
    result = result_def(Tensor)
    traits = traits_def(Pure(), Collective())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)"

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation) -> None:
        first, second = SSAValue.get(lhs).type, SSAValue.get(rhs).type
        length = shape_of(first)[0] + shape_of(second)[0]
        result = TensorType(element_of(first), (length, *shape_of(first)[1:]))
        super().__init__(operands=[lhs, rhs], result_types=[result])

    def evaluate(self, lhs: Array, rhs: Array) -> Array:
        """See the class."""
        return np.concatenate([lhs, rhs])


@irdl_op_definition
class RowEnds(TileOp):
    """A promise about the loop around it: iterations from `ends[r]` on do not change row r.

    That is so of every tile that the loop carries and that has a row for each element of `ends`.
    """

    name = "tile.row_ends"
    ends = operand_def(Tensor)
    traits = traits_def(Effects(writes(HINT)))
    assembly_format = "$ends attr-dict `:` type($ends)"

    def __init__(self, ends: SSAValue | Operation) -> None:
        super().__init__(operands=[ends])

    def verify_(self) -> None:
        """Check the place and the type."""
        loop = self.parent_op()
        require(isinstance(loop, scf.ForOp), "a loop around it expected")
        assert isinstance(loop, scf.ForOp)
        require(len(shape_of(self.ends.type)) == 1, "one number a row expected")
        require(element_of(self.ends.type) == loop.lb.type, "numbers of the counter's type")


VALUE_OPS = (
    ProgramId, NumPrograms, Arange, Splat, Broadcast, Repeat, ExpandDims, Reshape, Trans,
    ExtractSlice, Join, Split, Cat, RowEnds,
)  # fmt: skip
