"""What a program or model requires of the sizes that the user named, and why.

A size that the solver had to bind is a requirement: "`N` must be 1". The reasons are the smallest
set of demands that implies it, found by solving parts of the solver's log again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tawa.axon.sizes.dims import Dim, content
from tawa.axon.sizes.show import AxonPrinter
from tawa.axon.sizes.solver import AxonSolver
from tawa.functional.mismatch import origin_of, variables_of
from tawa.functional.solver import Clash, Entry, smallest_conflict
from tawa.functional.terms import Constraint, Origin, Variable

NEAREST = 60
"""How many demands near the size are searched first for the reasons."""


@dataclass(frozen=True)
class Requirement:
    """`text` is the demand, `equation` what fixed it, `origins` the places that together do."""

    subject: str
    text: str
    equation: str
    origins: tuple[Origin, ...]

    def __str__(self) -> str:
        places = " and ".join(self.places())
        if not places:
            return self.text
        if self.equation == self.text:
            return f"{self.text}, for {places}"
        verb = "fix" if " and " in places else "fixes"
        return f"{self.text}, because {places} {verb} {self.equation}"

    def places(self) -> list[str]:
        """What is to blame, each operator once."""
        shown = [_place(origin) for origin in self.origins]
        return list(dict.fromkeys(place for place in shown if place is not None))


def _place(origin: Origin) -> str | None:
    """An operator and where it stands; None for what only says what was written."""
    if origin.span.file.split(" ")[-1] in origin.what:
        return origin.what  # a model's node: its span is its name
    called = re.search(r"`[^`]+`", origin.what)
    if called is None or origin.what.startswith(("static", "the default")):
        return None
    return f"{called[0]} at line {origin.span.line}"


def requirements(solver: AxonSolver, sizes: dict[str, Variable]) -> list[Requirement]:
    """What is required of the named sizes, and the undecided conditions on them alone."""
    printer = AxonPrinter()
    bound = solver.bindings.keys() - solver.restated
    for variable in sizes.values():
        if variable not in bound:
            printer.name(variable)
    found: list[Requirement] = []
    for name, variable in sizes.items():
        if variable in bound:
            found.append(_bound(solver, name, variable, printer))
    free = {v for v in sizes.values() if v not in bound}
    texts: set[str] = set()
    for constraint in solver.waiting():
        inner = set(solver.constraint_variables(constraint))
        text = _condition(solver, constraint, printer) if inner and inner <= free else None
        if text is not None and text not in texts:
            texts.add(text)
            subject = printer.name(min(inner, key=lambda v: v.id))
            found.append(Requirement(subject, text, text, (constraint.origin,)))
    return found


def _condition(solver: AxonSolver, constraint: Constraint, printer: AxonPrinter) -> str | None:
    resolved = constraint.substitute(
        lambda v: solver.resolve(v) if v in solver.bindings else None, constraint.origin
    )
    return printer.constraint(resolved)


def _bound(solver: AxonSolver, name: str, variable: Variable, printer: AxonPrinter) -> Requirement:
    value = solver.dim(Dim.of(variable))
    factor = content(value) if value.constant is None and not value.offset else 1
    if value.constant is not None:
        text = f"`{name}` must be {value.constant}"
    elif factor > 1 and not (set(value.variables()) & _named(printer)):
        text = f"`{name}` must be a multiple of {factor}"
    else:
        text = f"`{name}` must be {printer.dim(value)}"

    def implied(solved: AxonSolver) -> bool:
        again = solved.dim(Dim.of(variable))
        if value.constant is not None:
            return again == value
        if factor > 1:
            return content(again) % factor == 0 and not again.offset
        return again.sole_variable is not variable

    origins = reasons(solver, variable, implied)
    return Requirement(name, text, _equation(solver, name, variable, printer), origins)


def _named(printer: AxonPrinter) -> set[Variable]:
    return set(printer.named_variables())


def _equation(solver: AxonSolver, name: str, variable: Variable, printer: AxonPrinter) -> str:
    """The equation that bound a variable, with the variable still in it."""
    fact = solver.facts.get(variable)
    if fact is None:
        return f"`{name}`"
    shown = AxonPrinter(printer)
    shown.call(variable, name)
    positive = Dim(tuple((m, c) for m, c in fact.terms if c > 0))
    return f"{shown.dim(positive)} = {shown.dim(positive - fact)}"


def reasons(
    solver: AxonSolver, variable: Variable, implied: Callable[[AxonSolver], bool]
) -> tuple[Origin, ...]:
    """The places of the smallest set of demands that implies something of a variable."""

    def implies(entries: list[Entry]) -> bool:
        solved = solver.successor()
        return replay(solved, entries) and implied(solved)

    for entries in _near(solver.log, variable):
        if implies(entries):
            found = smallest_conflict(entries, implies)
            return tuple(dict.fromkeys(_outermost(origin_of(entry)) for entry in found))
    reason = solver.reasons.get(variable)
    return () if reason is None else (_outermost(reason),)


def _outermost(origin: Origin) -> Origin:
    return Origin(origin.span, origin.what)


def replay(solver: AxonSolver, entries: Iterable[Entry]) -> bool:
    """Ask a solver all the entries; whether that went well."""
    try:
        for entry in entries:
            if isinstance(entry, Constraint):
                solver.require(entry)
            else:
                solver.unify(*entry)
    except Clash:
        return False
    return True


def _near(log: list[Entry], variable: Variable) -> Iterable[list[Entry]]:
    """Growing parts of the log around the entries that mention a variable."""
    by_variable: dict[object, list[int]] = {}
    for index, entry in enumerate(log):
        for inner in variables_of(entry):
            by_variable.setdefault(inner, []).append(index)
    order = list(by_variable.get(variable, []))
    seen = set(order)
    for index in order:
        linked = {n for v in variables_of(log[index]) for n in by_variable[v]} - seen
        order.extend(sorted(linked))
        seen |= linked
    size = NEAREST
    while True:
        yield [log[i] for i in sorted(order[:size])]
        if size >= len(order):
            return
        size *= 4
