"""Accesses that the copy engine can not make become pointers': blocks are addressed one by one.

A descriptor whose base, shape or strides depend on the program or on loaded data has no tensor map
before the launch. Its block at some coordinates is a tile of pointers under a mask, which means the
same; such tiles are copied asynchronously, or by the copy engine, as those of pointers are. So are
blocks that are combined into memory otherwise than by adding, and those of arguments of which a
launch found that their rows begin or end inside a piece of 16 bytes, which the engine copies whole
(`through_pointers`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import ModuleOp, i32, i64
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tawa.base.numerics import constant_attribute
from tawa.base.options import Options
from tawa.base.spans import copy_span
from tawa.base.types import DescType, element_of, is_float
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map
from tawa.ir.kernels import argument_names
from tawa.ir.properties import ONE_PROGRAM, TIDY
from tawa.ir.walking import all_of
from tawa.tile.analysis.host_expressions import host_base, host_expression
from tawa.tile.dialect.ops import (
    Arange,
    AtomicRmw,
    Broadcast,
    DescBase,
    DescLoad,
    DescSize,
    DescStore,
    ExpandDims,
    Load,
    MakeDesc,
    Splat,
    Store,
)


@dataclass(frozen=True)
class DescriptorPointers:
    """Turn accesses of descriptors that the engine can not make into pointers', and atomics."""

    options: Options
    name: ClassVar[str] = "descriptor-pointers"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Rewrite the module's kernel."""
        for op in all_of(module, MakeDesc):
            self._made(op)
        for kernel in module.ops:
            if isinstance(kernel, func.FuncOp):
                for name, argument in zip(argument_names(kernel), kernel.args, strict=True):
                    if isinstance(argument.type, DescType):
                        self._given(argument, name)

    def _made(self, op: MakeDesc) -> None:
        """Those that the kernel makes: every access."""
        uses = [use.operation for use in op.result.uses]
        needed = not of_arguments(op) or any(map(_combines, uses)) or self._is_named(op)
        if needed and all(isinstance(use, DescLoad | DescStore | DescSize) for use in uses):
            for use in uses:
                _replace(use, op)
            Rewriter.erase_op(op)

    def _is_named(self, op: MakeDesc) -> bool:
        base = host_base(op.base)
        if base is None or not self.options.through_pointers:
            return False
        kernel = op
        while not isinstance(kernel, func.FuncOp):
            kernel = kernel.parent_op()
            assert kernel is not None
        return argument_names(kernel)[base[0]] in self.options.through_pointers

    def _given(self, desc: BlockArgument, name: str) -> None:
        """Those that the launch passes: what is written, if it has to be."""
        for use in [use.operation for use in desc.uses]:
            named = isinstance(use, DescStore) and name in self.options.through_pointers
            if named or _combines(use):
                made = _parts(desc, use)
                _replace(use, made)
                Rewriter.erase_op(made)


def _parts(desc: BlockArgument, before: Operation) -> MakeDesc:
    """A descriptor that the launch passes, as one that is made of its parts there."""
    assert isinstance(desc.type, DescType) and before.parent is not None
    block = desc.type.block.get_shape()
    base = DescBase(desc)
    sizes = [DescSize(desc, axis) for axis in range(len(block))]
    strides: list[Operation] = [DescSize(desc, axis, stride=True) for axis in range(len(block) - 1)]
    strides.append(ConstantOp(constant_attribute(np.asarray(1), i64)))
    made = MakeDesc(
        base.result, [op.result for op in sizes], [op.results[0] for op in strides], block
    )
    new = [base, *sizes, *strides, made]
    copy_span(before, new)
    before.parent.insert_ops_before(new, before)
    return made


def of_arguments(op: MakeDesc) -> bool:
    """Whether the host can make a descriptor, from the kernel's arguments alone."""
    parts = [host_expression(v) for v in (*op.shape, *op.strides)]
    return host_base(op.base) is not None and None not in parts


def _combines(op: Operation) -> bool:
    """Whether a store combines its block into memory in a way that the engine does not."""
    if not isinstance(op, DescStore) or op.reduce is None:
        return False
    return (op.reduce.data, str(element_of(op.block))) not in ADDED


ADDED = {("addf", "f32"), ("addf", "f16"), ("addf", "bf16"), ("addi", "i32")}
"""Kinds of atomics, and elements, that the copy engine combines on its way to memory."""


def _replace(op: Operation, made: MakeDesc) -> None:
    if isinstance(op, DescSize):
        own = made.shape if op.stride is None else made.strides
        op.result.replace_all_uses_with(own[op.axis.value.data])
        Rewriter.erase_op(op)
        return
    assert isinstance(op, DescLoad | DescStore)
    tile = _Tile(op, made)
    pointers, mask = tile.pointers(), tile.mask()
    if isinstance(op, DescLoad):
        eviction = op.eviction.data if op.eviction else None
        load = Load(pointers, mask, tile.padding(), eviction=eviction)
        tile.add(load)
        load.result.name_hint = op.result.name_hint
        op.result.replace_all_uses_with(load.result)
    elif op.reduce is not None:
        tile.add(AtomicRmw(op.reduce.data, pointers, op.value, mask, order="relaxed"))
    else:
        tile.add(Store(pointers, op.value, mask))
    Rewriter.erase_op(op)


class _Tile:
    """The elements of an access, computed right before it."""

    def __init__(self, op: DescLoad | DescStore, made: MakeDesc) -> None:
        self.op = op
        self.made = made
        self.shape = tuple(made.result.type.block.get_shape())
        self.along = [self._positions(axis) for axis in range(len(self.shape))]

    def add(self, op: Operation) -> SSAValue:
        """Put an op before the access; gives its result."""
        copy_span(self.op, [op])
        assert self.op.parent is not None
        self.op.parent.insert_op_before(op, self.op)
        return op.results[0] if op.results else self.made.base

    def _map(self, function: str, *operands: SSAValue) -> SSAValue:
        return self.add(Map(function, operands))

    def _row(self, axis: int) -> tuple[int, ...]:
        return tuple(n if a == axis else 1 for a, n in enumerate(self.shape))

    def _positions(self, axis: int) -> SSAValue:
        """The indices of an axis (i32), along it."""
        lane = self.add(Arange(0, self.shape[axis]))
        for other in range(len(self.shape)):
            if other != axis:
                lane = self.add(ExpandDims(lane, other))
        start = self.add(Splat(self.op.coordinates[axis], self._row(axis)))
        return self._map("addi", start, lane)

    def _whole(self, value: SSAValue, axis: int) -> SSAValue:
        return value if self._row(axis) == self.shape else self.add(Broadcast(value, self.shape))

    def pointers(self) -> SSAValue:
        """The addresses of all elements."""
        total = self.add(Splat(self.made.base, self.shape))
        for axis, index in enumerate(self.along):
            step = self.add(Splat(self.made.strides[axis], self._row(axis)))
            wide = self.add(Map("extsi", [index], i64))
            offset = self._map("muli", wide, step)
            total = self._map("addptr", total, self._whole(offset, axis))
        return total

    def mask(self) -> SSAValue:
        """Which elements lie inside the tensor."""
        inside: SSAValue | None = None
        zero = self.add(ConstantOp(constant_attribute(np.asarray(0), i32)))
        for axis, index in enumerate(self.along):
            row = self._row(axis)
            size = self.add(Splat(self.made.shape[axis], row))
            above = self._map("cmpi_sge", index, self.add(Splat(zero, row)))
            own = self._whole(
                self._map("andi", above, self._map("cmpi_slt", index, size)), axis
            )  # fmt: skip
            inside = own if inside is None else self._map("andi", inside, own)
        assert inside is not None
        return inside

    def padding(self) -> SSAValue:
        """What elements outside of the tensor give."""
        element = self.made.result.type.block.element_type
        name = self.made.padding.data if self.made.padding else "zero"
        number = float("nan") if name == "nan" and is_float(element) else 0
        constant = self.add(ConstantOp(constant_attribute(np.asarray(number), element)))
        return self.add(Splat(constant, self.shape))
