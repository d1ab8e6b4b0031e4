"""Types as text.

Names of variables are chosen for the reader: the one that the program gave, if no other variable
of the type has it, and otherwise the next letter that is free.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterator

from tawa.functional.terms import Among, Con, Constraint, Scheme, Term, Variable


class TypePrinter:
    """Prints types, giving each variable one name throughout.

    A language overrides `term` for the kinds of terms it adds and `constraint` for its
    constraints.
    """

    prefix = {"type": "'"}
    """What stands before the names of a kind's variables."""

    alphabets = {"type": string.ascii_lowercase}
    """The letters for a kind's variables."""

    def __init__(self, like: TypePrinter | None = None) -> None:
        self._names: dict[Variable, str] = {} if like is None else dict(like._names)
        self._used: set[str] = set() if like is None else set(like._used)

    def call(self, variable: Variable, name: str) -> None:
        """Let a variable have a name, whoever else may have it."""
        self._names[variable] = name
        self._used.add(name)

    def named_variables(self) -> Iterator[Variable]:
        """The variables that have a name so far."""
        yield from self._names

    def name(self, variable: Variable) -> str:
        """The variable's name in this text."""
        known = self._names.get(variable)
        if known is not None:
            return known
        prefix = self.prefix.get(variable.kind, "")
        for candidate in self._candidates(variable):
            if prefix + candidate not in self._used:
                self._used.add(prefix + candidate)
                self._names[variable] = prefix + candidate
                return prefix + candidate
        raise AssertionError("the candidates never end")

    def _candidates(self, variable: Variable) -> Iterator[str]:
        if variable.hint:
            yield variable.hint.lstrip("'")
        letters = self.alphabets.get(variable.kind, string.ascii_lowercase)
        if not variable.hint:
            yield from letters
        for number in itertools.count(1):
            base = [variable.hint.lstrip("'")] if variable.hint else letters
            yield from (f"{letter}{number}" for letter in base)

    def type(self, term: Term) -> str:
        """A whole type."""
        if isinstance(term, Con) and term.name == "->":
            parameter, result = term.arguments
            return f"{self.operand(parameter)} -> {self.type(result)}"
        return self.operand(term)

    def operand(self, term: Term) -> str:
        """A type on the left of an arrow: parenthesised if it is one itself."""
        if not isinstance(term, Con):
            return self.term(term)
        if term.name == "->":
            return f"({self.type(term)})"
        if term.name == "tuple":
            return f"({', '.join(self.type(item) for item in term.arguments)})"
        return self.applied(term)

    def applied(self, term: Con) -> str:
        """A constructor that is neither an arrow nor a tuple."""
        if not term.arguments:
            return term.name
        return f"{term.name}[{', '.join(self.type(item) for item in term.arguments)}]"

    def term(self, term: Term) -> str:
        """A term that isn't a constructor."""
        if isinstance(term, Variable):
            return self.name(term)
        return str(term)

    def constraint(self, constraint: Constraint) -> str | None:
        """A condition, or None for one that isn't worth showing."""
        if isinstance(constraint, Among):
            return f"{constraint.label} {self.type(constraint.term)}"
        return str(constraint)

    def scheme(self, scheme: Scheme) -> str:
        """A type with its conditions: `'a -> 'a where num 'a`."""
        text = self.type(scheme.type)
        shown = dict.fromkeys(self.constraint(constraint) for constraint in scheme.constraints)
        conditions = [condition for condition in shown if condition is not None]
        return f"{text} where {', '.join(conditions)}" if conditions else text
