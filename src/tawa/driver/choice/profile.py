"""What the choice of options knows of a kernel: work by loop, and what it has to leave alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tawa.base.indices import leading
from tawa.base.tile_scheduler import Work


@dataclass(frozen=True)
class Cost:
    """What a stretch of a program does once, all warps of a CTA together."""

    tensor: float = 0.0
    """Cycles of the tensor core."""
    special: float = 0.0
    """Cycles of the special-function units."""
    ordinary: float = 0.0
    """Cycles of the schedulers for other code."""
    loaded: float = 0.0
    """Bytes that go through rings."""
    stored: float = 0.0
    """Elements of tiles that are stored."""
    turned: float = 0.0
    """Elements of operands that lie across K, and go through registers of the loading role."""


@dataclass(frozen=True)
class Loop:
    """A loop without those inside of it."""

    body: Cost
    counts: tuple[Work, ...]
    """Its iterations and those of the loops around it; a factor that is not known is left out."""
    feeds: bool
    """Whether ordinary code of an iteration waits for its products."""
    makes: bool = False
    """Whether ordinary code makes an operand of its products."""
    gathers: bool = False
    """Whether the computing threads load an operand themselves, an element at an address."""
    guarded: bool = False
    """Whether an iteration may jump over code that changes a tile, as masks at an edge."""


@dataclass(frozen=True)
class Profile:
    """A kernel as the choice sees it, by names and numbers alone."""

    arguments: tuple[str, ...] = ()
    """The run-time arguments, to which `Work` refers by number."""
    ends: Cost = Cost()
    """What a program does outside of loops."""
    loops: tuple[Loop, ...] = ()
    certain: bool = True
    """Whether all loops' iterations follow from the launch."""
    groups: int = 0
    """Warp groups that compute with what others load; 0 where one role does everything."""
    copies: bool = False
    """Whether threads copy tiles through pointers."""
    accumulators: int = 0
    """32-bit words of the products' results, all of one program."""
    made: int = 0
    """32-bit words of the operands that an iteration makes from its products, all at once."""
    ring_bytes: int = 0
    """Of one slot of each ring that loops fill."""
    kept_bytes: int = 0
    """Of one slot of each other ring, and of operands that the computing role copies."""
    staged_bytes: int = 0
    """Of the tile that is stored through shared memory."""
    rows: int = 0
    """Rows of the products' results, of the smallest."""
    apart: bool = False
    """Whether no program can wait for another."""

    by_warps: bool = False
    """Whether warps do all products by themselves, not warp groups."""
    slices: int = 1
    """Teams that may share the iterations of the loop with products, at most; 1 if none may."""

    @property
    def differs(self) -> bool:
        """Whether programs may differ in work."""
        return any(count.differs for loop in self.loops for count in loop.counts)

    def to_json(self) -> str:
        """The profile as JSON text; `from_json` reads it back unchanged."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Profile:
        """Read what `to_json` wrote."""
        found: dict[str, Any] = json.loads(text)
        loops = tuple(map(_loop, found.pop("loops")))
        names = tuple(found.pop("arguments"))
        return Profile(names, Cost(**found.pop("ends")), loops, **found)


def _loop(found: dict[str, Any]) -> Loop:
    body, counts = Cost(**found.pop("body")), tuple(map(_work, found.pop("counts")))
    return Loop(body, counts, **found)


def _work(found: Mapping[str, Any]) -> Work:
    return Work(tuple(tuple(step) for step in found["steps"]))


@dataclass(frozen=True)
class Sizes:
    """The sizes of a launch: the grid, and its whole numbers by the arguments' names."""

    grid: tuple[int, ...]
    numbers: tuple[tuple[str, int], ...] = ()

    @property
    def programs(self) -> int:
        """Programs of the grid."""
        total = 1
        for size in self.grid:
            total *= size
        return total

    def values(self, names: Sequence[str]) -> list[int]:
        """The numbers of arguments in order; 0 for one that is none."""
        known = dict(self.numbers)
        return [known.get(name, 0) for name in names]

    @property
    def rounded(self) -> Sizes:
        """The sizes that stand for these: numbers rounded up to two leading bits.

        So that a length that grows by one at every launch is a new size twice in a doubling.
        """
        return Sizes(self.grid, tuple((name, leading(n)) for name, n in self.numbers))
