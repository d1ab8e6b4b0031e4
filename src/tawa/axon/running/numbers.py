"""Values with operators, to write derivatives and compositions as formulas."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tawa.axon.running.tape import Algebra, Value


@dataclass(frozen=True, eq=False, slots=True)
class Number:
    """A value, and what computes with it. Python's numbers get its element type."""

    algebra: Algebra
    value: Value

    @property
    def shape(self) -> tuple[int, ...]:
        """The value's shape."""
        return tuple(self.value.shape)

    def do(self, name: str, *more: Number | float, **statics: Any) -> Number:
        """An operator on this value and others."""
        given = [self._other(other).value for other in more]
        return Number(self.algebra, self.algebra.call(name, self.value, *given, **statics))

    def _other(self, other: Number | float) -> Number:
        if isinstance(other, Number):
            return other
        return Number(self.algebra, self.algebra.number(other, self.value))

    def __add__(self, other: Number | float) -> Number:
        return self.do("+", other)

    def __sub__(self, other: Number | float) -> Number:
        return self.do("-", other)

    def __mul__(self, other: Number | float) -> Number:
        return self.do("*", other)

    def __truediv__(self, other: Number | float) -> Number:
        return self.do("/", other)

    def __pow__(self, other: Number | float) -> Number:
        return self.do("**", other)

    def __matmul__(self, other: Number) -> Number:
        return self.do("matmul", other)

    def __rpow__(self, other: float) -> Number:
        return self._other(other) ** self

    def __neg__(self) -> Number:
        return self.do("negate")

    def __radd__(self, other: float) -> Number:
        return self._other(other) + self

    def __rsub__(self, other: float) -> Number:
        return self._other(other) - self

    def __rmul__(self, other: float) -> Number:
        return self._other(other) * self

    def __rtruediv__(self, other: float) -> Number:
        return self._other(other) / self

    def like(self, value: float) -> Number:
        """A Python number of this value's element type."""
        return self._other(value)

    def reshape(self, *to: int) -> Number:
        """Another shape."""
        return self if self.shape == to else self.do("reshape", to=to)

    def transposed(self) -> Number:
        """The last two axes swapped."""
        return self.do("transpose")

    def sum(self, axis: int, keep: bool = False) -> Number:
        """The sum along an axis, which stays with size 1 if kept."""
        found = self.do("sum", axis=axis)
        return found.do("expand", axis=axis) if keep else found

    def mean(self, axis: int) -> Number:
        """The mean along an axis, which stays with size 1."""
        return self.sum(axis, keep=True) / float(self.shape[axis])

    def spread(self, *to: int) -> Number:
        """Broadcast to a shape."""
        return self if self.shape == to else self.do("broadcast", to=to)

    def gathered(self, to: tuple[int, ...]) -> Number:
        """Summed over what was broadcast from a shape: `spread` backwards."""
        found = self
        lead = len(found.shape) - len(to)
        if lead > 0:
            found = found.reshape(math.prod(found.shape[:lead]), *found.shape[lead:]).sum(0)
        for axis, (now, before) in enumerate(zip(found.shape, to, strict=True)):
            if before == 1 and now != 1:
                found = found.sum(axis, keep=True)
        return found

    def mask(self, comparison: str, other: Number | float) -> Number:
        """1 where a comparison holds, else 0, in this value's element type."""
        one, zero = self._other(1.0), self._other(0.0)
        return self.do(comparison, other).do("where", one, zero)

    def part(self, axis: int, start: int, stop: int) -> Number:
        """The part from `start` up to `stop` along an axis."""
        return self.do("slice", start=start, stop=stop, axis=axis)
