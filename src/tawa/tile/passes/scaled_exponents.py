"""Exponentials of scaled differences become one multiply-add, and maxima move before the scale.

A softmax reads its scores three times: scaled, for their maximum, and less that maximum for the
exponential. What of this is arithmetic on whole tiles can be one multiply-add each element:

- `max(c * x)` -> `c * max(x)` for a positive c: multiplication by it keeps the order, rounded or
  not, so the values are the same. `where(m, c * x, -inf)` -> `c * where(m, x, -inf)` likewise, and
  `c * x + where(m, 0, -inf)` -> `c * (x + where(m, 0, -inf))`.
- `exp(c * x - m)` -> `exp2(x * c' - m')`, c' and m' being c and m times log2(e): one multiply-add,
  where m is known for each row, column or tile, and where contraction is allowed.

The second is rounded otherwise: the exponent's error grows to at most three times that of `c * x`,
and the largest element's is not exactly zero any more. So x has to be a matrix product, which is
rounded and of moderate size; masks may choose infinity or a moderate constant in its place. Rows
filled with -1e30, or with a bias that was loaded, keep their exact differences.

Both ask for what the ops mean, whatever side a factor stands on and however often it is spread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import permutations
from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, ModuleOp
from xdsl.ir import Operation, SSAValue

from tawa.base.options import Options
from tawa.base.spans import copy_span
from tawa.base.types import element_of, f32, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map
from tawa.ir.properties import ONE_PROGRAM, TIDY
from tawa.ir.walking import all_of, every
from tawa.tile.analysis.magnitude import is_ordinary
from tawa.tile.analysis.masks import is_choice, spread_from
from tawa.tile.analysis.scaling import scaled
from tawa.tile.analysis.zero import constant_of
from tawa.tile.dialect.ops import Dot, Reduce, Reshape, Splat, Trans, spreads

MAXIMA = ("maxnumf", "maximumf", "minnumf", "minimumf")
BASES = {"exp": math.log2(math.e), "exp2": 1.0}
"""Exponentials, and the binary logarithm of the number that each raises to a power."""

TURNING = (Reshape, Trans)

MODERATE = 2.0**20
"""A number whose rounding error in f32, of 24 digits, moves an exponent by 2^-4 at most.

A row that is filled with it has weights that are off by one factor, 2^(3/16) at most, which their
sum divides out.
"""


@dataclass(frozen=True)
class ScaledExponents:
    """Scale after maxima, and within the multiply-adds of exponents."""

    options: Options
    name: ClassVar[str] = "scaled-exponents"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Rewrite in the order of the text, so that a scale moves as far as it can."""
        for op in every(module):
            if op.parent is not None and _is_tile(op):
                _move_scale(op)
        if self.options.enable_fp_fusion:
            for op in all_of(module, Map):
                if op.function.data in BASES and _is_tile(op):
                    _contract(op)


def _is_tile(op: Operation) -> bool:
    """Whether an op makes one f32 tile of two dimensions or more, or reduces one."""
    if len(op.results) != 1 or element_of(op.results[0].type) != f32:
        return False
    value = op.value if isinstance(op, Reduce) else op.results[0]
    return len(shape_of(value.type)) > 1


# --- c * x, moved towards its users ---------------------------------------------------------------


def _move_scale(op: Operation) -> None:
    """Put scalings by positive numbers after a maximum, or a mask."""
    if isinstance(op, Reduce) and op.kind.data in MAXIMA:
        found = scaled(op.value)
        if found is not None and is_ordinary(found[1]):
            _rescaled(op, Reduce(found[0], op.axis.value.data, op.kind.data), found[1])
    elif is_choice(op):
        _move_past_choice(op)
    elif isinstance(op, Map) and op.function.data == "addf":
        _move_past_sum(op)
    elif isinstance(op, TURNING):
        found = scaled(op.operands[0])
        if found is not None and op.operands[0].has_one_use():
            moved = op.clone({op.operands[0]: found[0]})
            _rescaled(op, moved, found[1])


def _move_past_choice(op: Map) -> None:
    """`where(m, c * x, -inf)` -> `c * where(m, x, -inf)`, on either side."""
    condition, *choices = op.arguments
    for i, choice in enumerate(choices):
        found, other = scaled(choice), choices[1 - i]
        if found is None or not is_ordinary(found[1]) or not _keeps(other):
            continue
        if any(use.operation is not op and not _is_moved(use.operation) for use in choice.uses):
            continue  # it is computed in any case
        chosen = [found[0], other] if i == 0 else [other, found[0]]
        _rescaled(op, Map("select", [condition, *chosen]), found[1])
        return


def _move_past_sum(op: Map) -> None:
    """`c * x + where(m, 0, -inf)` -> `c * (x + where(m, 0, -inf))`."""
    for summand, mask in permutations(op.arguments):
        found = scaled(summand)
        if found is not None and is_ordinary(found[1]) and summand.has_one_use() and _is_mask(mask):
            _rescaled(op, Map("addf", [found[0], mask]), found[1])
            return


def _keeps(value: SSAValue) -> bool:
    """Whether a positive number times a constant is that constant: infinities, zeros, NaN."""
    constant = constant_of(value)
    return constant is not None and (constant * 2 == constant or math.isnan(constant))


def _is_mask(value: SSAValue) -> bool:
    """Whether all elements are zero or infinite, by a choice that may be repeated over a tile."""
    op = spread_from(value).owner
    return is_choice(op) and all(map(_keeps, op.arguments[1:]))


def _is_moved(op: Operation) -> bool:
    """Whether a use of a scaled tile needs it unscaled only, once it is rewritten."""
    return isinstance(op, Reduce) and op.kind.data in MAXIMA


def _rescaled(op: Operation, moved: Operation, factor: SSAValue) -> None:
    """Put `moved`, times the factor, in the place of `op`; further scales move on as well."""
    result, before = op.results[0], [moved]
    shape = shape_of(result.type)
    times: SSAValue = factor
    if shape:
        before.append(Splat(factor, shape))
        times = before[-1].results[0]
    product, operands = Map("mulf", [moved.results[0], times]), list(op.operands)
    _replace(op, [*before, product], product.result)
    for value in operands:
        if isinstance(value.owner, Map) and value.first_use is None:
            value.owner.detach()
            value.owner.erase()  # else what it is made of has another use
    _move_scale(moved)


# --- exponents ------------------------------------------------------------------------------------


@dataclass
class _Exponent:
    """x * factors - m, times further factors: scalars to multiply."""

    x: SSAValue
    factors: list[SSAValue]
    subtrahend: SSAValue
    shared: list[SSAValue] = field(default_factory=list[SSAValue])
    """Factors of both."""


def _contract(op: Map) -> None:
    """`exp(c * x - m)` -> `exp2(fma(x, c', -m'))`, unless it is one subtraction as it is."""
    base = BASES[op.function.data]
    found = _exponent(op.arguments[0])
    if found is None or not _is_product(found.x):
        return
    thin = _thin(found.subtrahend)
    if thin is None or not (found.factors or found.shared or base != 1.0):
        return
    builder = _Builder(op)
    shared = found.shared
    if base != 1.0:
        shared = [*shared, builder.constant(base)]
    scale = builder.product([*found.factors, *shared])
    offset = builder.scaled(thin, shared)
    spread = builder.again(found.subtrahend, thin, builder.add(Map("negf", [offset])))
    times = builder.add(Splat(scale, shape_of(op.result.type)))
    exponent = builder.add(Map("fma", [found.x, times, spread]))
    power = builder.add(Map("exp2", [exponent]))
    _replace(op, builder.made, power)


def _exponent(value: SSAValue) -> _Exponent | None:
    """A value as a scaled tile less another tile, all that times scalars."""
    op, shared = value.owner, list[SSAValue]()
    while (outer := scaled(value)) is not None:
        value, factor = outer
        shared.append(factor)
        op = value.owner
    if not isinstance(op, Map) or op.function.data != "subf":
        return None
    x, subtrahend = op.arguments
    factors: list[SSAValue] = []
    while (inner := scaled(x)) is not None:
        x, factor = inner
        factors.append(factor)
    return _Exponent(x, factors, subtrahend, shared)


def _is_product(value: SSAValue) -> bool:
    """Whether a tile is a matrix product times scalars, and masked by infinity or less."""
    op = value.owner
    if isinstance(op, Dot):
        return True
    if isinstance(op, TURNING):
        return _is_product(op.operands[0])
    if (found := scaled(value)) is not None:
        return _is_product(found[0])
    if not isinstance(op, Map):
        return False
    if op.function.data == "addf":
        return any(_is_product(a) and _is_mask(b) for a, b in permutations(op.arguments))
    if op.function.data != "select":
        return False
    return all(_is_harmless(v) or _is_product(v) for v in op.arguments[1:])


def _is_harmless(value: SSAValue) -> bool:
    """Whether a constant is infinite, NaN or of moderate size."""
    constant = constant_of(value)
    return constant is not None and not MODERATE < abs(constant) < math.inf


def _thin(value: SSAValue) -> SSAValue | None:
    """The smaller tile or scalar that a tile repeats; None if it repeats none."""
    whole = math.prod(shape_of(value.type))
    value = spread_from(value)
    if isinstance(value.owner, Splat):
        return value.owner.value
    return value if math.prod(shape_of(value.type)) < whole else None


@dataclass
class _Builder:
    """Ops that are put before `op`."""

    op: Operation
    made: list[Operation] = field(default_factory=list[Operation])

    def add(self, op: Operation) -> SSAValue:
        self.made.append(op)
        return op.results[0]

    def constant(self, number: float) -> SSAValue:
        return self.add(arith.ConstantOp(FloatAttr(number, f32)))

    def product(self, factors: list[SSAValue]) -> SSAValue:
        if not factors:
            return self.constant(1.0)
        found, *rest = factors
        for factor in rest:
            found = self.add(Map("mulf", [found, factor]))
        return found

    def scaled(self, value: SSAValue, factors: list[SSAValue]) -> SSAValue:
        if not factors:
            return value
        times, shape = self.product(factors), shape_of(value.type)
        if shape:
            times = self.add(Splat(times, shape))
        return self.add(Map("mulf", [value, times]))

    def again(self, spread: SSAValue, thin: SSAValue, new: SSAValue) -> SSAValue:
        """What is `spread` from `thin`, made from `new` instead."""
        if spread is thin:
            return new
        op = spread.owner
        if isinstance(op, Splat):
            return self.add(Splat(new, shape_of(op.result.type)))
        assert spreads(op)
        source = self.again(op.operands[0], thin, new)
        return self.add(op.clone({op.operands[0]: source}))


def _replace(op: Operation, made: list[Operation], value: SSAValue) -> None:
    block = op.parent
    assert block is not None
    copy_span(op, made)
    block.insert_ops_before(made, op)
    value.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(value)
    op.detach()
    op.erase()
