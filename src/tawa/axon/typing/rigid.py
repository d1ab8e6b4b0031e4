"""Named sizes are rigid: those of one definition are different, and none is a number.

A name in an annotation says that the size may be anything. If the body only works where it is 3, or
where it is another name's size, then the annotation or the body is wrong. That a size is a multiple
of something is no contradiction: it stays in the type as a condition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tawa.axon.sizes.choices import largest_options
from tawa.axon.sizes.constraints import Compatible, Equal
from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.requirements import reasons
from tawa.axon.sizes.show import AxonPrinter
from tawa.axon.sizes.solver import AxonSolver
from tawa.axon.typing.errors import NamedSizesAgree
from tawa.base.source import Span
from tawa.functional.terms import Constraint, Origin, Variable

MOST_PLACES = 1
"""Of the places that together fix a size, how many a message shows besides the first."""

WRITTEN = ("annotation", "result", "size")
"""Demands that only say what an annotation does: the mistake is where they are broken."""


@dataclass(frozen=True)
class Identified:
    """A named size that turned out to be `value`: a number, or an expression of other names."""

    name: str
    value: Dim


def identified(solver: AxonSolver, names: dict[str, Variable]) -> Identified | None:
    """The first named size that isn't free, if there is one."""
    seen: dict[Dim, str] = {}
    free = {solver.dim(Dim.of(variable)).sole_variable for variable in names.values()}
    for name, variable in names.items():
        value = solver.dim(Dim.of(variable))
        if value in seen:
            return Identified(name, Dim.of(names[seen[value]]))
        if value.sole_variable is None and free.issuperset(value.variables()):
            return Identified(name, value)
        seen[value] = name
    return None


@dataclass(frozen=True)
class Stretched:
    """A named size that has to be 1 or another name's, as it is broadcast to that at `origin`."""

    name: str
    to: str
    origin: Origin


def stretched(solver: AxonSolver, names: dict[str, Variable]) -> Stretched | None:
    """The first named size that must be 1 or what another name says, if there is one.

    `b` and `c` may broadcast: that they do stays as a condition. But where the result has to be as
    large as `c` says, `b` is no size of its own.
    """
    named = {solver.dim(Dim.of(variable)): name for name, variable in names.items()}
    for constraint in solver.waiting():
        if not isinstance(constraint, Equal):
            continue
        difference = solver.dim(constraint.left) - solver.dim(constraint.right)
        for options, other in _maxima(difference):
            others = [option for option in options if option != other]
            if other in named and all(option in named for option in others):
                pair = {others[0], other}
                return Stretched(
                    named[others[0]], named[other], _broadcast(solver, pair, constraint)
                )
    return None


def _maxima(difference: Dim) -> Iterator[tuple[tuple[Dim, ...], Dim]]:
    """The options of each maximum in a difference that is 0, and what the maximum thereby is."""
    for monomial, c in difference.terms:
        options = largest_options(Dim(((monomial, 1),)))
        rest = tuple((other, -d) for other, d in difference.terms if other != monomial)
        if options and all(d % c == 0 for _, d in rest):
            yield options, Dim(tuple((other, d // c) for other, d in rest))


def _broadcast(solver: AxonSolver, pair: set[Dim], otherwise: Constraint) -> Origin:
    """The operator that broadcasts two sizes."""
    for constraint in solver.waiting():
        if isinstance(constraint, Compatible) and pair <= {
            part
            for side in (constraint.left, constraint.right)
            for part in (solver.dim(side), *largest_options(solver.dim(side)))
        }:
            return constraint.origin
    return otherwise.origin


def stretched_error(found: Stretched, span: Span) -> NamedSizesAgree:
    """The error that names the size, what it is broadcast to, and both places."""
    name, to, what = found.name, found.to, found.origin.what
    return NamedSizesAgree(
        f"`{name}` is 1 or `{to}` here",
        span=found.origin.span,
        expected="two sizes",
        hint=f"the result of {what} has size `{to}` where an operand has `{name}`: move an axis, "
        f"or write `?{name}` if that is meant",
    ).with_note(f"`{name}` is named here", span)


def identified_error(
    found: Identified, solver: AxonSolver, names: dict[str, Variable], spans: dict[Variable, Span]
) -> NamedSizesAgree:
    """The error that names the size, what it is, and both places."""
    variable = names[found.name]
    difference = Dim.of(variable) - found.value
    printer = AxonPrinter()
    for name, other in names.items():
        now = solver.dim(Dim.of(other)).sole_variable
        if now is not None and now not in set(printer.named_variables()):
            printer.call(now, name)
        printer.call(other, name)
    value = printer.dim(found.value)
    number = found.value.constant is not None
    origins = reasons(solver, variable, lambda solved: not solved.dim(difference).terms)
    places = [origin for origin in reversed(origins) if origin.what not in WRITTEN]
    first = places[0] if places else None
    error = NamedSizesAgree(
        f"`{found.name}` is {value} here"
        if number
        else f"`{found.name}` and `{value}` are one size",
        span=spans[variable] if first is None else first.span,
        expected="a size that may be anything" if number else "two sizes",
        hint=f"write {value} for `{found.name}`, or `?{found.name}` if that is meant",
    )
    if first is not None:
        error.with_note(f"by {first.what}; `{found.name}` is named here", spans[variable])
    for other in (v for v in names.values() if v in set(found.value.variables())):
        if spans[other] != spans[variable]:
            error.with_note(f"`{printer.name(other)}` is named here", spans[other])
            break
    for origin in [o for o in places[1:] if o.span != places[0].span][:MOST_PLACES]:
        error.with_note(f"together with {origin.what}", origin.span)
    return error
