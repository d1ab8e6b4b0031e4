"""Whether boxes are apart whatever the sizes and the loops' indices are: bounds of linear sums.

The distance of two boxes is a sum of indices and sizes. It is least where each index is at one end
of its loop: `x[i + 1 + r]` and `x[i]` are a block apart or more, as r is not negative.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from tawa.tasks.language.sizes import Known, Number, Size, constant, names, text
from tawa.tasks.language.tensors import Tensor

Sum: TypeAlias = "dict[str, int]"
"""Multiples of names, and of texts of what is no sum; the number's key is empty."""


def always_apart(one: Tensor, other: Tensor, known: Known, varying: Collection[str] = ()) -> bool:
    """Whether two boxes of a buffer share no element, for all indices of the loops around them.

    Indices that are `varying` may differ from the one box to the other; the rest are the same.
    """
    sums = _Sums(known, frozenset(varying))
    return any(
        sums.ends(o1, s1, o2, s2) for o1, s1, o2, s2 in
        zip(one.origin, one.size, other.origin, other.size, strict=True)
    )  # fmt: skip


@dataclass(frozen=True)
class _Sums:
    """Sums in which an index of the second box that may differ has another name."""

    known: Known
    varying: frozenset[str]

    def ends(self, o1: Number, s1: Number, o2: Number, s2: Number) -> bool:
        """Whether one box ends before the other begins, in one dimension."""
        first, second = self.sum(o1), self.sum(o2, second=True)
        after = _plus(_plus(second, first, -1), self.sum(s1), -1)
        before = _plus(_plus(first, second, -1), self.sum(s2, second=True), -1)
        return self.is_not_negative(after) or self.is_not_negative(before)

    def sum(self, size: Number, *, second: bool = False) -> Sum:
        """A size as a sum."""
        number = constant(size)
        if number is not None:
            return {"": number}
        assert isinstance(size, Size)
        if size.op in ("+", "-"):
            left, right = self.sum(size.left, second=second), self.sum(size.right, second=second)
            return _plus(left, right, 1 if size.op == "+" else -1)
        if size.op == "*":
            for factor, rest in ((size.left, size.right), (size.right, size.left)):
                number = constant(factor)
                if number is not None:
                    return _plus({}, self.sum(rest, second=second), number)
        differs = second and not self.varying.isdisjoint(names(size))
        return {text(size) + OTHER if differs else text(size): 1}

    def is_not_negative(self, found: Sum) -> bool:
        """Whether a sum is at least zero, each index being where the sum is least.

        Inner loops' extents are of outer loops' indices, so that inner ones are taken first.
        """
        for index, extent in reversed(self.known.extents.items()):
            for second in (True, False):
                times = found.pop(index + OTHER if second else index, 0)
                if times < 0:
                    last = _plus(self.sum(extent, second=second), {"": 1}, -1)
                    found = _plus(found, last, times)
        number = found.pop("", 0)
        return number >= 0 and all(
            times == 0 or (times > 0 and self.is_size(name)) for name, times in found.items()
        )

    def is_size(self, name: str) -> bool:
        """Whether a name is of a tensor's size, which is not negative."""
        return name in self.known.values and name not in self.known.scalars


OTHER = "'"
"""What tells the second box's index from the first's."""


def _plus(one: Sum, other: Sum, times: int) -> Sum:
    both = dict.fromkeys((*one, *other))
    return {name: one.get(name, 0) + times * other.get(name, 0) for name in both}
