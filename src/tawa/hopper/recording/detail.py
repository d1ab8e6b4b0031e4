"""How many points of a kernel's program are recorded: fewer cost less, and disturb less.

Of the points that a role could have, `fine` keeps all. `coarse` keeps those around waits that can
be long, a few in each iteration of a loop, and what lies between them becomes one activity of
several parts. `tiles` keeps none in the iterations of inner loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from xdsl.ir import Block, Operation

from tawa.base.timeline import Activity, Segment, combined

POINTS_OF_AN_ITERATION = 3
"""Of an inner loop, at most, where not all points are kept."""

POINTS_OF_A_TILE = 6
"""Of a segment elsewhere."""


@dataclass(frozen=True)
class Place:
    """Before or after an op."""

    op: Operation
    after: bool


@dataclass
class Plan:
    """A segment in the making."""

    role: str
    places: list[Place]
    inner: bool = False
    """Passed in each iteration of a loop that has no loop inside."""
    gaps: list[Activity | None] = field(default_factory=list["Activity | None"])
    lead: Activity | None = None
    trail: Activity | None = None
    tile_begins: bool = False
    tile_ends: bool = False

    def add(self, place: Place, gap: Activity | None) -> None:
        """One more point, and what lies before it."""
        self.places.append(place)
        self.gaps.append(gap)

    @property
    def block(self) -> Block | None:
        """Where its points are."""
        return self.places[0].op.parent

    @property
    def segment(self) -> Segment:
        """What the table says of it."""
        gaps = tuple(self.gaps)
        return Segment(self.role, gaps, self.lead, self.trail, self.tile_begins, self.tile_ends)


def thinned(plans: Sequence[Plan], detail: str) -> list[Plan]:
    """A role's segments with the points of one of `DETAILS`."""
    if detail == "fine":
        return list(plans)
    found: list[Plan] = []
    for plan in plans:
        kept = [] if plan.inner and detail == "tiles" else _kept(plan)
        if not kept and found and _within(plan.block, found[-1].block):
            whole = plan.lead, *plan.gaps, plan.trail
            found[-1].trail = combined((found[-1].trail, *whole))
        else:
            found.append(_reduced(plan, kept or [0]))
    return found


def _within(block: Block | None, outer: Block | None) -> bool:
    """Whether a block is another one, or in a region of one of its ops."""
    while block is not None and block is not outer:
        block = block.parent_block()
    return block is outer


def _reduced(plan: Plan, kept: Sequence[int]) -> Plan:
    """A segment with some of its points."""
    first, last = kept[0], kept[-1]
    gaps = [combined(plan.gaps[a:b]) for a, b in pairwise(kept)]
    return Plan(
        plan.role,
        [plan.places[point] for point in kept],
        plan.inner,
        gaps,
        combined((plan.lead, *plan.gaps[:first])),
        combined((*plan.gaps[last:], plan.trail)),
        plan.tile_begins,
        plan.tile_ends,
    )


def _kept(plan: Plan) -> list[int]:
    """The points of a segment that matter most, in order."""
    most = POINTS_OF_AN_ITERATION if plan.inner else POINTS_OF_A_TILE
    kept: set[int] = set()
    for _, points in sorted(_candidates(plan)):
        if len(kept.union(points)) <= most:
            kept.update(points)
    return sorted(kept)


def _epilogue(kinds: Sequence[str]) -> int:
    """The point where stores of results begin, or else after the last wait for products.

    A point right after that wait would keep the assembler from sharing code with a loop's
    iterations.
    """
    drained = len(kinds) - kinds[::-1].index("wgmma wait")
    return next((at for at in range(drained, len(kinds)) if kinds[at] == "store wait"), drained)


def _issuing_alone(kinds: Sequence[str]) -> range:
    """From a meeting to the arrival that ends it: while one group issues products, others wait.

    What delays it delays them all.
    """
    if "meeting" not in kinds or "arrival" not in kinds:
        return range(0)
    first = kinds.index("meeting")
    return range(first, next((i for i in range(first, len(kinds)) if kinds[i] == "arrival"), first))


def _candidates(plan: Plan) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Points that belong together, and their rank: 0 is for those that are always kept."""
    kinds = [gap.kind if gap is not None else "" for gap in plan.gaps]
    if plan.tile_begins:
        yield 0, (0,)
    if plan.tile_ends:
        yield 0, (len(kinds),)
    if plan.inner and "barrier wait" not in kinds and "wgmma issue" in kinds:
        yield 1, (kinds.index("wgmma issue"),)
    if not plan.inner and "wgmma wait" in kinds:
        yield 1, (_epilogue(kinds),)
    issuing = _issuing_alone(kinds) if plan.inner else range(0)
    for at, kind in enumerate(kinds):
        if at in issuing:
            continue
        if kind == "barrier wait":
            yield 2, (at, at + 1)
            yield 4, (at + 1,)
        elif at == issuing.stop and issuing:
            yield 4, (at + 1,)
        elif kind == "meeting" and kinds.count("meeting") == 1 and not plan.inner:
            yield 3, (at, at + 1)
