"""Chunks of a size: equal parts, of which the last ones may be smaller, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tawa.axon.sizes.choices import incomparable, largest, smallest
from tawa.axon.sizes.dims import ZERO, Dim, ceil_quotient, total
from tawa.axon.sizes.interned import once
from tawa.axon.sizes.monomials import Atom, Replace
from tawa.axon.sizes.polynomials import Samples

MOST_PROVED = 8
"""Symbols and numbers of a size up to which it is looked for what its chunks are."""


@dataclass(frozen=True, eq=False, init=False)
class Chunk(Atom):
    """`min(each, max(size - each * index, 0))`, where `each` is `size / count` rounded up.

    It says no more than that, and is made with fewer objects: a size may have thousands of chunks.
    """

    size: Dim
    count: int
    index: int
    chooses: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleVariableOverride]

    @once
    def key(self) -> tuple[object, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Orders factors."""
        return (7, self.size.key, self.count, self.index)

    def parts(self) -> tuple[Dim, ...]:
        """The size."""
        return (self.size,)

    def prepare(self) -> None:
        """Count the size as often as it is written."""
        weight, depth, magnitude = self.size.extent
        state = self.__dict__
        state["extent"] = (3 * weight, depth + 3, magnitude)
        state["has_choice"], state["free"] = True, self.size.free

    @once
    def chosen(self) -> Dim:
        """The same as the smallest and the largest of dimensions."""
        return _chosen(self.size, ceil_quotient(self.size, self.count), self.count, self.index)

    def substitute(self, replace: Replace) -> Dim:
        """The chunk of the substituted size."""
        size = self.size.substitute(replace)
        if size is self.size:
            return Dim.of(self)
        return _chunk(size, ceil_quotient(size, self.count), self.count, self.index)

    @once
    def samples(self) -> Samples | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The chunks of the size's values."""
        sizes = self.size.samples
        if sizes is None:
            return None
        one, other, third = (_number(size, self.count, self.index) for size in sizes)
        return one, other, third

    def least(self) -> int | None:
        """Nothing may be left for it."""
        return 0

    def most(self) -> int | None:
        """None is larger than the first."""
        return ceil_quotient(self.size, self.count).most()

    def choices(self) -> tuple[Dim, ...]:
        """What there is of it, and nothing."""
        each = ceil_quotient(self.size, self.count)
        left = self.size - each * self.index
        return (left if self.index == self.count - 1 else -incomparable([-each, -left]), ZERO)


def chunks(size: Dim, count: int) -> list[Dim]:
    """All chunks of a size.

    What is left for a chunk shrinks from one to the next. So chunks between two of which nothing
    is known are so too.
    """
    each = ceil_quotient(size, count)
    found = [each] * count
    if each * count is size:
        return found
    first, last = 1, count - 1
    for ends in (range(1, count), range(count - 1, 0, -1)):
        for index in ends:
            if first > last:
                return found
            found[index] = _chunk(size, each, count, index)
            first, last = (index + 1, last) if ends.step > 0 else (first, index - 1)
            if _is_chunk(found[index]):
                break
    for index in range(first, last + 1):
        found[index] = Dim.alone(Chunk(size, count, index))
    return found


def joined_parts(sizes: list[Dim]) -> Dim:
    """The sum of sizes: all chunks of a size but the first are what the first leaves of it."""
    found = total(sizes)
    for part in sizes:
        factor = part.sole_factor
        if isinstance(factor, Chunk) and factor.index == factor.count - 1:
            size, count = factor.size, factor.count
            rest = total(Dim.of(Chunk(size, count, index)) for index in range(1, count))
            if len(set(found.terms) & set(rest.terms)) == len(rest.terms):
                found += size - ceil_quotient(size, count) - rest
    return found


def _is_chunk(dim: Dim) -> bool:
    return isinstance(dim.sole_factor, Chunk)


def _chunk(size: Dim, each: Dim, count: int, index: int) -> Dim:
    """A chunk in canonical form: as large as the first, what is left, nothing, or none of these."""
    if size.weight <= MOST_PROVED and not _is_open(size, count, index):
        found = _chosen(size, each, count, index)
        if found in (each, size - each * index, ZERO):
            return found
    return Dim.alone(Chunk(size, count, index))


def _chosen(size: Dim, each: Dim, count: int, index: int) -> Dim:
    """A chunk as the smallest and the largest of dimensions.

    The second is never more than there is, and what is left for the last is never more than each.
    """
    left = size - each * index
    rest = left if index == 1 else largest([left, ZERO])
    return rest if index == count - 1 else smallest([each, rest])


def _is_open(size: Dim, count: int, index: int) -> bool:
    """Whether examples show that a chunk is not always each, nor what is left, nor nothing.

    To look for them takes less than to look for a proof in vain.
    """
    samples = size.samples
    if samples is None:
        return False
    equal = [-(-sample // count) for sample in samples]
    lefts = [sample - each * index for sample, each in zip(samples, equal, strict=True)]
    found = [min(each, max(left, 0)) for each, left in zip(equal, lefts, strict=True)]
    return found != equal and found != lefts and any(found)


def _number(size: int, count: int, index: int) -> int:
    """A chunk of a number."""
    each = -(-size // count)
    return min(each, max(size - each * index, 0))
