"""What operators make of contents that depend on sizes: in floats, and along axes of any length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tawa.axon.onnx.context import Context
from tawa.axon.onnx.progressions import Block, Progression, stretched
from tawa.axon.onnx.provided import EXACT_UP_TO, Number, out_of, shared_kind
from tawa.axon.onnx.quotients import in_floats, is_quotient, made, quotient_of, to_integer
from tawa.axon.onnx.values import MAX_CONTENTS, Array, Dims, Value, object_array
from tawa.axon.sizes.choices import largest, smallest
from tawa.axon.sizes.dims import ONE, ZERO, Dim, exact_quotient, total
from tawa.functional.terms import Variable

WIDE_INTEGERS = (TensorProto.INT64, TensorProto.INT32)
"""Integers that hold every size."""

MAX_LISTED = 64
"""Numbers of a progression that are listed one by one if they are no more."""

MAX_VARYING = 2
"""Axes along which a progression may change."""


def is_float(value: Value) -> bool:
    """Whether a tensor consists of floats that may contain sizes."""
    return value.element in EXACT_UP_TO


def integral(value: Value) -> Array | None:
    """The contents as dimensions, if they are numbers or sizes without a fraction."""
    if value.contents is None or not is_float(value):
        return value.symbolic()
    if value.contents.dtype == object:
        return None if any(map(is_quotient, value.contents.ravel())) else value.contents
    numbers = value.contents.ravel().astype(np.float64)
    limit = EXACT_UP_TO[value.element]
    if not np.all(np.isfinite(numbers) & (numbers == np.floor(numbers)) & (abs(numbers) <= limit)):
        return None
    return object_array([Dim.of(int(number)) for number in numbers], value.contents.shape)


def held(context: Context, number: Number, element: int, kind: str, operands: Sequence[Dim]) -> Dim:
    """The dimension that stands for what the node makes of operands, in an element type."""
    sizes = (*number.sizes, *out_of(element, (number.dim,)))
    made_of = (context.node.op_type, element, *operands)
    return context.provided.dim(Number(number.dim, sizes), context.solver, kind, made_of)


def listed(items: list[Dim], shape: tuple[int, ...], element: int) -> Array:
    """Dimensions as contents: floats are an array of floats once they are numbers."""
    constants = [item.constant for item in items]
    if element in EXACT_UP_TO and None not in constants:
        dtype = helper.tensor_dtype_to_np_dtype(element)
        return np.array(constants, np.float64).reshape(shape).astype(dtype)
    return object_array(items, shape)


def are_long(value: Value) -> bool:
    """Whether contents are too many to keep, or have a size that is not kept."""
    if value.progression is not None:
        return any(part.is_long for block in value.progression for part in block.parts())
    contents = value.contents
    if contents is None or contents.size > MAX_CONTENTS or contents.dtype != object:
        return contents is not None and contents.size > MAX_CONTENTS
    return any(isinstance(item, Dim) and item.is_long for item in contents.ravel())


# Floats.


def cast_sizes(context: Context, contents: Array, target: int) -> Array | None:
    """Contents that depend on sizes in another element type; None if it may not hold them."""
    has_fractions = any(map(is_quotient, contents.ravel()))
    if target in WIDE_INTEGERS and not has_fractions:
        return contents
    if target not in EXACT_UP_TO and target not in WIDE_INTEGERS:
        return None
    found: list[Dim] = []
    for item in contents.ravel():
        dim = context.solver.dim(Dim.of(item))
        if is_quotient(dim):
            cast = _cast_quotient(context, dim, target)
            if cast is None:
                return None
            found.append(cast)
            continue
        kind = shared_kind(context.solver, (dim,))
        found.append(held(context, context.provided.number(dim), target, kind, (dim,)))
    return listed(found, contents.shape, target)


def _cast_quotient(context: Context, dim: Dim, target: int) -> Dim | None:
    """A float with a fraction in another element type."""
    known = quotient_of(context, dim, context.value(0).element)
    if known is None:
        return None
    made_of = ("Cast", target, dim)
    if target in EXACT_UP_TO:
        return context.provided.float_with(in_floats(known, target), context.solver, made_of)
    kind = "count" if known.is_natural else "integer"
    return context.provided.dim(to_integer("Cast", known), context.solver, kind, made_of)


def _quotient(a: Dim, b: Dim) -> Dim | None:
    return exact_quotient(a, b) if b.constant else None


UNARY_VALUES: dict[str, Callable[[Dim], Dim]] = {
    "Neg": lambda a: -a,
    "Abs": lambda a: largest([a, -a]),
    "Relu": lambda a: largest([a, ZERO]),
}
"""What is made of one number."""

ROUNDED: dict[str, Callable[..., Dim | None]] = {
    **UNARY_VALUES,
    "Floor": lambda a: a,
    "Ceil": lambda a: a,
    "Round": lambda a: a,
    "Add": lambda *dims: total(dims),
    "Sum": lambda *dims: total(dims),
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": _quotient,
    "Max": lambda *dims: largest([*dims]),
    "Min": lambda *dims: smallest(dims),
}  # fmt: skip
"""What is made of floats without a fraction that has no fraction either."""

GROWING = ("Relu", "Floor", "Ceil", "Round", "Add", "Sum", "Mul", "Max", "Min")
"""Operators that make numbers of at least 0 (or 1) of such, however they are rounded."""


def of_floats(context: Context) -> Array | None:
    """The contents of a float tensor made of floats that depend on sizes."""
    values = [context.value(index) for index in range(len(context.inputs))]
    arrays = [value.contents for value in values if value.contents is not None]
    if context.node.op_type not in ROUNDED or len(arrays) < len(values):
        return None
    wide = np.broadcast_arrays(*arrays)
    element = values[0].element
    found: list[Dim] = []
    for items in zip(*(array.ravel() for array in wide), strict=True):
        made = _made_of_integers(context, items, element)
        made = _made_of_quotients(context, items, element) if made is None else made
        if made is None:
            return None
        found.append(made)
    return listed(found, wide[0].shape, element)


def _integer(item: Any, element: int) -> Dim | None:
    """A number of a float tensor, unless it has a fraction."""
    if isinstance(item, Dim):
        return None if is_quotient(item) else item
    number = float(item)
    is_whole = np.isfinite(number) and number == int(number)
    return Dim.of(int(number)) if is_whole and abs(number) <= EXACT_UP_TO[element] else None


def _made_of_integers(context: Context, items: Sequence[Any], element: int) -> Dim | None:
    """What the node makes of floats without a fraction, if that has none either."""
    integers = [_integer(item, element) for item in items]
    dims = [context.solver.dim(dim) for dim in integers if dim is not None]
    if len(dims) < len(integers):
        return None
    numbers = [context.provided.number(dim) for dim in dims]
    result = ROUNDED[context.node.op_type](*(number.dim for number in numbers))
    if result is None:
        return None
    sizes = tuple(chain.from_iterable(number.sizes for number in numbers))
    grows = context.node.op_type in GROWING
    kind = shared_kind(context.solver, dims) if grows else "integer"
    return held(context, Number(result, sizes), element, kind, dims)


def _made_of_quotients(context: Context, items: Sequence[Any], element: int) -> Dim | None:
    """What the node makes of floats that may have a fraction."""
    name = context.node.op_type
    operands = [quotient_of(context, item, element) for item in items]
    known = [operand for operand in operands if operand is not None]
    if len(known) < len(operands):
        return None
    dims = [context.solver.dim(item) if isinstance(item, Dim) else float(item) for item in items]
    made_of = (name, element, *dims)
    if name in ("Floor", "Ceil"):
        (of,) = known
        number, kind = to_integer(name, of), "count" if of.is_natural else "integer"
        number = number._replace(sizes=(*number.sizes, *out_of(element, (number.dim,))))
        return context.provided.dim(number, context.solver, kind, made_of)
    result = made(name, known)
    return None if result is None else context.provided.float_with(
        result, context.solver, made_of)  # fmt: skip


# Progressions.


def blocks_of(context: Context, index: int) -> Progression | None:
    """What an input contains as progressions, with all that is known put in."""
    value = context.value(index)
    if value.progression is not None:
        return tuple(block.mapped(context.solver.dim) for block in value.progression)
    one = _only(value)
    if one is None or value.dims is None:
        return None
    number = context.provided.number(context.solver.dim(one))
    size = value.dims[0] if value.dims else ZERO
    block = Block(size, number.dim, (ZERO,) * len(value.dims), number.sizes)
    return (block.mapped(context.solver.dim),)


def _only(value: Value) -> Dim | None:
    """The number without a fraction that all elements of a tensor are."""
    if value.contents is not None and value.contents.size == 1:
        found = integral(value)
        return None if found is None else Dim.of(found.ravel()[0])
    fill = value.fill
    is_number = isinstance(fill, int | float) and not isinstance(fill, bool)
    if not is_number or not np.isfinite(fill) or fill != int(fill):
        return None
    limit = EXACT_UP_TO.get(value.element, 2**63 - 1)
    return Dim.of(int(fill)) if abs(fill) <= limit else None


def checked(context: Context, block: Block, dims: Sequence[Dim], element: int) -> Block | None:
    """A block once it is in a tensor of an element type; None if it changes along many axes."""
    if sum(bool(step.terms) for step in block.steps) > MAX_VARYING:
        return None
    if element not in EXACT_UP_TO:
        return block
    sizes = (*block.sizes, *out_of(element, block.corners(dims)))
    return replace(block, sizes=tuple(context.provided.open(sizes, context.solver)))


def filled(
    context: Context, dims: Dims | None, blocks: Iterable[Block | None] | None, element: int
) -> Value:
    """A tensor of some shape and with some progressions, listed one by one if they are few."""
    kept = [] if blocks is None else list(blocks)
    known = [block for block in kept if block is not None]
    if dims is None or not known or len(known) < len(kept):
        return Value(dims)
    if len(known) > 1:
        known = [b for block in known if (b := checked(context, block, (block.size,), element))]
        return Value(dims, progression=tuple(known))
    block = checked(context, known[0], dims, element)
    if block is None:
        return Value(dims)
    sizes = [dim.constant for dim in dims]
    shape = tuple(size for size in sizes if size is not None)
    if len(shape) == len(sizes) and 0 < int(np.prod(shape)) <= MAX_LISTED:
        return Value(dims, _listed(context, block, shape, element))
    return Value(dims, progression=(block,))


def _listed(context: Context, block: Block, shape: tuple[int, ...], element: int) -> Array:
    items: list[Dim] = []
    for places in np.ndindex(*shape):
        moves = [step * place for step, place in zip(block.steps, places, strict=True)]
        items.append(listed_at(context, replace(block, first=block.first + total(moves))))
    return listed(items, shape, element)


def listed_at(context: Context, block: Block) -> Dim:
    """The first number of a block."""
    number = context.provided.number(block.first)
    sizes = (*number.sizes, *block.sizes)
    return context.provided.dim(Number(number.dim, sizes), context.solver, "integer")


def progressing(context: Context, dims: Dims | None) -> Value:
    """What an operator makes of progressions number by number: its shape, and contents if known."""
    values = [context.value(index) for index in range(len(context.inputs))]
    if dims is None or all(value.progression is None for value in values):
        return Value(dims)
    name = context.node.op_type
    if name == "Where":
        return _chosen(context, dims)
    combine = BY_BLOCKS.get(name)
    operands = None if combine is None else _aligned(context, dims)
    if combine is None or operands is None:
        return Value(dims)
    found = [combine(parts) for parts in operands]
    if name in DECIDED:
        return Value(dims, fill=_decided(context, name, found, dims))
    return filled(context, dims, found, values[0].element)


def _alone(blocks: Progression) -> Block | None:
    """The only block."""
    return blocks[0] if len(blocks) == 1 else None


def _aligned(context: Context, dims: Dims) -> list[list[Block]] | None:
    """The operands' blocks that meet, broadcast: several only where the other is a number."""
    count = len(context.inputs)
    operands = [blocks_of(context, index) for index in range(count)]
    known = [blocks for blocks in operands if blocks is not None]
    if len(known) < count:
        return None
    single = [block for blocks in known if (block := _alone(blocks)) is not None]
    if len(single) == count:
        of = [context.dims(index) or () for index in range(count)]
        spread = [stretched(block, mine, dims) for block, mine in zip(single, of, strict=True)]
        there = [part for part in spread if part is not None]
        return [there] if len(there) == count else None
    numbers = [context.dims(index) in ((), (ONE,)) for index in range(count)]
    if len(dims) != 1 or sum(numbers) < count - 1:
        return None
    longest = max(known, key=len)
    ones = [replace(blocks[0], steps=(ZERO,)) for blocks in known if blocks]
    return [
        [replace(one, size=block.size) if is_number else block
         for one, is_number in zip(ones, numbers, strict=True)]
        for block in longest
    ]  # fmt: skip


def _chosen(context: Context, dims: Dims) -> Value:
    """Where: one of two progressions, if the condition is the same everywhere."""
    condition = context.value(0)
    numbers = condition.numbers
    chosen = numbers.item() if numbers is not None and numbers.size == 1 else condition.fill
    if chosen is None:
        return Value(dims)
    index = 1 if chosen else 2
    blocks, mine = blocks_of(context, index), context.dims(index)
    block = _alone(blocks) if blocks is not None else None
    if block is None or mine is None:
        return Value(dims)
    return filled(context, dims, [stretched(block, mine, dims)], context.value(1).element)


def _decided(
    context: Context, name: str, differences: list[Block | None], dims: Dims
) -> bool | None:
    """What a comparison gives everywhere, by the differences of its sides; None if that differs."""
    known = [block for block in differences if block is not None]
    verdicts: set[bool | None] = set()
    for block in known:
        wide = (block.size,) if len(known) > 1 else dims
        if block.sizes or sum(bool(step.terms) for step in block.steps) > MAX_VARYING:
            return None
        ends = _where_there_are_some(context, block.corners(wide), wide)
        verdicts.add(DECIDED[name](*(_least(context, sign, ends) for sign in (1, -1))))
    return verdicts.pop() if len(verdicts) == 1 and len(known) == len(differences) else None


def _where_there_are_some(context: Context, ends: list[Dim], dims: Sequence[Dim]) -> list[Dim]:
    """The ends of a block, of which nothing matters where there are no numbers between them."""
    least_one: dict[Variable, Dim] = {}
    for dim in map(context.solver.dim, dims):
        variable = dim.sole_variable
        if variable is not None and variable.kind == "count" and not context.least(dim):
            least_one[variable] = context.solver.fresh_dim()
    return [context.solver.dim(end).substitute(least_one.get) for end in ends]


def _least(context: Context, sign: int, ends: list[Dim]) -> int | None:
    """What no end (or, with the sign -1, none of their opposites) is below."""
    lows = [context.least(end * sign) for end in ends]
    known = [low for low in lows if low is not None]
    return min(known) if len(known) == len(lows) else None


def _is_above(low: int | None, high: int | None, least: int) -> bool | None:
    """Whether differences are at least so much: none is below `low`, no opposite below `high`."""
    if low is not None and low >= least:
        return True
    return False if high is not None and high > -least else None


def _negated(value: bool | None) -> bool | None:
    return None if value is None else not value


def _is_equal(low: int | None, high: int | None) -> bool | None:
    if low == 0 and high == 0:
        return True
    return False if (low or 0) > 0 or (high or 0) > 0 else None


DECIDED: dict[str, Callable[[int | None, int | None], bool | None]] = {
    "Greater": lambda low, high: _is_above(low, high, 1),
    "GreaterOrEqual": lambda low, high: _is_above(low, high, 0),
    "Less": lambda low, high: _negated(_is_above(low, high, 0)),
    "LessOrEqual": lambda low, high: _negated(_is_above(low, high, 1)),
    "Equal": _is_equal,
}
"""What comparisons give, by what the differences of their sides and the opposites are not below."""


def extreme(context: Context, sign: int) -> Dim | None:
    """The largest (or, with the sign -1, the smallest) number of progressions that have some."""
    blocks, dims = blocks_of(context, 0), context.dims(0)
    if blocks is None or not dims:
        return None
    ends: list[Dim] = []
    sizes: list[Dim] = []
    for block in blocks:
        wide = (block.size,) if len(blocks) > 1 else dims
        if not context.has_elements(wide) or sum(bool(s.terms) for s in block.steps) > MAX_VARYING:
            return None
        numbers = [context.provided.number(end) for end in block.corners(wide)]
        ends += [number.dim * sign for number in numbers]
        sizes += [size for number in numbers for size in number.sizes]
        sizes += block.sizes
    result = Number(largest(ends) * sign, tuple(sizes))
    return context.provided.dim(result, context.solver, "integer")


def _sum(parts: list[Block], signs: Iterable[int]) -> Block:
    signed = list(zip(parts, signs, strict=False))
    steps = zip(*([step * sign for step in part.steps] for part, sign in signed), strict=True)
    return replace(
        parts[0],
        first=total(part.first * sign for part, sign in signed),
        steps=tuple(total(of) for of in steps),
        sizes=tuple(chain.from_iterable(part.sizes for part in parts)),
    )


def _multiple(parts: list[Block]) -> Block | None:
    one, other = parts
    if not one.is_uniform:
        one, other = other, one
    if not one.is_uniform:
        return None
    steps = tuple(step * one.first for step in other.steps)
    return replace(
        other, first=other.first * one.first, steps=steps, sizes=(*one.sizes, *other.sizes)
    )


BY_BLOCKS: dict[str, Callable[[list[Block]], Block | None]] = {
    "Add": lambda parts: _sum(parts, (1, 1)),
    "Sub": lambda parts: _sum(parts, (1, -1)),
    "Neg": lambda parts: _sum(parts, (-1,)),
    "Mul": _multiple,
    "Identity": lambda parts: parts[0],
    **dict.fromkeys(DECIDED, lambda parts: _sum(parts, (1, -1))),
}
"""What operators make of blocks of one shape."""
