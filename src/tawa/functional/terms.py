"""What inference computes with: types, the variables in them, schemes, constraints.

A type is a `Variable` or a `Con`. A language may put terms of its own kinds (Axon: dimensions
and shapes) into the arguments of a `Con`; they implement `Term`, and its solver unifies them.
Terms are immutable: what a variable stands for is known to a `Solver`, so the same terms can be
solved again by another one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tawa.base.source import Span

_ids = itertools.count()


class Term:
    """A type, or something else that occurs in types.

    No abstract base class by name: `isinstance` is asked of terms too often for its price.
    """

    __slots__ = ()

    def variables(self) -> Iterator[Variable]:
        """The variables in the term, left to right, with repetitions."""
        raise NotImplementedError

    def substitute(self, replace: Callable[[Variable], Term | None]) -> Term:
        """The term with each variable replaced, where `replace` doesn't say None."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Variable(Term):
    """An unknown of some kind (`"type"` is the kind of types); equal to itself alone."""

    kind: str = "type"
    hint: str | None = None
    id: int = field(default_factory=lambda: next(_ids))

    def variables(self) -> Iterator[Variable]:
        """Itself."""
        yield self

    def substitute(self, replace: Callable[[Variable], Term | None]) -> Term:
        """What replaces it, or itself."""
        found = replace(self)
        return self if found is None else found

    def __repr__(self) -> str:
        return f"{self.hint or self.kind}${self.id}"


@dataclass(frozen=True, slots=True)
class Con(Term):
    """A type constructor with arguments: `int`, `->`, `tuple`, `dist[float]`."""

    name: str
    arguments: tuple[Term, ...] = ()

    def variables(self) -> Iterator[Variable]:
        """Those of the arguments."""
        for argument in self.arguments:
            yield from argument.variables()

    def substitute(self, replace: Callable[[Variable], Term | None]) -> Term:
        """The constructor with its arguments substituted; the same object if nothing changes."""
        same = True
        arguments: list[Term] = []
        for argument in self.arguments:
            new = argument.substitute(replace)
            same = same and new is argument
            arguments.append(new)
        return self if same else Con(self.name, tuple(arguments))


def arrow(parameter: Term, result: Term) -> Con:
    """The type of functions from `parameter` to `result`."""
    return Con("->", (parameter, result))


def arrows(parameters: list[Term], result: Term) -> Term:
    """The type of curried functions."""
    for parameter in reversed(parameters):
        result = arrow(parameter, result)
    return result


def product(*items: Term) -> Con:
    """The type of tuples."""
    return Con("tuple", items)


@dataclass(frozen=True, slots=True)
class Origin:
    """Why two terms must agree, or why a constraint was made: the place, and what is there.

    `cause` is the reason inside the function that was called at `span`, for what comes from a
    scheme.
    """

    span: Span
    what: str
    cause: Origin | None = None

    def chain(self) -> Iterator[Origin]:
        """This origin and its causes, outermost first."""
        yield self
        if self.cause is not None:
            yield from self.cause.chain()


class Constraint:
    """A demand on terms that can't be decided yet. A language defines its own."""

    __slots__ = ()
    origin: Origin

    def variables(self) -> Iterator[Variable]:
        """The variables that the demand is about; it is tried again when one gets bound."""
        raise NotImplementedError

    def unknowns(self) -> dict[Variable, None]:
        """The variables in order, each once: a set that is not to be changed."""
        return dict.fromkeys(self.variables())

    def substitute(self, replace: Callable[[Variable], Term | None], origin: Origin) -> Constraint:
        """The same demand on other terms, made at another place."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Among(Constraint):
    """The type is built by one of the named constructors (the class `label`, say `num`)."""

    term: Term
    label: str
    names: tuple[str, ...]
    origin: Origin

    def variables(self) -> Iterator[Variable]:
        """Those of the type."""
        return self.term.variables()

    def substitute(self, replace: Callable[[Variable], Term | None], origin: Origin) -> Among:
        """The same demand on another type."""
        return Among(self.term.substitute(replace), self.label, self.names, origin)


@dataclass(frozen=True, slots=True)
class Scheme:
    """A type for all values of `variables` that satisfy `constraints`."""

    variables: tuple[Variable, ...]
    constraints: tuple[Constraint, ...]
    type: Term


@dataclass(frozen=True, slots=True)
class Instance:
    """A use of a scheme: what its variables were replaced by."""

    scheme: Scheme
    mapping: dict[Variable, Variable]
    type: Term
