"""The tile level's ops that touch memory or the outside: loads, stores, atomics, descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl import base as of_class
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tawa.base.types import DescType, PtrType, element_of, i1, i32, i64
from tawa.ir.boxes import Box, operands_of
from tawa.ir.effects import GLOBAL, MEETING, ORDER, OUTPUT, Effects, reads, writes
from tawa.ir.elementwise import with_element
from tawa.tile.dialect.value_ops import TileOp, require

LOAD_MODIFIERS = ("ca", "cg", "cs", "cv", "lu")
STORE_MODIFIERS = ("wb", "cg", "cs", "wt")
EVICTION_POLICIES = ("evict_first", "evict_last", "evict_normal")
ATOMIC_KINDS = ("addi", "addf", "maxsi", "minsi", "maxui", "minui", "maxf", "minf",
                "andi", "ori", "xori", "xchg")  # fmt: skip
MEMORY_ORDERS = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("cta", "gpu", "sys")

AnyOperand = SSAValue | Operation


def pointee(type_: Attribute) -> Attribute:
    """What a pointer or tensor of pointers points at, in the same shape."""
    element = element_of(type_)
    if not isinstance(element, PtrType):
        raise VerifyException(f"a pointer or a tensor of pointers expected, found {type_}")
    return with_element(type_, element.pointee)


def _check_mask(pointer: Attribute, mask: SSAValue | None) -> None:
    if mask is not None:
        expected = with_element(pointer, i1)
        require(mask.type == expected, f"a mask {expected} expected, found {mask.type}")


def _orders(op: AtomicRmw | AtomicCas) -> bool:
    """Whether others see accesses before or after an atomic operation in that order."""
    return op.order.data != "relaxed"


def _acquires(op: AtomicRmw | AtomicCas) -> bool:
    """Whether it acquires: who does not look at the old value does not know from whom."""
    return op.order.data in ("acquire", "acq_rel") and op.result.first_use is not None


def _check_name(value: StringAttr | None, names: Sequence[str], what: str) -> None:
    require(value is None or value.data in names, f"{what} is one of {', '.join(names)}")


def _name(value: str | None) -> StringAttr | None:
    return StringAttr(value) if value else None


@irdl_op_definition
class Load(TileOp):
    """Read the addressed elements; masked-off addresses are not touched and give `other` (or 0).

    A volatile load reads memory each time it is done, once for the whole program, and acquires.
    Where `holds`, the block of `desc` at the coordinates is the same tile, or its transpose if its
    neighbours in memory are those in a column.
    """

    name = "tile.load"
    ptr = operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    cache = opt_prop_def(StringAttr)
    eviction = opt_prop_def(StringAttr)
    volatile = opt_prop_def(UnitAttr)
    desc = opt_operand_def(of_class(DescType))
    coordinates = var_operand_def(i32)
    holds = opt_operand_def(i1)
    result = result_def()
    traits = traits_def(
        Effects(
            reads(GLOBAL, "ptr"),
            reads(GLOBAL, "desc").if_set("desc"),
            reads(ORDER).if_set("volatile"),
            writes(ORDER).if_set("volatile"),
        )
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$ptr (`mask` $mask^)? (`other` $other^)? (`cache` $cache^)? (`eviction` $eviction^)? "
        "(`volatile` $volatile^)? (`box` $desc^ `:` type($desc))? (`at` $coordinates^)? "
        "(`where` $holds^)? attr-dict "
        "`:` type($ptr) (`,` type($mask)^)? (`,` type($other)^)? `->` type($result)"
    )

    def __init__(
        self,
        ptr: AnyOperand,
        mask: AnyOperand | None = None,
        other: AnyOperand | None = None,
        *,
        cache: str | None = None,
        eviction: str | None = None,
        volatile: bool = False,
        box: Box | None = None,
    ) -> None:
        super().__init__(
            operands=[ptr, mask, other, *operands_of(box)],
            properties={
                "cache": _name(cache),
                "eviction": _name(eviction),
                "volatile": UnitAttr() if volatile else None,
            },
            result_types=[pointee(SSAValue.get(ptr).type)],
        )

    def verify_(self) -> None:
        """Check the mask, `other` and the names of the hints."""
        expected = pointee(self.ptr.type)
        require(self.result.type == expected, f"{expected} expected as result")
        _check_mask(self.ptr.type, self.mask)
        require(self.other is None or self.mask is not None, "`other` needs a mask")
        require(
            self.other is None or self.other.type == expected, f"`other` of {expected} expected"
        )
        _check_name(self.cache, LOAD_MODIFIERS, "cache")
        _check_name(self.eviction, EVICTION_POLICIES, "eviction")
        parts = {self.desc is None, not self.coordinates, self.holds is None}
        require(len(parts) == 1, "a box has a descriptor, coordinates and a condition")

    @property
    def box(self) -> Box | None:
        """What the copy engine would copy, if that is known."""
        if self.desc is None:
            return None
        assert self.holds is not None
        return Box(self.desc, self.coordinates, self.holds)


@irdl_op_definition
class Store(TileOp):
    """Write the addressed elements where the mask holds."""

    name = "tile.store"
    ptr = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    cache = opt_prop_def(StringAttr)
    eviction = opt_prop_def(StringAttr)
    traits = traits_def(Effects(writes(GLOBAL, "ptr")))
    assembly_format = (
        "$ptr `,` $value (`mask` $mask^)? (`cache` $cache^)? (`eviction` $eviction^)? attr-dict "
        "`:` type($ptr) `,` type($value) (`,` type($mask)^)?"
    )

    def __init__(
        self,
        ptr: AnyOperand,
        value: AnyOperand,
        mask: AnyOperand | None = None,
        *,
        cache: str | None = None,
        eviction: str | None = None,
    ) -> None:
        super().__init__(
            operands=[ptr, value, mask],
            properties={"cache": _name(cache), "eviction": _name(eviction)},
        )

    def verify_(self) -> None:
        """Check the value, the mask and the names of the hints."""
        expected = pointee(self.ptr.type)
        require(self.value.type == expected, f"a value {expected} expected")
        _check_mask(self.ptr.type, self.mask)
        _check_name(self.cache, STORE_MODIFIERS, "cache")
        _check_name(self.eviction, EVICTION_POLICIES, "eviction")


@irdl_op_definition
class AtomicRmw(TileOp):
    """Combine `value` into each addressed element atomically; gives the old elements.

    Masked-off elements give 0.
    """

    name = "tile.atomic_rmw"
    kind = prop_def(StringAttr)
    ptr = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    order = prop_def(StringAttr)
    scope = prop_def(StringAttr)
    result = result_def()
    traits = traits_def(
        Effects(
            reads(GLOBAL, "ptr"),
            writes(GLOBAL, "ptr"),
            reads(ORDER).when(_acquires),
            writes(ORDER).when(_orders),
        )
    )
    assembly_format = (
        "$kind $ptr `,` $value (`mask` $mask^)? `order` $order `scope` $scope attr-dict "
        "`:` type($ptr) `,` type($value) (`,` type($mask)^)? `->` type($result)"
    )

    def __init__(
        self,
        kind: str,
        ptr: AnyOperand,
        value: AnyOperand,
        mask: AnyOperand | None = None,
        *,
        order: str = "acq_rel",
        scope: str = "gpu",
    ) -> None:
        super().__init__(
            operands=[ptr, value, mask],
            properties={
                "kind": StringAttr(kind),
                "order": StringAttr(order),
                "scope": StringAttr(scope),
            },
            result_types=[SSAValue.get(value).type],
        )

    def verify_(self) -> None:
        """Check the kind, the value, the mask, the order and the scope."""
        _check_name(self.kind, ATOMIC_KINDS, "kind")
        expected = pointee(self.ptr.type)
        require(self.value.type == self.result.type == expected, f"{expected} expected")
        _check_mask(self.ptr.type, self.mask)
        _check_name(self.order, MEMORY_ORDERS, "order")
        _check_name(self.scope, SCOPES, "scope")


@irdl_op_definition
class AtomicCas(TileOp):
    """Replace each addressed element that equals `compare` by `value`; gives the old elements."""

    name = "tile.atomic_cas"
    T: ClassVar = VarConstraint("T", AnyAttr())
    ptr = operand_def()
    compare = operand_def(T)
    value = operand_def(T)
    order = prop_def(StringAttr)
    scope = prop_def(StringAttr)
    result = result_def(T)
    traits = traits_def(
        Effects(
            reads(GLOBAL, "ptr"),
            writes(GLOBAL, "ptr"),
            reads(ORDER).when(_acquires),
            writes(ORDER).when(_orders),
        )
    )
    assembly_format = (
        "$ptr `,` $compare `,` $value `order` $order `scope` $scope attr-dict "
        "`:` type($ptr) `,` type($value)"
    )

    def __init__(
        self,
        ptr: AnyOperand,
        compare: AnyOperand,
        value: AnyOperand,
        *,
        order: str = "acq_rel",
        scope: str = "gpu",
    ) -> None:
        super().__init__(
            operands=[ptr, compare, value],
            properties={"order": StringAttr(order), "scope": StringAttr(scope)},
            result_types=[SSAValue.get(value).type],
        )

    def verify_(self) -> None:
        """Check the operands' types, the order and the scope."""
        expected = pointee(self.ptr.type)
        types = {self.compare.type, self.value.type, self.result.type}
        require(types == {expected}, f"{expected} expected")
        _check_name(self.order, MEMORY_ORDERS, "order")
        _check_name(self.scope, SCOPES, "scope")


@irdl_op_definition
class MakeDesc(TileOp):
    """Describe a tensor in global memory by base, shape (i32) and strides (i64, in elements).

    The last stride is 1. `padding` is what reads out of range give: zero (default) or nan.
    """

    name = "tile.make_desc"
    base = operand_def(of_class(PtrType))
    shape = var_operand_def(i32)
    strides = var_operand_def(i64)
    padding = opt_prop_def(StringAttr)
    result = result_def(of_class(DescType))
    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$base `shape` ` ` `[` $shape `]` `strides` ` ` `[` $strides `]` (`padding` $padding^)? "
        "attr-dict `:` type($base) `->` type($result)"
    )

    def __init__(
        self,
        base: AnyOperand,
        shape: Sequence[AnyOperand],
        strides: Sequence[AnyOperand],
        block_shape: Sequence[int],
        padding: str | None = None,
    ) -> None:
        pointer = SSAValue.get(base)
        element = pointee(pointer.type)
        super().__init__(
            operands=[pointer, list(shape), list(strides)],
            properties={"padding": _name(padding)},
            result_types=[DescType(TensorType(element, block_shape))],
        )

    def verify_(self) -> None:
        """Check ranks and the element type."""
        block = self.result.type.block
        rank = len(block.get_shape())
        require(len(self.shape) == len(self.strides) == rank, f"{rank} sizes and strides expected")
        require(1 <= rank <= 5, "a descriptor has rank 1 to 5")
        require(pointee(self.base.type) == block.element_type, "element types differ")
        _check_name(self.padding, ("zero", "nan"), "padding")


@irdl_op_definition
class DescSize(TileOp):
    """The size (i32) of a descriptor's tensor along an axis, or its stride (i64, in elements)."""

    name = "tile.desc_size"
    desc = operand_def(of_class(DescType))
    axis = prop_def(IntegerAttr)
    stride = opt_prop_def(UnitAttr)
    result = result_def(IntegerType)
    traits = traits_def(Pure())
    assembly_format = (
        "$desc `[` $axis `]` (`stride` $stride^)? attr-dict `:` type($desc) `->` type($result)"
    )

    def __init__(self, desc: AnyOperand, axis: int, *, stride: bool = False) -> None:
        properties: dict[str, Attribute] = {"axis": IntegerAttr(axis, i64)}
        if stride:
            properties["stride"] = UnitAttr()
        super().__init__(
            operands=[desc], properties=properties, result_types=[i64 if stride else i32]
        )

    def verify_(self) -> None:
        """Check the axis."""
        assert isinstance(self.desc.type, DescType)
        rank = len(self.desc.type.block.get_shape())
        require(0 <= self.axis.value.data < rank, f"a descriptor of {rank} dimensions")


@irdl_op_definition
class DescBase(TileOp):
    """The address of a descriptor's first element, as a pointer to it."""

    name = "tile.desc_base"
    desc = operand_def(of_class(DescType))
    result = result_def(PtrType)
    traits = traits_def(Pure())
    assembly_format = "$desc attr-dict `:` type($desc) `->` type($result)"

    def __init__(self, desc: SSAValue) -> None:
        assert isinstance(desc.type, DescType)
        super().__init__(
            operands=[desc], result_types=[PtrType(desc.type.block.get_element_type())]
        )


class _DescAccess(TileOp):
    """A block of a described tensor, at coordinates that count elements."""

    @property
    def block(self) -> TensorType[Attribute]:
        """The type of one block."""
        kind = self.operands[0].type
        assert isinstance(kind, DescType)
        return kind.block

    def check_coordinates(self) -> None:
        """One coordinate a dimension."""
        rank = len(self.block.get_shape())
        found = sum(v.type == i32 for v in self.operands)
        require(found == rank, f"{rank} coordinates expected, found {found}")


@irdl_op_definition
class DescLoad(_DescAccess):
    """Read a block; elements out of range are 0 (or NaN, as the descriptor says)."""

    name = "tile.desc_load"
    desc = operand_def(of_class(DescType))
    coordinates = var_operand_def(i32)
    eviction = opt_prop_def(StringAttr)
    result = result_def(of_class(TensorType))
    traits = traits_def(Effects(reads(GLOBAL, "desc")))
    assembly_format = (
        "$desc `[` $coordinates `]` (`eviction` $eviction^)? attr-dict "
        "`:` type($desc) `->` type($result)"
    )

    def __init__(
        self, desc: AnyOperand, coordinates: Sequence[AnyOperand], eviction: str | None = None
    ) -> None:
        kind = SSAValue.get(desc).type
        require(isinstance(kind, DescType), f"a descriptor expected, found {kind}")
        assert isinstance(kind, DescType)
        super().__init__(
            operands=[desc, list(coordinates)],
            properties={"eviction": _name(eviction)},
            result_types=[kind.block],
        )

    def verify_(self) -> None:
        """Check coordinates, the hint and the result."""
        self.check_coordinates()
        _check_name(self.eviction, EVICTION_POLICIES, "eviction")
        require(self.result.type == self.block, f"{self.block} expected as result")


@irdl_op_definition
class DescStore(_DescAccess):
    """Write a block; elements out of range are dropped.

    With `reduce` (a kind of atomic) the block is combined into memory instead.
    """

    name = "tile.desc_store"
    desc = operand_def(of_class(DescType))
    coordinates = var_operand_def(i32)
    value = operand_def(of_class(TensorType))
    reduce = opt_prop_def(StringAttr)
    traits = traits_def(Effects(writes(GLOBAL, "desc")))
    assembly_format = (
        "$desc `[` $coordinates `]` `,` $value (`reduce` $reduce^)? attr-dict "
        "`:` type($desc) `,` type($value)"
    )

    def __init__(
        self,
        desc: AnyOperand,
        coordinates: Sequence[AnyOperand],
        value: AnyOperand,
        reduce: str | None = None,
    ) -> None:
        super().__init__(
            operands=[desc, list(coordinates), value], properties={"reduce": _name(reduce)}
        )

    def verify_(self) -> None:
        """Check coordinates, value and kind."""
        self.check_coordinates()
        require(self.value.type == self.block, f"a value {self.block} expected")
        _check_name(self.reduce, ATOMIC_KINDS, "reduce")


@irdl_op_definition
class Barrier(TileOp):
    """All threads of the program wait for each other; orders memory among them."""

    name = "tile.barrier"
    traits = traits_def(Effects(writes(MEETING), writes(ORDER)))
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class Assert(TileOp):
    """Stop the program with `message` unless all elements of the condition hold."""

    name = "tile.assert"
    condition = operand_def()
    message = prop_def(StringAttr)
    traits = traits_def(Effects(writes(OUTPUT)))
    assembly_format = "$condition `,` $message attr-dict `:` type($condition)"

    def __init__(self, condition: AnyOperand, message: str) -> None:
        super().__init__(operands=[condition], properties={"message": StringAttr(message)})

    def verify_(self) -> None:
        """Check that the condition is boolean."""
        require(element_of(self.condition.type) == i1, "a condition of i1 expected")


@irdl_op_definition
class Print(TileOp):
    """Print `prefix` and the operands; for debugging."""

    name = "tile.print"
    prefix = prop_def(StringAttr)
    values = var_operand_def()
    traits = traits_def(Effects(writes(OUTPUT)))
    assembly_format = "$prefix (`,` $values^ `:` type($values))? attr-dict"

    def __init__(self, prefix: str, values: Sequence[AnyOperand]) -> None:
        super().__init__(operands=[list(values)], properties={"prefix": StringAttr(prefix)})


MEMORY_OPS = (
    Load, Store, AtomicRmw, AtomicCas, MakeDesc, DescBase, DescSize, DescLoad, DescStore, Barrier,
    Assert, Print,
)  # fmt: skip
