"""What a single tile op simplifies to: constants, operands, or cheaper ops.

`fold(op)` gives the values to use in place of the op's results (new ops are inserted before it),
or None. Every rule holds for all values of the operands, NaN and signed zeros included (but for
the sign of a zero that nothing shows).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from tawa.base.numerics import Array, constant_attribute, round_to, value_dtype
from tawa.base.spans import LOC
from tawa.base.types import PtrType, element_of, shape_of
from tawa.ir.elementwise import Map
from tawa.tile.analysis.zero_signs import sign_of_zero_shows
from tawa.tile.dialect import ops

MULTIPLES = {"muli": 1, "mulf": 1.0, "divsi": 1, "divui": 1, "divf": 1.0, "divf_rn": 1.0}
"""Functions of which the right operand of this value gives back the left one."""

NEUTRAL = {
    **MULTIPLES, "addi": 0, "subi": 0, "subf": 0.0, "ori": 0, "xori": 0, "shli": 0, "shrsi": 0,
    "shrui": 0, "addptr": 0,
}  # fmt: skip
"""Functions and the right operand that changes nothing. `addf` is apart: -0.0 + 0.0 is 0.0."""

ABSORBING = {"muli": 0, "andi": 0}
"""Functions and the operand that is the result."""


WHOLE_POWERS = 4
"""Exponents up to which a power is products: each at least as exact as the function."""

REMAINDERS = ("remsi", "remui")
"""Functions that are 0 where the right operand is 1."""


def insert_before(op: Operation, new: Operation) -> Operation:
    """Insert `new` before `op`, with its span."""
    if LOC in op.attributes:
        new.attributes[LOC] = op.attributes[LOC]
    block = op.parent
    assert block is not None
    block.insert_op_before(new, op)
    return new


def constant_of(value: SSAValue) -> Array | None:
    """The value of a scalar constant, or of the scalar that a splat repeats."""
    owner = value.owner
    if isinstance(owner, ops.Splat):
        return constant_of(owner.value)
    if not isinstance(owner, ConstantOp):
        return None
    attribute = owner.value
    if isinstance(attribute, IntegerAttr):
        return np.asarray(attribute.value.data).astype(value_dtype(element_of(value.type)))
    if isinstance(attribute, FloatAttr):
        return round_to(np.asarray(attribute.value.data), value.type)
    return None


def make_constant(op: Operation, value: Array, type_: Attribute) -> SSAValue:
    """A constant of a scalar or tensor type, inserted before `op`."""
    element = element_of(type_)
    constant = insert_before(op, ConstantOp(constant_attribute(value, element)))
    return spread(op, constant.results[0], shape_of(type_))


def spread(op: Operation, scalar: SSAValue, shape: tuple[int, ...]) -> SSAValue:
    """A scalar repeated over a shape, inserted before `op`."""
    if not shape:
        return scalar
    return insert_before(op, ops.Splat(scalar, shape)).results[0]


# --- ew.map -------------------------------------------------------------------------------------


def _fold_map(op: Operation) -> SSAValue | None:
    assert isinstance(op, Map)
    constants = [constant_of(v) for v in op.arguments]
    foldable = not isinstance(element_of(op.result.type), PtrType)
    if foldable and all(c is not None for c in constants):
        return make_constant(op, op.evaluate(*(c for c in constants if c is not None)),
                             op.result.type)  # fmt: skip
    return _identity(op, constants) or _map_of_splats(op)


def _is(constant: Array | None, number: float) -> bool:
    return constant is not None and bool(constant == number)


def _identity(op: Map, constants: list[Array | None]) -> SSAValue | None:
    name = op.function.data
    if name == "select":
        return _fold_select(op, constants[0])
    if name == "andi":
        every = 1 if element_of(op.result.type) == IntegerType(1) else -1
        for index in (0, 1):
            if _is(constants[index], every):
                return op.arguments[1 - index]
    if name == "pow":
        return _power(op, constants[1])
    if len(constants) == 2:
        return _neutral(op, name, constants)
    return None


def _power(op: Map, exponent: Array | None) -> SSAValue | None:
    """`x` to the power of a small whole number: products, of squares where there are any."""
    if exponent is None or exponent not in range(1, WHOLE_POWERS + 1):
        return None
    x = op.arguments[0]
    if exponent == 1:
        return x
    square = insert_before(op, Map("mulf", [x, x])).results[0]
    if exponent == 2:
        return square
    other = square if exponent == 4 else x
    return insert_before(op, Map("mulf", [square, other])).results[0]


def _neutral(op: Map, name: str, constants: list[Array | None]) -> SSAValue | None:
    left, right = op.arguments
    if name in NEUTRAL and _is(constants[1], NEUTRAL[name]):
        return left
    if name in REMAINDERS and _is(constants[1], 1):
        return make_constant(op, np.asarray(0), op.result.type)
    commutes = op.scalar_function.commutative
    if commutes and name in NEUTRAL and _is(constants[0], NEUTRAL[name]):
        return right
    if name == "addf":
        return _plus_zero(op, constants)
    for index, value in enumerate((left, right)):
        if name in ABSORBING and _is(constants[index], ABSORBING[name]):
            return value
    return None


def _plus_zero(op: Map, constants: list[Array | None]) -> SSAValue | None:
    """What zero is added to: always if it is negative, else where no zero's sign shows."""
    for index, constant in enumerate(constants):
        if constant is None or not _is(constant, 0.0):
            continue
        if bool(np.signbit(constant)) or not sign_of_zero_shows(op.result):
            return op.arguments[1 - index]
    return None


def _fold_select(op: Map, condition: Array | None) -> SSAValue | None:
    if condition is not None:
        return op.arguments[1] if condition else op.arguments[2]
    return op.arguments[1] if op.arguments[1] is op.arguments[2] else None


def _map_of_splats(op: Map) -> SSAValue | None:
    """A function of repeated scalars is computed once, on the scalars."""
    splats = [v.owner for v in op.arguments]
    scalars = [s.value for s in splats if isinstance(s, ops.Splat)]
    if not scalars or len(scalars) != len(splats):
        return None
    element = element_of(op.result.type)
    scalar = insert_before(op, Map(op.function.data, scalars, element))
    return spread(op, scalar.results[0], shape_of(op.result.type))


# --- shapes -------------------------------------------------------------------------------------


def _fold_shape(op: Operation) -> SSAValue | None:
    """A shape change of a splat is a splat; one that changes nothing is its operand."""
    source, result = op.operands[0], op.results[0]
    if source.type == result.type and not isinstance(op, ops.Trans):
        return source
    if isinstance(source.owner, ops.Splat):
        return spread(op, source.owner.value, shape_of(result.type))
    return None


def _fold_reshape(op: Operation) -> SSAValue | None:
    inner = op.operands[0].owner
    if isinstance(inner, ops.Reshape):
        return insert_before(op, ops.Reshape(inner.value, shape_of(op.results[0].type))).results[0]
    return _fold_shape(op)


def _fold_broadcast(op: Operation) -> SSAValue | None:
    inner = op.operands[0].owner
    if isinstance(inner, ops.Broadcast):
        return insert_before(op, ops.Broadcast(inner.value, shape_of(op.results[0].type))).results[
            0
        ]
    return _fold_shape(op)


def _fold_trans(op: Operation) -> SSAValue | None:
    assert isinstance(op, ops.Trans)
    order = op.permutation
    if order == tuple(range(len(order))):
        return op.value
    inner = op.value.owner
    if isinstance(inner, ops.Trans):
        composed = [inner.permutation[i] for i in order]
        return insert_before(op, ops.Trans(inner.value, composed)).results[0]
    return _fold_shape(op)


def _fold_mask(op: Operation) -> SSAValue | None:
    """A mask that always holds is dropped."""
    mask = getattr(op, "mask", None)
    if mask is None or not _is(constant_of(mask), 1):
        return None
    if isinstance(op, ops.Load):
        cache, eviction = (a.data if a else None for a in (op.cache, op.eviction))
        volatile = op.volatile is not None
        plain = ops.Load(op.ptr, cache=cache, eviction=eviction, volatile=volatile, box=op.box)
        return insert_before(op, plain).results[0]
    return None


RULES: dict[type[Operation], Callable[[Operation], SSAValue | None]] = {
    Map: _fold_map,
    ops.Broadcast: _fold_broadcast,
    ops.ExpandDims: _fold_shape,
    ops.Reshape: _fold_reshape,
    ops.Trans: _fold_trans,
    ops.Load: _fold_mask,
}


def fold(op: Operation) -> SSAValue | None:
    """The value to use in place of the op's only result, or None."""
    rule = RULES.get(type(op))
    return rule(op) if rule is not None else None
