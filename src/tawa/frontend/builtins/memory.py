"""Meanings of the builtins that read and write memory."""

from __future__ import annotations

from collections.abc import Sequence

from tawa import language as tl
from tawa.base.types import COPIED_BYTES
from tawa.frontend.builtins.shapes import shape_argument, tensor_argument
from tawa.frontend.source.errors import BadArgument, NotSupported, TileShapeMismatch, TypeMismatch
from tawa.frontend.source.registry import lowers
from tawa.frontend.syntax.calls import FunctionCompiler
from tawa.frontend.values import arithmetic, conversion
from tawa.frontend.values.advice import operand_hint
from tawa.frontend.values.arithmetic import constant_int
from tawa.frontend.values.conversion import fail
from tawa.frontend.values.values import BlockPointer, Descriptor, Tensor, Value, describe, items_of
from tawa.language.dtypes import dtype, int1, int8, int32, int64, pointer_type
from tawa.tile.dialect import ops


def _hint(f: FunctionCompiler, value: Value, names: Sequence[str], what: str) -> str | None:
    if not value:
        return None
    name = str(value).lstrip(".")
    if name not in names:
        raise fail(f.b, BadArgument, f"`{what}` is one of {', '.join(names)}", found=repr(value))
    return name


def pointer_argument(f: FunctionCompiler, value: Value, name: str) -> Tensor:
    """A pointer or a tensor of pointers."""
    if isinstance(value, Tensor) and value.is_pointer:
        return value
    hint = operand_hint(value) or "pass the array itself as an argument, and add offsets to it"
    if isinstance(value, Descriptor):
        hint = f"use `desc.{'store' if 'store' in name else 'load'}(offsets)`"
    raise fail(
        f.b,
        TypeMismatch,
        f"`{name}` needs a pointer",
        expected="a pointer or pointers",
        found=describe(value),
        hint=hint,
    )


def writable(f: FunctionCompiler, pointer: Tensor, name: str) -> None:
    """Raise TypeMismatch for a pointer that its parameter's annotation says is only read."""
    if isinstance(pointer.dtype, pointer_type) and pointer.dtype.const:
        raise fail(
            f.b,
            TypeMismatch,
            f"Cannot store to a constant pointer: `{name}` through one that is only read",
            expected="a parameter without `tl.const`",
            found=describe(pointer),
            hint="take the annotation `tl.const` away",
        )


def _element(pointer: Tensor) -> dtype | pointer_type:
    assert isinstance(pointer.dtype, pointer_type)
    return pointer.dtype.element_ty


def _mask(f: FunctionCompiler, mask: Value, pointer: Tensor, name: str) -> Tensor | None:
    """The mask as int1; a mask of more dimensions than the pointer is an error."""
    if mask is None or mask is True:
        return None
    test = tensor_argument(f, mask, name)
    if test.shape and not pointer.shape:
        raise fail(
            f.b,
            TileShapeMismatch,
            f"`{name}` of a scalar pointer with a mask of a shape",
            found=f"a mask {test.describe()}",
        )
    if not test.dtype.is_int1():
        raise fail(
            f.b,
            TypeMismatch,
            f"the mask of `{name}` must be of bools",
            expected="int1",
            found=test.describe(),
            hint="compare first, as in `mask != 0`",
        )
    return test


@lowers(tl.load)
def load(
    f: FunctionCompiler,
    pointer: Value,
    mask: Value,
    other: Value,
    boundary_check: Value,
    padding_option: Value,
    cache_modifier: Value,
    eviction_policy: Value,
    volatile: Value,
) -> Tensor:
    """`tl.load`."""
    if isinstance(pointer, BlockPointer):
        if mask is not None or other is not None:
            raise fail(f.b, BadArgument, "block pointers take `boundary_check`, not a mask")
        pointer, mask, other = _block_access(f, pointer, boundary_check, padding_option)
    address = pointer_argument(f, pointer, "tl.load")
    test = _mask(f, mask, address, "tl.load")
    if other is not None and test is None and mask is None:
        message, hint = "`other` without a mask has no meaning", "give a mask, or leave `other` out"
        raise fail(f.b, BadArgument, message, hint=hint)
    element = _element(address)
    fallback = None
    if other is not None and test is not None:
        fallback = conversion.cast(f.b, tensor_argument(f, other, "tl.load"), element)
        fallback = conversion.cast(f.b, fallback, int8) if element == int1 else fallback
    operands = [v for v in (address, test, fallback) if v is not None]
    shape = conversion.common_shape(f.b, *operands)
    ready = [conversion.broadcast_to(f.b, v, shape).ssa for v in operands]
    op = ops.Load(
        *ready,
        cache=_hint(f, cache_modifier, ops.LOAD_MODIFIERS, "cache_modifier"),
        eviction=_hint(f, eviction_policy, ops.EVICTION_POLICIES, "eviction_policy"),
        volatile=bool(volatile),
    )
    loaded = Tensor(f.b.add(op).result, int8 if element == int1 else element, shape)
    return conversion.cast(f.b, loaded, element)


@lowers(tl.store)
def store(
    f: FunctionCompiler,
    pointer: Value,
    value: Value,
    mask: Value,
    boundary_check: Value,
    cache_modifier: Value,
    eviction_policy: Value,
) -> None:
    """`tl.store`."""
    if isinstance(pointer, BlockPointer):
        if mask is not None:
            raise fail(f.b, BadArgument, "block pointers take `boundary_check`, not a mask")
        pointer, mask, _ = _block_access(f, pointer, boundary_check, "")
    address = pointer_argument(f, pointer, "tl.store")
    test = _mask(f, mask, address, "tl.store")
    stored = _stored_value(f, address, value, "tl.store")
    operands = [v for v in (address, stored, test) if v is not None]
    shape = conversion.common_shape(f.b, *operands)
    ready = [conversion.broadcast_to(f.b, v, shape).ssa for v in operands]
    f.b.add(
        ops.Store(
            *ready,
            cache=_hint(f, cache_modifier, ops.STORE_MODIFIERS, "cache_modifier"),
            eviction=_hint(f, eviction_policy, ops.EVICTION_POLICIES, "eviction_policy"),
        )
    )


def _stored_value(f: FunctionCompiler, address: Tensor, value: Value, name: str) -> Tensor:
    """A value converted to what the pointer points at; bools are stored as bytes."""
    writable(f, address, name)
    element = _element(address)
    stored = conversion.cast(f.b, tensor_argument(f, value, name), element)
    if stored.shape and not address.shape:
        raise fail(
            f.b,
            TileShapeMismatch,
            f"`{name}` of a value with a shape to a scalar pointer",
            expected="a tensor of pointers",
            found=f"a value {stored.describe()}",
            hint="add offsets to the pointer, as in `ptr + tl.arange(0, N)`",
        )
    return conversion.cast(f.b, stored, int8) if element == int1 else stored


# --- block pointers -----------------------------------------------------------------------------


def _scalars(f: FunctionCompiler, items: Value, what: str, target: dtype) -> tuple[Tensor, ...]:
    return tuple(
        conversion.cast(f.b, arithmetic.integer_operand(f.b, v, what), target)
        for v in items_of(items)
    )


@lowers(tl.make_block_ptr)
def make_block_ptr(
    f: FunctionCompiler,
    base: Value,
    shape: Value,
    strides: Value,
    offsets: Value,
    block_shape: Value,
    order: Value,
) -> BlockPointer:
    """`tl.make_block_ptr`; `order` is a hint that is not needed."""
    del order
    pointer = pointer_argument(f, base, "tl.make_block_ptr")
    block = shape_argument(f, block_shape, "`block_shape`")
    sizes = _scalars(f, shape, "a size", int64)
    steps = _scalars(f, strides, "a stride", int64)
    starts = _scalars(f, offsets, "an offset", int32)
    if pointer.shape or not len(sizes) == len(steps) == len(starts) == len(block):
        raise fail(
            f.b,
            TileShapeMismatch,
            "a block pointer has one base and as many sizes, strides and "
            "offsets as its block has dimensions",
            found=f"{len(sizes)} sizes, {len(steps)} "
            f"strides, {len(starts)} offsets, a block {list(block)}",
        )
    return BlockPointer(pointer, sizes, steps, starts, block)


@lowers(tl.advance)
def advance(f: FunctionCompiler, base: Value, offsets: Value) -> BlockPointer:
    """`tl.advance`."""
    if not isinstance(base, BlockPointer):
        raise fail(f.b, TypeMismatch, "`tl.advance` moves block pointers", found=describe(base))
    moves = _scalars(f, offsets, "an offset", int32)
    if len(moves) != len(base.offsets):
        raise fail(
            f.b, TileShapeMismatch, f"{len(base.offsets)} offsets are needed", found=str(len(moves))
        )
    moved = tuple(arithmetic.add(f.b, o, m) for o, m in zip(base.offsets, moves, strict=True))
    return BlockPointer(base.base, base.sizes, base.steps, moved, base.block_shape)


def _block_access(
    f: FunctionCompiler, block: BlockPointer, checked: Value, padding: Value
) -> tuple[Tensor, Tensor | None, Value]:
    """Pointers, mask and filling of an access through a block pointer."""
    rank = len(block.block_shape)
    axes = {constant_int(f.b, axis, "`boundary_check`") % rank for axis in items_of(checked)}
    pointer, mask = block.base, None
    for axis, length in enumerate(block.block_shape):
        lane = Tensor(f.b.add(ops.Arange(0, length)).result, int32, (length,))
        index = arithmetic.add(f.b, conversion.cast(f.b, block.offsets[axis], int64), lane)
        for position in range(rank):
            if position != axis:
                index = conversion.expand_dims(f.b, index, position)
        pointer = arithmetic.add(f.b, pointer, arithmetic.multiply(f.b, index, block.steps[axis]))
        if axis in axes:
            inside = arithmetic.bitwise(
                f.b,
                "&",
                arithmetic.compare(f.b, ">=", index, 0),
                arithmetic.compare(f.b, "<", index, block.sizes[axis]),
            )
            mask = inside if mask is None else arithmetic.bitwise(f.b, "&", mask, inside)
    fillings = {"": None, "zero": 0, "nan": float("nan")}
    if padding not in fillings:
        raise fail(f.b, BadArgument, "`padding_option` is '', 'zero' or 'nan'", found=repr(padding))
    return pointer, mask, fillings[padding] if mask is not None else None


# --- descriptors --------------------------------------------------------------------------------


@lowers(tl.make_tensor_descriptor)
def make_tensor_descriptor(
    f: FunctionCompiler,
    base: Value,
    shape: Value,
    strides: Value,
    block_shape: Value,
    padding_option: Value,
) -> Descriptor:
    """`tl.make_tensor_descriptor`."""
    pointer = pointer_argument(f, base, "tl.make_tensor_descriptor")
    element = _element(pointer)
    block = shape_argument(f, block_shape, "`block_shape`")
    given, steps_given = items_of(shape), items_of(strides)
    if not len(given) == len(steps_given) == len(block) or not 1 <= len(block) <= 5:
        raise fail(
            f.b,
            TileShapeMismatch,
            "a descriptor has 1 to 5 dimensions, as many sizes and strides",
            found=f"{len(given)} sizes, {len(steps_given)} strides, block {list(block)}",
        )
    if isinstance(steps_given[-1], int) and steps_given[-1] != 1:
        raise fail(
            f.b, BadArgument, "the last stride of a descriptor is 1", found=str(steps_given[-1])
        )
    if not isinstance(element, dtype) or pointer.shape:
        raise fail(
            f.b,
            TypeMismatch,
            "a descriptor needs a scalar pointer to numbers",
            found=pointer.describe(),
        )
    if block[-1] * element.itemsize < COPIED_BYTES:
        raise fail(
            f.b,
            BadArgument,
            f"Descriptor block shape must have at least {COPIED_BYTES} bytes in its last dimension",
            found=f"{list(block)}, with rows of {block[-1] * element.itemsize} bytes",
            hint="take longer rows, or load through pointers",
        )
    sizes = _scalars(f, given, "a size", int32)
    steps = _scalars(f, (*steps_given[:-1], 1), "a stride", int64)
    op = ops.MakeDesc(
        pointer.ssa,
        [v.ssa for v in sizes],
        [v.ssa for v in steps],
        block,
        _padding(f, padding_option),
    )
    return Descriptor(f.b.add(op).result, element, block, sizes, steps)


def _padding(f: FunctionCompiler, option: Value) -> str | None:
    if option not in ("zero", "nan", "", None):
        raise fail(f.b, BadArgument, "`padding_option` is 'zero' or 'nan'", found=repr(option))
    return "nan" if option == "nan" else None


def _coordinates(
    f: FunctionCompiler, desc: Value, offsets: Value
) -> tuple[Descriptor, list[Tensor]]:
    if not isinstance(desc, Descriptor):
        raise fail(f.b, TypeMismatch, "a tensor descriptor is needed here", found=describe(desc))
    items = items_of(offsets)
    if len(items) != len(desc.block_shape):
        raise fail(
            f.b,
            TileShapeMismatch,
            f"a {desc.describe()} takes {len(desc.block_shape)} offsets",
            found=f"{len(items)} offsets",
        )
    return desc, list(_scalars(f, items, "an offset", int32))


@lowers(tl.load_tensor_descriptor)
def load_tensor_descriptor(
    f: FunctionCompiler, desc: Value, offsets: Value, eviction_policy: Value
) -> Tensor:
    """`desc.load`."""
    source, where = _coordinates(f, desc, offsets)
    eviction = _hint(f, eviction_policy, ops.EVICTION_POLICIES, "eviction_policy")
    op = f.b.add(ops.DescLoad(source.ssa, [v.ssa for v in where], eviction))
    return Tensor(op.result, source.dtype, source.block_shape)


@lowers(tl.store_tensor_descriptor)
def store_tensor_descriptor(f: FunctionCompiler, desc: Value, offsets: Value, value: Value) -> None:
    """`desc.store`."""
    target, where = _coordinates(f, desc, offsets)
    stored = _block_for(f, target, value, "store")
    f.b.add(ops.DescStore(target.ssa, [v.ssa for v in where], stored.ssa))


def _block_for(f: FunctionCompiler, target: Descriptor, value: Value, name: str) -> Tensor:
    """A value as a block of a descriptor. Raises TileShapeMismatch."""
    stored = conversion.cast(f.b, tensor_argument(f, value, f"desc.{name}"), target.dtype)
    if stored.shape != target.block_shape:
        raise fail(
            f.b,
            TileShapeMismatch,
            f"`{name}` of a {stored.describe()}",
            expected=f"a block {list(target.block_shape)}",
            found=f"{list(stored.shape)}",
        )
    return stored


# --- atomics ------------------------------------------------------------------------------------


def _order(f: FunctionCompiler, sem: Value, scope: Value) -> dict[str, str]:
    order = "acq_rel" if sem is None else str(sem)
    reach = "gpu" if scope is None else str(scope)
    reach = "sys" if reach == "sys" else reach
    if order not in ops.MEMORY_ORDERS or reach not in ops.SCOPES:
        raise fail(
            f.b,
            BadArgument,
            f"`sem` is one of {', '.join(ops.MEMORY_ORDERS)}, "
            f"`scope` one of {', '.join(ops.SCOPES)}",
            found=f"{sem!r}, {scope!r}",
        )
    return {"order": order, "scope": reach}


def _atomic_kind(
    f: FunctionCompiler, what: str, element: dtype | pointer_type, *, of_block: bool = False
) -> str:
    """The kind of a combination; of floats, blocks have extremes of 16 bits alone."""
    if not isinstance(element, dtype) or element.primitive_bitwidth < 16:
        raise fail(
            f.b,
            TypeMismatch,
            f"`tl.atomic_{what}` of {element}",
            expected="16-bit floats (add only), or 32 or 64 bits",
        )
    small = element.primitive_bitwidth == 16
    combined = ("add", "max", "min") if of_block else ("add",)
    if small and (what not in combined or not element.is_floating()):
        raise fail(
            f.b,
            TypeMismatch,
            f"`tl.atomic_{what}` of {element}",
            expected="32 or 64 bits; 16-bit floats can only be added",
        )
    if of_block and element.is_floating() and what in ("max", "min") and not small:
        raise fail(
            f.b,
            TypeMismatch,
            f"`desc.atomic_{what}` of {element}",
            expected="an integer or a float of 16 bits",
            hint=f"use `tl.atomic_{what}` through pointers",
        )
    if what == "xchg":
        return "xchg"
    if what in ("and", "or", "xor"):
        if element.is_floating():
            raise fail(f.b, TypeMismatch, f"`tl.atomic_{what}` of {element}", expected="an integer")
        return f"{what}i"
    if element.is_floating():
        return f"{what}f"
    if what == "add":
        return "addi"
    return f"{what}{'s' if element.is_int_signed() else 'u'}i"


def _atomic(
    f: FunctionCompiler,
    what: str,
    pointer: Value,
    val: Value,
    mask: Value,
    sem: Value,
    scope: Value,
) -> Tensor:
    name = f"tl.atomic_{what}"
    address = pointer_argument(f, pointer, name)
    element = _element(address)
    kind = _atomic_kind(f, what, element)
    test = _mask(f, mask, address, name)
    operands = [address, _stored_value(f, address, val, name)]
    if test is not None:
        operands.append(test)
    shape = conversion.common_shape(f.b, *operands)
    ready = [conversion.broadcast_to(f.b, v, shape).ssa for v in operands]
    op = f.b.add(ops.AtomicRmw(kind, *ready, **_order(f, sem, scope)))
    return Tensor(op.result, element, shape)


def _combine_block(
    f: FunctionCompiler, what: str, desc: Value, offsets: Value, value: Value
) -> None:
    """`desc.atomic_add` and its like."""
    target, where = _coordinates(f, desc, offsets)
    kind = _atomic_kind(f, what, target.dtype, of_block=True)
    stored = _block_for(f, target, value, f"atomic_{what}")
    f.b.add(ops.DescStore(target.ssa, [v.ssa for v in where], stored.ssa, kind))


def _register_atomics() -> None:
    for what in ("add", "max", "min", "and", "or", "xor", "xchg"):

        def lowering(f: FunctionCompiler, what: str = what, **arguments: Value) -> Tensor:
            return _atomic(f, what, **arguments)

        lowers(getattr(tl, f"atomic_{what}"))(lowering)
        if what != "xchg":

            def combining(f: FunctionCompiler, what: str = what, **arguments: Value) -> None:
                _combine_block(f, what, **arguments)

            lowers(getattr(tl.core, f"descriptor_atomic_{what}"))(combining)


_register_atomics()


@lowers(tl.atomic_cas)
def atomic_cas(
    f: FunctionCompiler, pointer: Value, cmp: Value, val: Value, sem: Value, scope: Value
) -> Tensor:
    """`tl.atomic_cas`."""
    address = pointer_argument(f, pointer, "tl.atomic_cas")
    element = _element(address)
    if element.primitive_bitwidth not in (16, 32, 64):
        raise fail(f.b, NotSupported, f"`tl.atomic_cas` of {element}", expected="16, 32 or 64 bits")
    operands = [address, *(_stored_value(f, address, v, "tl.atomic_cas") for v in (cmp, val))]
    shape = conversion.common_shape(f.b, *operands)
    ready = [conversion.broadcast_to(f.b, v, shape).ssa for v in operands]
    op = f.b.add(ops.AtomicCas(*ready, **_order(f, sem, scope)))
    return Tensor(op.result, element, shape)
