"""Contents of tensors of any length: numbers that grow by the same step along an axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product as all_of

from tawa.axon.sizes.dims import ZERO, Dim

MAX_BLOCKS = 8
"""Progressions joined to one vector: more are not kept."""


@dataclass(frozen=True, slots=True)
class Block:
    """Numbers `first + steps[0] * i + steps[1] * j ...` at the indices `i, j ...`.

    `size` is how many indices the first axis has. They are so where all of `sizes` are at least 1.
    """

    size: Dim
    first: Dim
    steps: tuple[Dim, ...]
    sizes: tuple[Dim, ...] = ()

    @property
    def is_uniform(self) -> bool:
        """Whether all numbers are the same."""
        return not any(step.terms for step in self.steps)

    def at(self, index: Dim, axis: int = 0) -> Block:
        """What stands at an index of an axis, without that axis."""
        first = self.first + self.steps[axis] * index
        steps = self.steps[:axis] + self.steps[axis + 1 :]
        return replace(self, first=first, steps=steps)

    def corners(self, dims: Sequence[Dim]) -> list[Dim]:
        """The numbers at the ends of all axes: all others lie between them."""
        ends = [
            (ZERO, step * (size - 1)) if step.terms else (ZERO,)
            for step, size in zip(self.steps, dims, strict=True)
        ]
        return [sum(combination, self.first) for combination in all_of(*ends)]

    def mapped(self, change: Callable[[Dim], Dim]) -> Block:
        """The block with all its sizes changed."""
        return Block(
            change(self.size), change(self.first), tuple(map(change, self.steps)),
            tuple(map(change, self.sizes)),
        )  # fmt: skip

    def parts(self) -> Iterator[Dim]:
        """All sizes in it."""
        yield from (self.size, self.first, *self.steps, *self.sizes)


Progression = tuple[Block, ...]
"""What a tensor contains: blocks behind each other along its only axis, or one of any rank."""


def progression(blocks: Sequence[Block]) -> Progression | None:
    """Blocks behind each other, unless they are too many."""
    kept = [block for block in blocks if block.size != ZERO]
    return tuple(kept) if 0 < len(kept) <= MAX_BLOCKS else None


def item_at(blocks: Progression, index: int, least: Callable[[Dim], int | None]) -> Block | None:
    """What stands at an index of the first axis: from the end, if that is negative.

    None if it isn't known in which block that is. An index that there isn't means nothing.
    """
    if len(blocks) == 1:
        block = blocks[0]
        return block.at(Dim.of(index) if index >= 0 else block.size + index)
    left = index if index >= 0 else -1 - index
    for block in blocks if index >= 0 else reversed(blocks):
        low, size = least(block.size), block.size.constant
        if low is not None and left < low:
            return block.at(Dim.of(left) if index >= 0 else block.size - 1 - left)
        if size is None:
            return None
        left -= size
    return None


def moved(block: Block, axes: Sequence[int | None], dims: Sequence[Dim]) -> Block:
    """The block with its axes in another order, or new ones (None) in which nothing changes."""
    steps = tuple(ZERO if axis is None else block.steps[axis] for axis in axes)
    return replace(block, size=dims[0] if dims else block.size, steps=steps)


def sliced(block: Block, axis: int, start: Dim, step: int, size: Dim) -> Block:
    """Each so-manieth number from a start along an axis; `size` are left of the first."""
    first = block.first + block.steps[axis] * start
    steps = list(block.steps)
    steps[axis] *= step
    return replace(block, size=size, first=first, steps=tuple(steps))


def stretched(block: Block, dims: Sequence[Dim], wide: Sequence[Dim]) -> Block | None:
    """The block broadcast to a shape; None if it isn't known what that repeats."""
    new = len(wide) - len(dims)
    steps: list[Dim] = [ZERO] * new
    for step, mine, size in zip(block.steps, dims, wide[new:], strict=True):
        if mine != size and mine.constant != 1 and step.terms:
            return None
        steps.append(step if mine == size else ZERO)
    return replace(block, size=wide[0] if wide else block.size, steps=tuple(steps))
