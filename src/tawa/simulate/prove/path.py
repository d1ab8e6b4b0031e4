"""What the actors of one path share, and what one of them raises where it can't go on."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import scf

from tawa.simulate.prove.facts import Facts
from tawa.simulate.prove.unknowns import Number, Sum, Term, Terms, plus, term


class NotProvable(Exception):
    """Something that this proof does not cover; the text says what."""


class Undecided(Exception):
    """A step depends on a condition that the path has not decided."""

    def __init__(self, condition: Term, early: bool = False) -> None:
        super().__init__(condition)
        self.condition = condition
        self.early = early
        """Whether it is to be decided before what the others ask for."""


@dataclass(frozen=True)
class Loop:
    """A loop that an actor is in: its index is `first + n * step`, with `shift` added."""

    op: scf.ForOp
    first: Number
    n: int
    end: Number
    step: Number
    shift: Term | None = None
    """An unknown, 0 at first, that takes up iterations which need no longer be told apart."""
    period: int = 1
    """The factor of the shift."""

    @property
    def index(self) -> Number:
        """The index of this iteration."""
        index = plus(self.first, self.step, self.n)
        return index if self.shift is None else plus(index, term(*self.shift), self.period)


@dataclass
class Path:
    """What the actors of one path share: its decisions, and the unknowns that it has met."""

    facts: Facts
    shifts: dict[Terms, Term]
    """For loops by what is left: an unknown that is still 0."""
    period: int = 1
    unknowns: int = 0
    free: frozenset[int] = frozenset()
    """Wheels of which it does not matter where they stand (`turning.py`)."""
    parked: frozenset[tuple[int, int]] = frozenset()
    """Free wheels that stand still in a CTA, by their number and its rank: nobody in it comes to
    them again."""

    def copy(self) -> Path:
        """The same, to go on from."""
        return Path(
            self.facts.copy(), dict(self.shifts), self.period, self.unknowns, self.free, self.parked
        )

    def unknown(self, kind: str) -> Number:
        """A number of which nothing is known."""
        self.unknowns += 1
        return term("bit", kind, self.unknowns) if kind == "i1" else term("new", self.unknowns)

    def shift(self, left: Sum) -> Term:
        """The unknown that a loop's index is shifted by, common to all loops that run alike.

        Their steps may differ: teams that share the iterations of a loop take longer ones.
        """
        found = self.shifts.get(left.terms)
        if found is None:
            self.unknowns += 1
            found = self.shifts[left.terms] = ("new", self.unknowns)
            self.facts.put(term(*found), (0, 0))
        return found
