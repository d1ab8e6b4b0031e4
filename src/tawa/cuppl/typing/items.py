"""`p.0` where the type of `p` is found out later: a demand that waits until it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tawa.functional.show import TypePrinter
from tawa.functional.terms import Con, Constraint, Origin, Term, Variable

__all__ = ["Item", "ItemPrinter"]


@dataclass(frozen=True, slots=True)
class Item(Constraint):
    """A type is that of a tuple, and `result` the type of its item number `index`."""

    subject: Term
    index: int
    result: Term
    origin: Origin

    def variables(self) -> Iterator[Variable]:
        """Those of both types."""
        yield from self.subject.variables()
        yield from self.result.variables()

    def substitute(self, replace: Callable[[Variable], Term | None], origin: Origin) -> Item:
        """The same demand on other types."""
        subject, result = self.subject.substitute(replace), self.result.substitute(replace)
        return Item(subject, self.index, result, origin)

    def fault(self, subject: Con) -> str | None:
        """What is wrong with a type that is known; None if it has the item."""
        if subject.name != "tuple":
            return f"this is no tuple, so it has no item `.{self.index}`"
        if self.index >= len(subject.arguments):
            return f"the tuple has no item {self.index}: items are counted from 0"
        return None


class ItemPrinter(TypePrinter):
    """Prints `'a -> 'b where 'a.0 : 'b`."""

    def constraint(self, constraint: Constraint) -> str | None:
        """A condition; of an item, what it is."""
        if isinstance(constraint, Item):
            subject, result = self.type(constraint.subject), self.type(constraint.result)
            return f"{subject}.{constraint.index} : {result}"
        return super().constraint(constraint)
