"""Appends ops to the block that is being filled, with the span of their source."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i32, i64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from tawa.base.numerics import constant_attribute, round_to
from tawa.base.spans import LOC, Span, SpanAttr, attribute_of
from tawa.base.types import bits, is_float
from tawa.ir.elementwise import Map, scalar_constant
from tawa.ir.kernels import AT_LEAST, MULTIPLE

Op = TypeVar("Op", bound=Operation)


@dataclass(frozen=True)
class Defaults:
    """Options of a launch that a kernel's meaning depends on."""

    num_warps: int = 4
    dot_precision: str = "tf32"
    """How `tl.dot` takes operands of f32 where it says nothing itself."""
    flush: bool = True
    """Whether exponentials of f32 take denormals for zeros."""


class Builder:
    """The point of insertion and the current span."""

    def __init__(self, block: Block, defaults: Defaults | None = None) -> None:
        self.block = self._first = block
        self.defaults = defaults or Defaults()
        self._spans: list[tuple[Span, SpanAttr]] = []
        self.promised: dict[BlockArgument, int] = {}
        """Kernel arguments, and what they are promised to reach."""
        self.divisors: dict[BlockArgument, int] = {}
        """Kernel arguments, and what is promised to divide them."""
        self.disjoint: list[tuple[BlockArgument, BlockArgument]] = []
        """Pairs of kernel arguments that are promised to be apart."""
        self.releases = False
        """Whether the kernel lets the next one on its stream begin before it ends."""

    @property
    def span(self) -> Span | None:
        """The source range that is being compiled."""
        return self._spans[-1][0] if self._spans else None

    @contextmanager
    def at(self, span: Span) -> Generator[None]:
        """Give ops made inside this context the span."""
        self._spans.append((span, attribute_of(span)))
        try:
            yield
        finally:
            self._spans.pop()

    @contextmanager
    def inside(self, block: Block) -> Generator[Block]:
        """Append to `block` inside this context."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer

    def add(self, op: Op) -> Op:
        """Append `op`."""
        if self._spans:
            op.attributes[LOC] = self._spans[-1][1]
        self.block.add_op(op)
        return op

    def argument(self, value: SSAValue) -> BlockArgument | None:
        """The argument of the kernel that a value is."""
        return next((own for own in self._first.args if own is value), None)

    def promise_at_least(self, value: SSAValue, bound: int) -> None:
        """Note that an integer never is less than `bound`."""
        if isinstance(value, BlockArgument):
            self.promised[value] = max(bound, self.promised.get(value, bound))
        else:
            assert isinstance(value.owner, Operation)
            value.owner.attributes[AT_LEAST] = IntegerAttr(bound, i32)

    def promise_runs(self, value: SSAValue, fact: str, numbers: Sequence[int]) -> None:
        """Note a fact of `ir.kernels` of a value, a number a dimension (one for a scalar).

        Of what a loop carries nothing is noted: it is seen from what it starts with.
        """
        if isinstance(value, BlockArgument):
            if fact == MULTIPLE and len(numbers) == 1:
                self.divisors[value] = math.lcm(numbers[0], self.divisors.get(value, 1))
        else:
            assert isinstance(value.owner, Operation)
            value.owner.attributes[fact] = DenseArrayBase.from_list(i64, list(numbers))

    def map(self, function: str, *operands: SSAValue, result: Attribute | None = None) -> SSAValue:
        """Append an `ew.map`; casts need `result`, the element type or the whole type."""
        return self.add(Map(function, operands, result)).result

    def constant(self, value: float, element: Attribute) -> SSAValue:
        """Append a scalar constant; integers wrap to the type and floats are rounded to it."""
        if is_float(element):
            number = np.asarray(value, dtype=np.float64)
        else:
            number = np.asarray(int(value) & ((1 << bits(element)) - 1), dtype=np.uint64)
        rounded = round_to(number, element)
        return self.add(scalar_constant(constant_attribute(rounded, element))).result


def name_values(values: Sequence[SSAValue], name: str) -> None:
    """Give SSA values the name of the user's variable, unless they have a name already."""
    for value in values:
        if value.name_hint is None and not name.startswith("_"):
            hint(value, name)


def hint(value: SSAValue, name: str) -> None:
    """Name an SSA value after a variable, if the IR's text can: its names are ASCII.

    Of `x_0` the name is `x`: the text numbers values of one name. Of `_0` nothing is left.
    """
    if SSAValue.is_valid_name(name) and SSAValue.extract_valid_name(name):
        value.name_hint = name
